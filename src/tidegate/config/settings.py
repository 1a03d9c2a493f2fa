"""The settings of `config.toml`: one dataclass per section, each field with its kind and its default."""

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

DEFAULT_LEVEL = Level.INTERNAL
"""The level of new sessions in a home that sets none. What an owner tells an agent is not public."""

_KEY_BYTES_MIN = 16
_KEY_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class DefaultSettings:
    """What applies where nothing else is said. level: of a new session; one that exists keeps its taint."""

    level: Level = DEFAULT_LEVEL


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """How memories are stored. durability: of the compartments; the control store is always fully synchronised."""

    durability: Durability = "normal"


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The entries of the audit, and the file with its key. reads: whether reads are entered too."""

    reads: bool = False
    key_file: Annotated[Path | None, FILE] = None

    def secret(self) -> bytes | None:
        """Return the exact bytes of the key file; None if no key is configured.

        Raises: InvalidArgument if the file is missing, too short or too long: a chain never stays unkeyed by accident
        (P9).
        """
        if self.key_file is None:
            return None
        try:
            secret = read_small(self.key_file, _KEY_BYTES_MAX)
        except (OSError, ValueError):
            raise _bad_key_file(
                "cannot be read; check its path and permissions (for a new key only: write at least "
                f"{_KEY_BYTES_MIN} random bytes into a new file)"
            ) from None
        if not _KEY_BYTES_MIN <= len(secret) <= _KEY_BYTES_MAX:
            raise _bad_key_file(f"must hold at least {_KEY_BYTES_MIN} bytes, and at most {_KEY_BYTES_MAX}")
        return secret


def _bad_key_file(reason: str) -> InvalidArgument:
    return InvalidArgument(f"audit.key_file: {reason}", argument="audit.key_file")


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """How the agent talks. model: `provider:model`, or a model at `base_url`, which is an OpenAI-compatible server.

    api_key_env: the variable that holds the key for `base_url`; other providers' keys are in their usual variables.
    level: the first level of a conversation; by default `defaults.level`. clearance: the highest level that the
    terminal may show. model_clearance: the highest level that may be sent to the model's provider.
    """

    model: Annotated[str | None, TEXT] = None
    base_url: Annotated[str | None, URL] = None
    api_key_env: Annotated[str | None, VARIABLE] = None
    level: Level = DEFAULT_LEVEL
    clearance: Level = Level.RESTRICTED
    model_clearance: Level = Level.RESTRICTED
    history_chars_max: int = 48_000
    context_chars_max: int = 8_000


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How wake-ups run. grace_minutes: how late a run may start. time_limit_minutes: when a run is stopped.

    lease_seconds: how long a run may show no sign of life before it counts as interrupted. rerun_interrupted: whether
    an interrupted run is repeated once. channel: for results of jobs without a channel; None: results are only kept.
    """

    grace_minutes: int = 60
    time_limit_minutes: int = 15
    lease_seconds: int = 60
    rerun_interrupted: bool = True
    channel: Annotated[str | None, CHANNEL] = None


@dataclass(frozen=True, slots=True)
class TriggerSettings:
    """When an agent with a TRIGGER.md wakes without a job: every `every_minutes`, outside the quiet hours.

    level: the first taint of its sessions; by default `defaults.level`. ceiling: how high they may rise.
    """

    every_minutes: int = 30
    quiet: Annotated[str | None, QUIET] = None
    timezone: Annotated[str, ZONE] = "UTC"
    level: Level = DEFAULT_LEVEL
    ceiling: Level = Level.RESTRICTED
    channel: Annotated[str | None, CHANNEL] = None


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections, in the order in which messages list them."""

    defaults: DefaultSettings = field(default_factory=DefaultSettings)
    limits: Limits = field(default_factory=Limits)
    storage: StorageSettings = field(default_factory=StorageSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    expiry: Expiry = field(default_factory=Expiry)
    chat: ChatSettings = field(default_factory=ChatSettings)
    run: RunSettings = field(default_factory=RunSettings)
    trigger: TriggerSettings = field(default_factory=TriggerSettings)
    servers: Mapping[str, Server] = field(default_factory=dict)
    channels: Mapping[str, ChannelSettings] = field(default_factory=dict)
