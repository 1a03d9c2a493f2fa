"""ChatGPT: the memories of its data export."""

from __future__ import annotations

from tidegate.transfer.importers.chatgpt import read_chatgpt
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected


def test_chatgpt_entries_are_objects_or_texts_in_a_list() -> None:
    entry = {"id": "m1", "content": "Lives in Oslo", "enabled": True, "created_at": 1700000000, "updated_at": None}
    expected = RawMemory(place="entry 1", key="chatgpt-m1", content="Lives in Oslo", created_at=1700000000)
    assert list(read_chatgpt([entry])) == [expected]
    assert list(read_chatgpt({"memories": [entry]})) == [expected]
    (text,) = read_chatgpt(["Lives in Oslo"])
    assert isinstance(text, RawMemory)
    assert text.content == "Lives in Oslo"
    assert list(read_chatgpt({"user": "kim"})) == []


def test_keys_of_entries_without_an_id_follow_from_their_text_alone() -> None:
    one, two, mark = (read_chatgpt([{"content": text}]) for text in ("Lives in Oslo", "Lives in Oslo", "!!!"))
    keys = [each.key for found in (one, two, mark) for each in found if isinstance(each, RawMemory)]
    assert keys[0] == keys[1]
    assert str(keys[0]).startswith("chatgpt-lives-in-oslo-")
    assert str(keys[2]).startswith("chatgpt-")


def test_a_memory_that_was_switched_off_is_left_out_and_a_wrong_one_refused() -> None:
    off = {"id": "m1", "content": "x", "enabled": False}
    assert list(read_chatgpt([off, 3])) == [
        Rejected("entry 1", "was disabled at the source", refused=False),
        Rejected("entry 2", "is not a memory"),
    ]
