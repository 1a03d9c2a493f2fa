"""Shared by all tests: an environment of their own, and the command line, in this process or in another."""

from __future__ import annotations

import importlib
import io
import json
import os
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from tests.yardstick.backends import BACKENDS, Backend

hypothesis.settings.register_profile("untimed", deadline=None)  # a machine may be busy with other things
hypothesis.settings.load_profile("untimed")
PROCESS_SECONDS_MAX = 60  # a bound on hanging, not a measurement
LONG_SECONDS = 20 * 60
# They run what other tests measure as well, thousands of times; measuring it again takes longer than running it.
HARNESS = {
    "test_backup_mutated.py",
    "test_byte_identical.py",
    "test_canary.py",
    "test_faults.py",
    "test_interrupts.py",
    "test_leaks.py",
    "test_races.py",
    "test_small_scope.py",
    "test_stateful.py",
    "test_two_worlds.py",
    "test_two_worlds_jobs.py",
    "test_two_worlds_surfaces.py",
}
# What starts processes, each of which takes about a second: these files, and whatever uses these fixtures.
PROCESSES = {
    "test_gateway_story.py",
    "test_hostile_server.py",
    "test_kill.py",
    "test_packaging.py",
    "test_processes.py",
    "test_real_servers.py",
    "test_serve.py",
    "test_timeouts.py",
}
STARTS_PROCESSES = {"process", "say_anew", "sits"}


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """The harness counts nothing towards coverage. What takes long comes first, and has more time."""
    for item in items:
        if item.path.name in PROCESSES or not STARTS_PROCESSES.isdisjoint(item.fixturenames):
            item.add_marker("processes")
        if item.path.name in HARNESS:
            item.add_marker("harness")
        if item.path.name in HARNESS or item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


@contextmanager
def untraced() -> Iterator[None]:
    """Measure no coverage in here. The mark `no_cover` ends one tracer, and a worker of xdist has two."""
    trace, trace_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.settrace(trace)
        threading.settrace(trace_threads)  # type: ignore[arg-type]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect untraced, in half the time. Where coverage is measured, what is to be measured is loaded before."""
    if sys.gettrace() is not None:
        import tidegate

        for module in pkgutil.walk_packages(tidegate.__path__, "tidegate."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    with untraced():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run the harness untraced."""
    with untraced() if item.get_closest_marker("harness") else nullcontext():
        return (yield)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode()

    @property
    def err(self) -> str:
        return self.stderr.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def error(self) -> dict[str, Any]:
        assert set(self.json) == {"error"}
        found: dict[str, Any] = self.json["error"]
        return found


Run = Callable[..., Ran]


class Stream(io.TextIOWrapper):
    """A standard stream over bytes, in the wrong encoding, that may say it is a terminal."""

    def __init__(self, data: bytes, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(data), encoding="ascii")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def written(self) -> bytes:
        self.flush()
        self.buffer.seek(0)
        return self.buffer.read()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test sees, or writes into, the folders of whoever runs it."""
    for name in [name for name in os.environ if name.startswith(("TIDEGATE_", "XDG_")) and "TEST" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp()))


@pytest.fixture(params=list(BACKENDS), scope="module")
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each provider in turn, kept for all tests of a module: whoever needs it empty erases it, as a world does."""
    made = BACKENDS[request.param]()
    yield made
    made.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home that does not exist yet."""
    return tmp_path / "home"


@pytest.fixture
def cli(home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in this process, on `home`."""
    from tidegate.cli.main import main

    def run(*words: str, stdin: bytes = b"", terminal: bool = False) -> Ran:
        streams = {
            name: Stream(data, terminal=terminal) for name, data in (("stdin", stdin), ("stdout", b""), ("stderr", b""))
        }
        with monkeypatch.context() as patch:
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            code = main(["--home", str(home), *words])
        return Ran(code, streams["stdout"].written(), streams["stderr"].written())

    return run


@pytest.fixture
def process() -> Run:
    """Runs a command in a process of its own. env: what differs from this process's; None takes a variable away."""

    def run(
        *words: str | bytes, stdin: bytes = b"", env: Mapping[str, str | None] | None = None, cwd: Path | None = None
    ) -> Ran:
        differs = env or {}
        full = {name: value for name, value in {**os.environ, **differs}.items() if value is not None}
        command = [sys.executable, "-m", "tidegate", *words]
        done = subprocess.run(
            command, input=stdin, env=full, cwd=cwd, capture_output=True, timeout=PROCESS_SECONDS_MAX, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
