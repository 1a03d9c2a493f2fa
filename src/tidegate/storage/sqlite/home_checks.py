"""The doctor on a home's files from outside: who may read them, which exist, and which disk they are on."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from tidegate.errors import InvalidArgument, StorageError
from tidegate.policy.levels import Level
from tidegate.records.finding import Finding, error, warning
from tidegate.records.validation import check_agent
from tidegate.storage.base import fresh_id
from tidegate.storage.sqlite.connection import beside_of
from tidegate.storage.sqlite.control_store import SqliteControlStore
from tidegate.storage.sqlite.disk import filesystem_of, is_coherent
from tidegate.storage.sqlite.files import FILE_MODE, FOLDER_MODE, MAKING, HomeFiles, exists
from tidegate.storage.sqlite.places import Places

FREE_BYTES_MIN = 100 * 1024 * 1024
"""Below this a disk counts as nearly full."""

LEFT_SECONDS = 600
"""A file under construction that has not changed for this long was left by its maker."""

_DATABASE = re.compile(r"(control|public|internal|confidential|restricted)\.db(-wal|-shm)?")
_COPY = re.compile(r"[a-z]+\.db\.schema-[0-9]+")
_HALF_MADE = re.compile(r"\..+\.[0-9a-f]{16}\.new(-wal|-shm)?")
_OWNERS_FILES = {"SPINE.md", "TRIGGER.md"}
_LOG_ALONE = "Keep it. It may hold the latest changes: put it back together with its database."
_REMOVE = "Remove it, or run `tidegate doctor --repair`."


def examine_place(
    home: Path,
    *,
    filesystem: Callable[[Path], str | None] = filesystem_of,
    free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
) -> Iterator[Finding]:
    """Yield the faults of the home's location."""
    found = filesystem(home)
    if not is_coherent(found):
        advice = "Stop everything that uses the home, and move it to a local disk."
        yield error("home", f"it is on {found}, whose locks cannot be trusted", advice)
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield error("home", "this user lacks read or write access to it", "Make the user that runs Tidegate its owner.")
    if (free := free_bytes(home)) < FREE_BYTES_MIN:
        yield warning("home", f"the disk is nearly full: {free // 1024 // 1024} MiB are free", "Free some space.")


def examine_modes(home: Path, *, repair: bool) -> Iterator[Finding]:
    """Yield folders and databases that other users may read or write."""
    for path in (home, *sorted(home.glob("agents")), *sorted(home.glob("agents/*"))):
        if path.is_dir():
            yield from _mode(home, path, FOLDER_MODE, repair=repair)
    for path in (*sorted(home.glob("*")), *sorted(home.glob("agents/*/*"))):
        if _DATABASE.fullmatch(path.name):
            yield from _database(home, path, repair=repair)
        elif path.name in (*_OWNERS_FILES, "config.toml") and _bits(path) & (stat.S_IWGRP | stat.S_IWOTH):
            problem = "other users can write it and so instruct the agent"
            yield error(_below(home, path), problem, f"{_chmod(home, path, 'go-w')}.")


def examine_files(home: Path, *, repair: bool) -> Iterator[Finding]:
    """Yield files that are missing, and files that should not exist."""
    files = HomeFiles(home)
    folders = sorted(path for path in home.glob("agents/*") if path.is_dir())
    for folder in folders:
        try:
            check_agent(folder.name)
        except InvalidArgument:
            yield warning(_below(home, folder), "it is not the folder of an agent", "Inspect it, then move it away.")
        else:
            yield from _agent(home, files, folder.name, repair=repair)
    for path in (*sorted(home.glob("*")), *sorted(home.glob("agents/*/*"))):
        yield from _stray(home, path, repair=repair)
    if not files.control.exists() and any(home.glob("agents/*/*.db")):
        advice = "Restore it from a copy. Without one, restore the agents from backups into a new home."
        yield error("control.db", "it is missing, and so is every session's taint", advice)


def examine_key_file(path: Path) -> Iterator[Finding]:
    """Yield a finding if others can read the key of the audit chains."""
    if os.name == "posix" and path.exists() and _bits(path) & 0o077:
        yield error(
            "audit.key_file",
            f"other users can access it: its mode is {_bits(path):o}",
            "Run `chmod 600` with its path.",
        )


