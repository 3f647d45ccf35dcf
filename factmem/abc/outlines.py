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
        shared: The part shared by many assertions; a provider should store each such part once.
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
        recorded_at: The times of recording, in microseconds since 1970.
        shared: See `Outline`.
        own: See `Outline`.
        missing: The sequence numbers of assertions without an outline, which are not in the sequences above.
        rest: Changes of state and tombstones, in order.
        until: The sequence number up to which this is complete.
        ahead: The number of outlines that follow, if this begins the log; 0 if the store does not know the number.
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

    The methods that are not ``async`` block, and are for worker threads. If the store is not far, `newest` may also be
    called in the event loop.

    Attributes:
        far: Whether each call takes a round trip over a network. Recall then reads everything that its results may need
            at once.
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
        """Return assertions of a tenant by sequence number, with the result of `newest`, in one state of the store.

        A missing or erased assertion is None. Recall ranks its index and reads the results; if this answer shows that
        the store has newer entries, recall begins again.
        """
        ...

    def vectors_since(self, tenant: str | None, since: int = 0) -> tuple[Sequence[int], NDArray[np.float32]]:
        """Return vectors after a sequence number, as `KeepsLog.vectors` does."""
        ...


def number_of_id(id: str) -> int:
    """Return the 64-bit number of an id, for arrays."""
    return int.from_bytes(hashlib.blake2b(id.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
