"""Specs of `FeedsChanges`, and of the durability of a log."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from collections import Counter
from pathlib import Path

import anyio
import anyio.lowlevel
import attrs
import pytest

from factmem.abc import AgentMemoryProvider, Erases, FeedsChanges, KeepsHistory, StateRequest
from factmem.errors import RecordNotFoundError
from factmem.records import AssertionState, LogEntry, Place, Recorded, StateChange, Tombstone
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import CITY, LANGUAGES, PLANNER, SEATS, USER, keep, multiple, only, said

__all__ = ["FeedSpecs"]

_ACME = PLANNER.within("acme")


def _check_whole(log: list[LogEntry]) -> None:
    """Check that a log holds transactions of four assertions whole, without the erased one of each."""
    assert [entry.seq for entry in log] == sorted({entry.seq for entry in log})
    texts = [str(entry.assertion.data) for entry in log if isinstance(entry, Recorded)]
    counts = Counter(text.split(".")[0] for text in texts)
    erased = sum(isinstance(entry, Tombstone) for entry in log)
    assert set(counts.values()) <= {3, 4}
    assert sum(count == 3 for count in counts.values()) == erased


class FeedSpecs(ProviderCase):
    """Specs of the change feed."""

    async def test_the_version_grows_with_every_write(
        self, provider: AgentMemoryProvider, history: KeepsHistory, feed: FeedsChanges
    ) -> None:
        versions = [await feed.version(None)]
        recorded = await only(history, said(CITY, "Oslo"))
        versions.append(await feed.version(None))
        await history.append([StateRequest.of(recorded, state=AssertionState.RETRACTED)])
        versions.append(await feed.version(None))
        await provider.save(multiple(LANGUAGES, "Thai", "Ewe"), USER, PLANNER)
        versions.append(await feed.version(None))
        assert versions == sorted(set(versions))
        assert versions[1] == recorded.seq

    async def test_sequence_numbers_are_the_tenants_own(self, history: KeepsHistory, feed: FeedsChanges) -> None:
        """A tenant's numbers tell nothing of what others write."""
        for number in range(3):
            await only(history, said(SEATS, number, number))
        here = await feed.version(None)
        assert await feed.version("acme") == 0
        there = [await only(history, said(SEATS, number, number, scope=_ACME)) for number in range(2)]
        together = await keep(history, said(CITY, "Oslo"), said(CITY, "Rome", scope=_ACME))
        assert [entry.seq for entry in there] == [1, 2]
        assert [receipt.recorded.seq for receipt in together] == [here + 1, 3]
        assert (await feed.version(None), await feed.version("acme")) == (here + 1, 3)

    async def test_a_change_of_state_is_of_its_tenant(self, history: KeepsHistory, feed: FeedsChanges) -> None:
        """Another tenant's assertion is as unknown as one that never was."""
        here = await only(history, said(CITY, "Oslo"))
        await only(history, said(CITY, "Rome", scope=_ACME))
        foreign = attrs.evolve(StateRequest.of(here, AssertionState.RETRACTED), tenant="acme")
        with pytest.raises(RecordNotFoundError):
            await history.append([foreign])
        assert list(await feed.changes(None)) == [here]

    async def test_the_version_stands_still_when_nothing_is_written(
        self, history: KeepsHistory, feed: FeedsChanges
    ) -> None:
        await only(history, said(CITY, "Oslo"))
        before = await feed.version(None)
        await only(history, said(CITY, "Oslo"))
        assert await feed.version(None) == before

    async def test_changes_are_complete_and_in_order(self, history: KeepsHistory, feed: FeedsChanges) -> None:
        recorded = [
            await only(history, said(SEATS, number, -number, scope=PLANNER / f"{number % 2}")) for number in range(6)
        ]
        await history.append([StateRequest.of(recorded[2], state=AssertionState.RETRACTED)])
        changes = list(await feed.changes(None))
        assert changes[:-1] == recorded
        assert isinstance(changes[-1], StateChange)
        numbers = [entry.seq for entry in changes]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == await feed.version(None)

    async def test_changes_go_on_after_any_number(self, history: KeepsHistory, feed: FeedsChanges) -> None:
        for number in range(5):
            await only(history, said(SEATS, number, number))
        everything = list(await feed.changes(None))
        for read, entry in enumerate(everything, start=1):
            assert list(await feed.changes(None, entry.seq)) == everything[read:]
        assert list(await feed.changes(None, 10**9)) == []

    async def test_changes_are_of_one_tenant(self, history: KeepsHistory, feed: FeedsChanges) -> None:
        """Changes of state belong to one tenant as well."""
        here = await only(history, said(CITY, "Oslo"))
        there = await only(history, said(CITY, "Rome", scope=_ACME))
        await history.append([StateRequest.of(there, state=AssertionState.RETRACTED)])
        assert list(await feed.changes(None)) == [here]
        acme = list(await feed.changes("acme"))
        assert acme[0] == there
        assert [type(entry) for entry in acme] == [Recorded, StateChange]
        assert list(await feed.changes("acm")) == []
        assert list(await feed.changes("None")) == []

    async def test_changes_are_one_state_of_the_store_while_others_write_and_erase(
        self, provider: AgentMemoryProvider, history: KeepsHistory, feed: FeedsChanges
    ) -> None:
        """Whole transactions, nothing of what was erased, and no gap for one who goes on from the last number."""
        batches = [[said(LANGUAGES, f"{batch}.{number}", batch) for number in range(4)] for batch in range(12)]
        seen: dict[int, LogEntry] = {}
        done = anyio.Event()

        async def write() -> None:
            for batch in batches:
                receipts = await keep(history, *batch)
                if isinstance(provider, Erases):
                    await provider.erase([], tenant=None, assertion_ids=[receipts[0].recorded.id])
                await only(history, said(CITY, "Rome", batches.index(batch), scope=_ACME))
            done.set()

        async def follow() -> None:
            while not done.is_set():
                _check_whole(list(await feed.changes(None)))
                seen.update({entry.seq: entry for entry in await feed.changes(None, max(seen, default=0))})
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            tasks.start_soon(follow)
        seen.update({entry.seq: entry for entry in await feed.changes(None, max(seen, default=0))})
        gone = {entry.assertion_id for entry in seen.values() if isinstance(entry, Tombstone)}
        left = [entry for entry in seen.values() if not (isinstance(entry, Recorded) and entry.id in gone)]
        assert left == list(await feed.changes(None))

    async def test_a_transaction_is_one_version(self, history: KeepsHistory, feed: FeedsChanges) -> None:
        receipts = await keep(history, *(said(LANGUAGES, f"{number}") for number in range(4)))
        assert list(await feed.changes(None)) == [receipt.recorded for receipt in receipts]
        assert await feed.version(None) == receipts[-1].recorded.seq

    async def test_the_log_is_the_same_when_it_is_opened_again(
        self, provider: AgentMemoryProvider, history: KeepsHistory, feed: FeedsChanges, tmp_path: Path
    ) -> None:
        recorded = await only(history, said(CITY, "Oslo", owner="alice", importance=0.25))
        await history.append([StateRequest.of(recorded, state=AssertionState.RETRACTED, reason="why")])
        await only(history, said(SEATS, 4, scope=_ACME))
        logs = [list(await feed.changes(tenant)) for tenant in (None, "acme")]
        entries, version = list(await history.entries(Place(USER, PLANNER))), await feed.version(None)
        async with await self.reopened(provider, tmp_path) as again:
            assert isinstance(again, FeedsChanges)
            assert isinstance(again, KeepsHistory)
            assert [list(await again.changes(tenant)) for tenant in (None, "acme")] == logs
            assert list(await again.entries(Place(USER, PLANNER))) == entries
            assert await again.version(None) == version
            assert (await only(again, said(SEATS, 5, 1))).seq > version
