"""Quarantine: assertions that wait for a decision of people."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Unpack

import attrs

from factmem.changes import Change, ChangeKind
from factmem.errors import RecordNotFoundError
from factmem.memory.background import Remembered
from factmem.memory.filters import Filters, RecordPage, ids_of
from factmem.memory.journal import wish_in
from factmem.memory.operations import observed
from factmem.memory.pipeline import PipelinePart
from factmem.memory.reader import LogListing, in_time
from factmem.recall.index.selection import LogPart
from factmem.records import AssertionState, FactRecord, Recorded, as_kept_apart, shown_record


@observed("quarantine.")
class Quarantine(PipelinePart):
    """Quarantined assertions, which are neither loaded, recalled nor counted until accepted. See `Inbox.quarantine`.

    A planted assertion may claim to revise a record of the user. Therefore, an entry has a separate id, which is valid
    only inside the quarantine.
    """

    async def list(
        self,
        *,
        rejected: bool = False,
        limit: int | None = None,
        page: str | None = None,
        descending: bool = False,
        **filters: Unpack[Filters],
    ) -> RecordPage:
        """Return the quarantined assertions, in the order recorded, all of them or page by page.

        Each assertion has its evidence, its origin and a `FactRecord.quarantine_reason`. Decisions between two pages do
        not shift the pages.

        Args:
            rejected: Return the rejected assertions instead.
            limit: Maximum number of assertions.
            page: `RecordPage.next_page` of the previous page; None for the first page.
            descending: Newest first.
            filters: Conditions on the assertions; see `Filters`. Use the same ones for every page.

        Raises:
            InvalidDataError: A condition cannot be met, the limit is below 1, or there is no such page.
        """
        listing = LogListing(limit=limit, page=page, descending=descending)
        part = self._part(filters, rejected=rejected)

        async def records(numbers: Collection[int]) -> Sequence[FactRecord[Any]]:
            entries = await self._reader.quarantined(attrs.evolve(part, seqs=numbers))
            return await in_time(lambda: [self._record(*entry) for entry in entries], len(entries))

        actions, _ = await self._reader.actions(part, None, None)
        found, next_page = await listing.of(set(actions.values()), records, lambda record: record.revision)
        return RecordPage(found, next_page=next_page)

    async def count(self, **filters: Unpack[Filters]) -> int:
        """Return the number of visible statements that wait to be accepted or rejected, quickly.

        Without conditions, it includes words of untrusted origins that wait for a model, which are not in `list` yet.

        Args:
            filters: Conditions on the assertions; see `Filters`.

        Raises:
            InvalidDataError: A condition cannot be met.
        """
        part = self._part(filters)
        if not filters:
            return await self._reader.waiting()
        actions, _ = await self._reader.actions(part, None, None)
        return len(set(actions.values()))

    def _part(self, filters: Filters, *, rejected: bool = False) -> LogPart:
        """Return the part of the log that is listed."""
        self._context.check_present()
        state = AssertionState.RETRACTED if rejected else AssertionState.QUARANTINED
        return LogPart(apart=True, states=[state], kept=self._reader.wanted(filters))

    async def accept(self, *ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Accept entries in one transaction, also rejected ones: they become facts like any other.

        `Memory.undo` of the changes lets them wait again.

        Later doubtful findings of the same value at the same place are believed at once.

        A change is UNCHANGED, and its record SUPERSEDED, if a newer value is current, or the words have expired.

        A wish to forget is carried out, after the other entries are accepted: what it takes back follows its own
        change, as DELETED. If it still means nothing known, its change is UNCHANGED, and it waits on, or stays
        rejected. Which statements a wish in words means, the consolidator decides; if it fails, the wish is UNCHANGED.

        Args:
            ids: Ids from `list`, or of quarantined records that `Memory.save` and others return.
            reason: The reason, for the audit trail.

        Raises:
            RecordNotFoundError: An id names no quarantined assertion; none was accepted.
            ConceptConflictError: The place holds another type under its keyword; none was accepted. The error names the
                entry.
            StateConflictError: Another reviewer decided about an entry meanwhile; none was accepted.
            ModelError: The consolidator failed to say what a wish to forget means, and nothing was accepted before it.
            ReadOnlyError: The memory is read-only.
        """
        entries = await self._chosen(ids)
        wishes = {it.id: wish for it, _ in entries if (wish := wish_in(it, self._context.concepts)) is not None}
        others = [(it, state) for it, state in entries if it.id not in wishes]
        done = await self._decide(others, AssertionState.ACTIVE, reason) if others else ()
        for it, state in entries:
            if it.id in wishes:
                wish = attrs.evolve(wishes[it.id], reason=reason or "accepted", before=state)
                (outcome,) = await self._pipeline.process([wish])
                if isinstance(outcome, Remembered):
                    changes = outcome.changes
                elif done:  # an error would hide what was accepted
                    changes = ()
                else:
                    raise outcome
                left = self._record(it, state)
                done += changes or (Change(kind=ChangeKind.UNCHANGED, record=left, previous=left, states_before={}),)
        return done

    async def reject(self, *ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Reject entries in one transaction. They stay in the store, out of sight, and can still be accepted.

        `Memory.undo` of the changes lets them wait again.

        Later doubtful findings of the same value at the same place are dropped.

        Args:
            ids: Ids, as `list` returns them.
            reason: The reason, for the audit trail.

        Raises:
            RecordNotFoundError: An id names no quarantined assertion; none was rejected.
            StateConflictError: Another reviewer decided about an entry meanwhile; none was rejected.
            ReadOnlyError: The memory is read-only.
        """
        return await self._decide(await self._chosen(ids), AssertionState.RETRACTED, reason)

    async def _chosen(self, ids: Sequence[str]) -> Sequence[tuple[Recorded, AssertionState]]:
        """Return the entries with some ids, and their states."""
        self._context.check_present()
        self._context.check_writable()
        wanted = ids_of(ids)
        found = {it[0].id: it for it in await self._reader.everybody.quarantined(LogPart(ids=wanted))}
        if missing := wanted.keys() - found.keys():
            raise RecordNotFoundError(f"{len(missing)} of the ids name no quarantined record: see list()")
        return [found[id] for id in wanted]

    async def _decide(
        self, entries: Sequence[tuple[Recorded, AssertionState]], state: AssertionState, reason: str | None
    ) -> tuple[Change, ...]:
        chosen, believed = [entry for entry, _ in entries], state is AssertionState.ACTIVE
        kinds = await self._writer.decide(chosen, state, reason)
        return tuple(
            Change(
                kind=kinds[entry.id] if believed else ChangeKind.DELETED,
                record=self._accepted(entry, kinds[entry.id]) if believed else self._record(entry, state),
                previous=self._record(entry, AssertionState.QUARANTINED),
                states_before={entry.seq: AssertionState.QUARANTINED},
            )
            for entry in chosen
        )

    def _accepted(self, entry: Recorded, kind: ChangeKind) -> FactRecord[Any]:
        state = AssertionState.SUPERSEDED if kind is ChangeKind.UNCHANGED else AssertionState.ACTIVE
        return shown_record(entry, self._context.concepts, state=state)

    def _record(self, entry: Recorded, state: AssertionState) -> FactRecord[Any]:
        return as_kept_apart(entry, state, self._context.concepts)
