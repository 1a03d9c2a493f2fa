"""Where a world keeps its store: one small class a provider, so that every check runs on all of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path

from tidegate.storage.base import StorageProvider
from tidegate.storage.inmemory import InMemoryProvider


class Backend(ABC):
    """A home that can be opened again and again, and emptied."""

    name: str

    @abstractmethod
    def provider(self) -> StorageProvider:
        """The provider, opened on what the home holds."""

    @abstractmethod
    def erase(self) -> None:
        """Start on an empty home. Nothing may be open."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""


class InMemoryBackend(Backend):
    """One provider, kept: closing it forgets nothing."""

    name = "inmemory"

    def __init__(self) -> None:
        self._provider = InMemoryProvider()

    def provider(self) -> StorageProvider:
        return self._provider

    def erase(self) -> None:
        self._provider = InMemoryProvider()

    def close(self) -> None:
        self.erase()


class SqliteBackend(Backend):
    """Files, in memory where the system offers it: what is measured here is what is in them, not the disk."""

    name = "sqlite"

    def __init__(self) -> None:
        shared = Path("/dev/shm")
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-", dir=shared if os.access(shared, os.W_OK) else None))
        self.home = self._folder / "home"

    def provider(self) -> StorageProvider:
        from tidegate.storage.sqlite import SqliteProvider

        return SqliteProvider(self.home, durability="normal")

    def erase(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


BACKENDS: dict[str, type[Backend]] = {backend.name: backend for backend in (InMemoryBackend, SqliteBackend)}
