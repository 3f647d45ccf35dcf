"""Conversion between CrewAI's records and those of a memory."""

# pyright: reportMissingImports=false

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
import math
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from factmem.agent import MemoryRun
from factmem.agent.rendering import written
from factmem.detection import redact
from factmem.errors import EmbedderMismatchError, InvalidDataError, MissingPackageError, RecordNotFoundError
from factmem.facts import STATEMENT, MultipleFacts
from factmem.memory import FlaggedPolicy, Memory
from factmem.records import FactDetails, FactRecord, MetadataMerge, Origin
from factmem.scopes import MemoryScope

try:
    from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
    from crewai.memory.types import MemoryRecord
except ModuleNotFoundError as _missing:
    raise MissingPackageError("crewai", extra="crewai") from _missing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "OWNER",
    "Shown",
    "VectorSizeError",
    "children",
    "deleted",
    "erased",
    "naive",
    "saved",
    "seen",
    "segments_of",
    "updated",
]

OWNER: Final = "crewai"
"""Owner of CrewAI's private records if no user is named; CrewAI then compares their sources."""

_OURS: Final = "crewai"


class VectorSizeError(EmbedderMismatchError, EmbeddingDimensionMismatchError):
    """Raised when a vector differs in size from the stored ones, and so comes from another embedder."""


@attrs.frozen
class Shown:
    """A record in CrewAI's terms.

    Records with the same content in the same scope are one fact. The latest record has the fact's own fields. Each
    earlier record that differs in more than its id and time is a twin, stored in the fact's metadata.

    Attributes:
        record: The fact.
        path: Segments of CrewAI's path of the scope.
        own: Whether CrewAI saved the record, and so may change it.
        twin: Stored fields of a twin; None for the latest record.
    """

    record: FactRecord[Any]
    path: tuple[str, ...]
    own: bool
    twin: Mapping[str, Any] | None = None

    @property
    def noted(self) -> Mapping[str, Any]:
        """CrewAI's fields without a counterpart in factmem."""
        noted = self.record.details.metadata.get(_OURS) if self.twin is None else self.twin
        return noted if isinstance(noted, dict) else {}

    @property
    def private(self) -> bool:
        """Whether the record is private in CrewAI."""
        noted = self.record.details.metadata.get(_OURS)
        return isinstance(noted, dict) and bool(noted.get("private", False))

    @property
    def given_ids(self) -> list[str]:
        """Ids given by CrewAI, latest last."""
        return [*self.noted.get("ids", ())]

    @property
    def ids(self) -> list[str]:
        """All ids of the record, latest last."""
        return self.given_ids if self.twin is not None else [self.record.id, *self.given_ids]

    @property
    def content(self) -> str:
        """Text of the record; name and value of a typed fact."""
        if (own := self.noted.get("content")) is not None and self.twin is not None:
            return str(own)
        value = written(self.record.value, self.record.concept.value_type)
        keyword = self.record.concept.keyword
        return value if keyword == STATEMENT.keyword else f"{keyword}: {value}"

    @property
    def categories(self) -> Sequence[str]:
        """Categories of the record."""
        return self.record.details.categories if self.twin is None else self.twin["categories"]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the record, without factmem's own fields."""
        if self.twin is not None:
            metadata: Mapping[str, Any] = self.twin["metadata"]
            return metadata
        return {key: value for key, value in self.record.details.metadata.items() if key != _OURS}

    @property
    def importance(self) -> float:
        """Importance of the record, from 0 to 1."""
        return self.record.details.importance if self.twin is None else float(self.twin["importance"])

    @property
    def source(self) -> str | None:
        """Source of the record."""
        source: str | None = self.noted.get("source", self.record.details.source)  # an update cannot remove it
        return source

    @property
    def created_at(self) -> dt.datetime:
        """Time given by CrewAI, or else the fact's timestamp, in UTC without a time zone."""
        created = self.noted.get("created_at")
        return naive(self.record.timestamp) if created is None else dt.datetime.fromisoformat(created)

    @property
    def vector(self) -> NDArray[np.float32] | None:
        """Vector that CrewAI saved with the record."""
        import numpy as np

        packed = self.noted.get("vector")
        return None if packed is None else np.frombuffer(base64.b64decode(packed), dtype="<f4")

    def shown(self, id: str | None = None) -> MemoryRecord:
        """Return CrewAI's record, with times as CrewAI compares them: in UTC, without a time zone."""
        vector = self.vector
        return MemoryRecord(
            id=id or self.ids[-1],
            content=self.content,
            scope="/" + "/".join(self.path),
            categories=list(self.categories),
            metadata=dict(self.metadata),
            importance=self.importance,
            created_at=self.created_at,
            last_accessed=naive(self.record.recorded_at),
            embedding=None if vector is None else vector.tolist(),
            source=self.source,
            private=self.private,
        )

    def says_no_more_than(self, record: MemoryRecord) -> bool:
        """Return whether a record differs from this one only in its id and time."""
        return (self.content, list(self.categories), self.metadata, self.importance, self.source) == (
            record.content,
            record.categories,
            record.metadata,
            record.importance,
            record.source,
        ) and self.noted.get("vector") == _packed(record)


