"""The disk under a home: can its file system hold a store, and the space kept in reserve on it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

RESERVE_BYTES = 2 * 1024 * 1024
OPENING_BYTES = 256 * 1024
"""The size of the logs' shared memory for a view and the control store, and some for folder entries."""

# Shared between machines or served by another process: locks and memory maps are unreliable. SQLite's write-ahead log
# needs both.
_NETWORK = re.compile(
    r"9p|afs|ceph|cifs|coda|davfs|glusterfs|gfs|gpfs|lustre|ncpfs|nfs\d?|prl_fs|smb\d|smbfs|vboxsf|vmhgfs|"
    r"fuse\.(ceph|curlftpfs|davfs2?|gcsfuse|glusterfs|goofys|juicefs|mount\.davfs|mountpoint-s3|osxfs|rclone|s3fs|"
    r"smbnetfs|sshfs|vmhgfs-fuse)",
    re.IGNORECASE,
)
_MOUNTS = Path("/proc/self/mountinfo")


def is_coherent(filesystem: str | None) -> bool:
    """Return whether a file system of this name, as the kernel writes it, can hold a store. Unknown ones can."""
    return filesystem is None or not _NETWORK.fullmatch(filesystem)


def filesystem_of(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the kernel's name for the file system that holds a path, or would; None if the kernel does not say.

    mounts: the table of mounts, in Linux's format.
    """
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
        device = os.stat(next(each for each in (path, *path.parents) if each.exists())).st_dev
    except OSError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in table.splitlines():
        mount, _, source = line.partition(" - ")
        if mount.split(" ")[2:3] == [wanted]:
            return source.split(" ")[0]
    return None


class Reserve:
    """A file of fixed size without content: space to read, and for the owner to free more, on a full disk.

    It is shortened when there is no other space, and extended again later.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / "reserve"

    def make(self, *, leaving: int = 0) -> None:
        """Extend it to its full size, or as far as `leaving` bytes stay free. A lack of space is not an error."""
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                disk, size = os.fstatvfs(descriptor), os.fstat(descriptor).st_size
                wanted = min(RESERVE_BYTES, size + max(0, disk.f_bavail * disk.f_frsize - leaving))
                os.pwrite(descriptor, bytes(max(0, wanted - size)), size)  # written: a hole reserves no space
            finally:
                os.close(descriptor)

    def make_first(self) -> None:
        """Make the reserve of a new home. On a small disk, only a quarter of what is free."""
        with suppress(OSError):
            disk = os.statvfs(self._path.parent)
            self.make(leaving=disk.f_bavail * disk.f_frsize * 3 // 4)

    def give(self, amount: int = RESERVE_BYTES) -> bool:
        """Give up at most `amount` bytes of the reserve; return whether there were any."""
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                size = os.fstat(descriptor).st_size
                os.ftruncate(descriptor, max(0, size - amount))
                return size > 0
            finally:
                os.close(descriptor)
        return False
