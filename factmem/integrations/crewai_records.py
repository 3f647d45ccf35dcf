"""What CrewAI sees of a memory, and what its records become there."""

# pyright: reportMissingImports=false

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from factmem.agent import MemoryRun
from factmem.agent.rendering import written
from factmem.detection import redact
from factmem.errors import InvalidDataError, MissingPackageError, RecordNotFoundError
from factmem.facts import STATEMENT, MultipleFacts
from factmem.memory import Memory
from factmem.records import AssertionState, FactDetails, FactRecord, MetadataMerge, Origin
from factmem.scopes import MemoryScope

try:
    from crewai.memory.types import MemoryRecord
except ModuleNotFoundError as _missing:
    raise MissingPackageError("crewai", extra="crewai") from _missing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["OWNER", "Shown", "children", "deleted", "erased", "naive", "saved", "seen", "segments_of", "updated"]

OWNER: Final = "crewai"
"""Who owns what CrewAI calls private where no user is named: CrewAI itself compares its sources then."""

_OURS: Final = "crewai"


@attrs.frozen
class Shown:
    """A record as factmem has it and as CrewAI sees it."""

    record: FactRecord[Any]
    path: tuple[str, ...]
    own: bool

    @property
    def noted(self) -> Mapping[str, Any]:
        """What CrewAI knows of it that factmem has no place for."""
        noted = self.record.details.metadata.get(_OURS)
        return noted if isinstance(noted, dict) else {}

    @property
    def ids(self) -> list[str]:
        """Every id that it goes by, the one that CrewAI gave last at the end."""
        return [self.record.id, *self.noted.get("ids", ())]

    @property
    def content(self) -> str:
        """Its words; a typed fact as its name and value."""
        value = written(self.record.value, self.record.concept.value_type)
        keyword = self.record.concept.keyword
        return value if keyword == STATEMENT.keyword else f"{keyword}: {value}"

    @property
    def vector(self) -> NDArray[np.float32] | None:
        """The vector that CrewAI saved it with."""
        import numpy as np

        packed = self.noted.get("vector")
        return None if packed is None else np.frombuffer(base64.b64decode(packed), dtype="<f4")

    def shown(self, id: str | None = None) -> MemoryRecord:
        """Return it as CrewAI has it, with times as CrewAI compares them: in UTC, without a zone."""
        details, vector = self.record.details, self.vector
        return MemoryRecord(
            id=id or self.ids[-1],
            content=self.content,
            scope="/" + "/".join(self.path),
            categories=list(details.categories),
            metadata={key: value for key, value in details.metadata.items() if key != _OURS},
            importance=details.importance,
            created_at=naive(self.record.timestamp),
            last_accessed=naive(self.record.recorded_at),
            embedding=None if vector is None else vector.tolist(),
            source=details.source,
            private=bool(self.noted.get("private", False)),
        )


def naive(moment: dt.datetime) -> dt.datetime:
    """Return a time as CrewAI compares times: in UTC, without a zone."""
    return moment.astimezone(dt.UTC).replace(tzinfo=None)


