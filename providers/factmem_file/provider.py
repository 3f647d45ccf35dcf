"""The provider of readable files, one per scope and subject."""

from __future__ import annotations

import os

from typing_extensions import override

from factmem.abc import Clock, Storage, system_clock
from factmem.errors import InvalidDataError
from factmem.names import checked_path
from factmem.providers import ThreadedProvider, seconds_option
from factmem_file.engine import FileEngine
from factmem_file.storage import LocalStorage

__all__ = ["LocalFileMemoryProvider"]


class LocalFileMemoryProvider(ThreadedProvider[FileEngine]):
    """Keeps facts in readable files, one per scope and subject, with every capability.

    Several processes may share a store. The cost of a save does not depend on the number of facts, except that the
    first save at a place reads what the place holds. Saves that wait at the same time are written together, with one
    flush per file.

    A transaction over one place is atomic. One over several places is either refused as a whole or written place by
    place: a crash or a full disk in between leaves some of its places written, and repeating it completes it. Where
    that matters, use the provider of one SQLite file.

    Erasing rewrites the files without what is erased and unlinks the old ones. What the file system does with the
    freed blocks is beyond this. A place that holds nothing more loses its file and its empty folders.

    Args:
        root: the folder; ``~`` is expanded, and the first write creates it.
        storage: storage to use instead of plain files in ``root``.
        clock: gives the time of recording, and decides what has expired.
        lock_timeout: longest wait for other processes that write, in seconds.

    Raises:
        InvalidDataError: the timeout is no number of seconds, or the folder no legal path.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        storage: Storage | None = None,
        clock: Clock = system_clock,
        lock_timeout: float | str = 30.0,
    ) -> None:
        if isinstance(storage, str):  # an address can bring any text as an option
            raise InvalidDataError("storage must be a Storage", path="$.storage")
        self._root = checked_path(root, what="root")
        self._lock_timeout = seconds_option(lock_timeout, "lock_timeout")
        self._storage = storage or LocalStorage(root)
        super().__init__(clock=clock)

    @override
    def _open_engine(self) -> FileEngine:
        return FileEngine(self._storage, self._root, clock=self._clock, lock_timeout=self._lock_timeout)
