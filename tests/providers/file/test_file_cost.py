"""Cost of a save: it does not grow with the size of the store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from pathlib import Path

from factmem_file import LocalFileMemoryProvider
from factmem_file.log_storage import LocalLogStorage

from factmem.abc.log_storage import LogName, Position, Scan
from factmem.facts import Concept
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

USER = MemorySubject("user")
SCOPE = MemoryScope.agent("planner")
LIKES = Concept.multiple("likes", "likes")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


class CountingStorage(LocalLogStorage):
    """A storage that counts the bytes it reads and writes, and the calls that read every log."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read = self.written = self.enumerations = 0

    def scan(self, log: LogName, since: Position | None = None, *, limit: int | None = None) -> Scan:
        scan = super().scan(log, since, limit=limit)
        self.read += sum(map(len, scan.payloads))
        return scan

    def append(self, log: LogName, payload: bytes, after: Position, *, durable: bool = True) -> None:
        self.written += len(payload)
        super().append(log, payload, after, durable=durable)

    def replace(self, log: LogName, payloads: Sequence[bytes], *, durable: bool = True) -> None:
        self.written += sum(map(len, payloads))
        super().replace(log, payloads, durable=durable)

    def last(self, log: LogName) -> bytes | None:
        payload = super().last(log)
        self.read += len(payload or b"")
        return payload

    def logs(self, folder: Sequence[str] = (), *, kinds: Collection[str]) -> Sequence[LogName]:
        self.enumerations += 1
        return super().logs(folder, kinds=kinds)

    def reset(self) -> None:
        self.read = self.written = self.enumerations = 0


async def test_a_save_reads_and_writes_the_same_at_10_and_at_500_facts(tmp_path: Path) -> None:
    costs = []
    for there in (10, 500):
        root = tmp_path / str(there)
        storage = CountingStorage(root)
        async with LocalFileMemoryProvider(root, storage=storage) as provider:
            filling = LIKES.fact([f"value {number:04}" for number in range(there)], timestamp=NOON)
            await provider.save(filling, USER, SCOPE)
            await provider.save(LIKES.fact(["warm up"], timestamp=NOON), USER, SCOPE)
            storage.reset()
            for number in range(5):
                await provider.save(LIKES.fact([f"more {number}"], timestamp=NOON), USER, SCOPE)
            costs.append((storage.written, storage.read, storage.enumerations))
    (small_written, small_read, _), (big_written, big_read, enumerations) = costs
    # The sequence number has a few digits more.
    assert 0 <= big_written - small_written < 5 * 10
    assert 0 <= big_read - small_read < 5 * 10
    assert enumerations == 0


async def test_changes_read_only_what_is_new(tmp_path: Path) -> None:
    storage = CountingStorage(tmp_path)
    async with LocalFileMemoryProvider(tmp_path) as writer, LocalFileMemoryProvider(
        tmp_path, storage=storage
    ) as reader:  # fmt: skip
        for number in range(20):
            fact = LIKES.fact([f"{number} {index}" for index in range(20)], timestamp=NOON)
            await writer.save(fact, USER, MemoryScope.agent(f"a{number}"))
        assert len(await reader.changes(None)) == 400
        storage.reset()
        assert await reader.changes(None, since=400) == []
        assert (storage.read, storage.enumerations) == (0, 0)
        await writer.save(LIKES.fact(["new"], timestamp=NOON), USER, MemoryScope.agent("a7"))
        (new,) = await reader.changes(None, since=400)
        assert new.seq == 401
        assert 0 < storage.read < 1_000
