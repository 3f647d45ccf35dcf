"""Provider of readable files, one per scope and subject."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from factmem.abc import system_clock
from factmem.abc.capabilities import KeepsFiles, StoreLocation
from factmem.abc.clock import Clock
from factmem.abc.log_storage import LogStorage
from factmem.errors import CapabilityError, InvalidDataError
from factmem.legal_names import checked_path
from factmem.progress import Progress, no_report
from factmem.providers.threaded import ThreadedProvider, seconds_option
from factmem_file.engine import FileEngine
from factmem_file.log_storage import LocalLogStorage


class LocalFileMemoryProvider(ThreadedProvider[FileEngine], KeepsFiles):
    """Keeps facts in readable files, one per scope and subject, with every capability.

    Several processes may share a store. The cost of a save does not depend on the number of facts, except that the
    first save at a place reads what the place holds. Saves that wait at the same time are written together, with one
    flush per file.

    A transaction over one place is atomic. One over several places is either refused as a whole or written place by
    place: a crash or a full disk in between leaves some of its places written, and repeating it completes it. If
    this matters, use the provider of one SQLite file.

    Erasing rewrites the files without the erased entries and unlinks the old ones. It does not overwrite the
    freed blocks of the file system. The file and the empty folders of an empty place are removed.

    Args:
        root: Folder; ``~`` is expanded, and the first write creates it.
        storage: Log storage to use instead of plain files in ``root``.
        clock: Returns the time of recording, and decides on expiry.
        lock_timeout: Longest wait for other processes that write, in seconds.

    Raises:
        InvalidDataError: The timeout is not a number of seconds, or the path is not legal.
    """

    _kind: ClassVar[str] = "file"
    """Name in addresses."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        storage: LogStorage | None = None,
        clock: Clock = system_clock,
        lock_timeout: float | str = 30.0,
    ) -> None:
        if isinstance(storage, str):  # an address can pass any text as an option
            raise InvalidDataError("storage must be a LogStorage", path="$.storage")
        self._root = checked_path(root, what="root")
        self._lock_timeout = seconds_option(lock_timeout, "lock_timeout")
        self._storage = storage or LocalLogStorage(root)
        super().__init__(clock=clock)

    @override
    async def files(self) -> Sequence[Path]:
        return await self._read(lambda engine: engine.files())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._root)!r})"

    @property
    @override
    def location(self) -> StoreLocation:
        return StoreLocation(kind=self._kind, path=self._root.absolute())

    @override
    def at(self, path: Path) -> LocalFileMemoryProvider:
        if not isinstance(self._storage, LocalLogStorage):
            raise CapabilityError("the files of a log storage of your own are unknown: back up that storage")
        return LocalFileMemoryProvider(path, clock=self._clock, lock_timeout=self._lock_timeout)

    @override
    async def copy_to(self, path: Path, *, progress: Progress | None = None) -> None:
        await self._write(lambda engine: engine.copy_to(path, progress or no_report))

    @override
    async def check_unused(self) -> None:
        """See `KeepsFiles.check_unused`: here only a write that is going on shows."""
        await self._write(lambda engine: engine.check_unused())

    @override
    def _open_engine(self) -> FileEngine:
        return FileEngine(self._storage, self._root, clock=self._clock, lock_timeout=self._lock_timeout)