def _aware(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def segments_of(path: str | None) -> tuple[str, ...]:
    """Return the segments of one of CrewAI's paths; none for the root."""
    return tuple(segment for segment in (path or "").split("/") if segment.strip())


def children(found: Sequence[Shown], path: str) -> list[str]:
    """Return the paths one level below a path that some records lie in."""
    depth = len(segments_of(path)) + 1
    return sorted({"/" + "/".join(item.path[:depth]) for item in found if len(item.path) >= depth})


def _view(run: MemoryRun, memory: Memory) -> Memory:
    """What the run sees; where it works for no user, with what is private to CrewAI."""
    return run.view(memory if run.identity.user_id is not None else memory.as_viewer(OWNER))


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
    """What CrewAI sees below a path, newest first."""
    subjects = (run.user, *run.config.subjects)
    wanted = segments_of(path)
    records = await _view(run, memory).list_records(
        strongest=True, subjects=subjects, categories=categories or None, metadata=metadata or {}
    )
    found = [_shown(run, record) for record in records]
    return [item for item in found if item.path[: len(wanted)] == wanted]


def _shown(run: MemoryRun, record: FactRecord[Any]) -> Shown:
    home, segments = run.config.home, record.scope.segments
    inside = record.scope.kind is home.kind and home.contains(record.scope)
    shown = segments[len(home.segments) :] if inside else segments
    own = inside and record.subject.key == run.user.key and _OURS in record.details.metadata
    return Shown(record, tuple(segment.replace("/", "%2F") for segment in shown), own)


async def _own(run: MemoryRun, memory: Memory, **wanted: Any) -> list[Shown]:
    """What CrewAI may change of what it sees."""
    return [item for item in await seen(run, memory, **wanted) if item.own]


_Places: TypeAlias = dict[tuple[str, tuple[str, ...], bool], Shown]


def _by_place(items: Iterable[Shown]) -> _Places:
    return {(item.record.value, item.record.scope.segments, item.record.private): item for item in items}


async def saved(run: MemoryRun, memory: Memory, *, records: Sequence[MemoryRecord]) -> None:
    """Keep records; the same words at the same place are one, by the ids of all of them."""
    known = _by_place(await _own(run, memory)) if records else {}
    for record in records:
        await _keep(run, memory, record, known, private=record.private)


async def _keep(run: MemoryRun, memory: Memory, record: MemoryRecord, known: _Places, *, private: bool) -> None:
    content, scope, owned = _words(record), _below(run, record.scope), private or run.config.saving.private
    there = (content, scope.segments, owned)
    if there in known:
        kept = await _revise(run, memory, known[there], record, private=private)
    else:
        details = FactDetails(
            importance=record.importance,
            categories=tuple(record.categories),
            source=record.source,
            origin=Origin.ASSISTANT,  # a model of CrewAI's wrote it, from what its tasks put out
            metadata={**record.metadata, _OURS: _noted(record, [record.id], private=private)},
        )
        fact = MultipleFacts(STATEMENT, (content,), timestamp=_aware(record.created_at))
        (kept,) = await _view(run, memory).save(fact, subject=run.user, scope=scope, details=details, private=owned)
    if kept.state is AssertionState.ACTIVE:
        known[there] = _shown(run, kept)


def _words(record: MemoryRecord) -> str:
    if not (content := redact(record.content).text).strip():
        raise InvalidDataError("a record without content says nothing: leave it out", path="$.content")
    return content


def _noted(record: MemoryRecord, ids: Sequence[str], *, private: bool) -> dict[str, Any]:
    import numpy as np

    noted: dict[str, Any] = {"ids": list(ids), "private": private}
    if record.embedding:
        noted["vector"] = base64.b64encode(np.asarray(record.embedding, dtype="<f4").tobytes()).decode()
    return noted


async def updated(run: MemoryRun, memory: Memory, *, record: MemoryRecord) -> None:
    """Change a record where it is, or put it where it belongs now."""
    known = await seen(run, memory)
    present = next((item for item in known if record.id in item.ids), None)
    if present is None:
        raise RecordNotFoundError("no record that CrewAI sees has this id")
    private = record.private or bool(present.noted.get("private", False))
    if private and record.source is None:
        record = record.model_copy(update={"source": present.record.details.source})
    place = (_below(run, record.scope).segments, private or run.config.saving.private)
    if present.own and place == (present.record.scope.segments, present.record.private):
        await _revise(run, memory, present, record, private=private)
        return
    others = _by_place(item for item in known if item.own and item is not present)
    await _keep(run, memory, record, others, private=private)
    if present.own:
        await _view(run, memory).retract(present.record.id, reason="moved by CrewAI")


async def _revise(
    run: MemoryRun, memory: Memory, present: Shown, record: MemoryRecord, *, private: bool
) -> FactRecord[Any]:
    content = _words(record)
    words: dict[str, Any] = {} if content == present.record.value else {"value": content}
    ids = [*(id for id in present.ids[1:] if id != record.id), record.id]
    change = await _view(run, memory).update(
        present.record.id,
        importance=record.importance,
        categories=record.categories,
        source=record.source,
        metadata={**record.metadata, _OURS: _noted(record, ids, private=private)},
        merge=MetadataMerge.OVERWRITE,
        **words,
    )
    return change.record


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
    """Take back what CrewAI saved and all of this holds for; return how many records that were."""
    if not (segments_of(path) or categories or ids or older_than or metadata):
        raise InvalidDataError("say what to delete: with nothing given that would be everything, which reset() erases")
    doomed = [
        item.record.id
        for item in await _own(run, memory, path=path, categories=categories, metadata=metadata)
        if (not ids or not set(ids).isdisjoint(item.ids))
        and (older_than is None or item.record.timestamp < _aware(older_than))
    ]
    if doomed:
        await _view(run, memory).retract(*doomed, reason="deleted by CrewAI")
    return len(doomed)


async def erased(run: MemoryRun, memory: Memory, *, path: str | None) -> None:
    """Erase what CrewAI saved below a path."""
    view, scope = _view(run, memory), _below(run, path)
    doomed = await view.would_forget(scope=scope, subject=run.user, concepts=[STATEMENT])
    if ids := [record.id for record in doomed if _OURS in record.details.metadata]:
        await view.forget(*ids)
