"""The writing half of the facade: what changes what is known."""

from __future__ import annotations

import abc
import datetime as dt
import enum
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeVar

import attrs
from anyio import to_thread

from factmem.abc import (
    AgentMemoryProvider,
    Analyst,
    Append,
    Consolidator,
    Detector,
    Embedder,
    KeepsHistory,
    Operation,
    Receipt,
    Statement,
    StateRequest,
)
from factmem.consolidation import ConsolidationPolicy
from factmem.detection import OriginPolicy
from factmem.errors import (
    CapabilityError,
    EmbedderError,
    InvalidDataError,
    OutOfViewError,
    ReadOnlyError,
    RecordNotFoundError,
)
from factmem.facts import Fact, MultipleFacts, SingleFact
from factmem.fold import states_of
from factmem.memory.expiry import TtlOperation, TtlPolicy, after, expires_at
from factmem.memory.observed import observed
from factmem.memory.reading import MemoryReader
from factmem.memory.screening import FlaggedPolicy, Screening
from factmem.memory.viewing import Reading
from factmem.observing import nested
from factmem.recall import LogPart, Mirror, RecallFilter, embedded, hydrate, indexed_text
from factmem.records import (
    Assertion,
    AssertionState,
    Change,
    ChangeKind,
    FactDetails,
    FactRecord,
    LogEntry,
    Place,
    Recorded,
    assertions_of,
    record_of,
)
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["FuturePolicy", "MemoryWriter", "Writing"]

T = TypeVar("T")
_log = logging.getLogger("factmem")


