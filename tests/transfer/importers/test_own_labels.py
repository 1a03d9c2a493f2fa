"""Labels that a memory states in a tag, in a line of its text or in its front matter: none is lost, in any source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.yardstick.growth import grows_linearly

from tidegate.policy.levels import Level
from tidegate.transfer.importers.labels import UNREADABLE, highest, label_in, label_in_tags, labels_in_observations
from tidegate.transfer.importers.raw_memory import RawMemory, Source
from tidegate.transfer.importers.registry import open_source

RESTRICTED = "RESTRICTED"
OBSERVED = "- [classification] RESTRICTED\nwords"
HEAD = "---\nclassification: RESTRICTED\n---\nwords"
TAG = "classification:restricted"


def labels(path: Path, source: Source) -> list[object]:
    return [each.label for each in open_source(path, source).read() if isinstance(each, RawMemory)]


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("- [classification] RESTRICTED: for board", RESTRICTED),
        ("- [classification] this note is **RESTRICTED**", RESTRICTED),
        ('- [classification] is "RESTRICTED"', RESTRICTED),
        ("- [classification] is «RESTRICTED»", RESTRICTED),
        ("- [classification] is RESTRICTED!", RESTRICTED),
        ("- [classification] RESTRICTED/NOFORN only", RESTRICTED),
        ("- [classification] RESTRICTED-NOFORN only", RESTRICTED),
        ("- [classification] _RESTRICTED_ for board", RESTRICTED),
        ("- [classification] ==RESTRICTED== `x`", RESTRICTED),
        ("- [classification] #restricted", RESTRICTED),
        ("- [classification] by law (RESTRICTED)", RESTRICTED),
        ("- [classification]\u00a0RESTRICTED", RESTRICTED),
        ("-\u2003[classification]\u3000RESTRICTED", RESTRICTED),
        ("- [classification]\u200bRESTRICTED", RESTRICTED),
        ("- [classification] RESTR\u200bICTED", RESTRICTED),
        ("- [classification] \uff32\uff25\uff33\uff34\uff32\uff29\uff23\uff34\uff25\uff24", RESTRICTED),
        ("- [classification]: RESTRICTED", RESTRICTED),
        ("- **[classification]** RESTRICTED", RESTRICTED),
        ("- [**classification**] RESTRICTED", RESTRICTED),
        ("- [ ] [classification] RESTRICTED", RESTRICTED),
        ("> - [classification] RESTRICTED", RESTRICTED),
        ("- [security level] now _internal_, soon", "INTERNAL"),
        ("- [classification] secret", UNREADABLE),
        ("- [classification] **secret** #x (until May)", UNREADABLE),
        ("- **[classification]**: secret", UNREADABLE),
        ("- [level] beginner", None),
        ("- [classification] we keep it to two people", None),
        ("- [classification] unrestricted, and internally known", None),
        ("- [classification](restricted.md) is a link", None),
        ("- [decision] keep it restricted to two people", None),
        ("- [classification]", None),
    ],
)
def test_p10_a_level_in_a_labelled_line_counts_whatever_is_around_it(line: str, label: object) -> None:
    assert highest(labels_in_observations(f"# Note\n{line}\nwords")) == label


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x85", "\u2028", "\f"])
def test_p10_a_labelled_line_may_have_any_end(end: str) -> None:
    assert highest(labels_in_observations(end.join(["# Note", "- [classification] RESTRICTED", "words"]))) == RESTRICTED


@given(
    st.sampled_from(["classification", "Level", "security_level", "Sensitivity"]),
    st.text(st.characters(categories=("P", "S", "Zs", "Cf"), exclude_characters="[]("), min_size=1, max_size=4),
    st.sampled_from(list(Level)),
    st.text(st.characters(categories=("P", "S", "Zs", "Nd")), max_size=4),
)
def test_p10_no_sign_around_a_level_hides_it(field: str, before: str, level: Level, after: str) -> None:
    assert highest(labels_in_observations(f"- [{field}]{before}{level}{after}")) == str(level)
    assert label_in({field: {"value": f"{before}{level}{after}"}}) in (str(level), UNREADABLE)


@pytest.mark.parametrize(
    ("tags", "label"),
    [
        ([TAG], RESTRICTED),
        (["classification=restricted"], RESTRICTED),
        (["#Classification/Restricted"], RESTRICTED),
        (["Classification : RESTRICTED"], RESTRICTED),
        (["sys:classification:restricted"], RESTRICTED),
        (["classification:restricted:board"], RESTRICTED),
        (["classification\uff1arestricted"], RESTRICTED),
        (["security-level:Internal", "sensitivity=confidential"], "CONFIDENTIAL"),
        ("a classification:restricted, x", RESTRICTED),
        ('["classification:restricted"]', RESTRICTED),
        ({"classification:restricted": True}, RESTRICTED),
        (["classification:secret"], UNREADABLE),
        ("a classification:secret", UNREADABLE),
        (["classification:"], UNREADABLE),
        (
            [
                "ml/classification/binary",
                "level:beginner",
                "sensitivity=high",
                "classification",
                "topic:restricted",
                5,
                None,
            ],
            None,
        ),
        (None, None),
    ],
)
def test_p10_a_label_in_a_tag_counts(tags: object, label: object) -> None:
    assert label_in_tags(tags) == label


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ({"security_level": {"value": RESTRICTED}}, RESTRICTED),
        ({"security_level": {"marking": [{"type": "restricted"}]}}, RESTRICTED),
        ({"security_level": {RESTRICTED: True}}, RESTRICTED),
        ({"level": "Restricted (board)"}, RESTRICTED),
        ({"level": "beginner"}, None),
        ({"tags": ["a"], "meta": {"Tags": [TAG]}}, RESTRICTED),
        ({"x": '{"classification": "RESTRICTED"}'}, RESTRICTED),
        ({"x": json.dumps(json.dumps({"classification": RESTRICTED}))}, RESTRICTED),
        ({"x": "{'classification': 'RESTRICTED'}"}, UNREADABLE),
        ({"x": "{'level': 'RESTRICTED'}"}, UNREADABLE),
        ({"x": "{not JSON, level: beginner}"}, None),
        ({"x": '"quoted" words'}, None),
        ({"level": '["restricted"]'}, RESTRICTED),
    ],
)
def test_p10_a_label_counts_below_its_key_and_in_text_that_is_json(value: object, label: object) -> None:
    assert label_in(value) == label


@pytest.mark.parametrize(
    ("source", "document"),
    [
        (Source.MEM0, [{"memory": "x", "categories": [TAG]}]),
        (Source.MEM0, {"memories": [{"memory": "x", "category_ids": ["c"]}], "categories": [{"id": "c", "name": TAG}]}),
        (Source.MEM0, [{"memory": "x", "metadata": '{"classification": "RESTRICTED"}'}]),
        (Source.MEM0, [{"memory": OBSERVED}]),
        (Source.MEM0, [{"memory": HEAD}]),
        (Source.MEMORY_SERVICE, [{"content": "x", "tags": '["classification:restricted"]'}]),
        (Source.MEMORY_SERVICE, [{"memory": {"content": "x"}, "tags": [TAG]}]),
        (Source.MEMORY_SERVICE, [{"content": "x", "metadata": {"a": '{"classification": "RESTRICTED"}'}}]),
        (Source.MEMORY_SERVICE, [{"content": OBSERVED}]),
        (Source.MEMORY_SERVICE, [{"content": HEAD}]),
        (Source.MEMORY_SERVICE, {"export_metadata": {"filter_tags": [TAG]}, "memories": [{"content": "x"}]}),
        (Source.CHATGPT, [{"content": "x", "tags": [TAG]}]),
        (Source.CHATGPT, [OBSERVED]),
        (Source.CHATGPT, [HEAD]),
        (Source.MCP, {"entities": [{"name": "a", "entityType": TAG, "observations": ["x"]}]}),
        (Source.MCP, {"entities": [{"name": "a", "entityType": "t", "observations": ["x", HEAD]}]}),
        (Source.MCP, {"entities": [{"name": "a", "entityType": "t", "observations": ["x", OBSERVED[2:]]}]}),
        (Source.CLAUDE, [{"memory_files": [{"path": "a.md", "content": HEAD}]}]),
        (Source.CLAUDE, [{"memory_files": [{"path": "a.md", "content": OBSERVED}]}]),
        (Source.CLAUDE, [{"conversations_memory": f"{HEAD}\n# Work\nx"}]),
        (Source.CLAUDE, [{"project_memories": {"p": f"# Work\nx\n# Home\n{OBSERVED}"}}]),
        (Source.TIDEGATE, {"key": "k", "content": "x", "tags": [TAG]}),
    ],
)
def test_p10_every_importer_reads_the_labels_in_tags_and_texts(tmp_path: Path, source: Source, document: Any) -> None:
    (tmp_path / "source").write_text(json.dumps(document))
    found = labels(tmp_path / "source", source)
    assert found
    assert set(found) == {RESTRICTED}


@pytest.mark.parametrize("source", [Source.MARKDOWN, Source.BASIC_MEMORY])
@pytest.mark.parametrize(
    "text",
    [
        f"---\ntags: ['{TAG}']\n---\nx",
        f"---\ntags: {TAG}, x\n---\nx",
        "---\ntags:\n- classification/restricted\n---\nx",
        "---\nsecurity_level: {value: RESTRICTED}\n---\nx",
        "---\nlevel: Restricted (board)\n---\nx",
        "# T\r- [classification] RESTRICTED\rx",
    ],
)
def test_p10_notes_keep_the_labels_in_their_fields_and_lines(tmp_path: Path, source: Source, text: str) -> None:
    (tmp_path / "n.md").write_bytes(text.encode())
    assert labels(tmp_path / "n.md", source) == [RESTRICTED]


def test_p10_a_type_of_basic_memory_is_a_tag(tmp_path: Path) -> None:
    (tmp_path / "n.md").write_text(f"---\ntype: {TAG}\n---\nx")
    assert labels(tmp_path / "n.md", Source.BASIC_MEMORY) == [RESTRICTED]


def test_p10_one_labelled_file_of_claude_leaves_the_others_free(tmp_path: Path) -> None:
    labelled = [{"path": "a", "content": HEAD}, {"content": '{"level": "RESTRICTED"}'}, {"level": RESTRICTED}]
    files = [{"path": "a", "content": "x", **each} for each in [*labelled, {}]]
    (tmp_path / "source").write_text(json.dumps([{"memory_files": files}]))
    assert labels(tmp_path / "source", Source.CLAUDE) == [RESTRICTED] * 3 + [None]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("---\ntitle: [\n---\nx", UNREADABLE),
        ('{"a": 1, "classification": ', UNREADABLE),
        ('{"a": 1, "b": ', None),
        ('{"a": {"level": "RESTRICTED"}}', RESTRICTED),
        ("---\nwords between two rules\n---\nx", None),
        ("Level: two of five", None),
    ],
)
def test_p10_a_text_is_read_as_a_note_and_refused_only_in_doubt(tmp_path: Path, text: str, label: object) -> None:
    (tmp_path / "source").write_text(json.dumps([{"memory": text}]))
    assert labels(tmp_path / "source", Source.MEM0) == [label]


def test_an_export_says_the_level_of_a_memory_whatever_is_in_its_text(tmp_path: Path) -> None:
    line = {"key": "k", "content": HEAD, "classification": "PUBLIC"}
    (tmp_path / "source").write_text(json.dumps(line))
    assert labels(tmp_path / "source", Source.TIDEGATE) == ["PUBLIC"]


@pytest.mark.parametrize("text", ["{}", "- [classification] {}", "- [classification{}", "- [classification] x ({}"])
@pytest.mark.parametrize("filler", [" ", "(", "# ", "[", "a:", "classification=", "\u200b", '["', "- "])
def test_no_text_or_tag_takes_longer_than_it_is_long(text: str, filler: str) -> None:
    def work(size: int) -> None:
        filled = text.replace("{}", filler * (size // len(filler)))
        list(labels_in_observations(filled))
        label_in_tags(filled)

    assert grows_linearly(work, 2**17)
