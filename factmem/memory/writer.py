"""Writes: save, update, retract, restore, roll back and undo. Every write is committed here."""

from __future__ import annotations

import datetime as dt
import functools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypedDict, TypeVar

import attrs
from anyio import to_thread

from factmem.abc.capabilities import Append, Receipt, Statement, StateRequest
from factmem.abc.clock import system_clock
from factmem.abc.observer import Operation
from factmem.changes import Change, ChangeKind, changed_states, changes_between
from factmem.details import Evidence, FactDetails, MetadataMerge, Origin, merged_metadata
from factmem.error_hints import kind_of
from factmem.errors import (
    CapabilityError,
    EmbedderError,
    EmbedderMismatchError,
    InvalidDataError,
    InvalidVectorError,
    OutOfViewError,
    QuotaExceededError,
    RecordNotFoundError,
    StateConflictError,
)
from factmem.facts import ClockTime, Concept, Fact, FactType, MultipleFacts, SingleFact, check_keyword
from factmem.fold import Current, fold, states_of
from factmem.legal_names import folded_keyword
from factmem.memory.context import FuturePolicy
from factmem.memory.filters import ids_of
from factmem.memory.operations import effects_of
from factmem.memory.reader import ReadingPart
from factmem.memory.reversals import (
    MOVED,
    changed_log,
    changes_by,
    in_order_of,
    last_changes,
    restore_requests,
    revision_in,
    rollback_requests,
    undo_requests,
)
from factmem.memory.screening import QuarantineQuota, Screening, length_of, off_loop, waits
from factmem.memory.ttl import TtlOperation, after, expires_at
from factmem.observing import nested
from factmem.providers.write_plans import check_writable
from factmem.recall import RecallFilter
from factmem.recall.embedders import embedded
from factmem.recall.index.corpus import Corpus, Rows
from factmem.recall.index.outline_codec import value_number
from factmem.recall.index.selection import LogPart
from factmem.recall.results import hydrate
from factmem.recall.text.analysis import indexed_text
from factmem.records import Assertion, AssertionState, FactRecord, LogEntry, Place, Recorded, assertions_of, record_of
from factmem.scopes import MemoryScope
from factmem.shapes import check_fits
from factmem.validators import listed
from factmem.value_types import JSON_SHAPE
from factmem.values import Json, encode_value

T = TypeVar("T")

_log = logging.getLogger("factmem")


_COUNTING: Final = (AssertionState.ACTIVE, AssertionState.PENDING, AssertionState.FAILED)

_MOST_LOGGED: Final = 10

_UNSETTLED: Final = (AssertionState.QUARANTINED, AssertionState.PENDING, AssertionState.FAILED)


class Updates(TypedDict, total=False):
    """New values of a record in an update. What is left out stays as it is; of details, also what is None.

    Attributes:
        value: The new value, said now, or at the present revision's time if that is later.
        scope: The scope to move the record to. A record is one slot of its place, so it has another id there: that of
            ``change.record``. At the old place it is retracted with its history, in the same transaction. `undo` of the
            change, or by either id, moves it back; `rollback` of an old revision restores that one beside it.
        importance: From 0 to 1.
        categories: Labels, in place of the present ones.
        topics: Topics, in place of the present ones.
        source: The source of the fact.
        metadata: More metadata, or other metadata; see ``merge``.
        merge: Treatment of the present metadata if ``metadata`` is given; it is merged by default.
        labels: Labels of the new revision; those of the present one are not copied.
        expires_at: The time of expiry; None for never.
        ttl: The same, counted from now.
        revision_ttl: Time after which the new revision is erased once it is superseded; by this memory's `TtlPolicy` if
            left out.
        origin: The origin of the words (default: that of the record). Those of one that is not trusted are quarantined:
            until they are accepted, the record stays as it is. It also stays as it is if its own origin is higher, the
            user's rather than the assistant's: the words stand beside it in its history. The change is UNCHANGED then,
            and its record the words, QUARANTINED or SUPERSEDED.
    """

    value: Any
    scope: MemoryScope | str | None
    importance: float | None
    categories: Sequence[str] | None
    topics: Sequence[str] | None
    source: str | None
    metadata: Mapping[str, Json] | None
    merge: MetadataMerge
    labels: Mapping[str, str] | None
    expires_at: dt.datetime | None
    ttl: dt.timedelta | None
    revision_ttl: dt.timedelta | None
    origin: Origin | None