def _agent(home: Path, files: HomeFiles, agent: str, *, repair: bool) -> Iterator[Finding]:
    try:
        there, used = databases(files, agent), files.has_compartments(agent)
    except StorageError:
        yield error(f"agents/{agent}", "this user cannot read it", "Make the user that runs Tidegate its owner.")
        return
    if len(there) in (0, len(Level)):
        return
    where = f"agents/{agent}"
    if used:
        for level in Level:
            if level not in there:
                advice = "Export the other levels, erase the agent, and restore it from a backup."
                yield error(_below(home, files.compartment(agent, level)), "it is missing", advice)
        return
    repaired = repair and _finished(files, agent)
    advice = "Do nothing: the next save creates the rest."
    yield warning(where, "some of its files were not created, and none was used", advice, repaired=repaired)


def _finished(files: HomeFiles, agent: str) -> bool:
    try:
        with closing(SqliteControlStore(files)) as control:
            Places(files, control, fresh_id).make(agent)
    except StorageError:
        return False
    return True


def _stray(home: Path, path: Path, *, repair: bool) -> Iterator[Finding]:
    where, name = _below(home, path), path.name
    if _HALF_MADE.fullmatch(name):
        if _is_old(path):
            repaired = repair and _done(path.unlink)
            yield warning(where, "it is left over from creating a file", _REMOVE, repaired=repaired)
    elif _COPY.fullmatch(name):
        problem = "it is a copy from before an upgrade, with everything saved until then"
        yield warning(where, problem, "When all is well, run `tidegate purge --older-than AGE`, which removes it.")
    elif path.parent != home and not (_DATABASE.fullmatch(name) or name in (*_OWNERS_FILES, MAKING)):
        yield warning(where, "it is not Tidegate's, and may hold saved content", "Inspect it, then move it away.")
    elif name.endswith("-wal") and _size(path) and not path.with_name(name.removesuffix("-wal")).exists():
        yield warning(where, "it belongs to a missing database", _LOG_ALONE)


def _database(home: Path, path: Path, *, repair: bool) -> Iterator[Finding]:
    """Check who may use a database's file; of a link, also the files beside its target."""
    yield from _mode(home, path, FILE_MODE, repair=repair)
    if path.is_symlink():
        advice = (
            "Stop everything that uses the home. Then replace the link by the file it points to, and move that file's "
            "-wal too, if there is one."
        )
        yield warning(_below(home, path), "it is a link: a copy of the home may lack its content", advice)
        for beside in beside_of(path):
            yield from _mode(home, beside, FILE_MODE, repair=repair, where=_below(home, path) + beside.name[-4:])


def _mode(home: Path, path: Path, mode: int, *, repair: bool, where: str = "") -> Iterator[Finding]:
    bits = _bits(path)
    if os.name == "posix" and bits & ~mode:
        repaired = repair and _done(partial(path.chmod, bits & mode))
        # A file beside the target of a link has no path of its own in the home.
        by_hand = f"Run `chmod {mode:o}` on it" if where else _chmod(home, path, f"{mode:o}")
        advice = f"{by_hand}, or run `tidegate doctor --repair`."
        # A folder that others can list shows names and sizes; the files guard their own content.
        finding = error if mode == FILE_MODE or bits & (stat.S_IWGRP | stat.S_IWOTH) else warning
        yield finding(
            where or _below(home, path), f"other users can access it: its mode is {bits:o}", advice, repaired=repaired
        )


def _chmod(home: Path, path: Path, mode: str) -> str:
    return f"Run `chmod {mode} {shlex.quote(path.relative_to(home).as_posix())}` in the home"


def _done(act: Callable[[], object]) -> bool:
    """Do a repair, and return whether it succeeded: the file may be another user's."""
    try:
        act()
    except OSError:
        return False
    return True


def databases(files: HomeFiles, agent: str) -> list[Level]:
    """Return the levels whose files exist. Raises: StorageError when that cannot be looked up."""
    return [level for level in Level if exists(files.compartment(agent, level))]


def _bits(path: Path) -> int:
    """Return the mode of a path's target; 0 when it is gone, as logs come and go while servers run."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > LEFT_SECONDS
    except FileNotFoundError:
        return False


def _below(home: Path, path: Path) -> str:
    return "home" if path == home else path.relative_to(home).as_posix()
