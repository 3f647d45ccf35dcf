"""The in-memory mirror of a tenant: kept in step with the store, it is what recall and listings read.

The log is kept as `Columns`, folded once; what a write touches is folded again, and nothing else
(`affected`). What is current is a `Corpus`, handed out as it is: whoever reads it holds no lock and sees
no half of a write. What is current at another moment is folded and laid out when it is asked for.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from anyio import Lock, to_thread

from factmem.abc import (
    AgentMemoryProvider,
    Clock,
    Embedder,
    KeepsOutlines,
    KeepsVectors,
    Outline,
    ScansVectors,
)
from factmem.errors import CapabilityError, ReadOnlyError, StoreUnavailableError
from factmem.fold import Moment
from factmem.recall.analysis import analyse, indexed_text
from factmem.recall.documents import Stored
from factmem.recall.embedders import embedded
from factmem.recall.ledger import Ledger
from factmem.recall.log_parts import LogPart
from factmem.recall.outlines import OUTLINE_VERSION, outline_of, term_numbers
from factmem.recall.related_words import Term, term_of
from factmem.recall.sources import LogSource, Pulled
from factmem.records import Assertion, LogEntry
from factmem.scopes import MemoryScope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.corpus import Corpus

__all__ = ["Mirror"]

_BATCH: Final = 1024
"""How many texts are embedded, and their vectors stored, at a time."""


_log = logging.getLogger("factmem")


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
        self._outlined = False
        """Whether the store was told of which version outlines are."""
        self._compared = False
        """Whether the store's vectors, if it has any, are known to come from our embedder."""
        self._bound = False
        """Whether the store is bound to our embedder: its vectors can be read, and ours be put into it."""

    async def corpus(self, moment: Moment | None = None) -> Corpus:
        """Return everything current, of now or of another moment, in step with the store.

        Nothing is made where no store is, and one that takes no vectors now is read all the same.

        Raises:
            EmbedderMismatchError: the store's vectors come from another embedder.
        """
        async with self._lock:
            await self._compare()
            return await self._in_step(moment)

    async def reembed(self) -> None:
        """Bind the store to the embedder, whatever it was bound to, and embed what is current anew.

        Raises:
            StoreUnavailableError: not all vectors were kept; what is missing is made by whoever reads next.
        """
        async with self._lock:
            await self._bind(replace=True)
            await self._in_step(None, must_keep=True)

    def up_to_date(self) -> Corpus | None:
        """Return what is current now if the store has nothing new. This may block: for worker threads only."""
        if not self._compared or not self._source.is_pulled():
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

    async def bind(self) -> None:
        """Bind the store to the embedder, before vectors are handed to it.

        Raises:
            EmbedderMismatchError: the store's vectors come from another one.
        """
        if not self._bound:
            async with self._lock:
                await self._bind()

    def outline(self, said: Assertion) -> Outline | None:
        """Return what recall keeps of an assertion; None where the store keeps no outlines."""
        return None if self._outlines is None else outline_of(said)

    def vector(self, assertion_id: str) -> NDArray[np.float32] | None:
        """Return the embedding of an assertion that was read already, or None."""
        return self._ledger.vector(assertion_id)

    def terms(self, text: str) -> list[Term]:
        """Return a query's distinct terms, with those related to them."""
        return list(map(term_of, term_numbers(dict.fromkeys(analyse(text)))))

    async def _compare(self) -> None:
        """Raise unless the store is ours to read; nothing is written, so nothing is made."""
        if not self._bound and (self._store is None or await self._store.embedder() is not None):
            await self._bind()
        self._compared = True

    async def _use_outlines(self) -> None:
        if self._outlines is not None and not self._outlined:
            with contextlib.suppress(ReadOnlyError, StoreUnavailableError):  # not to be written to now: it can wait
                await self._outlines.use_outlines(OUTLINE_VERSION)
            self._outlined = True

    async def _bind(self, *, replace: bool = False) -> None:
        await self._use_outlines()
        if self._store is not None and (replace or not self._bound):
            await self._store.use_embedder(await self._embedder.identity(), replace=replace)
        if replace:
            self._ledger.drop_vectors()
            self._vectors_until = 0
        self._bound = True

    async def _in_step(self, moment: Moment | None, *, must_keep: bool = False) -> Corpus:
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
            await self._embed(missing, must_keep=must_keep)
        return await to_thread.run_sync(partial(self._ledger.carried_out, plan, present=moment is None))

    async def _pull(self) -> None:
        await self._use_outlines()
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

    async def _embed(self, missing: NDArray[np.intp], *, must_keep: bool) -> None:
        """Fetch the vectors the store has, make the missing ones, and give the store what it lacks."""
        await self._fetch_vectors()
        missing = self._ledger.lacking(missing)
        for start in range(0, len(missing), _BATCH):
            rows = missing[start : start + _BATCH]
            read = await to_thread.run_sync(self._ledger.documents.read, rows.tolist())
            rows, batch = rows[[item is not None for item in read]], [item for item in read if item is not None]
            made = await embedded(self._embedder, [indexed_text(item.assertion) for item in batch])
            pairs = zip(batch, made, strict=True)
            await self._keep({item.seq: row for item, row in pairs if row is not None}, must_keep=must_keep)
            await to_thread.run_sync(self._ledger.take_vectors, rows, made)

    async def _keep(self, vectors: Mapping[int, NDArray[np.float32]], *, must_keep: bool) -> None:
        """Give vectors to the store; whoever only reads goes on without, if it does not take them now."""
        if self._store is None or not vectors:
            return
        try:
            await self._bind()
            await self._store.put_vectors(vectors)
        except (ReadOnlyError, StoreUnavailableError) as error:
            if must_keep:
                raise
            if not isinstance(error, ReadOnlyError):
                _log.warning("the store did not keep %d vectors, which are made again: %s", len(vectors), error)

    async def _fetch_vectors(self) -> None:
        newest = self._ledger.newest
        if self._store is None or not self._bound or newest <= self._vectors_until:
            return
        if self._scans is not None and self._ledger.vectors_stay:
            numbers = await to_thread.run_sync(self._scans.vector_numbers, self._tenant, self._vectors_until)
            nothing = np.empty((len(numbers), 0), np.float32)
            await to_thread.run_sync(self._ledger.take_stored_vectors, numbers, nothing)
        else:
            seqs, rows = await self._store.vectors(self._tenant, self._vectors_until)
            await to_thread.run_sync(self._ledger.take_stored_vectors, seqs, rows)
        self._vectors_until = newest
