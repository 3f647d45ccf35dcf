"""What a provider may be able to do beyond the four verbs. Each is a small protocol.

The engine asks ``isinstance(provider, KeepsHistory)`` and so on, uses what is there, and raises
`CapabilityError` where something was asked that the provider cannot represent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import attrs

from factmem.abc.outlines import Outline
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Append",
    "EmbedderIdentity",
    "EraseReceipt",
    "Erases",
    "FeedsChanges",
    "KeepsFiles",
    "KeepsHistory",
    "KeepsVectors",
    "Receipt",
    "ScansVectors",
    "StateRequest",
    "Statement",
]


@attrs.frozen(kw_only=True)
class Append:
    """One assertion to append.

    Attributes:
        assertion: what was said.
        vector: its embedding, float32 of the store's dimension, or None if it has none yet.
        outline: what recall keeps of it, for a provider that `KeepsOutlines`; others pass it over.
        follows: the number of the assertion at the same place that it updates, which must be there when this is
            written: else what was erased meanwhile would be written again. None if none needs to be.
    """

    assertion: Assertion
    vector: NDArray[np.float32] | None = attrs.field(default=None, eq=False, repr=False)
    outline: Outline | None = attrs.field(default=None, eq=False, repr=False)
    follows: int | None = attrs.field(default=None, kw_only=True)


@attrs.frozen(kw_only=True)
class StateRequest:
    """One change of state to append.

    Attributes:
        assertion_id: whose state.
        state: any but SUPERSEDED.
        reason: why, for the audit trail.
        actor: who wants it, for the audit trail.
        expected: the state that it must be in when this is written; None for any. Of several who expect
            the same state and leave it, one succeeds.
    """

    assertion_id: str
    state: AssertionState
    reason: str | None = None
    actor: str | None = None
    expected: AssertionState | None = None


Statement: TypeAlias = Append | StateRequest
"""One thing to do in a transaction."""


@attrs.frozen(kw_only=True)
class Receipt:
    """What became of one appended assertion.

    Attributes:
        recorded: as it stands in the store.
        new: False if the very same assertion was there before, and nothing was written.
    """

    recorded: Recorded
    new: bool


@attrs.frozen(kw_only=True)
class EraseReceipt:
    """What an erasure did.

    Attributes:
        erased: how many assertions are gone from every file of the store.
        pending: True if bytes may be left that another process still holds (an open WAL), or that the disk had
            no room to write anew; erase again, if only nothing, to finish.
    """

    erased: int
    pending: bool = False


@attrs.frozen(kw_only=True)
class EmbedderIdentity:
    """Which embedder made the vectors of a store.

    Attributes:
        name: the embedder's name, with its version where it has one.
        dimension: how many numbers a vector has.
    """

    name: str
    dimension: int


@runtime_checkable
class KeepsHistory(Protocol):
    """Assertions with history: owners, evidence, origins, states; several places in one call."""

    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        """Append in one transaction: all or nothing. The receipts are those of the assertions, in order.

        Ids, sequence numbers and the time of recording are given inside the transaction.

        Raises:
            ConceptConflictError: see `AgentMemoryProvider.save`; nothing was written. What has never counted
                (see `Assertion.counts`; the quarantined above all) neither sets the type of its track nor is
                held to it, until a change of state lets it in: then it does and is.
            StateConflictError: an assertion is not in the state expected, at its turn in the transaction;
                nothing was written.
            InvalidVectorError: a vector is NaN, infinite, zero or of a wrong dimension, or the store is
                bound to no embedder; nothing was written.
            RecordNotFoundError: a change of state names no assertion of this store, or what an assertion follows
                is not there any more; nothing was written.
            StoreUnavailableError: nothing was written.
        """
        ...

    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        """Return the log of exactly one place, of every owner, by sequence number.

        Args:
            place: where.
            keyword: of this concept only.
        """
        ...


@runtime_checkable
class FeedsChanges(Protocol):
    """Enumeration and change feed: everything of a tenant, and then what is new."""

    async def version(self) -> int:
        """Return the newest sequence number of the store, cheaply; it grows with every write of any process."""
        ...

    async def changes(self, tenant: str | None, since: int = 0) -> Sequence[LogEntry]:
        """Return a tenant's log after a sequence number, in order; after 0, all of it."""
        ...


@runtime_checkable
class KeepsVectors(Protocol):
    """Keeps the embeddings of assertions, of one embedder at a time."""

    async def embedder(self) -> EmbedderIdentity | None:
        """Return which embedder the stored vectors come from, or None before the first."""
        ...

    async def use_embedder(self, identity: EmbedderIdentity, *, replace: bool = False) -> None:
        """Bind the store to an embedder.

        Args:
            identity: the embedder in use.
            replace: drop all vectors, whichever embedder they come from, so that everything is embedded again.

        Raises:
            EmbedderMismatchError: the store's vectors come from another one, and ``replace`` is False.
        """
        ...

    async def put_vectors(self, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Keep vectors of assertions that have none yet, by sequence number; unknown numbers are passed over.

        Raises:
            InvalidVectorError: a vector is NaN, infinite, zero or of a wrong dimension, or the store is
                bound to no embedder; none was kept.
        """
        ...

    async def vectors(self, tenant: str | None, since: int = 0) -> tuple[Sequence[int], NDArray[np.float32]]:
        """Return the sequence numbers and the vectors, one a row, of a tenant's assertions after a number."""
        ...


@runtime_checkable
class ScansVectors(Protocol):
    """Answers from vectors where they lie, for those who do not hold them in memory.

    These methods block: they are for worker threads only.
    """

    def vector_numbers(self, tenant: str | None, since: int = 0) -> NDArray[np.int64]:
        """Return the sequence numbers of a tenant's assertions after a number that have vectors, ascending."""
        ...

    def products(
        self, tenant: str | None, vector: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return sequence numbers and inner products with a vector, of all vectors of a tenant, in no order."""
        ...

    def vectors_of(self, tenant: str | None, seqs: NDArray[np.int64], dimension: int) -> NDArray[np.float32]:
        """Return vectors of a tenant by sequence numbers, one a row; zeros where there is none."""
        ...


@runtime_checkable
class Erases(Protocol):
    """Removes the bytes, not only the record."""

    async def erase(
        self, record_ids: Sequence[str], *, tenant: str | None, assertion_ids: Sequence[str] = ()
    ) -> EraseReceipt:
        """Erase every assertion of these records of a tenant, and these single assertions; all or nothing.

        With an assertion go its words, its vector, its index entries and its changes of state. What is left is
        one `Tombstone` an assertion. A record that loses some of its assertions keeps its id and the others;
        with the last one its id goes. Ids that name nothing in this tenant are passed over. Whatever is named,
        what an earlier erasure of this tenant left behind goes now: one that was broken off, or is pending.

        Args:
            record_ids: records to erase with all of their revisions.
            tenant: whose.
            assertion_ids: revisions to erase one by one, whatever becomes of the others of their records.
        """
        ...


@runtime_checkable
class KeepsFiles(Protocol):
    """Keeps what it is told in files of this machine, which can be searched for what was erased."""

    async def files(self) -> Sequence[Path]:
        """Return the files that hold anything of the store and are there now, those by the way included.

        That is logs, indexes and journals, and what an interrupted write may have left. No file is made.
        """
        ...
