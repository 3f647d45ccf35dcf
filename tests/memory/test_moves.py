"""Moving whole stores: the copy gives the source's answers, and cannot be used until it is complete."""

from __future__ import annotations

import datetime as dt
import itertools
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
import numpy as np
import pytest
from anyio import to_thread

from factmem import AgentMemoryProvider, Concept, InMemoryProvider, Memory, MemoryScope, MemorySubject, Message
from factmem.abc.capabilities import KeepsLog, LogPart
from factmem.codec import dump_entry
from factmem.details import FactDetails
from factmem.errors import (
    CapabilityError,
    CorruptStoreError,
    EmbedderMismatchError,
    InvalidDataError,
    StateConflictError,
    StoreUnavailableError,
)
from factmem.memory.moves import MoveReceipt, move
from factmem.providers.memory import NoMemory
from factmem.testing import FakeClock, HashEmbedder
from tests.memory.shelves import Shelf, two_of
from tests.reliability.stores import STORES

pytestmark = pytest.mark.slow

CITY: Final = Concept.single("city", "Where somebody lives")
PETS: Final = Concept.multiple("pets", "Animals that somebody keeps")
MAYA: Final = MemorySubject("user", "who speaks", priority_level=1).individual("maya")
NOON: Final = dt.datetime(2026, 3, 4, 12, tzinfo=dt.UTC)
LATER: Final = dt.datetime(2036, 1, 1, tzinfo=dt.UTC)
TENANTS: Final = (None, "größe 東京")

Open = Callable[[Path], Any]


def _durable(name: str) -> Open:
    (store,) = (store for store in STORES if store.name == name)
    return store.open


KINDS: Final[dict[str, Open]] = {
    "memory": lambda path: InMemoryProvider(),
    **{store.name: _durable(store.name) for store in STORES},
}
TARGETS: Final = two_of(KINDS)
"""Stores to move to; the test of pairs moves to the others too, and from them."""


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for store in STORES:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)


def opened(
    provider: AgentMemoryProvider, tenant: str | None = None, viewer: str | None = "maya", *, counting: bool = False
) -> Memory:
    """Return a memory with a fixed clock, so that scores are comparable."""
    return Memory(
        provider,
        organization=tenant,
        viewer=viewer,
        concepts=[CITY, PETS],
        embedder=HashEmbedder(16),
        clock=FakeClock(LATER),
        access_statistics=counting,
    )


async def fill(provider: AgentMemoryProvider) -> None:
    """Save every kind of content for two tenants."""
    for tenant in TENANTS:
        async with opened(provider, tenant, counting=True) as memory:
            await memory.save(CITY.fact(["Rome"], timestamp=NOON), subject=MAYA)
            (city,) = await memory.save(CITY.fact(["Oslo"], timestamp=NOON + dt.timedelta(days=1)), subject=MAYA)
            pets = await memory.save(PETS.fact(["cat", "dog", "newt"], timestamp=NOON), scope="/product/α/β")
            await memory.save(CITY.fact(["Bergen"], timestamp=NOON), subject=MAYA, private=True)
            await memory.update(city.id, value="Zürich 東京", importance=0.9)
            await memory.retract(pets[0].id, reason="sold")
            await memory.forget(pets[1].id)
            words = [
                Message(role="user", content="The green door is open."),
                Message(role="tool", content="The door was painted red."),
            ]
            await memory.remember(words)
            await memory.remember(Message(role="tool", content="Doubtful words of a tool."))
            details = FactDetails(metadata={"tier": "gold"}, categories=["home"], source="chat")
            await memory.save(PETS.fact(["axolotl"], timestamp=NOON), details=details)
            await memory.recall("green door")


async def answers(provider: AgentMemoryProvider, *, accesses: bool = True) -> list[object]:
    """Return the answers of memories of all tenants and viewers, with the counts of recalls or without them."""
    found: list[object] = []
    for tenant in TENANTS:
        for viewer in (None, "maya", "somebody"):
            async with opened(provider, tenant, viewer) as memory:
                found += await _seen(memory, accesses=accesses)
        assert isinstance(provider, KeepsLog)
        found.append([dump_entry(entry) for entry in await provider.changes(tenant)])
    return found


