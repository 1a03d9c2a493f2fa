"""kill -9 at random moments: what was acknowledged is there, whole and entered, and the next start works."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

from tests.storage.crowd import crowd, line_of
from tests.storage.scene import DEEP, bytes_of, opened
from tests.storage.soundness import unsound

from tidegate.policy.levels import Level

KILLS = 200 if DEEP else 5

# Each line is said after the act it names was acknowledged; only a delete is announced as well.
WRITER = """
chance = random.Random(os.getpid())
with tidegate.open(home) as store:
    turn = 0
    while True:
        turn += 1
        name = f"s{os.getpid()}-{turn // 20}"
        session = store.session("assistant", name)
        key = f"k{os.getpid()}-{chance.randrange(8)}"
        act = chance.randrange(10)
        if act < 6:
            saved = session.memory.save(key, f"words {turn}", [f"t{turn}"])
            tell("save", key, session.taint, saved.version, turn)
        elif act < 7:
            session.memory.save_many([(f"{key}-{each}", f"words {turn}", []) for each in range(3)])
            tell("many", key, session.taint, turn)
        elif act < 8:
            tell("will-delete", key, session.taint)
            try:
                session.memory.delete(key)
                tell("delete", key, session.taint, turn)
            except NotFound:
                pass
        elif act < 9:
            session.raise_taint(Level[chance.choice(["INTERNAL", "CONFIDENTIAL"])])
            tell("raise", name, session.taint)
        else:
            store.sessions.reset(session.id)
            tell("reset", name)
            turn += 20
"""


def test_after_kill_9_at_any_moment_what_was_acknowledged_is_there(home: Path) -> None:
    chance = Random(9)
    for _ in range(KILLS):
        with crowd(home, WRITER, 2) as processes:
            lines = [[line_of(process)] for process in processes]
            time.sleep(chance.random() * 0.2)  # a random moment: the claim holds at every one
            for process in processes:
                process.kill()
            for process, heard in zip(processes, lines, strict=True):
                assert process.stdout is not None
                rest = process.stdout.read()
                heard += rest[: rest.rfind("\n") + 1].split("\n")[:-1]
        assert [wrong for heard in lines for wrong in lost(home, heard)] == []
        assert unsound(home) == []
    assert [name for name in bytes_of(home) if ".new" in name] == []


def lost(home: Path, lines: list[str]) -> list[str]:
    """Acknowledged acts of one process that are not there. After its last line one more may have happened unheard."""
    wrong = []
    saves: dict[tuple[str, str], tuple[int, str]] = {}
    with opened(home, prefix="check") as store:
        rows = {row.name: row for row in store.sessions.list("assistant")}
        for line in lines:
            match line.split():
                case ["save", key, level, version, turn]:
                    saves[key, level] = (int(version), f"words {turn}")
                case ["many", key, level, turn]:
                    saves |= {(f"{key}-{each}", level): (1, f"words {turn}") for each in range(3)}
                case ["delete", key, level, _]:
                    saves.pop((key, level), None)
                case ["raise", name, level] if rows[name].taint < Level[level]:
                    wrong.append(f"{line}, now {rows[name].taint}")
                case ["reset", name] if not rows[name].ended:
                    wrong.append(line)
        for (key, level), (version, content) in saves.items():
            found = store.session("assistant", level=Level[level]).memory.get(key)
            if found is None and lines[-1] == f"will-delete {key} {level}":
                continue
            if found is None or found.version < version or (found.version == version and found.content != content):
                wrong.append(f"{key} at {level}: {version} {content}, now {found}")
    return wrong
