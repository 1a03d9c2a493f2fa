"""The owner's files: read in full or line by line, by their exact names; written completely or not at all."""

from __future__ import annotations

import codecs
import errno
import fcntl
import io
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from tidegate.errors import InvalidArgument, LimitExceeded, StorageError
from tidegate.records.jsonl import LINE_BYTES_MAX

DOCUMENT_BYTES_MAX = 256 * 1024 * 1024
"""The largest file that must be read in one piece. JSON Lines have no such limit."""

REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
    errno.ENOMEM: "there is not enough memory",
    errno.ENAMETOOLONG: "the path is too long",
    errno.EIO: "the disk failed",
}
"""Why no file can be read or written just now, by the error's number: this says nothing about the file itself."""

_FILE_MODE = 0o600
_LEFT_OVER = re.compile(r"\.tidegate-[0-9a-f]{16}\.new")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a text file. text: None if it is not readable as text; then `reason` says why."""

    number: int
    text: str | None
    reason: str = ""

    @property
    def place(self) -> str:
        return f"line {self.number}"


def read_small(path: Path, bytes_max: int) -> bytes:
    """Return the content of a plain file; of one larger than `bytes_max`, that many bytes and one more.

    Raises: OSError, also for anything but a plain file: a pipe would block its reader, a device never ends.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(bytes_max + 1)
    finally:
        os.close(descriptor)


def read_small_text(path: Path, bytes_max: int) -> str:
    """Return the text of a small file of the owner, without a byte order mark; "" if it does not exist.

    Raises: StorageError, which names the file, when it is larger than `bytes_max`, not UTF-8 or not readable.
    """
    try:
        data = read_small(path, bytes_max)
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise StorageError(f"{path.name}: must be a readable file in UTF-8") from None
    except OSError as error:
        raise StorageError(f"{path.name}: {reason_of(error, 'must be a readable file in UTF-8')}") from None
    if len(data) > bytes_max:
        raise StorageError(f"{path.name}: must be at most {bytes_max} bytes")
    return text


def reason_of(error: OSError, otherwise: str) -> str:
    """Return why a file cannot be used, from `REASONS`. otherwise: the text for any other cause."""
    return REASONS.get(error.errno or 0, otherwise)


def named(path: str | Path) -> Path:
    """Return a path exactly as given: no part of it is a URI. Raises: InvalidArgument."""
    text = str(path)
    if not text or "\0" in text:
        raise _bad("must be the path of a file")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise _bad("this locale cannot name that file; set PYTHONUTF8=1") from None
    return Path(text)


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read. Raises: InvalidArgument when it does not exist, is not a plain file, or is not readable."""
    try:
        # Not blocking, so that a pipe is detected instead of waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _unavailable(error) from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _bad("is not a plain file; save its content to a file first")
        try:
            yield file
        except OSError as error:
            raise _unavailable(error) from None


def is_folder(path: Path) -> bool:
    """Return whether a path names a folder. Raises: InvalidArgument when it does not exist."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        raise _unavailable(error) from None


def can_append(path: Path) -> bool:
    """Return whether a file can be written at its end, or created, with its folder if only that is missing."""
    if os.path.lexists(path):
        return not os.path.isdir(path) and os.access(path, os.W_OK)
    folder = path.parent if os.path.lexists(path.parent) else path.parent.parent
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def read_head(path: Path, size: int) -> bytes:
    """Return the first bytes of a file. Raises: InvalidArgument."""
    with reading(path) as file:
        return file.read(size)


def size_of(path: Path) -> int:
    """Return the size of a file in bytes. Raises: InvalidArgument."""
    with reading(path) as file:
        return os.fstat(file.fileno()).st_size


