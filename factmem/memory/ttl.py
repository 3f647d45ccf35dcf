"""Times to live: the policy, the expiry of new revisions, and the search for outlived revisions."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from factmem.errors import InvalidDataError
from factmem.fold import Moment, deciding_order, has_expired, record_key, states_of
from factmem.grouping import grouped
from factmem.records import AssertionState, LogEntry, Recorded
from factmem.validators import check_duration, duration
from factmem.values import canonical_bytes


class TtlOperation(enum.Enum):
    """Operation that creates a revision. GENERATE_CREATED and GENERATE_UPDATED are results of a model's reading."""

    CREATE = "create"
    UPDATE = "update"
    GENERATE_CREATED = "generate_created"
    GENERATE_UPDATED = "generate_updated"


_POSITIVE: Final = attrs.validators.optional(duration)


@attrs.frozen(kw_only=True)
class TtlPolicy:
    """Times to live, by the operation that creates a revision; without any, memories never expire.

    Each creation or update sets the expiry anew: the present plus the time to live. An operation with a time of its own
    uses it, any other one ``default``; without a default the others leave the expiry as it is. (Memory Bank takes
    either a default or times for single operations, which its pages call ``granular_ttl`` and its SDK
    ``granular_ttl_config``; here they are fields of one policy and can be combined.) An expiry that the caller gives
    takes precedence.

    Attributes:
        default: Time of every operation without one of its own.
        create: Time of saved facts.
        generate_created: Time of records that a model's reading created.
        generate_updated: Time of records that a model's reading updated.
        revisions: Time of superseded revisions, counted from when they were recorded; kept for ever if None. Revisions
            with a `FactDetails.revision_expires_at` have one of their own.

    Raises:
        InvalidDataError: A time is not greater than 0.
    """

    default: dt.timedelta | None = attrs.field(default=None, validator=_POSITIVE)
    create: dt.timedelta | None = attrs.field(default=None, validator=_POSITIVE)
    generate_created: dt.timedelta | None = attrs.field(default=None, validator=_POSITIVE)
    generate_updated: dt.timedelta | None = attrs.field(default=None, validator=_POSITIVE)
    revisions: dt.timedelta | None = attrs.field(default=None, validator=_POSITIVE)

    def of(self, operation: TtlOperation) -> dt.timedelta | None:
        """Return the time to live of an operation; None to leave the expiry as it is."""
        own: dt.timedelta | None = getattr(self, operation.value, None)  # updates have none of their own
        return own or self.default


def expires_at(
    policy: TtlPolicy,
    operation: TtlOperation,
    now: dt.datetime,
    given: dt.datetime | None = None,
    ttl: dt.timedelta | None = None,
) -> dt.datetime | None:
    """Return the expiry of a memory that an operation creates or updates now; None to leave it as it is.

    Args:
        policy: Times to live.
        operation: Operation that creates the revision.
        now: The present.
        given: Expiry of the caller, which takes precedence.
        ttl: The same, counted from now.

    Raises:
        InvalidDataError: Both an expiry and a ttl are given, or the ttl is not legal; see `after`.
    """
    if given is not None:
        if ttl is not None:
            raise InvalidDataError("give an expiry or a ttl, not both", path="$.ttl")
        return given
    ttl = policy.of(operation) if ttl is None else ttl
    return None if ttl is None else after(now, ttl)


def after(now: dt.datetime, ttl: dt.timedelta, name: str = "ttl") -> dt.datetime:
    """Return the end of a time to live that starts now.

    Args:
        now: The present.
        ttl: The time to live.
        name: The argument's name, for the error.

    Raises:
        InvalidDataError: It is not greater than 0, or ends after the last representable year.
    """
    check_duration(ttl, name)
    try:
        return now + ttl
    except OverflowError:
        raise InvalidDataError(
            f"{name} ends after the year 9999: leave it out to keep for ever", path=f"$.{name}"
        ) from None


