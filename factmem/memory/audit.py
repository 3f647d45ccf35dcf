"""Audit trail: the actions on every assertion, with actor, time and reason."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import attrs

from factmem.errors import InvalidDataError
from factmem.facts import Concept
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


def is_one_of(actor: str | None, wanted: Collection[str]) -> bool:
    """Return whether an actor is one of some, by full name or by the part before a colon."""
    return actor is not None and any(actor == name or actor.startswith(f"{name}:") for name in wanted)


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


def trail(
    log: Sequence[LogEntry], meant: Collection[Recorded], concepts: Mapping[str, Concept[Any, Any]]
) -> list[AuditEntry]:
    """Return the actions on some assertions, in order.

    Args:
        log: The log, with changes of state.
        meant: The assertions. Erasures are listed as well: they do not name an owner or a place.
        concepts: Declared concepts by keyword.
    """
    lives = {recorded.id: _Life(recorded, concepts) for recorded in meant}
    entries: list[AuditEntry] = []
    for entry in sorted(log, key=lambda item: item.seq):
        match entry:
            case Recorded(id=id) if id in lives:
                entries.append(lives[id].began())
            case StateChange(assertion_id=id) if id in lives:
                entries.append(lives[id].changed(entry))
            case Tombstone(assertion_id=id, seq=seq):
                entries.append(AuditEntry(action=AuditAction.ERASED, seq=seq, assertion_id=id))
            case _:
                pass
    return entries


class _Life:
    """State of an assertion at a point of the log."""

    def __init__(self, recorded: Recorded, concepts: Mapping[str, Concept[Any, Any]]) -> None:
        self.recorded = recorded
        self._concepts = concepts
        self.state = recorded.assertion.state
        self.accepted = recorded.assertion.counts(self.state)

    def began(self) -> AuditEntry:
        actions = {
            AssertionState.ACTIVE: AuditAction.RECORDED,
            AssertionState.PENDING: AuditAction.SUBMITTED,
            AssertionState.FAILED: AuditAction.FAILED,
            AssertionState.QUARANTINED: AuditAction.QUARANTINED,
        }
        said, action = self.recorded.assertion, actions.get(self.state, AuditAction.SET_ASIDE)
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


def actions_from(page: str | None, actions: Iterable[int], *, descending: bool) -> list[int]:
    """Return the sequence numbers of the actions of a page and of all after it, in order.

    Args:
        page: Token of the page; None for the first.
        actions: The sequence numbers of all actions.
        descending: Newest first.

    Raises:
        InvalidDataError: There is no such page.
    """
    ordered = sorted(actions, reverse=descending)
    if page is None:
        return ordered
    if not (isinstance(page, str) and page.isascii() and page.isdecimal() and len(page) < 20):
        raise InvalidDataError(
            "this page token is not from an audit trail: pass the next_page of the previous page", path="$.page"
        )
    last = int(page)
    return [number for number in ordered if (number < last if descending else number > last)]


async def page_of(
    actions: Sequence[int],
    read: Callable[[Collection[int]], Awaitable[Iterable[AuditEntry]]],
    *,
    limit: int | None,
    at_once: bool,
) -> AuditPage:
    """Return a page of the entries that are read of some actions; of what few of them pass, ever more is read.

    Args:
        actions: The sequence numbers of the actions, in order.
        read: Returns the entries of some of them that pass the caller's conditions.
        limit: Maximum number of entries; None for all.
        at_once: Whether reading all costs no more than reading some.
    """
    place = {action: number for number, action in enumerate(actions)}
    found: list[AuditEntry] = []
    start, size = 0, len(actions) if limit is None or at_once else limit + 1
    while start < len(actions) and (limit is None or len(found) <= limit):
        some = set(actions[start : start + size])
        found += sorted(await read(some), key=lambda entry: place[entry.seq])
        start, size = start + size, 2 * size
    taken = tuple(found[:limit])
    return AuditPage(entries=taken, next_page=str(taken[-1].seq) if len(taken) < len(found) else None)
