"""Front matter: read as YAML, TOML or JSON is, or the note is refused. A label in it is never lost (P10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.yardstick.growth import grows_linearly

from tidegate.transfer.importers import chatgpt, claude, mcp_memory, mem0
from tidegate.transfer.importers.front_matter import CHARS_MAX, DEPTH_MAX, UnreadableError, split
from tidegate.transfer.importers.labels import UNREADABLE, label_in
from tidegate.transfer.importers.markdown import Note, read_note
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected
from tidegate.transfer.importers.source_file import Memories

ENTITY = {"name": "a", "entityType": "t", "observations": ["classification: RESTRICTED"]}


def note(text: str) -> RawMemory | Rejected:
    return read_note(Note("n.md", text, 1_700_000_000.0))


def taken_in_at_public(text: str) -> bool:
    """Whether an import at PUBLIC takes the note in."""
    found = note(text)
    return isinstance(found, RawMemory) and found.label in (None, "PUBLIC")


@pytest.mark.parametrize(
    ("front", "fields"),
    [
        ("Due date: 2026-01-01\nclassification: INTERNAL", {"due date": "2026-01-01", "classification": "INTERNAL"}),
        ("Über: x\nclassification: INTERNAL", {"über": "x", "classification": "INTERNAL"}),
        ("tags:\n-\n- a\nclassification: INTERNAL", {"tags": [None, "a"], "classification": "INTERNAL"}),
        ("tags: [a, b] # mine", {"tags": ["a", "b"]}),
        ("created: 2024-05-01 # draft", {"created": "2024-05-01"}),
        ("created: 2024-13-45", {"created": "2024-13-45"}),
        ("number: 0o17\nyes: yes\nnone: null\nempty:\nquoted: 'null'", None),
        ("text: |\n  ---\n  two\nafter: x", {"text": "---\ntwo\n", "after": "x"}),
        ("title: {{title}}\ndate: {{date:YYYY-MM-DD}}", {"title": None, "date": None}),
        ("tags: [{{tag}}, a]", {"tags": [None, "a"]}),
        ("? classification\n: INTERNAL", {"classification": "INTERNAL"}),
        ('"classi\\x66ication": INTERNAL', {"classification": "INTERNAL"}),
        ("a: &anchor b", {"a": "b"}),
        ("Tags:\ta", {"tags": "a"}),
        ("title: a\tb\nclassification:\tINTERNAL\t# x", {"title": "a b", "classification": "INTERNAL"}),
        ("tags:\n-\ta\n- b\t", {"tags": ["a", "b"]}),
        ('text: "a\tb"', {"text": "a\tb"}),
        ("date: {{date}} {{time}}\nclassification: INTERNAL", {"date": None, "classification": "INTERNAL"}),
        ("date: {{date:YYYY-MM-DD}}T{{time:HH:mm}}\r\ntags: a", {"date": None, "tags": "a"}),
        ("tags:\n  - {{a}}, {{b}}\n  - c", {"tags": [None, "c"]}),
        ("meta:\n  date:\t{{date}} {{time}} ", {"meta": {"date": None}}),
        ("# nothing but a remark", {}),
        ("", {}),
    ],
)
def test_yaml_is_read_as_text(front: str, fields: dict[str, Any] | None) -> None:
    if fields is None:
        fields = {"number": "0o17", "yes": "yes", "none": None, "empty": None, "quoted": "null"}
    assert split(f"---\n{front}\n---\nbody\n") == (fields, "body\n")


@pytest.mark.parametrize(
    "front",
    [
        "tags: a\ntags: b",
        "Tags: a\ntags: b",
        "classification: PUBLIC\nclassification: RESTRICTED",
        "base: &b {classification: RESTRICTED}\n<<: *b",
        "a: &x [1]\nb: *x",
        "a: &a [*a]",
        "classification: !!binary UkVTVFJJQ1RFRA==",
        "!!binary Y2xhc3NpZmljYXRpb24=: RESTRICTED",
        "a: !secret b",
        "? {classification: RESTRICTED}\n: x",
        "? [a, b]\n: x",
        "title: {{classification: RESTRICTED}}",
        "title: {{title}} - x",
        "classification: {{level}}",
        "a: [",
        "tags:\n-a\nclassification: PUBLIC",
        "classification: {{level}} {{x}}",
        "title: {{classification}} {{x}}",
        "title: {{classification: RESTRICTED}} {{x}}",
        "title: {{title}} {{Sécurity level: restricted}}",
        'a: "{{x}} {{y}}\nclassification: RESTRICTED',
        "a:\tb\n\tclassification: RESTRICTED",
        "a:\tb\x85\tclassification: RESTRICTED",
        "a:\tb\nclassification:\tRESTRICTED",
        "- a:\tb\n  classifi\tcation: RESTRICTED",
        "a: b: c",
        "\tclassification: RESTRICTED",
        "%YAML 1.1",
        "a: \x00",
        "- classification: RESTRICTED",
        "a: " + "[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1),
        "a: " + "[" * 5_000 + "]" * 5_000,
        "a: " + "x" * CHARS_MAX,
        "meta: {level: restricted}",
        "meta:\n- deep:\n    - classification: RESTRICTED",
        "Classification: RESTRICTED",
        "CLASSIFICATION : RESTRICTED",
        "classificátion: RESTRICTED",
        "security-classification: RESTRICTED",
        "sensitivity: Confidential",
        "classification:",
        "classification: null",
        "classification: [RESTRICTED]",
        "classification: secret",
    ],
)
def test_a_note_that_is_not_read_rightly_is_never_taken_in_below_its_label(front: str) -> None:
    assert not taken_in_at_public(f"---\n{front}\n---\nbody\n")


@pytest.mark.parametrize(
    "text",
    [
        "---\nclassification: RESTRICTED\nbody",
        "---\ntitle: x\n\nclassification: RESTRICTED",
        "---\ntitle: x\n---\n---\nclassification: RESTRICTED\n---\nbody",
        "---\ntitle: x\n---\n\n---\nclassification: RESTRICTED\n\nbody",
        "---\ntitle: x\n---\nclassification: RESTRICTED\n---\nbody",
        "---\n---\nclassification: RESTRICTED\n---\nbody",
        "classification: RESTRICTED\n---\nbody",
        "\n\n---\nclassification: RESTRICTED\n---\nbody",
        "\u200b---\nclassification: RESTRICTED\n---\nbody",
        "---\rclassification: RESTRICTED\r---\rbody",
        "---\u2028classification: RESTRICTED\u2028---\u2028body",
        "--- {classification: RESTRICTED}\n---\nbody",
        "classification: RESTRICTED\n\ntext\n---\nmore",
        "**Classification:** restricted\n\ntext\n---\nmore",
        "security:\n  level: RESTRICTED\n\ntext\n---\nmore",
        '"classi\\x66ication": RESTRICTED\n\ntext\n---\nmore',
        "Classification: mammals\n---\nmore",
        "classification: secret\n\ntitle: x\n---\nbody",
        "---\n---\n# x\n\nclassification: RESTRICTED\n---\nbody",
        "---\n---\n\n+++\nlevel: RESTRICTED\n---\nbody",
        "---\n...\n\n---\nclassification: RESTRICTED\nbody",
        "---\n---\n\n---\n  classification: RESTRICTED\nbody",
        "---\n# y\n---\n# x\n\nclassification: RESTRICTED\n",
        "---\n---\nclassification:\n  \n---\nbody",
        "---\n# x\n---\nclassification: secret\n\ntitle: x\n---\nbody",
        "---\n**bold**\nclassification: RESTRICTED\n",
        "---\n**bold**\nclassificátion: RESTRICTED\n---\nbody",
        "---\n**bold**\n\nmeta:\n  classificátion: RESTRICTED\n---\nbody",
        "---\n**bold**\n\nclassification: secret\n---\nbody",
        "---\n**bold**\n---\n---\nclassification: RESTRICTED\n---\nbody",
        "---\n**bold**\n\n---\n\nclassification: RESTRICTED\n\nbody",
        "---\n**Level:** RESTRICTED\n\nbody",
        "---\n**bold**\n---\n'q\n\nclassification: RESTRICTED\nwords",
        "? classification\nclassificátion: RESTRICTED\n\nwords\n...\n\nbody",
        "Classification: mammals\n\nclassification: RESTRICTED\n---\nbody",
        "level:\n- draft\n- Restricted (board)\n---\nbody",
        "---\n**a\n'classi': x\n",
        "---toml\nclassification = 'RESTRICTED'\n---\nbody",
        " ---\n classification: RESTRICTED\n ---\nbody",
        "+++\nclassification = 'RESTRICTED'\n+++\nbody",
        "+++\n[meta]\nlevel = 'RESTRICTED'\n+++\nbody",
        "+++\nclassification = RESTRICTED\n+++\nbody",
        "+++\ntitle = 'x'\n+++\n---\nclassification: RESTRICTED\n---\nbody",
        "+++\nclassification = 'RESTRICTED'\nbody",
        "+++\nlevel = 'RESTRICTED'\nbody",
        "+++toml\nlevel = 'RESTRICTED'\n+++\nbody",
        "+++\na = 1\n+++\n+++\nlevel = 'RESTRICTED'\n+++\nbody",
        "---\na: 1\n---\n+++\n[meta]\nsecurity_level = 'restricted'\n+++\nbody",
        '---\na: 1\n---\n{"level": "RESTRICTED"}\nbody',
        '{"classification": "RESTRICTED"}\nbody',
        '{\n  "meta": {"classification": "RESTRICTED"}\n}\n\nbody',
        '{"classification": "PUBLIC", "classification": "RESTRICTED"}\nbody',
        '{\n  "classification": "RESTRICTED",\n}\nbody',
        '{"title": "x"}\n---\nclassification: RESTRICTED\n---\nbody',
        '{"classification": ' + "[" * 100_000,
        '{"a": [[[[[[[[[[]]]]]]]]]], "classification": "RESTRICTED"}\nbody',
        "--- {title: x, classification: RESTRICTED}\n---\nbody",
        "--- {title: x, classification: RESTRICTED}\nbody",
        '---json\n{"title": "x", "classification": "RESTRICTED", "a": [[[[[[[[[[]]]]]]]]]]}\n---\nbody',
        "---yaml\na: &a x\nb: *a\nmeta: {x: 1, classification: RESTRICTED}\n---\nbody",
        "---yaml\na: &a x\nb: *a\n\nclassification: RESTRICTED\n---\nbody",
        "---yaml\ra: &a x\rb: *a\r\rclassification: RESTRICTED\r---\rbody",
        "+++ # x\na = 1\n\nclassification = 'RESTRICTED'\n+++\nbody",
        "---\ntitle: x\n---\n---\na: *b\n\nclassification: RESTRICTED\n---\nbody",
        f"---\ntitle: x\n---\n---\na: {'x' * CHARS_MAX}\n\nclassification: RESTRICTED\n---\nbody",
        "---\ntitle: x\n---\n+++\na = 1\n\nclassification = 'RESTRICTED'\n+++\nbody",
        '---\ntitle: x\n---\n{"title": "x", "classification": "RESTRICTED"}\nbody',
        '{"title": "x"}\n{"title": "x", "classification": "RESTRICTED"}\nbody',
        f'{{"title": "x", "classification": "RESTRICTED", "a": "{"x" * CHARS_MAX}"}}\nbody',
        '{"title": "x", "classification": "RESTRICTED",}\nbody',
        '{"title": "x", "\\u0063lassification": "RESTRICTED",}\nbody',
        "{title: 'x', classification: 'RESTRICTED'}\nbody",
        "---\nclassification:RESTRICTED\n---\nbody",
        "---\nclassification\uff1aRESTRICTED\n---\nbody",
        "---\n- {a: b, classification: RESTRICTED}\n\nbody",
        "---\n# a\u2028---\u2028b\n\nclassification: RESTRICTED\nc: x\n---\nbody",
        "---\n# a\x85---\x85b\n\nclassification: RESTRICTED\nc: x\n---\nbody",
        "---\n---\nclassification: RESTRICTED\n...\nbody",
        "--- # x\n---\nclassification: RESTRICTED\n---\nbody",
        "---\u2028\n---\nclassification: RESTRICTED\n---\nbody",
        "\n\u2028---\nclassification: RESTRICTED\n\nbody",
        " \u200b---\ntitle: x\n\nclassification: RESTRICTED\n---\nbody",
    ],
)
def test_a_label_in_a_block_of_any_kind_is_read_or_the_note_refused(text: str) -> None:
    assert not taken_in_at_public(text)


@pytest.mark.parametrize(
    "text",
    [
        "---\nno end",
        "High-level plan: keep this internal\n\nmore\n\n---\n\nend",
        "Classification: mammals\n\nWhales.\n\n---\n\nmore\n",
        "**Classification:** mammals\n\nWhales.\n\n---\n\nmore\n",
        "---\n**Bold** words, see https://example.org\n\nmore: text\n",
        "---\n\n**Note:** words\n\nmore: text\n\n---\n\nThe end.\n",
        "---\n**Bold**\n---\nmore\n",
        "{{< toc >}}\n\nClassification: mammals\n",
        "{% include toc.html %}\n\nClassification: mammals\n",
        "---\n\nA text below a line.\n",
        "---\nwords between two lines {\n---\nx",
        "---",
        "# Heading\n\n---\n\ntext: about classification\n\n---\n",
        "x\n---\ntags: a\n---\n",
        "----\nx\n----\n",
        "# Animals\n\nClassification: mammals\n\n---\n\nmore\n",
        "Classification: mammals\n\nmore",
        "{{title}}\n\ntext",
        "{not json}\ntext",
        "- a list\n- of things\n---\nmore",
        "",
        "\n\n",
    ],
)
def test_a_text_without_front_matter_is_content(text: str) -> None:
    found = note(text)
    assert isinstance(found, RawMemory)
    assert (found.content, found.tags, found.label) == (text, [], None)


def test_a_rule_below_front_matter_opens_no_second_block() -> None:
    text = "---\n\nwords: [\n\n**Classification:** mammals\n\n---\n\nmore"
    assert split(f"---\ntags: a\n---\n{text}") == ({"tags": "a"}, text)


def test_front_matter_in_toml_and_in_json_gives_tags_and_times() -> None:
    toml = note("+++\ntags = ['a', 'b']\ndate = 2024-05-01\n+++\nbody\n")
    assert isinstance(toml, RawMemory)
    assert (toml.tags, toml.created_at, toml.content) == (["a", "b"], "2024-05-01", "body\n")
    found = note('{"tags": ["a"], "created": "2024-05-01"}\nbody\n')
    assert isinstance(found, RawMemory)
    assert (found.tags, found.created_at, found.content) == (["a"], "2024-05-01", "body\n")


def test_a_note_that_is_refused_says_why_and_nothing_of_itself() -> None:
    found = note("---\ncanary: [\n---\nbody")
    assert found == Rejected("n.md", "its front matter is not readable YAML (line 2)")
    with pytest.raises(UnreadableError, match="has no end"):
        split("---\nclassification: PUBLIC\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\na: b\ntitle: x: y\n---\nbody", 3),
        ("\n\n---\na: 'b\nc: d\n---\nbody", 4),
        ("---\r\na: b\r\nb: {c\r\n---\r\nbody", 3),
    ],
)
def test_front_matter_that_is_no_yaml_is_refused_with_the_line_of_the_note(text: str, line: int) -> None:
    assert note(text) == Rejected("n.md", f"its front matter is not readable YAML (line {line})")


def test_what_yaml_allows_nowhere_has_no_line() -> None:
    assert note("---\na: \x01\n---\nbody") == Rejected("n.md", "its front matter is not readable YAML")


_KEYS = st.sampled_from(["classification", "Classification", " classification ", "CLASSIFICATION"])
_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)
_SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.dates()
_VALUES = _SCALARS | st.lists(_SCALARS, max_size=2) | st.dictionaries(_NAMES, _SCALARS, max_size=2)


@st.composite
def labelled(draw: st.DrawFn) -> Any:
    """A mapping with a label somewhere in it, at some depth."""
    value: Any = {draw(_KEYS): draw(st.sampled_from(["RESTRICTED", "INTERNAL", "confidential", "secret", None]))}
    for _ in range(draw(st.integers(0, 4))):
        beside = draw(st.dictionaries(_NAMES, _VALUES, max_size=2))
        value = draw(st.sampled_from([{**beside, draw(_NAMES): value}, [value, draw(_VALUES)], [draw(_VALUES), value]]))
    return value if isinstance(value, dict) else {"all": value}


@given(labelled(), st.sampled_from([None, True, False]), st.sampled_from(["", "'", '"', "|", ">"]), st.booleans())
def test_p10_no_yaml_with_a_label_in_it_is_taken_in_below_that(
    value: Any, flow: bool | None, style: str, start: bool
) -> None:
    text = yaml.dump(
        value,
        default_flow_style=flow,
        default_style=style or None,
        allow_unicode=True,
        explicit_start=start,
    )
    assert not taken_in_at_public(f"---\n{text}---\nbody\n")


@given(st.text(alphabet="-:{}[]&*!|>'\"%@`#,?~ \n\tabclassification", max_size=60), st.integers(0, 60))
def test_p10_no_text_around_a_label_makes_yaml_forget_it(around: str, place: int) -> None:
    """Whatever a label stands in: where PyYAML finds it as a label, the note is not taken in below it."""
    front = f"{around[:place]}\nclassification: RESTRICTED\n{around[place:]}"
    try:
        loaded = yaml.safe_load(front)
    except Exception:  # noqa: BLE001  not YAML: refused, or content that no reader takes for front matter
        return
    if isinstance(loaded, dict) and loaded.get("classification") == "RESTRICTED":
        assert not taken_in_at_public(f"---\n{front}\n---\nbody\n")


_MARKS = st.sampled_from(
    [
        "classification",
        "Classification",
        '"classi\\x66ication"',
        "'classification'",
        "? classification\n",
        "klasse",
        "level",
    ]
)
_BETWEEN = st.sampled_from([": ", " : ", ":", ":\t", ":\n  "])
_HELD = st.sampled_from(
    [
        *("RESTRICTED", "'RESTRICTED'", '"RESTRI\\x43TED"', "RESTRICTED # x", "[RESTRICTED]", "|\n  RESTRICTED"),
        *("*a", "&a RESTRICTED", "!!str RESTRICTED", "{level: RESTRICTED}", "", "secret", "Restricted", "\tRESTRICTED"),
        "{{x}} {{y}}",
    ]
)
_OTHERS = st.sampled_from(
    [
        *("a: b", "tags: [a, b] # mine", "tags:\n-\n- a", "Due date: 2026-01-01", "- x", "b:\tc", "<<: *a"),
        *("a: &a {classification: RESTRICTED}", "text: >-\n  ---\n  x", "text: |\n  classification: INTERNAL"),
        *("# classification: PUBLIC", "date: {{date}} {{time}}", "date: 2024-13-45", "{", "}", "[", "]", "---"),
        *("...", "%YAML 1.1", "", "**bold**", "c: !!binary eA==", "n: 0o17", "\ufeff", "k: 'a"),
    ]
)


@st.composite
def written(draw: st.DrawFn) -> str:
    """Front matter as people and programs write it: lines of all kinds around a label, at any indentation."""
    label = f"{draw(_MARKS)}{draw(_BETWEEN)}{draw(_HELD)}"
    around = draw(st.lists(_OTHERS, max_size=5))
    lines = [*around[:2], label, *around[2:]]
    indent = draw(st.sampled_from(["", "", "  ", "- ", "meta:\n  ", "a: {b: [", "\t"]))
    lines = [f"{indent}{line}" if draw(st.integers(0, 3)) == 0 else line for line in lines]
    return draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", "\x85"])).join(lines)


@settings(max_examples=400)
@given(written(), st.sampled_from(["---", "---", "..."]))
def test_p10_any_yaml_that_pyyaml_accepts_keeps_the_label_that_is_in_it(front: str, end: str) -> None:
    for loader in (yaml.SafeLoader, yaml.BaseLoader):  # the second takes what the first does not, and keeps the text
        try:
            loaded = yaml.load(front, loader)
        except Exception:  # noqa: BLE001  not YAML to this loader
            continue
        if label_in(_as_json(loaded)) not in (None, "PUBLIC"):
            assert not taken_in_at_public(f"---\n{front}\n{end}\nbody\n")


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _as_json(held) for name, held in value.items()}
    return [_as_json(each) for each in value] if isinstance(value, list | set) else value


@pytest.mark.parametrize(
    "line", ["a: x{}y", "a{}: x", "tags:\n- x{}y", "tags:\n{}- x", "a:{}\n-{}", "{}", "[{}", "a: [{}"]
)
def test_no_front_matter_takes_longer_than_it_is_long(line: str) -> None:
    def work(size: int) -> None:
        for filler in (" ", "[", "- ", "{a: "):
            note("---\n" + line.replace("{}", filler * (size // len(filler))) + "\n---\nx")

    assert grows_linearly(work, CHARS_MAX - 40)
    assert grows_linearly(work, 2**20)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ({}, None),
        ({"level": 3, "a": [1]}, None),
        ({"level": "internal"}, "INTERNAL"),
        ({"sensitivity": ["draft", 1, "Restricted", "public"]}, "RESTRICTED"),
        ({"a": [{"classification": "INTERNAL"}, {"b": {"classification": "CONFIDENTIAL"}}]}, "CONFIDENTIAL"),
        ({"classification": "INTERNAL", "a": {"classification": None}}, UNREADABLE),
        ({"classification": {"level": "INTERNAL"}}, UNREADABLE),
        ("classification: RESTRICTED", None),
    ],
)
def test_the_highest_label_counts_and_one_that_names_no_level_above_all(value: object, label: object) -> None:
    assert label_in(value) == label


@pytest.mark.parametrize(
    ("kind", "document", "labels"),
    [
        (mem0.read_entries, [{"memory": "x", "metadata": {"classification": "RESTRICTED"}}], ["RESTRICTED"]),
        (
            mem0.read_entries,
            {"classification": "INTERNAL", "results": [{"memory": "x"}, {"memory": "y", "level": "RESTRICTED"}]},
            ["INTERNAL", "RESTRICTED"],
        ),
        (chatgpt.read_chatgpt, {"memories": ["x", {"content": "y", "Classification": "secret"}]}, [None, UNREADABLE]),
        (chatgpt.read_chatgpt, {"meta": {"sensitivity": "internal"}, "memories": ["x"]}, ["INTERNAL"]),
        (
            claude.read_claude,
            {"conversations_memory": "x", "account": {"classification": "CONFIDENTIAL"}},
            ["CONFIDENTIAL"],
        ),
        (
            mcp_memory.read_graph,
            {
                "entities": [
                    {"name": "a", "entityType": "t", "observations": ["x"], "classification": "INTERNAL"},
                    {"name": "b", "entityType": "t", "observations": ["y"]},
                ],
                "relations": [{"from": "b", "to": "a", "relationType": "knows", "classification": "RESTRICTED"}],
            },
            ["INTERNAL", "RESTRICTED"],
        ),
        (mcp_memory.read_graph, {"level": "INTERNAL", "entities": [ENTITY]}, ["INTERNAL"]),
        (chatgpt.read_chatgpt, {"memories": ["x"], "results": {"classification": "INTERNAL"}}, ["INTERNAL"]),
        (mcp_memory.read_graph, {"entities": [ENTITY]}, [None]),
    ],
)
def test_p10_a_label_anywhere_in_what_another_program_kept_counts(
    kind: Callable[[object], Memories], document: object, labels: list[object]
) -> None:
    found = list(kind(document))
    assert all(isinstance(each, RawMemory) for each in found)
    assert [each.label for each in found if isinstance(each, RawMemory)] == labels
