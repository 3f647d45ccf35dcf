"""The writing half of the facade: what changes what is known."""

from __future__ import annotations

import abc
import datetime as dt
import enum
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import attrs
from anyio import to_thread

from factmem.abc import (
    AgentMemoryProvider,
    Append,
    Candidate,
    Conversation,
    DetectionRequest,
    Detector,
    Embedder,
    KeepsHistory,
    Message,
    Statement,
    StateRequest,
)
from factmem.errors import CapabilityError, EmbedderError, InvalidDataError, ReadOnlyError, RecordNotFoundError
from factmem.facts import Fact
from factmem.fold import states_of
from factmem.memory.expiry import TtlOperation, TtlPolicy, after, expires_at
from factmem.memory.reading import MemoryReader, Reading
from factmem.recall import Mirror, RecallFilter, embedded, hydrate, indexed_text
from factmem.records import (
    Assertion,
    AssertionState,
    Change,
    ChangeKind,
    FactDetails,
    FactRecord,
    Place,
    Recorded,
    assertions_of,
    record_of,
)
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json

__all__ = ["FuturePolicy", "MemoryWriter", "Writing"]

T = TypeVar("T")
_log = logging.getLogger("factmem")


class FuturePolicy(enum.Enum):
    """What happens to a fact whose timestamp lies in the future by more than the clock skew."""

    REFUSE = "refuse"
    HOLD = "hold"


@attrs.frozen(kw_only=True)
class Writing:
    """How a writer changes the store.

    Attributes:
        provider: the store.
        detector: takes facts from what is remembered.
        read_only: refuse every write.
        future: what to do with timestamps from the future.
        clock_skew: how far into the future a timestamp may lie.
        ttl: how long memories last.
    """

    provider: AgentMemoryProvider
    detector: Detector
    read_only: bool
    future: FuturePolicy
    clock_skew: dt.timedelta
    ttl: TtlPolicy


