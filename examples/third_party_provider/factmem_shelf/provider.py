"""Facts on shelves: one file per place, rewritten on every save."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from anyio import to_thread

from factmem import AgentMemoryProvider
from factmem.abc import system_clock
from factmem.abc.capabilities import Append
from factmem.abc.clock import Clock
from factmem.codec import dump_entry, load_entry
from factmem.errors import CodecError, CorruptStoreError, InvalidDataError, ProviderClosedError, StoreUnavailableError
from factmem.facts import Concept, Fact, FactT
from factmem.fold import Current, Moment, fold
from factmem.providers import Planner, SteadyClock, TrackIndex, fact_of
from factmem.records import Place, Recorded, assertions_of, record_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["ShelfProvider"]

T = TypeVar("T")


class ShelfProvider(AgentMemoryProvider):
    """Provider that keeps each place in a file of its own, for one process.

    Args:
        directory: folder of the files, which is made on the first save.
        clock: gives the times of saving, and decides what has expired.
    """

    def __init__(self, directory: str | os.PathLike[str], *, clock: Clock = system_clock) -> None:
        self._directory = Path(directory)
        self._clock = clock
        self._steady = SteadyClock(clock)
        self._lock = threading.Lock()
        self._closed = False

    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        await self._in_thread(lambda: self._put(fact, Place(subject, scope)))

    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        current = [item for item in await self._current(subject, scope) if _keyword(item) == concept.keyword]
        return fact_of(concept, current) if current else None

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        tracks: dict[str, list[Current]] = {}
        for item in await self._current(subject, scope):
            tracks.setdefault(_keyword(item), []).append(item)
        return [fact_of(record_of(items[-1].recorded).concept, items) for items in tracks.values()]

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> Sequence[Fact[Any]]:
        wanted = _comparable(description)
        if not wanted:
            raise InvalidDataError("the text to look for is empty; use load_all to read everything")

        def matches(concept: Concept[Any, Any]) -> bool:
            return any(wanted in _comparable(text) for text in (concept.description, concept.keyword))

        return [fact for fact in await self.load_all(subject, scope) if matches(fact.concept)]

    async def aclose(self) -> None:
        """Close the provider after pending saves."""
        self._closed = True
        await to_thread.run_sync(self._wait)

    async def _current(self, subject: MemorySubject, scope: MemoryScope) -> list[Current]:
        log = await self._in_thread(lambda: self._read(Place(subject, scope)))
        return fold(log, Moment(now=self._clock()))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run work with files outside the event loop, one call at a time; it is never abandoned halfway."""

        def locked() -> T:
            with self._lock:
                return work()

        if self._closed:
            raise ProviderClosedError("the shelf was closed")
        return await to_thread.run_sync(locked)

    def _wait(self) -> None:
        with self._lock:
            pass

    def _file(self, place: Place) -> Path:
        """Return a name of fixed length that every file system accepts, for any place."""
        return self._directory / f"{hashlib.blake2b(json.dumps(place.key).encode(), digest_size=20).hexdigest()}.jsonl"

    def _read(self, place: Place) -> list[Recorded]:
        try:
            lines = self._file(place).read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreUnavailableError(f"the shelf cannot be read: {error.strerror}") from error
        try:
            return [entry for entry in map(load_entry, lines) if isinstance(entry, Recorded)]
        except CodecError as error:
            raise CorruptStoreError(f"{self._file(place)} is damaged: {error}") from error

    def _put(self, fact: Fact[Any], place: Place) -> None:
        log, index = self._read(place), TrackIndex()
        for entry in log:
            index.add(entry)
            self._steady.reached(entry.recorded_at, place.scope.tenant)
        planner = Planner(self._steady, lambda _: index, lambda _: len(log))
        _, planned = planner.plan([Append(assertion=said) for said in assertions_of(fact, place)])
        if planned:
            entries = [*log, *(new.entry for new in planned)]
            self._write(place, b"".join(dump_entry(entry) + b"\n" for entry in entries))

    def _write(self, place: Place, content: bytes) -> None:
        """Replace a file in one step; it is on disk when this returns."""
        target = self._file(place)
        beside = target.with_suffix(".new")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
            descriptor = os.open(self._directory, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreUnavailableError(f"the shelf cannot be written: {error.strerror}") from error


def _comparable(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()


def _keyword(item: Current) -> str:
    return item.recorded.assertion.keyword
