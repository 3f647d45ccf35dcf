"""Tables of the words, by language, by which a plain statement and the cues against it are recognized.

Each file of ``tables`` is one language: lists of words and phrases, with their source. No code knows a language; what a
table cannot say is not plain. An entry matches whole words, folded; ``*`` stands for any rest of a word.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from importlib import resources
from typing import Any, Final

import attrs

from factmem.detection.words import Found, Word, plain_words, words_of
from factmem.toml_tables import table

REST: Final = "ǂ"
"""Stands for ``*`` in an entry while it is read; a letter, so that it stays within its word."""
_FEWEST: Final = 0.12
"""Minimum weight of a text's words in its language, by their number."""
_LETTER: Final = 0.5
"""Weight of a letter that no other table has."""
_CLEAR: Final = 1.3
"""Minimum ratio of the weight of a text's words in its language to that in any other."""


def entries(text: str) -> list[str]:
    """Return the entries of a list, each folded, with a space between its words."""
    found = (" ".join(plain_words(entry.replace("*", REST))) for entry in text.split(","))
    return list(dict.fromkeys(entry for entry in found if entry))


@functools.lru_cache(maxsize=1_024)
def _pattern(found: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(found, key=len, reverse=True)
    inner = "|".join(re.escape(entry).replace(REST, r"\S*") for entry in longest_first)
    return re.compile(rf"(?<!\S)(?:{inner})(?!\S)" if inner else r"(?!)")


@attrs.frozen(eq=False)
class WordTable:
    """The words and phrases of one language.

    Attributes:
        name: its code.
        table: its lists, by their names.
    """

    name: str
    table: Mapping[str, Any] = attrs.field(repr=False)

    @property
    def is_unspaced(self) -> bool:
        """Whether entries are found within words."""
        return bool(self.table.get("unspaced"))

    @functools.lru_cache(maxsize=1_024)  # noqa: B019 - languages live as long as the process
    def words(self, name: str) -> frozenset[str]:
        """Return the entries of a list; none if the table does not have it."""
        return frozenset(entries(self.table.get(name, "")))

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def group(self, group: str) -> Mapping[str, Sequence[str]]:
        """Return the entries of each list of a group: units, measures or nouns."""
        return {name: entries(text) for name, text in self.table.get(group, {}).items()}

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def calendar(self, name: str) -> Sequence[Sequence[str]]:
        """Return the names of each month, or of each of the weekdays, in their order."""
        return [entries(text.replace(" ", ",")) for text in self.table[name].split(", ")]

    def find(self, name: str, words: Sequence[Word], first: int = 0, last: int | None = None) -> list[Found]:
        """Return the places of the entries of a list among some words; see `search`."""
        return search(self._listed(name), words, first, last)

    @functools.lru_cache(maxsize=4_096)  # noqa: B019
    def _listed(self, name: str) -> re.Pattern[str]:
        return _pattern(tuple(entries(self.table.get(name, ""))))

    def pattern(self, found: Iterable[str]) -> re.Pattern[str]:
        """Return a pattern for `search` of entries from outside the lists."""
        return _pattern(tuple(sorted(set(found))))


def search(pattern: re.Pattern[str], words: Sequence[Word], first: int = 0, last: int | None = None) -> list[Found]:
    """Return the places of a pattern of entries among some words; marks between them do not count.

    Args:
        pattern: the pattern.
        words: words with marks.
        first: the position to start at.
        last: the position to end at; None for the last one.
    """
    end = len(words) if last is None else min(last + 1, len(words))
    here = [at for at in range(max(0, first), end) if not words[at].is_mark]
    starts, length = [], 0
    for at in here:
        starts.append(length)
        length += len(words[at].text) + 1
    text = " ".join(words[at].text for at in here)
    return [
        (here[bisect.bisect_right(starts, found.start()) - 1], here[bisect.bisect_right(starts, found.end() - 1) - 1])
        for found in pattern.finditer(text)
    ]


def positions(places: Iterable[Found]) -> set[int]:
    """Return the positions of all words of some places."""
    return {at for first, last in places for at in range(first, last + 1)}


@functools.cache
def table_named(name: str) -> WordTable:
    """Return the table of a language, with its words of times."""
    return WordTable(name, table(f"detection/tables/{name}") | table("time_words")[name])


@functools.cache
def _languages() -> tuple[str, ...]:
    folder = resources.files("factmem.detection") / "tables"
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


_TELLING: Final = tuple(
    entries("self, my, verbs, fill, deny, others, past, maybe, plan, months, weekdays, days, breaks, you")
)
"""Lists whose words show a language beside its common ones, with half of their weight."""


@functools.cache
def _weights() -> Mapping[str, Mapping[str, float]]:
    """Return the languages of each word of the tables, with its weight: less, if it is one of several."""
    found: dict[str, dict[str, float]] = {}
    for name in _languages():
        language = table_named(name)
        common = {word for entry in language.words("common") for word in entry.split()}
        lists = [
            *(language.words(list_name) for list_name in _TELLING),
            *(forms for group in ("nouns", "units") for forms in language.group(group).values()),
        ]
        other = {word for found in lists for entry in found for word in entry.split()}
        for word in common | other:
            if len(word) > 1 or word in common:
                found.setdefault(word, {})[name] = 1.0 if word in common else 0.5
    return {word: {name: held / len(names) for name, held in names.items()} for word, names in found.items()}


@functools.cache
def _letters() -> Mapping[str, str]:
    """Return the letters that only one of the Latin tables has, with its language."""
    owners: dict[str, list[str]] = {}
    for name in _languages():
        for letter in table_named(name).table.get("letters", ""):
            owners.setdefault(letter, []).append(name)
    return {letter: names[0] for letter, names in owners.items() if len(names) == 1}


@functools.cache
def _scripts() -> Sequence[tuple[str, re.Pattern[str], re.Pattern[str], float]]:
    """Return the languages with a script: its letters, those that only other languages have, and its smallest share."""
    found = []
    for name in _languages():
        of = table_named(name).table
        if "script" in of:
            foreign = re.compile(f"[{of['foreign']}]" if "foreign" in of else "(?!)")
            found.append((name, re.compile(f"[{of['script']}]"), foreign, of["share"]))
    return found


def table_of(texts: Iterable[str]) -> WordTable | None:
    """Return the table of the language that the first of some texts shows, by letters and words; None if none does."""
    return next((table_named(name) for text in texts if (name := _name_of(text)) is not None), None)


@functools.lru_cache(maxsize=256)
def _name_of(text: str) -> str | None:
    sample = text[:2_000]
    letters = sum(map(str.isalpha, sample))
    for name, script, foreign, share in _scripts():
        if len(script.findall(sample)) > share * letters:
            return None if foreign.search(sample) else name
    words = [word for word in words_of(sample) if word.text[:1].isalpha()]
    unnamed = [word for word in words if not word.is_name]
    chars = (char for word in unnamed for char in sample[word.start : word.end].lower() if char.isalpha())
    written = {char for char in chars if char < "\u0250"}  # Latin ones
    return _voted(words, written) or _voted(unnamed, written)  # "Mia" is a word of Italian


def _voted(words: Sequence[Word], written: Set[str]) -> str | None:
    """Return the language for which words, and the letters written in them, clearly vote; None if there is none."""
    scores: dict[str, float] = {}
    for word in words:
        for name, weight in _weights().get(word.text, {}).items():
            scores[name] = scores.get(name, 0) + weight
    for name in (_letters()[char] for char in written if char in _letters()):
        scores[name] = scores.get(name, 0) + _LETTER
    fitting = [name for name in scores if written <= _LATIN.union(table_named(name).table.get("letters", ""))]
    if not fitting:
        return None
    best, *rest = sorted(fitting, key=lambda name: -scores[name])
    if scores[best] < _FEWEST * len(words) or any(scores[best] < _CLEAR * scores[name] for name in rest):
        return None
    return best


_LATIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
