"""What can be set in `config.toml`: a dataclass a section, each field with what it may be and its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tidegate.config.channels import ChannelSettings
from tidegate.config.kinds import CHANNEL, FILE, QUIET, TEXT, URL, VARIABLE, ZONE
from tidegate.config.servers import Server
from tidegate.errors import InvalidArgument
from tidegate.files import read_small
from tidegate.policy.levels import Level
from tidegate.records.expiry import Expiry
from tidegate.records.limits import Limits

Durability = Literal["normal", "full"]

_KEY_BYTES_MIN = 16
_KEY_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """How memories are kept. durability: of the compartments; the control store is always fully synchronised."""

    durability: Durability = "normal"


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """What the audit enters, and the file with its key. reads: whether reads are entered, too."""

    reads: bool = False
    key_file: Annotated[Path | None, FILE] = None

    def secret(self) -> bytes | None:
        """Return the bytes of the key file exactly as they are; None when no key is configured.

        Raises InvalidArgument when there is no such file, or it is too short or too long: a chain is never left unkeyed
        by accident (P9).
        """
        if self.key_file is None:
            return None
        try:
            secret = read_small(self.key_file, _KEY_BYTES_MAX)
        except (OSError, ValueError):
            raise _bad_key_file(f"cannot be read; write at least {_KEY_BYTES_MIN} random bytes into it") from None
        if not _KEY_BYTES_MIN <= len(secret) <= _KEY_BYTES_MAX:
            raise _bad_key_file(f"must hold at least {_KEY_BYTES_MIN} bytes, and at most {_KEY_BYTES_MAX}")
        return secret


def _bad_key_file(reason: str) -> InvalidArgument:
    return InvalidArgument(f"audit.key_file: {reason}", argument="audit.key_file")


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """How the agent talks. model: `provider:model`, or a model at `base_url`, which is an OpenAI-compatible server.

    api_key_env: the variable that holds the key for `base_url`; other providers' keys are in their usual ones.
    level: where a conversation starts. clearance: the highest level that the terminal may show. model_clearance: the
    highest that the model's provider may be told.
    """

    model: Annotated[str | None, TEXT] = None
    base_url: Annotated[str | None, URL] = None
    api_key_env: Annotated[str | None, VARIABLE] = None
    level: Level = Level.INTERNAL  # what an owner types at their own terminal is not public
    clearance: Level = Level.RESTRICTED
    model_clearance: Level = Level.RESTRICTED
    history_chars_max: int = 48_000
    context_chars_max: int = 8_000


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How wake-ups run. grace_minutes: how late one may start. time_limit_minutes: after which a run is stopped.

    lease_seconds: how long a run shows no sign of life before it counts as interrupted. rerun_interrupted: once, then.
    channel: where results go that name none; None: they are only kept.
    """

    grace_minutes: int = 60
    time_limit_minutes: int = 15
    lease_seconds: int = 60
    rerun_interrupted: bool = True
    channel: Annotated[str | None, CHANNEL] = None


@dataclass(frozen=True, slots=True)
class TriggerSettings:
    """When an agent that has a TRIGGER.md wakes by itself: every so many minutes, outside the quiet hours.

    level: where its sessions start. ceiling: how high they may rise.
    """

    every_minutes: int = 30
    quiet: Annotated[str | None, QUIET] = None
    timezone: Annotated[str, ZONE] = "UTC"
    level: Level = Level.PUBLIC
    ceiling: Level = Level.RESTRICTED
    channel: Annotated[str | None, CHANNEL] = None


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections, in the order in which messages list them."""

    limits: Limits = field(default_factory=Limits)
    storage: StorageSettings = field(default_factory=StorageSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    expiry: Expiry = field(default_factory=Expiry)
    chat: ChatSettings = field(default_factory=ChatSettings)
    run: RunSettings = field(default_factory=RunSettings)
    trigger: TriggerSettings = field(default_factory=TriggerSettings)
    servers: Mapping[str, Server] = field(default_factory=dict)
    channels: Mapping[str, ChannelSettings] = field(default_factory=dict)
