"""Folders of files as stores: round trips, vectors, readers beside a writer, and the cost of a save."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import anyio.from_thread
import numpy as np
import pytest
from factmem_file import LocalFileMemoryProvider
from factmem_file.log_storage import LocalLogStorage, framed

from factmem.abc.capabilities import Append, EmbedderIdentity
from factmem.abc.log_storage import LogName, Position, Scan
from factmem.errors import CorruptStoreError, StoreUnavailableError
from factmem.facts import Concept
from factmem.records import LogEntry, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import FakeClock
from tests.narrowing import not_none

USER = MemorySubject("user", "the person at the keyboard")
SCOPE = MemoryScope.agent("planner")
SEATS = Concept.single("seats", "how many seats to book", value_type=int)
LIKES = Concept.multiple("likes", "what the user likes")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


async def test_a_place_is_one_file_that_people_can_read(tmp_path: Path) -> None:
    root = tmp_path / "store"
    async with LocalFileMemoryProvider(root) as provider:
        await provider.save(LIKES.fact(["Grüße"], timestamp=NOON), USER, SCOPE.within("acme") / "inbox")
    lines = (root / "acme/agent/planner/inbox/user.jsonl").read_text().splitlines()
    assert json.loads(lines[0].split(" ", 1)[1])["folder"] == ["acme", "agent", "planner", "inbox"]
    (entry,) = json.loads(lines[1].split(" ", 1)[1])
    assert entry["assertion"]["data"] == "Grüße"
    assert "Grüße" in lines[1]
    assert json.loads((root / "factmem.json").read_text()) == {"format": 1, "store": "factmem"}


async def test_a_note_with_one_time_of_all_tenants_dates_each_by_its_own_log(tmp_path: Path) -> None:
    """As earlier versions wrote it; each tenant's clock still does not go back."""
    clock, storage = FakeClock(NOON), LocalLogStorage(tmp_path / "store")
    for hours, tenant in ((0, "acme"), (9, "other")):
        clock.set(NOON + dt.timedelta(hours=hours))
        async with LocalFileMemoryProvider(tmp_path / "store", clock=clock) as provider:
            await provider.save(SEATS.fact([4], timestamp=NOON), USER, SCOPE.within(tenant))
    note = json.loads(not_none(storage.read_note("sequence")))
    old = note | {"recorded": (NOON + dt.timedelta(hours=9)).isoformat()}
    with storage.lock(1):
        storage.write_note("sequence", json.dumps(old).encode(), durable=False)
    clock.set(NOON - dt.timedelta(hours=1))
    async with LocalFileMemoryProvider(tmp_path / "store", clock=clock) as provider:
        await provider.save(SEATS.fact([5], timestamp=NOON), USER, SCOPE.within("acme"))
        said = [entry for entry in await provider.changes("acme") if isinstance(entry, Recorded)]
        assert [entry.recorded_at for entry in said] == [NOON, NOON]


# A reader without the lock never sees a partial write, nor keeps data that was rolled back.


LOG = LogName(folder=("", "agent", "a"), name=("user",), kind="facts")


class WatchedStorage(LocalLogStorage):
    """A storage that calls back after each append, in the writer's thread and with the lock held."""

    appended: Callable[[], None] | None = None

    def append(self, log: LogName, payload: bytes, after: Position, *, durable: bool = True) -> None:
        super().append(log, payload, after, durable=durable)
        if self.appended is not None:
            self.appended()


def _of_agent(agent: str, value: str) -> Append:
    (assertion,) = assertions_of(LIKES.fact([value], timestamp=NOON), Place(USER, MemoryScope.agent(agent)))
    return Append(assertion=assertion)


async def test_the_feed_gives_no_number_before_all_lower_ones_are_there(tmp_path: Path) -> None:
    """A mirror remembers the highest number it has seen, so a lower one that comes later would be missed for good."""
    storage = WatchedStorage(tmp_path)
    seen: list[list[int]] = []
    writer, reader = LocalFileMemoryProvider(tmp_path, storage=storage), LocalFileMemoryProvider(tmp_path)

    async def look() -> list[LogEntry]:
        return list(await reader.changes(None))

    await writer.append([_of_agent("a", "v1")])
    assert await reader.version(None) == 1
    storage.appended = lambda: seen.append([entry.seq for entry in anyio.from_thread.run(look)])
    await writer.append([_of_agent("a", "v2"), _of_agent("b", "v3"), _of_agent("a", "v4")])
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
        await provider.append([_of_agent("a", "v1")])
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


