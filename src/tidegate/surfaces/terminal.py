"""What a terminal shows of an answer: Markdown as it grows, without anything that a terminal would obey.

No link hides behind other words, and nothing is fetched: what an answer could carry out of the house by being shown,
it cannot here. The one module that imports rich.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from tidegate.agent.channels import Said, Shown, Used, Waited
from tidegate.policy.levels import Level
from tidegate.surfaces import output

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.markdown import Markdown

_REFRESHES_PER_SECOND = 10


class Plain:
    """A channel for programs and pipes: the text as it comes, on standard output. quiet: nothing at all."""

    name = "terminal"

    def __init__(self, clearance: Level | None, *, quiet: bool = False) -> None:
        self.clearance = clearance
        self._quiet = quiet
        self._last = "\n"

    def begin(self) -> None:
        """Nothing: whoever waits here wants the answer alone."""

    def show(self, event: Shown) -> None:
        """Text to standard output, all else to standard error."""
        if self._quiet:
            return
        if isinstance(event, Said):
            text = output.escape_lines(event.text, indent="")
            sys.stdout.write(text)
            sys.stdout.flush()
            self._last = text or self._last
        else:
            output.note(described(event))

    def end(self) -> None:
        """A line end, if there is none."""
        if not self._last.endswith("\n"):
            sys.stdout.write("\n")

    def say(self, text: str) -> None:
        """A line that is no part of an answer."""
        output.note(text)

    def ask(self, prompt: str) -> str:
        """Nobody is there."""
        raise EOFError


class Terminal:
    """A person's terminal."""

    name = "terminal"

    def __init__(self, clearance: Level | None) -> None:
        from rich.console import Console
        from rich.spinner import Spinner

        self.clearance = clearance
        self._console: Console = Console(highlight=False, markup=False, emoji=False)
        self._waiting = Spinner("dots", style="dim")
        self._pending = ""
        self._live: Live | None = None

    def begin(self) -> None:
        """Show that an answer is awaited."""
        self._grow()

    def show(self, event: Shown) -> None:
        """A bit of the answer: whole blocks for good, the rest as it grows."""
        if not isinstance(event, Said):
            self.end()
            self._console.print(described(event), style="dim")
            self._grow()
            return
        self._pending += event.text
        done, self._pending = split_blocks(self._pending)
        if done:
            self._stop()
            self._console.print(markdown(done))
        self._grow()

    def end(self) -> None:
        """Show what is still pending."""
        self._stop()
        if self._pending.strip():
            self._console.print(markdown(self._pending))
        self._pending = ""

    def say(self, text: str) -> None:
        """Lines that are no part of an answer."""
        self._console.print(output.escape_lines(text, indent=""), soft_wrap=True)

    def ask(self, prompt: str) -> str:
        """A line that the owner types. Raises: EOFError, KeyboardInterrupt."""
        import readline  # noqa: F401  so that a line can be edited

        return input(prompt)

    def _grow(self) -> None:
        from rich.live import Live

        if self._live is None and self._console.is_terminal:
            self._live = Live(
                console=self._console,
                get_renderable=self._growing,
                refresh_per_second=_REFRESHES_PER_SECOND,
                transient=True,  # what is shown for good is printed when it is whole
                vertical_overflow="crop",
            )
            self._live.start()

    def _growing(self) -> RenderableType:
        return markdown(self._pending) if self._pending.strip() else self._waiting

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def split_blocks(text: str) -> tuple[str, str]:
    """Blocks of Markdown that are complete, and the rest: a blank line ends a block, but not within a fence."""
    at, fence = 0, ""
    for line in re.finditer(r"[^\n]*\n", text):
        stripped = line[0].strip()
        marks = re.match(r"(`{3,}|~{3,})", stripped)
        if fence:
            if stripped.startswith(fence) and not stripped.strip(fence[0]):
                fence = ""
        elif marks:
            fence = marks[0]
        elif not stripped:
            at = line.end()
    return text[:at], text[at:]


def markdown(text: str) -> Markdown:
    """Markdown to print: addresses in full, HTML as text, controls as escapes."""
    from rich.markdown import Markdown

    made = Markdown(output.escape_lines(text, indent=""), hyperlinks=False, code_theme="ansi_dark")
    for token in made.parsed:
        if token.type == "html_block":
            token.type = "code_block"
        for child in token.children or ():
            if child.type == "html_inline":
                child.type = "text"
    return made


def described(event: Shown) -> str:
    """A line on what is going on."""
    match event:
        case Used(tool, failed, refused, reason):
            what = f" ({'refused' if refused else 'failed'}: {output.escape(reason)})" if failed else ""
            return f"· {output.escape(tool)}{what}"
        case Waited(reason):
            return f"· {reason}; trying again"
        case Said(text):
            return text