async def _seen(memory: Memory, *, accesses: bool = True) -> list[object]:
    records = await memory.list_records()
    moments = sorted({record.recorded_at for record in records})
    page = await memory.list_records(limit=2)
    trail = await memory.admin.audit(limit=3)
    return [
        records,
        [await memory.history(record.id) for record in records],
        [await memory.view(known_at=moment).list_records() for moment in moments],
        await memory.view(as_of=NOON + dt.timedelta(hours=1)).list_records(),
        list(await memory.recall("green door", history=True)),
        list(await memory.recall("who lives in 東京")),
        await memory.load(CITY, subject=MAYA),
        await memory.inbox.quarantine.list(),
        await memory.inbox.quarantine.list(rejected=True),
        (page.next_page, trail.next_page, trail.entries),
        await memory.list_records(limit=2, page=page.next_page) if page.next_page else None,
        await memory.admin.accesses(*(record.id for record in records)) if records and accesses else None,
        await memory.admin.info(),
    ]


async def refused(target: AgentMemoryProvider, tenant: str | None = None) -> bool:
    """Return whether a store cannot be opened as a memory, because it is incomplete."""
    try:
        async with Memory(target, organization=tenant, embedder=HashEmbedder(16)):
            return False
    except StoreUnavailableError as error:
        return "factmem move" in str(error)


@pytest.mark.parametrize(
    ("kind_of_source", "kind_of_target"),
    [
        pytest.param(source, target, marks=[] if (there - here) % len(KINDS) == 1 else pytest.mark.big)
        for here, source in enumerate(KINDS)
        for there, target in enumerate(KINDS)
    ],
)
async def test_a_copy_answers_everything_as_the_source_does(
    kind_of_source: str, kind_of_target: str, tmp_path: Path
) -> None:
    source, target = KINDS[kind_of_source](tmp_path / "source"), KINDS[kind_of_target](tmp_path / "target")
    async with source, target:
        await fill(source)
        before = await answers(source)
        receipt = await move(source, target)
        assert [tenant.tenant for tenant in receipt.tenants] == list(TENANTS)
        assert all(tenant.arrived == tenant.entries > 10 for tenant in receipt.tenants)
        assert all(tenant.vectors > 5 for tenant in receipt.tenants)
        assert receipt.behind == 0
        assert await answers(target) == before
        assert await answers(source) == before
        again = await move(source, target)
        assert again.arrived == 0
        assert [tenant.digest for tenant in again.tenants] == [tenant.digest for tenant in receipt.tenants]
        await _go_on(target)


async def _go_on(provider: AgentMemoryProvider) -> None:
    """Change the copied records in every way: the copy is a store like any other."""
    async with opened(provider) as memory:
        (waiting, *_) = await memory.inbox.quarantine.list()
        (accepted,) = await memory.inbox.quarantine.accept(waiting.id)
        assert accepted.record in await memory.list_records()
        record = (await memory.recall("axolotl", semantic=False))[0].record
        change = await memory.update(record.id, value="salamander")
        assert change.record.id == record.id
        await memory.undo([change])
        assert (await memory.get(record.id)).value == "axolotl"
        assert (await memory.forget(record.id)).erased
        city = next(item for item in await memory.list_records() if item.value == "Zürich 東京")
        assert [revision.value for revision in await memory.history(city.id)][:2] == ["Rome", "Oslo"]
        await memory.rollback((await memory.history(city.id))[0].revision)
        assert (await memory.get(city.id)).value == "Rome"


class Broken(InMemoryProvider):
    """A store that fails to return a part.

    Attributes:
        parts: Number of parts until then; never if negative.
        size: Number of entries of a part.
    """

    def __init__(self, parts: int = -1, *, size: int = 3) -> None:
        super().__init__()
        self.parts = parts
        self.size = size

    async def log_part(self, tenant: str | None, since: int = 0, *, limit: int = 1_000) -> LogPart:
        self.parts -= 1
        if not self.parts:
            raise StoreUnavailableError("the line is cut")
        return await super().log_part(tenant, since, limit=self.size)


@pytest.mark.parametrize("kind", TARGETS)
async def test_a_broken_move_goes_on_and_cannot_be_taken_for_a_whole_one(kind: str, tmp_path: Path) -> None:
    source = Broken()
    async with source:
        await fill(source)
        before = await answers(source)
        async with KINDS[kind](tmp_path / "target") as target:
            broken, receipt = 0, None
            while receipt is None:
                source.parts = 4 + 2 * broken
                try:
                    receipt = await move(source, target)
                except StoreUnavailableError:
                    broken += 1
                    assert [await refused(target, tenant) for tenant in TENANTS] == [True, True]
            assert broken > 5
            source.parts = -1
            assert receipt.behind == 0
            assert await answers(target) == before
            assert [await refused(target, tenant) for tenant in TENANTS] == [False, False]


class Busy(InMemoryProvider):
    """A store that is in use while it is moved.

    Attributes:
        work: Called before each part.
    """

    work: Callable[[], Awaitable[None]] | None = None

    async def log_part(self, tenant: str | None, since: int = 0, *, limit: int = 1_000) -> LogPart:
        if self.work is not None:
            await self.work()
        return await super().log_part(tenant, since, limit=7)


