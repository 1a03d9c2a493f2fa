"""Text analysis: what is indexed and what is asked meet, in any script, and nothing is syntax."""

import random
import string
import unicodedata

import pytest
from tests.yardstick.growth import grows_linearly

from tidegate.search.analysis import INDEXED_CHARS_MAX, QUERY_WORDS_MAX, Columns, analyse, analyse_query
from tidegate.search.language import guess, likely
from tidegate.search.segmentation import fold, pieces, skeleton


def finds(query: str, content: str, *, key: str = "", tags: tuple[str, ...] = ()) -> bool:
    """Whether any word of the query has a term among the memory's."""
    return found_words(query, content, key=key, tags=tags) > 0


def found_words(query: str, content: str, *, key: str = "", tags: tuple[str, ...] = ()) -> int:
    columns = analyse(key, tags, content)
    held = {*columns.key, *columns.tags, *columns.content}
    return sum(not held.isdisjoint(word.terms) for word in analyse_query(query).words)


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("notes.txt", "read notes.txt before v2.7."),
        ("v2.7.", "read notes.txt before v2.7."),
        ("C++", "standup 2031-04-09: C++ build green"),
        ("c#", "she writes C# at work"),
        ("2031-04", "standup 2031-04-09: build green"),
        ("standup 2031-04-09", "standup 2031-04-09: build green"),
        ("postgres", "postgres is the store we move to in May"),
        ("ada@example.org", "write to ada@example.org"),
        ("example.org", "write to ada@example.org"),
        ("src/main", "see /home/ada/src/main.py"),
        ("main.py", "see /home/ada/src/main.py"),
        ("user-name", "the user_name column"),
        ("userName", "the user-name column"),
        ("username", "the userName field"),
        ("HTTP", "an HTTPServer listens"),
        ("mondays", "rotates on Monday"),
        ("a?b", "a or b"),
        ("acces*", "acces denied"),
        ("O'Brien", "ask Mr. O’Brien"),
        ("x", "mark it with an X"),
        ("7", "room 7"),
        ("２０３１", "planned for 2031"),
        ("ﬁle", "the file is gone"),
    ],
)
def test_query_finds_what_people_write(query: str, content: str) -> None:
    assert finds(query, content)


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("resume", "Ada's résumé"),
        ("RÉSUMÉ", "her resume is here"),
        ("a", "Ắ Ố Ế"),
        ("naive", "naïve"),
        ("Müller", "Herr Muller"),
        ("strasse", "die Straße"),
        ("istanbul", "İstanbul'da buluştuk"),
        ("isik", "ışık açık"),
        ("Häuser", "ein Haus, zwei Häuser"),
        ("книги", "я читаю книгу"),
        ("еще", "ещё раз"),
        ("σχολεια", "το σχολείο"),
        ("السلام", "السَّلَامُ عليكم"),
        ("كتاب", "قرأت الكتاب أمس"),
        ("किताबें", "मेरी किताब"),
        ("下周三", "会议改到下周三下午三点"),
        ("끝말잇기", "오늘은끝말잇기를했다"),
        ("カタカナ", "ｶﾀｶﾅで書く"),
        ("東", "東京へ行く"),
        ("ภาษาไทย", "ฉันพูดภาษาไทย"),
        ("ພາສາລາວ", "ຂ້ອຍເວົ້າພາສາລາວ"),
        ("🚀", "shipped 🚀 today"),
        ("👩‍👩‍👧", "the 👩‍👩‍👧 family"),
        ("👍🏽", "👍"),
        ("❤️", "we ❤ it"),
        ("€", "it costs 5 €"),
        ("4月", "2031年4月に会う"),
    ],
)
def test_query_finds_across_spellings_and_scripts(query: str, content: str) -> None:
    assert finds(query, content)


@pytest.mark.parametrize(
    "nothing", ["", "   ", "***", '"""', "(){}[]^~", ".", "\x00\t\n", "\u200d\ufe0f", "ـ", "\u0301"]
)
def test_query_without_words_is_empty(nothing: str) -> None:
    assert not analyse_query(nothing)


def test_single_function_word_is_still_asked_for() -> None:
    assert finds("the", "the end")


def test_words_need_be_neither_adjacent_nor_in_order() -> None:
    assert found_words("migrate postgres", "postgres is the store we migrate to in May") == 2


def test_hindi_vowel_signs_stay_with_their_letters() -> None:
    assert [text for text, _ in pieces("हिन्दी में")] == ["हिन्दी", "में"]


def test_accented_word_prefers_its_own_accents() -> None:
    assert found_words("má", "ma má") == 1
    assert set(analyse_query("má").words[0].terms) > set(analyse("", [], "ma").content)


def test_key_tags_and_content_are_kept_apart() -> None:
    assert analyse("user-name", ["personal", "me"], "Ada") == Columns(
        ("user", "name", "username"), ("personal", "person", "me"), ("ada",)
    )


def test_label_before_a_colon_is_entered_twice() -> None:
    assert analyse("", [], "Deployment: run it").content.count("deployment") == 2
    assert analyse("", [], "Deployment, then run it").content.count("deployment") == 1


