"""CrewAI's `StorageBackend` over factmem: the records of its `Memory`, with factmem's access control."""

# pyright: reportMissingImports=false

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
from anyio import to_thread

from factmem.agent import AgentMemory, AgentMemoryConfig, MemoryRun, RunIdentity, Store
from factmem.errors import MissingPackageError
from factmem.integrations.crewai.records import (
    OWNER,
    Shown,
    VectorSizeError,
    children,
    deleted,
    erased,
    saved,
    seen,
    segments_of,
    updated,
)
from factmem.memory import Memory
from factmem.recall import default_embedder

try:
    from crewai.memory.types import MemoryRecord, ScopeInfo
except ModuleNotFoundError as _missing:
    raise MissingPackageError("crewai", extra="crewai") from _missing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["OWNER", "FactMemStorage", "VectorSizeError", "run_of", "working_for"]

T = TypeVar("T")
_NOBODY: Final = RunIdentity()
_MOST_TEXTS: Final = 10_000

working_for: ContextVar[RunIdentity] = ContextVar("factmem_crewai_run", default=_NOBODY)
"""Identity of a crew, from the inputs of its kickoff."""


def run_of(memory: AgentMemory) -> MemoryRun:
    """Return the current run; if the configuration has no names, the product is ``crewai``."""
    run = memory.for_run(working_for.get())
    config = run.config
    if config.agent_name or config.feature_name or config.product_name:
        return run
    return attrs.evolve(run, config=attrs.evolve(config, product_name="crewai"))


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
        self._blocking(partial(saved, records=records))

    async def asave(self, records: list[MemoryRecord]) -> None:
        """See `save`."""
        await self._asking(partial(saved, records=records))

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
        found = self._blocking(partial(seen, path=scope_prefix, categories=categories, metadata=metadata_filter))
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
        found = await self._asking(partial(seen, path=scope_prefix, categories=categories, metadata=metadata_filter))
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
        given = partial(deleted, path=scope_prefix, categories=categories, ids=record_ids)
        return self._blocking(partial(given, older_than=older_than, metadata=metadata_filter))

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: dt.datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """See `delete`."""
        given = partial(deleted, path=scope_prefix, categories=categories, ids=record_ids)
        return await self._asking(partial(given, older_than=older_than, metadata=metadata_filter))

    def update(self, record: MemoryRecord) -> None:
        """Replace the record with the same id; a private record stays private in any case.

        A fact that CrewAI did not save stays unchanged, and the record is saved beside it.
        """
        self._blocking(partial(updated, record=record))

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return the record with an id, or None."""
        found = self._blocking(seen)
        return next((item.shown(record_id) for item in found if record_id in item.ids), None)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Return the records of a scope, newest first."""
        found = self._blocking(partial(seen, path=scope_prefix))
        return [item.shown() for item in found[max(offset, 0) :][: max(limit, 0)]]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return a summary of a scope and its subtree."""
        found = self._blocking(partial(seen, path=scope))
        times = [item.created_at for item in found]
        return ScopeInfo(
            path="/" + "/".join(segments_of(scope)),
            record_count=len(found),
            categories=sorted({category for item in found for category in item.entry.categories}),
            oldest_record=min(times, default=None),
            newest_record=max(times, default=None),
            child_scopes=children(found, scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the paths one level below a scope."""
        return children(self._blocking(partial(seen, path=parent)), parent)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the number of records in a scope per category."""
        counts: dict[str, int] = {}
        for item in self._blocking(partial(seen, path=scope_prefix)):
            for category in item.entry.categories:
                counts[category] = counts.get(category, 0) + 1
        return counts

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records in a scope and its subtree."""
        return len(self._blocking(partial(seen, path=scope_prefix)))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Erase the records of a scope, with all their history. This cannot be undone."""
        self._blocking(partial(erased, path=scope_prefix))

    def _blocking(self, work: Callable[[MemoryRun, Memory], Awaitable[T]]) -> T:
        run = run_of(self.memory)
        run.check_user()
        return run.held.use_blocking(partial(work, run))

    async def _asking(self, work: Callable[[MemoryRun, Memory], Awaitable[T]]) -> T:
        run = run_of(self.memory)
        run.check_user()
        return await run.held.use(partial(work, run))

    def _closest(
        self, found: Sequence[Shown], query: Sequence[float], limit: int, min_score: float
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

    def _vectors_of(self, found: Sequence[Shown]) -> list[NDArray[np.float32]]:
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