def modified_at(path: Path) -> float:
    """Return when a file was last written, in seconds since 1970. Raises: InvalidArgument."""
    with reading(path) as file:
        return os.fstat(file.fileno()).st_mtime


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 if it begins so. Raises: InvalidArgument, LimitExceeded."""
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > DOCUMENT_BYTES_MAX:
            raise LimitExceeded(
                f"file: {size} bytes; the limit for a file of this kind is {DOCUMENT_BYTES_MAX}",
                argument="file",
                limit=DOCUMENT_BYTES_MAX,
                actual=size,
            )
        return decode(file.read())


def decode(data: bytes) -> str:
    """Return bytes as text, without a byte order mark. Raises: InvalidArgument."""
    try:
        return data.decode("utf-16" if data.startswith(_UTF16) else "utf-8-sig")
    except UnicodeDecodeError:
        raise _bad("is neither UTF-8 nor UTF-16") from None


def read_lines(path: Path) -> Iterator[TextLine]:
    """Yield the lines of a file that are not blank; only a line feed ends one. Raises: InvalidArgument."""
    wide = read_head(path, 2) in _UTF16
    with reading(path) as file:
        text = io.TextIOWrapper(file, "utf-16", newline="\n") if wide else file
        number = 0
        try:
            while raw := text.readline(LINE_BYTES_MAX):
                number += 1
                whole = raw[-1:] in (b"\n", "\n") or len(raw) < LINE_BYTES_MAX
                line = _line(number, raw) if whole else _too_long(number, text)
                if line.text != "":
                    yield line
        except UnicodeError:  # in UTF-16 the start of the next line is unknown
            yield TextLine(number + 1, None, "not UTF-16")


def _line(number: int, raw: bytes | str) -> TextLine:
    try:
        text = raw if isinstance(raw, str) else raw.decode()
    except UnicodeDecodeError:
        return TextLine(number, None, "not UTF-8")
    # A byte order mark begins a file, so concatenated files have it in the middle.
    return TextLine(number, text.removeprefix("\ufeff").strip(" \t\r\n"))


def _too_long(number: int, file: BinaryIO | TextIO) -> TextLine:
    while len(rest := file.readline(LINE_BYTES_MAX)) == LINE_BYTES_MAX and rest[-1:] not in (b"\n", "\n"):
        continue
    return TextLine(number, None, f"longer than {LINE_BYTES_MAX} bytes")


@contextmanager
def writing(path: Path, check: Callable[[Path], object] = lambda _: None) -> Iterator[BinaryIO]:
    """Open a file to write, readable only for its owner. It gets its name once complete, on disk and passed by `check`.

    It replaces an existing file of the name, which stays unchanged if anything fails.
    Raises: InvalidArgument when anything but a file has the name; StorageError.
    """
    if not path.name:  # "." and "/": no temporary file fits beside them
        raise _bad("exists and is not a plain file")
    new = path.with_name(f".tidegate-{secrets.token_hex(8)}.new")
    try:
        if path.exists() and not path.is_file():
            raise _bad("exists and is not a plain file")
        _clear(path.parent)
        descriptor = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
            file.flush()
            os.fsync(descriptor)
            check(new)
            os.replace(new, path)
        sync_folder(path.parent)
    except OSError as error:
        advice = reason_of(error, "check that its folder exists, its permissions and the free space")
        raise StorageError(f"file: cannot be written; an existing file was not changed; {advice}") from None
    finally:
        new.unlink(missing_ok=True)


def _clear(folder: Path) -> None:
    """Remove leftovers of killed writes. A file that is being written is locked, and stays."""
    with suppress(OSError):
        for name in filter(_LEFT_OVER.fullmatch, os.listdir(folder)):
            with suppress(OSError):
                _remove_unlocked(folder / name)


def _remove_unlocked(path: Path) -> None:
    # Locking needs write permission. A link is not followed, and a pipe not waited for.
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive power loss. Raises: OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unavailable(error: OSError | ValueError) -> InvalidArgument:
    if isinstance(error, OSError) and (reason := reason_of(error, "")):
        return _bad(f"cannot be read: {reason}; nothing was changed")
    return _bad("does not exist or cannot be read; nothing was changed")


def _bad(reason: str) -> InvalidArgument:
    return InvalidArgument(f"file: {reason}", argument="file")