def test_words_come_out_alike_whatever_stands_beside_them() -> None:
    for word in ("Foo2Bar", "userName", "HTTPServer", "2031", "Ada", "NASA", "İzmir"):
        assert pieces(f"{word} 東京")[: len(pieces(word))] == pieces(word)
        assert finds(word, f"{word}: 東京")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("en", "where did she put the keys"),
        ("de", "wo hat sie die Schlüssel hingelegt"),
        ("fr", "où est-ce qu'elle a mis les clés"),
        ("es", "dónde ha puesto las llaves"),
        ("tr", "anahtarları nereye koydu, bu nasıl oldu"),
        ("ru", "куда она положила ключи"),
        ("vi", "cô ấy để chìa khóa ở đâu"),
    ],
)
def test_language_is_told_from_grammar(code: str, text: str) -> None:
    guessed = guess([word for word, _ in pieces(text)], text)
    assert max(guessed, key=guessed.__getitem__) == code
    assert code in likely(guessed)


def test_function_words_weigh_less_than_what_is_asked() -> None:
    weights = {word.text: word.weight for word in analyse_query("where did she put the telescope").words}
    assert weights["telescope"] == 1
    assert max(weights["where"], weights["did"], weights["the"]) < 1


def test_name_that_is_a_function_word_somewhere_weighs_in_full() -> None:
    assert analyse_query("Ada tea").words[0].weight == 1


def test_index_terms_are_whole_to_a_tokenizer_that_breaks_at_ascii_punctuation() -> None:
    source = random.Random(7)
    alphabet = string.printable + "éßİıäçŁøđ的東京カタ끝말ภาษาไहिन्दीالسَّ👩‍👧🚀❤️①ﬁ²½·´＋"
    allowed = set(string.ascii_lowercase + string.digits)
    for _ in range(500):
        text = "".join(source.choices(alphabet, k=source.randrange(40)))
        columns, query = analyse(text, [text], text), analyse_query(text)
        for term in (*columns.key, *columns.tags, *columns.content, *query.terms):
            assert term
            assert all(character in allowed or character > "\x7f" for character in term)


def test_every_word_of_a_memory_finds_it() -> None:
    source = random.Random(8)
    alphabet = string.printable + "éßİıäçŁøđ的東京カタ끝말ภาษาไहिन्दीالسَّ👩🚀❤"
    for _ in range(300):
        text = "".join(source.choices(alphabet, k=source.randrange(1, 12)))
        assert bool(analyse_query(text)) == bool(analyse("", [], text).content)
        assert not analyse_query(text) or finds(text, text)


def test_analysis_depends_on_its_arguments_alone() -> None:
    before = analyse("k", [], "running walks quickly")
    analyse("k", [], "rennt läuft schnell und die der das")
    analyse_query("und die der das")
    assert analyse("k", [], "running walks quickly") == before


def test_query_is_bounded() -> None:
    assert len(analyse_query(" ".join(f"word{n}" for n in range(1_000))).words) == QUERY_WORDS_MAX
    assert len(analyse_query("字" * 4_096).words) <= QUERY_WORDS_MAX
    assert len(analyse_query("x" * 4_096).words) == 1


MARKS = ["\u0345\u0301\u0315\u0323\u0334", "\uff9e\u0334", "\u0344\u0f73", "\u0301"]  # to be put in order


NUMBERS = ["1 ", "1,234", "12,", "1a", "a1a", "1(0)", "-01T10:", "٣", "1234567890123 "]
BESIDE = ["می ", "م\u200c", "字a", "字٣ก", "ʼa"]


@pytest.mark.parametrize(
    "unit", [*MARKS, *NUMBERS, *BESIDE, "a-", "a.b@", "aA", "++", "a+#", "é:", "字", "_", "👩‍", "a: "]
)
def test_long_hostile_texts_take_linear_time(unit: str) -> None:
    def work(size: int) -> None:
        hostile = "a" + unit * (size // len(unit))
        analyse("", [], hostile)
        skeleton(hostile)

    assert grows_linearly(work, INDEXED_CHARS_MAX)


def test_letters_that_are_whole_phrases_do_not_blow_up_a_text() -> None:
    phrase = "\ufdfa"  # one letter, 18 in compatibility form
    assert finds("عليه", f"{phrase} said")
    assert len(skeleton(phrase * 2_000)) < 5_000
    assert len(analyse("", [], f"{phrase} " * 2_000).content) < 4_000


def test_words_meet_beside_a_run_of_marks_that_no_language_writes() -> None:
    for text in ("Zoë " + "\u0301\u0323" * 100 + " café", "Zo\u0065\u0308" + "—" * 99 + "cafe\u0301"):
        assert finds("zoë", text)
        assert finds("café", text)


def test_folding_is_idempotent_and_composed() -> None:
    for word in ("résumé", "ắ", "straße", "ёлка", "السَّلَامُ", "हिन्दी", "ガギグ", "끝말", "ภาษา"):
        assert fold(fold(word)) == fold(word)
        assert unicodedata.is_normalized("NFC", fold(word))


def test_skeleton_has_spaces_around_each_folded_word() -> None:
    assert skeleton("Ada's (résumé)!").split() == ["ada", "s", "resume"]
    assert skeleton("a_b").split() == ["a", "b"]
    assert skeleton("x").startswith(" ")
    assert skeleton("x").endswith(" ")