# Several providers on one store, as in several processes. Concurrent writers are tested in tests/reliability.


async def test_a_store_that_others_hold_is_unavailable_and_a_save_refused(tmp_path: Path) -> None:
    holder = LocalLogStorage(tmp_path)
    async with LocalFileMemoryProvider(tmp_path, lock_timeout="0.05") as provider:
        await provider.save(LIKES.fact(["a"], timestamp=NOON), USER, SCOPE)
        with holder.lock(1):
            with pytest.raises(StoreUnavailableError, match="lock_timeout"):
                await provider.save(LIKES.fact(["b"], timestamp=NOON), USER, SCOPE)
            assert await provider.load(LIKES, USER, SCOPE) == LIKES.fact(["a"], timestamp=NOON)
            assert await provider.version(None) == 1
        await provider.save(LIKES.fact(["b"], timestamp=NOON), USER, SCOPE)


async def test_a_frame_of_a_writer_that_died_before_its_flush_is_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated save of such a fact is acknowledged only after a flush."""
    async with LocalFileMemoryProvider(tmp_path) as writer:
        await writer.save(LIKES.fact(["a"], timestamp=NOON), USER, SCOPE)
    flushed: list[int] = []
    real = os.fsync

    def counted(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    log = tmp_path / "@default/agent/planner/user.jsonl"
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await provider.save(LIKES.fact(["a"], timestamp=NOON), USER, SCOPE)
        assert log.stat().st_ino in flushed
        assert log.parent.stat().st_ino in flushed


# Cost of a save: it does not grow with the size of the store.


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


# Vectors are stored beside the facts; damage to their files means missing vectors and never a wrong answer.


SMALL = EmbedderIdentity(name="small", dimension=2)


def _append(value: str, vector: list[float] | None, tenant: str | None = None) -> Append:
    scope = MemoryScope.agent(f"a{value[-1]}").within(tenant)
    (assertion,) = assertions_of(LIKES.fact([value], timestamp=NOON), Place(USER, scope))
    return Append(assertion=assertion, vector=None if vector is None else np.array(vector, dtype=np.float32))


def _sidecars(root: Path) -> list[Path]:
    return sorted(root.rglob("*.vectors"))


async def _filled(provider: LocalFileMemoryProvider) -> None:
    await provider.use_embedder(SMALL)
    await provider.append([_append("v1", [3, 0]), _append("v2", [0, 2]), _append("v3", None), _append("w1", [1, 1])])
    await provider.append([_append("v1", [1, 0], "acme")])


async def test_a_damaged_sidecar_is_missing_vectors_that_can_be_put_again(tmp_path: Path) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await _filled(provider)
    sidecar = next(path for path in _sidecars(tmp_path) if "a2" in str(path))
    sound = sidecar.read_bytes()
    for at in range(len(sound)):
        sidecar.write_bytes(sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :])
        async with LocalFileMemoryProvider(tmp_path) as again:
            assert list((await again.vectors(None))[0]) == [1, 4]
    async with LocalFileMemoryProvider(tmp_path) as again:
        assert await again.load(LIKES, USER, MemoryScope.agent("a2")) is not None
        await again.put_vectors(None, {2: np.array([0, 1], dtype=np.float32)})
        assert list((await again.vectors(None))[0]) == [1, 2, 4]


@pytest.mark.parametrize("note", [b"rubbish", framed(b'{"name": "other", "dimension": true}'), framed(b"[]")])
async def test_a_damaged_or_lost_note_of_the_embedder_mixes_no_vectors(tmp_path: Path, note: bytes) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await _filled(provider)
    (tmp_path / "embedder.note").write_bytes(note)
    other = EmbedderIdentity(name="other", dimension=2)
    async with LocalFileMemoryProvider(tmp_path) as again:
        assert await again.embedder() is None
        assert list((await again.vectors(None))[0]) == []
        await again.use_embedder(other)
        assert list((await again.vectors(None))[0]) == []


async def test_without_its_sidecars_a_store_lacks_vectors_only(tmp_path: Path) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await _filled(provider)
        for sidecar in _sidecars(tmp_path):
            sidecar.unlink()
        assert list((await provider.vectors(None))[0]) == []
        await provider.append([_append("x1", [1, 0])])
        assert list((await provider.vectors(None))[0]) == [5]
        assert len(await provider.changes(None)) == 5
