"""Sentences by language: words with content, clauses that ask or order, and statements.

The words of each language are data, in ``sentences.toml``. Nothing here knows a grammar: a language is recognized by
its words, a question by its mark or its first word, a request by its first word. In a language without a table only the
marks count, and every word says something.
"""

from __future__ import annotations

import functools
import re
import struct
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice, pairwise, repeat, takewhile
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from factmem.patterns import LinearPattern, lazy_pattern
from factmem.toml_tables import table

Span: TypeAlias = tuple[int, int]

LINE_END: Final = lazy_pattern(r"\n\s*")
SENTENCE_END: Final = lazy_pattern(
    r"[.!?…؟](?<![.!?…؟]{2})"  # the first of several
    r"(?<!\b[DMS][rst]\.)(?<!\b(?:Dra|Mrs|Mme|Sra|Frl)\.)(?<!\bProf\.)(?<!\w [A-HJ-Z]\.)"  # not "Dr. Lind", "K. Lind"
    r"[.!?…؟]*+[\"'”’)\]]*+\s++|[。！？｡।]++[」』”）]*+\s*+"
)
_NUMBERED: Final = lazy_pattern(r"(?<!\d)\d\d?\.\s+\Z")
"""A sentence that ends with an ordinal: "on the 3.", in a language that writes them with a full stop."""

_ENDING: Final = lazy_pattern(r"[.!?\n]")
"""Ends of sentences and lines in an ASCII text."""

QUESTION_MARKS: Final = ("?", "？", "؟", "\u037e")
_FULL_STOPS: Final = (".", "!", "。", "！", "।")
_COLON: Final = lazy_pattern(r":(?=\s|\Z)|[：\n]")
"""A colon or the end of a line, where another text may begin."""
_RULE: Final = "-----"
"""Beginning and end of a line that parts a mail from what is above it."""
_ITEMS: Final = lazy_pattern(r"(?:\n[ \t]*[-*•][^\n]*)+\n(?:[ \t]*\n)+")
"""Items of a list, and a blank line."""
_CLAUSE_END: Final = lazy_pattern(r"[,;،؛](?=\s)\s*|[，、；]\s*|\s[-–—]\s")
_COMMA: Final = lazy_pattern(r"[,;]\s+")  # many times faster, for a text without other borders
_LETTER: Final = r"\w\u0900-\u0963"
"""Characters of words; `re` does not count the vowel signs of India among them."""
_AFTER_MARKS: Final = lazy_pattern(rf"[^{_LETTER}?？؟\u037e]+$")
_ASCII_MARKS: Final = "".join(char for char in map(chr, range(128)) if not (char.isalnum() or char in "_?"))
_SCRIPTS: Final = (
    ("ja", lazy_pattern("[\u3041-\u30ff]")),
    ("zh", lazy_pattern("[\u3400-\u9fff]")),
    ("ko", lazy_pattern("[\uac00-\ud7a3]")),
    ("ar", lazy_pattern("[\u0600-\u06ff]")),
    ("hi", lazy_pattern("[\u0900-\u097f]")),
    ("tr", lazy_pattern("ı")),
)
"""Languages with a script or a letter of their own; a Japanese text may hold Chinese characters too."""
WORD: Final = lazy_pattern(r"(?:[^\W_]|[\u0900-\u0963\u0966-\u0dff])+(?:['-](?:[^\W_]|[\u0900-\u0963])+)*")
_ELISION: Final = lazy_pattern(r"^\w{1,4}'|(?<=')\w{2,}$")
_ARTICLE: Final = lazy_pattern(r"^\w{1,2}'(?=\w{3})")
_NUMBERS_APART: Final = lazy_pattern("\\d+(?:[.,:]\\d+)*|[\u3400-\u9fff]|[^\\W\\d_]+")
_RUN: Final = lazy_pattern("[\u3400-\u9fff々]+|[\u30a1-\u30ff]+|[^\\W_\u3041-\u9fff]+")
"""Words of an unspaced text whose everyday words are removed: ideographs, katakana, letters of other scripts."""

_TWICE: Final = lazy_pattern(r"(?i)(?<![^\W_])([^\W\d_]+)(?: \1(?![^\W_]))+")
"""A word said twice."""

_IN_WORDS: Final = r"\p{L}\p{N}_\x{900}-\x{963}"
"""The `_LETTER` of linear patterns, whose ``\\w`` holds combining marks as well."""
_NOTHING: Final = r"\z."

_GAPS: Final = "".join(char if char.isalnum() or char in "'-" else " " for char in map(chr, range(128)))
"""Translation of the ASCII characters outside `WORD` into spaces."""

_RECENT: Final = 1_024
"""Number of texts that are kept as they were read, for the next steps of a write: each takes a whole batch."""

_MOST_WORDS: Final = 16_384
"""Number of words of which is kept whether they say something."""

_CACHES_OF_TEXTS: Final[list[functools._lru_cache_wrapper[Any]]] = []

_CacheT = TypeVar("_CacheT", bound="functools._lru_cache_wrapper[Any]")


