"""Scopes as walls, tenants, listings, export and import, and the blocking twin."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from factmem import (
    BlockingMemory,
    Concept,
    FactDetails,
    InMemoryProvider,
    Memory,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SingleFact,
    errors,
)
from factmem.details import Origin
from factmem.errors import (
    CodecError,
    ConceptConflictError,
    InvalidDataError,
    ProviderClosedError,
    ReadOnlyError,
    StoreUnavailableError,
)
from factmem.facts import STATEMENT
from factmem.memory.exports import ImportReceipt
from factmem.records import AssertionState, LogEntry, Place, Recorded, assertions_of
from factmem.testing import FakeClock, HashEmbedder
from tests.narrowing import not_none
from tests.tables import each_case

NOTE = Concept.multiple("note", "A note")
SEATS = Concept.single("seats", "Number of seats", int)
USER = MemorySubject("user", priority_level=1)
HEADER = '{"kind": "factmem-export", "v": 1}\n'


async def noted(memory: Memory, *scopes: str) -> None:
    for scope in scopes:
        await memory.save(MultipleFacts(NOTE, (f"note in {scope}",)), scope=scope)


async def found(memory: Memory, scope: str, *, exact: bool = False) -> set[str]:
    return {str(match.record.scope) for match in await memory.recall("note", limit=99, scope=scope, exact=exact)}


async def test_a_scope_never_reaches_its_siblings_and_takes_its_subtree_along(memory: Memory) -> None:
    await noted(memory, "/product/a", "/product/ab", "/product/a/x", "/agent/a", "/a", "/cross-product")
    assert await found(memory, "/product/a") == {"/product/a", "/product/a/x"}
    assert await found(memory, "/product/a", exact=True) == {"/product/a"}
    assert await found(memory, "/cross-product") == {"/a", "/cross-product"}
    assert (await memory.admin.info("/product/a")).records == 2
    assert [str(scope) for scope in (await memory.admin.info("/product/a")).scopes] == ["/product/a", "/product/a/x"]
    assert len(await memory.list_records(scope="/product/a")) == 2


async def test_info_sums_up(memory: Memory) -> None:
    await noted(memory, "/product/a", "/product/b/y")
    info = await memory.admin.info()
    assert (info.records, info.keywords, info.subjects) == (2, {"note": 2}, {"everything": 2})
    assert [str(child) for child in info.children] == ["/product/a", "/product/b"]
    assert not_none(info.oldest) <= not_none(info.newest)


async def test_export_and_import_carry_history_and_privacy(memory: Memory, clock: FakeClock, tmp_path: Path) -> None:
    await memory.save(SingleFact(SEATS, 5, timestamp=clock()), subject=USER, scope="/product/a")
    (seats,) = await memory.save(SingleFact(SEATS, 7, timestamp=clock()), subject=USER, scope="/product/a")
    await memory.update(seats.id, importance=0.9)
    (mine,) = await memory.remember("My safe is behind the painting.", private=True)
    await memory.update(mine.id, value="My safe is under the stairs.")
    (gone,) = await memory.remember("Nothing to see here.")
    await memory.retract(gone.id)
    file = tmp_path / "export.jsonl"
    assert await memory.admin.export(file) == 6
    async with Memory(
        InMemoryProvider(clock=clock), organization="new", viewer="alice", embedder=HashEmbedder(), clock=clock
    ) as other:
        assert (await other.admin.import_(file, trust=True)).imported == 6
        assert (await other.admin.import_(file)).imported == 0
        history = await other.history(SEATS, subject=USER, scope="/product/a")
        assert [record.value for record in history] == [5, 7, 7]
        records = {record.concept.keyword: record for record in await other.list_records()}
        assert set(records) == {"seats", "statement"}
        assert records["statement"].value == "My safe is under the stairs."
        assert records["seats"].importance == 0.9
        assert [record.concept.keyword for record in await other.view(viewer="bob").list_records()] == ["seats"]
    assert await memory.view(viewer="bob").admin.export(file, replace=True) == 4
    assert "safe" not in file.read_text()


@each_case("text", "error")
async def test_a_malformed_import_is_a_typed_error_that_names_the_line(
    memory: Memory, tmp_path: Path, text: str, error: str
) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(text.replace("HEADER", HEADER))
    with pytest.raises(getattr(errors, error)):
        await memory.admin.import_(file)


async def test_an_import_that_the_store_refuses_raises_the_stores_error(tmp_path: Path) -> None:
    address, file = f"sqlite-vec:{tmp_path}/facts.db", tmp_path / "export.jsonl"
    async with Memory(address, embedder=HashEmbedder()) as memory:
        await noted(memory, "/product/a")
        await memory.admin.export(file)
    async with Memory(f"{address}?read_only=true", embedder=HashEmbedder()) as memory:
        with pytest.raises(ReadOnlyError, match="opened for reading only"):
            await memory.admin.import_(file, trust=True)


def entry(
    text: str, key: str, origin: Origin, clock: FakeClock, *, state: AssertionState = AssertionState.ACTIVE, **more: Any
) -> Recorded:
    """Return a statement as another store has it."""
    fact = MultipleFacts(STATEMENT, (text,), timestamp=clock())
    place = Place(USER, MemoryScope.product("a"))
    (said,) = assertions_of(fact, place, FactDetails(origin=origin, owner=more.pop("owner", None)))
    return Recorded(
        assertion=attrs.evolve(said, state=state, **more), id=key, record_id=key, seq=1, recorded_at=clock()
    )


async def test_entries_of_another_store_are_believed_by_their_origin(memory: Memory, clock: FakeClock) -> None:
    """The program vouches for the words of the user; others wait, and a second import changes nothing."""
    entries = [
        entry("The roof leaks.", "1", Origin.USER, clock),
        entry("The roof leaks badly.", "2", Origin.USER, clock, revises="1"),
        entry("The roof is fine.", "3", Origin.UNKNOWN, clock),
        entry("The roof is new.", "4", Origin.USER, clock, state=AssertionState.RETRACTED),
    ]
    assert await memory.admin.import_(iter(entries)) == ImportReceipt(imported=4, quarantined=1)
    (roof,) = await memory.list_records()
    assert roof.value == "The roof leaks badly."
    assert [earlier.value for earlier in await memory.history(roof.id)] == ["The roof leaks.", "The roof leaks badly."]
    assert [record.value for record in await memory.inbox.quarantine.list()] == ["The roof is fine."]
    assert await memory.admin.import_(entries) == ImportReceipt(imported=0, quarantined=1)
    assert await memory.admin.import_(entries, trust=True) == ImportReceipt(imported=0, quarantined=0, accepted=1)
    assert {record.value for record in await memory.list_records()} == {"The roof leaks badly.", "The roof is fine."}


async def test_an_import_counts_what_is_private_to_others_apart(tmp_path: Path) -> None:
    """Only their owner learns whether they were new."""
    file = tmp_path / "export.jsonl"
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        ada = memory.for_user("ada")
        await ada.remember("I live in Porto.", private=True)
        assert await ada.admin.export(file) == 1
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as other:
        for _ in range(2):
            assert await other.admin.import_(file, trust=True) == ImportReceipt(imported=0, quarantined=0, private=1)
        assert len(await other.for_user("ada").list_records()) == 1


async def test_entries_of_somebody_else_are_refused(memory: Memory, clock: FakeClock) -> None:
    with pytest.raises(InvalidDataError, match="only the viewer's own"):
        await memory.admin.import_([entry("My safe is behind the painting.", "1", Origin.USER, clock, owner="bob")])
    with pytest.raises(InvalidDataError, match="not a dict"):
        await memory.admin.import_([{"text": "no entry"}])  # type: ignore[list-item]


async def test_an_import_of_new_entries_reads_nothing_back(clock: FakeClock) -> None:
    """However much waits in the store already: the log is looked at for entries that were there before, alone."""
    counting = CountingProvider(clock=clock)
    async with Memory(counting, embedder=HashEmbedder(), clock=clock) as memory:
        await memory.admin.import_(
            [entry(f"Rumour {number}.", str(number), Origin.UNKNOWN, clock) for number in range(1200)]
        )
        assert counting.reads == 0
        again = entry("Rumour again.", "a", Origin.UNKNOWN, clock)
        await memory.admin.import_([again])
        assert counting.reads == 0
        assert (await memory.admin.import_([again])).imported == 0
        assert counting.reads > 0


class CountingProvider(InMemoryProvider):
    """Counts how often its log is read."""

    reads = 0

    async def changes(self, tenant: str | None, since: int = 0) -> Sequence[LogEntry]:
        self.reads += 1
        return await super().changes(tenant, since)


@pytest.mark.parametrize("error", [ValueError, OSError, InvalidDataError, UnicodeError])
async def test_an_error_of_the_callers_progress_function_propagates(
    memory: Memory, tmp_path: Path, error: type[Exception]
) -> None:
    await noted(memory, "/product/a")
    await memory.admin.export(tmp_path / "export.jsonl")
    raised = error("mine")

    def progress(lines: int) -> None:
        raise raised

    with pytest.raises(error) as caught:
        await memory.admin.import_(tmp_path / "export.jsonl", progress=progress)
    assert caught.value is raised


async def test_a_file_that_cannot_be_used_is_named(memory: Memory, tmp_path: Path) -> None:
    await noted(memory, "/product/a")
    with pytest.raises(StoreUnavailableError, match=r"missing\.jsonl cannot be used: No such file"):
        await memory.admin.import_(tmp_path / "missing.jsonl")
    with pytest.raises(StoreUnavailableError, match=r"below.out\.jsonl cannot be used: No such file"):
        await memory.admin.export(tmp_path / "below" / "out.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(HEADER.encode() + b"\xe9\n")
    with pytest.raises(CodecError, match=r"latin\.jsonl is not UTF-8"):
        await memory.admin.import_(tmp_path / "latin.jsonl")
    with (tmp_path / "shut.jsonl").open("w", encoding="utf-8") as shut:
        pass
    for call in (memory.admin.import_, memory.admin.export):
        with pytest.raises(StoreUnavailableError, match=r"shut\.jsonl cannot be used: it is closed"):
            await call(shut)


def test_the_blocking_twin_has_every_method_with_the_same_arguments() -> None:
    lifecycle = {"aclose"}
    for name, method in inspect.getmembers(Memory, inspect.isfunction):
        if name.startswith("_") or name in lifecycle:
            continue
        twin = getattr(BlockingMemory, name)
        assert list(inspect.signature(twin).parameters) == list(inspect.signature(method).parameters), name


def test_the_blocking_twin_works_without_an_event_loop(tmp_path: Path) -> None:
    address = f"sqlite-vec:{tmp_path}/facts.db"
    with BlockingMemory(Memory(address, viewer="alice", embedder=HashEmbedder())) as memory:
        memory.save(SingleFact(SEATS, 5), subject=USER)
        memory.view(viewer="bob").remember("Bob was here.", private=True)
        assert (memory.recall("number of seats")[0].record.value, memory.admin.info().records) == (5, 1)
    with pytest.raises(ProviderClosedError):
        memory.admin.info()
    with BlockingMemory(Memory(address, embedder=HashEmbedder())) as memory:
        fact = memory.load(SEATS, subject=USER)
    assert fact is not None
    assert fact.value == 5


async def test_a_place_with_another_type_hides_no_other_place(memory: Memory) -> None:
    """One agent that keeps a keyword as something else breaks no read of the product."""
    in_words = Concept.single("seats", "Number of seats")
    profile = attrs.make_class("Venue", {"seats": attrs.field(type=int), "note": attrs.field(type=list[str])})
    await memory.save(SingleFact(in_words, "a dozen"), subject=USER, scope="/agent/clerk")
    for read in (memory.load(SEATS), memory.profile(profile)):
        with pytest.raises(ConceptConflictError, match="seats"):
            await read
    await memory.save(SingleFact(SEATS, 12), subject=USER, scope="/product/alpha")
    await memory.save(MultipleFacts(NOTE, ("by the river",)), subject=USER)
    assert not_none(await memory.load(SEATS)).value == 12
    assert not_none(await memory.load(in_words)).value == "a dozen"
    assert attrs.astuple(await memory.profile(profile)) == (12, ["by the river"])
    with pytest.raises(ConceptConflictError, match="seats"):
        await memory.load(SEATS, scope="/agent/clerk")
