"""A secret for every level, sent through every verb; afterwards every byte below is searched for it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.yardstick import traces as t
from tests.yardstick.interference import answered
from tests.yardstick.model import Model
from tests.yardstick.worlds import Outcome, World

from tidegate.policy.levels import Level

AGENT = "ada"
SECRETS = {level: f"canary{level.name.lower()}{place * 7919:x}q" for place, level in enumerate(Level)}
SEATS = {level: t.Seat(AGENT, f"at-{place}") for place, level in enumerate(Level)}


def forms(secret: str) -> list[bytes]:
    """The secret as it may lie in a file or an answer: plain, two bytes a character, hexadecimal, base64."""
    plain = secret.encode()
    shifted = (base64.urlsafe_b64encode(b"x" * shift + plain) for shift in range(3))
    # The first and last characters also depend on what stands beside.
    return [plain, secret.encode("utf-16-le"), plain.hex().encode(), *(each[4:-4] for each in shifted)]


def holds(data: bytes, secret: str) -> bool:
    """Whether a secret is in the data in any form."""
    return any(form in data for form in forms(secret))


def script() -> t.Trace:
    """Every verb at every level, with the level's secret in everything that can be said; answers, misses, errors."""
    ops: list[t.Op] = [t.Open(seat, level) for level, seat in SEATS.items()]
    for level in reversed(Level):
        ops += _verbs(SEATS[level], SECRETS[level])
    ops += [t.Restart()]
    for level in Level:
        ops += _verbs(SEATS[level], SECRETS[level])
        ops += [t.Raise(SEATS[level], Level.RESTRICTED), t.Reset(SEATS[level]), t.Get(SEATS[level], SECRETS[level])]
    return t.trace(ops)


def _verbs(seat: t.Seat, secret: str) -> list[t.Op]:
    kid = t.Seat(seat.agent, f"kid-of-{seat.label}", named=False)
    return [
        t.Save(seat, f"key {secret}", f"content {secret}", (f"tag {secret}",)),
        t.Save(seat, f"key {secret}", f"content {secret} again", (secret,), tool=False),
        t.Save(seat, f"key {secret}", f"content {secret} again", (secret,), tool=False),
        t.SaveMany(seat, (("shared", f"{secret} {secret}", (secret,)), (secret, secret, ()))),
        t.Get(seat, "shared"),
        t.Get(seat, f"no {secret}", tool=False),
        t.Search(seat, f"{secret} content", 10),
        t.Search(seat, secret, 1, tool=False),
        t.Pages(seat, None, 1),
        t.Page(seat, secret, 1),
        t.Page(seat, None, 1),
        t.Delete(seat, secret),
        t.Delete(seat, f"no {secret}"),
        t.Call(seat, "memory_save", (("key", secret), ("content", secret), ("level", secret))),
        t.Call(seat, "memory_save", (("key", secret * 20), ("content", secret)), ("LIMIT", "key")),
        t.Call(seat, "memory_save", (("key", secret), ("content", f"{secret}\0")), ("INVALID_ARGUMENT", "content")),
        t.Call(seat, "memory_list", (("cursor", secret),), ("INVALID_ARGUMENT", "cursor")),
        t.Call(seat, "memory_list", (("limit", secret),), ("INVALID_ARGUMENT", "limit")),
        t.Call(seat, "memory_get", (("key", "k"), (secret, 1)), ("INVALID_ARGUMENT", "arguments")),
        t.Call(seat, f"memory_{secret}", (), ("REFUSED", "P17")),
        t.Open(kid, Level.PUBLIC, None, seat),
        t.Save(kid, f"kid {secret}", secret),
        t.Save(seat, f"rule {secret}", secret, ("rule",)),
        t.Context(seat),
        t.Plan(seat, (secret, "tea")),
        t.Planned(seat),
        t.Say(seat, secret),
        t.Said(seat),
        t.Say(kid, secret),
        t.End(kid),
    ]


def stained(steps: t.Trace) -> t.Trace:
    """A random trace whose saves carry the secret of the taint at which they happen."""
    model, marked = Model(), list[t.Step]()
    for step in steps:
        concern, _ = answered(model, step)
        marked.append(replace(step, op=_stained(step.op, SECRETS[concern.acting])))
    return tuple(marked)


def _stained(op: t.Op, secret: str) -> t.Op:
    match op:
        case t.Save():
            return replace(op, content=f"{op.content} {secret}", tags=(*op.tags, secret))
        case t.SaveMany():
            return replace(op, items=tuple((key, f"{content} {secret}", tags) for key, content, tags in op.items))
        case _:
            return op


@dataclass(frozen=True, slots=True)
class Emitted:
    """Something that was said or lies somewhere, and the level that may see it."""

    where: str
    level: Level
    data: bytes


def answers(world: World, steps: t.Trace) -> Iterator[Emitted]:
    """Run the steps; what each of them showed, at the taint before it."""
    model = Model()
    for step in steps:
        concern, _ = answered(model, step)
        yield Emitted(f"step {step.index} {step.op!r}", concern.acting, _said(world.step(step)))


def files(home: Path) -> Iterator[Emitted]:
    """Every file of a home. What is no compartment may hold nothing at all, as if it were below PUBLIC."""
    levels = {f"{level.name.lower()}.db": level for level in Level}
    for path in sorted(path for path in home.rglob("*") if path.is_file()):
        name = path.name.removesuffix("-wal").removesuffix("-shm")
        yield Emitted(str(path.relative_to(home)), levels.get(name, Level.PUBLIC), path.read_bytes())


def told(emitted: Emitted) -> list[Level]:
    """The levels above whose secret is in what was emitted."""
    above = (level for level in Level if not level.can_flow_to(emitted.level))
    return [level for level in above if holds(emitted.data, SECRETS[level])]


def _said(outcome: Outcome) -> bytes:
    return repr((outcome.answer, outcome.raw, outcome.state)).encode()
