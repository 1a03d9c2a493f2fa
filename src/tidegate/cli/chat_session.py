"""The chat: choosing its session, one turn after the other, and the owner's commands in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from tidegate.agent.loop import Agent, AgentSettings, Ended, Outcome, open_agent
from tidegate.agent.prompt import Model
from tidegate.cli import output
from tidegate.cli.common import missing
from tidegate.config.settings import ChatSettings, Settings
from tidegate.core.starting import not_lowered
from tidegate.errors import InvalidArgument, Refused, TidegateError
from tidegate.policy.decisions import PolicyRule
from tidegate.policy.levels import Level
from tidegate.search.analysis import analyse_query
from tidegate.session import Session
from tidegate.store import Store, fresh_id, utc_now

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

NAME = "chat"
"""The session of a chat without --session; after a reset it is chat-2, and so on."""

HELP = """\
/memory [WORDS]  list the memories, or search them for WORDS
/forget KEY      delete one memory
/todo            show the to-do list
/level           show the level of this conversation
/raise LEVEL     raise the level, permanently
/ceiling LEVEL   set how high the level may rise
/reset           end this conversation permanently, and start a new one
/help            show this help
/quit            leave; the next chat continues here (also Ctrl-D)
Ctrl-C stops an answer. Anything else you type goes to the model."""

_SHOWING = ("/memory", "/forget", "/todo")
"""Commands that show stored data."""


@dataclass(frozen=True, slots=True)
class ChatPlace:
    """Where to talk. name: of the session; None: the usual one. start: the level of a new session. wanted: the level
    that the owner gave, if any; without a name, such a conversation is not stored. new: start another conversation.
    """

    agent: str
    name: str | None
    start: Level
    wanted: Level | None
    new: bool = False


def open_session(store: Store, place: ChatPlace, settings: ChatSettings) -> Session:
    """Return the session to talk in, opened or resumed at its stored taint.

    Raises: InvalidArgument if the model could not answer or the answer could not be shown, Refused (ended),
    StorageError.
    """
    rows = {row.name or "": row.ended for row in store.sessions.list(place.agent)}
    active = [each for each in _numbered(NAME, rows) if not rows[each]]  # oldest first
    name = place.name or (active[-1] if active and not place.new else next_name(NAME, rows))
    if place.wanted is not None or name not in rows:  # a resumed session may be lower, and then works
        _check_start(place, settings)
    if place.name is None and place.wanted is not None:
        return store.session(place.agent, level=place.wanted)
    if name not in rows:
        return store.session(place.agent, name, place.start)
    session = store.resume(place.agent, name)
    if place.wanted is not None:
        before = session.taint
        after = session.raise_taint(place.wanted, reason="opened")
        if after is not before:
            output.warn(f"tidegate: {name} was raised from {before} to {after}, permanently")
        elif not after.can_flow_to(place.wanted):
            output.warn(f"tidegate: {not_lowered(name, _at(after, settings.clearance), place.wanted)}")
    return session


def _at(level: Level, clearance: Level) -> str:
    """Return where a session stands. P14: above the clearance, the model chooses how high it rises."""
    return f"at {level}" if level.can_flow_to(clearance) else f"above {clearance}"


def _check_start(place: ChatPlace, settings: ChatSettings) -> None:
    argument = "chat.level" if place.wanted is None else "level"
    for key, effect in (("clearance", "no answer could be shown"), ("model_clearance", "the model could not answer")):
        clearance: Level = getattr(settings, key)
        if not place.start.can_flow_to(clearance):
            reason = f"{place.start} is above chat.{key} ({clearance}), so {effect}"
            advice = "give a lower --level, lower chat.level" if place.wanted is None else "give a lower one"
            raise InvalidArgument(f"{argument}: {reason}; {advice}, or raise chat.{key}", argument=argument)


def _numbered(name: str, rows: dict[str, bool]) -> Iterator[str]:
    for number in count(1):
        numbered = name if number == 1 else f"{name}-{number}"
        if numbered not in rows:
            return
        yield numbered


def next_name(name: str, rows: dict[str, bool]) -> str:
    """Return the first of name, name-2, name-3 … that was never used."""
    taken = sum(1 for _ in _numbered(name, rows))
    return name if taken == 0 else f"{name}-{taken + 1}"


class ChatView(Protocol):
    """A terminal: a channel that can also ask its user."""

    name: str
    clearance: Level | None

    def begin(self) -> None: ...
    def show(self, event: Any) -> None: ...
    def end(self) -> None: ...
    def say(self, text: str) -> None: ...
    def ask(self, prompt: str) -> str: ...


class Chat:
    """A conversation with the agent, until its owner leaves."""

    def __init__(self, store: Store, home: Path, settings: Settings, model: Model, place: ChatPlace) -> None:
        self._store = store
        self._home = home
        self._settings = settings
        self._model = model
        self._place = place
        self._runner = asyncio.Runner()
        self._gateway: Gateway | None = None
        self._agent = self._open(open_session(store, place, settings.chat))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_gateway()
        self._runner.close()

    # One message

    def say_once(self, text: str, *, as_json: bool) -> int:
        """Send one message and show the answer. Return 0, or 1 if the answer is missing or incomplete."""
        from tidegate.cli.terminal import PlainView

        view = PlainView(self._settings.chat.clearance, quiet=as_json)
        for line in self._without_tools():
            output.warn(f"tidegate: {line}")
        outcome = self._answer(text, view)
        view.end()
        if as_json:
            output.emit(output.to_json(self._result(outcome)))
        elif outcome.ended is not Ended.COMPLETE:
            output.warn(f"tidegate: {explained(outcome)}")
        return 0 if outcome.ended is Ended.COMPLETE else 1

    def _result(self, outcome: Outcome) -> dict[str, Any]:
        session, clearance = self._agent.session, self._settings.chat.clearance
        level = session.taint
        return {
            "answer": outcome.answer,
            "ended": outcome.ended,
            "reason": explained(outcome) or None,
            "session": session.name,
            # P14: above the clearance, the model chooses how high the session rises.
            "level": level if level.can_flow_to(clearance) else None,
            "tools": [
                {"tool": used.tool, "failed": used.failed}
                | ({"refused": used.refused, "reason": used.reason} if used.failed else {})
                for used in outcome.used
            ],
        }

    def _answer(self, text: str, view: ChatView) -> Outcome:
        return self._runner.run(self._agent.answer(text, view))

    # At the terminal

    def run(self) -> int:
        """Run the conversation until the owner leaves. Return 0."""
        from tidegate.cli.terminal import TerminalView

        view = TerminalView(self._settings.chat.clearance)
        view.say(f"{self._where()}. /help lists the commands.")
        for line in self._without_tools():
            view.say(f"({line})")
        while True:
            try:
                line = view.ask(f"{self._level()}> ").strip()
            except EOFError:
                view.say("")
                return 0
            except KeyboardInterrupt:
                view.say("(type /quit or press Ctrl-D to leave)")
                continue
            except UnicodeDecodeError:
                view.say("(not sent: the line is not UTF-8)")
                continue
            if line in ("/quit", "/exit"):
                return 0
            self._turn(line, view)

    def _turn(self, line: str, view: ChatView) -> None:
        try:
            if line.startswith("/"):
                self._command(line, view)
            elif line:
                self._talk(line, view)
        except KeyboardInterrupt:
            view.end()
            view.say("(stopped)")
        except TidegateError as error:
            view.end()
            view.say(f"tidegate: {error.message}{output.elsewhere(error)}")
            if isinstance(error, Refused) and error.rule is PolicyRule.P7:
                self._reopen(view)

    def _talk(self, line: str, view: ChatView) -> None:
        before = self._agent.session.taint
        view.begin()
        outcome = self._answer(line, view)
        view.end()
        if outcome.ended is not Ended.COMPLETE:
            view.say(f"({explained(outcome)})")
        if self._agent.session.taint is not before:
            view.say(f"(this conversation rose from {before} to {self._level()})")

    def _command(self, line: str, view: ChatView) -> None:
        word, _, rest = line.partition(" ")
        commands: dict[str, Callable[[str, ChatView], None]] = {
            "/memory": self._show_memory,
            "/forget": self._forget,
            "/todo": self._show_todos,
            "/level": lambda _, view: view.say(self._levels()),
            "/raise": self._raise,
            "/ceiling": self._ceiling,
            "/reset": self._reset,
            "/help": lambda _, view: view.say(HELP),
        }
        if word not in commands:
            raise InvalidArgument(
                f"{output.escape(word)}: no such command; /help lists the commands", argument="command"
            )
        if word in _SHOWING:  # PRE_OUTPUT: the terminal's clearance counts, whoever uses it
            self._agent.session.check_output(view.clearance, channel=view.name)
        commands[word](rest.strip(), view)

    def _show_memory(self, words: str, view: ChatView) -> None:
        session = self._agent.session
        if words:
            found: Any = session.call_tool("memory_search", {"query": words})["results"]
        else:
            found = list(_all_memories(session))
        for each in found:
            for line in output.short(each):
                view.say(line)
        if words and not analyse_query(words):
            view.say("no matches: there is no word in it")
        elif not found:
            view.say("no matches" if words else "no memories")

    def _forget(self, key: str, view: ChatView) -> None:
        with missing(output.NO_MEMORY, at=self._level, look="find the key with /memory WORDS"):
            result = self._agent.session.call_tool("memory_delete", {"key": key})
        for line in output.deleted(result):
            view.say(line)

    def _show_todos(self, _: str, view: ChatView) -> None:
        for line in output.todo_list(self._agent.session.call_tool("todo_read")):
            view.say(line)

    def _raise(self, word: str, view: ChatView) -> None:
        try:
            self._agent.session.raise_taint(_level(word), reason="by the owner")
        except Refused as refused:
            if refused.rule is not PolicyRule.P4:
                raise
            view.say(f"tidegate: {refused.message}; here, use /ceiling LEVEL")
        else:
            view.say(self._levels())

    def _ceiling(self, word: str, view: ChatView) -> None:
        self._store.sessions.set_ceiling(self._agent.session.id, _level(word))
        view.say(self._levels())

    def _reset(self, _: str, view: ChatView) -> None:
        question = "End this conversation permanently? Its memories stay, its messages are removed. [y/N] "
        if view.ask(question).strip().lower() not in ("y", "yes"):
            view.say("nothing was changed")
            return
        if not self._store.sessions.reset(self._agent.session.id):
            view.say(output.REMAINS)
        self._reopen(view)

    def _reopen(self, view: ChatView) -> None:
        """Continue in a new session, with a new name (P7)."""
        place, name = self._place, self._agent.session.name
        self._close_gateway()
        if name is None:
            session = self._store.session(place.agent, level=place.start)
        else:
            rows = {row.name or "": row.ended for row in self._store.sessions.list(place.agent)}
            base = NAME if place.name is None else place.name
            session = self._store.session(place.agent, next_name(base, rows), place.start)
        self._agent = self._open(session)
        view.say(f"New conversation: {self._where()}.")

    # The session and its level

    def _open(self, session: Session) -> Agent:
        chat = self._settings.chat
        if self._settings.servers:
            from tidegate.gateway.gateway import Gateway
            from tidegate.gateway.pins import Pins

            self._gateway = Gateway(self._store, session, self._settings.servers, Pins(self._home))
        settings = AgentSettings(chat.model_clearance, chat.history_chars_max, chat.context_chars_max)
        return open_agent(
            session, self._model, self._home, clock=utc_now, ids=fresh_id, gateway=self._gateway, settings=settings
        )

    def _without_tools(self) -> list[str]:
        """Return a line for each configured server that offers the agent nothing."""
        try:
            found = {} if self._gateway is None else self._gateway.without_tools()
        except TidegateError as error:
            return [error.message]
        return [f"server {output.escape(name)} offers no tools here: {why}" for name, why in found.items()]

    def _close_gateway(self) -> None:
        if self._gateway is not None:
            self._runner.run(self._gateway.close())
            self._gateway = None

    def _level(self) -> str:
        """Return the level to show. P14: above the clearance, the model chooses how high the session rises."""
        clearance = self._settings.chat.clearance
        try:
            level = self._agent.session.taint
        except Refused:
            return "ENDED"
        return str(level) if level.can_flow_to(clearance) else f"above {clearance}"

    def _where(self) -> str:
        session = self._agent.session
        what = "not stored" if session.name is None else f"session {output.escape(session.name)}"
        return f"{output.escape(session.agent)}, {what}, at {self._level()}"

    def _levels(self) -> str:
        session = self._agent.session
        clearance = self._settings.chat.clearance
        return f"level {self._level()}, ceiling {session.ceiling}; this terminal shows up to {clearance}"


def explained(outcome: Outcome) -> str:
    """Return why the answer is not complete, and what to do; "" if it is complete."""
    if outcome.ended is Ended.HELD:
        advice = "raise chat.clearance in config.toml, or end the conversation with /reset or `tidegate session reset`"
        return f"the answer was held back: this conversation is above chat.clearance; {advice}"
    return outcome.reason


def _all_memories(session: Session) -> Iterator[Any]:
    cursor: object = None
    while True:
        page: Any = session.call_tool("memory_list", {"limit": 200, "cursor": cursor})
        yield from page["memories"]
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _level(word: str) -> Level:
    try:
        return Level[word.upper()]
    except KeyError:
        raise InvalidArgument(f"level: must be one of {', '.join(Level.__members__)}", argument="level") from None
