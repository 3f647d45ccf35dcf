"""The four verbs in terms of `append` and `entries`, for every provider that keeps history."""

from __future__ import annotations

import abc
import unicodedata
from collections.abc import Sequence
from typing import Any

import attrs
from typing_extensions import override

from factmem.abc import system_clock
from factmem.abc.capabilities import Append, Receipt, Statement
from factmem.abc.clock import Clock
from factmem.abc.provider import AgentMemoryProvider
from factmem.errors import InvalidDataError
from factmem.facts import Concept, Fact, FactT
from factmem.fold import Current, Moment, fold
from factmem.providers.write_plans import check_readable
from factmem.records import LogEntry, Place, Recorded, assertions_of, record_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject


class HistoryProvider(AgentMemoryProvider):
    """A provider whose four verbs are built on `append` and `entries`, which a subclass implements; see `KeepsLog`.

    Args:
        clock: Gives the time of recording, and decides what has expired.
    """

    def __init__(self, *, clock: Clock = system_clock) -> None:
        if not callable(clock):  # an address can bring any text as an option
            raise InvalidDataError("clock must be a function that gives the present", path="$.clock")
        self._clock = clock

    @abc.abstractmethod
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        """See `KeepsLog.append`."""

    @abc.abstractmethod
    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        """See `KeepsLog.entries`."""

    @override
    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        place = Place(subject, scope)
        await self.append([Append(assertion=assertion) for assertion in assertions_of(fact, place)])

    @override
    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        current = await self._current(Place(subject, scope), concept.keyword)
        return fact_of(concept, current) if current else None

    @override
    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        return [_fact(items) for items in _by_keyword(await self._current(Place(subject, scope)))]

    @override
    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> Sequence[Fact[Any]]:
        wanted = _comparable(description)
        if not wanted:
            raise InvalidDataError("the text to look for is empty; use load_all to read everything")

        # By the concept as it is shown: what was once said under other descriptions is of the same fact.
        def matches(items: Sequence[Current]) -> bool:
            shown = items[-1].recorded.assertion
            return wanted in _comparable(shown.description) or wanted in _comparable(shown.keyword)

        return [_fact(items) for items in _by_keyword(await self._current(Place(subject, scope))) if matches(items)]

    async def _current(self, place: Place, keyword: str | None = None) -> list[Current]:
        log = await self.entries(place, keyword)
        public = [item for item in log if not isinstance(item, Recorded) or item.assertion.details.owner is None]
        return fold(public, Moment(now=self._clock()))


def fact_of(concept: Concept[Any, FactT], current: Sequence[Current]) -> FactT:
    """Read the current values of one track as a fact of a declared concept.

    Raises:
        ConceptConflictError: They cannot be read as this concept's type.
    """
    said = [item.recorded.assertion for item in current]
    for assertion in said:
        check_readable(assertion, concept)
    only = said[0] if len(said) == 1 else None
    return concept.fact(
        [record_of(item.recorded, concept).value for item in current],
        timestamp=max(assertion.timestamp for assertion in said),
        valid_from=only.valid_from if only else None,
        valid_to=only.valid_to if only else None,
    )


def _by_keyword(current: Sequence[Current]) -> list[list[Current]]:
    tracks: dict[str, list[Current]] = {}
    for item in current:
        tracks.setdefault(item.recorded.assertion.keyword, []).append(item)
    return list(tracks.values())


def _fact(items: Sequence[Current]) -> Fact[Any]:
    fact: Fact[Any] = fact_of(_concept_as_stored(items), items)
    return fact


def _concept_as_stored(items: Sequence[Current]) -> Concept[Any, Any]:
    """The concept by the shape it is stored in; values of several shapes read as JSON."""
    concept: Concept[Any, Any] = record_of(items[-1].recorded).concept
    shape = items[-1].recorded.assertion.shape
    same = all(item.recorded.assertion.shape == shape for item in items)
    return concept if same else attrs.evolve(concept, value_type=object)


def _comparable(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()
