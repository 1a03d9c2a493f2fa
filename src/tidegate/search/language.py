"""Language: which stemmer suits a word, and which words are function words.

The guess is the language with the most function words and typical letters in the text, so nobody has to name
it. A wrong guess costs little, because every word is also indexed as written. The lists are short on purpose:
long ones would include words that mean something in another language.
"""

import re
from bisect import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import Stemmer

from tidegate.search.segmentation import fold
from tidegate.search.stopwords import STOPWORDS


@dataclass(frozen=True, slots=True)
class Language:
    """A language: its Snowball stemmer, if it has one, its script, and letters that few other languages have."""

    stemmer: str
    script: str
    letters: str = ""


# Keys are ISO 639 codes. Without evidence the first of a script counts.
_LANGUAGES = {
    "en": Language("english", "latin"),
    "de": Language("german", "latin", "äöüß"),
    "fr": Language("french", "latin", "çœêèàîùé"),
    "es": Language("spanish", "latin", "ñ¿¡áíóúé"),
    "it": Language("italian", "latin", "èàìòù"),
    "pt": Language("portuguese", "latin", "ãõçáéíóú"),
    "ro": Language("romanian", "latin", "ăâîșțşţ"),
    "nl": Language("dutch", "latin"),
    "sv": Language("swedish", "latin", "äöå"),
    "da": Language("danish", "latin", "åæø"),
    "no": Language("norwegian", "latin", "åæø"),
    "fi": Language("finnish", "latin", "äö"),
    "hu": Language("hungarian", "latin", "őűáéíóúöü"),
    "tr": Language("turkish", "latin", "ığşçöü"),
    "pl": Language("polish", "latin", "łąężóść"),
    "cs": Language("czech", "latin", "řěůáíéž"),
    "ca": Language("catalan", "latin", "çèà"),
    "id": Language("indonesian", "latin"),
    "tl": Language("", "latin"),
    "jv": Language("", "latin", "éè"),
    "su": Language("", "latin", "é"),
    "vi": Language("", "latin", "ăâêôơưđàáãèéìíòóõùúýạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ"),
    "ru": Language("russian", "cyrillic"),
    "el": Language("greek", "greek"),
    "ar": Language("arabic", "arabic"),
    "fa": Language("persian", "arabic"),
    "hi": Language("hindi", "devanagari"),
    "ta": Language("tamil", "tamil"),
    "hy": Language("armenian", "armenian"),
}
_FIRST_OF_SCRIPT = {language.script: code for code, language in reversed(_LANGUAGES.items())}
# Where each script begins; it reaches to the next. Empty: no stemmer for that script.
_SCRIPT_STARTS = tuple("\u0370\u0400\u0530\u0590\u0600\u0780\u0900\u0980\u0b80\u0c00\u1e00\u1f00")
_SCRIPTS = ("latin", "greek", "cyrillic", "armenian", "", "arabic", "", "devanagari", "", "tamil", "", "latin", "")


def _codes(forms: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return the languages of each form, from pairs of language and form."""
    languages: dict[str, dict[str, None]] = {}
    for code, form in forms:
        languages.setdefault(form, {})[code] = None
    return {form: tuple(codes) for form, codes in languages.items()}


class _Tables(NamedTuple):
    """The languages of each function word, as written and folded, and of each letter that few languages have."""

    written: dict[str, tuple[str, ...]]
    folded: dict[str, tuple[str, ...]]
    letters: dict[str, tuple[str, ...]]
    letter: re.Pattern[str]


@cache
def _tables() -> _Tables:
    """Return the tables, made at the first text as in segmentation."""
    words = [(code, word) for code, words in STOPWORDS.items() for word in words.split()]
    letters = _codes((code, letter) for code, language in _LANGUAGES.items() for letter in language.letters)
    folded = _codes((code, fold(word)) for code, word in words)
    return _Tables(_codes(words), folded, letters, re.compile(f"[{''.join(letters)}]"))


def function_word_languages(word: str, *, ascii_text: bool) -> tuple[str, ...]:
    """Return the languages in which this lower-case word is a function word.

    ascii_text: nothing in the text has an accent, so accents may have been left out.
    """
    return (_tables().folded if ascii_text else _tables().written).get(word, ())


def is_function_word(word: str) -> bool:
    """Return whether this lower-case word, as written or folded, is a function word in any language."""
    tables = _tables()
    return word in tables.folded or word in tables.written


def guess(words: Iterable[str], text: str) -> dict[str, float]:
    """Return the evidence for each language: its function words and letters, less if other languages share them.

    A text in plain ASCII counts as English unless more than one function word says otherwise: one may be a name.
    """
    ascii_text = text.isascii()
    found: dict[str, float] = {"en": 1.0} if ascii_text else {}
    tables = _tables()
    table = tables.folded if ascii_text else tables.written
    for word in words:
        for code in (languages := table.get(word, ())):
            found[code] = found.get(code, 0.0) + len(languages) ** -0.5
    for letter in () if ascii_text else tables.letter.findall(text.lower()):
        for code in (languages := tables.letters[letter]):
            found[code] = found.get(code, 0.0) + 0.5 / len(languages)
    return found


def likely(guessed: Mapping[str, float]) -> frozenset[str]:
    """Return the languages with at least half the evidence of the first.

    Except for English, one word is not enough, because it may be a name: `Ada` means `there is` in Indonesian.
    """
    most = max(guessed.values(), default=0.0)
    return frozenset(code for code, weight in guessed.items() if weight >= most / 2 and (weight > 1 or code == "en"))


def script(word: str) -> str:
    """Return the script of a word's first letter, if stemming depends on it; else an empty string."""
    if word.isascii():
        return "latin"
    return _SCRIPTS[bisect(_SCRIPT_STARTS, word[:1])]


class Stemmers:
    """The stemmers for one text: for each script that of the likeliest language. Each is created on use and
    caches nothing: a cache of word forms that outlives a text would tell agents about each other (P11).
    """

    def __init__(self, guessed: Mapping[str, float], *, english_too: bool = False) -> None:
        self._guessed = guessed
        self._english_too = english_too

    def stems(self, written_in: str, words: list[str]) -> list[list[str]]:
        """Return the folded stems of lower-case words of one script, a list from each stemmer that suits."""
        found = [[fold(stem) for stem in Stemmer.Stemmer(name, 0).stemWords(words)] for name in self._names(written_in)]
        if written_in == "arabic":
            found.append([_light_arabic(fold(word)) for word in words])
        return found

    def _names(self, written_in: str) -> list[str]:
        codes = [code for code in self._guessed if _LANGUAGES[code].script == written_in]
        code = max(
            codes,
            key=lambda code: (self._guessed[code], code == "en", code),
            default=_FIRST_OF_SCRIPT.get(written_in, ""),
        )
        names = [_LANGUAGES[code].stemmer if code else ""]
        if self._english_too and written_in == "latin":
            names.append("english")  # texts in other languages often have English words
        return list(dict.fromkeys(filter(None, names)))


def _light_arabic(word: str) -> str:
    """Strip article, conjunction and common endings: Snowball leaves these on many words."""
    for prefix in ("وال", "بال", "كال", "فال", "لل", "ال", "و"):
        if word.startswith(prefix) and len(word) - len(prefix) >= (2 if len(prefix) > 1 else 3):
            word = word[len(prefix) :]
            break
    for suffix in ("ها", "ان", "ات", "ون", "ين", "يه", "ه", "ي"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
    return word
