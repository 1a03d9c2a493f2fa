"""What a client's model is told: SPINE.md of its agent, and our guidance on memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.server.mcp_peer import INITIALIZE, ServerProcess

from tidegate.agent.spine import SPINE
from tidegate.core.guidance import (
    GATEWAY_GUIDANCE,
    GUIDANCE,
    HEAD_CHARS,
    INSTRUCTIONS_CHARS,
    SPINE_BYTES_MAX,
    read_instructions,
)
from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.server.serve import _tell, instructions_of
from tidegate.tools import TOOLS


def write_spine(home: Path, data: bytes, *, agent: str = "assistant") -> Path:
    path = home / "agents" / agent / "SPINE.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("tag", ["persona", "preference", "rule", "project"])
def test_the_guidance_names_each_tag(tag: str) -> None:
    assert f"(tag {tag})" in GUIDANCE


def test_the_guidance_names_only_tools_that_there_are() -> None:
    named = {word.strip("().,") for word in GUIDANCE.split() if "memory_" in word}
    assert named <= set(TOOLS)
    assert {"memory_search", "memory_save", "memory_delete"} <= named


def test_what_a_model_must_know_is_in_what_every_client_reads() -> None:
    must = GUIDANCE[:HEAD_CHARS]
    assert all(name in must for name in ("memory_search", "memory_save", "memory_delete", "same key", "instruction"))
    assert len(GUIDANCE.split("\n\n")[0]) <= HEAD_CHARS


@pytest.mark.parametrize("guidance", [GUIDANCE, GATEWAY_GUIDANCE], ids=["mcp", "gateway"])
def test_the_guidance_and_the_default_spine_fit_what_clients_read(guidance: str) -> None:
    assert len(guidance) <= 1_500
    assert len(f"{guidance}\n{SPINE}") <= INSTRUCTIONS_CHARS


def test_the_gateway_says_the_same_and_two_sentences_about_other_tools(home: Path) -> None:
    assert GATEWAY_GUIDANCE.startswith(f"{GUIDANCE}\n")
    assert GATEWAY_GUIDANCE.removeprefix(GUIDANCE).strip().count(".") == 2
    write_spine(home, b"You are a clerk.")
    assert read_instructions(home, "assistant", GATEWAY_GUIDANCE) == f"{GATEWAY_GUIDANCE}\nYou are a clerk.\n"


@pytest.mark.parametrize("level", Level)
def test_the_guidance_names_no_level(level: Level) -> None:
    assert str(level) not in GATEWAY_GUIDANCE


def test_without_spine_the_instructions_are_the_guidance(home: Path) -> None:
    assert read_instructions(home, "assistant") == GUIDANCE
    write_spine(home, b" \n\n")
    assert read_instructions(home, "assistant") == GUIDANCE
    assert not (home / "agents" / "other").exists()


def test_spine_comes_after_the_guidance_and_is_the_agents_own(home: Path) -> None:
    write_spine(home, "\ufeffYou are \u2713 a clerk.\r\n".encode())
    write_spine(home, b"You are another.", agent="other")
    assert read_instructions(home, "assistant") == f"{GUIDANCE}\nYou are \u2713 a clerk.\n"


def test_a_spine_of_exactly_the_largest_size_is_read(home: Path) -> None:
    write_spine(home, b"x" * SPINE_BYTES_MAX)
    assert read_instructions(home, "assistant").endswith(f"\n{'x' * SPINE_BYTES_MAX}\n")


@pytest.mark.parametrize("data", [b"x" * (SPINE_BYTES_MAX + 1), b"\xff\xfe"], ids=["too large", "not UTF-8"])
def test_a_spine_that_cannot_be_used_is_an_error_and_never_cut(home: Path, data: bytes) -> None:
    path = write_spine(home, data)
    with pytest.raises(StorageError, match=r"^SPINE\.md: must be") as raised:
        read_instructions(home, "assistant")
    assert str(path) not in raised.value.message


@pytest.mark.parametrize("data", [b"x" * (SPINE_BYTES_MAX + 1), b"\xff\xfe", None], ids=["large", "bytes", "folder"])
def test_without_a_spine_that_can_be_read_the_server_gives_the_guidance_alone_and_tells_the_owner(
    home: Path, data: bytes | None, capfd: pytest.CaptureFixture[str]
) -> None:
    if data is None:
        (home / "agents" / "assistant" / "SPINE.md").mkdir(parents=True)
    else:
        write_spine(home, data)
    assert instructions_of(home, "assistant", GUIDANCE, partial(_tell, "mcp")) == GUIDANCE
    said = capfd.readouterr().err
    assert said.startswith("tidegate mcp: SPINE.md: must be ")
    assert said.endswith("; the model gets only Tidegate's guidance\n")


def test_a_server_without_its_spine_answers(home: Path) -> None:
    (home / "agents" / "assistant" / "SPINE.md").mkdir(parents=True)
    with ServerProcess(["--home", str(home)]) as peer:
        assert peer.ask("initialize", INITIALIZE)["result"]["instructions"] == GUIDANCE
        assert peer.call("memory_save", key="k", content="x")["saved"] is True
        assert peer.end() == (
            0,
            "tidegate mcp: SPINE.md: must be a readable file in UTF-8; the model gets only Tidegate's guidance\n",
        )
