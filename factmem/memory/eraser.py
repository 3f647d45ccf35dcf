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
from factmem.legal_names import composed
from factmem.memory.erasure_proof import Traces, traces_of
from factmem.memory.filters import Filters, ids_of
from factmem.memory.journal import going_along
from factmem.memory.media import drop_kept_media
from factmem.memory.operations import operation
from factmem.memory.reader import Reader, ReadingPart
from factmem.memory.reversals import left_by_moves, moves_in
from factmem.memory.ttl import ExpiryReceipt, Outlived, outlived
from factmem.recall import RecallFilter
from factmem.recall.index.selection import LogPart
from factmem.records import FactRecord, LogEntry, Recorded, as_kept_apart, record_of, shown_record
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
        return await self._erased(records, entries, wanted.speakers, dry_run=dry_run)

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

    async def reset(self, scope: MemoryScope | str | None, *, dry_run: bool) -> Erasure:
        """See `Admin.reset`."""
        self._check(dry_run=dry_run)
        records = await self._meant(RecallFilter(scope=self._context.subtree(scope)), self._reader)
        view = self._context.view
        if view.individuals is not None:  # what others see as well is not the user's to erase
            records = [each for each in records if each.details.owner is not None or view.owns(each.subject.key)]
        return await self._erased(records, dry_run=dry_run)

    async def _erased(
        self,
        records: Sequence[FactRecord[Any]],
        entries: Sequence[Recorded] = (),
        speakers: Collection[str] | None = None,
        *,
        dry_run: bool = False,
    ) -> Erasure:
        """Erase records and entries of the quarantine, with what goes along.

        Args:
            records: The records.
            entries: The entries.
            speakers: Speakers whose revisions are erased alone; None for all revisions.
            dry_run: See `Memory.forget`.
        """
        if not (records or entries):
            return Erasure(records=(), dry_run=dry_run)
        record_ids = [record.id for record in records]
        linked = await self._reader.everybody.with_moves(record_ids)
        doomed = [*await to_thread.run_sync(_meant_of, linked, set(record_ids), speakers), *entries]
        ids = {entry.id for entry in doomed}
        named = [*doomed, *(it for it in linked if not isinstance(it, Recorded) and it.assertion_id in ids)]
        cited = (item.assertion.details.evidence for item in doomed)
        talks = {item.conversation_id for evidence in cited for item in evidence if item.conversation_id is not None}
        log = [*named, *await self._reader.everybody.log(LogPart(jobs=True))]
        log += await self._reader.everybody.log(LogPart(conversations=talks, related=True)) if talks else ()
        words = await to_thread.run_sync(going_along, log, (), ids)
        states = states_of(log)
        beside: tuple[FactRecord[Any], ...] = tuple(
            shown_record(entry, self._context.concepts, state=states[entry.id])
            for entry in words
            if entry.id not in ids
        )
        apart = (as_kept_apart(entry, entry.assertion.state, self._context.concepts) for entry in entries)
        erasure = Erasure(records=(*records, *apart), words=beside, dry_run=dry_run)
        if dry_run:
            return erasure
        receipt = await self._backend.erase(
            self._context.tenant,
            record_ids if speakers is None else (),
            assertion_ids=[recorded.id for recorded in (*doomed, *words)],
        )
        await drop_kept_media(self._context, self._backend, [*doomed, *words])
        return attrs.evolve(erasure, erased=receipt.erased, pending=receipt.pending)

    async def traces(
        self, record_ids: Collection[str], texts: Collection[str], speakers: Collection[str] | None
    ) -> Traces:
        """See `Admin.traces`."""
        self._context.check_present()
        record_ids, texts = ids_of(record_ids).keys(), listed("texts", texts, str)
        speakers = RecallFilter(speakers=speakers).speakers
        log = await self._reader.everybody.log()
        doomed = {entry.id for entry in await to_thread.run_sync(_meant_of, log, record_ids, speakers)}
        doomed |= {entry.id for entry in await to_thread.run_sync(going_along, log, (), doomed)}
        gone = [entry for entry in log if isinstance(entry, Recorded) and entry.id in doomed]
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

        The condition on speakers looks at all revisions, for an update may be of somebody else. A record whose present
        revision stays is shown as its speaker's last one.
        """
        by = wanted.speakers
        kept = wanted if by is None else RecallFilter(speakers=by, subject=wanted.subject, subjects=wanted.subjects)
        log, moment = await reader.log(LogPart(kept=kept, related=True)), self._context.moment
        if by is not None:
            log = await reader.with_moves({entry.record_id for entry in log if isinstance(entry, Recorded)})
        others = attrs.evolve(wanted, speakers=None)

        def select() -> list[FactRecord[Any]]:
            own = None if by is None else _said_by(log, by)
            said = revisions(log, moment)
            mine = {it.record_id: (it, state) for it, state in said if own is None or it.id in own}
            shown = {it.record_id: (it, state) for it, state in said}
            states = states_of(log)
            for row in fold(log, moment):
                shown[row.recorded.record_id] = (row.recorded, states[row.recorded.id])
            meant = [
                present if own is None or present[0].id in own else mine[id]
                for id, present in shown.items()
                if id in mine and others.keeps(present[0])
            ]
            meant.sort(key=lambda pair: said_order(pair[0]))
            return [record_of(recorded, state=state) for recorded, state in meant]

        return await to_thread.run_sync(select)


def _meant_of(log: Sequence[LogEntry], record_ids: Collection[str], speakers: Collection[str] | None) -> list[Recorded]:
    """Return the revisions of records to erase, with those that moves have left, of all speakers or of some."""
    found = left_by_moves(log, record_ids)
    own = None if speakers is None else _said_by(log, speakers)
    return [entry for entry in found if own is None or entry.id in own]


def _said_by(log: Sequence[LogEntry], speakers: Collection[str]) -> set[str]:
    """Return the ids of the revisions of some speakers: an update that names none is of whom it updates."""
    left = {came.id: before for before, came in moves_in(log)}
    newest, said_by = dict[str, Recorded](), dict[str, str | None]()
    for entry in sorted((it for it in log if isinstance(it, Recorded)), key=lambda it: it.seq):
        revises = entry.assertion.revises is not None
        before = newest.get(entry.record_id) if revises else left.get(entry.id)
        said_by[entry.id] = entry.assertion.speaker or (said_by.get(before.id) if before is not None else None)
        newest[entry.record_id] = entry
    return {id for id, speaker in said_by.items() if speaker is not None and composed(speaker) in speakers}
