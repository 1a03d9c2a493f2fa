"""Where a world keeps its store: one small class a provider, so that every check runs on all of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import apsw

from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.storage.base import OwnerCompartment, StorageProvider, Witness
from tidegate.storage.inmemory.provider import InMemoryCompartment, InMemoryProvider
from tidegate.storage.sqlite.connection import close
from tidegate.storage.sqlite.files import open_audit
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.storage.sqlite.witness import SqliteWitness


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
    def control(self) -> object:
        """A copy of the control store. Nothing may be open."""

    @abstractmethod
    def put_back(self, copy: Any) -> None:
        """Put an older copy of the control store in its place. Nothing may be open."""

    @abstractmethod
    def lose(self, agent: str, level: Level) -> None:
        """Lose the file of a compartment. Nothing may be open."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""


class LosingProvider(InMemoryProvider):
    """Compartments of which some are lost, as a file that is gone."""

    def __init__(self) -> None:
        super().__init__(ids=_one_id)
        self.lost: set[tuple[str, Level]] = set()

    def _visible(self, agent: str, taint: Level) -> tuple[InMemoryCompartment, ...]:
        self._require_there(agent, (level for level in Level if level.can_flow_to(taint)))
        return super()._visible(agent, taint)

    @contextmanager
    def owner_compartment(self, agent: str, level: Level) -> Iterator[OwnerCompartment]:
        self._require_there(agent, [level])
        with super().owner_compartment(agent, level) as owner_compartment:
            yield owner_compartment

    def erase(self, agent: str, *, dry_run: bool) -> list[Level]:
        there = [level for level in super().erase(agent, dry_run=dry_run) if (agent, level) not in self.lost]
        if not dry_run:
            self.lost = {place for place in self.lost if place[0] != agent}
        return there

    def _require_there(self, agent: str, levels: Iterable[Level]) -> None:
        if any((agent, level) in self.lost for level in levels):
            raise StorageError("a database is missing; run `tidegate doctor`")


class ForgivingProvider(SqliteProvider):
    """Opens named sessions also where a chain is lost.

    That such an opening is refused, whatever the level, is no question of what may be seen (P17): without this it would
    hide in every history with a loss what the calls after it are answered.
    """

    @contextmanager
    def witnesses(self, agent: str) -> Iterator[Sequence[Witness]]:
        files = self._files
        if all(files.compartment(agent, level).exists() for level in Level):
            with super().witnesses(agent) as all_of_them:
                yield all_of_them
            return
        with ExitStack() as open_ones:
            found: list[Witness] = []
            for level in Level:
                path = files.compartment(agent, level)
                if path.exists():
                    db = open_audit(path, agent, level)
                    open_ones.callback(close, db)
                    found.append(SqliteWitness(db, level))
            yield found


class InMemoryBackend(Backend):
    """One provider, kept: closing it forgets nothing."""

    name = "inmemory"
    parts = 1

    def __init__(self) -> None:
        self._provider = LosingProvider()

    def provider(self) -> StorageProvider:
        return self._provider

    def erase(self, agents: Collection[str] = ()) -> None:
        self._provider = LosingProvider()

    def lose(self, agent: str, level: Level) -> None:
        self._provider.lost.add((agent, level))

    def control(self) -> object:
        return dict(self._provider.control._rows)

    def put_back(self, copy: Any) -> None:
        self._provider.control._rows = dict(copy)

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
        return ForgivingProvider(self.home, durability="normal", ids=_one_id)

    def erase(self, agents: Collection[str] = ()) -> None:
        """Copies of files that the provider made, since copying four takes a tenth of the time of making them."""
        shutil.rmtree(self.home, ignore_errors=True)
        for agent in agents:
            shutil.copytree(self._made(agent), self.home / "agents" / agent)
        if agents:
            shutil.copy2(self._empty / "control.db", self.home)

    def control(self) -> object:
        path = self.home / "control.db"
        return path.read_bytes() if path.exists() else None

    def put_back(self, copy: Any) -> None:
        if copy is not None:
            (self.home / "control.db").write_bytes(copy)

    def lose(self, agent: str, level: Level) -> None:
        path = self.home / "agents" / agent / f"{level.name.lower()}.db"
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)

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
