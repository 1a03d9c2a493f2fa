"""Whole processes: start-up, opening a home, and four writers on one compartment."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import tidegate
from benchmarks import corpus
from benchmarks.measure import timed

WRITERS = 4
SAVES = 250
_INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    '"clientInfo":{"name":"bench","version":"0"}}}\n'
)
_OPEN = "import sys, tidegate; tidegate.open(sys.argv[1]).session('bench')"
_BARE_SERVER = "from fastmcp import FastMCP; FastMCP('bare').run(show_banner=False)"


def startup(home: Path, *, rounds: int = 5) -> dict[str, Any]:
    """Measure seconds until `--help` has printed, and until a server has answered `initialize`; medians, in turn."""
    here = [sys.executable, "-m", "tidegate"]
    commands: dict[str, Callable[[], object]] = {
        "tidegate --help": lambda: subprocess.run([*here, "--help"], check=True, capture_output=True),
        "tidegate mcp": lambda: _initialize([*here, "--home", str(home), "mcp"]),
        "bare fastmcp server": lambda: _initialize([sys.executable, "-c", _BARE_SERVER]),
    }
    taken = timed(commands, rounds=rounds)
    figures = {name: round(statistics.median(values), 3) for name, values in taken.items()}
    ratio = round(figures["tidegate mcp"] / figures["bare fastmcp server"], 2)
    return {"s": figures, "ratio": {"tidegate mcp": ratio}, "goal": {"tidegate --help": 0.15, "ratio": 1.3}}


def opening(home: Path, *, rounds: int = 20) -> dict[str, Any]:
    """Measure milliseconds of a fresh process that opens a home with one agent, beside one that does nothing, in turn.

    Byte code is written, as it is for an installed package; the first process of each kind makes it and is not counted.
    """
    with tidegate.open(home) as store:
        store.session("bench").memory.save("note", "The launch is on Monday.")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run(program: str) -> object:
        return subprocess.run([sys.executable, "-c", program, str(home)], check=True, env=environment)

    taken = timed({"python -c pass": partial(run, "pass"), "import and open": partial(run, _OPEN)}, rounds=rounds + 1)
    figures = {
        name: {"min": round(min(values[1:]) * 1e3, 1), "median": round(statistics.median(values[1:]) * 1e3, 1)}
        for name, values in taken.items()
    }
    return {"ms": figures, "goal": {"import and open": 60}}


def writers(home: Path) -> dict[str, Any]:
    """Measure four processes saving into one compartment: how long each save took, and how many memories there are."""
    command = [sys.executable, "-m", "benchmarks.processes", str(home)]
    running = [subprocess.Popen([*command, str(each)], stdout=subprocess.PIPE, text=True) for each in range(WRITERS)]
    taken = sorted(itertools.chain.from_iterable(json.loads(each.communicate()[0]) for each in running))
    with tidegate.open(home) as store:
        there = sum(1 for _ in store.session("writers").memory.list())
    percentiles = {"p50": taken[len(taken) // 2], "p99": taken[len(taken) * 99 // 100], "max": taken[-1]}
    lost = WRITERS * SAVES - there
    return {"ms": {name: round(value, 1) for name, value in percentiles.items()}, "lost": lost, "goal": {"p99": 50}}


def _initialize(command: list[str]) -> None:
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        if server.stdin is None or server.stdout is None:
            raise RuntimeError("no pipes")
        server.stdin.write(_INITIALIZE)
        server.stdin.flush()
        if '"result"' not in server.stdout.readline():
            raise RuntimeError("the server did not answer")
        server.kill()


def _write(home: str, writer: str) -> None:
    taken = []
    with tidegate.open(home) as store:
        session = store.session("writers")
        for key, content, tags in corpus.memories(SAVES, seed=int(writer)):
            start = time.perf_counter()
            session.memory.save(f"{writer}-{key}", content, tags)
            taken.append((time.perf_counter() - start) * 1e3)
    print(json.dumps(taken))


if __name__ == "__main__":
    _write(*sys.argv[1:])
