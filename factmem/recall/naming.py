"""Which concepts a query names: those whose keywords it holds, word by word."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from factmem.facts import STATEMENT
from factmem.recall.analysis import analyse, spaced
from factmem.recall.outlines import term_numbers

__all__ = ["ConceptNames"]


class ConceptNames:
    """The words of keywords, learnt as they come; of statements, which are of no concept, none."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._terms: list[frozenset[int]] = []
        self._holding: dict[int, list[int]] = {}

    def named(self, keywords: Sequence[str], terms: Collection[int]) -> dict[int, frozenset[int]]:
        """Return the places of the keywords all of whose words are among some terms, with these words.

        Args:
            keywords: all there are; those of the last time, and more.
            terms: what is asked for; see `factmem.recall.outlines.term_numbers`.
        """
        with self._guard:
            for place in range(len(self._terms), len(keywords)):
                self._learn(keywords[place], place)
        asked = set(terms)
        near = {place for term in asked for place in self._holding.get(term, ())}
        return {place: self._terms[place] for place in sorted(near) if self._terms[place] <= asked}

    def _learn(self, keyword: str, place: int) -> None:
        words = frozenset(term_numbers(_words(keyword)))
        self._terms.append(words)
        for word in words:
            self._holding.setdefault(word, []).append(place)


def _words(keyword: str) -> list[str]:
    """Return the words that name a concept: none where one word is left of several, as "call" is of "on_call"."""
    if keyword == STATEMENT.keyword:
        return []
    words = analyse(spaced(keyword))
    return words if len(words) > 1 or len(spaced(keyword).split()) == 1 else []
