"""A short life of a home, step by step, and what must be true of it after any of the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from tests.storage.scene import opened
from tests.storage.soundness import unsound

from tidegate.audit.chain import Action, Entry
from tidegate.errors import StorageError, TidegateError
from tidegate.owner.doctor import Doctor
from tidegate.policy.levels import Level
from tidegate.records.finding import Severity
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.store import Store, utc_now

MANY = ["m1", "m2", "m3"]


def prepare(home: Path) -> None:
    """What is there before the story begins."""
    with opened(home) as store:
        for name in ("main", "doomed"):
            store.session("assistant", name)
        store.session("assistant", "main").memory.save_many(
            [("old", "old words", ["t"]), ("gone", "gone words", ["t"]), ("kept", "kept words", ["t"])]
        )


def save_new(store: Store) -> None:
    store.session("assistant", "main").memory.save("new", "new words", ["t"])


def save_over(store: Store) -> None:
    store.session("assistant", "main").memory.save("old", "other words", ["u"])


def delete(store: Store) -> None:
    store.session("assistant", "main").memory.delete("gone")


def save_many(store: Store) -> None:
    store.session("assistant", "main").memory.save_many([(key, f"{key} words", ["t"]) for key in MANY])


def open_second(store: Store) -> None:
    store.session("assistant", "second", Level.INTERNAL)


def raise_main(store: Store) -> None:
    store.session("assistant", "main").raise_taint(Level.CONFIDENTIAL)


def save_high(store: Store) -> None:
    store.session("assistant", "main").memory.save("high", "high words")


def reset(store: Store) -> None:
    store.sessions.reset(store.sessions.find("assistant", "doomed").id)


Step = Callable[[Store], None]
STEPS: list[Step] = [save_new, save_over, delete, save_many, open_second, raise_main, save_high, reset]


def tell(home: Path) -> list[Step]:
    """Go through all steps, whatever fails; those that were acknowledged. Raises whatever is not a StorageError."""
    done: list[Step] = []
    with opened(home, prefix="later") as store:
        for step in STEPS:
            if acknowledged(step, store):
                done.append(step)
    return done


def acknowledged(step: Step, store: Store) -> bool:
    """Whether a step was; a StorageError says that it was not."""
    try:
        step(store)
    except StorageError:
        return False
    return True


def wrong(home: Path, done: list[Step], *, power: bool = False) -> list[str]:
    """What is not as it must be after these steps were acknowledged; others may have happened too.

    power: after a loss of power, saves may be missing, whole ones at a time; taints and their entries may not.
    """
    found = [*unsound(home), *_wrong_sessions(home, done), *(() if power else _wrong_memories(home, done))]
    # A change whose entry alone was stored is a warning: opening the session makes it good.
    findings = Doctor(home, utc_now, repair=False, progress=_quietly).examine()
    return found + [f"doctor: {each}" for each in findings if each.severity is Severity.ERROR]


def _quietly(_: str) -> None:
    pass


def _wrong_memories(home: Path, done: list[Step]) -> Iterator[str]:
    with opened(home, prefix="check") as store:
        low = store.session("assistant").memory
        contents = {memory.key: memory.content for memory in low.list()}
        high = {
            memory.key: memory.classification
            for memory in store.session("assistant", level=Level.RESTRICTED).memory.list()
        }
    if contents.get("kept") != "kept words":
        yield "an old memory is lost"
    if contents.get("new") != "new words" and (save_new in done or "new" in contents):
        yield f"new: {contents.get('new')}"
    if contents.get("old") not in (["other words"] if save_over in done else ["other words", "old words"]):
        yield f"old: {contents.get('old')}"
    if contents.get("gone") not in ([None] if delete in done else [None, "gone words"]):
        yield f"gone: {contents.get('gone')}"
    there = [key for key in MANY if contents.get(key) == f"{key} words"]
    if there not in ([MANY] if save_many in done else [MANY, []]):
        yield f"of three saved at once there are {there}"
    if save_high in done and "high" not in high:
        yield "high is lost"
    if save_high in done and raise_main in done and high["high"] is not Level.CONFIDENTIAL:
        yield f"high is at {high['high']}"


def _wrong_sessions(home: Path, done: list[Step]) -> Iterator[str]:
    with closing(SqliteProvider(home)) as provider:
        rows = {row.name: row for row in provider.control.sessions("assistant")}
        entries = {level: list(_entries(provider, level)) for level in Level}
    main, second, doomed = rows["main"], rows.get("second"), rows["doomed"]
    if raise_main in done and main.taint is not Level.CONFIDENTIAL:
        yield f"a taint was lowered to {main.taint}"
    if main.taint is not Level.PUBLIC and not _entered(entries[main.taint], main.id, Action.RAISE):
        yield "a raise without its entry"
    if open_second in done and (second is None or second.taint is not Level.INTERNAL):
        yield f"the second session is {second}"
    if second is not None and not _entered(entries[Level.INTERNAL], second.id, Action.OPEN):
        yield "a session without its entry"
    if reset in done and not doomed.ended:
        yield "a reset was undone"
    if doomed.ended and not _entered(entries[Level.PUBLIC], doomed.id, Action.RESET):
        yield "a reset without its entry"


def _entries(provider: SqliteProvider, level: Level) -> list[Entry]:
    with provider.owner_compartment("assistant", level) as owner_compartment:
        return list(owner_compartment.entries())


def _entered(entries: list[Entry], session: str, action: Action) -> bool:
    return any(entry.event.session == session and entry.event.action is action for entry in entries)


def goes_on(home: Path) -> bool:
    """Whether the home takes new sessions, saves and raises, as if nothing had happened."""
    try:
        with opened(home, prefix="after") as store:
            session = store.session("assistant", "afterwards", Level.INTERNAL)
            session.memory.save("afterwards", "words")
            session.raise_taint(Level.RESTRICTED)
            return session.memory.get("afterwards") is not None and session.memory.delete is not None
    except TidegateError:
        return False
