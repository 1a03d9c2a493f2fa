"""Where a world keeps its store: one small class a provider, so that every check runs on all of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path

import apsw

from tidegate.policy.levels import Level
from tidegate.storage.base import StorageProvider
from tidegate.storage.inmemory import InMemoryProvider
from tidegate.storage.sqlite import SqliteProvider


def _one_id() -> str:
    """The id of every compartment. At random it would tell nobody anything, and two worlds apart."""
    return "compartment"


class Backend(ABC):
    """A home that can be opened again and again, and emptied."""

    name: str
    parts: int
    """How many random traces share a store: where opening one costs more than a trace, some follow one another."""

    @abstractmethod
    def provider(self) -> StorageProvider:
        """The provider, opened on what the home holds."""

    @abstractmethod
    def erase(self, agents: Collection[str] = ()) -> None:
        """Start on an empty home, where these agents have their compartments already. Nothing may be open."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""


class InMemoryBackend(Backend):
    """One provider, kept: closing it forgets nothing."""

    name = "inmemory"
    parts = 1

    def __init__(self) -> None:
        self._provider = InMemoryProvider(ids=_one_id)

    def provider(self) -> StorageProvider:
        return self._provider

    def erase(self, agents: Collection[str] = ()) -> None:
        self._provider = InMemoryProvider(ids=_one_id)

    def close(self) -> None:
        self.erase()


class SqliteBackend(Backend):
    """Files, in memory where the system offers it: what is measured here is what is in them, not the disk."""

    name = "sqlite"
    parts = 10

    def __init__(self) -> None:
        shared = Path("/dev/shm")
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-", dir=shared if os.access(shared, os.W_OK) else None))
        self._empty = self._folder / "empty"
        self.home = self._folder / "home"

    def provider(self) -> StorageProvider:
        return SqliteProvider(self.home, durability="normal", ids=_one_id)

    def erase(self, agents: Collection[str] = ()) -> None:
        """Copies of files that the provider made, since copying four takes a tenth of the time of making them."""
        shutil.rmtree(self.home, ignore_errors=True)
        for agent in agents:
            shutil.copytree(self._made(agent), self.home / "agents" / agent)
        if agents:
            shutil.copy2(self._empty / "control.db", self.home)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def file(self, agent: str, level: Level) -> bytes:
        """A compartment's file after all of its log is written back. Nothing may be open."""
        path = self.home / "agents" / agent / f"{level.name.lower()}.db"
        connection = apsw.Connection(str(path))
        connection.execute("SELECT * FROM sqlite_schema").fetchall()  # without a read the log is not looked for
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()
        return path.read_bytes()

    def _made(self, agent: str) -> Path:
        folder = self._empty / "agents" / agent
        if not folder.exists():
            provider = SqliteProvider(self._empty, durability="normal", ids=_one_id)
            with provider.writable_view(agent, Level.PUBLIC):
                pass
            provider.close()
        return folder


BACKENDS: dict[str, type[Backend]] = {backend.name: backend for backend in (InMemoryBackend, SqliteBackend)}
