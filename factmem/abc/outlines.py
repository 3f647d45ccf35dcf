"""What recall keeps of assertions instead of the assertions themselves, and providers that keep it for them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from factmem.records import LogEntry, Recorded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["KeepsOutlines", "Outline", "Outlined", "number_of_id"]


@attrs.frozen(kw_only=True)
class Outline:
    """What recall keeps of one assertion; only recall reads what is in it. It tells what the assertion is about.

    Attributes:
        about: place, subject, keyword, owner, conversation, categories and the like.
        metadata: the metadata; empty for none.
        body: numbers, packed, and the terms.
        version: of what recall made it by; outlines of one version only lie together.
    """

    about: str = attrs.field(repr=False)
    metadata: str = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)
    version: int


@attrs.frozen(kw_only=True, eq=False)
class Outlined:
    """A tenant's log after a number, without the words.

    What is told of assertions are sequences of one length, ascending by their numbers.

    Attributes:
        seqs: the assertions' numbers.
        ids: the numbers of their ids; see `number_of_id`.
        records: the numbers of their records' ids.
        recorded_at: when they were recorded, in microseconds since 1970.
        about: see `Outline`, as the others.
        metadata: empty for none.
        bodies: numbers and terms.
        missing: the numbers of assertions that have no outline yet; they are in none of the others.
        rest: changes of state and tombstones, in order.
        until: up to which number this tells everything; the newest of the store, if it tells all.
    """

    seqs: Sequence[int]
    ids: NDArray[np.uint64]
    records: NDArray[np.uint64]
    recorded_at: NDArray[np.int64]
    about: Sequence[str]
    metadata: Sequence[str]
    bodies: Sequence[bytes]
    missing: Sequence[int] = ()
    rest: Sequence[LogEntry] = ()
    until: int = 0


@runtime_checkable
class KeepsOutlines(Protocol):
    """Keeps outlines beside assertions, so that a mirror is made without reading every one of them.

    What is not ``async`` here blocks: it is called in worker threads.
    """

    async def use_outlines(self, version: int) -> None:
        """Say of which version outlines are from now on; those of another one are dropped.

        A store that is opened for reading only, and holds those of another version, tells of none.
        Where there is no store yet, none is made: the first write does.
        """
        ...

    async def put_outlines(self, outlines: Mapping[int, Outline]) -> None:
        """Keep outlines of assertions that have none yet, by sequence number; unknown numbers are passed over."""
        ...

    def newest(self) -> int:
        """Return what `FeedsChanges.version` does."""
        ...

    def outlined(self, tenant: str | None, since: int = 0, *, limit: int = 1 << 62) -> Outlined:
        """Return a tenant's log after a sequence number, with some ``limit`` assertions at the most."""
        ...

    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> Sequence[Recorded | None]:
        """Return a tenant's assertions by their numbers, None for one that is not there, or not there any more."""
        ...


def number_of_id(id: str) -> int:
    """Return the 64-bit number that stands for an id where many are compared."""
    return int.from_bytes(hashlib.blake2b(id.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
