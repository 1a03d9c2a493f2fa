"""Tidegate: persistent memory for AI agents that cannot leak downward."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from tidegate.audit.anchors import Anchor
    from tidegate.audit.chain import Action, AuditEvent, Entry
    from tidegate.audit.verify import ChainProblem, ChainVerdict
    from tidegate.core.context import Context
    from tidegate.core.conversation import Conversation, Message
    from tidegate.core.sessions import Sessions
    from tidegate.core.todos import SessionTodos
    from tidegate.errors import InvalidArgument, LimitExceeded, NotFound, Refused, StorageError, TidegateError
    from tidegate.jobs.job import DeliveryState, Job, Plan, Run, RunState
    from tidegate.jobs.session_jobs import SessionJobs
    from tidegate.owner.audit_query import AuditFilter, AuditLine
    from tidegate.owner.owner import Erased, Owner
    from tidegate.policy.decisions import PolicyRule
    from tidegate.policy.levels import Level
    from tidegate.records.limits import Limits
    from tidegate.records.memory import (
        Deleted,
        Explanation,
        Hit,
        Hits,
        Memory,
        Page,
        Saved,
        SavedWithSimilar,
        ScoreParts,
        SimilarKey,
        Status,
    )
    from tidegate.records.record import Origin, RecordKind
    from tidegate.records.todo import Todo, TodoState
    from tidegate.records.version import Pinned, Purged, Relabelled, Restored, Version, VersionState
    from tidegate.session import Listing, Session, SessionMemory
    from tidegate.storage.control import SessionRow
    from tidegate.store import Store
    from tidegate.transfer.backup import BackedUp
    from tidegate.transfer.export import Exported
    from tidegate.transfer.importers.raw_memory import Source
    from tidegate.transfer.importing import Imported, Notice, Rules
    from tidegate.transfer.transfer import Transfer

    __version__: str
else:
    # Loaded on first use: `tidegate --help` imports this package and must not wait for the engine.
    _NAMES = {
        "tidegate.audit.anchors": "Anchor",
        "tidegate.audit.chain": "Action AuditEvent Entry",
        "tidegate.audit.verify": "ChainVerdict ChainProblem",
        "tidegate.core.context": "Context",
        "tidegate.core.conversation": "Conversation Message",
        "tidegate.core.sessions": "Sessions",
        "tidegate.core.todos": "SessionTodos",
        "tidegate.errors": "InvalidArgument LimitExceeded NotFound Refused StorageError TidegateError",
        "tidegate.jobs.job": "DeliveryState Job Plan Run RunState",
        "tidegate.jobs.session_jobs": "SessionJobs",
        "tidegate.owner.audit_query": "AuditFilter AuditLine",
        "tidegate.owner.owner": "Erased Owner",
        "tidegate.policy.decisions": "PolicyRule",
        "tidegate.policy.levels": "Level",
        "tidegate.records.limits": "Limits",
        "tidegate.records.memory": (
            "Deleted Explanation Hit Hits Memory Page Saved SavedWithSimilar ScoreParts SimilarKey Status"
        ),
        "tidegate.records.record": "Origin RecordKind",
        "tidegate.records.todo": "Todo TodoState",
        "tidegate.records.version": "Pinned Purged Relabelled Restored Version VersionState",
        "tidegate.session": "Listing Session SessionMemory",
        "tidegate.storage.control": "SessionRow",
        "tidegate.store": "Store",
        "tidegate.transfer.backup": "BackedUp",
        "tidegate.transfer.importers.raw_memory": "Source",
        "tidegate.transfer.importing": "Imported Notice Rules",
        "tidegate.transfer.export": "Exported",
        "tidegate.transfer.transfer": "Transfer",
    }
    _MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        value: object
        if name == "__version__":
            value = import_module("importlib.metadata").version("tidegate")
        elif name in _MODULES:
            value = getattr(import_module(_MODULES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES, "__version__"})


__all__ = [
    "Action",
    "Anchor",
    "AuditEvent",
    "AuditFilter",
    "AuditLine",
    "BackedUp",
    "ChainProblem",
    "ChainVerdict",
    "Context",
    "Conversation",
    "Deleted",
    "DeliveryState",
    "Entry",
    "Erased",
    "Explanation",
    "Exported",
    "Hit",
    "Hits",
    "Imported",
    "InvalidArgument",
    "Job",
    "Level",
    "LimitExceeded",
    "Limits",
    "Listing",
    "Memory",
    "Message",
    "NotFound",
    "Notice",
    "Origin",
    "Owner",
    "Page",
    "Pinned",
    "Plan",
    "PolicyRule",
    "Purged",
    "RecordKind",
    "Refused",
    "Relabelled",
    "Restored",
    "Rules",
    "Run",
    "RunState",
    "Saved",
    "SavedWithSimilar",
    "ScoreParts",
    "Session",
    "SessionJobs",
    "SessionMemory",
    "SessionRow",
    "SessionTodos",
    "Sessions",
    "SimilarKey",
    "Source",
    "Status",
    "StorageError",
    "Store",
    "TidegateError",
    "Todo",
    "TodoState",
    "Transfer",
    "Version",
    "VersionState",
    "open",
    "open_in_memory",
]


def open(  # noqa: A001 - the name of the contract; read `tidegate.open`
    home: str | Path | None = None,
    *,
    clock: Callable[[], datetime] | None = None,
    ids: Callable[[], str] | None = None,
) -> Store:
    """Open the store in a folder, which the first save creates.

    home: by default $TIDEGATE_HOME, else the user's data folder.
    clock: returns the current time, with a time zone; by default the system's. ids: returns a fresh string at each
    call, from which every id and nonce is made; by default random.
    Raises: InvalidArgument (home, settings), StorageError.
    """
    from tidegate.config.home import find_home
    from tidegate.config.reader import read_settings
    from tidegate.storage.base import fresh_id
    from tidegate.storage.sqlite.provider import SqliteProvider
    from tidegate.store import Store, utc_now
    from tidegate.tools import AGENT_TOOLS

    folder = find_home(home)
    settings = read_settings(folder)
    ids = ids or fresh_id
    provider = SqliteProvider(folder, durability=settings.storage.durability, secret=settings.audit.secret(), ids=ids)
    return Store(
        provider,
        toolset=AGENT_TOOLS,
        clock=clock or utc_now,
        ids=ids,
        limits=settings.limits,
        audit_reads=settings.audit.reads,
        expiry=settings.expiry,
        default_level=settings.defaults.level,
    )


def open_in_memory(*, clock: Callable[[], datetime] | None = None, ids: Callable[[], str] | None = None) -> Store:
    """Open a new store in memory only, for tests, with the same policy.

    clock, ids: as in `open`.
    """
    from tidegate.storage.base import fresh_id
    from tidegate.storage.inmemory.provider import InMemoryProvider
    from tidegate.store import Store, utc_now
    from tidegate.tools import AGENT_TOOLS

    ids = ids or fresh_id
    return Store(InMemoryProvider(ids=ids), toolset=AGENT_TOOLS, clock=clock or utc_now, ids=ids)
