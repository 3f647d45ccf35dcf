"""Two providers that need no file: one that keeps nothing, and a store in memory for tests and notebooks."""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from factmem.abc import system_clock
from factmem.abc.capabilities import (
    Access,
    Append,
    EmbedderIdentity,
    EraseReceipt,
    KeepsLog,
    LogPart,
    Receipt,
    Statement,
)
from factmem.abc.clock import Clock
from factmem.abc.provider import AgentMemoryProvider
from factmem.errors import InvalidDataError, ProviderClosedError
from factmem.facts import Concept, Fact, FactT
from factmem.progress import Progress
from factmem.providers.log_verbs import HistoryProvider
from factmem.providers.sql_rows import binds_anew, part_of
from factmem.providers.write_plans import Planner, SteadyClock, TrackIndex, check_part
from factmem.records import LogEntry, Place, Recorded, Tombstone
from factmem.scopes import MemoryScope
from factmem.store_findings import Finding, findings_in, unfinished_copy
from factmem.subjects import MemorySubject
from factmem.vectors import storable_vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class NoMemory(AgentMemoryProvider):
    """Keeps nothing and finds nothing, without complaint: the null object of providers."""

    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        """Let the fact go."""

    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        """Return None."""
        return None

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        """Return nothing."""
        return ()

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> Sequence[Fact[Any]]:
        """Return nothing."""
        if not description.strip():
            raise InvalidDataError("the text to look for is empty; use load_all to read everything")
        return ()


