"""The bound on what all mirrors of a process hold: the least recently read are dropped, and read again when needed."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Final, Protocol

import attrs


class _Mirror(Protocol):
    """Contents that can be dropped, because they can be read again."""

    @property
    def nbytes(self) -> int:
        """The size of the contents, in bytes."""
        ...

    def drop(self) -> None:
        """Drop the contents."""
        ...


@attrs.define(eq=False)
class _Entry:
    """The state of one mirror in the cache.

    Attributes:
        size: Its size when it was last measured, in bytes.
        users: Number of operations that are under way in it.
        closed: Whether it is to be dropped after the last of them.
    """

    size: int = 0
    users: int = 0
    closed: bool = False


class MirrorCache:
    """Mirrors in the order of their last reads, with the sum of their sizes. Any thread and event loop may use it.

    It keeps no mirror alive, and never drops one in which an operation is under way. What an operation has returned
    outlives the drop for as long as its reader holds it.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._entries: OrderedDict[weakref.ref[_Mirror], _Entry] = OrderedDict()
        self._collected: deque[weakref.ref[_Mirror]] = deque()
        """Dead mirrors; the garbage collector adds them at any time, and so without the lock."""
        self._size = 0

    @property
    def size(self) -> int:
        """The sum of the sizes of all mirrors, each as last measured, in bytes."""
        with self._guard:
            self._remove_collected()
            return self._size

    @contextlib.contextmanager
    def pinned(self, mirror: _Mirror) -> Iterator[None]:
        """Keep a mirror from being dropped by others meanwhile, and measure it afterwards."""
        with self._guard:
            if (entry := self._entries.get(weakref.ref(mirror))) is None:
                entry = self._entries[weakref.ref(mirror, self._collected.append)] = _Entry()
            entry.users += 1
        try:
            yield
        finally:
            with self._guard:
                entry.users -= 1
                if entry.closed and not entry.users:
                    self._remove(weakref.ref(mirror))
                    mirror.drop()
                else:
                    self._measure(mirror, entry)

    def was_read(self, mirror: _Mirror, limit: int | None) -> None:
        """Make a mirror the most recently read one, and drop others until all together fit a limit.

        The most recent one stays, whatever its size.

        Args:
            mirror: The mirror.
            limit: The limit of the sum of sizes, in bytes; None for none.
        """
        reference = weakref.ref(mirror)
        with self._guard:
            self._remove_collected()
            if (entry := self._entries.get(reference)) is None:
                return  # it was closed meanwhile
            newest, before = next(reversed(self._entries.items()))
            if before is not entry:
                if (left := newest()) is not None:
                    self._measure(left, before)  # its caches have grown with what was read of it since
                self._entries.move_to_end(reference)
            if limit is not None and self._size > limit:
                self._fit(limit)

    def close(self, mirror: _Mirror) -> None:
        """Drop a mirror, after the operations that are under way in it."""
        reference = weakref.ref(mirror)
        with self._guard:
            if (entry := self._entries.get(reference)) is None:
                return
            if entry.users:
                entry.closed = True
                return
            self._remove(reference)
            mirror.drop()

    def _fit(self, limit: int) -> None:
        """Drop mirrors, the least recently read first."""
        newest, size = next(reversed(self._entries)), self._size
        chosen = []
        for reference, entry in self._entries.items():
            if size <= limit or reference is newest:
                break
            if not entry.users:
                chosen.append(reference)
                size -= entry.size
        for reference in chosen:
            self._remove(reference)
            if (mirror := reference()) is not None:
                mirror.drop()

    def _measure(self, mirror: _Mirror, entry: _Entry) -> None:
        before, entry.size = entry.size, mirror.nbytes
        self._size += entry.size - before

    def _remove(self, reference: weakref.ref[_Mirror]) -> None:
        self._size -= self._entries.pop(reference, _Entry()).size

    def _remove_collected(self) -> None:
        while self._collected:
            self._remove(self._collected.popleft())


MIRRORS: Final = MirrorCache()
"""The mirrors of this process, of all providers: memory is what they share."""
