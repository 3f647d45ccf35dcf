"""The in-memory mirror of a tenant: the index that recall and listings read, kept in step with the store.

Reading needs no embedder. Records without a vector are embedded at the first search by meaning; the lock that keeps the
mirror in step is not held meanwhile.

The log is kept as `Columns` and folded once. A write folds the records that it affects, and nothing else. The current
records are a `Corpus`, an immutable snapshot: its readers hold no lock and see no half of a write. The corpus of
another moment is folded on demand.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import numpy as np
from anyio import Lock, to_thread

from factmem.abc.capabilities import EmbedderIdentity, KeepsLog, ScansVectors
from factmem.abc.clock import Clock
from factmem.abc.embedder import Embedder
from factmem.abc.outlines import KeepsOutlines, Outline
from factmem.abc.provider import AgentMemoryProvider
from factmem.errors import CapabilityError, EmbedderError, EmbedderMismatchError, ReadOnlyError, StoreUnavailableError
from factmem.fold import Moment
from factmem.recall.embedders import embedded
from factmem.recall.index.mirror_cache import MIRRORS
from factmem.recall.index.outline_codec import OUTLINE_VERSION, outlines_of
from factmem.recall.index.selection import LogPart
from factmem.recall.index.source import LogSource, Pulled
from factmem.recall.index.tenant_log import TenantLog
from factmem.recall.text.analysis import indexed_text
from factmem.records import Assertion, LogEntry, Recorded, Tombstone
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.text_caches import forget_texts
from factmem.vectors import PROBE
from factmem.views import Sight

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.index.corpus import Corpus

T = TypeVar("T")

_BATCH: Final = 1024
"""Number of texts that are embedded, and whose vectors are stored, at a time."""

_SMALL: Final = 12_288
"""Number of assertions up to which a search takes about a millisecond, and hardly longer than the way to a thread."""

_LOG: Final = logging.getLogger("factmem")


@attrs.frozen(eq=False)
class Glance:
    """Records of a mirror before the store was asked for new ones.

    Attributes:
        corpus: The records.
        holds: Tells, after they were read, whether they were all that the store had when the glance began. Blocks, as
            `Mirror.glance`.
    """

    corpus: Corpus
    holds: Callable[[], bool]


class Mirror:
    """The searchable copy of one tenant's facts.

    Args:
        source: The source of the log.
        provider: The store, which also keeps vectors if it can.
        embedder: The embedder.
        tenant: The tenant.
        clock: Returns the present, which expiries are compared with.
        memory_limit: Maximum size of the vectors in memory, in bytes; above that they are read from the store for
            each query. None for no limit.
        mirror_limit: Maximum size of all mirrors of the process, in bytes; see `MIRRORS`. None for no limit.

    Raises:
        CapabilityError: A limit is set, and the provider cannot read vectors for each query.
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
        mirror_limit: int | None = None,
    ) -> None:
        self._scans = provider if isinstance(provider, ScansVectors) else None
        if memory_limit is not None and self._scans is None:
            raise CapabilityError(
                "this provider's embeddings are held in memory: leave memory_limit out, or use sqlite-vec"
            )
        self._memory_limit = memory_limit
        self._mirror_limit = mirror_limit
        self._source = source
        self._store = provider if isinstance(provider, KeepsLog) else None
        self._embedder = embedder
        self._tenant = tenant
        self._clock = clock
        self.enter_loop()
        self._outlines = provider if isinstance(provider, KeepsOutlines) else None
        self._begin()
        self._outlined = False
        """Whether the store knows the version of our outlines."""
        self._compared = False
        """Whether the store's vectors, if it has any, are known to be our embedder's."""
        self._bound = False
        """Whether the store is bound to our embedder, so that vectors can be read and stored."""
        self._was_bound = False
        """Whether the store has ever been bound to our embedder while this process used it."""

    async def corpus(self, moment: Moment | None = None, *, embedded: bool = False) -> Corpus:
        """Return everything current, now or at another moment, in step with the store.

        This creates no store, and reads one that takes no vectors at present.

        Args:
            moment: The moment; None for now.
            embedded: Whether every record must have its vector. If not, the embedder is not called.

        Raises:
            EmbedderError: The embedder failed, and vectors are needed.
            EmbedderMismatchError: The store's vectors come from another embedder, and vectors are needed.
        """
        with self._read():
            if embedded:
                return await self._embedded(moment)
            async with self._lock:
                return await self._in_step(moment)

    async def reembed(self, progress: Callable[[float], None] | None = None) -> None:
        """Bind the store to the embedder, replacing any other, and embed everything current again.

        Args:
            progress: Called with the share that is done after each batch.

        Raises:
            EmbedderError: The embedder failed. If it failed at the first call, nothing has changed.
            StoreUnavailableError: Not all vectors were stored; the next read makes the missing ones.
        """
        identity = await self._embedder.identity()
        await embedded(self._embedder, [PROBE])  # drop the present vectors only if there can be others
        with self._read():
            async with self._lock:
                await self._bind(identity, replace=True)
            await self._embedded(None, must_keep=True, progress=progress)

    def look_in(self, subjects: Sequence[MemorySubject], scopes: Sequence[MemoryScope]) -> None:
        """Include some subjects and scopes in the next read of a provider that cannot enumerate."""
        self._source.look_in(subjects, scopes)

    def wrote(self) -> None:
        """Expect something new in the store: this process wrote to it."""
        self._source.behind = True

    @property
    def behind(self) -> bool:
        """Whether something new is expected in the store, so that `glance` returns None."""
        return self._source.behind

    @property
    def is_small(self) -> bool:
        """Whether a search of what is in memory takes about a millisecond, and the store is near."""
        return self._outlines is not None and not self._outlines.far and 0 < self._log.size <= _SMALL

    def glance(self, *, embedded: bool) -> Glance | None:
        """Return the current records if these are likely to be all; None if not.

        Blocks: for worker threads, and for `factmem.short_work.at_once`.

        Args:
            embedded: See `corpus`.
        """
        holds = None if embedded and not self._compared else self._source.watch()
        corpus = None if holds is None else self._log.up_to_date(Moment(now=self._clock()))
        if holds is None or corpus is None or (embedded and not corpus.embedded):
            return None
        MIRRORS.was_read(self, self._mirror_limit)
        return Glance(corpus, holds)

    async def log(
        self, part: LogPart | None = None, sees: Callable[[Assertion], bool] | None = None
    ) -> Sequence[LogEntry]:
        """Return the tenant's log, in step with the store.

        Args:
            part: The part; None for all of it.
            sees: Whether an assertion is returned; None for all of them.
        """

        def visible(log: TenantLog) -> Sequence[LogEntry]:
            entries = log.log(part)
            if sees is None:
                return entries
            return [entry for entry in entries if not isinstance(entry, Recorded) or sees(entry.assertion)]

        return await self._of_log(visible)

    async def actions(
        self, part: LogPart, since: dt.datetime | None, until: dt.datetime | None
    ) -> tuple[dict[int, int], list[Tombstone]]:
        """Return the actions on the assertions of a part, and everything erased; see `TenantLog.actions`."""
        return await self._of_log(lambda log: (log.actions(part, since, until), list(log.erasures)))

    async def waiting(self, sight: Sight) -> int:
        """Return the number of assertions that wait to be accepted and are visible to a caller."""
        return await self._of_log(lambda log: log.waiting(sight))

    async def _of_log(self, work: Callable[[TenantLog], T]) -> T:
        """Return what a function finds in the log, in step with the store."""
        with self._read():
            async with self._lock:
                return await self._after_pull(lambda: work(self._log))

    def enter_loop(self) -> None:
        """Make the locks anew, for another event loop; no call may be under way."""
        self._lock = Lock()
        self._embedding = Lock()

    async def let_go(self) -> None:
        """Drop now what was erased here or by other processes; a mirror that holds nothing reads nothing."""
        if not self._log.newest and not self._lock.locked():  # a first read under way may hold what was erased
            return
        with MIRRORS.pinned(self):
            async with self._lock:
                if self._log.newest:
                    await self._after_pull(lambda: None)

    def close(self) -> None:
        """Drop everything held, once no call is under way; a later read begins anew."""
        MIRRORS.close(self)

    @property
    def nbytes(self) -> int:
        """The size of what is held in memory, in bytes."""
        return self._log.nbytes

    def drop(self) -> None:
        """Drop everything held; the next read begins anew. No call may be under way but `glance` and `vector`."""
        self._begin()
        forget_texts()  # what is erased while nothing is held would stay in these caches

    def _begin(self) -> None:
        self._log = TenantLog(self._tenant, self._source.library())
        self._source.restart()
        self._vectors_until = 0

    @contextlib.contextmanager
    def _read(self) -> Iterator[None]:
        """Stay in memory during a read, and be the most recently read mirror after it."""
        try:
            with MIRRORS.pinned(self):
                yield
        finally:
            MIRRORS.was_read(self, self._mirror_limit)

    async def bind(self) -> None:
        """Bind the store to the embedder, before vectors are stored.

        Raises:
            EmbedderError: The embedder failed, or another process has embedded the store again with another one.
            EmbedderMismatchError: The store's vectors come from another one.
        """
        if not self._bound:
            identity = await self._embedder.identity()
            async with self._lock:
                await self._bind(identity)

    def unbind(self) -> None:
        """Bind the store anew before vectors are stored: another memory has embedded it again."""
        self._bound = False

    def outlines(self, said: Sequence[Assertion]) -> Sequence[Outline | None]:
        """Return the outlines of assertions; None for each if the store keeps no outlines."""
        return [None] * len(said) if self._outlines is None else outlines_of(said)

    def vector(self, assertion_id: str) -> NDArray[np.float32] | None:
        """Return the embedding of an assertion of the mirror, or None."""
        return self._log.vector(assertion_id)

    async def _compare(self, identity: EmbedderIdentity) -> None:
        """Check that the store's vectors are our embedder's; write nothing."""
        stored = identity if self._store is None else await self._store.embedder()
        self._bound = self._bound and stored == identity  # another process may have replaced it
        if stored is not None:
            await self._bind(identity)
        self._compared = True

    async def _use_outlines(self) -> None:
        if self._outlines is not None and not self._outlined:
            with contextlib.suppress(ReadOnlyError, StoreUnavailableError):  # the next process may write
                await self._outlines.use_outlines(OUTLINE_VERSION)
            self._outlined = True

    async def _bind(self, identity: EmbedderIdentity, *, replace: bool = False) -> None:
        await self._use_outlines()
        if self._store is not None and (replace or not self._bound):
            try:
                await self._store.use_embedder(identity, replace=replace)
            except EmbedderMismatchError as error:
                if self._was_bound:  # the embedder was right when this process began: it goes on without vectors
                    raise EmbedderError(str(error)) from error
                raise
        if replace:
            self._log.drop_vectors()
            self._vectors_until = 0
        self._bound = self._was_bound = True

    async def _in_step(self, moment: Moment | None, identity: EmbedderIdentity | None = None) -> Corpus:
        """Return the current records, with the store's vectors if their embedder is given."""
        corpus = await self._after_pull(partial(self._laid_out, moment, identity))
        if self._store is None or identity is None or corpus.embedded or not self._store_may_have_vectors:
            return corpus
        seqs, rows = await self._store.vectors(self._tenant, self._vectors_until)
        return await to_thread.run_sync(partial(self._with_stored, corpus, seqs, rows, present=moment is None))

    def _laid_out(self, moment: Moment | None, identity: EmbedderIdentity | None) -> Corpus:
        """Return the current records, with the store's vectors if these need not be awaited."""
        present = moment is None
        moment = Moment(now=self._clock()) if moment is None else moment
        if identity is not None and self._log.use_vectors(identity.dimension, self._scans, self._memory_limit):
            self._vectors_until = 0
        corpus = self._log.up_to_date(moment) if present else None
        corpus = self._log.corpus(moment, present=present) if corpus is None else corpus
        if identity is None or corpus.embedded or not self._store_may_have_vectors:
            return corpus
        # Vectors are read last: what it takes to lay out the records, and is freed, does not add to them.
        if self._scans is not None and self._log.vectors_stay:
            numbers = self._scans.vector_numbers(self._tenant, self._vectors_until)
            return self._with_stored(corpus, numbers, np.empty((len(numbers), 0), np.float32), present=present)
        if self._outlines is None:
            return corpus
        return self._with_stored(
            corpus, *self._outlines.vectors_since(self._tenant, self._vectors_until), present=present
        )

    @property
    def _store_may_have_vectors(self) -> bool:
        """Whether assertions were taken in since vectors were read from the store."""
        return self._bound and self._log.newest > self._vectors_until

    def _with_stored(
        self, corpus: Corpus, seqs: Sequence[int] | NDArray[np.int64], rows: NDArray[np.float32], *, present: bool
    ) -> Corpus:
        """Return records with vectors from the store; see `TenantLog.take_stored_vectors`."""
        self._log.take_stored_vectors(seqs, rows)
        self._vectors_until = self._log.newest
        return self._log.embedded(corpus, present=present)[0]

    async def _embedded(
        self, moment: Moment | None, *, must_keep: bool = False, progress: Callable[[float], None] | None = None
    ) -> Corpus:
        """Return the current records, after embedding those that lack a vector."""
        identity = await self._embedder.identity()
        corpus, lacking = await self._with_vectors(moment, identity)
        if not lacking:
            return corpus
        async with self._embedding:  # concurrent searches do not embed twice
            while True:
                corpus, lacking = await self._with_vectors(moment, identity)
                if not lacking:
                    return corpus
                for start in range(0, len(lacking), _BATCH):
                    await self._embed(lacking[start : start + _BATCH], identity, must_keep=must_keep)
                    if progress is not None:
                        progress(min(start + _BATCH, len(lacking)) / len(lacking))

    async def _with_vectors(self, moment: Moment | None, identity: EmbedderIdentity) -> tuple[Corpus, list[int]]:
        """Return the current records with the vectors known so far, and the ids of those that lack a vector."""
        async with self._lock:
            await self._compare(identity)
            corpus = await self._in_step(moment, identity)
            if corpus.embedded:
                return corpus, []
            return await to_thread.run_sync(partial(self._log.embedded, corpus, present=moment is None))

    async def _after_pull(self, work: Callable[[], T]) -> T:
        """Take in what is new in the store, then call a function, in a worker thread."""
        await self._use_outlines()
        while True:
            step = partial(self._step, await self._source.pull(), work)
            pulled, result = await to_thread.run_sync(step)
            if pulled is not None and pulled.made and self._outlines is not None:
                with contextlib.suppress(ReadOnlyError, StoreUnavailableError):  # the next process may write
                    await self._outlines.put_outlines(self._tenant, pulled.made)
            if result:
                return result[0]

    def _step(self, read: Callable[[], Pulled | None], work: Callable[[], T]) -> tuple[Pulled | None, tuple[T, ...]]:
        """Take in what is new, and return it, with the result of a function unless there is more."""
        pulled = read()
        if pulled is None:
            return None, (work(),)
        if pulled.whole:
            self._begin()
            self._bound = self._compared = False
        self._log.take_in(pulled.entries, pulled.rows)
        self._source.taken_in(pulled)
        return pulled, () if pulled.more else (work(),)

    async def _embed(self, ids: Sequence[int], identity: EmbedderIdentity, *, must_keep: bool) -> None:
        """Embed some assertions, and store their vectors."""
        async with self._lock:
            read = await to_thread.run_sync(self._log.assertions, ids)
        there = {id: item for id, item in zip(ids, read, strict=True) if item is not None}
        vectors = await embedded(self._embedder, [indexed_text(item.assertion) for item in there.values()])
        made = dict(zip(there, vectors, strict=True))
        async with self._lock:
            kept = {there[id].seq: vector for id, vector in made.items() if vector is not None}
            await self._keep(kept, identity, must_keep=must_keep)
            await to_thread.run_sync(self._log.take_vectors, dict.fromkeys(ids) | made)

    async def _keep(
        self, vectors: Mapping[int, NDArray[np.float32]], identity: EmbedderIdentity, *, must_keep: bool
    ) -> None:
        """Store vectors; a read goes on if the store does not take them now."""
        if self._store is None or not vectors:
            return
        try:
            await self._bind(identity)
            await self._store.put_vectors(self._tenant, vectors)
        except (EmbedderMismatchError, ReadOnlyError, StoreUnavailableError) as error:
            if must_keep:
                raise
            if not isinstance(error, ReadOnlyError):
                _LOG.warning("the store did not keep %d vectors; they will be made again: %s", len(vectors), error)