class InMemoryProvider(HistoryProvider, KeepsLog):
    """Keeps everything in memory, with every capability; gone when it is closed.

    Args:
        clock: Gives the time of recording, and decides what has expired.
    """

    @override
    def __init__(self, *, clock: Clock = system_clock) -> None:
        super().__init__(clock=clock)
        self._logs: dict[str | None, list[LogEntry]] = {}
        self._index = TrackIndex()
        self._vectors: dict[tuple[str | None, int], NDArray[np.float32]] = {}
        self._embedder: EmbedderIdentity | None = None
        self._accesses: dict[tuple[str | None, str], Access] = {}
        self._seqs: dict[str | None, int] = defaultdict(int)
        self._copies: set[str | None] = set()
        self._steady = SteadyClock(clock)
        self._closed = False

    @override
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        self._check_open()
        vectors = {
            id(item): storable_vector(item.vector, dimension=self._dimension)
            for item in statements
            if isinstance(item, Append) and item.vector is not None
        }
        planner = Planner(self._steady, lambda _: self._index, self._seqs.__getitem__)
        receipts, planned = planner.plan(statements)
        for each in planned:
            tenant = each.item.tenant
            self._log_of(tenant).append(each.entry)
            if (vector := vectors.get(id(each.item))) is not None:
                self._vectors[tenant, each.entry.seq] = vector
        self._seqs.update(planner.last)
        return receipts

    def _log_of(self, tenant: str | None) -> list[LogEntry]:
        return self._logs.setdefault(tenant, [])

    @override
    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        self._check_open()
        log = self._logs.get(place.scope.tenant, [])
        here = {
            entry.id
            for entry in log
            if isinstance(entry, Recorded)
            and entry.assertion.place.key == place.key
            and keyword in (None, entry.assertion.keyword)
        }
        return [entry for entry in log if entry.assertion_id in here]

    @override
    async def version(self, tenant: str | None) -> int:
        self._check_open()
        return self._seqs[tenant]

    @override
    async def changes(self, tenant: str | None, since: int = 0) -> Sequence[LogEntry]:
        self._check_open()
        return [entry for entry in self._logs.get(tenant, []) if entry.seq > since]

    @override
    async def embedder(self) -> EmbedderIdentity | None:
        self._check_open()
        return self._embedder

    @override
    async def use_embedder(self, identity: EmbedderIdentity, *, replace: bool = False) -> None:
        self._check_open()
        if binds_anew(self._embedder, identity, replace=replace):
            self._vectors.clear()
        self._embedder = identity

    @override
    async def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        self._check_open()
        checked = {seq: storable_vector(vector, dimension=self._dimension) for seq, vector in vectors.items()}
        known = {entry.seq for entry in self._recorded(tenant)}
        self._vectors.update({(tenant, seq): vector for seq, vector in checked.items() if seq in known})

    @override
    async def vectors(self, tenant: str | None, since: int = 0) -> tuple[Sequence[int], NDArray[np.float32]]:
        import numpy as np

        seqs = [
            entry.seq
            for entry in await self.changes(tenant, since)
            if isinstance(entry, Recorded) and (tenant, entry.seq) in self._vectors
        ]
        width = self._dimension or 0
        return seqs, np.array([self._vectors[tenant, seq] for seq in seqs], dtype=np.float32).reshape(len(seqs), width)

    @override
    async def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        self._check_open()
        known = self._record_ids(tenant)
        for id in accesses.keys() & known:
            self._accesses[tenant, id] = self._accesses.get((tenant, id), Access()) + accesses[id]

    @override
    async def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        self._check_open()
        return {id: access for id in record_ids if (access := self._accesses.get((tenant, id))) is not None}

    def _record_ids(self, tenant: str | None) -> set[str]:
        return {entry.record_id for entry in self._recorded(tenant)}

    def _recorded(self, tenant: str | None) -> list[Recorded]:
        return [entry for entry in self._logs.get(tenant, []) if isinstance(entry, Recorded)]

    @override
    async def erase(
        self, record_ids: Sequence[str], *, tenant: str | None, assertion_ids: Sequence[str] = ()
    ) -> EraseReceipt:
        self._check_open()
        records, singly = set(record_ids), set(assertion_ids)
        gone = [entry for entry in self._recorded(tenant) if entry.record_id in records or entry.id in singly]
        if not gone:
            return EraseReceipt(erased=0)
        numbered = enumerate(gone, start=self._seqs[tenant] + 1)
        self._bury(tenant, gone, [Tombstone(assertion_id=recorded.id, seq=seq) for seq, recorded in numbered])
        self._seqs[tenant] += len(gone)
        return EraseReceipt(erased=len(gone))

    def _bury(self, tenant: str | None, gone: Sequence[Recorded], tombstones: Sequence[Tombstone]) -> None:
        """Replace assertions, and all that belongs to them, with tombstones."""
        ids = {recorded.id for recorded in gone}
        log = [entry for entry in self._logs[tenant] if isinstance(entry, Tombstone) or entry.assertion_id not in ids]
        self._logs[tenant] = [*log, *tombstones]
        for recorded in gone:
            self._vectors.pop((tenant, recorded.seq), None)
        for id in {recorded.record_id for recorded in gone} - self._record_ids(tenant):
            self._accesses.pop((tenant, id), None)
        self._index = TrackIndex()
        for entry in itertools.chain.from_iterable(self._logs.values()):
            self._index.add(entry)

    @override
    async def tenants(self) -> Sequence[str | None]:
        self._check_open()
        return sorted(self._copies | {tenant for tenant, seq in self._seqs.items() if seq}, key=lambda name: name or "")

    @override
    async def log_part(self, tenant: str | None, since: int = 0, *, limit: int = 1_000) -> LogPart:
        log = self._logs.get(tenant, [])
        start = bisect.bisect_right(log, since, key=lambda entry: entry.seq)
        entries = log[start : start + limit + 1]
        vectors = {entry.seq: row for entry in entries if (row := self._vectors.get((tenant, entry.seq))) is not None}
        return part_of(entries, vectors, since=since, limit=limit, newest=await self.version(tenant))

    @override
    async def begin_copy(self, tenants: Sequence[str | None]) -> None:
        self._check_open()
        self._copies.update(tenants)

    @override
    async def copied(self, tenant: str | None) -> int | None:
        self._check_open()
        return self._seqs[tenant] if tenant in self._copies else None

    @override
    async def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        check_part(part, tenant, await self.copied(tenant))
        vectors = {seq: storable_vector(row, dimension=self._dimension) for seq, row in part.vectors.items()}
        self._index.begin()
        try:
            for entry in part.entries:
                if not isinstance(entry, Tombstone):
                    self._index.take(entry, tenant)
        except InvalidDataError:
            self._index.roll_back()
            raise
        self._index.commit()
        for entry in part.entries:
            log = self._log_of(tenant)
            if isinstance(entry, Tombstone):
                gone = [item for item in self._recorded(tenant) if item.id == entry.assertion_id]
                self._bury(tenant, gone, [entry]) if gone else log.append(entry)
            else:
                log.append(entry)
                self._steady.reached(entry.recorded_at, tenant)
        self._seqs[tenant] = part.until
        self._vectors.update({(tenant, seq): vector for seq, vector in vectors.items()})

    @override
    async def end_copy(self, tenants: Sequence[str | None]) -> None:
        self._check_open()
        self._copies.difference_update(tenants)

    @override
    async def check(self, *, progress: Progress | None = None) -> Sequence[Finding]:
        self._check_open()
        tenants = sorted(self._logs, key=lambda tenant: tenant or "")
        found = [unfinished_copy(tenant) for tenant in self._copies]
        for done, tenant in enumerate(tenants, start=1):
            found += findings_in(await self.changes(tenant), tenant)
            if progress is not None:
                progress(done, len(tenants))
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    async def aclose(self) -> None:
        """Close it; what it kept is gone."""
        self._closed = True
        self._logs.clear()

    @property
    def _dimension(self) -> int | None:
        return self._embedder.dimension if self._embedder else None

    def _check_open(self) -> None:
        if self._closed:
            raise ProviderClosedError("the provider was closed: make a new one, or a new Memory")
