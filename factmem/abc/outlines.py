"""Outlines: bytes that recall stores beside assertions, to build its index without reading the assertions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from factmem.records import LogEntry, Recorded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen(kw_only=True)
class Outline:
    """Bytes that recall stores with one assertion. Providers never interpret them.

    Attributes:
        shared: The part that is the same for many assertions; a provider should store each only once.
        own: The part of this assertion alone.
        version: The version of recall's format; a store holds outlines of one version.
    """

    shared: bytes = attrs.field(repr=False)
    own: bytes = attrs.field(repr=False)
    version: int


@attrs.frozen(kw_only=True, eq=False)
class Outlined:
    """A tenant's log after a sequence number, with outlines in place of assertions.

    The first six are sequences of equal length, ascending by ``seqs``.

    Attributes:
        seqs: The sequence numbers of the assertions.
        ids: The numbers of their ids; see `number_of_id`.
        records: The numbers of their records' ids.
        recorded_at: When they were recorded, in microseconds since 1970.
        shared: See `Outline`.
        own: See `Outline`.
        missing: The sequence numbers of assertions that have no outline yet, which are in none of the above.
        rest: Changes of state and tombstones, in order.
        until: The sequence number up to which this is complete.
        ahead: The number of outlines that follow, if this begins the log; a store that does not know it says 0.
    """

    seqs: Sequence[int]
    ids: NDArray[np.uint64]
    records: NDArray[np.uint64]
    recorded_at: NDArray[np.int64]
    shared: Sequence[bytes]
    own: Sequence[bytes]
    missing: Sequence[int] = ()
    rest: Sequence[LogEntry] = ()
    until: int = 0
    ahead: int = 0


@runtime_checkable
class KeepsOutlines(Protocol):
    """Keeps outlines beside assertions.

    The methods that are not ``async`` block; they are for worker threads, and `newest` is for the event loop as well
    where the store is not far.

    Attributes:
        far: Whether each call takes a round trip over a network. Recall then reads at once all that its results may
            need.
    """

    far: bool

    async def use_outlines(self, version: int) -> None:
        """Set the version of the outlines in use, and drop those of any other version.

        A store that is opened read-only and holds outlines of another version returns none. A store that does not exist
        yet is not created; its first write does that.
        """
        ...

    async def put_outlines(self, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        """Store outlines of a tenant's assertions without one, by sequence number; unknown numbers are ignored."""
        ...

    def newest(self, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant, as `KeepsLog.version` does.

        A store that is not far calls `factmem.short_work.may_wait` before it reads a disk.
        """
        ...

    def outlined(self, tenant: str | None, since: int = 0, *, limit: int = 1 << 62) -> Outlined:
        """Return a tenant's log after a sequence number, up to about ``limit`` assertions."""
        ...

    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[Sequence[Recorded | None], int]:
        """Return assertions of a tenant by sequence number, and what `newest` returns, of one state of the store.

        An assertion that does not exist (any more) is None. Recall ranks what it holds and reads the results; if the
        same answer says that the store has anything newer, it begins again.
        """
        ...

    def vectors_since(self, tenant: str | None, since: int = 0) -> tuple[Sequence[int], NDArray[np.float32]]:
        """Return vectors after a sequence number, as `KeepsLog.vectors` does."""
        ...


def number_of_id(id: str) -> int:
    """Return the 64-bit number that stands for an id in arrays."""
    return int.from_bytes(hashlib.blake2b(id.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
