"""The in-memory mirror of a tenant: kept in step with the store, it is what recall and listings read.

The log is kept as `Columns`, folded once; what a write touches is folded again, and nothing else
(`affected`). What is current is a `Corpus`, handed out as it is: whoever reads it holds no lock and sees
no half of a write. What is current at another moment is folded and laid out when it is asked for.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np
from anyio import Lock, to_thread

from factmem.abc import (
    AgentMemoryProvider,
    Clock,
    Embedder,
    FeedsChanges,
    KeepsOutlines,
    KeepsVectors,
    Outline,
    ScansVectors,
)
from factmem.errors import CapabilityError, StoreUnavailableError
from factmem.fold import Moment
from factmem.recall.analysis import analyse, indexed_text
from factmem.recall.columns import Rows
from factmem.recall.documents import Stored, rows_in_order, rows_in_outline
from factmem.recall.embedders import embedded
from factmem.recall.ledger import Ledger
from factmem.recall.log_parts import LogPart
from factmem.recall.outlines import OUTLINE_VERSION, outline_of, term_numbers
from factmem.recall.related_words import Term, term_of
from factmem.records import Assertion, LogEntry, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.corpus import Corpus

__all__ = ["LogSource", "Mirror", "Pulled", "log_source"]

_BATCH = 1024
"""How many texts are embedded, and their vectors stored, at a time."""


_PAGE = 4096
"""How many outlines are read at a time."""


class LogSource(Protocol):
    """Where a mirror gets a tenant's log from."""

    async def pull(self) -> Pulled | None:
        """Return what is new since the last pull that was taken in, or None."""
        ...

    def taken_in(self, pulled: Pulled) -> None:
        """Go on behind something that was pulled."""
        ...

    def is_pulled(self) -> bool:
        """Whether it is sure that there is nothing new. This may block: for worker threads only."""
        ...


@attrs.frozen
class Pulled:
    """What a source has that is new.

    Attributes:
        entries: log entries, by sequence number.
        until: what to pull from the next time.
        rows: assertions in outline, by sequence number.
        whole: whether this is all there is, instead of what came to it.
    """

    entries: Sequence[LogEntry]
    until: Any
    rows: Rows | None = attrs.field(default=None, kw_only=True)
    whole: bool = attrs.field(default=False, kw_only=True)


