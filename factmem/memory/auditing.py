"""Asking what happened: which fact came from where, when, and who let it in."""

from __future__ import annotations

import abc
import datetime as dt
from collections.abc import Collection
from functools import partial
from typing import Unpack

from anyio import to_thread

from factmem.abc import Access, FeedsChanges
from factmem.errors import InvalidDataError, RecordNotFoundError
from factmem.memory.accesses import keeper_of
from factmem.memory.audit_trail import AuditAction, AuditEntry, AuditPage, page_at, trail
from factmem.memory.filtering import Filters
from factmem.memory.observed import observed
from factmem.memory.waiting import MemoryWaiting
from factmem.records import Origin, Recorded, Tombstone

__all__ = ["MemoryAuditing"]


@observed()
class MemoryAuditing(MemoryWaiting, abc.ABC):
    """Tells what happened to what the viewer may see."""

    async def audit(
        self,
        *ids: str,
        actions: Collection[AuditAction] = (),
        actors: Collection[str] = (),
        origins: Collection[Origin] = (),
        flagged: bool | None = None,
        happened_since: dt.datetime | None = None,
        happened_until: dt.datetime | None = None,
        descending: bool = True,
        size: int = 100,
        page: str | None = None,
        **filters: Unpack[Filters],
    ) -> AuditPage:
        """Return what happened, page by page: what was recorded, quarantined, let in, taken back, by whom and why.

        Of what was erased nothing is left but that something was; that is told where nothing narrows the trail
        to records or scopes, for nobody can say any more whose it was.

        Args:
            ids: only of these records, with all their revisions; what is kept apart goes by its id in `quarantine`.
            actions: only these.
            actors: only what one of these did, by their full names or what comes before a colon, such as ``mcp``.
            origins: only of words of one of these origins.
            flagged: only of what has a flag, or has none.
            happened_since: only what happened at this time or later.
            happened_until: only what happened before this time.
            descending: the newest first.
            size: how many entries a page has.
            page: the page, as the one before it names it.
            filters: only of assertions that pass these; see `Filters`.

        Raises:
            RecordNotFoundError: an id names nothing that is visible.
            InvalidDataError: a filter cannot be met, or there is no such page.
        """
        times = (happened_since, happened_until)
        if any(moment is not None and moment.tzinfo is None for moment in times):
            raise InvalidDataError("the time needs a time zone, for example datetime(2026, 5, 1, tzinfo=UTC)")
        wanted = self._wanted(filters)
        visible = await self._visible_log()
        if missing := {id for id in ids if not any(id in (entry.id, entry.record_id) for entry in visible)}:
            raise RecordNotFoundError(f"{len(missing)} of the ids name nothing that is visible, or it was erased")
        kept = set(actions)

        def passes(recorded: Recorded) -> bool:
            details = recorded.assertion.details
            return (
                (not ids or recorded.id in ids or recorded.record_id in ids)
                and (not origins or details.origin in origins)
                and (flagged is None or bool(details.flags) is flagged)
                and wanted.keeps(recorded)
            )

        def happened(entry: AuditEntry) -> bool:
            return (
                (not kept or entry.action in kept)
                and (not actors or _is_one_of(entry.actor, actors))
                and (happened_since is None or (entry.at is not None and entry.at >= happened_since))
                and (happened_until is None or (entry.at is not None and entry.at < happened_until))
            )

        whole = not (ids or origins or flagged is not None or filters or self._reading.view)

        log = [*await self._mirror.log(), *(await self._erasures() if whole else ())]

        def entries() -> list[AuditEntry]:
            found = trail(log, [recorded for recorded in visible if passes(recorded)], self._reading.concepts)
            return [entry for entry in found if happened(entry)]

        found = await to_thread.run_sync(entries)
        return await to_thread.run_sync(partial(page_at, found, size=size, page=page, descending=descending))

    async def accesses(self, *record_ids: str) -> dict[str, Access]:
        """Return how often records were recalled, and when last; by anybody, for it is no matter of the viewer's own.

        Counted are the results of `recall` and `recall_deeply` in memories that were opened with
        ``access_statistics=True``. What another process has counted and not written yet is missing.

        Args:
            record_ids: which.

        Raises:
            RecordNotFoundError: an id names no record that is current and visible.
            CapabilityError: the provider keeps no such counts.
        """
        keeper, counts = keeper_of(self._writing.provider), self._reading.accesses
        ids = [record.id for record in await self._current(record_ids)]
        written = await keeper.accesses(self._reading.tenant, ids)
        return {id: written.get(id, Access()) + (counts.counted(id) if counts else Access()) for id in ids}

    async def _erasures(self) -> list[Tombstone]:
        """What the store tells of what was erased; the mirror lets go of it."""
        provider = self._writing.provider
        if not isinstance(provider, FeedsChanges):
            return []
        return [entry for entry in await provider.changes(self._reading.tenant) if isinstance(entry, Tombstone)]


def _is_one_of(actor: str | None, wanted: Collection[str]) -> bool:
    return actor is not None and any(actor == name or actor.startswith(f"{name}:") for name in wanted)
