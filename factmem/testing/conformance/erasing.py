"""Specs of `Erases`: erased assertions are gone from every read path."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest

from factmem.abc import (
    AgentMemoryProvider,
    Append,
    EmbedderIdentity,
    Erases,
    FeedsChanges,
    KeepsFiles,
    KeepsHistory,
    KeepsVectors,
    StateRequest,
)
from factmem.errors import RecordNotFoundError
from factmem.facts import Concept
from factmem.records import AssertionState, Place, Tombstone
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import (
    CITY,
    LANGUAGES,
    PLANNER,
    SEATS,
    USER,
    keep,
    loaded_value,
    loaded_values,
    only,
    said,
)

__all__ = ["ErasureSpecs"]

_HERE = Place(USER, PLANNER)


class ErasureSpecs(ProviderCase):
    """Specs of the erasure of records and of single revisions."""

    async def test_an_erased_record_is_on_no_read_path(
        self, provider: AgentMemoryProvider, history: KeepsHistory, eraser: Erases
    ) -> None:
        """All revisions and changes of state of the record are erased; the values of others stay."""
        first = await only(history, said(CITY, "Rome", 1))
        await only(history, said(CITY, "Oslo", 2))
        await history.append([StateRequest.of(first, state=AssertionState.RETRACTED)])
        await only(history, said(SEATS, 4))
        receipt = await eraser.erase([first.record_id], tenant=None)
        assert receipt.erased == 2
        assert not (receipt.pending and isinstance(provider, KeepsFiles))  # a server writes its log over at its leisure
        assert await provider.load(CITY, USER, PLANNER) is None
        assert [fact.concept.keyword for fact in await provider.load_all(USER, PLANNER)] == ["seats"]
        assert list(await provider.load_by_description("city", USER, PLANNER)) == []
        log = await history.entries(_HERE)
        assert not any(word in repr(log) for word in ("Rome", "Oslo", first.record_id))

    async def test_an_update_of_what_was_erased_meanwhile_writes_nothing(
        self, provider: AgentMemoryProvider, history: KeepsHistory, feed: FeedsChanges, eraser: Erases
    ) -> None:
        """A whole transaction is refused, even if the rest of the record's place still exists."""
        thai, _ = await keep(history, said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        updated = said(LANGUAGES, "Lao", 1, revises=thai.recorded.record_id)
        follows = thai.recorded.seq
        await history.append([Append(assertion=updated, follows=follows)])
        await eraser.erase([thai.recorded.record_id], tenant=None)
        version = await feed.version(None)
        again = said(LANGUAGES, "Sami", 2, revises=thai.recorded.record_id)
        with pytest.raises(RecordNotFoundError, match="erased meanwhile"):
            await history.append([Append(assertion=said(SEATS, 4)), Append(assertion=again, follows=follows)])
        assert (await feed.version(None), await loaded_values(provider, LANGUAGES)) == (version, ["Ewe"])
        await history.append([Append(assertion=again)])
        assert sorted(await loaded_values(provider, LANGUAGES)) == ["Ewe", "Sami"]

    async def test_one_value_of_a_multiple_can_be_erased(
        self, provider: AgentMemoryProvider, history: KeepsHistory, eraser: Erases
    ) -> None:
        thai, _ = await keep(history, said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        await eraser.erase([thai.recorded.record_id], tenant=None)
        assert await loaded_values(provider, LANGUAGES) == ["Ewe"]

    async def test_what_is_left_is_a_tombstone_of_id_and_number(
        self, history: KeepsHistory, feed: FeedsChanges, eraser: Erases
    ) -> None:
        erased = [await only(history, said(CITY, city, minute)) for minute, city in enumerate(["Rome", "Oslo"])]
        kept = await only(history, said(SEATS, 4))
        before = await feed.version(None)
        await eraser.erase([erased[0].record_id], tenant=None)
        everything = list(await feed.changes(None))
        stones = [entry for entry in everything if isinstance(entry, Tombstone)]
        assert [entry for entry in everything if not isinstance(entry, Tombstone)] == [kept]
        assert {stone.assertion_id for stone in stones} == {entry.id for entry in erased}
        assert all(set(attrs.asdict(stone)) == {"assertion_id", "seq"} for stone in stones)
        assert list(await feed.changes(None, before)) == stones
        assert await feed.version(None) == stones[-1].seq > before

    async def test_ids_of_another_tenant_and_of_nothing_are_passed_over(
        self, provider: AgentMemoryProvider, history: KeepsHistory, feed: FeedsChanges, eraser: Erases
    ) -> None:
        mine = await only(history, said(CITY, "Oslo"))
        before = await feed.version(None)
        receipt = await eraser.erase([mine.record_id, "no such record"], tenant="acme")
        assert receipt.erased == 0
        assert (await eraser.erase([], tenant=None)).erased == 0
        assert await loaded_value(provider, CITY) == "Oslo"
        assert await feed.version(None) == before
        assert list(await feed.changes("acme")) == []

    async def test_another_tenant_sees_no_tombstone(
        self, history: KeepsHistory, feed: FeedsChanges, eraser: Erases
    ) -> None:
        theirs = await only(history, said(CITY, "Oslo", scope=PLANNER.within("acme")))
        await eraser.erase([theirs.record_id], tenant="acme")
        assert list(await feed.changes(None)) == []
        assert [type(entry) for entry in await feed.changes("acme")] == [Tombstone]

    async def test_erasing_twice_finds_nothing_the_second_time(self, history: KeepsHistory, eraser: Erases) -> None:
        recorded = await only(history, said(CITY, "Oslo"))
        assert (await eraser.erase([recorded.record_id] * 2, tenant=None)).erased == 1
        assert (await eraser.erase([recorded.record_id], tenant=None)).erased == 0

    async def test_the_erased_can_be_said_again(
        self, provider: AgentMemoryProvider, history: KeepsHistory, eraser: Erases
    ) -> None:
        """The fact is a new one: the store remembers neither the old one nor its type."""
        recorded = await only(history, said(CITY, "Oslo"))
        await eraser.erase([recorded.record_id], tenant=None)
        (again,) = await keep(history, said(CITY, "Oslo"))
        assert again.new
        assert again.recorded.id != recorded.id
        assert await loaded_value(provider, CITY) == "Oslo"
        await eraser.erase([again.recorded.record_id], tenant=None)
        number = Concept.single("city", "As a number", int)
        await keep(history, said(number, 7))
        assert await loaded_value(provider, number) == 7

    async def test_the_state_of_the_erased_cannot_be_changed(self, history: KeepsHistory, eraser: Erases) -> None:
        recorded = await only(history, said(CITY, "Oslo"))
        await eraser.erase([recorded.record_id], tenant=None)
        with pytest.raises(RecordNotFoundError):
            await history.append([StateRequest.of(recorded, state=AssertionState.ACTIVE)])

    async def test_one_assertion_can_be_erased_and_its_record_keeps_its_id_and_the_others(
        self, provider: AgentMemoryProvider, history: KeepsHistory, feed: FeedsChanges, eraser: Erases
    ) -> None:
        old, new = await only(history, said(CITY, "Rome", 1)), await only(history, said(CITY, "Oslo", 2))
        await history.append([StateRequest.of(old, state=AssertionState.RETRACTED)])
        assert (await eraser.erase([], tenant=None, assertion_ids=[old.id, old.id])).erased == 1
        assert list(await history.entries(_HERE)) == [new]
        stone = (await feed.changes(None))[-1]
        assert isinstance(stone, Tombstone)
        assert stone.assertion_id == old.id
        assert await loaded_value(provider, CITY) == "Oslo"
        again = await only(history, said(CITY, "Bonn", 3))
        assert again.record_id == new.record_id

    async def test_erasing_the_newest_assertion_brings_back_the_value_before(
        self, provider: AgentMemoryProvider, history: KeepsHistory, eraser: Erases
    ) -> None:
        await only(history, said(CITY, "Rome", 1))
        newest = await only(history, said(CITY, "Oslo", 2))
        await eraser.erase([], tenant=None, assertion_ids=[newest.id])
        assert await loaded_value(provider, CITY) == "Rome"
        (again,) = await keep(history, said(CITY, "Oslo", 2))
        assert again.new

    async def test_a_record_that_loses_its_last_assertion_loses_its_id(
        self, provider: AgentMemoryProvider, history: KeepsHistory, eraser: Erases
    ) -> None:
        recorded = [await only(history, said(CITY, city, minute)) for minute, city in enumerate(["Rome", "Oslo"])]
        await eraser.erase([], tenant=None, assertion_ids=[entry.id for entry in recorded])
        assert await provider.load(CITY, USER, PLANNER) is None
        again = await only(history, said(CITY, "Rome"))
        assert again.record_id != recorded[0].record_id

    async def test_records_and_single_assertions_can_be_erased_together(
        self, provider: AgentMemoryProvider, history: KeepsHistory, eraser: Erases
    ) -> None:
        """An id that is named twice is erased once, and an id of one kind does not name the other."""
        first, second = [await only(history, said(CITY, city, minute)) for minute, city in enumerate(["Rome", "Oslo"])]
        (thai, _) = await keep(history, said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        assert (await eraser.erase([first.id], tenant=None, assertion_ids=[first.record_id])).erased == 0
        receipt = await eraser.erase(
            [thai.recorded.record_id], tenant=None, assertion_ids=[thai.recorded.id, second.id]
        )
        assert receipt.erased == 2
        assert await loaded_value(provider, CITY) == "Rome"
        assert await loaded_values(provider, LANGUAGES) == ["Ewe"]

    async def test_assertions_of_another_tenant_are_passed_over(
        self, provider: AgentMemoryProvider, history: KeepsHistory, feed: FeedsChanges, eraser: Erases
    ) -> None:
        mine = await only(history, said(CITY, "Oslo"))
        before = await feed.version(None)
        assert (await eraser.erase([], tenant="acme", assertion_ids=[mine.id, "no such assertion"])).erased == 0
        assert await loaded_value(provider, CITY) == "Oslo"
        assert await feed.version(None) == before

    async def test_the_vector_of_a_single_assertion_is_erased_and_the_others_stay(
        self, history: KeepsHistory, vectors: KeepsVectors, eraser: Erases
    ) -> None:
        await vectors.use_embedder(EmbedderIdentity(name="one", dimension=2))
        rows = [np.array(row, dtype=np.float32) for row in ([1, 0], [0, 1])]
        statements = [Append(assertion=said(CITY, f"{row}", minute), vector=row) for minute, row in enumerate(rows)]
        old, new = [receipt.recorded for receipt in await history.append(statements)]
        await eraser.erase([], tenant=None, assertion_ids=[old.id])
        assert list((await vectors.vectors(None))[0]) == [new.seq]

    async def test_vectors_are_erased_too(self, history: KeepsHistory, vectors: KeepsVectors, eraser: Erases) -> None:
        await vectors.use_embedder(EmbedderIdentity(name="one", dimension=2))
        row = np.array([1, 0], dtype=np.float32)
        (receipt,) = await history.append([Append(assertion=said(CITY, "Oslo"), vector=row)])
        await eraser.erase([receipt.recorded.record_id], tenant=None)
        assert list((await vectors.vectors(None))[0]) == []
        await vectors.put_vectors(None, {receipt.recorded.seq: row})
        assert list((await vectors.vectors(None))[0]) == []

    @pytest.mark.parametrize("singly", [False, True], ids=["the record", "its one revision"])
    async def test_the_words_are_in_no_file_of_the_store(
        self, provider: AgentMemoryProvider, history: KeepsHistory, eraser: Erases, tmp_path: Path, singly: bool
    ) -> None:
        secret = "xylophone-quartz-0451"
        assertion = attrs.evolve(said(CITY, secret, metadata={"also": secret}), job={"words": secret})
        recorded = await only(history, assertion)
        await history.append([StateRequest.of(recorded, state=AssertionState.RETRACTED, reason=secret)])
        await only(history, said(SEATS, 4))
        records, assertions = ([], [recorded.id]) if singly else ([recorded.record_id], [])
        assert (await eraser.erase(records, tenant=None, assertion_ids=assertions)).erased == 1
        assert not _files_with(tmp_path, secret)
        async with await self.reopened(provider, tmp_path) as again:
            assert await again.load(CITY, USER, PLANNER) is None
            assert await loaded_value(again, SEATS) == 4
        assert not _files_with(tmp_path, secret)


def _files_with(directory: Path, word: str) -> list[Path]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return [path for path in files if word.encode() in path.read_bytes()]
