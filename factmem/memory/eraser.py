"""Erasing: records leave the store with their history, vectors and index entries, for good."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection, Iterator, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import attrs
from anyio import to_thread

from factmem.abc.observer import Operation
from factmem.errors import InvalidDataError
from factmem.facts import moment_at
from factmem.fold import fold, revisions, said_order, states_of
from factmem.memory.erasure_proof import Traces, traces_of
from factmem.memory.filters import Filters, ids_of
from factmem.memory.journal import going_along
from factmem.memory.media import drop_kept_media
from factmem.memory.operations import operation
from factmem.memory.reader import Reader, ReadingPart
from factmem.memory.reversals import left_by_moves
from factmem.memory.ttl import ExpiryReceipt, Outlived, outlived
from factmem.recall import RecallFilter
from factmem.recall.index.selection import LogPart
from factmem.records import Assertion, FactRecord, LogEntry, Recorded, as_kept_apart, record_of, shown_record
from factmem.scopes import MemoryScope
from factmem.validators import check_instance, listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger("factmem")

_FAR_AHEAD: Final = dt.timedelta(days=5 * 365)
"""Time after the newest entry of a store from which a clock is not trusted to erase by itself."""


@attrs.frozen(kw_only=True)
class Erasure:
    """The result of `Memory.forget`. Iterating yields the records.

    Attributes:
        records: The records in their present or last state, oldest first.
        words: What goes along: the words that they were found in, with all that these say, and the facts that quote
            erased words.
        erased: Number of assertions erased from every file of the store; 0 in a dry run.
        pending: Whether another process still holds old bytes (an open WAL), or the disk had no room to rewrite
            them. Any later erasure finishes it, and so does `Admin.expire`.
        dry_run: Whether nothing was erased.
    """

    records: tuple[FactRecord[Any], ...]
    words: tuple[FactRecord[Any], ...] = ()
    erased: int = 0
    pending: bool = False
    dry_run: bool = False

    def __iter__(self) -> Iterator[FactRecord[Any]]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)


class Eraser(ReadingPart):
    """Erases records, and revisions that have outlived their time."""

    async def forget(self, record_ids: Collection[str], filters: Filters, *, dry_run: bool) -> Erasure:
        """See `Memory.forget`."""
        self._check(dry_run=dry_run)
        if record_ids and filters.get("record_ids") is not None:
            raise InvalidDataError("give the ids as arguments or as record_ids, not both", path="$.record_ids")
        if any(isinstance(item, Collection) and not item for item in filters.values()):
            raise InvalidDataError("say what to forget: an empty filter would erase more than is meant")
        wanted = self._reader.wanted(filters)
        if record_ids:
            wanted = attrs.evolve(wanted, record_ids=record_ids)
        if attrs.evolve(wanted, exact=False).empty:
            raise InvalidDataError("say what to forget: an empty filter would erase everything, as admin.reset() does")
        records = await self._meant(wanted, self._reader.everybody if record_ids else self._reader)
        entries = await self._kept_apart(set(record_ids) - {record.id for record in records}, wanted)
        if wanted.speakers is not None:
            shared, said = await self._shared_with_others({record.id for record in records}, wanted.speakers)
            records, entries = [record for record in records if record.id not in shared], [*entries, *said]
        return await self._erased(records, entries, dry_run=dry_run)

    def _check(self, *, dry_run: bool) -> None:
        """Raise before any lookup if nothing can be erased."""
        self._context.check_present()
        if not dry_run:
            self._check_changeable()

    async def _kept_apart(self, ids: Collection[str], wanted: RecallFilter) -> list[Recorded]:
        """Return the entries of the quarantine with some ids, of those that a filter selects."""
        if not ids:
            return []
        others = attrs.evolve(wanted, record_ids=None)
        found = await self._reader.everybody.quarantined(LogPart(ids=ids))
        return [entry for entry, _ in found if entry.id in ids and others.keeps(entry)]

    async def _shared_with_others(
        self, record_ids: Collection[str], speakers: Collection[str]
    ) -> tuple[Collection[str], list[Recorded]]:
        """Return those of some records that hold words of others than some speakers, and the words of these there."""
        log = await self._reader.with_moves(record_ids)

        def divided() -> tuple[Collection[str], list[Recorded]]:
            entries = [entry for entry in log if isinstance(entry, Recorded)]
            others = {entry.id for entry in entries if _is_said_by_others(entry.assertion, speakers)}
            shared = {entry.record_id for entry in entries if entry.id in others}
            return shared, [entry for entry in entries if entry.record_id in shared and entry.id not in others]

        return await to_thread.run_sync(divided)

    async def reset(self, scope: MemoryScope | str | None, *, dry_run: bool) -> Erasure:
        """See `Admin.reset`."""
        self._check(dry_run=dry_run)
        records = await self._meant(RecallFilter(scope=self._context.subtree(scope)), self._reader)
        view = self._context.view
        if view.individuals is not None:  # what others see as well is not the user's to erase
            records = [each for each in records if each.details.owner is not None or view.owns(each.subject.key)]
        return await self._erased(records, dry_run=dry_run)

    async def _erased(
        self, records: Sequence[FactRecord[Any]], entries: Sequence[Recorded] = (), *, dry_run: bool = False
    ) -> Erasure:
        """Erase records and entries of the quarantine, with what goes along."""
        if not (records or entries):
            return Erasure(records=(), dry_run=dry_run)
        ids = {record.id for record in records}
        left = await self._left_by_moves(ids)
        named = [*await self._reader.everybody.log(LogPart(record_ids=ids)), *left, *entries]
        cited = (item.assertion.details.evidence for item in named if isinstance(item, Recorded))
        talks = {item.conversation_id for evidence in cited for item in evidence if item.conversation_id is not None}
        log = [*named, *await self._reader.everybody.log(LogPart(jobs=True))]
        log += await self._reader.everybody.log(LogPart(conversations=talks, related=True)) if talks else ()
        words = await to_thread.run_sync(going_along, log, ids, {entry.id for entry in (*left, *entries)})
        states = states_of(log)
        beside: tuple[FactRecord[Any], ...] = tuple(
            shown_record(entry, self._context.concepts, state=states[entry.id])
            for entry in words
            if entry.record_id not in ids
        )
        apart = (as_kept_apart(entry, entry.assertion.state, self._context.concepts) for entry in entries)
        erasure = Erasure(records=(*records, *apart), words=beside, dry_run=dry_run)
        if dry_run:
            return erasure
        receipt = await self._backend.erase(
            self._context.tenant,
            [record.id for record in records],
            assertion_ids=list(dict.fromkeys(recorded.id for recorded in (*left, *entries, *words))),
        )
        await drop_kept_media(self._context, self._backend, [*named, *words])
        return attrs.evolve(erasure, erased=receipt.erased, pending=receipt.pending)

    async def _left_by_moves(self, record_ids: Collection[str]) -> list[Recorded]:
        """Return the revisions that moves of records have left at other places, in whatever scope."""
        log = await self._reader.with_moves(record_ids)
        return await to_thread.run_sync(left_by_moves, log, record_ids)

    async def traces(self, record_ids: Collection[str], texts: Collection[str]) -> Traces:
        """See `Admin.traces`."""
        self._context.check_present()
        record_ids, texts = ids_of(record_ids).keys(), listed("texts", texts, str)
        log = await self._reader.everybody.log()
        visible = {entry.record_id for entry in log if isinstance(entry, Recorded)}.intersection(record_ids)
        left = await self._left_by_moves(visible)
        words = await to_thread.run_sync(going_along, [*log, *left], visible, {entry.id for entry in left})
        ids = {recorded.id for recorded in (*words, *left)}
        recorded = {entry.id: entry for entry in (*log, *left) if isinstance(entry, Recorded)}
        gone = [entry for entry in recorded.values() if entry.record_id in visible or entry.id in ids]
        vectors = await self._stored_vectors({recorded.seq for recorded in gone})
        return await to_thread.run_sync(traces_of, gone, log, vectors, texts, self._context.tenant)

    async def _stored_vectors(self, seqs: Collection[int]) -> list[NDArray[np.float32]]:
        if not seqs:
            return []
        found, rows = await self._backend.log().vectors(self._context.tenant, min(seqs) - 1)
        return [row for seq, row in zip(found, rows, strict=True) if seq in seqs]

    async def expire(self, *, revisions: dt.timedelta | None, dry_run: bool) -> ExpiryReceipt:
        """See `Admin.expire`."""
        self._check(dry_run=dry_run)
        check_instance(revisions, "revisions", dt.timedelta, NoneType)
        limit = self._context.policies.ttl.revisions if revisions is None else revisions
        found = await to_thread.run_sync(outlived, await self._reader.log(), self._context.clock(), limit)
        if dry_run:
            return ExpiryReceipt(expired=len(found.expired), superseded=len(found.superseded))
        return await self._erase_outlived(found)

    async def expire_by_itself(self) -> None:
        """Erase expired and outdated revisions of every owner, in the scopes of this memory.

        Nothing is erased, with a warning, by a clock that is years ahead of all that the store holds: most likely the
        store was written with another clock, as of a simulation, by which these facts are alive.
        """
        now, limit = self._context.clock(), self._context.policies.ttl.revisions
        expired = outlived(await self._owned_by_anybody(LogPart(expired=now, related=True)), now, None).expired
        old = [LogPart(limited=True, related=True)]
        if limit is not None:
            old.append(LogPart(kept=RecallFilter(recorded_until=now - limit), related=True))
        logs = [await self._owned_by_anybody(part) for part in old]
        superseded = {item.id: item for log in logs for item in outlived(log, now, limit).superseded}
        if (expired or superseded) and not await self._is_far_ahead(now):
            await self._expire_what_is_due(Outlived(expired=expired, superseded=tuple(superseded.values())))

    async def _is_far_ahead(self, now: dt.datetime) -> bool:
        newest = await self._reader.of_corpus(lambda corpus: int(corpus.columns["recorded_at"].max()))
        ahead = now - moment_at(newest)
        if ahead > _FAR_AHEAD:
            _log.warning(
                "nothing was erased of what has expired: the clock is %d years ahead of the newest time in the store; "
                "open the store with the clock that it was written with (clock=), or call Admin.expire",
                ahead.days // 365,
            )
        return ahead > _FAR_AHEAD

    async def _owned_by_anybody(self, part: LogPart) -> list[LogEntry]:
        holds = self._context.view.holds
        return [
            entry
            for entry in await self._backend.mirror.log(part)
            if not isinstance(entry, Recorded) or holds(entry.assertion.place)
        ]

    @operation(Operation.EXPIRE)
    async def _expire_what_is_due(self, found: Outlived) -> ExpiryReceipt:
        receipt = await self._erase_outlived(found)
        _log.info("%d expired and %d superseded revisions were erased", receipt.expired, receipt.superseded)
        return receipt

    async def _erase_outlived(self, found: Outlived) -> ExpiryReceipt:
        receipt = ExpiryReceipt(expired=len(found.expired), superseded=len(found.superseded))
        ids = [recorded.id for recorded in (*found.expired, *found.superseded)]
        erased = await self._backend.erase(self._context.tenant, assertion_ids=ids)
        await drop_kept_media(self._context, self._backend, (*found.expired, *found.superseded))
        return attrs.evolve(receipt, pending=erased.pending)

    async def _meant(self, wanted: RecallFilter, reader: Reader) -> list[FactRecord[Any]]:
        """Return the records that a filter selects, each in its present or last state.

        The condition on speakers looks at all revisions, for an update may be of somebody else.
        """
        by = wanted.speakers
        kept = wanted if by is None else RecallFilter(speakers=by, subject=wanted.subject, subjects=wanted.subjects)
        log, moment = await reader.log(LogPart(kept=kept, related=True)), self._context.moment
        others = attrs.evolve(wanted, speakers=None)

        def select() -> list[FactRecord[Any]]:
            said = revisions(log, moment)
            shown = {recorded.record_id: (recorded, state) for recorded, state in said}
            of_speakers = {it.record_id for it, _ in said if by is None or it.assertion.speaker in by}
            states = states_of(log)
            for row in fold(log, moment):
                shown[row.recorded.record_id] = (row.recorded, states[row.recorded.id])
            meant = [(it, state) for it, state in shown.values() if it.record_id in of_speakers and others.keeps(it)]
            meant.sort(key=lambda pair: said_order(pair[0]))
            return [record_of(recorded, state=state) for recorded, state in meant]

        return await to_thread.run_sync(select)


def _is_said_by_others(said: Assertion, speakers: Collection[str]) -> bool:
    """Return whether others than some speakers say something; updates that name nobody change what was said."""
    updates = said.revises is not None or said.revised is not None
    return said.speaker not in speakers and (said.speaker is not None or not updates)
