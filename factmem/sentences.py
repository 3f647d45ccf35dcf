"""Texts by what they do: tell, ask, correct, name a day, tell of a change.

The words are those of `factmem.languages`.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Iterable, Iterator
from itertools import chain, pairwise, takewhile
from typing import Final, NamedTuple

from factmem.languages import (
    COLON,
    QUESTION_MARKS,
    WORD,
    Language,
    Span,
    blank,
    clause_spans,
    content_of,
    content_words,
    folded,
    language_of,
    languages,
    last_sentence,
    sentence_spans,
    words_anywhere,
    words_of,
)
from factmem.own_words import own_sentences, own_words
from factmem.patterns import lazy_pattern
from factmem.text_caches import RECENT, forgettable

_TWICE: Final = lazy_pattern(r"(?i)(?<![^\W_])([^\W\d_]+)(?: \1(?![^\W_]))+")
"""A word said twice."""

_NUMBERS_APART: Final = lazy_pattern("\\d+(?:[.,:]\\d+)*|[\u3400-\u9fff]|[^\\W\\d_]+")
_MOST_WORDS: Final = 16_384
"""Number of words of which is kept whether they say something."""

_FIGURE_WITH_PARTS: Final = lazy_pattern(r"(?<!\d)\d+(?:[.,:/-]\d+)+")
_LONGEST: Final = 1_000
"""Number of characters of a text that `tells` looks at."""

_LONG, _BEGINNING = 4, 3
"""Minimum length of a word that is not of the commonest, and number of its letters that no ending changes."""

_BEFORE_A_DAY, _BEHIND_A_DAY = 3, 2
"""Number of words around one that may name a day: "two weeks ago", "last Monday morning"."""

_OPENING: Final = 40
"""Number of characters of a text in which it may open like a correction."""

_ENOUGH: Final = 2
"""Number of words with content, the first person counting as one, in a text that tells something."""


class Telling(NamedTuple):
    """Whether and how a text tells something, alone and in a conversation.

    Attributes:
        alone: It has enough words with content to tell something by itself.
        at_all: It has a word with content, which tells something as an answer.
        corrects: It opens like a correction, and tells something only behind what it corrects.
    """

    alone: bool
    at_all: bool
    corrects: bool = False


class Asking(NamedTuple):
    """Content and purpose of the question that a text ends with.

    Attributes:
        about: The question has a word with content, besides those of an assistant's work on texts.
        offers: The question offers such work: "Shall I go on?", "How can I help?".
    """

    about: bool
    offers: bool


_TELLS: Final = Telling(alone=True, at_all=True)


def stated_spans(text: str, language: Language) -> Iterator[Span]:
    """Yield the spans of sentences that neither ask nor order, up to the clause that does.

    What follows an order in its sentence belongs to it. A sentence is stated as a whole if the order is in its middle,
    or if a clause of its own is joined to the order: by a word such as "and", or because it tells what is so now. Words
    that are not the author's own are left out; see `own_sentences`.

    Args:
        text: The text.
        language: Its language.
    """
    lowered = folded(text)
    for sentence in own_sentences(text, language):
        yield from _stated_in(lowered, sentence, language)


def _stated_in(text: str, sentence: Span, language: Language) -> Iterator[Span]:
    asks = language.asks(text[slice(*sentence)])
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
    return telling(text).alone


def telling(text: str) -> Telling:
    """Return what a text tells, alone and in a conversation."""
    return _telling(text[:_LONGEST])


@forgettable
@functools.lru_cache(RECENT)
def _telling(said: str) -> Telling:
    lowered = folded(said)
    if lowered.isascii() and _only_states(lowered) and says_anywhere(lowered) >= _ENOUGH:
        return _TELLS
    language = language_of(lowered)
    pieces = [lowered[start:end] for start, end in stated_spans(said, language)]
    count = sum(len(content_words(piece, language, _ENOUGH)) for piece in pieces)
    alone, start = says_enough(count, pieces, language), language.start_of(lowered)
    corrects = count > 0 and language.finds("corrects", lowered[:start]) is not None
    corrects = corrects and (not alone or _is_behind_opening(said[start:], lowered[:start].rstrip(), language))
    return Telling(alone=alone, at_all=count > 0, corrects=corrects)


def asking(text: str) -> Asking | None:
    """Return content and purpose of the question that a text ends with; None if it ends with none."""
    end = text.rstrip()[-_LONGEST:]
    if not end.endswith(QUESTION_MARKS):
        return None
    asked = folded(last_sentence(end))
    language = language_of(asked)
    last = COLON.split(asked[slice(*clause_spans(asked, (0, len(asked)))[-1])])[-1]  # "Before I go on: do you smoke?"
    offers = language.finds("steps", last) and (language.finds("self", last) or language.finds("objects", last))
    about = content_words(language.without("steps", asked) if offers else asked, language, 1)
    return Asking(about=bool(about), offers=bool(offers))


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
        if end <= own and language.asks(lowered[start:end]):
            behind = COLON.split(lowered[stated.get(start, start) : end])[-1]
            asked += len(content_words(behind, language))
    return asked / (len(content_words(lowered, language)) or 1)


def points_back(text: str) -> bool:
    """Return whether a text names a time before its own: "yesterday", "on Monday", "a week ago"."""
    lowered = folded(text[:_LONGEST])
    return language_of(lowered).finds("past", lowered) is not None


def tells_of_another(text: str, names: Container[str]) -> bool:
    """Return whether a text begins with what may be a name, and tells of it: "Tom lives in Graz", not "Tom, you …".

    Args:
        text: The text.
        names: Given names, which have no other meaning.
    """
    lowered = folded(fluent(text[:_LONGEST]))
    language = language_of(lowered)
    titles = language.lists.get("titles", ())
    first = next((word for word in WORD.finditer(lowered) if word[0] not in titles), None)
    if first is None or language.unspaced or lowered[first.end() :][:1] != " ":
        return False
    if first[0] in language.words and first[0] not in names:
        return False
    clause = lowered[slice(*clause_spans(lowered, (0, len(lowered)))[0])]
    return language.finds("you", clause) is None and language.finds("self", clause) is None


def tells_of_change(text: str) -> bool:
    """Return whether a text tells that something is not as it was: "moved", "no longer", "from now on"."""
    lowered = folded(text[:_LONGEST])
    language = language_of(lowered)
    return any(language.finds(cue, lowered) for cue in ("changes", "onwards"))


def tells_of_now(text: str) -> bool:
    """Return whether a text tells of what is so now: "my new boss", "she is at Acme now"."""
    lowered = folded(text[:_LONGEST])
    return language_of(lowered).finds("lately", lowered) is not None


def names_and_figures(text: str) -> list[str]:
    """Return the words of a text that may be names or hold a digit.

    A word at the beginning of a sentence is none that says little; where nouns have capitals, names are left out.
    """
    text = text[:_LONGEST]
    lowered = folded(text)
    language = language_of(lowered)
    starts = {start for start, _ in sentence_spans(text)}
    found: list[str] = []
    for word in WORD.finditer(lowered):
        written = text[slice(*word.span())]
        light = word[0] in language.everyday and word.start() in starts
        if any(map(str.isdigit, written)) or (
            written[0].isupper() and not (language.capitals or light or written == "I")
        ):
            found.append(written)
    return found + _FIGURE_WITH_PARTS.findall(text)


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


def _only_states(text: str) -> bool:
    """Return whether no part of a folded ASCII text asks, orders, or opens like a correction, in any language."""
    if "?" in text or words_anywhere("corrects").occurs_in(text[:_OPENING]):
        return False
    return not words_anywhere("asks", "asks_last", "orders").occurs_in(text)


def _is_value(text: str, language: Language) -> bool:
    """Return whether a text is a value without a verb, as far as words show: "the 14th of May", "Dr Hurt", "a Polo"."""
    lowered = folded(text)
    named = language.cues["identifies"].match(lowered)
    text, lowered = (text[named.end() :], lowered[named.end() :]) if named else (text, lowered)
    if language.finds("self", lowered) or language.finds("copula", lowered):
        return False
    rest = language.without("titles", language.without("numbers", lowered, blank), blank)
    words = [word for word in WORD.finditer(rest) if not word[0][0].isdigit()]
    if any(len(word[0]) >= _LONG and word[0] in language.everyday for word in words):
        return False
    said = [text[word.start()] for word in words if content_words(word[0], language, 1)]
    few = len(said) <= 1 and not language.orders_last
    known = few or (not language.capitals and all(map(str.isupper, said)))
    return known and bool(content_words(lowered, language, 1))


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
    known = languages().values()
    beginnings = tuple(chain.from_iterable(language.beginnings for language in known))
    return frozenset(chain.from_iterable(language.everyday for language in known)), beginnings


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
        return language.unspaced or telling(text).corrects or not tells(text) or bool(_repeated(lowered, words))
    if named := language.cues["identifies"].match(lowered, start):
        first, *_ = behind = WORD.findall(text[named.end() :]) or [""]
        if first[:1].isdigit():
            units = _units(lowered[named.end() : clause_spans(lowered, (0, len(lowered)))[0][1]])
            return not units.isdisjoint(_units(other)) or (units == {""} and _units(other) != set())
        same = any(word.startswith(folded(first)) for word in words)  # "eine", "einen"
        return language.unspaced or any(map(_is_proper, behind if same else behind[:1]))
    clauses = [lowered[slice(*span)] for span in clause_spans(lowered, (0, len(lowered)))[1:]]
    return any(language.opens("denies", it) and not content_of(it).isdisjoint(words) for it in clauses)


def _is_behind_opening(text: str, opening: str, language: Language) -> bool:
    """Return whether a value stands behind a folded opening: in "No, Dr Hurt.", but not in "No pressure."."""
    parted = not opening[-1:].isalnum() or not (language.ends("denies", opening) or language.ends("nominal", opening))
    return parted and _is_value(text, language)


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


def fluent(text: str) -> str:
    """Return a text without what speech alone holds: words such as "um", and words said twice."""
    lowered = folded(text)
    language = language_of(lowered)
    found = language.cues["fillers"].finditer(lowered) if language.may_hold(lowered, "fillers") else ()
    for start, end in reversed([filler.span() for filler in found]):
        text = text[:start] + text[end:].lstrip(" ,…")
    return _TWICE.sub(r"\1", text)
