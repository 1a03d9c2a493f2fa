"""Which file systems can hold a store: SQLite's write-ahead log needs shared memory and locks that can be trusted."""

from __future__ import annotations

import os
import re
from pathlib import Path

# Shared between machines, or through a server of their own: locks may lie, and memory maps do not agree.
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
