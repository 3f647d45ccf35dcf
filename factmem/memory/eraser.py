"""Erasing: records leave the store with their history, vectors and index entries, for good."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
from anyio import to_thread

from factmem.abc import EraseReceipt, KeepsVectors, Operation
from factmem.errors import InvalidDataError
from factmem.facts import Concept, FactType, MultipleConcept, SingleConcept
from factmem.fold import fold, revisions, said_order, states_of
from factmem.memory.backend import Backend
from factmem.memory.context import Context
from factmem.memory.filters import Filters, keywords_of
from factmem.memory.journal import words_behind
from factmem.memory.observed import operation
from factmem.memory.reader import Reader
from factmem.memory.traces import Traces, traces_of
from factmem.memory.ttl import ExpiryReceipt, Outlived, outlived
from factmem.recall import LogPart, RecallFilter
from factmem.records import Assertion, FactRecord, LogEntry, Recorded, record_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Eraser", "PurgeResult"]

_log = logging.getLogger("factmem")


@attrs.frozen(kw_only=True)
class PurgeResult:
    """What `Memory.purge` erased, or would.

    Attributes:
        records: the records, each as it is now (or was last), oldest first.
        dry_run: whether nothing was erased.
        erased: what the erasure did; nothing, of a dry run.
    """

    records: tuple[FactRecord[Any], ...]
    dry_run: bool
    erased: EraseReceipt

    @property
    def count(self) -> int:
        """How many records."""
        return len(self.records)


class Eraser:
    """Erases records, and revisions that have outlived their time.

    Args:
        context: Whose view.
        backend: The store.
    """

    def __init__(self, context: Context, backend: Backend) -> None:
        self._context = context
        self._backend = backend
        self._reader = Reader(context, backend)

    async def forget(
        self,
        *record_ids: str,
        scope: MemoryScope | str | None = None,
        exact: bool = False,
        subject: MemorySubject | None = None,
        concepts: Collection[Concept[Any, Any] | str] = (),
        categories: Collection[str] = (),
        sources: Collection[str] = (),
        before: dt.datetime | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> EraseReceipt:
        """Erase records with all their history, vectors and index entries. There is no way back.

        What is given combines by AND. A record is meant as it is now; one that is not current any more
        (retracted, expired, quarantined) as it was last. All of its revisions are erased, and so are the words that it
        was found in, also where they are statements of their own.

        When this returns, no file of the store and no copy in this process holds any of it, unless the receipt
        says ``pending``; then another process is still reading what was there before, and `finish_erasing` (or
        any later erasure) does the rest. Another process drops its copies when it looks into the store next.
        Records that were found in the same words keep their own quotes of them: `traces` tells which those are.

        Args:
            record_ids: these records.
            scope: in this scope and its subtree.
            exact: in this very scope.
            subject: about this subject.
            concepts: of one of these concepts, or keywords.
            categories: with one of these categories.
            sources: from one of these sources.
            before: said before this time.
            metadata: holding all of these.

        Raises:
            InvalidDataError: nothing is given; that would erase everything.
            CapabilityError: the provider cannot erase.
        """
        self._context.check_writable()
        doomed = await self.would_forget(
            *record_ids,
            scope=scope,
            exact=exact,
            subject=subject,
            concepts=concepts,
            categories=categories,
            sources=sources,
            before=before,
            metadata=metadata,
        )
        return await self._erase(doomed)

    async def would_forget(
        self,
        *record_ids: str,
        scope: MemoryScope | str | None = None,
        exact: bool = False,
        subject: MemorySubject | None = None,
        concepts: Collection[Concept[Any, Any] | str] = (),
        categories: Collection[str] = (),
        sources: Collection[str] = (),
        before: dt.datetime | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> list[FactRecord[Any]]:
        """Return the records that `forget` would erase, each as it is now or was last, oldest first.

        Args:
            record_ids: see `forget`, as all the others.
            scope: in this scope and its subtree.
            exact: in this very scope.
            subject: about this subject.
            concepts: of one of these concepts, or keywords.
            categories: with one of these categories.
            sources: from one of these sources.
            before: said before this time.
            metadata: holding all of these.

        Raises:
            InvalidDataError: nothing is given; that would erase everything.
        """
        wanted = RecallFilter(
            record_ids=record_ids or None,
            scope=self._context.anchored(scope),
            exact=exact,
            subject=subject,
            keywords=keywords_of(concepts) or None,
            categories=categories or None,
            sources=sources or None,
            until=before,
            metadata=metadata or {},
        )
        if attrs.evolve(wanted, exact=False).empty:
            raise InvalidDataError("say what to forget: an empty filter would erase everything")
        return await self._meant(wanted)

    async def finish_erasing(self) -> EraseReceipt:
        """Remove what earlier erasures of this organization left in the files of the store, and nothing else.

        One that was killed leaves something, and so does one whose receipt says ``pending``.

        Raises:
            CapabilityError: the provider cannot erase.
        """
        self._context.check_writable()
        return await self._backend.eraser().erase((), tenant=self._context.tenant)

    async def traces(self, *record_ids: str, texts: Collection[str] = ()) -> Traces:
        """Gather what `forget` will leave no trace of, so that `factmem.memory.verify_erased` can look for it after.

        Nothing is gathered of what the viewer may not see.

        Args:
            record_ids: the records that are to be forgotten.
            texts: words to look for besides, wherever they were said.
        """
        log = await self._reader.log()
        words = await to_thread.run_sync(words_behind, log, set(record_ids))
        ids = {recorded.id for recorded in words}
        gone = [
            entry for entry in log if isinstance(entry, Recorded) and (entry.record_id in record_ids or entry.id in ids)
        ]
        vectors = await self._stored_vectors({recorded.seq for recorded in gone})
        gather = partial(traces_of, gone, log, vectors, texts=texts, tenant=self._context.tenant)
        return await to_thread.run_sync(gather)

    async def _stored_vectors(self, seqs: Collection[int]) -> list[NDArray[np.float32]]:
        store = self._backend.provider
        if not seqs or not isinstance(store, KeepsVectors):
            return []
        found, rows = await store.vectors(self._context.tenant, min(seqs) - 1)
        return [row for seq, row in zip(found, rows, strict=True) if seq in seqs]

    async def expire(self, *, revisions: dt.timedelta | None = None, dry_run: bool = False) -> ExpiryReceipt:
        """Erase what has expired, and superseded revisions that are older than the policy allows.

        What has expired is invisible before that, too; this removes its words from the store. Nothing
        that is current changes. A memory that is open for writing does this by itself, for every viewer, when it is
        opened and then once a day. A call erases what this viewer may see.

        Args:
            revisions: how old superseded revisions may be, other than this memory's `TtlPolicy` says.
            dry_run: erase nothing, and tell what would be.

        Raises:
            CapabilityError: the provider cannot erase.
        """
        if not dry_run:
            self._context.check_writable()
        limit = self._context.policies.ttl.revisions if revisions is None else revisions
        found = await to_thread.run_sync(outlived, await self._reader.log(), self._context.clock(), limit)
        if dry_run:
            return ExpiryReceipt(expired=len(found.expired), superseded=len(found.superseded))
        return await self._erase_outlived(found)

    async def expire_by_itself(self) -> None:
        """Erase what has outlived its time, whoever owns it, in the scopes of this memory."""
        now, limit = self._context.clock(), self._context.policies.ttl.revisions
        expired = outlived(await self._owned_by_anybody(LogPart(expired=now, related=True)), now, None).expired
        superseded: tuple[Recorded, ...] = ()
        if limit is not None:
            old = LogPart(kept=RecallFilter(recorded_until=now - limit), related=True)
            superseded = outlived(await self._owned_by_anybody(old), now, limit).superseded
        if expired or superseded:
            await self._expire_what_is_due(Outlived(expired=expired, superseded=superseded))

    async def _owned_by_anybody(self, part: LogPart) -> list[LogEntry]:
        reaches = self._context.reaches
        return [
            entry
            for entry in await self._backend.mirror.log(part)
            if not isinstance(entry, Recorded) or reaches(entry.assertion.place.scope)
        ]

    @operation(Operation.EXPIRE)
    async def _expire_what_is_due(self, found: Outlived) -> ExpiryReceipt:
        receipt = await self._erase_outlived(found)
        _log.info("%d expired and %d superseded revisions were erased", receipt.expired, receipt.superseded)
        return receipt

    async def _erase_outlived(self, found: Outlived) -> ExpiryReceipt:
        receipt = ExpiryReceipt(expired=len(found.expired), superseded=len(found.superseded))
        ids = [recorded.id for recorded in (*found.expired, *found.superseded)]
        if not ids:
            return receipt
        erased = await self._backend.eraser().erase((), tenant=self._context.tenant, assertion_ids=ids)
        await self._backend.mirror.let_go()
        return attrs.evolve(receipt, pending=erased.pending)

    async def purge(self, *, dry_run: bool = True, filters: Filters) -> PurgeResult:
        """Erase the records that pass all filters, with all their history; by default, only tell which.

        A record is meant as it is now. One that is not current any more (retracted, expired,
        quarantined) is meant as it was last. There is no way back.

        Args:
            dry_run: erase nothing, and tell what would be.
            filters: which records; see `Filters`.

        Raises:
            InvalidDataError: there is no filter, or one of them is an empty list: either would erase
                more than was meant.
            CapabilityError: the provider cannot erase.
        """
        if not dry_run:
            self._context.check_writable()
        wanted = self._reader.wanted(filters)
        if any(isinstance(item, Collection) and not item for item in filters.values()) or wanted.empty:
            raise InvalidDataError("say what to purge: an empty filter would erase more than is meant")
        records = await self._meant(wanted)
        erased = EraseReceipt(erased=0)
        if records and not dry_run:
            erased = await self._erase(records)
        return PurgeResult(records=tuple(records), dry_run=dry_run, erased=erased)

    async def _meant(self, wanted: RecallFilter) -> list[FactRecord[Any]]:
        """Return the records that an erasure means: each as it is now, or else as it was last."""
        log, moment = await self._reader.log(LogPart(kept=wanted, related=True)), self._context.moment

        def select() -> list[FactRecord[Any]]:
            shown = {recorded.record_id: (recorded, state) for recorded, state in revisions(log, moment)}
            states = states_of(log)
            for row in fold(log, moment):
                shown[row.recorded.record_id] = (row.recorded, states[row.recorded.id])
            meant = [(recorded, state) for recorded, state in shown.values() if wanted.keeps(recorded)]
            meant.sort(key=lambda pair: said_order(pair[0]))
            return [record_of(recorded, _undeclared(recorded.assertion), state=state) for recorded, state in meant]

        return await to_thread.run_sync(select)

    async def _erase(self, records: Sequence[FactRecord[Any]]) -> EraseReceipt:
        """Erase records, and the words they were found in that are left of them in the journal."""
        ids = {record.id for record in records}
        named = await self._reader.log(LogPart(record_ids=ids))
        errands = await self._reader.log(LogPart(errands=True))
        words = await to_thread.run_sync(words_behind, [*named, *errands], ids)
        receipt = await self._backend.eraser().erase(
            [record.id for record in records],
            tenant=self._context.tenant,
            assertion_ids=[recorded.id for recorded in words],
        )
        await self._backend.mirror.let_go()
        return receipt


def _undeclared(said: Assertion) -> Concept[Any, Any] | None:
    """How to read an assertion whatever it says; the removal of a SINGLE says no value."""
    if not said.removed:
        return None
    kind = SingleConcept if said.fact_type is FactType.SINGLE else MultipleConcept
    return kind(said.keyword, said.description, value_type=object)
