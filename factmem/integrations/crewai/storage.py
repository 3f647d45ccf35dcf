"""CrewAI's `StorageBackend` over factmem: the records of its `Memory`, with factmem's access control."""


# pyright: reportMissingImports=false

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
import math
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

import attrs
from anyio import to_thread

from factmem.agent.config import NOBODY, AgentMemoryConfig, RunIdentity, Store
from factmem.agent.plugin import AgentMemory
from factmem.agent.rendering import as_text
from factmem.agent.run import MemoryRun
from factmem.details import FactDetails, MetadataMerge, Origin
from factmem.detection.redaction import redact
from factmem.errors import EmbedderMismatchError, InvalidDataError, MissingPackageError, RecordNotFoundError
from factmem.facts import STATEMENT, MultipleFacts
from factmem.memory.facade import Memory
from factmem.memory.screening import FlaggedPolicy
from factmem.recall.embedders import default_embedder
from factmem.records import FactRecord
from factmem.scopes import MemoryScope

with MissingPackageError.if_missing("crewai", extra="crewai"):
    from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
    from crewai.memory.types import MemoryRecord, ScopeInfo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

OWNER: Final = "crewai"
"""Owner of CrewAI's private records if no user is named; CrewAI then compares their sources."""

_OURS: Final = "crewai"
"""Key of CrewAI's records in the metadata of their fact: the latest one, with the earlier ones as ``twins``."""


class VectorSizeError(EmbedderMismatchError, EmbeddingDimensionMismatchError):
    """Raised when a vector differs in size from the stored ones, and so comes from another embedder."""


@attrs.frozen(kw_only=True)
class _Entry:
    """A record of CrewAI's, as it is stored in the metadata of its fact.

    Attributes:
        ids: Ids that CrewAI gave to records that differ in nothing else but their times, latest last.
        created_at: Time given by CrewAI in UTC without a time zone, in ISO 8601.
        vector: Vector saved with the record, in base64.
    """

    ids: tuple[str, ...] = attrs.field(converter=tuple[str, ...])
    content: str
    categories: tuple[str, ...] = attrs.field(converter=tuple[str, ...])
    metadata: Mapping[str, Any]
    importance: float
    source: str | None
    created_at: str
    private: bool = False
    vector: str | None = None

    @classmethod
    def of(cls, record: MemoryRecord, *, private: bool) -> Self:
        import numpy as np

        vector = np.asarray(record.embedding, dtype="<f4").tobytes() if record.embedding else None
        return cls(
            ids=(record.id,),
            content=record.content,
            categories=record.categories,
            metadata=record.metadata,
            importance=record.importance,
            source=record.source,
            created_at=_naive(_aware(record.created_at)).isoformat(),
            private=private,
            vector=None if vector is None else base64.b64encode(vector).decode(),
        )

    def without(self, ids: Collection[str]) -> Self | None:
        """Return the entry without some ids; None if none is left."""
        left = [id for id in self.ids if id not in ids]
        return attrs.evolve(self, ids=left) if left or not self.ids else None

    def is_like(self, other: _Entry) -> bool:
        """Return whether two entries of one place differ in their ids and times only."""
        return attrs.evolve(self, ids=other.ids, created_at=other.created_at, private=other.private) == other

    def read(self, noted: Mapping[str, Any]) -> Self:
        """Return an entry with the stored fields of another in place of its own."""
        return attrs.evolve(self, **{name: noted[name] for name in attrs.asdict(self) if name in noted})

    def stored(self, *left_out: str) -> dict[str, Any]:
        """Return the fields to store, without some of them; ``read`` is the reverse."""
        fields = attrs.asdict(self, filter=lambda field, value: field.name not in left_out and value is not None)
        return {**fields, "source": self.source}  # an update of the fact cannot remove its source


