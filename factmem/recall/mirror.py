"""The in-memory mirror of a tenant: kept in step with the store, it is what recall and listings read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs
from anyio import Lock, to_thread

from factmem.abc import AgentMemoryProvider, Clock, Embedder, FeedsChanges, KeepsVectors
from factmem.errors import CapabilityError
from factmem.fold import Current, Moment, fold
from factmem.recall.analysis import analyse, indexed_text
from factmem.recall.corpus import Corpus, Document
from factmem.recall.embedders import embed_checked
from factmem.records import LogEntry, Place, Recorded, StateChange, Tombstone, assertions_of

if TYPE_CHECKING:
    import datetime as dt

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LogSource", "Mirror", "embedded", "log_source"]

_BATCH = 1024
"""How many texts are embedded, and their vectors stored, at a time."""


class LogSource(Protocol):
    """Where a mirror gets a tenant's log from."""

    async def pull(self) -> Sequence[LogEntry] | None:
        """Return the whole log if anything changed since the last pull, else None."""
        ...


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
        self._log: Sequence[LogEntry] = ()
        self._analysed: dict[str, NDArray[np.int32]] = {}
        self._vectors: dict[str, NDArray[np.float32] | None] = {}
        self._vectors_until = 0
        self._vocabulary: dict[str, int] = {}
        self._terms = 0
        self._bound = False
        self._now: tuple[Corpus, dt.datetime | None] | None = None

    async def corpus(self, moment: Moment | None = None) -> Corpus:
        """Return everything current, of now or of another moment, in step with the store."""
        async with self._lock:
            log = await self._source.pull()
            if log is not None:
                self._log, self._now = log, None
            if moment is not None:
                return await self._build(moment)
            if self._now is None or _has_passed(self._now[1], self._clock()):
                corpus = await self._build(Moment(now=self._clock()))
                self._now = (corpus, _first_expiry(corpus.rows))
            return self._now[0]

    async def log(self) -> Sequence[LogEntry]:
        """Return the tenant's whole log, in step with the store."""
        async with self._lock:
            log = await self._source.pull()
            if log is not None:
                self._log, self._now = log, None
            return self._log

    async def let_go(self) -> None:
        """Drop what was erased now, and not when something is read next."""
        await self.log()
        async with self._lock:
            await to_thread.run_sync(self._drop_erased)

    async def bind(self, *, replace: bool = False) -> None:
        """Bind the store to the embedder.

        Raises:
            EmbedderMismatchError: the store's vectors come from another one, and ``replace`` is False.
        """
        if self._store is not None and (replace or not self._bound):
            await self._store.use_embedder(await self._embedder.identity(), replace=replace)
        if replace:
            self._vectors, self._vectors_until, self._now = {}, 0, None
        self._bound = True

    def vector(self, assertion_id: str) -> NDArray[np.float32] | None:
        """Return the embedding of an assertion that was read already, or None."""
        return self._vectors.get(assertion_id)

    def terms(self, text: str) -> list[int | None]:
        """Return the numbers of a query's distinct terms; None for one that no record holds."""
        return [self._vocabulary.get(term) for term in dict.fromkeys(analyse(text))]

    async def _build(self, moment: Moment) -> Corpus:
        await self.bind()
        identity = await self._embedder.identity()
        current = await to_thread.run_sync(fold, self._log, moment)
        await to_thread.run_sync(self._drop_erased)
        await to_thread.run_sync(self._analyse, current)
        await self._embed(current)
        return await to_thread.run_sync(self._lay_out, current, identity.dimension)

    def _drop_erased(self) -> None:
        """What was forgotten must not live on in this process either."""
        ids = {entry.id for entry in self._log if isinstance(entry, Recorded)}
        for erased in self._vectors.keys() - ids:
            del self._vectors[erased]
        if gone := self._analysed.keys() - ids:
            for erased in gone:
                del self._analysed[erased]
            self._drop_unused_terms()

    def _drop_unused_terms(self) -> None:
        """Drop the words that nothing says any more; their numbers are not given again."""
        import numpy as np

        used = np.zeros(self._terms, dtype=np.bool_)
        for terms in self._analysed.values():
            used[terms] = True
        self._vocabulary = {term: number for term, number in self._vocabulary.items() if used[number]}

    def _number(self, term: str) -> int:
        number = self._vocabulary.get(term)
        if number is None:
            number = self._vocabulary[term] = self._terms
            self._terms += 1
        return number

    def _analyse(self, current: Sequence[Current]) -> None:
        import numpy as np

        for item in current:
            if item.recorded.id not in self._analysed:
                terms = analyse(indexed_text(item.recorded.assertion))
                self._analysed[item.recorded.id] = np.array([self._number(term) for term in terms], dtype=np.int32)

    async def _embed(self, current: Sequence[Current]) -> None:
        """Fetch the vectors the store has, make the missing ones, and give the store what it lacks."""
        await self._fetch_vectors()
        missing = [item.recorded for item in current if item.recorded.id not in self._vectors]
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            made = await embedded(self._embedder, [indexed_text(recorded.assertion) for recorded in batch])
            self._vectors.update(zip((recorded.id for recorded in batch), made, strict=True))
            if self._store is not None:
                rows = zip(batch, made, strict=True)
                await self._store.put_vectors({item.seq: row for item, row in rows if row is not None})

    async def _fetch_vectors(self) -> None:
        newest = max((entry.seq for entry in self._log), default=0)
        if self._store is None or newest <= self._vectors_until:
            return
        seqs, rows = await self._store.vectors(self._tenant, self._vectors_until)
        await to_thread.run_sync(self._take_in_vectors, seqs, rows)
        self._vectors_until = newest

    def _take_in_vectors(self, seqs: Sequence[int], rows: NDArray[np.float32]) -> None:
        ids = {entry.seq: entry.id for entry in self._log if isinstance(entry, Recorded)}
        self._vectors.update({ids[seq]: row for seq, row in zip(seqs, rows, strict=True) if seq in ids})

    def _lay_out(self, current: Sequence[Current], dimension: int) -> Corpus:
        documents = [
            Document(item, self._analysed[item.recorded.id], vector=self._vectors[item.recorded.id]) for item in current
        ]
        return Corpus.build(documents, dimension=dimension, terms=self._terms)