def naive(moment: dt.datetime) -> dt.datetime:
    """Return a time as CrewAI compares times: in UTC, without a time zone."""
    return moment.astimezone(dt.UTC).replace(tzinfo=None)


def _aware(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def segments_of(path: str | None) -> tuple[str, ...]:
    """Return the segments of one of CrewAI's paths; none for the root."""
    return tuple(segment for segment in (path or "").split("/") if segment.strip())


def children(found: Sequence[Shown], path: str) -> list[str]:
    """Return the paths one level below a path that hold records."""
    depth = len(segments_of(path)) + 1
    return sorted({"/" + "/".join(item.path[:depth]) for item in found if len(item.path) >= depth})


def _view(run: MemoryRun, memory: Memory) -> Memory:
    """Return the view of the run, including flagged records; without a user, also CrewAI's private records."""
    seen = run.view(memory if run.identity.user_id is not None else memory.view(viewer=OWNER))
    return seen.view(policies={"flagged": FlaggedPolicy.ANNOTATE})


def _below(run: MemoryRun, path: str | None) -> MemoryScope:
    scope = run.config.home
    for segment in segments_of(path):
        scope /= segment
    return scope


async def seen(
    run: MemoryRun,
    memory: Memory,
    *,
    path: str | None = None,
    categories: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> list[Shown]:
    """Return the records visible to CrewAI, newest first.

    Args:
        run: The current run.
        memory: The run's memory, in its event loop.
        path: Path of the records, including its subtree.
        categories: Categories of which a record must have one.
        metadata: Entries that a record's metadata must have.
    """
    wanted = segments_of(path)
    records = await _view(run, memory).list_records(strongest=True, subjects=(run.user, *run.config.subjects))
    found = [
        item
        for record in records
        for item in _shown(run, record)
        if item.path[: len(wanted)] == wanted
        and (not categories or not set(categories).isdisjoint(item.categories))
        and all(name in item.metadata and item.metadata[name] == value for name, value in (metadata or {}).items())
    ]
    return sorted(found, key=lambda item: item.created_at, reverse=True)


def _shown(run: MemoryRun, record: FactRecord[Any]) -> list[Shown]:
    """Return CrewAI's records of a fact, latest last."""
    home, segments = run.config.home, record.scope.segments
    inside = record.scope.kind is home.kind and home.contains(record.scope)
    named = segments[len(home.segments) :] if inside else segments
    path = tuple(segment.replace("/", "%2F") for segment in named)
    own = inside and record.subject.key == run.user.key and _OURS in record.details.metadata
    latest = Shown(record, path, own)
    return [*(Shown(record, path, own, twin) for twin in latest.noted.get("twins", ())), latest]


async def _own(run: MemoryRun, memory: Memory, **wanted: Any) -> list[Shown]:
    """Return the visible records that CrewAI may change."""
    return [item for item in await seen(run, memory, **wanted) if item.own]


_Place: TypeAlias = tuple[str, tuple[str, ...], bool]
_Places: TypeAlias = dict[_Place, list[Shown]]


def _by_place(run: MemoryRun, items: Iterable[Shown]) -> _Places:
    records = {item.record.id: item.record for item in items if item.own}
    return {_place(it.value, it.scope, owned=it.private): _shown(run, it) for it in records.values()}


def _place(content: str, scope: MemoryScope, *, owned: bool) -> _Place:
    return (unicodedata.normalize("NFC", content), scope.segments, owned)


async def saved(run: MemoryRun, memory: Memory, *, records: Sequence[MemoryRecord]) -> None:
    """Save records, or none of them if one is not legal."""
    if not records:
        return
    known = await _own(run, memory)
    given = [_checked(record) for record in records]
    _check_vectors(known, given)
    places = _by_place(run, known)
    for record in given:
        await _keep(run, memory, record, places, private=record.private)


async def _keep(run: MemoryRun, memory: Memory, record: MemoryRecord, places: _Places, *, private: bool) -> None:
    scope, owned = _below(run, record.scope), private or run.config.saving.private
    there = _place(record.content, scope, owned=owned)
    if there in places:
        others = [left for item in places[there] if (left := _less(item, {record.id})) is not None]
        same = [item for item in others if item.says_no_more_than(record)]
        noted = _noted(
            record,
            [*(id for item in same for id in item.given_ids), record.id],
            private=private,
            twins=[_twin(item, record) for item in others if item not in same],
        )
        kept = await _revise(run, memory, places[there][-1], record, noted)
    else:
        details = FactDetails(
            importance=record.importance,
            categories=tuple(record.categories),
            source=record.source,
            origin=Origin.ASSISTANT,  # written by CrewAI's model from the output of tasks
            metadata={**record.metadata, _OURS: _noted(record, [record.id], private=private)},
        )
        fact = MultipleFacts(STATEMENT, (record.content,), timestamp=_aware(record.created_at))
        (kept,) = await _view(run, memory).save(fact, subject=run.user, scope=scope, details=details, private=owned)
    places[there] = _shown(run, kept)


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


def _check_vectors(known: Iterable[Shown], records: Iterable[MemoryRecord]) -> None:
    stored = next((len(vector) for item in known if item.own and (vector := item.vector) is not None), None)
    for size in (len(record.embedding) for record in records if record.embedding):
        if size != (stored := stored or size):
            raise VectorSizeError(stored, size)


def _packed(record: MemoryRecord) -> str | None:
    import numpy as np

    if not record.embedding:
        return None
    return base64.b64encode(np.asarray(record.embedding, dtype="<f4").tobytes()).decode()


def _noted(
    record: MemoryRecord, ids: Sequence[str], *, private: bool, twins: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    noted = {
        "ids": list(dict.fromkeys(ids)),
        "private": private,
        "source": record.source,
        "created_at": naive(_aware(record.created_at)).isoformat(),
        "vector": _packed(record),
        "twins": list(twins),
    }
    return {name: value for name, value in noted.items() if name == "source" or value not in (None, [])}


def _less(item: Shown, ids: Collection[str]) -> Shown | None:
    """Return a record without some of its ids; None if it has no other id."""
    left = [id for id in item.given_ids if id not in ids]
    if len(left) == len(item.given_ids):
        return item
    return attrs.evolve(item, twin={**_twin(item), "ids": left}) if left else None


def _twin(item: Shown, latest: MemoryRecord | None = None) -> dict[str, Any]:
    """Return the stored fields of a record that is followed by a later one with the same content."""
    noted = {
        "ids": item.given_ids,
        "content": None if latest is not None and item.content == latest.content else item.content,
        "categories": list(item.categories),
        "metadata": dict(item.metadata),
        "importance": item.importance,
        "source": item.source,
        "created_at": item.created_at.isoformat(),
        "vector": item.noted.get("vector"),
    }
    return {name: value for name, value in noted.items() if value is not None or name == "source"}


async def updated(run: MemoryRun, memory: Memory, *, record: MemoryRecord) -> None:
    """Update a record in place, or move it to its new place."""
    known = await seen(run, memory)
    present = next((item for item in known if record.id in item.ids), None)
    if present is None:
        raise RecordNotFoundError("no record that CrewAI sees has this id")
    record = _checked(record)
    _check_vectors(known, [record])
    private = record.private or present.private
    if private and record.source is None:
        record = record.model_copy(update={"source": present.source})
    places = _by_place(run, known)
    scope, owned = _below(run, record.scope), private or run.config.saving.private
    there = _place(record.content, scope, owned=owned)
    alone = len(_shown(run, present.record)) == 1 and _less(present, {record.id}) is None
    here = (scope.segments, owned) == (present.record.scope.segments, present.record.private)
    if present.own and here and alone and places.get(there, [present])[0].record.id == present.record.id:
        await _revise(run, memory, present, record, _noted(record, [record.id], private=private))
        return
    await _keep(run, memory, record, places, private=private)
    if present.own and places[there][-1].record.id != present.record.id:
        await _without(run, memory, [present], ids={record.id}, reason="moved by CrewAI")


async def _revise(
    run: MemoryRun, memory: Memory, present: Shown, record: MemoryRecord, noted: Mapping[str, Any]
) -> FactRecord[Any]:
    words: dict[str, Any] = {} if record.content == present.record.value else {"value": record.content}
    change = await _view(run, memory).update(
        present.record.id,
        importance=record.importance,
        categories=record.categories,
        source=record.source,
        metadata={**record.metadata, _OURS: dict(noted)},
        merge=MetadataMerge.OVERWRITE,
        **words,
    )
    return change.record


async def _without(
    run: MemoryRun, memory: Memory, gone: Sequence[Shown], *, ids: Collection[str] = (), reason: str
) -> None:
    """Retract records; other records of the same fact stay, and so do records that have further ids beside these."""
    doomed = list[str]()
    for id, of_fact in itertools.groupby(sorted(gone, key=lambda item: item.record.id), lambda item: item.record.id):
        items = list(of_fact)
        every = [
            (_less(item, ids) if ids and id not in ids else None) if item in items else item
            for item in _shown(run, items[0].record)
        ]
        if not (left := [item for item in every if item is not None]):
            doomed.append(id)
            continue
        record = left[-1].shown()
        twins = [_twin(item, record) for item in left[:-1]]
        noted = _noted(record, left[-1].given_ids, private=left[-1].private, twins=twins)
        await _revise(run, memory, left[-1], record, noted)
    if doomed:
        await _view(run, memory).retract(*doomed, reason=reason)


async def deleted(
    run: MemoryRun,
    memory: Memory,
    *,
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
        for item in await _own(run, memory, path=path, categories=categories, metadata=metadata)
        if (not ids or not set(ids).isdisjoint(item.ids))
        and (older_than is None or item.created_at < naive(_aware(older_than)))
    ]
    await _without(run, memory, doomed, ids=set(ids or ()), reason="deleted by CrewAI")
    return len(doomed)


async def erased(run: MemoryRun, memory: Memory, *, path: str | None) -> None:
    """Erase CrewAI's records below a path."""
    view, scope = _view(run, memory), _below(run, path)
    doomed = await view.forget(scope=scope, subject=run.user, concepts=[STATEMENT], dry_run=True)
    if ids := [record.id for record in doomed if _OURS in record.details.metadata]:
        await view.forget(*ids)