@attrs.frozen
class _Shown:
    """A record in CrewAI's terms.

    Records with the same content in the same scope are one fact, which has the fields of the latest one.

    Attributes:
        fact: The fact.
        path: Segments of CrewAI's path of the scope.
        own: Whether CrewAI saved the record, and so may change it.
        entry: The record's fields.
        ids: All ids of the record, latest last; that of the fact among those of the latest record.
    """

    fact: FactRecord[Any]
    path: tuple[str, ...]
    own: bool
    entry: _Entry
    ids: Sequence[str]

    @property
    def created_at(self) -> dt.datetime:
        """Time of the record, in UTC without a time zone."""
        return dt.datetime.fromisoformat(self.entry.created_at)

    @property
    def vector(self) -> NDArray[np.float32] | None:
        import numpy as np

        packed = self.entry.vector
        return None if packed is None else np.frombuffer(base64.b64decode(packed), dtype="<f4")

    def shown(self, id: str | None = None) -> MemoryRecord:
        """Return CrewAI's record, with times as CrewAI compares them: in UTC, without a time zone."""
        vector, entry = self.vector, self.entry
        return MemoryRecord(
            id=id or self.ids[-1],
            content=entry.content,
            scope="/" + "/".join(self.path),
            categories=list(entry.categories),
            metadata=dict(entry.metadata),
            importance=entry.importance,
            created_at=self.created_at,
            last_accessed=_naive(self.fact.recorded_at),
            embedding=None if vector is None else vector.tolist(),
            source=entry.source,
            private=entry.private,
        )


def _naive(moment: dt.datetime) -> dt.datetime:
    """Return a time as CrewAI compares times: in UTC, without a time zone."""
    return moment.astimezone(dt.UTC).replace(tzinfo=None)


