"""Specs of `KeepsAccesses`: counts beside the facts add up, and are erased with them."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from pathlib import Path

from factmem.abc import Access, AgentMemoryProvider, Erases, FeedsChanges, KeepsAccesses, KeepsHistory
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import LANGUAGES, PLANNER, SEATS, at, only, said

__all__ = ["AccessSpecs"]


class AccessSpecs(ProviderCase):
    """Specs of access counts."""

    async def test_of_what_was_never_recalled_nothing_is_known(
        self, history: KeepsHistory, counter: KeepsAccesses
    ) -> None:
        record = (await only(history, said(SEATS, 4))).record_id
        assert await counter.accesses(None, [record]) == {}
        await counter.add_accesses(None, {})
        assert await counter.accesses(None, []) == {}

    async def test_what_is_added_sums_up_and_the_latest_time_stands(
        self, history: KeepsHistory, counter: KeepsAccesses
    ) -> None:
        """Counts add up in any order."""
        seats, tea = [(await only(history, item)).record_id for item in (said(SEATS, 4), said(LANGUAGES, "Thai"))]
        await counter.add_accesses(None, {seats: Access(count=2, last=at(9)), tea: Access(count=1, last=at(1))})
        await counter.add_accesses(None, {seats: Access(count=3, last=at(5))})
        expected = {seats: Access(count=5, last=at(9)), tea: Access(count=1, last=at(1))}
        assert await counter.accesses(None, [seats, tea]) == expected
        assert await counter.accesses(None, [tea]) == {tea: expected[tea]}

    async def test_it_belongs_to_the_tenant_of_the_record(self, history: KeepsHistory, counter: KeepsAccesses) -> None:
        """Another tenant neither adds to a count nor reads it; ids that name no record are ignored."""
        record = (await only(history, said(SEATS, 4, scope=PLANNER.within("acme")))).record_id
        await counter.add_accesses("acme", {record: Access(count=1, last=at()), "nobody": Access(count=5, last=at())})
        await counter.add_accesses(None, {record: Access(count=9, last=at(9))})
        assert await counter.accesses("acme", [record, "nobody"]) == {record: Access(count=1, last=at())}
        assert await counter.accesses(None, [record, "nobody"]) == {}
        assert await counter.accesses("other", [record]) == {}

    async def test_it_is_no_entry_of_the_log(
        self, history: KeepsHistory, feed: FeedsChanges, counter: KeepsAccesses
    ) -> None:
        record = (await only(history, said(SEATS, 4))).record_id
        version, log = await feed.version(None), await feed.changes(None)
        await counter.add_accesses(None, {record: Access(count=1, last=at())})
        assert (await feed.version(None), await feed.changes(None)) == (version, log)

    async def test_it_goes_with_the_record(self, history: KeepsHistory, eraser: Erases, counter: KeepsAccesses) -> None:
        """An erased count does not come back when an earlier one is written later."""
        gone, left = [(await only(history, said(LANGUAGES, name))).record_id for name in ("Thai", "Ewe")]
        counts = {gone: Access(count=1, last=at()), left: Access(count=2, last=at())}
        await counter.add_accesses(None, counts)
        await eraser.erase([gone], tenant=None)
        await counter.add_accesses(None, counts)
        assert await counter.accesses(None, [gone, left]) == {left: Access(count=4, last=at())}

    async def test_it_is_there_when_the_store_is_opened_again(
        self, provider: AgentMemoryProvider, history: KeepsHistory, counter: KeepsAccesses, tmp_path: Path
    ) -> None:
        record = (await only(history, said(SEATS, 4))).record_id
        await counter.add_accesses(None, {record: Access(count=3, last=at())})
        async with await self.reopened(provider, tmp_path) as again:
            assert isinstance(again, KeepsAccesses)
            assert await again.accesses(None, [record]) == {record: Access(count=3, last=at())}