_COUNTING: Final = (AssertionState.ACTIVE, AssertionState.PENDING, AssertionState.FAILED)


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
        analyst: says what texts are about; None to ask nobody.
        consolidator: says what new statements do to similar ones; None to ask nobody.
        consolidation: how they are compared.
        keep_words: keep the user's words beside the facts that were found in them.
        origins: treatment of messages by their origin.
        concurrency: how many questions are asked at a time.
        read_only: refuse every write.
        future: what to do with timestamps from the future.
        clock_skew: how far into the future a timestamp may lie.
        ttl: how long memories last.
        flagged: what becomes of what reads like an instruction.
        actor: who writes, for the audit trail; the viewer, if None.
    """

    provider: AgentMemoryProvider
    detector: Detector
    analyst: Analyst | None
    consolidator: Consolidator | None
    consolidation: ConsolidationPolicy
    keep_words: bool
    origins: OriginPolicy
    concurrency: int
    read_only: bool
    future: FuturePolicy
    clock_skew: dt.timedelta
    ttl: TtlPolicy
    flagged: FlaggedPolicy = FlaggedPolicy.QUARANTINE_OTHERS
    actor: str | None = None


@observed()
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
        scope: MemoryScope | str | None = None,
        details: FactDetails | None = None,
        private: bool = False,
        ttl: dt.timedelta | None = None,
    ) -> tuple[FactRecord[T], ...]:
        """Keep a fact; when this returns, it is on disk. The same fact again, with its timestamp, changes nothing.

        Args:
            fact: the fact.
            subject: whom it is about.
            scope: where it holds; everywhere (`MemoryScope.CROSS_PRODUCT`) if None, in a view all over the view.
            details: importance, categories, evidence, origin and so on.
            private: keep it for this memory's viewer alone.
            ttl: how long it lasts from now on; else as the details or this memory's `TtlPolicy` say.

        Returns:
            A record for each value, as it stands in the store.

        Raises:
            ConceptConflictError: the place holds another type under this keyword.
            InvalidDataError: it is no fact, its timestamp lies in the future, or both an expiry and a ttl are given.
            CapabilityError: the provider has the four verbs only and cannot keep these details.
            ReadOnlyError: this memory is read-only.
        """
        self._check_writable()
        if not isinstance(fact, SingleFact | MultipleFacts):
            raise InvalidDataError(
                f"save takes a SingleFact or MultipleFacts, not a {type(fact).__name__}: for words there is remember()"
            )
        place = Place(subject, self._scope(scope))
        details = self._lasting(self._owned_details(details or FactDetails(), private=private), ttl)
        if not isinstance(self._writing.provider, KeepsHistory):
            return await self._save_through_the_waist(self._dated(fact), place, details)
        recorded = await self._append(assertions_of(self._dated(fact), place, details))
        return tuple(record_of(item, fact.concept, state=item.assertion.state) for item in recorded)

    async def retract(self, *record_ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Take records back: they are neither loaded nor recalled any more, and `restore` brings them back.

        Args:
            record_ids: which.
            reason: why, for the audit trail.

        Raises:
            RecordNotFoundError: an id names no record that is current and visible; none was retracted.
        """
        self._check_writable()
        records = await self._current(record_ids)
        meant = await self._of_records(record_ids, await self._entries_in(_COUNTING, record_ids))
        await self._change_states(meant, AssertionState.RETRACTED, reason)
        return tuple(Change(kind=ChangeKind.DELETED, record=record) for record in records)

    def _check_writable(self) -> None:
        if self._writing.read_only:
            raise ReadOnlyError("this memory was opened read-only: open it without read_only=True to write")

    def _scope(self, scope: MemoryScope | str | None) -> MemoryScope:
        return self._reading.anchored(scope) or self._reading.home()

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

    async def _append(self, assertions: Sequence[Assertion], *, follows: int | None = None) -> list[Recorded]:
        return [receipt.recorded for receipt in await self._receipts(assertions, follows=follows)]

    async def _receipts(
        self, assertions: Sequence[Assertion], *, follows: int | None = None, vectors: Sequence[Any] | None = None
    ) -> Sequence[Receipt]:
        if not assertions:
            return []
        if not all(self._reading.reaches(assertion.place.scope) for assertion in assertions):
            raise OutOfViewError(
                "something lies outside of this view: hand it in to the memory that the view was made of"
            )
        self._history()
        if vectors is None:
            vectors = await self._vectors(assertions)
        return await self._commit(
            [
                Append(assertion=assertion, vector=vector, follows=follows)
                for assertion, vector in zip(assertions, vectors, strict=True)
            ]
        )

    async def _commit(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        """Write to the store, in one transaction. Everything goes this way: screened, and with whoever writes it."""
        store = self._history()
        with nested(Operation.COMMIT, records_in=len(statements)) as call:
            receipts = await store.append(await to_thread.run_sync(self._signed, statements))
            call.gave(len(receipts))
            return receipts

    @property
    def _actor(self) -> str | None:
        return self._writing.actor or self._reading.viewer

    def _signed(self, statements: Sequence[Statement]) -> list[Statement]:
        screening, actor = Screening(self._writing.flagged), self._actor

        def signed(statement: Statement) -> Statement:
            match statement:
                case Append(assertion=said):
                    said = screening.screened(said)
                    said = said if said.actor or actor is None else attrs.evolve(said, actor=actor)
                    return attrs.evolve(statement, assertion=said, outline=self._mirror.outline(said))
                case StateRequest():
                    return attrs.evolve(statement, actor=statement.actor or actor)

        return [signed(statement) for statement in statements]

    async def _vectors(self, assertions: Sequence[Assertion]) -> Sequence[Any]:
        """Embed what is about to be kept; a failing embedder must not lose a fact, so that comes later then."""
        try:
            await self._mirror.bind()
            return await embedded(self._embedder, [indexed_text(assertion) for assertion in assertions])
        except EmbedderError as error:
            _log.warning("the embedder failed; %d facts are kept without vectors for now: %s", len(assertions), error)
            return [None] * len(assertions)

    async def _of_records(self, record_ids: Collection[str], entries: Sequence[Recorded]) -> list[Recorded]:
        """Choose the entries that belong to some records; each must have one."""
        wanted = set(record_ids)
        meant = [entry for entry in entries if entry.record_id in wanted]
        if missing := wanted - {entry.record_id for entry in meant}:
            raise RecordNotFoundError(f"{len(missing)} of the ids name no visible record that this can be done to")
        return meant

    async def _change_states(self, entries: Sequence[Recorded], state: AssertionState, reason: str | None) -> None:
        """Change states, unless somebody else changes one of them meanwhile."""
        self._check_writable()
        states = states_of(await self._mirror.log(LogPart(ids=[entry.id for entry in entries])))
        await self._commit(
            [
                StateRequest(assertion_id=entry.id, state=state, reason=reason, expected=states.get(entry.id))
                for entry in entries
            ]
        )

    async def _entries_in(
        self, wanted: Collection[AssertionState], record_ids: Collection[str] | None = None
    ) -> list[Recorded]:
        """What the viewer may see of the log that is in one of some states; with record ids, of these records."""
        return await self._visible_log(LogPart(states=wanted, record_ids=record_ids))

    def _history(self) -> KeepsHistory:
        if not isinstance(self._writing.provider, KeepsHistory):
            name = type(self._writing.provider).__name__
            raise CapabilityError(f"{name} has the four verbs only: it keeps no evidence, states or history")
        return self._writing.provider

    async def _visible_log(
        self, part: LogPart | None = None, wanted: Callable[[Recorded], bool] = lambda entry: True
    ) -> list[Recorded]:
        """What the viewer may see of what was recorded, or of a part of it; with a test, only of what passes that."""
        log, sees = await self._mirror.log(part), self._reading.sees

        def select() -> list[Recorded]:
            recorded = (entry for entry in log if isinstance(entry, Recorded))
            return [entry for entry in recorded if wanted(entry) and sees(entry.assertion)]

        return await to_thread.run_sync(select)

    async def _seen_log(self, part: LogPart | None = None) -> list[LogEntry]:
        """The log without what others keep to themselves or lies out of view; changes of state name no owner."""
        log, sees = await self._mirror.log(part), self._reading.sees

        def select() -> list[LogEntry]:
            return [entry for entry in log if not isinstance(entry, Recorded) or sees(entry.assertion)]

        return await to_thread.run_sync(select)