async def embedded(embedder: Embedder, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
    """Embed texts; one with no letter and no digit in it has no vector.

    Raises:
        EmbedderError: the embedder failed.
        InvalidVectorError: it answered vectors that cannot be used.
    """
    telling = [row for row, text in enumerate(texts) if any(char.isalnum() for char in text)]
    vectors: list[NDArray[np.float32] | None] = [None] * len(texts)
    if telling:
        made = await embed_checked(embedder, [texts[row] for row in telling])
        for row, vector in zip(telling, made, strict=True):
            vectors[row] = vector
    return vectors


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
    _entries: dict[str, Recorded] = attrs.field(factory=dict, init=False)
    _changes: list[StateChange] = attrs.field(factory=list, init=False)
    _seq: int = attrs.field(default=0, init=False)

    async def pull(self) -> Sequence[LogEntry] | None:
        if await self._provider.version() == self._seq:
            return None
        version = await self._provider.version()
        new = await self._provider.changes(self._tenant, self._seq)
        await to_thread.run_sync(self._take_in, new)
        self._seq = max(version, new[-1].seq if new else 0)
        return [*self._entries.values(), *self._changes]

    def _take_in(self, new: Sequence[LogEntry]) -> None:
        for entry in new:
            match entry:
                case Recorded():
                    self._entries[entry.id] = entry
                case StateChange():
                    self._changes.append(entry)
                case Tombstone():
                    self._entries.pop(entry.assertion_id, None)
        gone = {entry.assertion_id for entry in new if isinstance(entry, Tombstone)}
        if gone:
            self._changes = [change for change in self._changes if change.assertion_id not in gone]


@attrs.define
class _Waist:
    """The log of a provider with the four verbs only: read anew each time, its records numbered by what they say."""

    _provider: AgentMemoryProvider
    _places: Sequence[Place]
    _known: Mapping[str, Recorded] = attrs.field(factory=dict, init=False)

    async def pull(self) -> Sequence[LogEntry] | None:
        if not self._places:
            raise CapabilityError(
                "this provider has the four verbs only: tell the Memory which subjects= and scopes= to look in"
            )
        log = {recorded.id: recorded for place in self._places for recorded in await self._read(place)}
        changed = log.keys() != self._known.keys() or not self._known
        self._known = log
        return list(log.values()) if changed else None

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


def _first_expiry(rows: Sequence[Current]) -> dt.datetime | None:
    expiries = (row.recorded.assertion.details.expires_at for row in rows)
    return min((expiry for expiry in expiries if expiry is not None), default=None)


def _has_passed(moment: dt.datetime | None, now: dt.datetime) -> bool:
    return moment is not None and moment <= now
