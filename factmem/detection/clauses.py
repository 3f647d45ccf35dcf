"""Clauses: the part of a sentence that bears on something mentioned in it.

A clause ends at a comma, a colon, a bracket, a dash, at "but" and its kin, and at "and" before a new subject.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from factmem.detection.passages import STOPS, Passage, word_set
from factmem.detection.stances import Leaning

__all__ = ["FAR", "INVERTED", "OWN", "REPORTS", "SUBJECTS", "Clause", "by_first", "phrases_in", "starts_of"]

SUBJECTS: Final = word_set(
    "i we he she they it you who i'm i've i'd i'll we're we've we'd we'll he's she's it's they're"
)
OWN: Final = word_set("my our mine ours")
INVERTED: Final = word_set(
    "do does did am is are was were should could can would will have has had shall don't isn't aren't"
)
REPORTS: Final = word_set(
    "says said say wrote writes write claims reads read states stated told replied goes texted mailed asked asks"
)
_BREAKS: Final = word_set(
    "but however although though while whereas because since yet so which despite plus hence therefore"
) | frozenset(',;:()–—-[]…|/"“”')
FAR: Final = 40
"""Maximum number of words between a mention and what bears on it."""


def phrases_in(texts: Sequence[str], phrases: Iterable[str]) -> set[int]:
    """Return the positions that belong to one of some phrases."""
    found: set[int] = set()
    for phrase, at in starts_of(texts, by_first(tuple(phrases))):
        found.update(range(at, at + len(phrase)))
    return found


def starts_of(texts: Sequence[str], phrases: dict[str, list[list[str]]]) -> Iterator[tuple[list[str], int]]:
    """Yield the phrases that some words hold, each with its position. `by_first` makes the table."""
    for at, text in enumerate(texts):
        yield from ((phrase, at) for phrase in phrases.get(text, ()) if texts[at : at + len(phrase)] == phrase)


@functools.lru_cache(maxsize=32)
def by_first(phrases: tuple[str, ...]) -> dict[str, list[list[str]]]:
    """Return the words of some phrases by the first of them."""
    grouped: dict[str, list[list[str]]] = {}
    for phrase in phrases:
        grouped.setdefault(phrase.split()[0], []).append(phrase.split())
    return grouped


@attrs.frozen
class Clause:
    """The clause of a mention.

    Attributes:
        passage: the passage that holds it.
        first: position of the first word mentioned.
        last: position of the last word mentioned.
        leaning: the leaning of the concept.
    """

    passage: Passage
    first: int
    last: int
    leaning: Leaning

    def text(self, at: int) -> str:
        """Return the word at a position; an empty text outside of the passage."""
        return self.passage.words[at].text if 0 <= at < len(self.passage.words) else ""

    def texts(self, first: int, last: int) -> list[str]:
        """Return the words from one position to the one before another."""
        return [word.text for word in self.passage.words[max(0, first) : max(0, last)]]

    def breaks(self, at: int) -> bool:
        """Return whether a clause ends before or at the word at a position."""
        text = self.text(at)
        if text == "\n":
            following = self.passage.words[at + 1] if at + 1 < len(self.passage.words) else None
            return following is None or following.is_name or not following.text[:1].isalpha()
        if text == "instead":
            return self.text(at + 1) != "of"
        if text == "but" and self.text(at - 1) in ("anything", "nothing", "all", "everything", "none", "anywhere"):
            return False
        if text in _BREAKS or text in STOPS:
            return not self.passage.is_within_word(at)
        return text in ("and", "then") and self.text(at + 1) in SUBJECTS | OWN

    @functools.cached_property
    def start(self) -> int:
        """The position of the first word of the clause."""
        at = self.first
        while at > max(0, self.first - FAR) and not self.breaks(at - 1):
            at -= 1
        return at

    @functools.cached_property
    def end(self) -> int:
        """The position behind the clause."""
        at = self.last + 1
        while at < min(len(self.passage.words), self.last + FAR) and not self.breaks(at):
            at += 1
        return at

    @functools.cached_property
    def sentence(self) -> tuple[int, int]:
        """The positions of the first word of the sentence and of its last mark."""
        stops = self.passage.stops
        before, behind = bisect.bisect_left(stops, self.first), bisect.bisect_right(stops, self.last)
        first = stops[before - 1] + 1 if before else 0
        return first, stops[behind] if behind < len(stops) else len(self.passage.words)

    def lacks_subject(self, at: int) -> bool:
        """Return whether no subject stands between a position and the mention."""
        return not set(self.texts(at, self.first)) & (SUBJECTS | OWN)
