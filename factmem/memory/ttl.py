"""Times to live: the policy, the expiry of new revisions, and the revisions that have outlived their time."""

from __future__ import annotations

import datetime as dt
import enum
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from factmem.errors import InvalidDataError
from factmem.fold import Moment, has_expired, record_key, said_order, states_of
from factmem.records import AssertionState, LogEntry, Recorded
from factmem.values import canonical_bytes

__all__ = ["ExpiryReceipt", "Outlived", "TtlOperation", "TtlPolicy", "after", "expires_at", "outlived"]


class TtlOperation(enum.Enum):
    """Operation that creates a revision. GENERATE_CREATED and GENERATE_UPDATED are results of a model's reading."""

    CREATE = "create"
    UPDATE = "update"
    GENERATE_CREATED = "generate_created"
    GENERATE_UPDATED = "generate_updated"


def _positive(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None and (not isinstance(value, dt.timedelta) or value <= dt.timedelta(0)):
        raise InvalidDataError(f"{attribute.name} must be a timedelta greater than 0", path=f"$.{attribute.name}")


@attrs.frozen(kw_only=True)
class TtlPolicy:
    """Times to live, by the operation that creates a revision; without any, memories last for ever.

    Whoever creates or updates a memory sets its expiry anew: the present plus the time to live. An
    operation that has a time of its own goes by that, any other one by ``default``; without a default
    the others leave the expiry as it is. (Memory Bank takes either a default or times for single
    operations, which its pages call ``granular_ttl`` and its SDK ``granular_ttl_config``; here they are
    fields of one policy, which means the same for either and has a meaning for both.) An expiry that
    the caller gives always stands.

    Attributes:
        default: of every operation that has none of its own.
        create: of what is saved.
        generate_created: of what a model's reading created.
        generate_updated: of what a model's reading updated.
        revisions: of superseded revisions, counted from when they were recorded; they are kept for ever
            if None.

    Raises:
        InvalidDataError: a time is not greater than 0.
    """

    default: dt.timedelta | None = attrs.field(default=None, validator=_positive)
    create: dt.timedelta | None = attrs.field(default=None, validator=_positive)
    generate_created: dt.timedelta | None = attrs.field(default=None, validator=_positive)
    generate_updated: dt.timedelta | None = attrs.field(default=None, validator=_positive)
    revisions: dt.timedelta | None = attrs.field(default=None, validator=_positive)

    def of(self, operation: TtlOperation) -> dt.timedelta | None:
        """Return the time to live that an operation gives; None to leave the expiry as it is."""
        match operation:
            case TtlOperation.CREATE:
                own = self.create
            case TtlOperation.GENERATE_CREATED:
                own = self.generate_created
            case TtlOperation.GENERATE_UPDATED:
                own = self.generate_updated
            case TtlOperation.UPDATE:
                own = None
        return own or self.default


def expires_at(
    policy: TtlPolicy, operation: TtlOperation, now: dt.datetime, given: dt.datetime | None = None
) -> dt.datetime | None:
    """Return when a memory expires that an operation brings about now; None to leave its expiry as it is.

    Args:
        policy: the times to live.
        operation: what brings it about.
        now: the present.
        given: what the caller said, which stands.
    """
    if given is not None:
        return given
    ttl = policy.of(operation)
    return None if ttl is None else after(now, ttl)


def after(now: dt.datetime, ttl: dt.timedelta) -> dt.datetime:
    """Return the end of a time to live that starts now.

    Raises:
        InvalidDataError: it is not greater than 0, or ends after the last year that there is.
    """
    if not isinstance(ttl, dt.timedelta) or ttl <= dt.timedelta(0):
        raise InvalidDataError("ttl must be a timedelta greater than 0", path="$.ttl")
    try:
        return now + ttl
    except OverflowError:
        raise InvalidDataError("ttl ends after the year 9999: leave it out to keep for ever", path="$.ttl") from None


@attrs.frozen(kw_only=True)
class ExpiryReceipt:
    """Result of `Memory.expire`.

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
    """Return what has outlived its time. That it is erased changes nothing about what is current, ever.

    Args:
        log: entries of any number of places, in any order.
        now: the present.
        revisions: how old a superseded revision may be; of any age if None.
    """
    entries = list(log)
    states = states_of(entries)
    records: dict[tuple[object, ...], list[Recorded]] = defaultdict(list)
    for entry in sorted((entry for entry in entries if isinstance(entry, Recorded)), key=said_order):
        if entry.id in states:
            records[record_key(entry)].append(entry)
    expired: list[Recorded] = []
    superseded: list[Recorded] = []
    for said in records.values():
        counting = [item for item in said if item.assertion.counts(states[item.id])]
        gone = {item.id for item in _expired(said, counting, states, Moment(now=now))}
        expired += [item for item in said if item.id in gone]
        if revisions is not None:
            left = [item for item in counting if item.id not in gone]
            old = (item for item in _superseded(left) if now - item.recorded_at > revisions)
            superseded += [item for item in old if states[item.id] is AssertionState.ACTIVE]
    return Outlived(expired=tuple(expired), superseded=tuple(superseded))


def _expired(
    said: Sequence[Recorded], counting: Sequence[Recorded], states: dict[str, AssertionState], moment: Moment
) -> list[Recorded]:
    """Return the expired revisions of a record in any state, and those before an expired update."""
    ends = [item for item in counting if item.assertion.revises is not None and has_expired(item.assertion, moment)]
    last = said_order(ends[-1]) if ends else None
    return [
        item
        for item in said
        if has_expired(item.assertion, moment)
        or (last is not None and said_order(item) < last and states[item.id] is not AssertionState.QUARANTINED)
    ]


def _superseded(counting: Sequence[Recorded]) -> list[Recorded]:
    """Return the revisions of a record that nothing needs: neither as evidence nor when a later one expires."""
    if not counting:
        return []
    lasting = [place for place, item in enumerate(counting) if _lasts(item)]
    below = counting[: lasting[-1]] if lasting else ()
    newest = counting[-1]
    value = None if newest.assertion.removed else canonical_bytes(newest.assertion.data)
    same = [item for item in counting if value is not None and _says(item, value)]
    # An update takes over the evidence of what it revises.
    updated = max((item.seq for item in same if item.assertion.revises is not None), default=0)
    needed = {item.id for item in same if item.seq >= updated}
    return [item for item in below if item.id not in needed]


def _lasts(item: Recorded) -> bool:
    """Whether what this supersedes stays superseded."""
    return item.assertion.details.expires_at is None or item.assertion.revises is not None


def _says(item: Recorded, value: bytes) -> bool:
    return not item.assertion.removed and canonical_bytes(item.assertion.data) == value
