"""Taint: words that the assistant repeats from what nobody vouches for.

What a tool or a page says is kept in quarantine. If the assistant repeats it, the next session would hear the same from
the assistant. `repetitions` finds such messages of a conversation.

A sentence is compared by its units: the stems of its words, and pairs of stems that stand close together. A unit is
evidence if untrusted words have it and trusted words do not: what the user said as well is the user's. Each unit has a
weight: 1 for a name or a number, less for a rare word, nothing for an everyday word. Pairs weigh by their rarer words,
so that trusted words in a new combination are evidence too.

A sentence is compared as a whole, too: if most of its words stand in one sentence of a short untrusted text, and fewer
in any trusted one, it says the same, even if all of them are everyday words. All of this is linear in the length of the
conversation.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import attrs

from factmem.details import Origin
from factmem.patterns import lazy_pattern
from factmem.text_caches import forgettable
from factmem.toml_tables import table

REPEATS: Final = {
    Origin.USER: "repeats what a user pasted",
    Origin.ASSISTANT: "repeats quarantined words",
    Origin.TOOL: "repeats a tool",
    Origin.DOCUMENT: "repeats a document",
    Origin.UNKNOWN: "repeats words of unknown origin",
}
"""Flags of the assistant's words that repeat what nobody vouches for, by the origin of it; see `FactDetails.flags`."""

_ENOUGH: Final = 0.8
"""Weight of the units that a sentence shares with untrusted words, from which on it repeats them."""

_ENOUGH_AT_ONCE: Final = 0.5
"""The same for an answer to these words, with nothing of the user's in between: one rare word."""

_ENOUGH_OF_A_PAGE: Final = 0.6
"""The same for an answer to a page, which has one rare word in common with many a sentence."""

_PAGE: Final = 40
"""Number of different words that make a page."""

_MOST_OF_IT: Final = 0.6
"""Share of the words of a sentence that stand in an untrusted one, from which on it says the same."""

_SOME_OF_IT: Final = 0.3
"""Minimum share of the words of the other sentence: a long one has some words in common with many."""

_FEWEST_OF_IT: Final = 2
"""Minimum number of these words."""

_POSTINGS: Final = 32
"""Maximum number of sentences that are searched for one word, the latest ones; it keeps the search linear."""

_LONGEST_VALUE: Final = 8
"""Maximum number of different words of what is compared as a value."""

_REACH: Final = 3
"""Maximum distance of the words of a pair."""

_LONGEST_STEM: Final = 6
_LONGEST_ROOT: Final = 5
_ENDINGS: Final = ("ing", "ed", "er", "est", "ly", "es", "s")

_RECENT, _MOST_WORDS, _LONGEST_WORD = 16, 16_384, 40
"""Numbers of texts and of words that are kept as they were read, for a message is compared several times; of characters
of a word that is kept."""

_EVERYDAY, _UNSURE, _RARE, _NAME = range(4)
_OF_WORDS: Final = (0.0, 0.25, 0.5, 1.0)
"""Weight of a word, by its kind. Of languages whose everyday words are not known here, rare words are unsure."""

_OF_PAIRS: Final = (0.2, 0.34, 0.5)
"""Weight of a pair, by the number of its words that are not everyday words."""

_KNOWN_LANGUAGE: Final = 0.3
"""Minimum share of everyday words in a text of a language whose everyday words are known here, which is English."""


@attrs.frozen
class Heard:
    """A message of a conversation, as far as its words may be repeated.

    Attributes:
        text: Its text.
        origin: The source of its words.
        trusted: Whether they are believed. The user's and the assistant's are, unless they are quarantined; others are
            if the program treats them as facts.
    """

    text: str = attrs.field(repr=False)
    origin: Origin
    trusted: bool = attrs.field(kw_only=True)


def repetitions(conversation: Iterable[Heard]) -> dict[int, Origin]:
    """Return the assistant's messages that repeat untrusted words said before, with the origin of the latest of these.

    What such a message says is not trusted either. What the user pastes is not the user's; see `pasted_in`.

    Args:
        conversation: The messages, in order.

    Returns:
        The origins, by the positions of the messages.
    """
    talk = list(conversation)
    if not any(map(_doubted_in, talk)):
        return {}
    listener = Listener()
    origins = ((position, listener.hear(heard)) for position, heard in enumerate(talk))
    return {position: origin for position, origin in origins if origin is not None}


