"""Capability of copying logs as they were recorded, from one store to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from factmem.records import LogEntry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CopiesLogs", "LogPart"]


@attrs.frozen(kw_only=True, eq=False)
class LogPart:
    """A part of a tenant's log, with the vectors of its assertions.

    Attributes:
        since: The sequence number that the part begins after.
        until: The sequence number up to which it is complete; ``since`` if there is nothing more.
        entries: The entries after ``since``, up to ``until``, in order.
        vectors: Vectors of length 1 of its assertions, by sequence number, as far as there are any.
    """

    since: int
    until: int
    entries: Sequence[LogEntry]
    vectors: Mapping[int, NDArray[np.float32]] = attrs.field(factory=dict, repr=False)


@runtime_checkable
class CopiesLogs(Protocol):
    """Returns logs in parts, and takes parts of another store's log with its ids, numbers and times.

    A tenant whose log is being taken is an *unfinished copy*, from `begin_copy` to `end_copy`, in every process and
    after a kill. A `Memory` refuses to open an unfinished copy. The verbs do not look at the mark; who writes with them
    meanwhile makes `put_log_part` fail.
    """

    async def tenants(self) -> Sequence[str | None]:
        """Return the tenants with a log, or with a copy that has begun; the default tenant, None, first."""
        ...

    async def log_part(self, tenant: str | None, since: int = 0, *, limit: int = 1_000) -> LogPart:
        """Return the log of a tenant after a sequence number, in one state of the store.

        Reading part after part, a store uses memory for a part, not for the log.

        Args:
            tenant: The tenant.
            since: The sequence number to start after.
            limit: Maximum number of entries. If no more than that follow, ``until`` is the version of the tenant.

        Raises:
            CorruptStoreError: The part is damaged. Reading from 0, a store also looks for lost entries, as far as it
                can do so without reading the whole log into memory.
        """
        ...

    async def begin_copy(self, tenants: Sequence[str | None]) -> None:
        """Mark tenants as unfinished copies, complete up to their versions; begun copies stay as they are."""
        ...

    async def copied(self, tenant: str | None) -> int | None:
        """Return the sequence number up to which an unfinished copy is complete; None if there is none."""
        ...

    async def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        """Append a part to an unfinished copy, all or nothing: ids, sequence numbers and times stay as they are.

        A tombstone also erases the assertion that it names, with all that `Erases.erase` erases, if an earlier part
        brought it. Afterwards ``until`` is the number up to which the copy is complete.

        A store that cannot write several files at once may be left between two parts by a kill; the same part put
        again completes it.

        Raises:
            StateConflictError: The copy is not complete up to ``since``, was not begun, or something else wrote to the
                tenant; nothing was written.
            InvalidVectorError: See `KeepsHistory.append`.
            InvalidDataError: The entries do not fit together, such as a change of an unknown assertion's state;
                nothing was written.
        """
        ...

    async def end_copy(self, tenants: Sequence[str | None]) -> None:
        """Mark copies as finished; the next write continues their sequences. Repeating is harmless."""
        ...
