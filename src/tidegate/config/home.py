"""The home: the folder where everything is kept, and the settings that hold there. Nothing here writes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tidegate.config import reader as config
from tidegate.config.channels import ChannelSettings
from tidegate.config.servers import Server
from tidegate.errors import InvalidArgument, StorageError
from tidegate.files import read_small
from tidegate.policy.levels import Level, read_label
from tidegate.records.expiry import Expiry, read_levels, read_tags
from tidegate.records.limits import Limits

Durability = Literal["normal", "full"]

_KEY_BYTES_MIN = 16
_KEY_BYTES_MAX = 64 * 1024
_LEVELS = ("level", "ceiling", "clearance", "model_clearance")
# `scheme:` and, off Windows, `C:`: never a folder that somebody meant.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:" if os.name == "nt" else r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """How the agent talks. model: `provider:model`, or a model at `base_url`, which is an OpenAI-compatible server.

    api_key_env: the variable that holds the key for `base_url`; other providers' keys are in their usual ones.
    level: where a conversation starts. clearance: the highest level that the terminal may show. model_clearance: the
    highest that the model's provider may be told.
    """

    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
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
    channel: str | None = None


@dataclass(frozen=True, slots=True)
class TriggerSettings:
    """When an agent that has a TRIGGER.md wakes by itself: every so many minutes, outside the quiet hours.

    level: where its sessions start. ceiling: how high they may rise.
    """

    every_minutes: int = 30
    quiet: str | None = None
    timezone: str = "UTC"
    level: Level = Level.PUBLIC
    ceiling: Level = Level.RESTRICTED
    channel: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set. durability: of the compartments; the control store is always fully synchronised."""

    limits: Limits = field(default_factory=Limits)
    durability: Durability = "normal"
    audit_reads: bool = False
    audit_key_file: Path | None = None
    expiry: Expiry = field(default_factory=Expiry)
    servers: Mapping[str, Server] = field(default_factory=dict)
    chat: ChatSettings = field(default_factory=ChatSettings)
    run: RunSettings = field(default_factory=RunSettings)
    trigger: TriggerSettings = field(default_factory=TriggerSettings)
    channels: Mapping[str, ChannelSettings] = field(default_factory=dict)

    def audit_secret(self) -> bytes | None:
        """The bytes of the key file exactly as they are; None when no key is configured.

        Raises InvalidArgument when there is no such file, or it is too short or too long: a chain is never left unkeyed
        by accident (P9).
        """
        if self.audit_key_file is None:
            return None
        try:
            secret = read_small(self.audit_key_file, _KEY_BYTES_MAX)
        except (OSError, ValueError):
            raise _bad_key_file(f"cannot be read; write at least {_KEY_BYTES_MIN} random bytes into it") from None
        if not _KEY_BYTES_MIN <= len(secret) <= _KEY_BYTES_MAX:
            raise _bad_key_file(f"must hold at least {_KEY_BYTES_MIN} bytes, and at most {_KEY_BYTES_MAX}")
        return secret


def find(home: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The absolute path of the home: `home`, else $TIDEGATE_HOME, else the platform's user data folder.

    It need not exist. A path is a path: nothing in it is read as a URI; a leading `~` is the user's folder.
    Raises InvalidArgument when there is none to be had, or what is named cannot be a folder; StorageError when it
    cannot be looked at.
    """
    if home is not None and not isinstance(home, str | Path):
        raise _bad_home("must be a string or a Path")  # of bytes, say, `str` would make another name
    named = environ.get("TIDEGATE_HOME") or None if home is None else str(home)
    path = _default(environ) if named is None else _named(named)
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            raise _bad_home("is not a folder")
    except FileNotFoundError:
        return path  # it is made when something is first saved
    except NotADirectoryError:
        raise _bad_home("lies below a file") from None
    except OSError:
        raise StorageError("home: cannot be read") from None
    return path


def load(home: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a home: environment over file over default, the file checked whole.

    Raises InvalidArgument, which names file, line and key, or the variable; StorageError when the file cannot be read.
    """
    chosen = config.read(home / config.CONFIG_NAME, environ)
    audit, expiry = chosen["audit"], chosen["expiry"]
    return Settings(
        limits=Limits(**chosen["limits"]),
        durability=chosen["storage"].get("durability", "normal"),
        audit_reads=audit.get("reads", False),
        audit_key_file=home / os.path.expanduser(audit["key_file"]) if "key_file" in audit else None,
        expiry=Expiry(read_tags(expiry.get("tags", {})), read_levels(expiry.get("levels", {}))),
        servers=chosen["servers"],
        chat=ChatSettings(**_with_levels(chosen["chat"])),
        run=RunSettings(**_with_channel("run", chosen)),
        trigger=_trigger(_with_channel("trigger", chosen)),
        channels=chosen["channels"],
    )


def _trigger(chosen: Mapping[str, Any]) -> TriggerSettings:
    trigger = TriggerSettings(**_with_levels(chosen))
    if not trigger.level.can_flow_to(trigger.ceiling):
        raise InvalidArgument("trigger.ceiling: cannot be below trigger.level", argument="trigger.ceiling")
    return trigger


def _with_channel(section: str, chosen: config.Chosen) -> Mapping[str, Any]:
    """A section whose channel is one that is configured: nothing is guessed."""
    name = chosen[section].get("channel")
    if name is not None and name not in chosen["channels"]:
        known = ", ".join(chosen["channels"]) or "none"
        argument = f"{section}.channel"
        raise InvalidArgument(f"{argument}: there is no [channels.{name}]; there: {known}", argument=argument)
    return chosen[section]


def _with_levels(chosen: Mapping[str, Any]) -> dict[str, Any]:
    return {key: read_label(value) if key in _LEVELS else value for key, value in chosen.items()}


def _default(environ: Mapping[str, str]) -> Path:
    from platformdirs import user_data_path

    hint = "set TIDEGATE_HOME or give --home"
    user = environ.get("HOME", "")
    if os.path.isabs(user) and not os.path.isdir(user) and not os.path.isabs(environ.get("XDG_DATA_HOME", "")):
        raise _bad_home(f"the user's own folder does not exist; {hint}")
    try:
        path = user_data_path("tidegate", appauthor=False)
    except RuntimeError:
        raise _bad_home(f"the user has no folder; {hint}") from None
    if not path.is_absolute():
        raise _bad_home(f"the user has no folder; {hint}")
    return path


def _named(text: str) -> Path:
    expanded = os.path.expanduser(text) if text.startswith("~") else text
    if not expanded.strip() or "\0" in expanded:
        raise _bad_home("must be the path of a folder")
    if expanded.startswith("~"):
        raise _bad_home("'~' does not name a user's folder here")
    if _SCHEME.match(expanded):
        raise _bad_home("is a folder, not a URL or drive; begin with './' for a folder with such a name")
    try:
        os.fsencode(expanded)
        expanded.encode()
    except UnicodeEncodeError:
        raise _bad_home("this locale cannot name that folder; set PYTHONUTF8=1") from None
    return Path(os.path.abspath(expanded))


def _bad_key_file(reason: str) -> InvalidArgument:
    return InvalidArgument(f"audit.key_file: {reason}", argument="audit.key_file")


def _bad_home(reason: str) -> InvalidArgument:
    return InvalidArgument(f"home: {reason}", argument="home")
