"""Audit trail: the actions on every assertion, with actor, time and reason."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
from anyio import to_thread

from factmem.abc import Access, FeedsChanges
from factmem.errors import InvalidDataError, RecordNotFoundError
from factmem.facts import Concept
from factmem.memory.accesses import keeper_of
from factmem.memory.backend import Backend
from factmem.memory.checks import listed
from factmem.memory.context import Context
from factmem.memory.filters import Filters
from factmem.memory.reader import Reader
from factmem.recall import LogPart, RecallFilter
from factmem.records import AssertionState, FactRecord, LogEntry, Origin, Recorded, StateChange, Tombstone
from factmem.showing import as_kept_apart, shown_record
from factmem.validators import check_aware, check_whole
from factmem.views import UNCONFINED

__all__ = ["Audit", "AuditAction", "AuditEntry", "AuditPage", "page_at", "trail"]


class Audit:
    """Reads the actions on records, and how often records were recalled.

    Args:
        context: Context of the view.
        backend: The store.
    """

    def __init__(self, context: Context, backend: Backend) -> None:
        self._context = context
        self._backend = backend
        self._reader = Reader(context, backend)

    async def page(
        self,
        ids: Collection[str],
        *,
        actions: Collection[AuditAction],
        actors: Collection[str],
        origins: Collection[Origin],
        flagged: bool | None,
        happened_since: dt.datetime | None,
        happened_until: dt.datetime | None,
        descending: bool,
        limit: int | None,
        page: str | None,
        filters: Filters,
    ) -> AuditPage:
        """See `Admin.audit`."""
        self._context.check_present()
        for name, moment in (("happened_since", happened_since), ("happened_until", happened_until)):
            if moment is not None:
                check_aware(moment, name)
        actions, actors = listed("actions", actions, AuditAction), listed("actors", actors, str)
        origins = listed("origins", origins, Origin)
        wanted = self._reader.wanted(filters)
        log = await self._log(ids, wanted if filters else None)
        context = self._context.everybody if ids else self._context
        sees = context.sight_of(wanted).sees

        def seen() -> list[Recorded]:
            return [entry for entry in log if isinstance(entry, Recorded) and sees(entry.assertion)]

        visible = await to_thread.run_sync(seen)
        if missing := {id for id in ids if not any(id in (entry.id, entry.record_id) for entry in visible)}:
            raise RecordNotFoundError(f"{len(missing)} of the ids name no visible assertion, or an erased one")

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
                (not actions or entry.action in actions)
                and (not actors or _is_one_of(entry.actor, actors))
                and (happened_since is None or (entry.at is not None and entry.at >= happened_since))
                and (happened_until is None or (entry.at is not None and entry.at < happened_until))
            )

        whole = not (ids or origins or flagged is not None or filters or self._context.view != UNCONFINED)

        erased = await self._erasures() if whole else ()

        def entries() -> list[AuditEntry]:
            meant = [recorded for recorded in visible if passes(recorded)]
            found = trail([*log, *erased], meant, self._context.concepts)
            return [entry for entry in found if happened(entry)]

        found = await to_thread.run_sync(entries)
        return await to_thread.run_sync(partial(page_at, found, limit=limit, page=page, descending=descending))

    async def accesses(self, record_ids: Collection[str]) -> dict[str, Access]:
        """See `Admin.accesses`."""
        self._context.check_present()
        keeper, counts = keeper_of(self._backend.provider), self._backend.accesses
        ids = [record.id for record in await self._reader.current(record_ids)]
        written = await keeper.accesses(self._context.tenant, ids)
        return {id: written.get(id, Access()) + (counts.counted(id) if counts else Access()) for id in ids}

    async def _log(self, ids: Collection[str], wanted: RecallFilter | None) -> Sequence[LogEntry]:
        """Return what the log has on some records, which may be named by their ids in the quarantine.

        Args:
            ids: Their ids; all records if empty.
            wanted: A filter of all records.
        """
        log = self._backend.mirror.log
        if not ids:
            return await log(LogPart(kept=wanted))
        found = [*await log(LogPart(record_ids=ids)), *await log(LogPart(ids=ids))]
        return list({(entry.seq, type(entry)): entry for entry in found}.values())

    async def _erasures(self) -> list[Tombstone]:
        """Return the tombstones of the store; the mirror has none."""
        provider = self._backend.provider
        if not isinstance(provider, FeedsChanges):
            return []
        return [entry for entry in await provider.changes(self._context.tenant) if isinstance(entry, Tombstone)]


def _is_one_of(actor: str | None, wanted: Collection[str]) -> bool:
    return actor is not None and any(actor == name or actor.startswith(f"{name}:") for name in wanted)


class AuditAction(enum.Enum):
    """Action on an assertion."""

    RECORDED = "recorded"
    """Recorded, and counts."""
    SET_ASIDE = "set aside"
    """Recorded in a state that does not count, such as words that were merged into others."""
    SUBMITTED = "submitted"
    """Submitted, and waiting for a model."""
    READ = "read"
    """Read by a model, or given up on."""
    FAILED = "failed"
    """Could not be read by a model."""
    QUARANTINED = "quarantined"
    """Quarantined: neither loaded nor recalled until accepted."""
    ACCEPTED = "accepted"
    """Accepted from quarantine: counts from then on."""
    REJECTED = "rejected"
    """Rejected from quarantine."""
    RETRACTED = "retracted"
    """Retracted."""
    RESTORED = "restored"
    """Restored after a retraction."""
    ERASED = "erased"
    """Erased: nothing else is known of it, not even the time."""


@attrs.frozen(kw_only=True)
class AuditEntry:
    """One action on one assertion.

    Attributes:
        action: The action.
        seq: Number in the store's one sequence: the order of the actions.
        at: Time in UTC, by the store's clock; None of an erasure.
        actor: Name of the actor, if they gave one; see `Memory.view`.
        reason: Reason, if the actor gave one.
        assertion_id: Id of the assertion.
        record: The assertion as a record (value, source, origin, evidence, flags) in its state at the time; None of an
            erasure. One that was never accepted has the id that it has in `Inbox.quarantine`.
        removed: Whether the assertion removes its value.
    """

    action: AuditAction
    seq: int
    at: dt.datetime | None
    actor: str | None
    reason: str | None
    assertion_id: str
    record: FactRecord[Any] | None
    removed: bool = False


@attrs.frozen(kw_only=True)
class AuditPage:
    """One page of an audit trail.

    Attributes:
        entries: The actions.
        next_page: Token of the next page; None after the last one.
    """

    entries: tuple[AuditEntry, ...]
    next_page: str | None


def trail(
    log: Sequence[LogEntry], meant: Collection[Recorded], concepts: Mapping[str, Concept[Any, Any]]
) -> list[AuditEntry]:
    """Return the actions on some assertions, in order.

    Args:
        log: The log, with changes of state.
        meant: The assertions. Erasures are listed as well: they do not name an owner or a place.
        concepts: Declared concepts by keyword.
    """
    lives = {recorded.id: _Life(recorded) for recorded in meant}
    entries: list[AuditEntry] = []
    for entry in sorted(log, key=lambda item: item.seq):
        match entry:
            case Recorded(id=id) if id in lives:
                entries.append(lives[id].began(concepts))
            case StateChange(assertion_id=id) if id in lives:
                entries.append(lives[id].changed(entry, concepts))
            case Tombstone(assertion_id=id, seq=seq):
                entries.append(
                    AuditEntry(
                        action=AuditAction.ERASED,
                        seq=seq,
                        at=None,
                        actor=None,
                        reason=None,
                        assertion_id=id,
                        record=None,
                    )
                )
            case _:
                pass
    return entries


class _Life:
    """State of an assertion at a point of the log."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self.state = recorded.assertion.state
        self.accepted = recorded.assertion.counts(self.state)

    def began(self, concepts: Mapping[str, Concept[Any, Any]]) -> AuditEntry:
        actions = {
            AssertionState.ACTIVE: AuditAction.RECORDED,
            AssertionState.PENDING: AuditAction.SUBMITTED,
            AssertionState.FAILED: AuditAction.FAILED,
            AssertionState.QUARANTINED: AuditAction.QUARANTINED,
        }
        said = self.recorded.assertion
        return AuditEntry(
            action=actions.get(self.state, AuditAction.SET_ASIDE),
            seq=self.recorded.seq,
            at=self.recorded.recorded_at,
            actor=said.actor,
            reason=said.details.labels.get("reason"),
            assertion_id=self.recorded.id,
            record=self._record(concepts),
            removed=said.removed,
        )

    def changed(self, change: StateChange, concepts: Mapping[str, Concept[Any, Any]]) -> AuditEntry:
        action = self._action(change.state)
        self.state = change.state
        self.accepted = self.accepted or self.recorded.assertion.counts(change.state)
        return AuditEntry(
            action=action,
            seq=change.seq,
            at=change.recorded_at,
            actor=change.actor,
            reason=change.reason,
            assertion_id=self.recorded.id,
            record=self._record(concepts),
            removed=self.recorded.assertion.removed,
        )

    def _action(self, after: AssertionState) -> AuditAction:
        waited = self.state in (AssertionState.PENDING, AssertionState.FAILED)
        match after:
            case AssertionState.PENDING:
                return AuditAction.SUBMITTED
            case AssertionState.FAILED:
                return AuditAction.FAILED
            case AssertionState.QUARANTINED:
                return AuditAction.QUARANTINED
            case AssertionState.RETRACTED if waited:
                return AuditAction.READ
            case AssertionState.RETRACTED:
                return AuditAction.RETRACTED if self.accepted else AuditAction.REJECTED
            case _ if waited:
                return AuditAction.READ
            case _:
                return AuditAction.RESTORED if self.accepted else AuditAction.ACCEPTED

    def _record(self, concepts: Mapping[str, Concept[Any, Any]]) -> FactRecord[Any]:
        if not self.accepted:
            return as_kept_apart(self.recorded, self.state, concepts)
        return shown_record(self.recorded, concepts, state=self.state)


def page_at(entries: Sequence[AuditEntry], *, limit: int | None, page: str | None, descending: bool) -> AuditPage:
    """Return one page of a trail.

    Args:
        entries: All entries, in order.
        limit: Maximum number of entries per page; None for all.
        page: Token of the page; None for the first.
        descending: Newest first.

    Raises:
        InvalidDataError: The limit is not positive, or there is no such page.
    """
    if limit is not None:
        check_whole(limit, "limit", least=1)
    ordered = list(reversed(entries)) if descending else list(entries)
    if page is not None:
        if not (isinstance(page, str) and page.isascii() and page.isdecimal() and len(page) < 20):
            raise InvalidDataError(
                "this page token is not from an audit trail: pass the next_page of the previous page", path="$.page"
            )
        last = int(page)
        ordered = [entry for entry in ordered if (entry.seq < last if descending else entry.seq > last)]
    taken = ordered[:limit]
    return AuditPage(entries=tuple(taken), next_page=str(taken[-1].seq) if len(taken) < len(ordered) else None)
