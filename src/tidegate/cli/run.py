"""The command that runs the process that wakes agents."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from importlib.util import find_spec

import click

from tidegate.cli import output
from tidegate.cli.common import NO_LEVEL, Command, info, open_store, options


@click.command(
    cls=Command,
    common={**NO_LEVEL, "agent": "Name of the agent. [default: all agents]", "json": None},
    examples=("tidegate run", "tidegate run --agent assistant", "tidegate run --once"),
)
@click.option("--once", is_flag=True, help="Do what is due now, then exit.")
def run(once: bool) -> int:
    """Wake the agents for their due jobs and, at intervals, to do what their TRIGGER.md says.

    The command runs until it is stopped (Ctrl-C, SIGTERM). Several such processes can share a home, also with `tidegate
    mcp` and `tidegate chat`. The model is chat.model in config.toml.

    Failures go to standard error, with the job's name. --once exits with 1 if a run failed or a result cannot be
    delivered. If a run in progress may be dead, --once waits for run.lease_seconds.
    """
    from tidegate.agent.opening import open_configured
    from tidegate.cli.installing import install_command
    from tidegate.config.home import find_home
    from tidegate.config.reader import read_settings
    from tidegate.worker.supervisor import Supervisor
    from tidegate.worker.worker_context import Failures, WorkerContext

    chosen = options()
    home = find_home(chosen.home)
    settings = read_settings(home)
    open_configured(settings.chat)  # fails before any work starts
    _log_plainly()
    if any(each.kind == "apprise" for each in settings.channels.values()) and find_spec("apprise") is None:
        command = install_command("tidegate[agent]")
        output.warn(f"tidegate run: apprise is not installed, so nothing goes out by it; this installs it: {command}")
    only = click.get_current_context().meta.get("agent")
    with open_store() as store:
        failures = Failures(lambda line: output.warn(f"tidegate run: {line}"))
        wakeups = Supervisor(
            WorkerContext(store, home, settings, lambda: open_configured(settings.chat), failures=failures), only
        )
        if once:
            done = wakeups.run_once()
            failed = f", {output.counted(failures.count, 'failure')}" if failures.count else ""
            info(f"tidegate run: {output.counted(done, 'run')}{failed}")
            return 1 if failures.count else 0
        for number in (signal.SIGINT, signal.SIGTERM):
            # On a thread: the interrupted code may hold the lock that stopping needs.
            signal.signal(number, lambda *_: threading.Thread(target=wakeups.stop, daemon=True).start())
        output.warn("tidegate run: started")
        ended = wakeups.run()
    output.warn("tidegate run: stopped")
    if not ended:  # a thread hangs, and would keep the process alive
        sys.stdout.flush()
        os._exit(0)
    return 0


class _Plain(logging.Handler):
    """A handler that writes escaped lines to standard error, so that none can pass for another."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        output.warn(f"{record.levelname.lower()}: {record.getMessage()}")


def _log_plainly() -> None:
    logger = logging.getLogger("tidegate")
    logger.handlers[:] = [_Plain()]
    logger.setLevel(logging.WARNING)
    logger.propagate = False
