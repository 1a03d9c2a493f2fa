"""A store whose time stands still until it is moved, on every provider: what the tests of transfer stand on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.yardstick.backends import BACKENDS

from tidegate.policy.levels import Level
from tidegate.records.expiry import Expiry
from tidegate.records.limits import Limits
from tidegate.storage.base import StorageProvider
from tidegate.store import Store
from tidegate.tools import TOOLS
from tidegate.transfer.importers.raw_memory import Source
from tidegate.transfer.importing import Imported, Notice, Rules

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AGENT = "assistant"


@dataclass
class Scene:
    """A store, its clock, and a folder for files."""

    provider: StorageProvider
    folder: Path
    now: datetime = NOW
    limits: Limits = field(default_factory=Limits)
    expiry: Expiry = field(default_factory=Expiry)
    audit_reads: bool = False

    def __post_init__(self) -> None:
        numbers = itertools.count()
        self.store = Store(
            self.provider,
            toolset=TOOLS,
            clock=lambda: self.now,
            ids=lambda: f"id-{next(numbers)}",
            limits=self.limits,
            expiry=self.expiry,
            audit_reads=self.audit_reads,
            default_level=Level.PUBLIC,
        )

    def wait(self, seconds: float = 1) -> None:
        self.now += timedelta(seconds=seconds)

    def save(self, key: str, content: str, level: Level = Level.PUBLIC, *tags: str, agent: str = AGENT) -> None:
        self.store.session(agent, level=level).memory.save(key, content, tags)

    def delete(self, key: str, level: Level = Level.PUBLIC, agent: str = AGENT) -> None:
        self.store.session(agent, level=level).memory.delete(key)

    def content(self, key: str, level: Level = Level.PUBLIC, agent: str = AGENT) -> str | None:
        memory = self.store.session(agent, level=level).memory.get(key)
        return memory and memory.content

    def export(self, level: Level = Level.PUBLIC, agent: str = AGENT) -> list[dict[str, Any]]:
        """The lines of an export, parsed: the heading first."""
        lines: list[str] = []
        self.store.transfer(agent).export(level, lines.append)
        return [json.loads(line) for line in lines]

    def file(self, text: str | bytes, name: str = "source.jsonl") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def lines(self, *records: object, name: str = "source.jsonl") -> Path:
        return self.file("".join(json.dumps(record) + "\n" for record in records), name)

    def take(
        self,
        path: Path,
        level: Level = Level.PUBLIC,
        *,
        agent: str = AGENT,
        source: Source | None = None,
        source_agent: str | None = None,
        **rules: bool,
    ) -> Taken:
        """An import, and all that was said of it."""
        notices: list[Notice] = []
        done = self.store.transfer(agent).import_from(
            path, level, source=source, source_agent=source_agent, rules=Rules(**rules), notice=notices.append
        )
        return Taken(done, notices)


@dataclass(frozen=True)
class Taken:
    """What an import did and said."""

    done: Imported
    notices: list[Notice]

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        """Created, updated, unchanged, skipped, refused."""
        done = self.done
        return done.created, done.updated, done.unchanged, done.skipped, done.refused

    @property
    def said(self) -> list[str]:
        return [
            f"{'refused' if notice.refused else 'note'}: {notice.place}: {notice.reason}" for notice in self.notices
        ]


Open = Callable[..., Scene]


def scenes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens scenes, each on a home of its own."""
    opened = []

    def open_scene(**settings: Any) -> Scene:
        backend = BACKENDS[request.param]()
        scene = Scene(backend.provider(), tmp_path, **settings)
        opened.append((scene, backend))
        return scene

    yield open_scene
    for scene, backend in opened:
        scene.store.close()
        backend.close()
