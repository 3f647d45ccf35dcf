"""The stores that tests of memories run over, and a third-party provider: four verbs over a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from factmem import AgentMemoryProvider, Concept, Fact, MemoryScope, MemorySubject, MultipleFacts
from factmem.facts import FactT


def two_of(stores: Iterable[str]) -> list[Any]:
    """Return stores as parameters of tests: the one in memory and the default one run always, others with ``--big``.

    The log of the first is mirrored whole, that of the second in outline. What else a store may do differently is
    tested over all of them by the conformance kit and by the models.
    """
    usual = ("memory", "sqlite-vec")
    return [pytest.param(name, marks=() if name in usual else pytest.mark.big) for name in stores]


class Shelf(AgentMemoryProvider):
    """Four verbs: the newest value, or the union of all values.

    Args:
        key: returns the part of a key that represents the scope.
    """

    def __init__(self, key: Callable[[MemoryScope], object] = str) -> None:
        self._key = key
        self.facts: dict[tuple[object, ...], dict[str, Fact[Any]]] = {}

    def _at(self, subject: MemorySubject, scope: MemoryScope) -> dict[str, Fact[Any]]:
        return self.facts.setdefault((subject.key, self._key(scope)), {})

    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        here, keyword = self._at(subject, scope), fact.concept.keyword
        known = here.get(keyword)
        if known is None:
            here[keyword] = fact
        elif isinstance(fact, MultipleFacts):
            here[keyword] = fact.concept.fact(
                list(dict.fromkeys((*known.values, *fact.values))), timestamp=max(known.timestamp, fact.timestamp)
            )
        elif fact.timestamp >= known.timestamp:
            here[keyword] = fact

    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        fact = self._at(subject, scope).get(concept.keyword)
        return concept.fact(list(fact.values), timestamp=fact.timestamp) if fact else None

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        return list(self._at(subject, scope).values())

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> Sequence[Fact[Any]]:
        return [fact for fact in await self.load_all(subject, scope) if description in fact.concept.description]
