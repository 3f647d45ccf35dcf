"""Capabilities of providers beyond the four verbs, each a small protocol.

The engine checks ``isinstance(provider, KeepsLog)`` and so on, uses the capabilities that it finds, and raises
`CapabilityError` for a request that the provider cannot represent.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import attrs

from factmem.abc.outlines import Outline
from factmem.errors import InvalidDataError
from factmem.progress import Progress
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded
from factmem.store_findings import Finding
from factmem.validators import instance_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


@attrs.frozen(kw_only=True)
class Append:
    """One assertion to append.

    Attributes:
        assertion: The assertion.
        vector: Its embedding, float32 of the store's dimension; None if not computed yet.
        outline: Recall's outline of the assertion, for a provider that `KeepsOutlines`; other providers ignore it.
        follows: The sequence number of the updated assertion at the same place. That assertion must exist at the time
            of the write, so an erased fact is not written again. None for no such condition.
    """

    assertion: Assertion
    vector: NDArray[np.float32] | None = attrs.field(default=None, eq=False, repr=False)
    outline: Outline | None = attrs.field(default=None, eq=False, repr=False)
    follows: int | None = None

    @property
    def tenant(self) -> str | None:
        """Tenant of the assertion."""
        return self.assertion.place.scope.tenant


@attrs.frozen(kw_only=True)
class StateRequest:
    """One change of state to append.

    Attributes:
        assertion_id: Id of the assertion.
        tenant: Tenant of the assertion.
        state: New state; any but SUPERSEDED.
        reason: Reason, for the audit trail.
        actor: Actor, for the audit trail.
        expected: Required state at the time of the write; None for any. Of several concurrent requests that expect the
            same state and leave it, one succeeds.
    """

    assertion_id: str
    tenant: str | None
    state: AssertionState
    reason: str | None = None
    actor: str | None = None
    expected: AssertionState | None = None

    @classmethod
    def of(
        cls,
        recorded: Recorded,
        state: AssertionState,
        *,
        reason: str | None = None,
        actor: str | None = None,
        expected: AssertionState | None = None,
    ) -> StateRequest:
        """Return the request of a change of a recorded assertion's state."""
        id, tenant = recorded.id, recorded.assertion.place.scope.tenant
        return cls(assertion_id=id, tenant=tenant, state=state, reason=reason, actor=actor, expected=expected)


Statement: TypeAlias = Append | StateRequest
"""One step of a transaction."""


@attrs.frozen(kw_only=True)
class Receipt:
    """The result of appending one assertion.

    Attributes:
        recorded: The assertion as recorded in the store.
        new: False if the same assertion was recorded before, and nothing was written.
        joins: Whether the assertion is new, and joins an existing record.
    """

    recorded: Recorded
    new: bool
    joins: bool = False


@attrs.frozen(kw_only=True)
class EraseReceipt:
    """The result of an erasure.

    Attributes:
        erased: The number of assertions that were erased.
        pending: True if bytes may be left in a file, because another process holds the file (an open WAL) or the disk
            has no room for a copy. To finish, erase again, if need be without ids.
    """

    erased: int
    pending: bool = False


@attrs.frozen(kw_only=True)
class EmbedderIdentity:
    """The identity of the embedder that made the vectors of a store.

    Attributes:
        name: The embedder's name, with its version if it has one.
        dimension: The length of a vector.
    """

    name: str
    dimension: int

    def __str__(self) -> str:
        return f"{self.name} ({self.dimension} dimensions)"


