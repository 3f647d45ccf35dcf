"""Specs of `CopiesLogs`: a copy of a log is the log, and is known to be unfinished until it is finished."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
import pytest

from factmem.abc import (
    Access,
    AgentMemoryProvider,
    Append,
    ChecksItself,
    CopiesLogs,
    EmbedderIdentity,
    Erases,
    FeedsChanges,
    KeepsAccesses,
    KeepsHistory,
    KeepsVectors,
    LogPart,
    StateRequest,
)
from factmem.codec import dump_entry
from factmem.errors import InvalidDataError, StateConflictError
from factmem.facts import Concept
from factmem.findings import FindingKind
from factmem.providers import InMemoryProvider
from factmem.records import AssertionState, LogEntry, Place, Recorded, StateChange, Tombstone
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import (
    CITY,
    LANGUAGES,
    PLANNER,
    SEATS,
    USER,
    at,
    keep,
    loaded_value,
    loaded_values,
    only,
    said,
)

__all__ = ["CopySpecs"]

_ACME = PLANNER.within("acme")
_IDENTITY = EmbedderIdentity(name="one", dimension=2)


async def _fill(provider: AgentMemoryProvider) -> None:
    """Write a log with changes of state, tombstones, owners and vectors, for two tenants."""
    assert isinstance(provider, KeepsHistory)
    assert isinstance(provider, KeepsVectors)
    assert isinstance(provider, Erases)
    await provider.use_embedder(_IDENTITY)
    rows = np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32)
    assertions = [said(LANGUAGES, f"{number}", number) for number in range(3)]
    receipts = await provider.append(
        [Append(assertion=item, vector=row) for item, row in zip(assertions, rows, strict=True)]
    )
    first, second, third = (receipt.recorded for receipt in receipts)
    await provider.append([StateRequest.of(second, AssertionState.RETRACTED, reason="why", actor="me")])
    await provider.erase([], tenant=None, assertion_ids=[third.id])
    await only(provider, said(CITY, "Zürich 東京", owner="alice", subject=USER.individual("a")))
    await only(provider, said(LANGUAGES, "Ewe", 9, revises=first.record_id))
    of_another_type = said(Concept.single("languages", "How many", int), 3, 30)
    await only(provider, attrs.evolve(of_another_type, state=AssertionState.QUARANTINED))
    await only(provider, said(SEATS, 4, scope=_ACME))


async def _put(source: CopiesLogs, target: CopiesLogs, tenant: str | None, *, limit: int = 2) -> None:
    while (part := await source.log_part(tenant, await _complete(target, tenant), limit=limit)).until > part.since:
        await target.put_log_part(tenant, part)


async def _complete(target: CopiesLogs, tenant: str | None) -> int:
    copied = await target.copied(tenant)
    assert copied is not None
    return copied


def _written(log: Sequence[LogEntry]) -> list[bytes]:
    return [dump_entry(entry) for entry in log]


def _recorded(part: LogPart) -> list[Recorded]:
    return [entry for entry in part.entries if isinstance(entry, Recorded)]


async def _log(provider: CopiesLogs, tenant: str | None) -> LogPart:
    return await provider.log_part(tenant, limit=1_000_000)


class CopySpecs(ProviderCase):
    """Specs of copies of logs; the other store is one in memory."""

    async def test_tenants_are_those_with_a_log(self, provider: AgentMemoryProvider, copier: CopiesLogs) -> None:
        assert list(await copier.tenants()) == []
        await _fill(provider)
        assert list(await copier.tenants()) == [None, "acme"]

    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_parts_make_up_the_log(
        self, provider: AgentMemoryProvider, feed: FeedsChanges, copier: CopiesLogs, limit: int
    ) -> None:
        await _fill(provider)
        entries: list[LogEntry] = []
        since = 0
        while (part := await copier.log_part(None, since, limit=limit)).until > since:
            assert len(part.entries) <= limit
            assert part.since == since
            assert part.vectors.keys() <= {entry.seq for entry in part.entries}
            entries += part.entries
            since = part.until
        assert _written(entries) == _written(await feed.changes(None))
        assert since == await feed.version(None)

    async def test_parts_hold_the_vectors_as_they_are(
        self, provider: AgentMemoryProvider, vectors: KeepsVectors, copier: CopiesLogs
    ) -> None:
        await _fill(provider)
        seqs, rows = await vectors.vectors(None)
        found = (await _log(copier, None)).vectors
        assert len(seqs) == 2
        assert {seq: row.tobytes() for seq, row in found.items()} == {
            seq: row.tobytes() for seq, row in zip(seqs, rows, strict=True)
        }

    @pytest.mark.parametrize("limit", [1, 100])
    @pytest.mark.parametrize("arriving", [True, False], ids=["into the provider", "out of the provider"])
    async def test_a_copy_is_the_log_and_goes_on_as_it_would(
        self, provider: AgentMemoryProvider, copier: CopiesLogs, limit: int, arriving: bool
    ) -> None:
        """Ids, numbers, times, states and vectors are the same, and both stores take the same writes."""
        other = InMemoryProvider()
        source, target = (other, provider) if arriving else (provider, other)
        assert isinstance(source, CopiesLogs)
        assert isinstance(target, KeepsHistory)
        assert isinstance(target, KeepsVectors)
        assert isinstance(target, CopiesLogs)
        assert isinstance(target, FeedsChanges)
        await _fill(source)
        await target.use_embedder(_IDENTITY)
        await target.begin_copy([None, "acme"])
        for tenant in (None, "acme"):
            await _put(source, target, tenant, limit=limit)
            here, there = await _log(source, tenant), await _log(target, tenant)
            assert _written(there.entries) == _written(here.entries)
            assert there.until == here.until == await target.version(tenant)
            assert {seq: row.tobytes() for seq, row in there.vectors.items()} == {
                seq: row.tobytes() for seq, row in here.vectors.items()
            }
        await target.end_copy([None, "acme"])
        assert await loaded_values(target, LANGUAGES) == ["Ewe"]
        recorded = _recorded(await _log(target, None))
        first, second, *_ = recorded
        assert [receipt.new for receipt in await keep(target, first.assertion)] == [False]
        version = await target.version(None)
        await target.append([StateRequest.of(second, AssertionState.ACTIVE, expected=AssertionState.RETRACTED)])
        assert sorted(await loaded_values(target, LANGUAGES)) == ["1", "Ewe"]
        again = await only(target, said(LANGUAGES, "Lao", 10, revises=second.record_id))
        assert (again.seq, again.record_id) == (version + 2, second.record_id)
        assert again.recorded_at >= recorded[-1].recorded_at
        assert isinstance(target, Erases)
        assert (await target.erase([first.record_id], tenant=None)).erased == 2
        assert (await target.erase([], tenant=None, assertion_ids=[second.id])).erased == 1
        assert await loaded_values(target, LANGUAGES) == ["Lao"]

    async def test_a_tombstone_erases_what_an_earlier_part_brought(
        self, provider: AgentMemoryProvider, copier: CopiesLogs, vectors: KeepsVectors, history: KeepsHistory
    ) -> None:
        source = InMemoryProvider()
        await _fill(source)
        await vectors.use_embedder(_IDENTITY)
        await copier.begin_copy([None])
        await _put(source, copier, None)
        gone = [entry.id for entry in _recorded(await _log(source, None))][:2]
        await source.erase([], tenant=None, assertion_ids=gone)
        await only(source, said(LANGUAGES, "Lao", 20))
        await _put(source, copier, None)
        after = await _log(copier, None)
        assert _written(after.entries) == _written((await _log(source, None)).entries)
        assert after.vectors == {}
        here = await history.entries(Place(USER, PLANNER))
        assert not any(entry.id in gone for entry in here if isinstance(entry, Recorded))

    async def test_a_copy_is_unfinished_until_it_is_ended(
        self, provider: AgentMemoryProvider, copier: CopiesLogs, tmp_path: Path
    ) -> None:
        """Also when it is opened again, and for tenants of which nothing has arrived yet."""
        source = InMemoryProvider()
        await only(source, said(SEATS, 4, scope=_ACME))
        assert await copier.copied("acme") is None
        await copier.begin_copy(["acme", "later"])
        assert (await copier.copied("acme"), await copier.copied("later"), await copier.copied(None)) == (0, 0, None)
        await _put(source, copier, "acme")
        await copier.begin_copy(["acme"])
        assert await copier.copied("acme") == 1
        assert list(await copier.tenants()) == ["acme", "later"]
        if self.durable:
            provider = await self.reopened(provider, tmp_path)
            assert isinstance(provider, CopiesLogs)
            copier = provider
        assert (await copier.copied("acme"), await copier.copied("later")) == (1, 0)
        await copier.end_copy(["acme", "later"])
        await copier.end_copy(["acme"])
        assert (await copier.copied("acme"), await copier.copied("later")) == (None, None)
        assert list(await copier.tenants()) == ["acme"]
        await provider.aclose()

    async def test_an_unfinished_copy_is_found_by_a_check(self, copier: CopiesLogs, checker: ChecksItself) -> None:
        await copier.begin_copy(["acme"])
        assert [found.kind for found in await checker.check()] == [FindingKind.UNFINISHED]
        await copier.end_copy(["acme"])
        assert not any(found.kind is FindingKind.UNFINISHED for found in await checker.check())

    async def test_a_part_that_does_not_continue_the_copy_is_refused(
        self, provider: AgentMemoryProvider, history: KeepsHistory, copier: CopiesLogs
    ) -> None:
        """The copy was not begun, the part came before, an earlier one is missing, or somebody else wrote."""
        source = InMemoryProvider()
        recorded = [await only(source, said(SEATS, number, number)) for number in range(4)]
        one, two = await source.log_part(None, limit=1), await source.log_part(None, 1, limit=1)
        with pytest.raises(StateConflictError):
            await copier.put_log_part(None, one)
        await copier.begin_copy([None])
        with pytest.raises(StateConflictError):
            await copier.put_log_part(None, two)
        await copier.put_log_part(None, one)
        with pytest.raises(StateConflictError):
            await copier.put_log_part(None, one)
        assert list((await _log(copier, None)).entries) == recorded[:1]
        await provider.save(said_fact := CITY.fact(["Oslo"], timestamp=at()), USER, PLANNER)
        with pytest.raises(StateConflictError):
            await copier.put_log_part(None, two)
        assert await loaded_value(provider, CITY) == said_fact.values[0]

    @pytest.mark.parametrize("order", ["falling", "beyond", "of another tenant"])
    async def test_entries_that_do_not_fit_together_are_refused(
        self, history: KeepsHistory, copier: CopiesLogs, order: str
    ) -> None:
        source = InMemoryProvider()
        for number in range(3):
            await only(source, said(SEATS, number, number))
        part = await _log(source, None)
        odd = {
            "falling": attrs.evolve(part, entries=list(reversed(part.entries))),
            "beyond": attrs.evolve(part, until=2),
            "of another tenant": part,
        }
        tenant = "acme" if order == "of another tenant" else None
        await copier.begin_copy([None, "acme"])
        with pytest.raises(InvalidDataError):
            await copier.put_log_part(tenant, odd[order])
        assert list((await _log(copier, "acme")).entries) == []
        assert (await copier.copied(None), list((await _log(copier, None)).entries)) == (0, [])

    async def test_a_change_of_state_of_nothing_is_refused_with_its_part(self, copier: CopiesLogs) -> None:
        source = InMemoryProvider()
        await only(source, said(SEATS, 4))
        part = await _log(source, None)
        astray = StateChange(assertion_id="0" * 32, state=AssertionState.RETRACTED, seq=2, recorded_at=at())
        await copier.begin_copy([None])
        with pytest.raises(InvalidDataError):
            await copier.put_log_part(None, attrs.evolve(part, entries=[*part.entries, astray], until=2))
        assert (await copier.copied(None), list((await _log(copier, None)).entries)) == (0, [])

    async def test_a_log_of_tombstones_and_a_gap_at_its_end_are_copied(
        self, provider: AgentMemoryProvider, history: KeepsHistory, feed: FeedsChanges, copier: CopiesLogs
    ) -> None:
        entries = [Tombstone(assertion_id="ab" * 16, seq=3), Tombstone(assertion_id="of another store", seq=5)]
        await copier.begin_copy([None])
        await copier.put_log_part(None, LogPart(since=0, until=9, entries=entries))
        await copier.end_copy([None])
        assert list(await feed.changes(None)) == entries
        assert (await feed.version(None), list(await copier.tenants())) == (9, [None])
        assert (await only(history, said(SEATS, 4))).seq == 10

    async def test_accesses_are_counted_for_copied_records(
        self, provider: AgentMemoryProvider, copier: CopiesLogs, counter: KeepsAccesses
    ) -> None:
        source = InMemoryProvider()
        record_id = (await only(source, said(SEATS, 4))).record_id
        await copier.begin_copy([None])
        await _put(source, copier, None)
        await counter.add_accesses(None, {record_id: Access(count=2, last=at())})
        assert await counter.accesses(None, [record_id]) == {record_id: Access(count=2, last=at())}
