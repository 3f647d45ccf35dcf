"""Languages: their words, and what they tell apart: words with content, sentences, clauses that ask or order.

The words of each language are data, in ``languages.toml``. Nothing here knows a grammar: a language is recognized by
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
from itertools import chain, compress, islice, repeat
from typing import Final, TypeAlias

import attrs

from factmem.patterns import LinearPattern, lazy_pattern
from factmem.text_caches import RECENT, forgettable
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
COLON: Final = lazy_pattern(r":(?=\s|\Z)|[：\n]")
"""A colon or the end of a line, where another text may begin."""

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
_RUN: Final = lazy_pattern("[\u3400-\u9fff々]+|[\u30a1-\u30ff]+|[^\\W_\u3041-\u9fff]+")
"""Words of an unspaced text whose everyday words are removed: ideographs, katakana, letters of other scripts."""

_IN_WORDS: Final = r"\p{L}\p{N}_\x{900}-\x{963}"
"""The `_LETTER` of linear patterns, whose ``\\w`` holds combining marks as well."""

_NOTHING: Final = r"\z."
_GAPS: Final = "".join(char if char.isalnum() or char in "'-" else " " for char in map(chr, range(128)))
"""Translation of the ASCII characters outside `WORD` into spaces."""

_TELLING_LANGUAGE: Final = 300
"""Number of characters by which a language is recognized."""

_LONGEST_ENDING: Final = 40
"""Maximum number of characters of words at the end of a clause."""

_LONGEST_NOUN: Final = 9
"""Maximum number of words read behind a noun that looks like an order: "Test results of my brother came back."."""

_SHORTEST_NUMBER: Final = 4
"""Minimum length of the number of a thing, such as an order; a shorter one counts things: "book 12 seats"."""


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
@functools.lru_cache(RECENT)
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
        lists: Words by the name of their list; see ``languages.toml``.
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

    def asks(self, sentence: str) -> bool:
        """Return whether a folded sentence asks: by its mark, or without a full stop by its first or last word."""
        bare = _without_marks(sentence)
        if bare.endswith(QUESTION_MARKS) or self.ends("asks_last", bare):
            return not self.opens("keeps", sentence)  # "Can you remember that …" tells something
        if sentence.endswith(_FULL_STOPS) or self.opens("forbids", sentence):
            return False
        if self.unspaced or self.orders_last:
            return self.finds("asks", sentence) is not None
        asked = self.cues["asks"].match(sentence, self.start_of(sentence))
        # "Where I live" states something.
        if asked is None or self.cues["self"].match(sentence, asked.end() + 1):
            return False
        return not self.opens("keeps", sentence)

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


def blank(found: re.Match[str]) -> str:
    """Return spaces instead of a match, for `Language.without`: what follows stays at its place."""
    return " " * len(found[0])


@functools.cache
def languages() -> Mapping[str, Language]:
    """Return the languages that have a table, by their codes."""
    return {name: _language(name, words) for name, words in table("languages").items()}


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
    for place, (name, language) in enumerate(languages().items()):
        named = table("time_words")[name] if of_times else {}
        times = " ".join(named.get(key, "") for key in ("months", "weekdays", "relative"))
        named_times = [word for word in 2 * WORD.findall(folded(times)) if not word.isdigit()]  # without distances
        for word in named_times if of_times else language.words:
            found[word] += (_A_WORD_COUNTS + len(word)) << 16 * place
    return dict(found)


@functools.cache
def _openings() -> Mapping[str, int]:
    """Return what words for the first person, and for what is its own, weigh besides where they open a text."""
    found = defaultdict[str, int](int)
    words = frozenset(listed("self", "definite"))
    for place, language in enumerate(languages().values()):
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
@functools.lru_cache(RECENT)
def _languages_of(text: str, *, of_times: bool) -> Sequence[Language]:
    if not text.isascii():
        for name, script in _SCRIPTS:
            if script.search(text):
                return (languages()[name],)
    known = _languages_of_words(of_times=of_times)
    words = words_of(text)
    if "'" in text:
        words = [*words, *(part for word in words if "'" in word for part in _ELISION.findall(word))]
    total = sum(map(known.get, words, repeat(0))) + _openings().get(words[0] if words else "", 0)
    if not total:
        return ()
    counts = struct.unpack(f"<{len(languages())}H", total.to_bytes(2 * len(languages()), "little"))
    return tuple(compress(languages().values(), map(max(counts).__eq__, counts)))


@forgettable
@functools.lru_cache(RECENT)
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
    return _occurrence(filter(str.isascii, listed(*cues)), unspaced=False)


def listed(*cues: str) -> Iterator[str]:
    """Return the words of some lists, of all languages."""
    return chain.from_iterable(language.lists.get(cue, ()) for language in languages().values() for cue in cues)


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
