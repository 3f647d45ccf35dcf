"""Moves: a copy of a whole store, or of some of its tenants, in another store of any kind.

Sequence numbers, ids, times, states, vectors and access counts stay as they are, so that the copy answers as the
source does: `Memory.view`, revisions and page tokens too. The log is copied part by part in the order of its numbers,
which is where a broken move goes on, and how a finished one is brought up to date. The source is only read.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from factmem.abc.capabilities import Access, KeepsLog
from factmem.abc.provider import AgentMemoryProvider
from factmem.codec import dump_entry
from factmem.errors import (
    CapabilityError,
    CorruptStoreError,
    EmbedderMismatchError,
    FactMemError,
    InvalidDataError,
    InvalidVectorError,
    StateConflictError,
    StoreUnavailableError,
)
from factmem.records import LogEntry, Recorded, Tombstone

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PART: Final = 500
_ROUNDS: Final = 5
"""Number of times that a copy is compared with its source, which others may change meanwhile."""


@attrs.frozen(kw_only=True)
class TenantMove:
    """The outcome of a move for one tenant.

    Attributes:
        tenant: The tenant; None is the default one.
        entries: Number of entries of its log, in both stores: assertions, changes of state and tombstones.
        arrived: Number of entries that this move has brought.
        vectors: Number of its vectors, in both stores.
        digest: SHA-256 of its entries and vectors, the same in both stores.
    """

    tenant: str | None
    entries: int
    arrived: int
    vectors: int
    digest: str


@attrs.frozen(kw_only=True)
class MoveReceipt:
    """The result of `move`.

    Attributes:
        tenants: The outcome for each tenant.
        behind: Number of entries that were written to the source too late to be included; another move brings them.
    """

    tenants: tuple[TenantMove, ...]
    behind: int

    @property
    def arrived(self) -> int:
        """Number of entries that this move has brought."""
        return sum(tenant.arrived for tenant in self.tenants)


async def refuse_unfinished(provider: AgentMemoryProvider, tenant: str | None) -> None:
    """Raise if the log of a tenant has not arrived as a whole.

    Raises:
        StoreUnavailableError: It is the target of an unfinished move.
    """
    if not isinstance(provider, KeepsLog):
        return
    try:
        copied = await provider.copied(tenant)
    except FactMemError:  # the first read reports it
        return
    if copied is not None:
        raise StoreUnavailableError(
            "the store is the target of a move that is not finished: run the same `factmem move` again to finish it, "
            "or delete the store"
        )


async def move(
    source: AgentMemoryProvider,
    target: AgentMemoryProvider,
    *,
    organizations: Sequence[str | None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MoveReceipt:
    """Copy a store into another one, compare the two, and leave the source as it is.

    The target must be empty, or hold the beginning of the same log: that of a move that was broken off, which goes on,
    or of a finished one, which is brought up to date. Until everything has arrived and is compared, the target cannot
    be opened as a `Memory`. Others may write to the source meanwhile; see `MoveReceipt.behind`. Of two moves into the
    same target at once, one may fail, and both may add the counts of recalls.

    ::

        async with open_provider("facts.db") as source, open_provider("encrypted:facts?key_env=KEY") as target:
            receipt = await move(source, target)

    Args:
        source: The store to copy.
        target: The store to copy it into.
        organizations: The tenants to copy; None for all. The target may hold others only if they are named.
        progress: Called with the number of entries copied or compared, and the number to come to.

    Raises:
        CapabilityError: A provider cannot copy logs.
        InvalidDataError: The source holds nothing of this name, or the target holds something else.
        EmbedderMismatchError: Other tenants of the target have vectors of another embedder.
        StateConflictError: Something else writes to the target.
        StoreUnavailableError: The source changes too fast, is an unfinished copy itself, or a disk fails.
        CorruptStoreError: A store is damaged, or the copy is not the source; the target stays unfinished.
    """
    if source is target:
        raise InvalidDataError("the source and the target of a move are the same store: name another target")
    moving = _Move(_movable(source, "source"), _movable(target, "target"), progress or (lambda done, of: None))
    return await moving.run(organizations)


def _movable(provider: AgentMemoryProvider, role: str) -> KeepsLog:
    if isinstance(provider, KeepsLog):
        return provider
    raise CapabilityError(
        f"{type(provider).__name__} cannot be the {role} of a move: it keeps no log (`KeepsLog`), so history, "
        "states, owners, evidence, times and vectors would be lost: save its facts one by one"
    )


@attrs.define
class _Comparison:
    """The outcome of comparing the logs of a tenant, up to a number.

    Attributes:
        entries: Number of entries that both have.
        vectors: Number of vectors that both have.
        digest: Digest of the entries that both have.
        vanished: Ids of assertions of which the copy has an entry that the source does not have.
        foreign: Whether the source has another entry than the copy, or one that the copy does not have.
        mended: Digest of the vectors that were brought to the copy; empty if none were.
    """

    entries: int = 0
    vectors: int = 0
    digest: str = ""
    vanished: set[str] = attrs.field(factory=set)
    foreign: bool = False
    mended: bytes = b""

    @property
    def same(self) -> bool:
        """Whether the logs and vectors are the same."""
        return not (self.vanished or self.foreign or self.mended)


class _Numbered(NamedTuple):
    """An entry with its vector."""

    entry: LogEntry
    vector: NDArray[np.float32] | None


async def _entries(
    store: KeepsLog, tenant: str | None, upto: int, advance: Callable[[int], None] = lambda count: None
) -> AsyncGenerator[_Numbered]:
    """Yield the log of a tenant up to a number.

    Args:
        store: The store.
        tenant: The tenant.
        upto: The last number.
        advance: Called with each number of entries read.
    """
    since = 0
    while since < upto and (part := await store.log_part(tenant, since, limit=_PART)).until > since:
        advance(part.until - since)
        for entry in part.entries:
            if entry.seq <= upto:
                yield _Numbered(entry, part.vectors.get(entry.seq))
        since = part.until


@attrs.define
class _Move:
    """A move under way.

    Attributes:
        source: The store to copy.
        target: The store to copy it into.
        progress: See `move`.
    """

    source: KeepsLog
    target: KeepsLog
    progress: Callable[[int, int], None]
    _done: int = attrs.field(default=0, init=False)
    _total: int = attrs.field(default=0, init=False)
    _arrived: Counter[str | None] = attrs.field(factory=Counter, init=False)

    async def run(self, organizations: Sequence[str | None] | None) -> MoveReceipt:
        """See `move`."""
        tenants = await self._wanted(organizations)
        versions = {tenant: await self.source.version(tenant) for tenant in tenants}
        self._total = 2 * sum(versions.values())
        complete: dict[str | None, _Comparison] = {}
        for tenant in tenants:
            found = await self._begun_before(tenant)
            if found is not None and found.same and await self.target.version(tenant) == versions[tenant]:
                complete[tenant] = found
        pending = [tenant for tenant in tenants if tenant not in complete]
        if pending:
            await self.target.begin_copy(pending)
            await self._bind(pending)
            complete |= await self._brought(pending)
        behind = sum([await self.source.version(tenant) - await self.target.version(tenant) for tenant in tenants])
        if pending:
            await self.target.end_copy(pending)
        self.progress(self._total, self._total)
        moved = (
            TenantMove(
                tenant=tenant,
                entries=found.entries,
                arrived=self._arrived[tenant],
                vectors=found.vectors,
                digest=found.digest,
            )
            for tenant, found in ((tenant, complete[tenant]) for tenant in tenants)
        )
        return MoveReceipt(tenants=tuple(moved), behind=behind)

    async def _brought(self, pending: Sequence[str | None]) -> dict[str | None, _Comparison]:
        """Copy pending entries, then compare them."""
        try:
            for tenant in pending:
                await self._copy(tenant)
            return {tenant: await self._settled(tenant) for tenant in pending}
        except InvalidVectorError:
            raise StoreUnavailableError(
                "the source was embedded again during the move: run the same move again"
            ) from None

    def _advance(self, count: int) -> None:
        self._done = min(self._done + count, self._total)
        self.progress(self._done, self._total)

    async def _wanted(self, organizations: Sequence[str | None] | None) -> list[str | None]:
        """Return the tenants to copy, after checking that they are there, and that the target has room for them."""
        there, taken = list(await self.source.tenants()), set(await self.target.tenants())
        wanted = there if organizations is None else list(dict.fromkeys(organizations))
        if not wanted or not set(wanted) <= set(there):
            missing = [_named(tenant) for tenant in wanted if tenant not in there]
            nothing = f"nothing of {', '.join(missing)}" if missing else "no store that anything was written to"
            raise InvalidDataError(f"the source {self.source!r} holds {nothing}: check its address")
        for tenant in wanted:
            if await self.source.copied(tenant) is not None:
                raise StoreUnavailableError(
                    "the source is itself the target of a move that is not finished: finish that one first"
                )
        if organizations is None and (others := sorted(map(_named, taken - set(wanted)))):
            raise InvalidDataError(
                f"the target holds something else, of {', '.join(others)}: move into an empty store, or name the "
                "organization to move"
            )
        return wanted

    async def _begun_before(self, tenant: str | None) -> _Comparison | None:
        """Compare what the target has of a tenant with the source, before anything is written.

        Returns:
            The comparison with a finished copy; None if there is none.

        Raises:
            InvalidDataError: It is not the beginning of the same log.
        """
        copied, version = await self.target.copied(tenant), await self.target.version(tenant)
        if copied is not None:
            # Parts of an unfinished copy came from one source, and all of them are compared in the end.
            parts = [await store.log_part(tenant, limit=_PART) for store in (self.source, self.target)]
            here, there = ({(entry.seq, entry.assertion_id) for entry in part.entries} for part in parts)
            if copied and here.isdisjoint(there):
                raise _something_else(tenant)
            return None
        if not version:
            return None
        found = await self._compare(tenant, version, mend=False)
        if found.foreign or not found.vanished <= await self._erased(tenant, version):
            raise _something_else(tenant)
        return found

    async def _erased(self, tenant: str | None, since: int) -> set[str]:
        """Return the ids that tombstones of the source name after a number."""
        found: set[str] = set()
        while (part := await self.source.log_part(tenant, since, limit=_PART)).until > since:
            found.update(entry.assertion_id for entry in part.entries if isinstance(entry, Tombstone))
            since = part.until
        return found

    async def _bind(self, pending: Sequence[str | None]) -> None:
        """Bind the target to the embedder of the source; what is pending gets all of its vectors from there."""
        identity, bound = await self.source.embedder(), await self.target.embedder()
        if identity is None or identity == bound:
            return
        if bound is not None and not set(await self.target.tenants()) <= set(pending):
            raise EmbedderMismatchError(
                f"the vectors of the target come from {bound}, those of the source from {identity}: embed one of them "
                "again with the embedder of the other (`factmem reembed`), then run the same move again"
            )
        await self.target.use_embedder(identity, replace=bound is not None)

    async def _copy(self, tenant: str | None) -> None:
        """Copy all that has not arrived yet."""
        since = await self.target.copied(tenant)
        if since is None:
            raise StateConflictError(
                "another process has finished or deleted this copy meanwhile: wait for it, then run the same move again"
            )
        while (part := await self.source.log_part(tenant, since, limit=_PART)).until > since:
            await self.target.put_log_part(tenant, part)
            self._arrived[tenant] += len(part.entries)
            self._advance(part.until - since)
            since = part.until

    async def _settled(self, tenant: str | None) -> _Comparison:
        """Compare a copy with the source until they are the same: others may erase and embed meanwhile."""
        before, found = b"", _Comparison()
        for _ in range(_ROUNDS):
            await self._copy(tenant)
            before, found = found.mended, await self._compare(tenant, await self.target.version(tenant), mend=True)
            if found.same:
                return found
            if found.foreign:
                break
        if found.foreign or found.vanished:
            raise CorruptStoreError(
                f"the copy of {_named(tenant)} differs from the source, and stays unfinished: run `factmem check` "
                "on both, delete the target, and move again"
            )
        if found.mended == before:
            raise CorruptStoreError(
                "the target gives back other vectors than it was given, and stays unfinished: delete it, and test its "
                "provider with the conformance kit"
            )
        raise StoreUnavailableError("the vectors of the source change too fast: run the same move again later")

    async def _compare(self, tenant: str | None, upto: int, *, mend: bool) -> _Comparison:
        """Compare the logs of a tenant up to a number.

        Args:
            tenant: The tenant.
            upto: The number.
            mend: Bring vectors and access counts that the copy does not have.
        """
        found, digest = _Comparison(), hashlib.sha256()
        mending = _Mending(self.source, self.target, tenant) if mend else None
        here, there = _entries(self.source, tenant, upto, self._advance), _entries(self.target, tenant, upto)
        async with contextlib.aclosing(here), contextlib.aclosing(there):
            mine, other = await anext(here, None), await anext(there, None)
            while not found.foreign and (mine is not None or other is not None):
                if other is not None and (mine is None or other.entry.seq < mine.entry.seq):
                    if isinstance(other.entry, Tombstone):
                        found.foreign = True
                    else:
                        found.vanished.add(other.entry.assertion_id)
                    other = await anext(there, None)
                    continue
                written = b"" if mine is None else dump_entry(mine.entry)
                if mine is None or other is None or written != dump_entry(other.entry):
                    found.foreign = True
                    break
                digest.update(written)
                found.entries += 1
                found.vectors += mine.vector is not None
                if mending is not None:
                    await mending.take(mine, other)
                mine, other = await anext(here, None), await anext(there, None)
        if mending is not None and not found.foreign:
            await mending.finish()
            found.mended = mending.mended
        found.digest = digest.hexdigest()
        return found


@attrs.define
class _Mending:
    """Copies data that is not in the log: vectors that were made later, and counts of recalls.

    Attributes:
        source: The source.
        target: The target.
        tenant: The tenant.
        mended: See `_Comparison`.
    """

    source: KeepsLog
    target: KeepsLog
    tenant: str | None
    mended: bytes = attrs.field(default=b"", init=False)
    _vectors: dict[int, NDArray[np.float32]] = attrs.field(factory=dict, init=False)
    _records: set[str] = attrs.field(factory=set, init=False)

    async def take(self, mine: _Numbered, other: _Numbered) -> None:
        """Compare one entry of both stores."""
        if mine.vector is not None and (other.vector is None or mine.vector.tobytes() != other.vector.tobytes()):
            self._vectors[mine.entry.seq] = mine.vector
            self.mended = hashlib.sha256(self.mended + mine.vector.tobytes()).digest()
        if isinstance(mine.entry, Recorded):
            self._records.add(mine.entry.record_id)
        if len(self._vectors) >= _PART or len(self._records) >= _PART:
            await self.finish()

    async def finish(self) -> None:
        """Copy the differences that were found."""
        if self._vectors:
            await self.target.put_vectors(self.tenant, self._vectors)
        here = await self.source.accesses(self.tenant, self._records)
        there = await self.target.accesses(self.tenant, list(here))
        lacking = {
            id: Access(count=access.count - there.get(id, _NEVER).count, last=access.last)
            for id, access in here.items()
            if access.count > there.get(id, _NEVER).count
        }
        if lacking:
            await self.target.add_accesses(self.tenant, lacking)
        self._vectors, self._records = {}, set()


_NEVER: Final = Access()


def _named(tenant: str | None) -> str:
    return "the default organization" if tenant is None else f"organization {tenant}"


def _something_else(tenant: str | None) -> InvalidDataError:
    return InvalidDataError(
        f"the target holds something else, of {_named(tenant)}, and nothing was written: move into an empty store"
    )
