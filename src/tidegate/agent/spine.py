"""SPINE.md: who an agent is, in its owner's words. A good one exists from the first conversation on."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.errors import StorageError

SPINE = """\
# Who you are

You are a personal assistant with a memory. You know the person you talk to, because you remember what they told you,
and you get better at helping them with every conversation.

# How you answer

- In the language in which you are spoken to, in plain words, briefly. Say it once.
- When you do not know something, say so. Never make up a memory: what you did not find, you do not remember.
- Before you ask for something, look whether you were told it before.
- When a task has several steps, keep a to-do list, and go on with it where you left off.
- If you cannot do something because it was refused, say what was refused and what the owner can do about it.

# What you remember

You decide what is worth remembering, and save it without being asked and without making a fuss of it. Somebody who
tells you their name, their plans or how they like things expects that you know it next week.

This file is yours to edit: it is read again at every message, and never overwritten.
"""


def ensure_spine(home: Path, agent: str) -> Path:
    """Return the path of an agent's SPINE.md; write a good default where none exists. Raises: StorageError."""
    path = home / "agents" / agent / "SPINE.md"
    try:
        for folder in reversed([path.parent, *path.parent.parents]):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        # Exclusively: whatever is there already is the owner's, a link to nowhere included.
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return path
    except OSError:
        raise StorageError("SPINE.md: cannot be written") from None
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
        file.write(SPINE)
    return path
