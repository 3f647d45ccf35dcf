"""The life of a memory: updated, rolled back, restored, undone."""

from __future__ import annotations

import abc
import datetime as dt
import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

import attrs
from anyio import to_thread

from factmem.abc import KeepsHistory
from factmem.errors import InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.facts import Concept
from factmem.fold import Current
from factmem.memory.arguments import listed
from factmem.memory.expiry import TtlOperation, after, expires_at
from factmem.memory.filtering import ids_of
from factmem.memory.observed import observed
from factmem.memory.profiles import ProfileSchema
from factmem.memory.rollback import changed_log, current_of, restore_requests, revision_in, rollback_requests
from factmem.memory.writing import MemoryWriter
from factmem.recall import LogPart, hydrate
from factmem.records import (
    Assertion,
    AssertionState,
    Change,
    ChangeKind,
    FactDetails,
    FactRecord,
    MetadataMerge,
    Origin,
    Place,
    assertions_of,
    merged_metadata,
    record_of,
)
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json, encode_value

__all__ = ["MemoryLifecycle"]


class _Unset(enum.Enum):
    UNSET = "unset"


_UNSET: Final = _Unset.UNSET


@observed()
class MemoryLifecycle(MemoryWriter, abc.ABC):
    """What happens to memories after they were made. Each write raises `ReadOnlyError` on a read-only memory."""

    async def update(
        self,
        record_id: str,
        *,
        value: Any = _UNSET,
        importance: float | None = None,
        categories: Sequence[str] | None = None,
        topics: Sequence[str] | None = None,
        source: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        merge: MetadataMerge = MetadataMerge.MERGE,
        labels: Mapping[str, str] | None = None,
        expires_at: dt.datetime | Literal[_Unset.UNSET] | None = _UNSET,
        ttl: dt.timedelta | None = None,
        origin: Origin | None = None,
    ) -> Change:
        """Change a record by id; what it was stays in its history. What is not given stays as it is.

        The expiry is set anew by this memory's `TtlPolicy`, if it has a time for updates. When an update
        expires, so does its record: what was updated does not come back.

        Args:
            record_id: which record.
            value: its new value, said now, or when the present one was said if that is later.
            importance: from 0 to 1.
            categories: labels, in place of the present ones.
            topics: in place of the present ones.
            source: where it came from.
            metadata: more of it, or another one; see ``merge``.
            merge: what becomes of the present metadata if ``metadata`` is given.
            labels: of the new revision; those of the present one are not handed on.
            expires_at: from when on it is forgotten; None for never.
            ttl: the same, counted from now.
            origin: whose words these are. Those of one that is not trusted are kept in `quarantine`, and until they
                are let in the record stays as it is.

        Raises:
            RecordNotFoundError: no record that is current and visible has this id.
            InvalidDataError: the value is not of the concept's type, or both an expiry and a ttl are given.
            ConceptConflictError: the value's type cannot join its place.
            StateConflictError: the metadata is not the same, as it was required to be.
        """
        self._check_writable()
        previous = await self.get(record_id)
        given: dict[str, Any] = {
            "importance": importance,
            "categories": categories,
            "topics": topics,
            "source": source,
            "origin": origin,
            "metadata": None if metadata is None else _merged(previous, metadata, merge),
        }
        details = attrs.evolve(
            previous.details,
            **{name: item for name, item in given.items() if item is not None},
            labels=labels or {},
            expires_at=self._updated_expiry(previous.details.expires_at, expires_at, ttl),
        )
        said = await self._stored(previous)
        if value is not _UNSET:
            said, details = self._said_now(said, previous, value), attrs.evolve(details, evidence=(), flags=())
        # What is current counts, whatever state it was first recorded in, and waits for nobody.
        revised = attrs.evolve(
            said,
            details=details,
            revises=record_id,
            revised=previous.revision,
            errand=None,
            actor=None,
            state=AssertionState.ACTIVE if origin is None or origin.trusted else AssertionState.QUARANTINED,
        )
        (recorded,) = await self._append([revised], follows=previous.revision)
        record = record_of(recorded, previous.concept, state=recorded.assertion.state)
        return Change(kind=ChangeKind.UPDATED, record=record, previous=previous)

    def _updated_expiry(
        self,
        present: dt.datetime | None,
        given: dt.datetime | Literal[_Unset.UNSET] | None,
        ttl: dt.timedelta | None,
    ) -> dt.datetime | None:
        now = self._reading.clock()
        if ttl is not None:
            if given is not _UNSET:
                raise InvalidDataError("give an expiry or a ttl, not both", path="$.ttl")
            return after(now, ttl)
        if given is not _UNSET:
            return given
        return expires_at(self._writing.ttl, TtlOperation.UPDATE, now) or present

    def _said_now(self, said: Assertion, previous: FactRecord[Any], value: Any) -> Assertion:
        # A record whose time lies ahead, of another machine's clock, is updated none the less.
        fact = previous.concept.fact([value], timestamp=max(self._reading.clock(), previous.timestamp))
        return attrs.evolve(
            said,
            data=encode_value(fact.values[0], previous.concept.value_type),
            timestamp=fact.timestamp,
            valid_from=None,
            valid_to=None,
        )

    async def _stored(self, record: FactRecord[Any]) -> Assertion:
        found = [entry.assertion for entry in await self._visible_log(LogPart(seqs=[record.revision]))]
        if not found:
            raise RecordNotFoundError("the record was erased meanwhile")
        return found[0]

    async def rollback(self, revision: int | FactRecord[Any], *, reason: str | None = None) -> Change:
        """Make a record again what it was at a revision. Nothing is lost: a rollback can be rolled back.

        The states of assertions change, and nothing else: what was said later than the revision is
        retracted, the revision itself is restored. A record that was retracted comes back so.

        Args:
            revision: which one, as `history` shows it, or its number (`FactRecord.revision`).
            reason: why, for the audit trail.

        Returns:
            The change: UPDATED, or CREATED if the record was not there any more.

        Raises:
            InvalidDataError: it is neither a record nor a number.
            RecordNotFoundError: no visible revision has this number, or it was never let in from
                quarantine, or has expired, or another record has its value by now.
            StateConflictError: words that wait for a model would have to be retracted, or somebody
                else changed the record meanwhile.
            ConceptConflictError: its type cannot join its place any more.
        """
        self._check_writable()
        self._history()
        number = revision.revision if isinstance(revision, FactRecord) else revision
        named = [number] if isinstance(number, int) else []
        log = await self._seen_log(LogPart(seqs=named, related=True))
        target = revision_in(log, revision)
        moment = self._moment()
        requests = await to_thread.run_sync(partial(rollback_requests, log, target, moment, reason))
        before = await to_thread.run_sync(partial(current_of, log, target, moment))
        if requests:
            await self._commit(requests)
        after = await to_thread.run_sync(partial(current_of, changed_log(log, requests, moment), target, moment))
        assert after is not None
        return _change(before, after, self._reading.concepts)

    async def restore(self, *record_ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Bring records back that were retracted, or removed by a wish such as "forget that …".

        What the last retraction or removal of each took comes back, and nothing that was gone before.

        Args:
            record_ids: Ids of the records.
            reason: The reason, for the audit trail.

        Raises:
            RecordNotFoundError: Of one of them nothing visible is retracted or removed, or it has expired, or another
                record has its value by now. None was restored.
        """
        self._check_writable()
        ids = ids_of(record_ids)
        log = await self._seen_log(LogPart(record_ids=ids, related=True))
        requests = await to_thread.run_sync(restore_requests, log, ids, self._moment(), reason)
        if requests:
            await self._commit(requests)
        records = await self._current(ids)
        return tuple(Change(kind=ChangeKind.CREATED, record=record) for record in records)

    async def undo(self, changes: Iterable[Change], *, reason: str | None = None) -> tuple[Change, ...]:
        """Take changes back, the last one first: those of a `Remembered`, say, or of a rollback.

        What was created is retracted, what was updated is rolled back, and what was deleted is restored.
        What was done to the same records since then is taken back with it.

        Args:
            changes: in the order they were made.
            reason: why, for the audit trail.

        Returns:
            What that changed, in the order done; undoing this brings the changes about again.

        Raises:
            InvalidDataError: it is no list of changes.
            RecordNotFoundError: one of them is undone already, or its record was erased; what came before
                it in this order is undone, but for its neighbours of the same kind.
        """
        done: list[Change] = []
        last_first = reversed(listed("changes", changes, Change))
        for kind, alike in itertools.groupby(last_first, key=lambda change: change.kind):
            match kind:
                case ChangeKind.CREATED:
                    done += await self.retract(*(change.record.id for change in alike), reason=reason)
                case ChangeKind.UPDATED:
                    done += [await self.rollback(change.previous or change.record, reason=reason) for change in alike]
                case ChangeKind.DELETED:
                    done += await self.restore(*(change.record.id for change in alike), reason=reason)
        return tuple(done)

    async def save_profile(
        self,
        profile: object,
        *,
        subject: MemorySubject = MemorySubject.EVERYTHING,
        scope: MemoryScope | str | None = None,
        details: FactDetails | None = None,
        private: bool = False,
        ttl: dt.timedelta | None = None,
    ) -> tuple[FactRecord[Any], ...]:
        """Keep what an instance of a profile says, each field as a fact of its own, said now.

        A field that is None and a collection that is empty say nothing: they take nothing back either.

        Args:
            profile: an instance of an attrs class or of a pydantic model; see `ProfileSchema`.
            subject: whom it is about.
            scope: where it holds; see `save`.
            details: importance, categories, evidence, origin and so on, of every field.
            private: keep it for this memory's viewer alone.
            ttl: how long it lasts from now on.

        Returns:
            A record for each value, as it stands in the store.

        Raises:
            ConceptConflictError: the place holds another type under a field's name; nothing was kept.
            InvalidDataError: its class is no profile, or a value cannot be stored.
        """
        self._check_writable()
        schema = ProfileSchema.of(type(profile))
        facts = schema.facts(profile, self._reading.clock())
        place = Place(subject, self._scope(scope))
        given = self._lasting(self._owned_details(details or FactDetails(), private=private), ttl)
        if not isinstance(self._writing.provider, KeepsHistory):
            return tuple(
                [record for fact in facts for record in await self._save_through_the_waist(fact, place, given)]
            )
        concepts = {fact.concept.keyword: fact.concept for fact in facts}
        said = [assertion for fact in facts for assertion in assertions_of(fact, place, given)]
        recorded = await self._append(said)
        return tuple(record_of(item, concepts[item.assertion.keyword], state=item.assertion.state) for item in recorded)


def _merged(record: FactRecord[Any], brought: Mapping[str, Json], how: MetadataMerge) -> Mapping[str, Json]:
    metadata = merged_metadata(record.details.metadata, brought, how)
    if metadata is None:
        raise StateConflictError("the record's metadata is not exactly what the update brings: read it again")
    return metadata


def _change(before: Current | None, after: Current, concepts: Mapping[str, Concept[Any, Any]]) -> Change:
    record = hydrate(after, concepts)
    if before is None:
        return Change(kind=ChangeKind.CREATED, record=record)
    return Change(kind=ChangeKind.UPDATED, record=record, previous=hydrate(before, concepts))