class Listener:
    """A conversation as it was heard so far, with which words that are written next can be compared.

    Args:
        conversation: Its first messages, in order.
    """

    def __init__(self, conversation: Iterable[Heard] = ()) -> None:
        self._trusted, self._untrusted, self._answered = _Units(), _Units(), _Units()
        self._latest = Origin.UNKNOWN
        for heard in conversation:
            self.hear(heard)

    @classmethod
    def of(cls, conversation: Sequence[Heard]) -> Listener | None:
        """Return a listener to a conversation; None if all of it is trusted, so that nothing has to be compared."""
        return cls(conversation) if any(map(_doubted_in, conversation)) else None

    def hear(self, heard: Heard) -> Origin | None:
        """Add a message; return the origin of what it repeats, if it is the assistant's and repeats anything."""
        doubted, own = _parts(heard)
        repeated = None
        if doubted:
            self._latest = heard.origin
        if heard.trusted and heard.origin is Origin.USER:
            self._answered = _Units()
        if not heard.trusted or heard.origin is not Origin.ASSISTANT:
            self._trusted.add(own)
        elif (repeated := self.repeated_in(own)) is not None:
            doubted = own
        else:
            self._trusted.add(own, unless=self._untrusted)
        for units in (self._untrusted, self._answered):
            # A page has some words in common with many a sentence; what repeats it is not compared once more.
            units.add(doubted, whole=repeated is None and len(_stems(doubted)) <= _PAGE)
        return repeated

    def repeated_in(self, text: str) -> Origin | None:
        """Return the origin of the untrusted words that a text repeats, the latest that were heard; None if none."""
        repeats = (
            self._answered.shared(text, beyond=self._trusted) >= self._answered.enough_at_once
            or self._untrusted.shared(text, beyond=self._trusted) >= _ENOUGH
            or self._untrusted.say_most_of(text, beyond=self._trusted)
        )
        return self._latest if repeats else None

    def repeated_as(self, value: str) -> Origin | None:
        """Return the origin of a value that stands in untrusted words, and not in trusted ones; None if it does not.

        All words of a short value count, everyday words too. It may also be a sentence; see `repeated_in`.
        """
        stems = _stems(value)
        short = 0 < len(stems) <= _LONGEST_VALUE
        if short and self._untrusted.hold(stems) and not self._trusted.hold(stems):
            return self._latest
        return self.repeated_in(value)


def _doubted_in(heard: Heard) -> str:
    return _parts(heard)[0]


def _parts(heard: Heard) -> tuple[str, str]:
    """Return the part of a message that is not trusted, and the part that is."""
    if not heard.trusted:
        return heard.text, ""
    return pasted_in(heard.text) if heard.origin is Origin.USER else ("", heard.text)


def _stems(text: str) -> set[str]:
    return {stem for sentence in _sentences(text) for stem, _ in sentence.words}


class _Word(NamedTuple):
    stem: str
    kind: int


@attrs.frozen
class _Sentence:
    """The words of a sentence that may be evidence, in order, and whether everyday words of its language are known."""

    words: Sequence[_Word]
    known: bool

    @functools.cached_property
    def roots(self) -> frozenset[str]:
        """The words without their endings, but for courtesies; none if everyday words of its language are unknown."""
        roots = (_root(stem) for stem, _ in self.words if self.known)
        return frozenset(root for root in roots if root not in _words("courtesies"))


