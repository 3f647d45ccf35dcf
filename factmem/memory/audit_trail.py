"""The audit trail: what happened to every assertion, who brought it about, when and why. Pure."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.memory.quarantine import as_kept_apart
from factmem.records import AssertionState, FactRecord, LogEntry, Recorded, StateChange, Tombstone
from factmem.showing import shown_record

__all__ = ["AuditAction", "AuditEntry", "AuditPage", "page_at", "trail"]


class AuditAction(enum.Enum):
    """What happened to an assertion."""

    RECORDED = "recorded"
    """It was recorded, and counts."""
    SET_ASIDE = "set aside"
    """It was recorded as something that does not count any more, such as words that were merged into others."""
    HANDED_OVER = "handed over"
    """It waits for a model to read it."""
    READ = "read"
    """A model has read it, or nobody will any more."""
    FAILED = "failed"
    """A model could not read it."""
    QUARANTINED = "quarantined"
    """It is kept apart: nobody hears of it until it is let in."""
    LET_IN = "let in"
    """Somebody let it in from quarantine: it counts from then on."""
    TURNED_AWAY = "turned away"
    """Somebody turned it away from quarantine."""
    RETRACTED = "retracted"
    """It was taken back."""
    RESTORED = "restored"
    """What was taken back counts again."""
    ERASED = "erased"
    """It was erased: nothing else is known of it any more, not even when."""


@attrs.frozen(kw_only=True)
class AuditEntry:
    """One thing that happened.

    Attributes:
        action: what.
        seq: its number in the store's one sequence: the order in which things happened.
        at: when, in UTC, by the store's clock; None of an erasure.
        actor: who did it, as far as they said: see `Memory.acting_as`.
        reason: why, as far as they said.
        assertion_id: to which assertion.
        record: what that says and where it came from (source, origin, evidence, flags), with the state that it had
            then; None of an erasure. What was never let in goes by the id that `Memory.quarantine` has for it.
        removed: whether it says that the value is no more.
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
        entries: what happened.
        next_page: hand this in to get the page after this one; None after the last.
    """

    entries: tuple[AuditEntry, ...]
    next_page: str | None


def trail(
    log: Sequence[LogEntry], meant: Collection[Recorded], concepts: Mapping[str, Concept[Any, Any]]
) -> list[AuditEntry]:
    """Return what happened to some assertions, in order.

    Args:
        log: where it stands, with the changes of their states.
        meant: the assertions; what happened to any other is left out, but for erasures: these do not say any more
            whose or where they were.
        concepts: the declared concepts by keyword.
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
    """How an assertion stands, as far as the log was read."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self.state = recorded.assertion.state
        self.let_in = recorded.assertion.counts(self.state)

    def began(self, concepts: Mapping[str, Concept[Any, Any]]) -> AuditEntry:
        actions = {
            AssertionState.ACTIVE: AuditAction.RECORDED,
            AssertionState.PENDING: AuditAction.HANDED_OVER,
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
        self.let_in = self.let_in or self.recorded.assertion.counts(change.state)
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
                return AuditAction.HANDED_OVER
            case AssertionState.FAILED:
                return AuditAction.FAILED
            case AssertionState.QUARANTINED:
                return AuditAction.QUARANTINED
            case AssertionState.RETRACTED if waited:
                return AuditAction.READ
            case AssertionState.RETRACTED:
                return AuditAction.RETRACTED if self.let_in else AuditAction.TURNED_AWAY
            case _ if waited:
                return AuditAction.READ
            case _:
                return AuditAction.RESTORED if self.let_in else AuditAction.LET_IN

    def _record(self, concepts: Mapping[str, Concept[Any, Any]]) -> FactRecord[Any]:
        if not self.let_in:
            return as_kept_apart(self.recorded, self.state, concepts)
        return shown_record(self.recorded, concepts, state=self.state)


def page_at(entries: Sequence[AuditEntry], *, size: int, page: str | None, descending: bool) -> AuditPage:
    """Return one page of a trail.

    Args:
        entries: all of it, in order.
        size: how many entries a page has.
        page: the page; None for the first.
        descending: the newest first.

    Raises:
        InvalidDataError: the size is no positive number, or there is no such page.
    """
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InvalidDataError("the size of a page must be a whole number from 1 on", path="$.size")
    ordered = list(reversed(entries)) if descending else list(entries)
    if page is not None:
        if not (isinstance(page, str) and page.isascii() and page.isdecimal() and len(page) < 20):
            raise InvalidDataError("this is no page of an audit trail: hand in its next_page", path="$.page")
        last = int(page)
        ordered = [entry for entry in ordered if (entry.seq < last if descending else entry.seq > last)]
    taken = ordered[:size]
    return AuditPage(entries=tuple(taken), next_page=str(taken[-1].seq) if len(ordered) > size else None)