@pytest.mark.parametrize("kind", TARGETS)
async def test_what_is_written_and_forgotten_meanwhile_is_included_or_counted(kind: str, tmp_path: Path) -> None:
    """Erased facts are gone from the copy too; a repeated move copies the rest."""
    async with Busy() as source, KINDS[kind](tmp_path / "target") as target, opened(source) as writer:
        await fill(source)
        count = 0

        async def work() -> None:
            nonlocal count
            count += 1
            if count < 40:
                await writer.save(PETS.fact([f"pet {count}"], timestamp=NOON))
            if count in (8, 30):
                await writer.forget(concepts=["statement"])
                await writer.remember(f"Something else was said after {count} parts.")

        source.work = work
        receipt = await move(source, target)
        source.work = None
        left = await move(source, target)
        assert count > 20
        assert left.arrived == receipt.behind
        assert left.behind == 0
        assert await answers(target) == await answers(source)


@pytest.mark.parametrize("part", [2, 4, 6, 9])
async def test_a_source_that_is_embedded_again_meanwhile_is_moved_with_its_new_vectors(
    part: int, tmp_path: Path
) -> None:
    async with Busy() as source, KINDS["sqlite-vec"](tmp_path / "target") as target:
        await fill(source)
        calls = 0

        async def work() -> None:
            nonlocal calls
            calls += 1
            if calls == part:
                async with Memory(source, embedder=HashEmbedder(8)) as memory:
                    await memory.admin.reembed()

        source.work = work
        with pytest.raises(StoreUnavailableError, match="embedded again"):
            await move(source, target)
        source.work = None
        assert await refused(target)
        receipt = await move(source, target)
        assert await target.embedder() == await source.embedder()
        for tenant in receipt.tenants:
            here, there = [await store.vectors(tenant.tenant) for store in (source, target)]
            assert (list(there[0]), there[1].tolist()) == (list(here[0]), here[1].tolist())
            assert tenant.vectors == len(here[0])


class Rolled(InMemoryProvider):
    """Gives back its vectors with their numbers shifted."""

    def __init__(self, by: Iterator[int]) -> None:
        super().__init__()
        self.by = by

    async def log_part(self, tenant: str | None, since: int = 0, *, limit: int = 1_000) -> LogPart:
        part = await super().log_part(tenant, since, limit=limit)
        by = next(self.by)
        return attrs.evolve(part, vectors={seq: np.roll(row, by) for seq, row in part.vectors.items()})


async def test_vectors_that_never_settle_are_blamed_on_the_store_that_changes_them() -> None:
    async with InMemoryProvider() as source, Rolled(itertools.repeat(1)) as target:
        await fill(source)
        with pytest.raises(CorruptStoreError, match="target gives back other vectors than it was given"):
            await move(source, target)
    async with Rolled(itertools.count()) as source, InMemoryProvider() as target:
        await fill(source)
        with pytest.raises(StoreUnavailableError, match="vectors of the source change too fast"):
            await move(source, target)


async def test_of_two_moves_at_the_same_time_one_goes_on(tmp_path: Path) -> None:
    async with Broken(size=2) as source, KINDS["sqlite-vec"](tmp_path / "target") as target:
        await fill(source)
        outcomes: list[object] = []

        async def run() -> None:
            async with KINDS["sqlite-vec"](tmp_path / "target") as another:
                try:
                    outcomes.append(await move(source, another))
                except StateConflictError as error:
                    outcomes.append(error)

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(run)
        assert any(isinstance(outcome, MoveReceipt) for outcome in outcomes)
        await move(source, target)
        assert await answers(target, accesses=False) == await answers(source, accesses=False)


async def test_another_store_is_not_written_to(tmp_path: Path) -> None:
    """This covers a store with other content, and a finished copy that has changed since."""
    async with InMemoryProvider() as source, KINDS["sqlite-vec"](tmp_path / "target") as target:
        await fill(source)
        async with opened(target) as memory:
            await memory.save(CITY.fact(["Lima"], timestamp=NOON))
        before = await answers(target)
        with pytest.raises(InvalidDataError, match="holds something else"):
            await move(source, target)
        assert await answers(target) == before
    async with InMemoryProvider() as source, InMemoryProvider() as target:
        await fill(source)
        await move(source, target)
        for provider in (source, target):
            async with opened(provider) as memory:
                await memory.save(CITY.fact(["Lima"], timestamp=NOON))
        before = await answers(target)
        with pytest.raises(InvalidDataError, match="holds something else"):
            await move(source, target)
        assert await answers(target) == before