def forgettable(cache: _CacheT) -> _CacheT:
    """Let `forget_texts` clear a cache of texts, or of what was read in them. A decorator of ``lru_cache``.

    Args:
        cache: A function with an ``lru_cache``.
    """
    _CACHES_OF_TEXTS.append(cache)
    return cache


_LONGEST: Final = 1_000
"""Number of characters of a text that `tells` looks at."""

_TELLING_LANGUAGE: Final = 300
"""Number of characters by which a language is recognized."""

_LONGEST_ENDING: Final = 40
"""Maximum number of characters of words at the end of a clause."""

_LONGEST_NOUN: Final = 9
"""Maximum number of words read behind a noun that looks like an order: "Test results of my brother came back."."""

_SHORTEST_NUMBER: Final = 4
"""Minimum length of the number of a thing, such as an order; a shorter one counts things: "book 12 seats"."""

_LONG, _BEGINNING = 4, 3
"""Minimum length of a word that is not of the commonest, and number of its letters that no ending changes."""

_LONGEST_NAME: Final = 2
"""Maximum number of words of the last line of a letter, a name."""

_BEFORE_A_DAY, _BEHIND_A_DAY = 3, 2
"""Number of words around one that may name a day: "two weeks ago", "last Monday morning"."""

ENOUGH, A_WORD, CORRECTS, ASKS_SOMEBODY = (1 << bit for bit in range(4))
"""Bits of `telling`: enough words with content to tell something alone; a word with content, which tells something as
an answer; an opening like a correction's, so that it tells something behind what it corrects; a question at the end.
"""

_ENOUGH: Final = 2
"""Number of words with content, the first person counting as one, in a text that tells something."""


class _Folding(dict[int, str]):
    """Table for `str.translate`: lower case without accents, one character for one."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        lowered = char.casefold() if len(char.casefold()) == 1 else char.lower()[0]
        parts = unicodedata.normalize("NFKD", lowered)
        plain = parts[0] if parts[0].isalnum() and all(map(unicodedata.combining, parts[1:])) else lowered
        self[code] = plain if code < _FIRST_KANA or code > _LAST_HANGUL else lowered
        return self[code]


_FIRST_KANA, _LAST_HANGUL = 0x3040, 0xD7A3
"""Range of scripts whose marks make other letters."""

_FOLDING: Final = _Folding({ord(char): "'" for char in "’‘´`"})


def folded(text: str) -> str:
    """Return a text in lower case and without accents, of the same length."""
    return text.lower() if text.isascii() else text.translate(_FOLDING)


@forgettable
@functools.lru_cache(_RECENT)
def words_of(text: str) -> Sequence[str]:
    """Return the matches of `WORD` in a text, several times faster for an ASCII one."""
    if not text.isascii():
        return tuple(WORD.findall(text))
    runs = text.translate(_GAPS).split()
    if "'" not in text and "-" not in text:
        return tuple(runs)
    return tuple([word for run in runs for word in ((run,) if run.isalnum() else WORD.findall(run))])


@attrs.frozen(eq=False, kw_only=True)
class Language:
    """The words of a language.

    Attributes:
        name: Code of the language.
        everyday: Words without content.
        beginnings: Beginnings of such words.
        words: The single words of all lists, which the language is recognized by.
        unspaced: Whether words stand without spaces.
        orders_last: Whether a verb stands at the end of its clause.
        capitals: Whether nouns begin with a capital letter.
        lists: Words by the name of their list; see ``sentences.toml``.
        cues: Patterns of these words.
    """

    name: str
    everyday: frozenset[str]
    beginnings: tuple[str, ...]
    words: frozenset[str]
    unspaced: bool
    orders_last: bool
    capitals: bool
    lists: Mapping[str, Sequence[str]]
    cues: Mapping[str, re.Pattern[str]]

    def finds(self, cue: str, text: str) -> re.Match[str] | None:
        """Search a folded text for the words of a list."""
        return self.cues[cue].search(text) if self.may_hold(text, cue) else None

    def without(self, cue: str, text: str, instead: str | Callable[[re.Match[str]], str] = " ") -> str:
        """Return a folded text with the words of a list replaced."""
        return self.cues[cue].sub(instead, text) if self.may_hold(text, cue) else text

    def may_hold(self, text: str, *cues: str) -> bool:
        """Return whether a word of some lists may be in a folded text; if not, none is. It is far quicker to say."""
        return self._words_of(cues).occurs_in(text)

    @functools.cache  # noqa: B019 - languages are never dropped
    def _words_of(self, cues: Sequence[str]) -> LinearPattern:
        lists = [self.lists.get("conditions" if cue == "asked" else cue, ()) for cue in cues]
        return _occurrence(chain.from_iterable(lists), unspaced=self.unspaced)

    def opens(self, cue: str, text: str) -> bool:
        """Return whether a folded clause begins with a word of a list, after words such as "and" or "please"."""
        return self.cues[cue].match(text, self.start_of(text)) is not None

    def start_of(self, text: str) -> int:
        """Return the offset of a folded clause's first word, after words such as "and" or "please"."""
        return self.cues["openings"].match(text).end()  # type: ignore[union-attr]  # it may be empty

    def orders(self, text: str) -> bool:
        """Return whether a folded clause opens with an order, and not with a noun of the same form."""
        opens = self.opens("orders", text) and not self.opens("keeps", text)
        return opens and not self.opens_with_noun(text, self.start_of(text))

    def opens_with_noun(self, text: str, at: int) -> bool:
        """Return whether a verb of requests at an offset of a folded clause is a noun there.

        It is if it has a verb of its own ("Test results from the lab came"), as a label ("Update on the trip: …"), or
        before what may be a number of a thing ("order 88-1207"). What stands between it and its verb is not the object
        of an order: no word such as "the" stands there, unless behind a preposition.
        """
        head, _, labelled = text[at:].partition(": ")
        noun, *behind = words_of(head)[: 1 + _LONGEST_NOUN] or [""]
        nouns = self.lists.get("nouns", ())
        if noun not in nouns:
            last = noun.rpartition("-")[2]  # "check-in", not "spell-check"
            return bool(nouns) and last != noun and self.lists["orders"].count(last) == 0
        if not behind or (behind[0][0].isdigit() and len(behind[0]) >= _SHORTEST_NUMBER and behind[0][-2:] != "00"):
            return bool(labelled or behind)
        if self.cues["commands"].match(text, at):
            return False
        near = behind[0] in self.lists["labels"] or not any(word in self.lists["determiners"] for word in behind)
        if labelled and near and not self.finds("texts", head):
            return True  # "Change in my meds: …", "Plan B: …"
        return self._has_verb(behind)

    def _has_verb(self, behind: Sequence[str]) -> bool:
        """Return whether words behind a noun hold its verb, before what would be the object of an order."""
        prepositions, articles = self.lists["prepositions"], self.lists["articles"]
        stops = {*self.lists["determiners"]}.difference(prepositions)
        before = last = ""
        for word, following in zip(behind, [*behind[1:], ""], strict=True):
            if last in articles:  # "with the costs"
                before, last = last, word
                continue
            past = self.cues["pasts"].search(word) is not None
            alone = not last and (not following or following in prepositions)
            if word in self.lists["finite"] or (past and (alone or following in stops)):
                return True  # "Help desk closed my ticket", "Work moved to Tuesdays"
            if last in self.lists["adverbs"] and self._is_verb(word, plural=before.endswith("s")):
                return True  # "Call centre never picks up"
            if word in stops and not (word in articles and last in prepositions):
                return False
            before, last = last, word
        return False

    def _is_verb(self, word: str, *, plural: bool) -> bool:
        """Return whether a word behind an adverb is the verb of a noun, not how an order is to be obeyed."""
        if word in self.everyday or word in self.lists["manner"] or word in self.lists["numbers"]:
            return False
        return word.endswith(("s", "ed")) or (plural and not word.endswith("ly"))

    def ends(self, cue: str, text: str) -> bool:
        """Return whether a folded clause ends with a word of a list, apart from marks."""
        if not self.lists.get(cue):
            return False
        end = len(_without_marks(text).rstrip("".join(QUESTION_MARKS)))
        return self.cues[f"{cue} last"].search(text, max(0, end - _LONGEST_ENDING), end) is not None