def _aware(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _segments_of(path: str | None) -> tuple[str, ...]:
    """Return the segments of one of CrewAI's paths; none for the root."""
    return tuple(segment for segment in (path or "").split("/") if segment.strip())


def _children(found: Sequence[_Shown], path: str) -> list[str]:
    """Return the paths one level below a path that hold records."""
    depth = len(_segments_of(path)) + 1
    return sorted({"/" + "/".join(item.path[:depth]) for item in found if len(item.path) >= depth})


class _Records:
    """The records that CrewAI sees in a run: its own, and the facts of others.

    Args:
        run: The run.
        memory: The run's memory, in its event loop.
    """

    def __init__(self, run: MemoryRun, memory: Memory) -> None:
        self._user, self._config = run.user, run.config
        # Without a user, CrewAI's private records belong to the crew.
        seen = run.view(memory if run.identity.user_id is not None else memory.view(viewer=OWNER))
        self._view = seen.view(policies={"flagged": FlaggedPolicy.ANNOTATE})

    async def seen(
        self,
        path: str | None = None,
        categories: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[_Shown]:
        """Return the records in the subtree of a path, newest first.

        Args:
            path: The path.
            categories: Categories of which a record must have one.
            metadata: Entries that a record's metadata must have.
        """
        wanted = _segments_of(path)
        facts = await self._view.list_records(strongest=True, subjects=(self._user, *self._config.subjects))
        found = [
            item
            for fact in facts
            for item in self._read(fact)
            if item.path[: len(wanted)] == wanted
            and (not categories or not set(categories).isdisjoint(item.entry.categories))
            and all(item.entry.metadata.get(name, ...) == value for name, value in (metadata or {}).items())
        ]
        return sorted(found, key=lambda item: item.created_at, reverse=True)

    async def save(self, records: Sequence[MemoryRecord]) -> None:
        """Save records, or none of them if one is not legal."""
        if not records:
            return
        known = await self.seen()
        given = [_checked(record) for record in records]
        _check_vectors(known, given)
        places = self._by_place(known)
        for record in given:
            await self._keep(record, places, private=record.private)

    async def update(self, record: MemoryRecord) -> None:
        """Update a record in place, or move it to its new place."""
        known = await self.seen()
        present = next((item for item in known if record.id in item.ids), None)
        if present is None:
            raise RecordNotFoundError("no record that CrewAI sees has this id: take an id from list_records()")
        record = _checked(record)
        _check_vectors(known, [record])
        private = record.private or present.entry.private
        if private and record.source is None:
            record = record.model_copy(update={"source": present.entry.source})
        places, fact = self._by_place(known), present.fact
        scope, owned = self._below(record.scope), private or self._config.saving.private
        there = _place(record.content, scope, owned=owned)
        alone = len(self._read(fact)) == 1 and present.entry.without({record.id}) is None
        here = (scope.segments, owned) == (fact.scope.segments, fact.private)
        if present.own and here and alone and places.get(there, [present])[0].fact.id == fact.id:
            await self._write(fact, scope, [_Entry.of(record, private=private)])
            return
        await self._keep(record, places, private=private)
        if present.own and places[there][-1].fact.id != fact.id:
            await self._take_out([present], ids={record.id}, reason="moved by CrewAI")

    async def delete(
        self,
        path: str | None,
        categories: Sequence[str] | None,
        ids: Sequence[str] | None,
        older_than: dt.datetime | None,
        metadata: Mapping[str, Any] | None,
    ) -> int:
        """Retract CrewAI's records that pass all filters, and return their number."""
        if path is None and not (categories or ids or older_than or metadata):
            raise InvalidDataError('say what to delete: scope_prefix="/" deletes everything, and reset() erases it')
        doomed = [
            item
            for item in await self.seen(path, categories, metadata)
            if item.own
            and (not ids or not set(ids).isdisjoint(item.ids))
            and (older_than is None or item.created_at < _naive(_aware(older_than)))
        ]
        await self._take_out(doomed, ids=set(ids or ()), reason="deleted by CrewAI")
        return len(doomed)

    async def erase(self, path: str | None) -> None:
        """Erase CrewAI's records below a path."""
        scope = self._below(path)
        doomed = await self._view.forget(scope=scope, subject=self._user, concepts=[STATEMENT], dry_run=True)
        if ids := [record.id for record in doomed if _OURS in record.details.metadata]:
            await self._view.forget(*ids)

    def _below(self, path: str | None) -> MemoryScope:
        scope = self._config.home
        for segment in _segments_of(path):
            scope /= segment
        return scope

    def _read(self, fact: FactRecord[Any]) -> list[_Shown]:
        """Return CrewAI's records of a fact, latest last."""
        home, segments = self._config.home, fact.scope.segments
        inside = fact.scope.kind is home.kind and home.contains(fact.scope)
        named = segments[len(home.segments) :] if inside else segments
        path = tuple(segment.replace("/", "%2F") for segment in named)
        details = fact.details
        own = inside and fact.subject.key == self._user.key and _OURS in details.metadata
        of_fact = _Entry(
            ids=(),
            content=as_text(fact),
            categories=details.categories,
            metadata={key: value for key, value in details.metadata.items() if key != _OURS},
            importance=details.importance,
            source=details.source,
            created_at=_naive(fact.timestamp).isoformat(),
        )
        noted = details.metadata.get(_OURS)
        noted = noted if isinstance(noted, dict) else {}
        latest = of_fact.read(noted)
        twins = [attrs.evolve(of_fact, private=latest.private).read(twin) for twin in noted.get("twins", ())]
        earlier = [_Shown(fact, path, own, twin, twin.ids) for twin in twins]
        return [*earlier, _Shown(fact, path, own, latest, (fact.id, *latest.ids))]

    def _by_place(self, items: Iterable[_Shown]) -> _Places:
        facts = {item.fact.id: self._read(item.fact) for item in items if item.own}
        return {_place(it[-1].fact.value, it[-1].fact.scope, owned=it[-1].entry.private): it for it in facts.values()}

    async def _keep(self, record: MemoryRecord, places: _Places, *, private: bool) -> None:
        """Add a record to the fact with its content, or make that."""
        scope, entry = self._below(record.scope), _Entry.of(record, private=private)
        there = _place(record.content, scope, owned=private or self._config.saving.private)
        present = places.get(there, ())
        others = [left for item in present if (left := item.entry.without({record.id})) is not None]
        same = [other for other in others if other.is_like(entry)]
        entry = attrs.evolve(entry, ids=(*(id for other in same for id in other.ids), record.id))
        entries = [*(other for other in others if other not in same), entry]
        places[there] = self._read(await self._write(present[-1].fact if present else None, scope, entries))

    async def _write(
        self, fact: FactRecord[Any] | None, scope: MemoryScope, entries: Sequence[_Entry]
    ) -> FactRecord[Any]:
        """Store the records of a fact, latest last; without a fact, make one."""
        *twins, latest = entries
        noted = latest.stored("content", "categories", "metadata", "importance")
        if twins:
            noted["twins"] = [twin.stored(*(["content"] if twin.content == latest.content else [])) for twin in twins]
        fields: dict[str, Any] = {
            "importance": latest.importance,
            "categories": latest.categories,
            "source": latest.source,
            "metadata": {**latest.metadata, _OURS: noted},
        }
        if fact is not None:
            words: dict[str, Any] = {} if latest.content == fact.value else {"value": latest.content}
            change = await self._view.update(fact.id, merge=MetadataMerge.OVERWRITE, **fields, **words)
            return change.record
        # It was written by CrewAI's model from the output of tasks.
        details = FactDetails(origin=Origin.ASSISTANT, **fields)
        moment = _aware(dt.datetime.fromisoformat(latest.created_at))
        statement = MultipleFacts(STATEMENT, (latest.content,), timestamp=moment)
        private = latest.private or self._config.saving.private
        (kept,) = await self._view.save(statement, subject=self._user, scope=scope, details=details, private=private)
        return kept

    async def _take_out(self, gone: Sequence[_Shown], *, ids: Collection[str], reason: str) -> None:
        """Retract records; other records of the same fact stay, and so do records that have ids beside these."""
        doomed = list[str]()
        for id, of_fact in itertools.groupby(sorted(gone, key=lambda item: item.fact.id), lambda item: item.fact.id):
            items = list(of_fact)
            left = [
                (item.entry.without(ids) if ids and id not in ids else None) if item in items else item.entry
                for item in self._read(items[0].fact)
            ]
            if entries := [entry for entry in left if entry is not None]:
                await self._write(items[0].fact, items[0].fact.scope, entries)
            else:
                doomed.append(id)
        if doomed:
            await self._view.retract(*doomed, reason=reason)


_Place: TypeAlias = tuple[str, tuple[str, ...], bool]
_Places: TypeAlias = dict[_Place, list[_Shown]]


def _place(content: str, scope: MemoryScope, *, owned: bool) -> _Place:
    return (unicodedata.normalize("NFC", content), scope.segments, owned)


def _checked(record: MemoryRecord) -> MemoryRecord:
    """Return a validated record, with secrets redacted and the metadata normalized through JSON."""
    content = redact(record.content).text
    if not content.strip():
        raise InvalidDataError("a record without content says nothing: leave it out", path="$.content")
    if record.embedding and not all(map(math.isfinite, record.embedding)):
        raise InvalidDataError("a vector holds NaN or infinity: embed the record again", path="$.embedding")
    try:
        metadata = json.loads(json.dumps(record.metadata))
    except (TypeError, ValueError, RecursionError):
        raise InvalidDataError("the metadata of a record is not JSON", path="$.metadata") from None
    FactDetails(categories=tuple(record.categories), source=record.source, metadata=metadata)
    MultipleFacts(STATEMENT, (content,), timestamp=_aware(record.created_at))
    return record.model_copy(update={"content": content, "metadata": metadata})


def _check_vectors(known: Iterable[_Shown], records: Iterable[MemoryRecord]) -> None:
    stored = next((len(vector) for item in known if item.own and (vector := item.vector) is not None), None)
    for size in (len(record.embedding) for record in records if record.embedding):
        if size != (stored := stored or size):
            raise VectorSizeError(stored, size)


_MOST_TEXTS: Final = 10_000

working_for: ContextVar[RunIdentity] = ContextVar("factmem_crewai_run", default=NOBODY)
"""Identity of a crew, from the inputs of its kickoff."""


def run_of(memory: AgentMemory) -> MemoryRun:
    """Return the current run; if the configuration has no names, the product is ``crewai``."""
    return memory.for_run(working_for.get(), product="crewai")


class FactMemStorage:
    """A backend for CrewAI's ``Memory(storage=…)``. See `crewai.memory.storage.backend.StorageBackend`.

    Paths are those of CrewAI, compared segment by segment. Saved records lie below the scope of the memory's
    configuration. Other facts visible to the agent (those of its product or of other hosts) are found and listed
    under their own paths; they are never changed or deleted from here.

    In ``memory.run(user_id=…)``, all records belong to the user and are hidden from others. Without a user, private
    records are visible to CrewAI only, which compares their sources.

    A record is returned as it was saved, or ``save`` raises; only secrets are redacted. Records that read like an
    instruction or hide something are flagged (`FactDetails.flags`): CrewAI finds them, but they are never part of a
    memory block. Records that differ only in their ids and times are stored as one, and found by each of these ids.
    Deletion retracts a record, which `Memory.restore` brings back; `reset` erases.

    Args:
        memory: The memory, or its store.
        embedder: Embedder of CrewAI's ``Memory(embedder=…)``, with which facts of other hosts are found too (default:
            `embed`).
    """

    def __init__(
        self, memory: AgentMemory | Store, *, embedder: Callable[[list[str]], Iterable[Any]] | None = None
    ) -> None:
        if not isinstance(memory, AgentMemory):
            memory = AgentMemory(AgentMemoryConfig(store=memory, users="shared"))
        self.memory: Final = memory
        self._own_embedder = self.memory.config.embedder or default_embedder()
        self._embedder = embedder or self.embed
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> FactMemStorage:
        return self

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Embed texts with factmem's own embedder, offline; for CrewAI's ``Memory(embedder=…)``."""
        vectors = self.memory.for_run().held.use_blocking(lambda _: self._own_embedder.embed(texts))
        return [[float(number) for number in vector] for vector in vectors]

    def save(self, records: list[MemoryRecord]) -> None:
        """Save records, or none of them if one is not legal.

        Raises:
            VectorSizeError: A vector differs in size from the stored ones.
            InvalidDataError: A record has no content, or a value that cannot be stored.
        """
        self._blocking(lambda kept: kept.save(records))

    async def asave(self, records: list[MemoryRecord]) -> None:
        """See `save`."""
        await self._asking(lambda kept: kept.save(records))

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return the records closest to a vector, by an exact search of all that pass the filters.

        The score and ``min_score`` are cosines, 0 if negative, as in CrewAI's Qdrant storage. CrewAI's LanceDB storage
        derives its scores from distances instead.
        """
        found = self._blocking(lambda kept: kept.seen(scope_prefix, categories, metadata_filter))
        return self._closest(found, query_embedding, limit, min_score)

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """See `search`."""
        found = await self._asking(lambda kept: kept.seen(scope_prefix, categories, metadata_filter))
        return await to_thread.run_sync(self._closest, found, query_embedding, limit, min_score)

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: dt.datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Retract the records that pass all filters, and return their number.

        Raises:
            InvalidDataError: There is no filter; ``scope_prefix="/"`` deletes everything.
        """
        return self._blocking(
            lambda kept: kept.delete(scope_prefix, categories, record_ids, older_than, metadata_filter)
        )

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: dt.datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """See `delete`."""
        return await self._asking(
            lambda kept: kept.delete(scope_prefix, categories, record_ids, older_than, metadata_filter)
        )

    def update(self, record: MemoryRecord) -> None:
        """Replace the record with the same id; a private record stays private in any case.

        A fact that CrewAI did not save stays unchanged, and the record is saved beside it.
        """
        self._blocking(lambda kept: kept.update(record))

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return the record with an id, or None."""
        found = self._blocking(lambda kept: kept.seen())
        return next((item.shown(record_id) for item in found if record_id in item.ids), None)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Return the records of a scope, newest first."""
        found = self._blocking(lambda kept: kept.seen(scope_prefix))
        return [item.shown() for item in found[max(offset, 0) :][: max(limit, 0)]]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return a summary of a scope and its subtree."""
        found = self._blocking(lambda kept: kept.seen(scope))
        times = [item.created_at for item in found]
        return ScopeInfo(
            path="/" + "/".join(_segments_of(scope)),
            record_count=len(found),
            categories=sorted({category for item in found for category in item.entry.categories}),
            oldest_record=min(times, default=None),
            newest_record=max(times, default=None),
            child_scopes=_children(found, scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the paths one level below a scope."""
        return _children(self._blocking(lambda kept: kept.seen(parent)), parent)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the number of records in a scope per category."""
        counts: dict[str, int] = {}
        for item in self._blocking(lambda kept: kept.seen(scope_prefix)):
            for category in item.entry.categories:
                counts[category] = counts.get(category, 0) + 1
        return counts

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records in a scope and its subtree."""
        return len(self._blocking(lambda kept: kept.seen(scope_prefix)))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Erase the records of a scope, with all their history. This cannot be undone."""
        self._blocking(lambda kept: kept.erase(scope_prefix))

    def _blocking(self, work: Callable[[_Records], Awaitable[T]]) -> T:
        run = self._run()
        return run.held.use_blocking(lambda memory: work(_Records(run, memory)))

    async def _asking(self, work: Callable[[_Records], Awaitable[T]]) -> T:
        run = self._run()
        return await run.held.use(lambda memory: work(_Records(run, memory)))

    def _run(self) -> MemoryRun:
        run = run_of(self.memory)
        run.check_user()
        return run

    def _closest(
        self, found: Sequence[_Shown], query: Sequence[float], limit: int, min_score: float
    ) -> list[tuple[MemoryRecord, float]]:
        import numpy as np

        wanted = _unit(np.asarray(query, dtype=np.float32))
        scored = []
        for item, vector in zip(found, self._vectors_of(found), strict=True):
            if item.vector is not None and len(vector) != len(wanted):
                raise VectorSizeError(len(vector), len(wanted))
            if len(vector) == len(wanted):
                scored.append((item, max(0.0, min(1.0, float(_unit(vector) @ wanted)))))
            elif item.own:  # saved by CrewAI without a vector: ranked last instead of dropped
                scored.append((item, 0.0))
        scored.sort(key=lambda pair: -pair[1])
        return [(item.shown(), score) for item, score in scored if score >= min_score][: max(limit, 0)]

    def _vectors_of(self, found: Sequence[_Shown]) -> list[NDArray[np.float32]]:
        """Return the vectors of records; missing ones are embedded now and cached."""
        import numpy as np

        wanted = {item.entry.content for item in found if item.vector is None}
        if len(self._vectors) > _MOST_TEXTS:
            self._vectors = {}
        if texts := sorted(wanted - self._vectors.keys()):
            made = (np.asarray(vector, dtype=np.float32) for vector in self._embedder(texts))
            self._vectors |= dict(zip(texts, made, strict=True))
        return [self._vectors[item.entry.content] if item.vector is None else item.vector for item in found]


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector
