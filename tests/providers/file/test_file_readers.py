"""A reader without the lock never sees a partial write, nor keeps data that was rolled back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import anyio.from_thread
import pytest
from factmem_file import LocalFileMemoryProvider
from factmem_file.log_storage import LocalLogStorage

from factmem.abc.capabilities import Append
from factmem.abc.log_storage import LogName, Position
from factmem.errors import CorruptStoreError
from factmem.facts import Concept
from factmem.records import LogEntry, Place, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

USER = MemorySubject("user")
LIKES = Concept.multiple("likes", "likes")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
LOG = LogName(folder=("", "agent", "a"), name=("user",), kind="facts")


class WatchedStorage(LocalLogStorage):
    """A storage that calls back after each append, in the writer's thread and with the lock held."""

    appended: Callable[[], None] | None = None

    def append(self, log: LogName, payload: bytes, after: Position, *, durable: bool = True) -> None:
        super().append(log, payload, after, durable=durable)
        if self.appended is not None:
            self.appended()


def _append(agent: str, value: str) -> Append:
    (assertion,) = assertions_of(LIKES.fact([value], timestamp=NOON), Place(USER, MemoryScope.agent(agent)))
    return Append(assertion=assertion)


async def test_the_feed_gives_no_number_before_all_lower_ones_are_there(tmp_path: Path) -> None:
    """A mirror remembers the highest number it has seen, so a lower one that comes later would be missed for good."""
    storage = WatchedStorage(tmp_path)
    seen: list[list[int]] = []
    writer, reader = LocalFileMemoryProvider(tmp_path, storage=storage), LocalFileMemoryProvider(tmp_path)

    async def look() -> list[LogEntry]:
        return list(await reader.changes(None))

    await writer.append([_append("a", "v1")])
    assert await reader.version(None) == 1
    storage.appended = lambda: seen.append([entry.seq for entry in anyio.from_thread.run(look)])
    await writer.append([_append("a", "v2"), _append("b", "v3"), _append("a", "v4")])
    assert seen == [[1], [1]]
    assert [entry.seq for entry in await look()] == [1, 2, 3, 4]
    await reader.aclose()
    await writer.aclose()


def test_what_was_taken_back_and_overwritten_is_read_anew(tmp_path: Path) -> None:
    writer, reader = LocalLogStorage(tmp_path), LocalLogStorage(tmp_path)
    with writer.lock(5):
        writer.append(LOG, b"[1]", Position())
        start = writer.scan(LOG).position
        writer.append(LOG, b"[2]", start)
        position = reader.scan(LOG).position
        writer.append(LOG, b"[3, 3, 3]", start)
        scan = reader.scan(LOG, position)
        assert (scan.fresh, scan.payloads) == (True, (b"[1]", b"[3, 3, 3]"))
        writer.append(LOG, b"[4]", scan.position)
        scan = reader.scan(LOG, scan.position)
        assert (scan.fresh, scan.payloads) == (False, (b"[4]",))
        assert reader.scan(LOG, scan.position).payloads == ()


def test_a_replaced_log_is_read_anew_however_long_it_is(tmp_path: Path) -> None:
    storage = LocalLogStorage(tmp_path)
    with storage.lock(5):
        storage.append(LOG, b"[1]", Position())
        position = storage.scan(LOG).position
        storage.replace(LOG, [b"[5]", b"[6]"])
        scan = storage.scan(LOG, position)
        assert (scan.fresh, scan.payloads) == (True, (b"[5]", b"[6]"))
        assert storage.last(LOG) == b"[6]"
        storage.replace(LOG, [])
        scan = storage.scan(LOG, scan.position)
        assert (scan.fresh, scan.payloads, scan.position) == (True, (), Position())
        assert storage.last(LOG) is None


def test_the_last_frame_is_found_behind_large_ones(tmp_path: Path) -> None:
    storage = LocalLogStorage(tmp_path)
    with storage.lock(5):
        storage.replace(LOG, [b"[1]", b"x" * 200_000])
        assert storage.last(LOG) == b"x" * 200_000
        storage.append(LOG, b"[2]", storage.scan(LOG).position)
        assert storage.last(LOG) == b"[2]"


async def test_a_reader_takes_the_lock_before_it_believes_in_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await provider.append([_append("a", "v1")])
    looks: list[str] = []
    real = LocalLogStorage.scan

    def torn(self: LocalLogStorage, log: LogName, since: Position | None = None) -> object:
        looks.append(log.kind)
        if len(looks) == 1:
            raise CorruptStoreError("half of it is being written")
        return real(self, log, since)

    monkeypatch.setattr(LocalLogStorage, "scan", torn)
    async with LocalFileMemoryProvider(tmp_path) as again:
        assert await again.load(LIKES, USER, MemoryScope.agent("a")) == LIKES.fact(["v1"], timestamp=NOON)
