"""Provider of one SQLite file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from factmem.abc import system_clock
from factmem.abc.capabilities import KeepsFiles, ScansVectors, StoreLocation
from factmem.abc.clock import Clock
from factmem.legal_names import checked_path
from factmem.progress import Progress, no_report
from factmem.providers.threaded import DatabaseProvider, flag_option, seconds_option
from factmem_sqlite_vec.codecs import PageCodec
from factmem_sqlite_vec.engine import SqliteEngine
from factmem_sqlite_vec.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class SqliteVecMemoryProvider(DatabaseProvider[SqliteEngine], KeepsFiles, ScansVectors):
    """Keeps facts, their history and their vectors in one SQLite file; the default provider.

    It has every capability. Tasks that save at the same time share one transaction and one flush to the disk. Any
    number of processes may use the file at once. It must lie on a local disk, not on a network share. SQLite keeps
    ``-wal`` and ``-shm`` files beside it while it is open.

    Nothing is opened before the first call, and nothing is created before the first write. Erasing overwrites the rows
    in place and empties the write-ahead log. A file of an older format is brought up to date by the first write, and
    compacted when it is closed; until then it is read from a migrated copy in memory.

    Args:
        path: File; the first write creates it and its folders.
        clock: Returns the time of recording, and decides on expiry; called in a worker thread.
        read_only: Never write; a missing file is an error then.
        busy_timeout: Longest wait for another process that is writing, in seconds.

    Raises:
        InvalidDataError: An option cannot be parsed.
    """

    _kind: ClassVar[str] = "sqlite-vec"
    """Name in addresses."""

    @override
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock = system_clock,
        read_only: bool | str = False,
        busy_timeout: float | str = 10.0,
    ) -> None:
        self._path = checked_path(path, what="path")
        self._read_only = flag_option(read_only, "read_only")
        self._busy_timeout = seconds_option(busy_timeout, "busy_timeout")
        super().__init__(clock=clock)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"

    @override
    async def files(self) -> Sequence[Path]:
        return await self._read(lambda engine: engine.store.files())

    @property
    @override
    def location(self) -> StoreLocation:
        return StoreLocation(kind=self._kind, path=self._path.absolute(), suffixes=("", *self._codec().beside))

    @override
    def at(self, path: Path) -> SqliteVecMemoryProvider:
        return SqliteVecMemoryProvider(path, clock=self._clock, busy_timeout=self._busy_timeout)

    @override
    async def copy_to(self, path: Path, *, progress: Progress | None = None) -> None:
        await self._read(lambda engine: engine.store.copy_to(path, progress or no_report))

    @override
    async def check_unused(self) -> None:
        await self._read(lambda engine: engine.store.check_unused())

    @override
    def vector_numbers(self, tenant: str | None, since: int = 0) -> NDArray[np.int64]:
        return self._engine.vector_numbers(tenant, since)

    @override
    def products(
        self, tenant: str | None, vector: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return self._engine.products(tenant, vector)

    @override
    def vectors_of(self, tenant: str | None, seqs: NDArray[np.int64], dimension: int) -> NDArray[np.float32]:
        return self._engine.vectors_of(tenant, seqs, dimension)

    def _open_engine(self) -> SqliteEngine:
        store = Store(self._path, self._codec(), read_only=self._read_only, busy_timeout=self._busy_timeout)
        return SqliteEngine(store, self._clock)

    def _codec(self) -> PageCodec:
        return PageCodec()
