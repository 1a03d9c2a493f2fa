"""Lines to messages and back: whatever comes in, the answer is a message, a fault or nothing."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.server import stdio
from tidegate.server.stdio import INVALID_REQUEST, PARSE_ERROR, Fault

REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
LINE = json.dumps(REQUEST).encode()


@pytest.mark.parametrize(
    "line",
    [LINE + b"\n", LINE + b"\r\n", LINE, b"\xef\xbb\xbf" + LINE + b"\n", b" \t" + LINE + b" \n"],
    ids=["LF", "CR LF", "no end", "byte order mark", "spaces"],
)
def test_a_request_is_read_however_its_line_is_dressed(line: bytes) -> None:
    assert stdio.parse(line) == REQUEST


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b"   \n", b"\xef\xbb\xbf\n", b"\t\r\n"])
def test_blank_lines_are_skipped(line: bytes) -> None:
    assert stdio.parse(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"{\n",
        LINE + LINE + b"\n",
        b'{"id": "\xff\xfe"}\n',
        b"\xff\xfe{\x00}\x00\n",
        b"[" * 10_000 + b"\n",
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"\n",
        b'{"id": ' + b"9" * 5000 + b"}\n",
        b"Content-Length: 52\r\n",
        b"'single'\n",
        b'{"a": "\x00"}\n',
    ],
    ids=[
        "words",
        "brace",
        "two objects",
        "not UTF-8",
        "UTF-16",
        "open lists",
        "deep",
        "digits",
        "header",
        "quotes",
        "NUL",
    ],
)
def test_what_is_not_json_is_a_parse_error(line: bytes) -> None:
    fault = stdio.parse(line)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.id) == (PARSE_ERROR, None)


@pytest.mark.parametrize("text", ["[]", "5", "null", '"x"', "true", f"[{json.dumps(REQUEST)}]"])
def test_json_that_is_no_object_is_an_invalid_request(text: str) -> None:
    fault = stdio.parse(text.encode())
    assert isinstance(fault, Fault)
    assert fault.code == INVALID_REQUEST


@pytest.mark.parametrize("given_id", [None, 1.5, True, [], {}, "\ud800"])
def test_an_id_that_cannot_be_answered_is_an_invalid_request(given_id: object) -> None:
    fault = stdio.parse(json.dumps({**REQUEST, "id": given_id}).encode())
    assert isinstance(fault, Fault)
    assert (fault.code, fault.id) == (INVALID_REQUEST, None)


def test_of_duplicate_keys_the_last_counts() -> None:
    assert stdio.parse(b'{"id": 1, "method": "a", "method": "b"}') == {"id": 1, "method": "b"}


def test_lone_surrogates_in_values_are_left_to_the_tools() -> None:
    assert stdio.parse(b'{"key": "x\\ud83d y"}') == {"key": "x\ud83d y"}


def test_lines_are_read_until_the_end_of_the_file() -> None:
    lines = io.BytesIO(LINE + b"\n\nbad\n" + LINE)
    first, fault, last = stdio.read(lines)
    assert first == last == REQUEST
    assert isinstance(fault, Fault)


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_is_too_long_is_a_fault_and_the_next_is_read(end: bytes) -> None:
    lines = list(stdio.read(io.BytesIO(b" " * 200 + end + (LINE if end else b"")), bytes_max=100))
    assert isinstance(lines[0], Fault)
    assert "100 bytes" in lines[0].message
    assert lines[1:] == ([REQUEST] if end else [])


def test_a_line_of_exactly_the_longest_length_is_read() -> None:
    assert list(stdio.read(io.BytesIO(LINE + b"\n"), bytes_max=len(LINE))) == [REQUEST]
    assert list(stdio.read(io.BytesIO(LINE), bytes_max=len(LINE))) == [REQUEST]


@given(st.binary(max_size=200))
def test_no_line_raises(line: bytes) -> None:
    assert stdio.parse(line) is None or isinstance(stdio.parse(line), dict | Fault)


@given(st.text(max_size=50))
def test_a_message_is_one_line_to_every_reader_and_comes_back_exactly(text: str) -> None:
    line = stdio.encode({"text": text})
    assert line.decode().splitlines(keepends=True) == [line.decode()]
    assert json.loads(line) == {"text": text}


def test_lone_surrogates_leave_as_question_marks() -> None:
    assert stdio.encode({"text": "x\ud83dy"}) == b'{"text":"x?y"}\n'


def test_a_line_is_written_whole_even_if_the_pipe_takes_it_in_parts() -> None:
    class Narrow(io.RawIOBase):
        taken = b""

        def write(self, part: memoryview, /) -> int:  # type: ignore[override]
            self.taken += bytes(part[:3])
            return min(3, len(part))

    pipe = Narrow()
    stdio.write(pipe, b"0123456789\n")  # type: ignore[arg-type]
    assert pipe.taken == b"0123456789\n"