@runtime_checkable
class KeepsLog(Protocol):
    """Keeps the log of each tenant: all assertions, with their history, vectors and counts of recalls.

    Assertions are kept with their owners, evidence, origins and states. The entries of all processes can be read from
    any sequence number on. One embedder at a time makes the vectors. Counts of recalls make no revision and no log
    entry, and do not change `version`.

    A tenant whose log is being copied from another store is an *unfinished copy*, from `begin_copy` to `end_copy`, in
    every process and after a kill. A `Memory` refuses to open an unfinished copy. The verbs ignore this mark; a write
    with them meanwhile makes `put_log_part` fail.
    """

    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        """Append in one transaction, all or nothing.

        The store assigns ids, sequence numbers and the time of recording inside the transaction. Each tenant has its
        own sequence, so numbers reveal nothing about another tenant's writes.

        Returns:
            A receipt for each assertion, in order; changes of state have none.

        Raises:
            ConceptConflictError: See `AgentMemoryProvider.save`; nothing was written. An assertion that has never
                counted (see `Assertion.counts`; a quarantined one, for example) neither sets the type of its track
                nor is checked against it, until a change of state makes it count.
            StateConflictError: An assertion is not in the state expected, at its turn in the transaction;
                nothing was written.
            InvalidVectorError: A vector is NaN, infinite, zero or of a wrong dimension, or the store is
                bound to no embedder; nothing was written.
            RecordNotFoundError: A change of state names no assertion of its tenant, or the assertion that another
                one follows does not exist any more; nothing was written.
            StoreUnavailableError: Nothing was written.
        """
        ...

    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        """Return the log of exactly one place, of every owner, by sequence number.

        Args:
            place: The place.
            keyword: The keyword of a concept, to return its log alone.
        """
        ...

    async def version(self, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant, cheaply; 0 before its first write.

        Every write of this tenant, by any process, increases the number, and no other write does.
        """
        ...

    async def changes(self, tenant: str | None, since: int = 0) -> Sequence[LogEntry]:
        """Return a tenant's log after a sequence number, in order; after 0, all of it."""
        ...

    async def embedder(self) -> EmbedderIdentity | None:
        """Return the identity of the embedder that the store is bound to, or None."""
        ...

    async def use_embedder(self, identity: EmbedderIdentity, *, replace: bool = False) -> None:
        """Bind the store to an embedder.

        Args:
            identity: The embedder in use.
            replace: Drop all vectors first, even those of the same embedder.

        Raises:
            EmbedderMismatchError: The store is bound to another embedder, and ``replace`` is False.
        """
        ...

    async def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Store vectors of a tenant's assertions, by sequence number; unknown numbers are ignored.

        Vectors are scaled to length 1; a vector of that length, except for rounding, stays unchanged. See
        `factmem.vectors.storable_vector`.

        Raises:
            InvalidVectorError: A vector is NaN, infinite, zero or of a wrong dimension, or the store is
                bound to no embedder; none was stored.
        """
        ...

    async def vectors(self, tenant: str | None, since: int = 0) -> tuple[Sequence[int], NDArray[np.float32]]:
        """Return the sequence numbers and vectors, one a row, of a tenant's assertions after a sequence number."""
        ...

    async def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """Add to the counts of records, by id; the additions of several processes sum up.

        Ids that name no record of this tenant are ignored, so that an erased record does not come back. Erasing the
        last assertion of a record erases its count.

        Args:
            tenant: The tenant.
            accesses: Counts to add, by record id.

        Raises:
            StoreUnavailableError: The counts could not be written.
        """
        ...

    async def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """Return the counts of records of a tenant, by id; records without a count are left out.

        Args:
            tenant: The tenant.
            record_ids: The records.
        """
        ...

    async def erase(
        self, record_ids: Sequence[str], *, tenant: str | None, assertion_ids: Sequence[str] = ()
    ) -> EraseReceipt:
        """Erase every assertion of these records of a tenant, and these single assertions; all or nothing.

        An assertion is erased with its vector, its outline, its index entries and its changes of state; one
        `Tombstone` for each is left. A record that loses some of its assertions keeps its id and the others. Ids that
        name nothing in this tenant are ignored. Every call also finishes earlier erasures of this tenant that were
        interrupted or are pending.

        Args:
            record_ids: Records to erase with all of their revisions.
            tenant: The tenant.
            assertion_ids: Single revisions to erase.
        """
        ...

    async def tenants(self) -> Sequence[str | None]:
        """Return the tenants with a log or an unfinished copy; the default tenant, None, first."""
        ...

    async def log_part(self, tenant: str | None, since: int = 0, *, limit: int = 1_000) -> LogPart:
        """Return the log of a tenant after a sequence number, in one state of the store.

        A store uses memory for one part at a time, not for the whole log.

        Args:
            tenant: The tenant.
            since: The sequence number to start after.
            limit: Maximum number of entries. If no more entries follow, ``until`` is the version of the tenant.

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
        """Append a part to an unfinished copy, all or nothing: ids, numbers, times and vectors stay as they are.

        A tombstone also erases its assertion from an earlier part, with everything that `KeepsLog.erase` erases.
        Afterwards ``until`` is the number up to which the copy is complete.

        After a kill, a store that cannot write several files at once may hold an incomplete part; put the same part
        again to complete it.

        Raises:
            StateConflictError: The copy is not complete up to ``since``, was not begun, or something else wrote to the
                tenant; nothing was written.
            InvalidVectorError: See `KeepsLog.append`.
            InvalidDataError: The entries do not fit together, such as a change of an unknown assertion's state;
                nothing was written.
        """
        ...

    async def end_copy(self, tenants: Sequence[str | None]) -> None:
        """Mark copies as finished; the next write continues their sequences. Repeating is harmless."""
        ...

    async def check(self, *, progress: Progress | None = None) -> Sequence[Finding]:
        """Read everything, and return the faults, the next steps and the waiting work of every tenant.

        Formats, checksums and seals, references, vectors, pending erasures and the modes of files are checked. The
        findings for a sound store are notes only. Other processes may write meanwhile.

        Args:
            progress: Called with the number of parts checked and the total, in any thread.

        Raises:
            WrongKeyError: The key does not open the store; nothing was checked.
            KeyUnavailableError: The key is not available.
            StoreUnavailableError: The disk cannot be read.
        """
        ...


@runtime_checkable
class ScansVectors(Protocol):
    """Computes with vectors in the store, for a recall without vectors in memory.

    These methods block; they are for worker threads only.
    """

    def vector_numbers(self, tenant: str | None, since: int = 0) -> NDArray[np.int64]:
        """Return the sequence numbers after a given one of a tenant's assertions that have vectors, ascending."""
        ...

    def products(
        self, tenant: str | None, vector: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return sequence numbers and inner products with a vector, for all vectors of a tenant, in any order."""
        ...

    def vectors_of(self, tenant: str | None, seqs: NDArray[np.int64], dimension: int) -> NDArray[np.float32]:
        """Return vectors of a tenant by sequence numbers, one a row; zeros where there is none."""
        ...


@runtime_checkable
class UpgradesFormat(Protocol):
    """Keeps its store in a format with versions, and brings an older one up to date."""

    async def format_versions(self) -> tuple[int, int]:
        """Return the version of the store's format, 0 if there is no store yet, and the newest version.

        Raises:
            NewerVersionError: A newer factmem wrote the store.
        """
        ...

    async def upgrade(self, *, create: bool = False, progress: Progress | None = None) -> None:
        """Bring the store to the newest format, all or nothing, and remove the remains of the older format.

        Writers wait meanwhile. A store of the newest format stays as it is.

        Args:
            create: Whether to create an empty store if there is none, like the first write.
            progress: Called with the number of finished steps and the total, in any thread.

        Raises:
            StoreUnavailableError: The store could not be written, or others held it for too long; it is unchanged.
        """
        ...


@attrs.frozen(kw_only=True)
class StoreLocation:
    """The place of a store on the disk.

    Attributes:
        kind: Name of the provider in addresses, such as ``sqlite-vec``.
        path: Path of the store, a file or a folder.
        suffixes: Suffixes of the files that may lie beside the store; the empty suffix is the store itself.
    """

    kind: str
    path: Path
    suffixes: tuple[str, ...] = ("",)

    def beside(self, path: Path) -> dict[str, Path]:
        """Return the existing files of such a store at any path, by suffix."""
        paths = {suffix: path.with_name(path.name + suffix) for suffix in self.suffixes}
        return {suffix: path for suffix, path in paths.items() if os.path.lexists(path)}

    def is_vacant(self) -> bool:
        """Return whether the path is free, or an empty folder."""
        return all(path.is_dir() and not any(path.iterdir()) for path in self.beside(self.path).values())


@runtime_checkable
class KeepsFiles(KeepsLog, Protocol):
    """Keeps its store in files at one path of a local disk, where it can be searched, copied and replaced as a whole.

    `factmem.providers.back_up` and `factmem.providers.backups.restore_backup` do the rest. A provider refuses to open a
    store whose restore is not finished; see `factmem.providers.backups.refuse_unfinished_restore`.
    """

    async def files(self) -> Sequence[Path]:
        """Return the existing files that hold anything of the store, to search them for erased bytes.

        The files include indexes, journals and the remains of an interrupted write. No file is created.
        """
        ...

    @property
    def location(self) -> StoreLocation:
        """The place of the store."""
        ...

    def at(self, path: Path) -> KeepsFiles:
        """Return a provider with the same options and the same key, for a store at another path."""
        ...

    async def copy_to(self, path: Path, *, progress: Progress | None = None) -> None:
        """Copy the store, as it is at one moment, to a free path in an existing folder.

        Others may use the store meanwhile. An encrypted store stays encrypted, and the copy opens with the same key.

        Args:
            path: Path of the copy.
            progress: Called with the number of finished parts and the total, in any thread.

        Raises:
            StoreUnavailableError: There is no store, or the copy cannot be written; a partial copy may be left.
            CorruptStoreError: The store is damaged.
        """
        ...

    async def check_unused(self) -> None:
        """Raise if another user of the store can be detected; a damaged store counts as unused.

        Raises:
            StoreUnavailableError: Somebody else uses it.
        """
        ...

    async def aclose(self) -> None:
        """See `AgentMemoryProvider.aclose`."""
        ...


@attrs.frozen(kw_only=True, eq=False)
class LogPart:
    """A part of a tenant's log, with the vectors of its assertions.

    Attributes:
        since: The sequence number that the part begins after.
        until: The sequence number up to which the part is complete; ``since`` if no entries follow.
        entries: The entries after ``since``, up to ``until``, in order.
        vectors: Existing vectors of its assertions, of length 1, by sequence number.
    """

    since: int
    until: int
    entries: Sequence[LogEntry]
    vectors: Mapping[int, NDArray[np.float32]] = attrs.field(factory=dict, repr=False)