@functools.cache
def _languages() -> Mapping[str, Language]:
    return {name: _language(name, words) for name, words in table("sentences").items()}


def _language(name: str, data: Mapping[str, str | bool]) -> Language:
    lists = {key: _words(words) for key, words in data.items() if isinstance(words, str)}
    if name:
        lists["past"] += _words(table("time_words")[name]["weekdays"].replace(",", " "))
    everyday, own = lists.pop("everyday", []), lists.get("self", [])
    known = frozenset(word.strip("-") for word in chain(everyday, *lists.values()))
    lists["today"] = _today(name) if name else []
    lists["opening"] = [word for key in ("please", "first", "corrects", "fillers") for word in lists.get(key, ())]
    return Language(
        name=name,
        everyday=frozenset(everyday) | frozenset(own),
        beginnings=tuple(word[:-1] for word in everyday if word.endswith("-")),
        words=known,
        unspaced=bool(data.get("unspaced")),
        orders_last=bool(data.get("orders_last")),
        capitals=bool(data.get("capitals")),
        lists=lists,
        cues=_Cues(lists | {"everyday": [*everyday, *own]}, unspaced=bool(data.get("unspaced"))),
    )


class _Cues(dict[str, "re.Pattern[str]"]):
    """The patterns of a language, made at their first use.

    Args:
        lists: Its words.
        unspaced: Whether they stand without spaces.
    """

    def __init__(self, lists: Mapping[str, Sequence[str]], *, unspaced: bool) -> None:
        self._lists, self._unspaced = lists, unspaced

    def __missing__(self, cue: str) -> re.Pattern[str]:
        name, _, last = cue.partition(" ")
        if cue == "asked" and "conditions" in self._lists:
            between = r".{0,6}?" if self._unspaced else r"\W+(?:\w+\W+){0,3}?"
            made = lazy_pattern(self["conditions"].pattern + between + self["speaks"].pattern)
        elif cue == "openings":
            made = lazy_pattern(rf"\W*(?:{self['opening'].pattern}\W*)*")
        else:
            made = _pattern(self._lists.get(name, ()), unspaced=self._unspaced, last=bool(last))
        self[cue] = made
        return made


