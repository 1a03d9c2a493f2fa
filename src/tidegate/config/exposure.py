"""Checks whether a server's command line, working folder or environment reaches the home.

The check finds mistakes, such as a file server for the user's entire folder. It is not a barrier: a program that runs
under the same user can open every file of that user.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

_ENDS = re.compile(r"""[\s"'`=,;|&<>()\[\]{}]+""")
_OPTION = re.compile(r"-[A-Za-z0-9]+")
_SELF = re.compile(r"(?i)(?:.*[/\\])?tidegate(?:\.exe)?")
_LAUNCHERS = frozenset({"-m", "uvx", "run", "exec", "--"})


def exposes_home(command: Sequence[str], cwd: str | None, environment: Mapping[str, str], home: Path) -> str | None:
    """Return the key (`command`, `cwd` or `env`) that names the home, a folder above it or a path in it, or None."""
    import tempfile  # it takes long to load, and few homes have servers

    base = os.path.join(tempfile.gettempdir(), "-") if cwd is None else os.path.expanduser(cwd)
    named = _inodes(home)
    if cwd is not None and _reaches(base, home, named):
        return "cwd"
    if _runs_tidegate(command, environment) or any(_mentions(word, base, home, named) for word in command):
        return "command"
    return "env" if any(_mentions(text, base, home, named) for text in environment.values()) else None


def _runs_tidegate(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether the command is Tidegate itself and names no other home."""
    elsewhere = "TIDEGATE_HOME" in environment or any(word.split("=")[0] == "--home" for word in command)
    runs = (
        _SELF.fullmatch(word) and before in _LAUNCHERS for before, word in zip(("--", *command), command, strict=False)
    )
    return any(runs) and not elsewhere


def _mentions(text: str, base: str, home: Path, named: set[tuple[int, int]]) -> bool:
    return any(_reaches(path, home, named) for path in _paths(text, base))


def _paths(text: str, base: str) -> Iterator[str]:
    """Yield every path that a program may find in a text: all of it, and its pieces between quotes, commas, colons."""
    pieces = {text, *_ENDS.split(text)}
    parts = pieces.union(*(piece.split(os.pathsep) for piece in pieces))
    for piece in {each for part in parts for each in (part, *_values(part))}:
        path = unquote(urlsplit(piece).path) if piece.lower().startswith("file:") else piece
        path = os.path.expanduser(os.path.expandvars(path))
        if path:
            yield os.path.join(base, path)


def _values(piece: str) -> Iterator[str]:
    """Yield the possible values that are joined to one-letter options: `-v/path`, `-itv~/x`."""
    option = _OPTION.match(piece)
    yield from (piece[end:] for end in range(2, option.end() + 1)) if option else ()


def _reaches(path: str, home: Path, named: set[tuple[int, int]]) -> bool:
    """Return whether a path is the home, above it or in it, as written or on the file system."""
    try:
        real, real_home = os.path.realpath(path), os.path.realpath(home)
        if os.path.commonpath([real, real_home]) in (real, real_home):
            return True
        # Other spellings of the same folder: letter case on some file systems, mounts.
        own = _inode(Path(real))
        inside = _inode(home)
        return own in named or (inside is not None and inside in _inodes(Path(real)))
    except (ValueError, OSError):
        return False


def _inodes(path: Path) -> set[tuple[int, int]]:
    """Return the identities of a folder and of all folders above it, without those that do not exist."""
    return {found for each in (path, *path.parents) if (found := _inode(each)) is not None}


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if status.st_ino else None