class _Units:
    """The words, pairs and sentences of some texts."""

    def __init__(self) -> None:
        self._kinds: dict[str, int] = {}
        self._pairs: set[tuple[str, str]] = set()
        self._known: set[frozenset[str]] = set()
        self._with_root: dict[str, deque[frozenset[str]]] = {}

    @property
    def enough_at_once(self) -> float:
        """The weight from which on an answer to these words repeats them."""
        return _ENOUGH_OF_A_PAGE if len(self._kinds) > _PAGE else _ENOUGH_AT_ONCE

    def add(self, text: str, *, unless: _Units | None = None, whole: bool = True) -> None:
        """Add the units of a text, except those that others have.

        Args:
            text: The text.
            unless: Others.
            whole: Whether its sentences are compared as a whole, too.
        """
        for sentence in _sentences(text):
            for stem, kind in sentence.words:
                if unless is None or stem not in unless._kinds:
                    self._kinds[stem] = max(kind, self._kinds.get(stem, _EVERYDAY))
            pairs = _pairs(sentence.words)
            self._pairs.update(pair for pair in pairs if unless is None or pair not in unless._pairs)
            if whole and (unless is None or unless._most_shared(sentence.roots) < _FEWEST_OF_IT):
                self._add_sentence(sentence.roots)

    def _add_sentence(self, roots: frozenset[str]) -> None:
        if roots in self._known:
            return
        self._known.add(roots)
        for root in roots:
            self._with_root.setdefault(root, deque(maxlen=_POSTINGS)).append(roots)

    def hold(self, stems: Collection[str]) -> bool:
        """Return whether these texts have all of some words."""
        return all(stem in self._kinds for stem in stems)

    def shared(self, text: str, *, beyond: _Units) -> float:
        """Return the weight of the units that the most similar sentence of a text shares with these, beyond others."""
        return max((self._weight(sentence.words, beyond) for sentence in _sentences(text)), default=0.0)

    def say_most_of(self, text: str, *, beyond: _Units) -> bool:
        """Return whether one of these sentences has most words of a sentence of a text, and more than others have."""
        for sentence in _sentences(text):
            roots = sentence.roots
            alike = self._most_shared(roots)
            if alike >= max(_FEWEST_OF_IT, _MOST_OF_IT * len(roots)) and alike > beyond._most_shared(roots):
                return True
        return False

    def _most_shared(self, roots: frozenset[str]) -> int:
        """Return the number of words that the most similar of these sentences shares with another one."""
        sharing = Counter(shown for root in roots for shown in self._with_root.get(root, ()))
        return max((number for shown, number in sharing.items() if number >= _SOME_OF_IT * len(shown)), default=0)

    def _weight(self, words: Sequence[_Word], beyond: _Units) -> float:
        kinds = dict(words)
        weight = sum(
            _OF_WORDS[min(kind, self._kinds[stem])]
            for stem, kind in kinds.items()
            if stem in self._kinds and stem not in beyond._kinds
        )
        pairs = (pair for pair in set(_pairs(words)) if pair in self._pairs and pair not in beyond._pairs)
        return weight + sum(_OF_PAIRS[sum(kinds[stem] != _EVERYDAY for stem in pair)] for pair in pairs)