class MemoryWriter(MemoryReader, abc.ABC):
    """Everything that changes what is known, erasing apart. Each raises `ReadOnlyError` on a read-only memory."""

    def __init__(self, reading: Reading, writing: Writing, mirror: Mirror, embedder: Embedder) -> None:
        super().__init__(reading, mirror, embedder)
        self._writing = writing

    async def save(
        self,
        fact: Fact[T],
        *,
        subject: MemorySubject = MemorySubject.EVERYTHING,
        scope: MemoryScope | str = MemoryScope.CROSS_PRODUCT,
        details: FactDetails | None = None,
        private: bool = False,
        ttl: dt.timedelta | None = None,
    ) -> tuple[FactRecord[T], ...]:
        """Keep a fact; when this returns, it is on disk. The same fact again, with its timestamp, changes nothing.

        Args:
            fact: the fact.
            subject: whom it is about.
            scope: where it holds.
            details: importance, categories, evidence, origin and so on.
            private: keep it for this memory's viewer alone.
            ttl: how long it lasts from now on; else as the details or this memory's `TtlPolicy` say.

        Returns:
            A record for each value, as it stands in the store.

        Raises:
            ConceptConflictError: the place holds another type under this keyword.
            InvalidDataError: the timestamp lies in the future, or both an expiry and a ttl are given.
            CapabilityError: the provider has the four verbs only and cannot keep these details.
            ReadOnlyError: this memory is read-only.
        """
        self._check_writable()
        place = Place(subject, self._scope(scope))
        details = self._lasting(self._owned_details(details or FactDetails(), private=private), ttl)
        if not isinstance(self._writing.provider, KeepsHistory):
            return await self._save_through_the_waist(self._dated(fact), place, details)
        recorded = await self._append(assertions_of(self._dated(fact), place, details))
        return tuple(record_of(item, fact.concept) for item in recorded)

    async def remember(
        self,
        what: str | Message | Conversation,
        *,
        subject: MemorySubject = MemorySubject.EVERYTHING,
        scope: MemoryScope | str = MemoryScope.CROSS_PRODUCT,
        importance: float = 0.5,
        categories: Sequence[str] = (),
        source: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        expires_at: dt.datetime | None = None,
        private: bool = False,
    ) -> tuple[FactRecord[Any], ...]:
        """Keep what was said, as the detector finds it; without a model: word for word, secrets redacted.

        A conversation remembered twice is there once. Words of a tool, a document or an unknown
        origin are quarantined: kept, but neither loaded nor recalled until they are let in.

        Args:
            what: a text (said by the user, now), a message or a whole conversation.
            subject: whom it is about.
            scope: where it holds.
            importance: from 0 to 1.
            categories: labels.
            source: where it came from.
            metadata: anything else, as JSON.
            expires_at: from when on it is forgotten.
            private: keep it for this memory's viewer alone.

        Returns:
            A record for each fact found, as it stands in the store; none if there was nothing to remember.

        Raises:
            CapabilityError: the provider has the four verbs only and cannot keep evidence.
            ReadOnlyError: this memory is read-only.
        """
        self._check_writable()
        place = Place(subject, self._scope(scope))
        given = FactDetails(
            importance=importance,
            categories=tuple(categories),
            source=source,
            metadata=metadata or {},
            expires_at=expires_at,
        )
        given = self._owned_details(given, private=private)
        request = DetectionRequest(subjects=(subject,))
        found = await self._writing.detector.detect(_conversation(what, self._reading.clock()), request)
        assertions = await to_thread.run_sync(self._assertions, found.candidates, place, given)
        recorded = await self._append(assertions)
        return await to_thread.run_sync(lambda: tuple(record_of(item, state=item.assertion.state) for item in recorded))

    def _assertions(self, candidates: Sequence[Candidate], place: Place, given: FactDetails) -> list[Assertion]:
        return [
            assertion
            for candidate in candidates
            for assertion in assertions_of(self._dated(candidate.fact), place, _joined(given, candidate.details))
        ]

    async def retract(self, *record_ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Take records back: they are neither loaded nor recalled any more, and `restore` brings them back.

        Args:
            record_ids: which.
            reason: why, for the audit trail.

        Raises:
            RecordNotFoundError: an id names no record that is current and visible; none was retracted.
        """
        self._check_writable()
        records = [await self.get(record_id) for record_id in dict.fromkeys(record_ids)]
        await self._change_states(
            {record.id for record in records}, AssertionState.ACTIVE, AssertionState.RETRACTED, reason
        )
        return tuple(Change(kind=ChangeKind.DELETED, record=record) for record in records)

    async def restore(self, *record_ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Bring retracted records back.

        Raises:
            RecordNotFoundError: an id names no visible record with anything retracted; none was restored.
        """
        self._check_writable()
        wanted = set(record_ids)
        await self._change_states(wanted, AssertionState.RETRACTED, AssertionState.ACTIVE, reason)
        return tuple([Change(kind=ChangeKind.CREATED, record=await self.get(record_id)) for record_id in record_ids])

    def _check_writable(self) -> None:
        if self._writing.read_only:
            raise ReadOnlyError("this memory was opened read-only: open it without read_only=True to write")

    def _scope(self, scope: MemoryScope | str) -> MemoryScope:
        anchored = self._reading.anchored(scope)
        assert anchored is not None
        return anchored

    def _owned_details(self, details: FactDetails, *, private: bool) -> FactDetails:
        if private:
            if self._reading.viewer is None:
                raise InvalidDataError("a private fact needs an owner: open the memory with viewer=")
            details = attrs.evolve(details, owner=self._reading.viewer)
        if details.owner not in (None, self._reading.viewer):
            raise InvalidDataError("only the viewer's own private facts can be written: use as_viewer()")
        return details

    def _lasting(self, details: FactDetails, ttl: dt.timedelta | None = None) -> FactDetails:
        """Set when what is created now expires."""
        now = self._reading.clock()
        if ttl is not None:
            if details.expires_at is not None:
                raise InvalidDataError("give an expiry or a ttl, not both", path="$.ttl")
            return attrs.evolve(details, expires_at=after(now, ttl))
        expiry = expires_at(self._writing.ttl, TtlOperation.CREATE, now, details.expires_at)
        return attrs.evolve(details, expires_at=expiry)

    def _dated(self, fact: Fact[T]) -> Fact[T]:
        now = self._reading.clock()
        if fact.timestamp <= now + self._writing.clock_skew:
            return fact
        if self._writing.future is FuturePolicy.HOLD:
            return attrs.evolve(fact, timestamp=now)
        raise InvalidDataError(
            "the fact's timestamp lies in the future: correct it, or open the memory with future=FuturePolicy.HOLD",
            path="$.timestamp",
        )

    async def _save_through_the_waist(
        self, fact: Fact[T], place: Place, details: FactDetails
    ) -> tuple[FactRecord[T], ...]:
        if details != FactDetails():
            raise CapabilityError(
                f"{type(self._writing.provider).__name__} has the four verbs only and cannot keep owner, evidence, "
                "importance or other details: save without details, or use a provider that keeps history"
            )
        await self._writing.provider.save(fact, place.subject, place.scope)
        wanted = RecallFilter(subject=place.subject, scope=place.scope, exact=True, keywords=(fact.concept.keyword,))
        return tuple(hydrate(row, {fact.concept.keyword: fact.concept}) for row in await self._visible(wanted))

    async def _append(self, assertions: Sequence[Assertion]) -> list[Recorded]:
        if not assertions:
            return []
        store = self._history()
        vectors = await self._vectors(assertions)
        statements = [
            Append(assertion=assertion, vector=vector) for assertion, vector in zip(assertions, vectors, strict=True)
        ]
        return [receipt.recorded for receipt in await store.append(statements)]

    async def _vectors(self, assertions: Sequence[Assertion]) -> Sequence[Any]:
        """Embed what is about to be kept; a failing embedder must not lose a fact, so that comes later then."""
        await self._mirror.bind()
        try:
            return await embedded(self._embedder, [indexed_text(assertion) for assertion in assertions])
        except EmbedderError as error:
            _log.warning("the embedder failed; %d facts are kept without vectors for now: %s", len(assertions), error)
            return [None] * len(assertions)

    async def _change_states(
        self, record_ids: Collection[str], before: AssertionState, after: AssertionState, reason: str | None
    ) -> None:
        store = self._history()
        log = await self._visible_log()
        states = states_of(await self._mirror.log())
        meant = [entry for entry in log if entry.record_id in record_ids and states.get(entry.id) is before]
        if missing := set(record_ids) - {entry.record_id for entry in meant}:
            raise RecordNotFoundError(f"{len(missing)} of the ids name no visible record that is {before.value}")
        statements: list[Statement] = [
            StateRequest(assertion_id=entry.id, state=after, reason=reason) for entry in meant
        ]
        await store.append(statements)

    def _history(self) -> KeepsHistory:
        if not isinstance(self._writing.provider, KeepsHistory):
            name = type(self._writing.provider).__name__
            raise CapabilityError(f"{name} has the four verbs only: it keeps no evidence, states or history")
        return self._writing.provider

    async def _visible_log(self) -> list[Recorded]:
        viewer = self._reading.viewer
        return [
            entry
            for entry in await self._mirror.log()
            if isinstance(entry, Recorded) and entry.assertion.details.owner in (None, viewer)
        ]


def _joined(given: FactDetails, found: FactDetails) -> FactDetails:
    """What the caller gave stands; evidence, origin and topics are the detector's."""
    return attrs.evolve(given, evidence=found.evidence, origin=found.origin, topics=found.topics)


def _conversation(what: str | Message | Conversation, now: dt.datetime) -> Conversation:
    match what:
        case Conversation():
            return what
        case Message():
            return Conversation(messages=(what,), started_at=what.timestamp or now)
        case str():
            if not what.strip():
                raise InvalidDataError("there is nothing to remember in a blank text")
            return Conversation(messages=(Message(content=what, timestamp=now),), started_at=now)
        case _:
            raise InvalidDataError(f"cannot remember a {type(what).__name__}: give a text, a Message or a Conversation")
