"""Specs of `FeedsChanges`, and of the durability of a log."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from pathlib import Path

from factmem.abc import AgentMemoryProvider, FeedsChanges, KeepsHistory, StateRequest
from factmem.records import AssertionState, Place, Recorded, StateChange
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import CITY, LANGUAGES, PLANNER, SEATS, USER, keep, multiple, only, said

__all__ = ["FeedSpecs"]

_ACME = PLANNER.within("acme")


class FeedSpecs(ProviderCase):
    """Specs of the change feed."""

    async def test_the_version_grows_with_every_write(
        self, provider: AgentMemoryProvider, history: KeepsHistory, feed: FeedsChanges
    ) -> None:
        versions = [await feed.version()]
        recorded = await only(history, said(CITY, "Oslo"))
        versions.append(await feed.version())
        await history.append([StateRequest(assertion_id=recorded.id, state=AssertionState.RETRACTED)])
        versions.append(await feed.version())
        await provider.save(multiple(LANGUAGES, "Thai", "Ewe"), USER, _ACME)
        versions.append(await feed.version())
        assert versions == sorted(set(versions))
        assert versions[1] == recorded.seq

    async def test_the_version_stands_still_when_nothing_is_written(
        self, history: KeepsHistory, feed: FeedsChanges
    ) -> None:
        await only(history, said(CITY, "Oslo"))
        before = await feed.version()
        await only(history, said(CITY, "Oslo"))
        assert await feed.version() == before

    async def test_changes_are_complete_and_in_order(self, history: KeepsHistory, feed: FeedsChanges) -> None:
        recorded = [
            await only(history, said(SEATS, number, -number, scope=PLANNER / f"{number % 2}")) for number in range(6)
        ]
        await history.append([StateRequest(assertion_id=recorded[2].id, state=AssertionState.RETRACTED)])
        changes = list(await feed.changes(None))
        assert changes[:-1] == recorded
        assert isinstance(changes[-1], StateChange)
        numbers = [entry.seq for entry in changes]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == await feed.version()

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
        await history.append([StateRequest(assertion_id=there.id, state=AssertionState.RETRACTED)])
        assert list(await feed.changes(None)) == [here]
        acme = list(await feed.changes("acme"))
        assert acme[0] == there
        assert [type(entry) for entry in acme] == [Recorded, StateChange]
        assert list(await feed.changes("acm")) == []
        assert list(await feed.changes("None")) == []

    async def test_a_transaction_is_one_version(self, history: KeepsHistory, feed: FeedsChanges) -> None:
        receipts = await keep(history, *(said(LANGUAGES, f"{number}") for number in range(4)))
        assert list(await feed.changes(None)) == [receipt.recorded for receipt in receipts]
        assert await feed.version() == receipts[-1].recorded.seq

    async def test_the_log_is_the_same_when_it_is_opened_again(
        self, provider: AgentMemoryProvider, history: KeepsHistory, feed: FeedsChanges, tmp_path: Path
    ) -> None:
        recorded = await only(history, said(CITY, "Oslo", owner="alice", importance=0.25))
        await history.append([StateRequest(assertion_id=recorded.id, state=AssertionState.RETRACTED, reason="why")])
        await only(history, said(SEATS, 4, scope=_ACME))
        logs = [list(await feed.changes(tenant)) for tenant in (None, "acme")]
        entries, version = list(await history.entries(Place(USER, PLANNER))), await feed.version()
        async with await self.reopened(provider, tmp_path) as again:
            assert isinstance(again, FeedsChanges)
            assert isinstance(again, KeepsHistory)
            assert [list(await again.changes(tenant)) for tenant in (None, "acme")] == logs
            assert list(await again.entries(Place(USER, PLANNER))) == entries
            assert await again.version() == version
            assert (await only(again, said(SEATS, 5, 1))).seq > version