_DETAILS: Final = ("importance", "categories", "topics", "source", "metadata", "labels", "origin")
"""Names in `Updates` of fields of `FactDetails`."""


class Writer(ReadingPart):
    """Writes facts and changes of their states; refuses every write to a read-only memory."""

    async def save(
        self, facts: Iterable[Any], *, details: FactDetails | None, private: bool | None, ttl: dt.timedelta | None
    ) -> tuple[FactRecord[Any], ...]:
        """See `Memory.save_many`."""
        self._context.check_writable()
        given = self.lasting(self._context.owned(details, private=private), ttl)
        known = functools.cache(self._context.place)  # many facts share a few places: texts are read once
        items = [self._placed(item, known) for item in listed("facts", facts, object)]
        if self._backend.four_verbs_only:
            return tuple([record for item in items for record in await self._save_four_verbs(*item, given)])
        said = [(assertion, fact.concept) for fact, place in items for assertion in assertions_of(fact, place, given)]
        assertions = [assertion for assertion, _ in said]
        await self._check_alike(assertions)
        receipts = await self.append(assertions)
        states = await self.states_of_repeated(receipts) | await self._states_of_dated(receipts, assertions)
        return tuple(
            record_in(receipt.recorded, concept, states.get(receipt.recorded.id, receipt.recorded.assertion.state))
            for receipt, (_, concept) in zip(receipts, said, strict=True)
        )

    def _placed(self, item: object, known: Callable[[Any, Any], Place]) -> tuple[Fact[Any], Place]:
        fact, subject, scope = (*item, None, None)[:3] if isinstance(item, tuple) else (item, None, None)
        if not isinstance(fact, SingleFact | MultipleFacts):
            way = (
                "several facts there is save_many()" if isinstance(fact, list | tuple) else "words there is remember()"
            )
            raise InvalidDataError(
                f"save and save_many take facts, or tuples (fact, subject, scope), not {kind_of(fact)}: for {way}"
            )
        named = isinstance(subject, str | None) and isinstance(scope, str | None)
        return self._spelled(self.dated(fact)), (known if named else self._context.place)(subject, scope)

    def _spelled(self, fact: Fact[T]) -> Fact[T]:
        """Return a fact under the keyword that a declared concept spells otherwise; see `folded_keyword`."""
        check_keyword(fact.concept)
        declared, folded = self._context.concepts, folded_keyword(fact.concept.keyword)
        if fact.concept.keyword in declared:
            return fact
        keyword = next((known for known in declared if folded_keyword(known) == folded), None)
        if keyword is None:
            return fact
        spelled: Any = attrs.evolve(fact.concept, keyword=keyword)
        return attrs.evolve(fact, concept=spelled)

    async def _check_alike(self, said: Sequence[Assertion]) -> None:
        """Check that no place holds an alike keyword of another type. Declared ones are saved in one spelling.

        Raises:
            ConceptConflictError: One does.
        """
        declared, alone = self._context.concepts, self._backend.spellings
        new = {keyword for it in said if (keyword := it.keyword) not in declared}
        new = {keyword for keyword in new if alone.get(folded_keyword(keyword)) != keyword}
        if not new:
            return
        several = await self._reader.of_corpus(
            lambda corpus: {keyword for keyword in new if corpus.columns.keywords.others(keyword)}
        )
        for keyword in new:
            alone[folded_keyword(keyword)] = "" if keyword in several else keyword
        for assertion in said:
            if assertion.keyword in several:
                place, keywords = assertion.place, (assertion.keyword,)
                there = RecallFilter(subject=place.subject, scope=place.scope, exact=True, keywords=keywords)
                for row in await self._reader.visible(there):
                    stored = row.recorded.assertion
                    if stored.details.owner == assertion.details.owner:
                        named = attrs.evolve(assertion, keyword=stored.keyword)
                        check_writable(named, stored.fact_type, [stored.shape])

    async def states_of_repeated(self, receipts: Iterable[Receipt]) -> dict[str, AssertionState]:
        """Return the present states, by id, of assertions that were in the store before; log which are retracted."""
        again = {receipt.recorded.id: receipt.recorded for receipt in receipts if not receipt.new}
        states = states_of(await self._backend.mirror.log(LogPart(ids=again))) if again else {}
        if retracted := [it.record_id for it in again.values() if states.get(it.id) is AssertionState.RETRACTED]:
            named = list(dict.fromkeys(retracted))
            _log.warning(
                "%d repeated assertion(s) were retracted before and stay so; restore() brings them back, and a later "
                "timestamp says them anew: %s",
                len(named),
                ", ".join(named[:_MOST_LOGGED]),
            )
        return states

    async def _states_of_dated(
        self, receipts: Iterable[Receipt], said: Iterable[Assertion]
    ) -> dict[str, AssertionState]:
        """Return the states, by id, of new assertions that are superseded at once: those of an earlier time.

        Only a time that somebody gave is looked at: what a clock dates is the newest of its record.
        """
        dated = [
            receipt.recorded
            for receipt, it in zip(receipts, said, strict=True)
            if receipt.joins and not isinstance(it.timestamp, ClockTime)
        ]
        if not dated:
            return {}
        log = await self._backend.mirror.log(LogPart(record_ids={it.record_id for it in dated}, related=True))
        standing = {said.id for row in fold(log, self._context.moment) for said in row.said}
        late = [it for it in dated if it.id not in standing and it.assertion.counts(it.assertion.state)]
        return dict.fromkeys((it.id for it in late), AssertionState.SUPERSEDED)

    async def update(self, record_id: str, given: Updates) -> Change:
        """See `Memory.update`."""
        self._check_changeable()
        if not given:
            raise InvalidDataError("say what to change: a value, a scope or details, such as value=…")
        previous = (await self._reader.current([record_id]))[0]
        new: dict[str, Any] = {name: item for name, item in given.items() if name in _DETAILS and item is not None}
        if "metadata" in new:
            new["metadata"] = _merged(previous, new["metadata"], given.get("merge", MetadataMerge.MERGE))
        origin, lasts, scope = given.get("origin"), given.get("revision_ttl"), given.get("scope")
        details = attrs.evolve(
            previous.details,
            **{"labels": {}, **new},
            expires_at=self._updated_expiry(previous.details.expires_at, given),
            revision_expires_at=None if lasts is None else after(self._context.clock(), lasts, "revision_ttl"),
        )
        found = [entry.assertion for entry in await self._reader.recorded(LogPart(seqs=[previous.revision]))]
        if not found:
            raise RecordNotFoundError("the record was erased meanwhile: read the records again")
        said = stored = found[0]
        newest = max((await self._reader.actions(LogPart(record_ids=[record_id]), None, None))[0])
        if "value" in given:
            said = self._said_now(said, previous, given["value"])
            details = attrs.evolve(details, evidence=_evidence_after(previous, origin), flags=(), doubt=None)
        if scope is not None and (place := attrs.evolve(said.place, scope=self._context.target(scope))) != said.place:
            moved = attrs.evolve(said, place=place, details=details)
            return await self._moved(previous, _anew(moved, await self._left_at(moved, previous, newest), origin))
        if "value" in given:
            await self._check_free(said, record_id)
        revised = attrs.evolve(_anew(said, newest, origin), details=details, revises=record_id)
        (receipt,) = await self.append([revised], follows=previous.revision)
        outranked = revised.counts(revised.state) and revised.trust < stored.trust
        state = AssertionState.SUPERSEDED if outranked else receipt.recorded.assertion.state
        kind = ChangeKind.UPDATED if revised.counts(state) else ChangeKind.UNCHANGED
        return Change(kind=kind, record=record_in(receipt.recorded, previous.concept, state), previous=previous)

    async def _left_at(self, moved: Assertion, previous: FactRecord[Any], newest: int) -> int:
        """Return the revision that a move leaves, which links the two records; after its undo, a number of its own."""
        place = moved.place
        there = RecallFilter(subject=place.subject, scope=place.scope, exact=True, keywords=(moved.keyword,))
        again = newest > previous.revision and await self._reader.recorded(
            LogPart(kept=there), lambda entry: entry.assertion.revised == previous.revision
        )
        return newest if again else previous.revision

    async def _moved(self, previous: FactRecord[Any], moved: Assertion) -> Change:
        """Retract a record at its place and append it at another one, in one transaction."""
        if (await self.screening()).screened(moved).state is not AssertionState.ACTIVE:
            raise InvalidDataError("quarantined words cannot move a record: leave the scope out", path="$.scope")
        await self._check_free(moved, previous.id)
        leaving, log = await self._retraction([previous.id], MOVED)
        if any(request.expected is AssertionState.PENDING for request in leaving):
            raise StateConflictError("the record waits for a model: move it once the model has read it")
        (vector,) = await self.vectors([moved])
        (receipt,) = await self._admitted([*leaving, Append(assertion=moved, vector=vector)])
        record = record_of(receipt.recorded, previous.concept, state=AssertionState.ACTIVE)
        left = changed_states(log, changed_log(log, leaving, self._context.moment))[previous.id]
        before = {**left, record.revision: AssertionState.RETRACTED}
        return Change(kind=ChangeKind.UPDATED, record=record, previous=previous, states_before=before)

    async def _check_free(self, said: Assertion, record_id: str) -> None:
        """Check that no other current record stands where a record is to be: equal values of a MULTIPLE are one record.

        Raises:
            StateConflictError: There is one.
        """
        place = said.place
        there = RecallFilter(subject=place.subject, scope=place.scope, exact=True, keywords=(said.keyword,))
        single = said.fact_type is FactType.SINGLE

        def rivals(corpus: Corpus, found: Rows) -> list[Current | None]:
            if not single:
                found = found[corpus.columns["value"][found] == value_number(said)]
            return corpus.currents(found)

        for row in await self._reader.of_visible(there, rivals):
            if row is None:
                continue
            other = row.recorded.assertion
            if row.recorded.record_id != record_id and other.key == said.key:
                found = "the scope holds a record" if single else "this is the value of another record"
                raise StateConflictError(f"{found} of this concept already: update or retract that one")

    async def _retraction(
        self, record_ids: Collection[str], reason: str | None
    ) -> tuple[list[StateRequest], list[LogEntry]]:
        """Return the changes of state that retract records, and the log of these."""
        log = await self._reader.log(LogPart(record_ids=record_ids))
        states, retracted = states_of(log), AssertionState.RETRACTED
        entries = [entry for entry in log if isinstance(entry, Recorded) and states[entry.id] in _COUNTING]
        if {entry.record_id for entry in entries} != set(record_ids):
            raise RecordNotFoundError("one of the records was retracted or erased meanwhile: see history()")
        return [StateRequest.of(it, retracted, reason=reason, expected=states[it.id]) for it in entries], log

    def _updated_expiry(self, present: dt.datetime | None, given: Updates) -> dt.datetime | None:
        expiry, ttl = given.get("expires_at"), given.get("ttl")
        if "expires_at" in given and ttl is None:
            return expiry
        return (
            expires_at(self._context.policies.ttl, TtlOperation.UPDATE, self._context.clock(), expiry, ttl) or present
        )

    def _said_now(self, said: Assertion, previous: FactRecord[Any], value: Any) -> Assertion:
        # A record with a time in the future, of another machine's clock, can be updated as well.
        concept = previous.concept
        fact = concept.fact([value], timestamp=ClockTime.of(max(self._context.clock(), previous.timestamp)))
        data = encode_value(fact.values[0], concept.value_type)
        shape = said.shape if concept.shape == JSON_SHAPE else concept.shape
        check_fits(data, shape)
        return attrs.evolve(said, data=data, shape=shape, timestamp=fact.timestamp, valid_from=None, valid_to=None)

    async def retract(self, record_ids: Collection[str], reason: str | None) -> tuple[Change, ...]:
        """See `Memory.retract`."""
        self._check_changeable()
        records = await self._reader.current(record_ids)
        changes = await self._changed(*await self._retraction({record.id for record in records}, reason))
        return tuple(changes[record.id] for record in records)

    async def restore(self, record_ids: Collection[str], reason: str | None) -> tuple[Change, ...]:
        """See `Memory.restore`."""
        self._check_changeable()
        ids = ids_of(record_ids)
        log = await self._reader.log(LogPart(record_ids=ids, related=True))
        requests = await to_thread.run_sync(restore_requests, log, ids, self._context.moment, reason)
        changes = await self._changed(requests, log)
        return tuple(changes[id] for id in ids)

    async def rollback(self, revision: int | FactRecord[Any], reason: str | None) -> Change:
        """See `Memory.rollback`."""
        self._check_changeable()
        number = revision.revision if isinstance(revision, FactRecord) else revision
        named = [number] if isinstance(number, int) else []
        log = await self._reader.log(LogPart(seqs=named, related=True))
        target = revision_in(log, revision)
        requests = await to_thread.run_sync(rollback_requests, log, target, self._context.moment, reason)
        if change := (await self._changed(requests, log)).get(target.record_id):
            return change
        (record,) = await self._reader.current([target.record_id])
        return Change(kind=ChangeKind.UNCHANGED, record=record, previous=record, states_before={})

    async def undo(self, changes: Iterable[Change | str], reason: str | None) -> tuple[Change, ...]:
        """See `Memory.undo`."""
        self._check_changeable()
        given = listed("changes", changes, Change, str)
        made = [item for item in given if isinstance(item, Change)]
        if made and len(made) < len(given):
            raise InvalidDataError("undo takes changes or ids of records, not both: call it twice", path="$.changes")
        if made:
            numbers = {number for change in made for number in change.states_before}
            log = await self._reader.log(LogPart(seqs=numbers, related=True))
        else:
            ids = ids_of(item for item in given if isinstance(item, str))
            log = await self._reader.with_moves(ids)
            made = await to_thread.run_sync(last_changes, log, ids)
        last_first = made[::-1]
        requests = await to_thread.run_sync(undo_requests, log, last_first, reason)
        return tuple(in_order_of(last_first, await self._changed(requests, log), log))

    async def _changed(self, requests: Sequence[StateRequest], log: Sequence[LogEntry]) -> dict[str, Change]:
        """Commit changes of state; return the changes of records that they make, by record id."""
        moment, concepts = self._context.moment, self._context.concepts
        numbers = {entry.id: entry.seq for entry in log if isinstance(entry, Recorded)}
        requests = sorted(requests, key=lambda request: numbers[request.assertion_id])  # see `last_changes`
        changes = await to_thread.run_sync(changes_by, requests, log, moment, concepts)
        if requests:
            await self.commit(requests)
        return changes

    async def decide(
        self, entries: Sequence[Recorded], state: AssertionState, reason: str | None
    ) -> dict[str, ChangeKind]:
        """Change the states of assertions; return what that changes about their records, by the ids of the assertions.

        Raises:
            StateConflictError: Another writer changed one of them meanwhile.
        """
        of_them = RecallFilter(record_ids={entry.record_id for entry in entries})
        before = await self._reader.everybody.visible(of_them)
        await self.change_states(entries, state, reason)
        after = await self._reader.everybody.visible(of_them)
        stood = {said.id for row in (*before, *after) for said in row.said}
        kinds = {change.record.id: change.kind for change in changes_between(before, after)}
        return {
            entry.id: kinds.get(entry.record_id, ChangeKind.UNCHANGED)
            if entry.id in stood or entry.assertion.removed
            else ChangeKind.UNCHANGED
            for entry in entries
        }

    def lasting(self, details: FactDetails, ttl: dt.timedelta | None = None) -> FactDetails:
        """Return the details of a new assertion with its expiry."""
        now = self._context.clock()
        expiry = expires_at(self._context.policies.ttl, TtlOperation.CREATE, now, details.expires_at, ttl)
        return details if expiry == details.expires_at else attrs.evolve(details, expires_at=expiry)

    def dated(self, fact: Fact[T]) -> Fact[T]:
        """Return a fact with a legal timestamp; see `legal_time`."""
        timestamp = self.legal_time(fact.timestamp, self._context.clock())
        return fact if timestamp is fact.timestamp else attrs.evolve(fact, timestamp=timestamp)

    def legal_time(self, timestamp: dt.datetime, now: dt.datetime) -> dt.datetime:
        """Return the timestamp of a new assertion: by the memory's own clock where the caller gave none.

        Args:
            timestamp: The timestamp as it was given.
            now: Present time of the memory's clock.

        Raises:
            InvalidDataError: It lies in the future, and the policy refuses that.
        """
        if isinstance(timestamp, ClockTime) and self._context.clock is not system_clock:
            return ClockTime.of(now)
        if timestamp <= now + self._context.policies.clock_skew:
            return timestamp
        if self._context.policies.future is FuturePolicy.CLAMP:
            return ClockTime.of(now)
        raise InvalidDataError(
            "the fact's timestamp lies in the future: correct it, open the memory with the clock of its world "
            "(clock=), or set Policies(future=FuturePolicy.CLAMP)",
            path="$.timestamp",
        )

    def check_representable(self, details: FactDetails) -> None:
        """Refuse details that a provider with the four verbs only cannot keep.

        Raises:
            CapabilityError: There are any.
        """
        if details != FactDetails():
            raise CapabilityError(
                f"{type(self._backend.provider).__name__} has the four verbs only and cannot keep owner, evidence, "
                "source, importance, expiry or other details: leave them out, or use a provider that keeps history"
            )

    async def _save_four_verbs(self, fact: Fact[T], place: Place, details: FactDetails) -> tuple[FactRecord[T], ...]:
        self.check_representable(details)
        await self._backend.provider.save(fact, place.subject, place.scope)
        wanted = RecallFilter(subject=place.subject, scope=place.scope, exact=True, keywords=(fact.concept.keyword,))
        rows = await self._reader.visible(wanted)
        same = [row for row in rows if row.recorded.assertion.keyword == fact.concept.keyword]
        return tuple(hydrate(row, {fact.concept.keyword: fact.concept}) for row in same)

    async def append(
        self, assertions: Sequence[Assertion], *, follows: int | None = None, vectors: Sequence[Any] | None = None
    ) -> Sequence[Receipt]:
        """Embed and commit assertions; return a receipt of each.

        Args:
            assertions: The assertions.
            follows: The revision that must still be the last one of its record.
            vectors: The embeddings, if they are made already.

        Raises:
            OutOfViewError: A place lies outside of the view.
            CapabilityError: The provider has the four verbs only.
            QuotaExceededError: More would wait in quarantine than the policies allow.
        """
        if not assertions:
            return []
        if not all(map(self._context.view.holds, {assertion.place for assertion in assertions})):
            raise OutOfViewError("a place lies outside of this view: use the memory that the view was made of")
        self._backend.log()
        if vectors is None:
            vectors = await self.vectors(assertions)
        return await self._admitted(
            [
                Append(assertion=assertion, vector=vector, follows=follows)
                for assertion, vector in zip(assertions, vectors, strict=True)
            ]
        )

    async def _admitted(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        """Commit new assertions, unless more of them would wait in quarantine than the quota allows."""
        signed = await self._screened_and_signed(statements)
        limited = self._context.policies.quarantine != QuarantineQuota()
        coming = limited and sum(isinstance(item, Append) and waits(item.assertion) for item in signed)
        if not coming:
            return await self._appended(signed)
        async with self._backend.worker.alone("quarantine"):
            await self._check_quota(coming)
            return await self._appended(signed)

    async def _check_quota(self, coming: int) -> None:
        quota, waiting = self._context.policies.quarantine, await self._reader.waiting()
        if quota.total is not None and waiting + coming > quota.total:
            raise QuotaExceededError(quota.total, per_writer=False)
        if quota.per_writer is None or waiting + coming <= quota.per_writer:
            return
        entries = (entry.assertion for entry in await self._reader.recorded(LogPart(states=_UNSETTLED)))
        mine = sum(said.actor == self._context.writer and waits(said) for said in entries)
        if mine + coming > quota.per_writer:
            raise QuotaExceededError(quota.per_writer, per_writer=True)

    async def commit(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        """Commit statements to the store, in one transaction. Every write is screened and signed before."""
        return await self._appended(await self._screened_and_signed(statements))

    async def _appended(self, signed: Sequence[Statement]) -> Sequence[Receipt]:
        store = self._backend.log()
        with nested(Operation.COMMIT, records_in=len(signed)) as call:
            try:
                receipts = await store.append(signed)
            except (EmbedderMismatchError, InvalidVectorError):  # another memory has embedded the store again meanwhile
                self._backend.mirror.unbind()
                bare = [attrs.evolve(it, vector=None) if isinstance(it, Append) else it for it in signed]
                receipts = await store.append(bare)
            finally:
                self._backend.mirror.wrote()
            call.record_result(len(receipts))
            call.record_effects(partial(effects_of, signed, receipts))
            return receipts

    async def screening(self) -> Screening:
        """Return the screening of what is written. A long conversation takes time to compare."""
        flagged, heard = self._context.policies.flagged, self._context.heard
        return await off_loop(partial(Screening, flagged, heard), None if heard else 0)

    async def _screened_and_signed(self, statements: Sequence[Statement]) -> list[Statement]:
        return await off_loop(partial(self._signed, statements, await self.screening()), length_of(statements))

    def _signed(self, statements: Sequence[Statement], screening: Screening) -> list[Statement]:
        actor = self._context.writer
        said = [screening.screened(item.assertion) for item in statements if isinstance(item, Append)]
        said = [it if it.actor or actor is None else attrs.evolve(it, actor=actor) for it in said]
        signed = zip(said, self._backend.mirror.outlines(said), strict=True)

        def sign(statement: Statement) -> Statement:
            match statement:
                case Append(vector=vector, follows=follows):
                    assertion, outline = next(signed)
                    return Append(assertion=assertion, vector=vector, outline=outline, follows=follows)
                case StateRequest():
                    return attrs.evolve(statement, actor=statement.actor or actor)

        return list(map(sign, statements))

    async def vectors(self, assertions: Sequence[Assertion]) -> Sequence[Any]:
        """Embed assertions; return None for each if the embedder fails: they are saved, and embedded later."""
        try:
            await self._backend.mirror.bind()
            return await embedded(self._backend.embedder, [indexed_text(assertion) for assertion in assertions])
        except EmbedderError as error:
            _log.warning("%d facts are kept without vectors for now: %s", len(assertions), error)
            return [None] * len(assertions)

    async def change_states(self, entries: Sequence[Recorded], state: AssertionState, reason: str | None) -> None:
        """Change the states of assertions; fail if another writer changes one of them meanwhile."""
        self._context.check_writable()
        states = states_of(await self._backend.mirror.log(LogPart(ids=[entry.id for entry in entries])))
        await self.commit(
            [
                StateRequest.of(entry, state, reason=reason, expected=states.get(entry.id))
                for entry in sorted(entries, key=lambda entry: entry.seq)  # see `last_changes`
            ]
        )


class WritingPart(ReadingPart):
    """A part that reads and writes."""

    @functools.cached_property
    def _writer(self) -> Writer:
        return Writer(self._context.everybody, self._backend)


def _anew(said: Assertion, revised: int, origin: Origin | None) -> Assertion:
    """Return an assertion that follows a current one: it counts, whatever the state of that was, and has no job.

    The number that it revises makes it an assertion of its own, also if the same was written before, and undone.
    """
    return attrs.evolve(
        said,
        revises=None,
        revised=revised,
        job=None,
        actor=None,
        state=AssertionState.ACTIVE if origin is None or origin.trusted else AssertionState.QUARANTINED,
    )


def _evidence_after(previous: FactRecord[Any], origin: Origin | None) -> tuple[Evidence, ...]:
    """Return the evidence of the new value of a record: of a statement its speaker, and what it answers or corrects.

    It quotes nothing, for the value is not what was said. What is of another origin has another speaker.
    """
    kept = origin in (None, previous.details.origin)
    found = (
        Evidence(
            quote="",
            role=item.role if kept else None,
            speaker=item.speaker if kept else None,
            answers=item.answers,
            corrects=item.corrects,
        )
        for item in previous.evidence[:1]
        if previous.is_statement
    )
    return tuple(item for item in found if item != Evidence(quote=""))


def record_in(recorded: Recorded, concept: Concept[T, Any] | None, state: AssertionState) -> FactRecord[T]:
    """Return a record in a state; one that waits in quarantine under the id that it has there.

    Args:
        recorded: The recorded assertion.
        concept: The concept to read it with; None reads it by its shape.
        state: The state.
    """
    record = record_of(recorded, concept, state=state)
    return attrs.evolve(record, id=recorded.id) if state is AssertionState.QUARANTINED else record


def _merged(record: FactRecord[Any], brought: Mapping[str, Json], how: MetadataMerge) -> Mapping[str, Json]:
    metadata = merged_metadata(record.details.metadata, brought, how)
    if metadata is None:
        raise StateConflictError("the record's metadata differs from the update's: read the record again")
    return metadata
