"""A file system that fails on order, and remembers what would be there after a kill or a loss of power.

It stands between SQLite and the files of this process, as SQLite's own layer for that (a VFS) does.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

USUAL = apsw.vfs_names()[0]
Operation = str
"""One of write, sync, truncate, lock, open, delete, read."""

ERRORS: dict[str, Callable[[], apsw.Error]] = {"ioerr": apsw.IOError, "full": apsw.FullError, "busy": apsw.BusyError}


class FaultyFiles(apsw.VFS):
    """Counts operations and fails where told to."""

    def __init__(self) -> None:
        super().__init__("faulty", USUAL, makedefault=True)
        self.counts: defaultdict[Operation, int] = defaultdict(int)
        self.fired = 0
        self.before: Callable[[Operation, Path], None] | None = None
        self.disk: Disk | None = None
        self._plan: tuple[Operation, int, str, bool] | None = None

    def fail(self, operation: Operation, number: int, error: str, *, lasting: bool = False) -> None:
        """Let the operation of this number, from 0, fail; and all like it from then on, if `lasting`."""
        self._plan = (operation, number, error, lasting)

    def heal(self) -> None:
        """Fail no more."""
        self._plan = None

    def meet(self, operation: Operation, name: str) -> None:
        """Count an operation, show it to whoever looks on, and fail if it is time."""
        number = self.counts[operation]
        self.counts[operation] += 1
        if self.before is not None:
            self.before(operation, Path(name))
        if self._plan is None:
            return
        wanted, at, error, lasting = self._plan
        if operation == wanted and (number == at or (lasting and number > at)):
            self.fired += 1
            raise ERRORS[error]()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> FaultyFile:  # noqa: N802
        self.meet("open", _text(name))
        return FaultyFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.meet("delete", filename)
        super().xDelete(filename, syncdir)
        if self.disk is not None:
            self.disk.deleted(Path(filename))


class FaultyFile(apsw.VFSFile):
    """One open file."""

    def __init__(self, files: FaultyFiles, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._files = files
        self._name = _text(name)
        super().__init__(USUAL, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._files.meet("write", self._name)
        super().xWrite(data, offset)
        if self._files.disk is not None:
            self._files.disk.written(Path(self._name), bytes(data), offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._files.meet("sync", self._name)
        super().xSync(flags)
        if self._files.disk is not None:
            self._files.disk.synced(Path(self._name))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._files.meet("truncate", self._name)
        super().xTruncate(newsize)
        if self._files.disk is not None:
            self._files.disk.truncated(Path(self._name), newsize)

    def xLock(self, level: int) -> None:  # noqa: N802
        self._files.meet("lock", self._name)
        super().xLock(level)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._files.meet("read", self._name)
        return super().xRead(amount, offset)


class Disk:
    """What is safely on the disk, and what the system has taken and may still lose."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._safe = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
        self._loose: defaultdict[Path, list[tuple[int, bytes | None]]] = defaultdict(list)

    def written(self, path: Path, data: bytes, offset: int) -> None:
        self._loose[path].append((offset, data))

    def truncated(self, path: Path, size: int) -> None:
        self._loose[path].append((size, None))

    def synced(self, path: Path) -> None:
        self._safe[path] = path.read_bytes()
        self._loose.pop(path, None)

    def deleted(self, path: Path) -> None:
        self._safe.pop(path, None)
        self._loose.pop(path, None)

    def after_loss_of_power(self, chance: random.Random, survives: float) -> dict[str, bytes]:
        """What is there when power comes back: all that is safe, and each loose write with that chance."""
        return {
            str(path.relative_to(self._home)): bytes(content)
            for path in {*self._safe, *self._loose}
            if (content := self._settled(path, chance, survives)) or path in self._safe
        }

    def _settled(self, path: Path, chance: random.Random, survives: float) -> bytearray:
        content = bytearray(self._safe.get(path, b""))
        for offset, data in self._loose[path]:
            if chance.random() < survives:
                _apply(content, offset, data)
        return content


def write(path: Path, data: bytes | bytearray) -> None:
    """Lay a file out as the program makes them: nobody else's to read."""
    for folder in reversed([path.parent, *path.parent.parents]):
        folder.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


def _text(name: str | apsw.URIFilename | None) -> str:
    return name.filename() if isinstance(name, apsw.URIFilename) else name or ""


@contextmanager
def faulty_files() -> Iterator[FaultyFiles]:
    """All that SQLite does in this process goes through the layer that is yielded."""
    files = FaultyFiles()
    try:
        yield files
    finally:
        files.heal()
        files.before = None
        apsw.set_default_vfs(USUAL)
        files.unregister()
