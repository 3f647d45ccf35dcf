"""CrewAI's `StorageBackend` over factmem: the records of its `Memory`, behind factmem's walls."""

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
    """Return the run at hand; where the configuration names nothing, CrewAI is the product."""
    run = memory.for_run(working_for.get())
    config = run.config
    if config.agent_name or config.feature_name or config.product_name:
        return run
    return attrs.evolve(run, config=attrs.evolve(config, product_name="crewai"))


class FactMemStorage:
    """A backend for CrewAI's ``Memory(storage=…)``. See `crewai.memory.storage.backend.StorageBackend`.

    Paths are those of CrewAI, compared segment by segment; what it saves lies below the scope that the
    memory's configuration keeps things in. What else the agent may see (facts of its product, of other
    hosts) is found and listed under its own path, and is neither changed nor deleted from here.

    In ``memory.run(user_id=…)`` all of it is the user's: others see none of it. Where no user is named,
    what is private is seen by CrewAI alone, which compares its sources.

    A record comes back as it was saved, whatever it says, or ``save`` raises; only secrets are redacted. One that reads
    like an instruction or hides something has flags (`FactDetails.flags`): CrewAI finds it, and no agent of factmem is
    told of it. Records that differ in nothing but their ids and times are one, by any of these ids. Deleting takes
    back, and `Memory.restore` brings back; `reset` erases.

    Args:
        memory: The memory, or where one is to be kept.
        embedder: What CrewAI's ``Memory(embedder=…)`` has, so that facts of other hosts are found as well;
            `embed` if None.
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
        """Embed texts with factmem's own embedder, offline: what to give to ``Memory(embedder=…)``."""
        vectors = self.memory.for_run().held.use_blocking(lambda _: self._own_embedder.embed(texts))
        return [[float(number) for number in vector] for vector in vectors]

    def save(self, records: list[MemoryRecord]) -> None:
        """Save records, or none of them if one is not legal.

        Raises:
            VectorSizeError: A vector is of another size than the stored ones.
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
        """Return the records closest to a vector: the true best of all that pass.

        The score is the cosine, 0 if negative, as in CrewAI's Qdrant storage; ``min_score`` is a cosine, too. CrewAI's
        LanceDB storage makes its scores of distances.
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
        """Take back the records that all of it holds for, and return how many that were.

        Raises:
            InvalidDataError: Nothing is given; ``scope_prefix="/"`` deletes everything.
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
        """Put a record in the place of the one with its id; what was private stays so, whatever the new one says.

        A fact that CrewAI did not save itself stays as it is, and the record is saved beside it.
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
        """Return what a scope holds, with all that lies below."""
        found = self._blocking(partial(seen, path=scope))
        times = [item.created_at for item in found]
        return ScopeInfo(
            path="/" + "/".join(segments_of(scope)),
            record_count=len(found),
            categories=sorted({category for item in found for category in item.categories}),
            oldest_record=min(times, default=None),
            newest_record=max(times, default=None),
            child_scopes=children(found, scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the paths one level below a scope."""
        return children(self._blocking(partial(seen, path=parent)), parent)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return how many records of a scope have each category."""
        counts: dict[str, int] = {}
        for item in self._blocking(partial(seen, path=scope_prefix)):
            for category in item.categories:
                counts[category] = counts.get(category, 0) + 1
        return counts

    def count(self, scope_prefix: str | None = None) -> int:
        """Return how many records a scope has, with all that lies below."""
        return len(self._blocking(partial(seen, path=scope_prefix)))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Erase what was saved in a scope, with all its history. There is no way back."""
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
            elif item.own:  # CrewAI saved it without a vector: it is as far away as can be, and not lost
                scored.append((item, 0.0))
        scored.sort(key=lambda pair: -pair[1])
        return [(item.shown(), score) for item, score in scored if score >= min_score][: max(limit, 0)]

    def _vectors_of(self, found: Sequence[Shown]) -> list[NDArray[np.float32]]:
        """The vectors of records; those that CrewAI did not save are embedded now, and that is remembered."""
        import numpy as np

        wanted = {item.content for item in found if item.vector is None}
        if len(self._vectors) > _MOST_TEXTS:
            self._vectors = {}
        if texts := sorted(wanted - self._vectors.keys()):
            made = (np.asarray(vector, dtype=np.float32) for vector in self._embedder(texts))
            self._vectors |= dict(zip(texts, made, strict=True))
        return [self._vectors[item.content] if item.vector is None else item.vector for item in found]


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector
