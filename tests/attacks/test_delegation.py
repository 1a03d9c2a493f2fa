"""Attacks by way of children: what they have read must be known of their parent (P15)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate import Level
from tidegate.core.sessions import Sessions
from tidegate.errors import Refused

SECRET = "the vault opens at 7"


def raised_while_it_ends(patch: pytest.MonkeyPatch, child: tidegate.Session) -> None:
    """Another thread of the child reads something high after its taint was joined, and before it is over."""
    real = Sessions._end

    def end(self: Sessions, session: str, **rest: Any) -> Any:
        patch.setattr(Sessions, "_end", real)
        child.raise_taint(Level.RESTRICTED)
        assert child.memory.get("secret") is not None
        return self._end(session, **rest)

    patch.setattr(Sessions, "_end", end)


@pytest.mark.parametrize("name", [None, "child"])
def test_p15_what_a_child_reads_while_it_ends_joins_its_parents_taint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    with tidegate.open(tmp_path) as store:
        store.session("assistant", level=Level.RESTRICTED).memory.save("secret", SECRET)
        parent = store.session("assistant", "main")
        child = store.session("assistant", name, parent=parent)
        raised_while_it_ends(monkeypatch, child)
        child.end()
        assert parent.taint is Level.RESTRICTED
        with pytest.raises(Refused):
            child.memory.get("secret")


def test_p15_a_child_that_reads_too_much_while_it_ends_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tidegate.open(tmp_path) as store:
        store.session("assistant", level=Level.RESTRICTED).memory.save("secret", SECRET)
        parent = store.session("assistant", "main", Level.PUBLIC)
        child = store.session("assistant", "child", parent=parent)
        raised_while_it_ends(monkeypatch, child)
        real = Sessions.raise_taint

        def raise_taint(self: Sessions, session: str, level: Level, **rest: Any) -> Level:
            if session == parent.id and level is Level.RESTRICTED:
                self.set_ceiling(parent.id, Level.INTERNAL)  # the owner is as quick
            return real(self, session, level, **rest)

        monkeypatch.setattr(Sessions, "raise_taint", raise_taint)
        with pytest.raises(Refused):
            child.end()
        assert child.taint is Level.RESTRICTED
        assert parent.taint is Level.PUBLIC