class Mirror:
    """What a store holds of one tenant, ready to be searched.

    Args:
        source: where the log comes from.
        provider: where vectors are kept, if it can keep them.
        embedder: makes the vectors.
        tenant: whose facts.
        clock: decides what has expired.
        memory_limit: how many bytes the vectors may take in memory; above that they are read from the store for
            each query. None is no limit.

    Raises:
        CapabilityError: there is a limit, and the provider keeps no vectors that can be read for each query.
    """

    def __init__(
        self,
        source: LogSource,
        provider: AgentMemoryProvider,
        embedder: Embedder,
        *,
        tenant: str | None,
        clock: Clock,
        memory_limit: int | None = None,
    ) -> None:
        self._scans = provider if isinstance(provider, ScansVectors) else None
        if memory_limit is not None and self._scans is None:
            raise CapabilityError(
                "this provider's embeddings are held in memory: leave memory_limit out, or use sqlite-vec"
            )
        self._memory_limit = memory_limit
        self._source = source
        self._store = provider if isinstance(provider, KeepsVectors) else None
        self._embedder = embedder
        self._tenant = tenant
        self._clock = clock
        self._lock = Lock()
        self._outlines = provider if isinstance(provider, KeepsOutlines) else None
        self._ledger = Ledger(tenant, Stored(self._outlines, tenant) if self._outlines is not None else None)
        self._vectors_until = 0
        self._bound = False

    async def corpus(self, moment: Moment | None = None) -> Corpus:
        """Return everything current, of now or of another moment, in step with the store."""
        async with self._lock:
            await self.bind()
            await self._pull()
            present = Moment(now=self._clock()) if moment is None else moment
            if moment is None and (known := self._ledger.up_to_date(present)) is not None:
                return known
            identity = await self._embedder.identity()
            use_vectors = self._ledger.use_vectors
            if await to_thread.run_sync(use_vectors, identity.dimension, self._scans, self._memory_limit):
                self._vectors_until = 0
            plan = await to_thread.run_sync(partial(self._ledger.plan, present, present=moment is None))
            missing = self._ledger.lacking(plan.current.rows)
            if len(missing):
                await self._embed(missing)
            return await to_thread.run_sync(partial(self._ledger.carried_out, plan, present=moment is None))

    def up_to_date(self) -> Corpus | None:
        """Return what is current now if the store has nothing new. This may block: for worker threads only."""
        if not self._bound or not self._source.is_pulled():
            return None
        return self._ledger.up_to_date(Moment(now=self._clock()))

    async def log(self, part: LogPart | None = None) -> Sequence[LogEntry]:
        """Return the tenant's log, in step with the store.

        Args:
            part: which part of it; all of it if None.
        """
        async with self._lock:
            await self._pull()
            return await to_thread.run_sync(self._ledger.log, part)

    async def count(self, viewer: str | None, reaches: Callable[[MemoryScope], bool]) -> int:
        """Return how many assertions a viewer sees in some scopes, whatever became of them."""
        async with self._lock:
            await self._pull()
            return await to_thread.run_sync(self._ledger.count, viewer, reaches)

    async def let_go(self) -> None:
        """Drop what was erased now, and not when something is read next."""
        async with self._lock:
            await self._pull()

    async def bind(self, *, replace: bool = False) -> None:
        """Bind the store to the embedder.

        Raises:
            EmbedderMismatchError: the store's vectors come from another one, and ``replace`` is False.
        """
        if self._store is not None and (replace or not self._bound):
            await self._store.use_embedder(await self._embedder.identity(), replace=replace)
        if self._outlines is not None and not self._bound:
            await self._outlines.use_outlines(OUTLINE_VERSION)
        if replace:
            self._ledger.drop_vectors()
            self._vectors_until = 0
        self._bound = True

    def outline(self, said: Assertion) -> Outline | None:
        """Return what recall keeps of an assertion; None where the store keeps no outlines."""
        return None if self._outlines is None else outline_of(said)

    def vector(self, assertion_id: str) -> NDArray[np.float32] | None:
        """Return the embedding of an assertion that was read already, or None."""
        return self._ledger.vector(assertion_id)

    def terms(self, text: str) -> list[Term]:
        """Return a query's distinct terms, with those related to them."""
        return list(map(term_of, term_numbers(dict.fromkeys(analyse(text)))))

    async def _pull(self) -> None:
        while (pulled := await self._source.pull()) is not None:
            await to_thread.run_sync(self._take_in, pulled)
            if pulled.whole:
                return

    def _take_in(self, pulled: Pulled) -> None:
        if pulled.whole:
            self._ledger = Ledger(self._tenant)
            self._vectors_until = 0
        self._ledger.take_in(pulled.entries, pulled.rows)
        self._source.taken_in(pulled)

    async def _embed(self, missing: NDArray[np.intp]) -> None:
        """Fetch the vectors the store has, make the missing ones, and give the store what it lacks."""
        await self._fetch_vectors()
        missing = self._ledger.lacking(missing)
        for start in range(0, len(missing), _BATCH):
            rows = missing[start : start + _BATCH]
            read = await to_thread.run_sync(self._ledger.documents.read, rows.tolist())
            rows, batch = rows[[item is not None for item in read]], [item for item in read if item is not None]
            made = await embedded(self._embedder, [indexed_text(item.assertion) for item in batch])
            if self._store is not None:
                pairs = zip(batch, made, strict=True)
                await self._store.put_vectors({item.seq: row for item, row in pairs if row is not None})
            await to_thread.run_sync(self._ledger.take_vectors, rows, made)

    async def _fetch_vectors(self) -> None:
        newest = self._ledger.newest
        if self._store is None or newest <= self._vectors_until:
            return
        if self._scans is not None and self._ledger.vectors_stay:
            numbers = await to_thread.run_sync(self._scans.vector_numbers, self._tenant, self._vectors_until)
            nothing = np.empty((len(numbers), 0), np.float32)
            await to_thread.run_sync(self._ledger.take_stored_vectors, numbers, nothing)
        else:
            seqs, rows = await self._store.vectors(self._tenant, self._vectors_until)
            await to_thread.run_sync(self._ledger.take_stored_vectors, seqs, rows)
        self._vectors_until = newest


