"""The four verbs, written once for every provider that keeps history."""

from __future__ import annotations

import abc
import unicodedata
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from factmem.abc import AgentMemoryProvider, Append, Clock, Receipt, Statement, system_clock
from factmem.errors import ConceptConflictError, InvalidDataError
from factmem.facts import Concept, Fact, FactT, FactType
from factmem.fold import Current, Moment, fold
from factmem.records import Assertion, LogEntry, Place, Recorded, assertions_of, record_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Shape, accepts

__all__ = ["LedgerProvider", "TrackIndex", "check_readable", "check_writable", "fact_of", "new_id"]


def new_id() -> str:
    """Return a fresh random id for an assertion or a record."""
    return uuid.uuid4().hex


class LedgerProvider(AgentMemoryProvider):
    """A provider whose four verbs follow from `append` and `entries`.

    A subclass writes `append` and `entries` as `factmem.abc.KeepsHistory` has them.

    Args:
        clock: gives the time of recording, and decides what has expired.
    """

    def __init__(self, *, clock: Clock = system_clock) -> None:
        if not callable(clock):  # an address can bring any text as an option
            raise InvalidDataError("clock must be a function that gives the present", path="$.clock")
        self._clock = clock

    @abc.abstractmethod
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        """See `factmem.abc.KeepsHistory.append`."""

    @abc.abstractmethod
    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        """See `factmem.abc.KeepsHistory.entries`."""

    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        """See `AgentMemoryProvider.save`."""
        place = Place(subject, scope)
        await self.append([Append(assertion=assertion) for assertion in assertions_of(fact, place)])

    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        """See `AgentMemoryProvider.load`."""
        current = await self._current(Place(subject, scope), concept.keyword)
        return fact_of(concept, current) if current else None

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        """See `AgentMemoryProvider.load_all`."""
        return _facts(await self._current(Place(subject, scope)))

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> Sequence[Fact[Any]]:
        """See `AgentMemoryProvider.load_by_description`."""
        wanted = _comparable(description)
        if not wanted:
            raise InvalidDataError("the text to look for is empty; use load_all to read everything")

        def matches(said: Assertion) -> bool:
            return wanted in _comparable(said.description) or wanted in _comparable(said.keyword)

        current = await self._current(Place(subject, scope))
        return _facts([item for item in current if matches(item.recorded.assertion)])

    async def _current(self, place: Place, keyword: str | None = None) -> list[Current]:
        log = await self.entries(place, keyword)
        public = [item for item in log if not isinstance(item, Recorded) or item.assertion.details.owner is None]
        return fold(public, Moment(now=self._clock()))


def fact_of(concept: Concept[Any, FactT], current: Sequence[Current]) -> FactT:
    """Read the current values of one track as a fact of a declared concept.

    Raises:
        ConceptConflictError: they cannot be read as this concept's type.
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


def _facts(current: Sequence[Current]) -> list[Fact[Any]]:
    tracks: dict[str, list[Current]] = {}
    for item in current:
        tracks.setdefault(item.recorded.assertion.keyword, []).append(item)
    return [fact_of(_concept_as_stored(items), items) for items in tracks.values()]


def _concept_as_stored(items: Sequence[Current]) -> Concept[Any, Any]:
    """The concept by the shape it is stored in; values of several shapes read as JSON."""
    concept: Concept[Any, Any] = record_of(items[-1].recorded).concept
    shape = items[-1].recorded.assertion.shape
    same = all(item.recorded.assertion.shape == shape for item in items)
    return concept if same else attrs.evolve(concept, value_type=object)


def _comparable(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()


def check_readable(stored: Assertion, concept: Concept[Any, Any]) -> None:
    """Raise unless a stored value can be read as a concept's type.

    Raises:
        ConceptConflictError: naming both types.
    """
    if stored.fact_type is not concept.fact_type:
        raise _conflict(stored, stored.fact_type, concept.fact_type)
    if not accepts(stored.shape, concept.shape):
        raise _conflict(stored, stored.shape, concept.shape)


def check_writable(new: Assertion, fact_type: FactType, shapes: Sequence[Shape]) -> None:
    """Raise unless a track that holds these types can take a new assertion, and be read as its type.

    Raises:
        ConceptConflictError: naming both types.
    """
    if new.fact_type is not fact_type:
        raise _conflict(new, fact_type, new.fact_type)
    for shape in shapes:
        if shape != new.shape and not (accepts(shape, new.shape) and new.shape != "json"):
            raise _conflict(new, shape, new.shape)


def _conflict(said: Assertion, stored: Shape | FactType, wanted: Shape | FactType) -> ConceptConflictError:
    names = [item.name if isinstance(item, FactType) else repr(item) for item in (stored, wanted)]
    return ConceptConflictError(
        f"{said.place} holds the concept {said.keyword!r} as {names[0]}, not as {names[1]}: "
        "use the same type, another keyword, or forget what is there first"
    )


@attrs.define
class TrackIndex:
    """What `append` must know of a log, kept in memory: who said what before, record ids, types.

    For providers without an index of their own. Feed it every entry of the log, in order.
    """

    _recorded: dict[bytes, Recorded] = attrs.field(factory=dict)
    _record_ids: dict[tuple[object, ...], str] = attrs.field(factory=dict)
    _slots: dict[str, tuple[object, ...]] = attrs.field(factory=dict)
    _types: dict[tuple[object, ...], tuple[FactType, list[Shape]]] = attrs.field(factory=dict)

    def known(self, assertion: Assertion) -> Recorded | None:
        """Return the very same assertion if it was recorded before.

        Raises:
            ConceptConflictError: it cannot join its track.
        """
        if (known := self._recorded.get(assertion.fingerprint)) is not None:
            return known
        if assertion.track in self._types:
            check_writable(assertion, *self._types[assertion.track])
        return None

    def record(self, assertion: Assertion, seq: int, clock: Clock, ids: Callable[[], str] = new_id) -> Recorded:
        """Give a new assertion its ids, number and time, and take it in."""
        record_id = assertion.revises or self._record_ids.get((*assertion.track, assertion.slot)) or ids()
        recorded = Recorded(assertion=assertion, id=ids(), record_id=record_id, seq=seq, recorded_at=clock())
        self.add(recorded)
        return recorded

    def add(self, recorded: Recorded) -> None:
        """Take in an entry of the log."""
        said = recorded.assertion
        key = (*said.track, said.slot)
        self._recorded[said.fingerprint] = recorded
        before = self._slots.get(recorded.record_id)
        if before is not None and before != key and self._record_ids.get(before) == recorded.record_id:
            del self._record_ids[before]
        self._slots[recorded.record_id] = key
        self._record_ids[key] = recorded.record_id
        _, shapes = self._types.setdefault(said.track, (said.fact_type, []))
        if said.shape not in shapes:
            shapes.append(said.shape)