def _words(text: str) -> list[str]:
    return [folded(word.replace("_", " ")) for word in text.split()]


def _today(name: str) -> list[str]:
    """Return the words of a language for today and for days before it."""
    days = [day.rpartition(" ") for day in table("time_words")[name]["relative"].split(", ")]
    return [folded(word) for word, _, distance in days if int(distance) <= 0]


def _pattern(words: Sequence[str], *, unspaced: bool, last: bool = False) -> re.Pattern[str]:
    end = r"\Z" if last else ""
    if not words:
        return lazy_pattern("(?!)")
    if unspaced:
        return lazy_pattern(f"(?:{_either(words)}){end}")
    start, stop = rf"(?<![{_LETTER}])", rf"(?:(?<=')|(?![{_LETTER}]))"
    forms = (
        (start, [word for word in words if "-" not in (word[:1], word[-1:])], stop),
        ("", [word[1:] for word in words if word.startswith("-")], stop),
        (start, [word[:-1] for word in words if word.endswith("-")], f"[{_LETTER}]*"),
    )
    either = "|".join(f"{before}(?:{_either(of)}){after}" for before, of, after in forms if of)
    return lazy_pattern(f"(?:{either}){end}")


def _either(words: Sequence[str]) -> str:
    """Return the alternatives of a pattern, by their first characters: `re` tries one after the other."""
    rests = defaultdict[str, list[str]](list)
    for word in sorted(words, key=len, reverse=True):
        rests[word[:1]].append(_escaped(word[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in rests.items())


def _escaped(words: str) -> str:
    """Return the pattern of words, with any number of spaces between them."""
    return re.escape(words).replace(r"\ ", " +")


_UNKNOWN: Final = _language("", {})


_A_WORD_COUNTS: Final = 16
"""Weight of a word for its language, besides its length; that of a text, of 300 characters at most, has 16 bits."""


@functools.cache
def _languages_of_words(*, of_times: bool) -> Mapping[str, int]:
    """Return the weight of each word as the counts of its languages, 16 bits for each; names of times count twice.

    The length of words decides where two languages know as many.
    """
    found = defaultdict[str, int](int, _languages_of_words(of_times=False) if of_times else {})
    for place, (name, language) in enumerate(_languages().items()):
        named = table("time_words")[name] if of_times else {}
        times = " ".join(named.get(key, "") for key in ("months", "weekdays", "relative"))
        named_times = [word for word in 2 * WORD.findall(folded(times)) if not word.isdigit()]  # without distances
        for word in named_times if of_times else language.words:
            found[word] += (_A_WORD_COUNTS + len(word)) << 16 * place
    return dict(found)


@functools.cache
def _openings() -> Mapping[str, int]:
    """Return what words for the first person, and for what is its own, weigh besides where they open a text."""
    found, languages = defaultdict[str, int](int), _languages().values()
    lists = (language.lists.get(name, ()) for language in languages for name in ("self", "definite"))
    words = frozenset(chain.from_iterable(lists))
    for place, language in enumerate(languages):
        for word in words.intersection(language.words):
            found[word] += _A_WORD_COUNTS // 2 << 16 * place
    return dict(found)


def language_of(text: str) -> Language:
    """Return the language of a folded text, by its script or by most of its words; one without words if unknown."""
    found = _languages_of(text[:_TELLING_LANGUAGE], of_times=False)
    return found[0] if found else _UNKNOWN


def language_code(text: str) -> str:
    """Return the code of the language that a text begins in, such as ``en``; an empty one if it is unknown."""
    return language_of(folded(text[:_TELLING_LANGUAGE])).name


def languages_of_times(text: str) -> Sequence[Language]:
    """Return the language of a folded text by its names of months, weekdays and days too; several if it may be any."""
    return _languages_of(text[:_TELLING_LANGUAGE], of_times=True)


@forgettable
@functools.lru_cache(_RECENT)
def _languages_of(text: str, *, of_times: bool) -> Sequence[Language]:
    if not text.isascii():
        for name, script in _SCRIPTS:
            if script.search(text):
                return (_languages()[name],)
    known, languages = _languages_of_words(of_times=of_times), _languages().values()
    words = words_of(text)
    if "'" in text:
        words = [*words, *(part for word in words if "'" in word for part in _ELISION.findall(word))]
    total = sum(map(known.get, words, repeat(0))) + _openings().get(words[0] if words else "", 0)
    if not total:
        return ()
    counts = struct.unpack(f"<{len(languages)}H", total.to_bytes(2 * len(languages), "little"))
    return tuple(compress(languages, map(max(counts).__eq__, counts)))


@forgettable
@functools.lru_cache(_RECENT)
def sentence_spans(text: str) -> Sequence[Span]:
    """Return the spans of the sentences and lines of a text, without surrounding white space."""
    if text.isascii() and _ENDING.search(text.rstrip().rstrip("\"')]").rstrip(".!?")) is None:
        start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        return ((start, end),) if start < end else ()
    ends = {found.end() for border in (LINE_END, SENTENCE_END) for found in border.finditer(text)}
    numbered = {end for end in ends if _NUMBERED.search(text, max(end - 8, 0), end)}
    if numbered and (months := _months_behind_ordinals(language_of(folded(text)).name)) is not None:
        ends -= {end for end in numbered if text[end].islower() or _word_at(text, end) in months}
    return tuple(_between(text, 0, len(text), ends))


def fluent(text: str) -> str:
    """Return a text without what speech alone holds: words such as "um", and words said twice."""
    lowered = folded(text)
    language = language_of(lowered)
    found = language.cues["fillers"].finditer(lowered) if language.may_hold(lowered, "fillers") else ()
    for start, end in reversed([filler.span() for filler in found]):
        text = text[:start] + text[end:].lstrip(" ,…")
    return _TWICE.sub(r"\1", text)


def last_sentence(text: str) -> str:
    """Return the last sentence of a text, without surrounding white space; an empty text if it has none."""
    return text[slice(*sentence_spans(text)[-1])] if text.strip() else ""


@functools.cache
def _months_behind_ordinals(language: str) -> frozenset[str] | None:
    """Return the months of a language that writes ordinals with a full stop, as an unknown one may; else None."""
    if not language:
        return frozenset()
    words = table("time_words")[language]
    return frozenset(WORD.findall(folded(words["months"]))) if words.get("dotted") else None


def _word_at(text: str, start: int) -> str:
    found = WORD.match(text, start)
    return folded(found[0]) if found else ""


@functools.cache
def words_anywhere(*cues: str) -> LinearPattern:
    """Return the pattern of the words of some lists, of any language, in a folded ASCII text."""
    lists = (language.lists.get(cue, ()) for language in _languages().values() for cue in cues)
    return _occurrence(filter(str.isascii, chain.from_iterable(lists)), unspaced=False)


def _occurrence(words: Iterable[str], *, unspaced: bool) -> LinearPattern:
    """Return the pattern of which a match is wherever a word of a folded text is."""
    whole, parts = list[str](), list[str]()
    for word in sorted(set(words)):
        bounded = not unspaced and word[0].isalnum() and word[-1].isalnum()
        (whole if bounded else parts).append(_escaped(word.strip("-")))
    alone = [rf"(?:^|[^{_IN_WORDS}])(?:{'|'.join(whole)})(?:[^{_IN_WORDS}]|$)"] if whole else []
    return LinearPattern("|".join([*alone, *parts]) or _NOTHING)


def clause_spans(text: str, span: Span) -> list[Span]:
    """Return the spans of the parts of a sentence between commas and the like."""
    border = _COMMA if text.isascii() and "-" not in text else _CLAUSE_END
    return list(_between(text, *span, {found.end() for found in border.finditer(text, *span)}))


def _between(text: str, start: int, last: int, ends: set[int]) -> Iterator[Span]:
    for end in sorted(ends | {last}):
        if piece := text[start:end].strip():
            at = text.index(piece[0], start)
            yield at, at + len(piece)
        start = end


def content_words(text: str, language: Language, most: int | None = None) -> list[str]:
    """Return the words of a folded text that say something; the neighbouring characters of an unspaced one.

    Args:
        text: The text.
        language: Its language.
        most: Maximum number of words, the first ones; None for all.
    """
    return list(islice(_content_words(text, language), most))


def content_of(text: str) -> frozenset[str]:
    """Return the words of a text that say something in its language."""
    lowered = folded(text)
    return frozenset(content_words(lowered, language_of(lowered)))


def contradicts(text: str, said: str) -> bool:
    """Return whether a text may say otherwise than another.

    It may if it opens like a correction and is incomplete or repeats a longer word ("No, a Mazda.", "No, I drive a
    Mazda."), if it is a name, first of all or behind a word of the other ("It's a Mazda." for "a Toyota"), if it is a
    number, alone or of what the other counts ("It's 5 pm." for "at 4 pm", not for "at 6"), or if it denies a word of
    the other ("I drive a Mazda, not a Toyota.").

    Args:
        text: The text.
        said: What may be wrong.
    """
    lowered, other = folded(text), folded(said)
    language, words = language_of(f"{other} {lowered}"), words_of(other)
    start = language.start_of(lowered)
    if language.finds("corrects", lowered[:start]):
        return language.unspaced or not tells(text) or bool(_repeated(lowered, words))
    if named := language.cues["identifies"].match(lowered, start):
        first, *_ = behind = WORD.findall(text[named.end() :]) or [""]
        if first[:1].isdigit():
            units = _units(lowered[named.end() : clause_spans(lowered, (0, len(lowered)))[0][1]])
            return not units.isdisjoint(_units(other)) or (units == {""} and _units(other) != set())
        same = any(word.startswith(folded(first)) for word in words)  # "eine", "einen"
        return language.unspaced or any(map(_is_proper, behind if same else behind[:1]))
    denied = (lowered[slice(*span)] for span in clause_spans(lowered, (0, len(lowered)))[1:])
    return any(language.opens("denies", it) and not content_of(it).isdisjoint(words) for it in denied)


def _units(text: str) -> set[str]:
    """Return the words right behind the numbers of a folded text; an empty one for a number at its end."""
    words = _NUMBERS_APART.findall(text)
    return {unit for number, unit in pairwise([*words, ""]) if number[0].isdigit()}


def _is_proper(word: str) -> bool:
    return word[:1].isupper() or word[:1].isdigit()


def is_about_listener(text: str, answer: str) -> bool:
    """Return whether a text is about who answers it.

    It is if it has a word of the second person, or if the answer repeats a longer word with another ending: "vives",
    "vivo".
    """
    lowered = folded(text)
    words = words_of(lowered)
    return language_of(lowered).finds("you", lowered) is not None or not _repeated(folded(answer), words) <= {*words}


def _repeated(text: str, words: Iterable[str]) -> frozenset[str]:
    """Return the longer words of a folded text that begin like one of some words."""
    beginnings = {word[:_BEGINNING] for word in words if len(word) >= _LONG}
    return frozenset(word for word in words_of(text) if len(word) >= _LONG and word[:_BEGINNING] in beginnings)


def _content_words(text: str, language: Language) -> Iterator[str]:
    if language.unspaced:
        for run in _RUN.findall(language.cues["everyday"].sub(" ", text)):
            yield from _pairs(run) if run[0] >= "\u3040" else (run,)
        return
    words, everyday, beginnings = words_of(text), language.everyday, language.beginnings
    if "'" in text:
        words = [_ARTICLE.sub("", word) for word in words]
    for word in words:
        if word in everyday:
            continue
        if not (word.startswith(beginnings) if word.isalnum() else _is_made_of_everyday(word, language)):
            yield word


def _pairs(run: str) -> list[str]:
    return [run] if len(run) < 3 or "\u30a1" <= run[0] <= "\u30ff" else [run[at : at + 2] for at in range(len(run) - 1)]


def _is_made_of_everyday(word: str, language: Language) -> bool:
    parts = word.replace("-", "'").split("'")
    short = len(parts) > 1 and all(len(part) < 3 or part in language.everyday for part in parts)
    return short or word.startswith(language.beginnings)


def _without_marks(text: str) -> str:
    """Return a text without the marks at its end, other than question marks."""
    return text.rstrip(_ASCII_MARKS) if text.isascii() else _AFTER_MARKS.sub("", text)


def is_question(sentence: str, language: Language) -> bool:
    """Return whether a folded sentence asks: by its mark, or without a full stop by its first or last word."""
    bare = _without_marks(sentence)
    if bare.endswith(QUESTION_MARKS) or language.ends("asks_last", bare):
        return not language.opens("keeps", sentence)  # "Can you remember that …" tells something
    if sentence.endswith(_FULL_STOPS) or language.opens("forbids", sentence):
        return False
    if language.unspaced or language.orders_last:
        return language.finds("asks", sentence) is not None
    asked = language.cues["asks"].match(sentence, language.start_of(sentence))
    # "Where I live" states something.
    if asked is None or language.cues["self"].match(sentence, asked.end() + 1):
        return False
    return not language.opens("keeps", sentence)


def own_words(text: str, language: Language) -> int:
    """Return the length of the part of a text that is its author's own words.

    Somebody else's words follow the header of a mail, a line that announces them ("My boss wrote:"), an order about a
    thing at hand and a colon, a request about a text that ends with a colon or its line, or the greeting of a letter. A
    letter without words before it is somebody else's if it is signed.

    Args:
        text: The text.
        language: Its language.
    """
    if not _COLON.search(text):
        return len(text)
    last, lowered = text.rstrip().rpartition("\n")[2], folded(text)
    signed = last[-1:].isalnum() and len(last.split()) <= _LONGEST_NAME
    mail = _mail_at(lowered, language)
    spans = sentence_spans(text)
    for (start, end), (following, _) in pairwise([*spans, (len(text), len(text))]):
        if start >= mail:
            break
        head, *behind = _COLON.split(lowered[start:end], maxsplit=1)
        if (
            "\n" in text[end:following]
            and text[following : following + 1] != ">"
            and (announces(lowered[start:end], language) or _shows(lowered[start:end], language))
        ):
            return end
        orders = language.orders(lowered[start:end]) or language.ends("orders", head)
        cue = "once" if orders and behind else "texts" if behind or text.startswith("\n", end) else ""
        if cue and language.finds(cue, head) and (orders or is_question(head, language)):
            return min(start + len(head) + 1, end)
        if head.endswith((",", "，", "、")) and (start or signed) and language.cues["greets"].match(head):
            return start
    return mail


def _mail_at(lowered: str, language: Language) -> int:
    """Return the offset of the header of a mail in a folded text; its length if there is none.

    It begins with a line such as "Begin forwarded message:" or "Fwd: …", with one between dashes that has a word of
    these, with a field of a mail that holds an address and states nothing of it, or with two fields: "From: …",
    "Subject: …". No line without a colon stands between these.
    """
    at, start, fields = 0, 0, set[str]()
    for line in lowered.splitlines(keepends=True):
        field, colon, value = line.replace("：", ":").partition(":")
        name = field.strip(" \t\n\r*")
        if name in _names_in_mails("prefixes") or (name in _names_in_mails("forwards") and not value.strip()):
            return at
        if not colon:
            fields.clear()
            if name.startswith(_RULE) and name.endswith(_RULE) and not _words_of_mails().isdisjoint(words_of(name)):
                return at
        elif name in _names_in_mails("headers"):
            start = start if fields else at
            fields.add(name)
            behind = value.partition("@")[2].partition(" ")[2]
            states = language.finds("copula", behind)  # "From: bob@x.com is my address", and not "jon@mbl.is"
            if len(fields) > 1 or ("@" in value and not (states and words_of(behind[states.end() :]))):
                return start
        at += len(line)
    return len(lowered)


@functools.cache
def _names_in_mails(cue: str) -> frozenset[str]:
    """Return the names of a list, of all languages."""
    return frozenset(chain.from_iterable(language.lists.get(cue, ()) for language in _languages().values()))


@functools.cache
def _words_of_mails() -> frozenset[str]:
    """Return the words of the lists that are named in a line before a mail, of all languages."""
    names = (_names_in_mails(cue) for cue in ("forwards", "headers", "quotes"))
    words = (word for name in chain.from_iterable(names) for word in words_of(name))
    return frozenset(word for word in words if len(word) >= _BEGINNING)  # not "a", "de"


def _shows(line: str, language: Language) -> bool:
    """Return whether a folded line without a colon shows a text that came: "I received this message"."""
    return language.finds("received", line) is not None and language.finds("texts", line) is not None


def announces(line: str, language: Language) -> bool:
    """Return whether a folded line announces words of somebody else: "My boss wrote:", "I got this:"."""
    if not line.endswith((":", "：")):
        return False
    if (found := language.finds("quotes", line)) is None:
        return language.finds("received", line) is not None
    done = language.lists.get("done", ())
    before = [word for word in words_of(line[: found.start()]) if word not in done]
    return not before or before[-1] not in language.lists.get("self", ())  # not "I told you:"


def stated_spans(text: str, language: Language) -> Iterator[Span]:
    """Yield the spans of sentences that neither ask nor order, up to the clause that does.

    What follows an order in its sentence belongs to it. A sentence is stated as a whole if the order is in its middle,
    or if a clause of its own is joined to the order: by a word such as "and", or because it tells what is so now. Words
    that are not the author's own are left out; see `own_words`. Behind a list of what somebody said, the author speaks
    again where a paragraph begins in the first person.

    Args:
        text: The text.
        language: Its language.
    """
    own, lowered = own_words(text, language), folded(text)
    told = _ITEMS.match(text, own)
    again = told.end() if told and language.cues["self"].match(lowered, told.end()) else len(text)
    for start, end in sentence_spans(text):
        if start < own or start >= again:
            yield from _stated_in(lowered, (start, min(end, own) if start < own else end), language)


def _stated_in(text: str, sentence: Span, language: Language) -> Iterator[Span]:
    asks = is_question(text[slice(*sentence)], language)
    if language.orders_last and (asks or language.ends("orders", text[slice(*sentence)])):
        return
    clauses = clause_spans(text, sentence)
    words = [text[slice(*clause)] for clause in clauses]
    if asks:
        words = list(takewhile(lambda clause: not language.opens("asks", clause), words[:-1]))
    orders = [language.orders(clause) for clause in words] if language.may_hold(text, "orders") else []
    stated = orders.index(True) if True in orders else len(words)
    others = [clause for clause, order in zip(words, orders, strict=False) if not order]
    if any(stated or language.cues["adds"].match(it) or language.finds("lately", it) for it in others[stated:]):
        stated = len(words)
    if stated:
        yield sentence[0], clauses[stated - 1][1]


def tells(text: str) -> bool:
    """Return whether a text tells something by itself: enough words with content, outside questions and requests.

    Greetings, thanks and reactions hold hardly any.
    """
    return telling(text) & ENOUGH != 0


def telling(text: str) -> int:
    """Return the bits of what a text tells, alone and in a conversation; see `ENOUGH`."""
    return _telling(text[:_LONGEST], text.rstrip()[-_LONGEST:])


@forgettable
@functools.lru_cache(_RECENT)
def _telling(said: str, end: str) -> int:
    """Return the bits of what a text tells, by its beginning and its end."""
    lowered = folded(said)
    if lowered.isascii() and _only_states(lowered) and says_anywhere(lowered) >= _ENOUGH:
        return ENOUGH
    language = language_of(lowered)
    asks = ASKS_SOMEBODY if end.endswith(QUESTION_MARKS) and _asks_about_somebody(end, language) else 0
    pieces = [lowered[start:end] for start, end in stated_spans(said, language)]
    count = len(list(islice((word for piece in pieces for word in _content_words(piece, language)), _ENOUGH)))
    if says_enough(count, pieces, language):
        return ENOUGH | asks
    corrects = language.finds("corrects", lowered[: language.start_of(lowered)])
    return asks | (A_WORD | (CORRECTS if corrects else 0) if count else 0)


def asked_share(text: str) -> float:
    """Return the share of a text's words with content that stand in its author's questions, from 0 to 1.

    It is 0 without a question mark: many a sentence begins like a question.
    """
    said = text[:_LONGEST]
    if not any(mark in said for mark in QUESTION_MARKS):
        return 0.0
    lowered = folded(said)
    language = language_of(lowered)
    own, stated, asked = own_words(said, language), dict(stated_spans(said, language)), 0
    for start, end in sentence_spans(said):
        if end <= own and is_question(lowered[start:end], language):
            behind = _COLON.split(lowered[stated.get(start, start) : end])[-1]
            asked += len(content_words(behind, language))
    return asked / (len(content_words(lowered, language)) or 1)


def points_back(text: str) -> bool:
    """Return whether a text names a time before its own: "yesterday", "on Monday", "a week ago"."""
    lowered = folded(text[:_LONGEST])
    return language_of(lowered).finds("past", lowered) is not None


def tells_of_another(text: str) -> bool:
    """Return whether a text begins with what may be a name, and tells of it: "Tom lives in Graz", not "Tom, you …"."""
    lowered = folded(fluent(text[:_LONGEST]))
    first, language = WORD.search(lowered), language_of(lowered)
    if first is None or language.unspaced or first[0] in language.words or lowered[first.end() :][:1] != " ":
        return False
    clause = lowered[slice(*clause_spans(lowered, (0, len(lowered)))[0])]
    return language.finds("you", clause) is None and language.finds("self", clause) is None


def tells_of_change(text: str) -> bool:
    """Return whether a text tells that something is not as it was: "moved", "no longer", "from now on"."""
    lowered = folded(text[:_LONGEST])
    language = language_of(lowered)
    return any(language.finds(cue, lowered) for cue in ("changes", "onwards"))


def day_phrases(text: str) -> Iterator[str]:
    """Yield the places of a text that may name a time relative to its day: "today", "last night", "on Monday".

    Some words around stand with them, folded, with "x" for those that are neither everyday words nor numbers.
    """
    lowered = folded(text[:_LONGEST])
    language = language_of(lowered)
    for cue in ("today", "past"):
        for found in language.cues[cue].finditer(lowered) if language.may_hold(lowered, cue) else ():
            start, end = found.span()
            if language.unspaced:
                yield lowered[max(start - _BEFORE_A_DAY, 0) : end + _BEFORE_A_DAY]
            else:
                around = words_of(lowered[:start])[-_BEFORE_A_DAY:], words_of(lowered[end:])[:_BEHIND_A_DAY]
                before, after = (
                    [word if word.isdigit() or word in language.words else "x" for word in words] for words in around
                )
                yield " ".join([*before, found[0], *after])


def _asks_about_somebody(text: str, language: Language) -> bool:
    """Return whether a text, which ends with a question, asks about others than its author: not "Shall I?"."""
    asked = folded(text[slice(*sentence_spans(text)[-1])])
    last = _COLON.split(asked[slice(*clause_spans(asked, (0, len(asked)))[-1])])[-1]
    last = language.without("inquires", last)
    rest = last.partition(" ")[2] or last  # "¿Cómo" is not "como"
    about = (
        language.finds("you", asked)
        or language.ends("asks", asked)  # "From where?"
        or any(True for _ in _content_words(asked, language))
    )
    return bool(about) and language.finds("self", rest) is None


def _only_states(text: str) -> bool:
    """Return whether no part of a folded ASCII text asks or orders, in any language."""
    return "?" not in text and not words_anywhere("asks", "asks_last", "orders").occurs_in(text)


def says_anywhere(text: str) -> int:
    """Return the number of words of a folded ASCII text that say something in every language, at least."""
    return sum(map(_says_something, words_of(text)))


@forgettable
@functools.lru_cache(_MOST_WORDS)
def _says_something(word: str) -> bool:
    everyday, beginnings = _everyday_anywhere()
    return word.isalnum() and word not in everyday and not word.startswith(beginnings)


@functools.cache
def _everyday_anywhere() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the everyday words of all languages, and the beginnings of such words."""
    languages = _languages().values()
    beginnings = tuple(chain.from_iterable(language.beginnings for language in languages))
    return frozenset(chain.from_iterable(language.everyday for language in languages)), beginnings


def says_enough(count: int, pieces: Iterable[str], language: Language) -> bool:
    """Return whether pieces of a text hold enough words with content.

    The first person counts as one. It is implied where pronouns are mostly left out, by a verb that opens a
    sentence, as in "Love hiking.", and by a word that closes one, as in "Sam here.".

    Args:
        count: Number of words with content in them.
        pieces: The pieces, folded.
        language: Their language.
    """
    if not 0 < count < _ENOUGH:
        return count > 0
    return language.orders_last or any(
        language.finds("self", piece) or language.opens("implies", piece) or language.ends("introduces", piece)
        for piece in pieces
    )


def forget_texts() -> None:
    """Clear the caches of texts, so that no erased text outlives in them."""
    for cached in _CACHES_OF_TEXTS:
        cached.cache_clear()
