"""The session of a server: opened during the handshake, again if that failed, and never another session (P7).

A server that did not answer would say less than one whose calls say why they fail. So nothing that can pass keeps it
from starting: a store that is busy, read-only, damaged or full, a mistake in the settings, a session that has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, to_thread

from tidegate.core.starting import not_lowered
from tidegate.errors import INTERNAL_ERROR, InvalidArgument, Refused, StorageError, TidegateError, refused
from tidegate.policy.decisions import PolicyRule
from tidegate.policy.refusals import ENDED

if TYPE_CHECKING:
    from tidegate.policy.levels import Level
    from tidegate.session import Session
    from tidegate.store import Store

T = TypeVar("T")
_log = logging.getLogger(__name__)


class SessionOpener:
    """Opens one session: by its name, or an ephemeral one without.

    The first attempt to open it decides which session that is: the one that had the name then, or the first one after
    it. Any later session of the name is another life and refused, even if that attempt failed (P7). If it could not
    even read the store, it cannot tell whether the name was renewed since: then a name that ever was is refused.

    tell: takes, for the owner, what is wrong in the settings, and that `level` does not lower an existing session.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        agent: str,
        name: str | None,
        level: Level | None,
        *,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._open_store = open_store
        self._tell = tell
        self._agent = agent
        self._name = name
        self._level = level
        self._first: str | None = None
        self._tried = False
        self._renewals = 0
        self._store: Store | None = None

    def __call__(self) -> Session:
        """Return the session, in a store that stays open.

        Raises: Refused; InvalidArgument, LimitExceeded, StorageError, after which it can be called again.
        """
        tried, self._tried = self._tried, True
        try:
            store = self._open_store()
        except InvalidArgument as error:
            # P12: it may name servers, tags and levels that the session cannot see.
            self._tell(error.message)
            where = error.details["argument"]
            message = f"{where}: has an error; ask the owner to run `tidegate doctor`"
            raise InvalidArgument(message, argument=where) from None
        try:
            if not tried:
                self._renewals = store.sessions.renewals.count()
            store.sessions.renewals.begin_after(self._renewals)
            session = self._open(store)
            self._tell_if_above(session)
        except BaseException:
            store.close()
            raise
        self._store = store
        return session

    def close(self) -> None:
        """Close the store, if it is open."""
        if self._store is not None:
            self._store.close()

    def _tell_if_above(self, session: Session) -> None:
        """Tell the owner when their level does not count, because the session is above it."""
        if session.name is None or self._level is None:
            return
        taint = session.taint
        if not taint.can_flow_to(self._level):
            self._tell(not_lowered(session.name, f"at {taint}", self._level))

    def _open(self, store: Store) -> Session:
        named = None if self._name is None else store.sessions.id_of(self._agent, self._name)
        if self._first is None:
            self._first = named
        elif named != self._first:
            raise refused(ENDED)
        try:
            session = store.session(self._agent, name=self._name, level=self._level)
        except Refused as error:
            if named is not None:
                raise
            # Sessions are lost, and this may be one of them: then a later session of the name is another.
            raise Refused(error.reason, rule=PolicyRule.P7) from None
        if self._first not in (None, session.id):  # it got the name after the lookup
            raise refused(ENDED)
        return session


class ServedSession:
    """The session of a process. Calls run one at a time, in the order in which they came, and never in the event loop.

    opener: returns the session, or raises. It is called until it returns one, but not after a refusal by P7.
    command: the one that started the server.
    """

    def __init__(self, opener: Callable[[], Session], *, command: str = "mcp") -> None:
        self.command = command
        self._opener = opener
        self._turns = CapacityLimiter(1)
        self._session: Session | None = None
        self._failure: Exception | None = None
        self._ended: Refused | None = None

    async def run(self, act: Callable[[Session], T]) -> T:
        """Return what `act` returns for the session. Raises: TidegateError alone."""
        # A call that waited while the opening failed gets that answer, without another wait.
        return await to_thread.run_sync(self._run, act, self._failure, limiter=self._turns)

    async def run_beside(self, act: Callable[[Session], Awaitable[T]]) -> T:
        """Return what `act` returns for the session, awaited beside other calls. Raises: TidegateError alone."""
        session = await self.run(lambda session: session)
        with self._failing():
            return await act(session)

    async def level(self) -> Level | None:
        """Return the session's level; None if it is not known: not open, ended, unreadable."""
        session = self._session
        if session is not None and self._ended is None:
            with suppress(TidegateError):
                return await to_thread.run_sync(lambda: session.taint)
        return None

    def _run(self, act: Callable[[Session], T], failure_before: Exception | None) -> T:
        with self._failing():
            return act(self._living(failure_before))

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Remember that the session has ended, and turn every other error into one that a caller can get."""
        try:
            yield
        except Refused as refused:
            if refused.rule is PolicyRule.P7:
                self._ended = refused
            raise
        except TidegateError:
            raise
        except Exception as error:  # noqa: BLE001
            # P17: whatever it is, the answer is no. P12: none of its text leaves.
            _log.error("a call failed: %s", type(error).__name__)
            raise StorageError(INTERNAL_ERROR) from None

    def _living(self, failure_before: Exception | None) -> Session:
        if self._ended is not None:
            # P7: whatever the store says by now, as of an older copy of it. What is refused is entered, if it can be.
            with suppress(TidegateError):
                _ = self._session and self._session.taint
            raise Refused(self._ended.reason, rule=self._ended.rule)
        if self._session is None:
            if self._failure is not None and self._failure is not failure_before:
                raise self._failure.with_traceback(None)
            try:
                self._session = self._opener()
            except Exception as error:
                self._failure = error
                raise
        return self._session
