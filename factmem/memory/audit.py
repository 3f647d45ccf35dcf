"""Audit trail: the actions on every assertion, with actor, time and reason."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

import attrs
from anyio import to_thread

from factmem.details import Origin
from factmem.errors import RecordNotFoundError
from factmem.facts import Concept
from factmem.memory.reader import LogListing, ReadingPart
from factmem.recall import RecallFilter
from factmem.recall.index.selection import LogPart
from factmem.records import (
    AssertionState,
    FactRecord,
    LogEntry,
    Recorded,
    StateChange,
    Tombstone,
    as_kept_apart,
    shown_record,
)
from factmem.validators import aware
from factmem.views import UNCONFINED


class AuditAction(enum.Enum):
    """Action on an assertion.

    Attributes:
        RECORDED: Recorded, and counts.
        SET_ASIDE: Recorded in a state that does not count, such as words that were merged into others.
        SUBMITTED: Submitted, and waiting for a model.
        READ: Read by a model, or given up on.
        FAILED: Could not be read by a model.
        QUARANTINED: Quarantined: neither loaded nor recalled until accepted.
        ACCEPTED: Accepted from quarantine: counts from then on.
        REJECTED: Rejected from quarantine.
        RETRACTED: Retracted.
        RESTORED: Restored after a retraction.
        ERASED: Erased: nothing else is known of it, not even the time.
    """

    RECORDED = "recorded"
    SET_ASIDE = "set aside"
    SUBMITTED = "submitted"
    READ = "read"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RETRACTED = "retracted"
    RESTORED = "restored"
    ERASED = "erased"


@attrs.frozen(kw_only=True)
class AuditEntry:
    """One action on one assertion.

    Attributes:
        action: The action.
        seq: Number in the store's one sequence: the order of the actions.
        assertion_id: Id of the assertion.
        at: Time in UTC, by the store's clock; None of an erasure.
        actor: Name of the actor, if they gave one; see `Memory.view`.
        reason: Reason, if the actor gave one.
        record: The assertion as a record (value, source, origin, evidence, flags) in its state at the time; None of an
            erasure. One that was never accepted has the id that it has in `Inbox.quarantine`.
        removed: Whether the assertion removes its value.
    """

    action: AuditAction
    seq: int
    assertion_id: str
    at: dt.datetime | None = None
    actor: str | None = None
    reason: str | None = None
    record: FactRecord[Any] | None = None
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


_MOMENT: Final = attrs.validators.optional(aware)


@attrs.frozen(kw_only=True)
class AuditConditions:
    """Conditions on the actions of a trail; see `Admin.audit`.

    Raises:
        InvalidDataError: A time has no zone.
    """

    ids: Collection[str] = ()
    actions: Collection[AuditAction] = ()
    actors: Collection[str] = ()
    origins: Collection[Origin] = ()
    flagged: bool | None = None
    happened_since: dt.datetime | None = attrs.field(default=None, validator=_MOMENT)
    happened_until: dt.datetime | None = attrs.field(default=None, validator=_MOMENT)
    assertions: RecallFilter

    @property
    def include_erasures(self) -> bool:
        """Whether erasures, of which neither time, place nor record is known, can meet them."""
        unknown = (self.ids, self.origins, self.happened_since, self.happened_until)
        return not any(unknown) and self.flagged is None and self.assertions.empty

    def keeps(self, recorded: Recorded) -> bool:
        """Return whether the actions on an assertion may be listed."""
        details = recorded.assertion.details
        return (
            (not self.ids or recorded.id in self.ids or recorded.record_id in self.ids)
            and (not self.origins or details.origin in self.origins)
            and (self.flagged is None or bool(details.flags) is self.flagged)
            and self.assertions.keeps(recorded)
        )

    def lists(self, entry: AuditEntry) -> bool:
        """Return whether an action on such an assertion, or an erasure, is listed."""
        since, until, at = self.happened_since, self.happened_until, entry.at
        return (
            (not self.actions or entry.action in self.actions)
            and (not self.actors or self._name(entry.actor))
            and (at is None or ((since is None or at >= since) and (until is None or at < until)))
        )

    def _name(self, actor: str | None) -> bool:
        return actor is not None and any(actor == name or actor.startswith(f"{name}:") for name in self.actors)


class AuditTrail(ReadingPart):
    """The actions on the assertions that a view shows."""

    async def page(
        self, conditions: AuditConditions, page: str | None, *, limit: int | None, descending: bool
    ) -> AuditPage:
        """See `Admin.audit`."""
        listing = LogListing(limit=limit, page=page, descending=descending)
        self._context.check_present()
        self._backend.log()
        part = LogPart(kept=None if conditions.assertions.empty else conditions.assertions)
        log = await self._log_of(conditions.ids)
        if conditions.ids:
            assertions, erased = {entry.seq: entry.seq for entry in log}, list[Tombstone]()
        else:
            assertions, erased = await self._reader.actions(part, conditions.happened_since, conditions.happened_until)
        if not conditions.include_erasures or self._context.view != UNCONFINED:
            erased = []

        async def trail(numbers: Collection[int]) -> list[AuditEntry]:
            seqs = {assertions[number] for number in numbers if number in assertions}
            actions = log if conditions.ids else await self._reader.log(attrs.evolve(part, seqs=seqs))
            read = partial(_trail, [*actions, *erased], numbers, conditions, self._context.concepts)
            return await to_thread.run_sync(read)

        numbers = [*assertions, *(entry.seq for entry in erased)]
        entries, next_page = await listing.of(numbers, trail, lambda entry: entry.seq)
        return AuditPage(entries=tuple(entries), next_page=next_page)

    async def _log_of(self, ids: Collection[str]) -> list[LogEntry]:
        """Return the visible log of some records, which may be named by their ids in the quarantine.

        Raises:
            RecordNotFoundError: An id names no visible assertion.
        """
        if not ids:
            return []
        log = self._reader.everybody.log
        found = [*await log(LogPart(record_ids=ids)), *await log(LogPart(ids=ids))]
        known = (id for entry in found if isinstance(entry, Recorded) for id in (entry.id, entry.record_id))
        if missing := set(ids).difference(known):
            raise RecordNotFoundError(
                f"{len(missing)} of the ids name no visible record, or an erased one: see list_records()"
            )
        return list({(entry.seq, type(entry)): entry for entry in found}.values())


def _trail(
    log: Iterable[LogEntry],
    actions: Collection[int],
    conditions: AuditConditions,
    concepts: Mapping[str, Concept[Any, Any]],
) -> list[AuditEntry]:
    """Return those of some actions that meet conditions.

    Args:
        log: The log, in which all changes of each assertion follow it.
        actions: Sequence numbers of the actions.
        conditions: The conditions.
        concepts: Declared concepts by keyword.
    """
    lives: dict[str, _Life] = {}
    entries: list[AuditEntry] = []
    for entry in sorted(log, key=lambda item: item.seq):
        match entry:
            case Recorded(id=id) if conditions.keeps(entry):
                lives[id] = _Life(entry, concepts)
                entries.append(lives[id].began())
            case StateChange(assertion_id=id) if id in lives:
                entries.append(lives[id].changed(entry))
            case Tombstone(assertion_id=id, seq=seq):
                entries.append(AuditEntry(action=AuditAction.ERASED, seq=seq, assertion_id=id))
            case _:
                pass
    return [entry for entry in entries if entry.seq in actions and conditions.lists(entry)]


_ENTERED: Final = {
    AssertionState.PENDING: AuditAction.SUBMITTED,
    AssertionState.FAILED: AuditAction.FAILED,
    AssertionState.QUARANTINED: AuditAction.QUARANTINED,
}
"""Actions by the state that an assertion enters with them, whatever it was before."""


class _Life:
    """State of an assertion at a point of the log."""

    def __init__(self, recorded: Recorded, concepts: Mapping[str, Concept[Any, Any]]) -> None:
        self.recorded = recorded
        self._concepts = concepts
        self.state = recorded.assertion.state
        self.accepted = recorded.assertion.counts(self.state)

    def began(self) -> AuditEntry:
        said = self.recorded.assertion
        actions = {AssertionState.ACTIVE: AuditAction.RECORDED, **_ENTERED}
        action = actions.get(self.state, AuditAction.SET_ASIDE)
        return self._entry(action, self.recorded, said.actor, said.details.labels.get("reason"))

    def changed(self, change: StateChange) -> AuditEntry:
        action = self._action(change.state)
        self.state = change.state
        waits_again = change.state is AssertionState.QUARANTINED
        self.accepted = not waits_again and (self.accepted or self.recorded.assertion.counts(change.state))
        return self._entry(action, change, change.actor, change.reason)

    def _entry(
        self, action: AuditAction, event: Recorded | StateChange, actor: str | None, reason: str | None
    ) -> AuditEntry:
        if self.accepted:
            record = shown_record(self.recorded, self._concepts, state=self.state)
        else:
            record = as_kept_apart(self.recorded, self.state, self._concepts)
        return AuditEntry(
            action=action,
            seq=event.seq,
            assertion_id=self.recorded.id,
            at=event.recorded_at,
            actor=actor,
            reason=reason,
            record=record,
            removed=self.recorded.assertion.removed,
        )

    def _action(self, after: AssertionState) -> AuditAction:
        if after in _ENTERED:
            return _ENTERED[after]
        if self.state in (AssertionState.PENDING, AssertionState.FAILED):
            return AuditAction.READ
        if after is AssertionState.RETRACTED:
            return AuditAction.RETRACTED if self.accepted else AuditAction.REJECTED
        return AuditAction.RESTORED if self.accepted else AuditAction.ACCEPTED
