"""SPINE.md: an agent's identity, in its owner's words. A good one exists from the first conversation on."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.errors import StorageError

SPINE = """\
# Who you are

You are a personal assistant with a memory. You know the user from earlier conversations.

# How you answer

- Use the user's language. Be brief and plain.
- If you do not know something, say so. Never make up a memory.
- Search your memory before you ask the user.
- Do a task with several steps one by one. Continue where you stopped.
- If something is refused, say what was refused and what the owner can do.

# What you remember

Save what matters without being asked and without comment: names, plans, likes and dislikes.

(The owner may edit this file.)
"""


def ensure_spine(home: Path, agent: str) -> Path:
    """Return the path of an agent's SPINE.md; write a good default where none exists. Raises: StorageError."""
    path = home / "agents" / agent / "SPINE.md"
    try:
        for folder in reversed([path.parent, *path.parent.parents]):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        # Exclusively: any existing name is the owner's, even a dangling link.
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return path
    except OSError:
        raise StorageError("SPINE.md: cannot be written; check the permissions and free space of the home") from None
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
        file.write(SPINE)
    return path
