"""Answers at the terminal: Markdown as it grows, without control sequences.

No link hides behind other words, and nothing is fetched, so showing an answer sends no data anywhere. This is the only
module that imports rich.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.agent.channel import Retrying, Shown, TextDelta, TextWithdrawn, ToolCalled
from tidegate.cli import output
from tidegate.policy.levels import Level
from tidegate.records import invisible_text as unseen

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.markdown import Markdown
    from rich.text import Text

_REFRESHES_PER_SECOND = 10
_GROWING_CHARS_MAX = 2_000
"""How much of an unfinished block is shown while it grows. This bounds the cost of a refresh."""
_MARKDOWN_CHARS_MAX = 20_000
"""A longer block is shown as plain text: parsing a hostile one could take too long."""
_SPACE = " \t\r\n"
"""The characters of a blank line. Other Unicode blanks count as text and are shown."""


class PlainView:
    """A channel for programs and pipes: the text as it comes, on standard output. quiet: write nothing."""

    name = "terminal"

    def __init__(self, clearance: Level | None, *, quiet: bool = False) -> None:
        self.clearance = clearance
        self._quiet = quiet
        self._escaper = unseen.Escaper()
        self._last = "\n"

    def begin(self) -> None:
        """Show nothing: a program wants only the answer."""

    def show(self, event: Shown) -> None:
        """Write text to standard output, everything else to standard error."""
        if self._quiet:
            return
        if isinstance(event, TextDelta):
            self._write(self._escaper.feed(event.text))
        else:
            self._write(self._escaper.end())
            if isinstance(event, TextWithdrawn):
                self.end()  # the answer begins on its own line
            output.warn(described(event))

    def end(self) -> None:
        """Write a line end if the text does not end with one."""
        self._write(self._escaper.end())
        if not self._last.endswith("\n"):
            self._write("\n")

    def say(self, text: str) -> None:
        """Write a line that is not part of an answer."""
        output.warn(text)

    def ask(self, prompt: str) -> str:
        """Raise EOFError: there is no user to ask."""
        raise EOFError

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._last = text or self._last


class TerminalView:
    """A person's terminal."""

    name = "terminal"

    def __init__(self, clearance: Level | None) -> None:
        from rich.console import Console
        from rich.spinner import Spinner

        self.clearance = clearance
        self._console: Console = Console(highlight=False, markup=False, emoji=False)
        self._waiting = Spinner("dots", style="dim")
        self._blocks = Blocks()
        self._parted = False
        self._live: Live | None = None

    def begin(self) -> None:
        """Show that the answer is pending."""
        self._grow()

    def show(self, event: Shown) -> None:
        """Show a piece of the answer: complete blocks permanently, the rest as it grows."""
        if not isinstance(event, TextDelta):
            self.end()
            self._console.print(described(event), style="dim")
            self._grow()
            return
        for block in self._blocks.feed(event.text):
            self._print(block)
        self._grow()

    def end(self) -> None:
        """Show the rest of the answer."""
        self._stop()
        self._print(self._blocks.rest())
        self._parted = False

    def say(self, text: str) -> None:
        """Write lines that are not part of an answer."""
        self._console.print(output.escape_lines(text, indent=""), soft_wrap=True)

    def ask(self, prompt: str) -> str:
        """Return a line that the owner types. Raises: EOFError, KeyboardInterrupt."""
        import readline  # noqa: F401  makes the line editable

        return input(prompt)

    def _grow(self) -> None:
        from rich.live import Live

        if self._live is None and self._console.is_terminal:
            self._live = Live(
                console=self._console,
                get_renderable=self._growing,
                refresh_per_second=_REFRESHES_PER_SECOND,
                transient=True,  # a complete block is printed permanently
                vertical_overflow="crop",
            )
            self._live.start()

    def _growing(self) -> RenderableType:
        tail = self._blocks.tail
        if not tail.strip(_SPACE):
            return self._waiting
        return (markdown if len(tail) < _GROWING_CHARS_MAX else plain)(unseen.decided(tail))

    def _print(self, block: str) -> None:
        if not block.strip(_SPACE):
            return
        self._stop()
        if self._parted:
            self._console.print()
        if len(block) > _MARKDOWN_CHARS_MAX:
            self._console.print(plain(block), soft_wrap=True)
        else:
            self._console.print(markdown(block))
        self._parted = True

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class Blocks:
    """Markdown that arrives in pieces, as complete blocks. A blank line ends a block, except within a fence.

    The blocks do not depend on how the text is cut into pieces. Each character is read once.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line: list[str] = []
        self._fence = ""
        self.tail = ""
        """The last characters of the incomplete block."""

    def feed(self, piece: str) -> Iterator[str]:
        """Yield the blocks that the piece completes."""
        *ends, rest = piece.split("\n")
        for end in ends:
            line = "".join((*self._line, end, "\n"))
            self._line.clear()
            self._lines.append(line)
            self._lengthen(end + "\n")
            if self._is_last(line):
                yield self.rest()
        self._line.append(rest)
        self._lengthen(rest)

    def rest(self) -> str:
        """Return the incomplete block, and begin another."""
        block = "".join(self._lines + self._line)
        self._lines.clear()
        self._line.clear()
        self._fence = self.tail = ""
        return block

    def _lengthen(self, text: str) -> None:
        self.tail = (self.tail + text)[-_GROWING_CHARS_MAX:]

    def _is_last(self, line: str) -> bool:
        stripped = line.strip(_SPACE)
        if self._fence:
            if stripped.startswith(self._fence) and not stripped.strip(self._fence[0]):
                self._fence = ""
        elif marks := re.match(r"`{3,}(?=[^`]*$)|~{3,}", stripped):
            self._fence = marks[0]
        return not stripped and not self._fence


def markdown(text: str) -> Markdown:
    """Return Markdown to print: addresses in full, HTML and images as text, invisible characters as escapes."""
    from rich.markdown import Markdown

    # Escape before parsing, since the parser drops some blanks, and after it, since it decodes entities. Drop the
    # language of a fence: it would choose a highlighter, and some take quadratic time or more.
    made = Markdown(output.escape_lines(text, indent=""), hyperlinks=False, code_theme="ansi_dark")
    tokens = list(made.parsed)
    for token in tokens:
        if token.type == "html_block":
            token.type = "code_block"
        elif token.type == "html_inline":
            token.type = "text"
        elif token.type == "image":
            token.type, token.tag, token.children = "text", "", None
            token.content = f"{token.content} ({token.attrs['src']})".lstrip()
        token.content, token.info = unseen.escape_invisible(token.content), ""  # P18
        token.attrs = {name: unseen.escape_invisible(str(value)) for name, value in token.attrs.items()}
        tokens.extend(token.children or ())
    return made


def plain(text: str) -> Text:
    """Return the text as it is, with invisible characters as escapes."""
    from rich.text import Text

    return Text(output.escape_lines(text, indent=""))


def described(event: Shown) -> str:
    """Return a line on the event."""
    match event:
        case ToolCalled(tool, failed, refused, reason):
            what = f" ({'refused' if refused else 'failed'}: {output.escape(reason)})" if failed else ""
            return f"· {output.escape(tool)}{what}"
        case Retrying(reason):
            return f"· {output.escape(reason)}; trying again"
        case TextWithdrawn():
            return "· the text above was the model's thoughts, and not part of its answer"
        case TextDelta(text):
            return output.escape(text)