async def test_what_is_written_to_an_unfinished_copy_is_found(tmp_path: Path) -> None:
    async with Broken() as source, KINDS["sqlite-vec"](tmp_path / "target") as target:
        await fill(source)
        source.parts = 4
        with pytest.raises(StoreUnavailableError):
            await move(source, target)
        await target.save(CITY.fact(["Lima"], timestamp=NOON), MAYA, MemoryScope.CROSS_PRODUCT)
        source.parts = -1
        with pytest.raises(CorruptStoreError, match="stays unfinished"):
            await move(source, target)
        assert await refused(target)


@pytest.mark.parametrize("kind", TARGETS)
async def test_one_organization_is_moved_beside_others(kind: str, tmp_path: Path) -> None:
    async with InMemoryProvider() as source, KINDS[kind](tmp_path / "target") as target:
        await fill(source)
        async with opened(target, "others") as memory:
            await memory.save(CITY.fact(["Lima"], timestamp=NOON), subject=MAYA)
        with pytest.raises(InvalidDataError, match="organization others"):
            await move(source, target)
        with pytest.raises(InvalidDataError, match="nothing of organization nobody"):
            await move(source, target, organizations=["nobody"])
        receipt = await move(source, target, organizations=[TENANTS[1]])
        assert [tenant.tenant for tenant in receipt.tenants] == [TENANTS[1]]
        assert list(await target.tenants()) == sorted(["others", TENANTS[1] or ""])
        async with opened(target, "others") as memory:
            assert [record.value for record in await memory.list_records()] == ["Lima"]
        async with opened(target, TENANTS[1]) as here, opened(source, TENANTS[1]) as there:
            assert await _seen(here) == await _seen(there)


async def test_vectors_of_others_are_not_dropped_for_those_of_a_move(tmp_path: Path) -> None:
    async with InMemoryProvider() as source, KINDS["sqlite-vec"](tmp_path / "target") as target:
        await fill(source)
        async with Memory(target, organization="others", embedder=HashEmbedder(8)) as memory:
            await memory.save(CITY.fact(["Lima"], timestamp=NOON))
        with pytest.raises(EmbedderMismatchError, match="reembed"):
            await move(source, target, organizations=[None])
        assert len((await target.vectors("others"))[0]) == 1


@pytest.mark.parametrize("bare", [Shelf(), NoMemory()], ids=["four verbs", "none"])
@pytest.mark.parametrize("role", ["source", "target"])
async def test_a_provider_that_cannot_copy_logs_says_what_would_be_lost(bare: AgentMemoryProvider, role: str) -> None:
    stores = [bare, InMemoryProvider()]
    with pytest.raises(CapabilityError, match=rf"the {role} of a move.*history, states, owners.*would be lost"):
        await move(*(stores if role == "source" else reversed(stores)))


async def test_nothing_is_moved_from_nowhere(tmp_path: Path) -> None:
    async with KINDS["sqlite-vec"](tmp_path / "source") as source, KINDS["sqlite-vec"](tmp_path / "target") as target:
        with pytest.raises(InvalidDataError, match="check its address"):
            await move(source, target)
        with pytest.raises(InvalidDataError, match="same store"):
            await move(source, source)
    assert not await anyio.Path(tmp_path / "target").exists()


async def test_an_unfinished_copy_is_no_source() -> None:
    async with Broken(4) as source, InMemoryProvider() as target:
        source.parts = -1
        await fill(source)
        source.parts = 4
        with pytest.raises(StoreUnavailableError):
            await move(source, target)
        with pytest.raises(StoreUnavailableError, match="not finished"):
            await move(target, InMemoryProvider())


@pytest.mark.parametrize("kind", ["sqlite-vec", "file", "encrypted"])
async def test_a_damaged_source_is_not_copied(kind: str, tmp_path: Path) -> None:
    """The copy stays unfinished, or is not started."""
    async with KINDS[kind](tmp_path / "source") as source:
        await fill(source)
    await to_thread.run_sync(_damage, tmp_path / "source")
    async with KINDS[kind](tmp_path / "source") as source, KINDS["sqlite-vec"](tmp_path / "target") as target:
        with pytest.raises(CorruptStoreError):
            await move(source, target)
        assert not list(await target.tenants()) or await refused(target) or await refused(target, TENANTS[1])


def _damage(path: Path) -> None:
    if path.is_file():
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE assertions SET doc = replace(doc, 'axolotl', 'axolotx')")
        return
    for file in [*path.rglob("*.jsonl"), *path.rglob("*.sealed")]:
        data = bytearray(file.read_bytes())
        data[len(data) // 3] ^= 1
        file.write_bytes(data)
