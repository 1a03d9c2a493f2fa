"""Commands in processes of their own, forked from one that has loaded the program: loading takes longer than they do.

python -m tests.yardstick.forks      # reads a command a line, and answers with its exit code
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from tests.conftest import Ran, Run

from tidegate import agent, cli, core, storage, tools
from tidegate.cli.main import main

LOADED = (agent, cli, core, storage, tools)


@contextmanager
def forking() -> Iterator[Run]:
    """Runs commands as the fixture `process` does, but takes only their words."""
    command = [sys.executable, "-m", __name__]
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-") as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent,
    ):
        assert parent.stdin is not None
        assert parent.stdout is not None
        streams = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
        streams[0].touch()

        def run(*words: str) -> Ran:
            request = {"words": words, "env": dict(os.environ), "streams": [str(path) for path in streams]}
            print(json.dumps(request), file=parent.stdin, flush=True)
            code = int(parent.stdout.readline())
            return Ran(code, streams[1].read_bytes(), streams[2].read_bytes())

        yield run
        parent.stdin.close()


def serve() -> None:
    """Fork a process for each request, and wait for it."""
    for package in LOADED:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for line in os.fdopen(os.dup(0), encoding="utf-8"):  # standard input is the child's, who finds it unread
        child = os.fork()
        if child == 0:
            become(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(request: dict[str, Any]) -> NoReturn:
    """Run a command in this process, as one that was started for it, and end."""
    os.environ.clear()
    os.environ.update(request["env"])
    for number, path in enumerate(request["streams"]):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY
        os.dup2(os.open(path, flags, 0o600), number)
    code = main(request["words"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # to take down what was loaded takes as long as loading it


if __name__ == "__main__":
    serve()
