"""A capability: counting how often records are recalled, beside the facts and never among them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable

import attrs

from factmem.errors import InvalidDataError
from factmem.validators import instance_of

__all__ = ["Access", "KeepsAccesses"]


@attrs.frozen(kw_only=True)
class Access:
    """How often a record was recalled.

    Attributes:
        count: how often.
        last: when last, in UTC; None if never.

    Raises:
        InvalidDataError: the count is negative, or there is a count without a time, or a time without a count.
    """

    count: int = attrs.field(default=0, validator=instance_of(int))
    last: dt.datetime | None = None

    def __attrs_post_init__(self) -> None:
        if self.count < 0 or (self.last is None) != (self.count == 0):
            raise InvalidDataError("what was recalled has a count and a time of the last one; what was not has neither")

    def __add__(self, other: Access) -> Access:
        """Return both together: the counts add up, and the later time stands."""
        times = [time for time in (self.last, other.last) if time is not None]
        return Access(count=self.count + other.count, last=max(times, default=None))


@runtime_checkable
class KeepsAccesses(Protocol):
    """Keeps how often records were recalled. It makes no revision and no entry of the log, and `version` stays."""

    async def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """Add to what is known of records, by id; what several processes add sums up.

        Ids that name no record of this tenant are passed over: what was erased meanwhile does not come back.
        When `Erases.erase` takes the last assertion of a record, what is kept here of it goes with it.

        Args:
            tenant: whose records.
            accesses: what came to each.

        Raises:
            StoreUnavailableError: it could not be written.
        """
        ...

    async def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """Return what is known of records of a tenant, by id; those of which nothing is known are left out.

        Args:
            tenant: whose records.
            record_ids: which.
        """
        ...
