"""Capability of counting how often records are recalled."""

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
    """The number of times a record was recalled.

    Attributes:
        count: Number of recalls.
        last: Time of the last recall, in UTC; None if there was none.

    Raises:
        InvalidDataError: The count is negative, or there is a count without a time, or a time without a count.
    """

    count: int = attrs.field(default=0, validator=instance_of(int))
    last: dt.datetime | None = None

    def __attrs_post_init__(self) -> None:
        if self.count < 0 or (self.last is None) != (self.count == 0):
            raise InvalidDataError("give a count of at least 1 with the time of the last access, or neither")

    def __add__(self, other: Access) -> Access:
        """Return the sum of the counts, with the later time."""
        times = [time for time in (self.last, other.last) if time is not None]
        return Access(count=self.count + other.count, last=max(times, default=None))


@runtime_checkable
class KeepsAccesses(Protocol):
    """Keep counts of recalled records. Counts make no revision and no log entry, and do not change `version`."""

    async def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """Add to the counts of records, by id; the additions of several processes sum up.

        Ids that name no record of this tenant are ignored, so that an erased record does not come back. Erasing the
        last assertion of a record erases its count.

        Args:
            tenant: The tenant.
            accesses: Counts to add, by record id.

        Raises:
            StoreUnavailableError: It could not be written.
        """
        ...

    async def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """Return the counts of records of a tenant, by id; records without a count are left out.

        Args:
            tenant: The tenant.
            record_ids: The records.
        """
        ...