def log_source(provider: AgentMemoryProvider, tenant: str | None, places: Sequence[Place]) -> LogSource:
    """Return the best source that a provider allows.

    Args:
        provider: the store.
        tenant: whose facts.
        places: where to look in a provider that cannot enumerate; it has only the four verbs.
    """
    if isinstance(provider, KeepsOutlines):
        return _OutlineFeed(provider, tenant)
    if isinstance(provider, FeedsChanges):
        return _Feed(provider, tenant)
    return _Waist(provider, places)


@attrs.define
class _Feed:
    """The log of a provider that feeds changes: only what is new is read."""

    _provider: FeedsChanges
    _tenant: str | None
    _seq: int = attrs.field(default=0, init=False)

    async def pull(self) -> Pulled | None:
        """See `LogSource.pull`."""
        version = await self._provider.version()
        if version == self._seq:
            return None
        new = await self._provider.changes(self._tenant, self._seq)
        return Pulled(new, max(version, new[-1].seq if new else 0))

    def taken_in(self, pulled: Pulled) -> None:
        """See `LogSource.taken_in`."""
        self._seq = pulled.until

    def is_pulled(self) -> bool:
        """See `LogSource.is_pulled`; only waiting could tell."""
        return False


@attrs.define
class _OutlineFeed:
    """The log of a provider that keeps outlines: no assertion is read that has one."""

    _provider: KeepsOutlines
    _tenant: str | None
    _seq: int = attrs.field(default=0, init=False)

    async def pull(self) -> Pulled | None:
        """See `LogSource.pull`."""
        pulled = await to_thread.run_sync(self._pull)
        if pulled is None:
            return None
        read, made = pulled
        if made:
            with contextlib.suppress(StoreUnavailableError):  # the next one may have more luck
                await self._provider.put_outlines(made)
        return read

    def _pull(self) -> tuple[Pulled, dict[int, Outline]] | None:
        if self._provider.newest() == self._seq:
            return None
        log = self._provider.outlined(self._tenant, self._seq, limit=_PAGE)
        rows = Rows(
            seqs=log.seqs,
            ids=log.ids,
            records=log.records,
            recorded_at=log.recorded_at,
            about=log.about,
            metadata=log.metadata,
            bodies=log.bodies,
        )
        made: dict[int, Outline] = {}
        several = [rows]
        for start in range(0, len(log.missing), _BATCH):
            read = self._provider.recorded(self._tenant, log.missing[start : start + _BATCH])
            there = [item for item in read if item is not None]
            outlines = [outline_of(item.assertion) for item in there]
            made |= {item.seq: outline for item, outline in zip(there, outlines, strict=True)}
            several.append(rows_in_outline(there, outlines))
        return Pulled(log.rest, log.until, rows=rows_in_order(several)), made

    def taken_in(self, pulled: Pulled) -> None:
        """See `LogSource.taken_in`."""
        self._seq = pulled.until

    def is_pulled(self) -> bool:
        """See `LogSource.is_pulled`."""
        return self._provider.newest() == self._seq


@attrs.define
class _Waist:
    """The log of a provider with the four verbs only: read anew each time, its records numbered by what they say."""

    _provider: AgentMemoryProvider
    _places: Sequence[Place]
    _known: Mapping[str, Recorded] = attrs.field(factory=dict, init=False)

    async def pull(self) -> Pulled | None:
        """See `LogSource.pull`."""
        if not self._places:
            raise CapabilityError(
                "this provider has the four verbs only: tell the Memory which subjects= and scopes= to look in"
            )
        log = {recorded.id: recorded for place in self._places for recorded in await self._read(place)}
        if log.keys() == self._known.keys():
            return None
        return Pulled(list(log.values()), log, whole=True)

    def taken_in(self, pulled: Pulled) -> None:
        """See `LogSource.taken_in`."""
        self._known = pulled.until

    def is_pulled(self) -> bool:
        """See `LogSource.is_pulled`; only waiting could tell."""
        return False

    async def _read(self, place: Place) -> Iterable[Recorded]:
        facts = await self._provider.load_all(place.subject, place.scope)
        return [
            _numbered(assertion, seq)
            for fact in facts
            for seq, assertion in enumerate(assertions_of(fact, place), start=1)
        ]


def _numbered(assertion: Any, seq: int) -> Recorded:
    record = hashlib.blake2b(repr((assertion.track, assertion.slot)).encode(), digest_size=16).hexdigest()
    return Recorded(
        assertion=assertion,
        id=f"{record}-{assertion.fingerprint.hex()}",
        record_id=record,
        seq=seq,
        recorded_at=assertion.timestamp,
    )
