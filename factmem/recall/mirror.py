"""The in-memory mirror of a tenant: kept in step with the store, it is what recall and listings read.

The log is kept as `Columns`, folded once; what a write touches is folded again, and nothing else
(`affected`). What is current is a `Corpus`, handed out as it is: whoever reads it holds no lock and sees
no half of a write. What is current at another moment is folded and laid out when it is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np
from anyio import Lock, to_thread

from factmem.abc import AgentMemoryProvider, Clock, Embedder, FeedsChanges, KeepsVectors
from factmem.errors import CapabilityError
from factmem.fold import Moment
from factmem.recall.analysis import analyse, indexed_text
from factmem.recall.embedders import embedded
from factmem.recall.ledger import Ledger
from factmem.recall.outlines import term_numbers
from factmem.records import LogEntry, Place, Recorded, assertions_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.corpus import Corpus

__all__ = ["LogSource", "Mirror", "Pulled", "log_source"]

_BATCH = 1024
"""How many texts are embedded, and their vectors stored, at a time."""


class LogSource(Protocol):
    """Where a mirror gets a tenant's log from."""

    async def pull(self) -> Pulled | None:
        """Return what is new since the last pull that was taken in, or None."""
        ...

    def taken_in(self, pulled: Pulled) -> None:
        """Go on behind something that was pulled."""
        ...


@attrs.frozen
class Pulled:
    """What a source has that is new.

    Attributes:
        entries: log entries, by sequence number.
        until: what to pull from the next time.
        whole: whether this is all there is, instead of what came to it.
    """

    entries: Sequence[LogEntry]
    until: Any
    whole: bool = attrs.field(default=False, kw_only=True)


class Mirror:
    """What a store holds of one tenant, ready to be searched.

    Args:
        source: where the log comes from.
        provider: where vectors are kept, if it can keep them.
        embedder: makes the vectors.
        tenant: whose facts.
        clock: decides what has expired.
    """

    def __init__(
        self,
        source: LogSource,
        provider: AgentMemoryProvider,
        embedder: Embedder,
        *,
        tenant: str | None,
        clock: Clock,
    ) -> None:
        self._source = source
        self._store = provider if isinstance(provider, KeepsVectors) else None
        self._embedder = embedder
        self._tenant = tenant
        self._clock = clock
        self._lock = Lock()
        self._ledger = Ledger(tenant)
        self._vectors_until = 0
        self._bound = False

    async def corpus(self, moment: Moment | None = None) -> Corpus:
        """Return everything current, of now or of another moment, in step with the store."""
        async with self._lock:
            await self._pull()
            present = Moment(now=self._clock()) if moment is None else moment
            if moment is None and (known := self._ledger.up_to_date(present)) is not None:
                return known
            await self.bind()
            identity = await self._embedder.identity()
            await to_thread.run_sync(self._ledger.use_dimension, identity.dimension)
            plan = await to_thread.run_sync(partial(self._ledger.plan, present, present=moment is None))
            missing = self._ledger.lacking(plan.current.rows)
            if len(missing):
                await self._embed(missing)
            return await to_thread.run_sync(partial(self._ledger.carried_out, plan, present=moment is None))

    async def log(self) -> Sequence[LogEntry]:
        """Return the tenant's whole log, in step with the store."""
        async with self._lock:
            await self._pull()
            return self._ledger.log()

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
        if replace:
            self._ledger.drop_vectors()
            self._vectors_until = 0
        self._bound = True

    def vector(self, assertion_id: str) -> NDArray[np.float32] | None:
        """Return the embedding of an assertion that was read already, or None."""
        return self._ledger.vector(assertion_id)

    def terms(self, text: str) -> list[int]:
        """Return the numbers of a query's distinct terms."""
        return term_numbers(dict.fromkeys(analyse(text)))

    async def _pull(self) -> None:
        pulled = await self._source.pull()
        if pulled is not None:
            await to_thread.run_sync(self._take_in, pulled)

    def _take_in(self, pulled: Pulled) -> None:
        if pulled.whole:
            self._ledger = Ledger(self._tenant)
            self._vectors_until = 0
        self._ledger.take_in(pulled.entries)
        self._source.taken_in(pulled)

    async def _embed(self, missing: NDArray[np.intp]) -> None:
        """Fetch the vectors the store has, make the missing ones, and give the store what it lacks."""
        await self._fetch_vectors()
        missing = self._ledger.lacking(missing)
        for start in range(0, len(missing), _BATCH):
            rows = missing[start : start + _BATCH]
            batch = await to_thread.run_sync(self._ledger.documents.read, rows.tolist())
            made = await embedded(self._embedder, [indexed_text(item.assertion) for item in batch])
            if self._store is not None:
                pairs = zip(batch, made, strict=True)
                await self._store.put_vectors({item.seq: row for item, row in pairs if row is not None})
            await to_thread.run_sync(self._ledger.take_vectors, rows, made)

    async def _fetch_vectors(self) -> None:
        newest = self._ledger.newest
        if self._store is None or newest <= self._vectors_until:
            return
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
