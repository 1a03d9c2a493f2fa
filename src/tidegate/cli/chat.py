"""The command to talk with the agent: at the terminal, or with one message for programs."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from tidegate.cli.common import Command, open_store, options, standard_input
from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level

if TYPE_CHECKING:
    from tidegate.cli.chat_session import ChatPlace


_LEVEL = "Level to start at. [default: chat.level in config.toml]"


@click.command(
    cls=Command,
    common={"session": "Name of the conversation.", "level": _LEVEL},
    examples=(
        "tidegate chat",
        'tidegate chat --message "What do you know about me?"',
        "tidegate chat --session mail --level CONFIDENTIAL --message - --json < letter.txt",
    ),
)
@click.option("--message", metavar="TEXT", help="Send TEXT, show the answer, and exit; - reads standard input.")
@click.option(
    "--new", is_flag=True, help="Start a new conversation; the current one stays. Not with --session or --level."
)
def chat(message: str | None, new: bool) -> int:
    """Talk with the agent.

    The newest conversation continues, at the level it has reached. With --session, the conversation of that name is
    opened or resumed; a lower --level does not lower it. With --level alone, the conversation is at exactly that level
    and is not stored. The model is chat.model in config.toml, or TIDEGATE_CHAT_MODEL.
    """
    from tidegate.agent.opening import open_configured
    from tidegate.cli.chat_session import Chat
    from tidegate.config.home import find_home
    from tidegate.config.reader import read_settings
    from tidegate.records.validation import check_content

    home = find_home(options().home)
    settings = read_settings(home)
    model = open_configured(settings.chat)  # before anything is created, like every step that can fail
    place = _place(new, settings.chat.level)
    text = standard_input("message") if message == "-" else message
    if text is not None:
        text = check_content(text, settings.limits, "message")
    if text is None and (options().json or not (sys.stdin.isatty() and sys.stdout.isatty())):
        raise InvalidArgument("message: with --json or without a terminal, give --message", argument="message")
    if text is None and find_spec("rich") is None:
        missing = "chat: the terminal library is not installed; it comes with tidegate[agent]"
        raise InvalidArgument(missing, install="tidegate[agent]")
    with open_store() as store, Chat(store, home, settings, model, place) as conversation:
        return conversation.say_once(text, as_json=options().json) if text is not None else conversation.run()


def _place(new: bool, level: Level) -> ChatPlace:
    from tidegate.cli.chat_session import ChatPlace

    chosen = options()
    if new and (chosen.session is not None or chosen.level is not None):
        raise InvalidArgument("new: cannot be combined with --session or --level", argument="new")
    return ChatPlace(chosen.agent, chosen.session, level if chosen.level is None else chosen.level, chosen.level, new)