@attrs.frozen(kw_only=True)
class ExpiryReceipt:
    """Result of `Admin.expire`.

    Attributes:
        expired: Number of expired revisions, with those that an expired update had revised.
        superseded: Number of superseded revisions that were older than the policy allows.
        pending: Whether another process still holds old bytes (an open WAL); expire again to finish.
    """

    expired: int
    superseded: int
    pending: bool = False

    @property
    def erased(self) -> int:
        """Number of revisions erased, or to be erased."""
        return self.expired + self.superseded


@attrs.frozen(kw_only=True)
class Outlived:
    """Revisions that have outlived their time.

    Attributes:
        expired: Expired revisions, and those that an expired update had revised.
        superseded: Superseded revisions that are too old.
    """

    expired: tuple[Recorded, ...]
    superseded: tuple[Recorded, ...]


def outlived(log: Iterable[LogEntry], now: dt.datetime, revisions: dt.timedelta | None) -> Outlived:
    """Return the outlived revisions. Their erasure never changes the current records.

    Args:
        log: Entries of any number of places, in any order.
        now: The present.
        revisions: Maximum age of superseded revisions that have no `FactDetails.revision_expires_at`; unlimited if
            None.
    """
    entries = list(log)
    states = states_of(entries)
    recorded = sorted((entry for entry in entries if isinstance(entry, Recorded)), key=deciding_order)
    records = grouped((entry for entry in recorded if entry.id in states), record_key)
    expired: list[Recorded] = []
    superseded: list[Recorded] = []
    for said in records.values():
        counting = [item for item in said if item.assertion.counts(states[item.id])]
        gone = {item.id for item in _expired(said, counting, states, Moment(now=now))}
        expired += [item for item in said if item.id in gone]
        left = [item for item in counting if item.id not in gone]
        old = (item for item in _superseded(left) if _too_old(item, now, revisions))
        superseded += [item for item in old if states[item.id] is AssertionState.ACTIVE]
    return Outlived(expired=tuple(expired), superseded=tuple(superseded))


def _expired(
    said: Sequence[Recorded], counting: Sequence[Recorded], states: dict[str, AssertionState], moment: Moment
) -> list[Recorded]:
    """Return the expired revisions of a record in any state, and those that an expired update outranks."""
    ends = [item for item in counting if item.assertion.revises is not None and has_expired(item.assertion, moment)]
    last = deciding_order(ends[-1]) if ends else None
    return [
        item
        for item in said
        if has_expired(item.assertion, moment)
        or (last is not None and deciding_order(item) < last and states[item.id] is not AssertionState.QUARANTINED)
    ]


def _too_old(item: Recorded, now: dt.datetime, revisions: dt.timedelta | None) -> bool:
    """Return whether a superseded revision is older than it may be."""
    end = item.assertion.details.revision_expires_at
    if end is not None:
        return end <= now
    return revisions is not None and now - item.recorded_at > revisions


def _superseded(counting: Sequence[Recorded]) -> list[Recorded]:
    """Return the revisions of a record that nothing needs: neither as evidence nor when all later ones have expired.

    The first revision of the present value is kept as well: it tells since when the value holds.
    """
    if not counting:
        return []
    below: list[Recorded] = []
    last = dt.datetime.min.replace(tzinfo=dt.UTC)
    for item in reversed(counting):
        end = _supersedes_until(item)
        if end <= last:
            below.append(item)
        last = max(last, end)
    newest = counting[-1]
    value = None if newest.assertion.removed else canonical_bytes(newest.assertion.data)
    said = (item for item in counting if not item.assertion.removed)
    same = [item for item in said if canonical_bytes(item.assertion.data) == value]
    # An update takes over the evidence of the revision before.
    updated = max((item.seq for item in same if item.assertion.revises is not None), default=0)
    alike = [item for item in same if item.seq >= updated]
    needed = {item.id for item in alike[:1]}
    needed |= {item.id for item in alike if item.assertion.details.evidence}
    return [item for item in reversed(below) if item.id not in needed]


def _supersedes_until(item: Recorded) -> dt.datetime:
    """Return the end of the time in which earlier revisions are superseded by this one; an update's never ends."""
    end = None if item.assertion.revises is not None else item.assertion.details.expires_at
    return end or dt.datetime.max.replace(tzinfo=dt.UTC)