def _pairs(words: Sequence[_Word]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of different stems that stand close together, each in alphabetical order."""
    for place, (one, _) in enumerate(words):
        for other, _ in words[place + 1 : place + 1 + _REACH]:
            if one != other:
                yield (one, other) if one < other else (other, one)


_HIDDEN: Final = "Cf"
_THOUSANDS: Final = lazy_pattern(r"(?<=\d)[,.\u202f\u00a0 ](?=\d{3}(?!\d))")
_BETWEEN: Final = lazy_pattern(r"(?<=[.!?…])\s+|[\n。！？]+")
_WORD: Final = lazy_pattern(r"[^\W_]+(?:['’][^\W_]+)*")
_YEAR: Final = lazy_pattern(r"(?:19|20)\d\d")
_UNSPACED: Final = lazy_pattern(r"[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""A letter of a script that writes words without spaces, or joins particles to them."""

_GRAMMAR: Final = lazy_pattern(r"[\u3040-\u309f]{2}")
"""Two letters of hiragana, which mostly writes grammar."""


@forgettable
@functools.lru_cache(_RECENT)
def _sentences(text: str) -> Sequence[_Sentence]:
    """Return the sentences of a text that have words that may be evidence."""
    plain = unicodedata.normalize("NFKC", text)
    if not plain.isascii():
        plain = "".join(char for char in plain if unicodedata.category(char) != _HIDDEN)
    plain = _THOUSANDS.sub("", plain)
    sentences = [[found[0] for found in _WORD.finditer(part)] for part in _BETWEEN.split(plain)]
    sure = _is_known_language(sentences)
    found = []
    for spelled in sentences:
        words = [word for place, item in enumerate(spelled) for word in _words_in(item, first=place == 0)]
        if words and not sure:
            words = [_Word(stem, _doubted(stem, kind)) for stem, kind in words]
        if words:
            found.append(_Sentence(words, sure))
    return found


def _is_known_language(sentences: Sequence[Sequence[str]]) -> bool:
    words = [word.casefold() for sentence in sentences for word in sentence if word.isalpha()]
    known = sum(_is_everyday(word) for word in words if len(word) <= _LONGEST_WORD)
    return known >= _KNOWN_LANGUAGE * len(words)


@forgettable
@functools.lru_cache(_MOST_WORDS)
def _is_everyday(word: str) -> bool:
    return word in _words("function_words") or _stem(word) in _words("everyday_stems")


def _doubted(stem: str, kind: int) -> int:
    """Return the kind of a word of an unknown language: it may be an everyday word, and in capitals for any reason."""
    return max(kind - 1, _EVERYDAY) if stem.isalpha() else kind


def _words_in(spelled: str, *, first: bool) -> Sequence[_Word]:
    return (_read_once if len(spelled) <= _LONGEST_WORD else _read)(spelled, first=first)


def _read(spelled: str, *, first: bool) -> Sequence[_Word]:
    """Return what a word counts as, if it may be evidence.

    Args:
        spelled: The word, as it is spelled.
        first: Whether it begins a sentence, where a capital letter says nothing.
    """
    if _UNSPACED.search(spelled):
        pairs = (spelled[at : at + 2] for at in range(len(spelled) - 1))
        return [_Word(pair, _RARE) for pair in pairs if not _GRAMMAR.match(pair)]
    folded = spelled.casefold().replace("’", "'")
    base = folded.partition("'")[0]
    if base in _words("function_words") or folded.endswith("n't"):
        return []
    stem = _stem(base)
    return [_Word(stem, _kind(spelled, stem, first=first))]


_read_once: Final = forgettable(functools.lru_cache(_MOST_WORDS)(_read))


def _stem(folded: str) -> str:
    if (number := _words("numbers").get(folded)) is not None:
        return str(number)
    if not folded.isalpha():
        return folded
    plural = len(folded) > 3 and folded.endswith("s") and not folded.endswith("ss")
    return (folded[:-1] if plural else folded)[:_LONGEST_STEM]


def _root(stem: str) -> str:
    """Return a stem without an ending, so that "calls", "called" and "calling" are one word."""
    ending = next((end for end in _ENDINGS if stem.endswith(end) and len(stem) > len(end) + 2), "")
    return stem.removesuffix(ending)[:_LONGEST_ROOT]


def _kind(spelled: str, stem: str, *, first: bool) -> int:
    digits = sum(map(str.isdigit, stem))
    if digits:
        telling = digits >= 3 or (len(stem) >= 4 and digits < len(stem))
        return _NAME if telling and not _YEAR.fullmatch(stem) else _RARE if len(stem) > 1 else _EVERYDAY
    if len(stem) < 3 or stem in _words("everyday_stems"):
        return _EVERYDAY
    shouted = len(spelled) > 3 and spelled.isupper()
    return _NAME if shouted or (spelled[0].isupper() and not first) else _RARE


_FENCED: Final = lazy_pattern(r"^[ \t]*(```+|~~~+)")
_QUOTED: Final = lazy_pattern(r"^[ \t]*(?:>|&gt;)")
_OPENED: Final = lazy_pattern(r"^[ \t]*<([a-z][a-z_-]{2,30})\b[^<>\n]*>", re.IGNORECASE)
_INTRODUCED: Final = lazy_pattern(
    r"\b(?:page|article|e-?mail|mail|document|doc|file|post|web ?site|site|text|letter|log|output|readme|review|"
    r"thread|blog|report|transcript|snippet|result|message|below|following|pasted?|says|wrote)\b[^.!?\n]{0,40}:\s*$",
    re.IGNORECASE,
)


def pasted_in(text: str) -> tuple[str, str]:
    """Return what a user pasted into a message, and the rest of it.

    Pasted are fenced blocks, quoted lines (``>``), elements on lines of their own (``<page>`` to ``</page>``), and all
    that follows a line such as "This is what the page says:".

    Args:
        text: The message.
    """
    pasted: list[str] = []
    own: list[str] = []
    end: str | None = None
    for line in text.splitlines():
        if end is not None:
            pasted.append(line)
            end = None if end and line.strip().casefold().startswith(end) else end
        elif _QUOTED.match(line):
            pasted.append(line)
        elif fence := _FENCED.match(line):
            end = fence[1]
        elif opened := _OPENED.match(line):
            pasted.append(line)
            closing = f"</{opened[1].casefold()}"
            end = None if closing in line.casefold() else closing
        else:
            own.append(line)
            end = "" if _INTRODUCED.search(line) else None
    return "\n".join(pasted), "\n".join(own)


@functools.cache
def _words(name: str) -> Mapping[str, int]:
    """Return the words of a list of ``everyday.toml``, with their places in it."""
    return {word: place for place, word in enumerate(table("memory/everyday")[name].split())}
