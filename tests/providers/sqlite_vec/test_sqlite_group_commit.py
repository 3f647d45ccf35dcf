"""Concurrent saves share a transaction; each succeeds, fails or is cancelled alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import apsw
import attrs
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem.abc.capabilities import Append, Receipt, StateRequest
from factmem.errors import ConceptConflictError, InvalidDataError, RecordNotFoundError, StoreUnavailableError
from factmem.facts import Concept
from factmem.records import AssertionState, Recorded
from factmem.testing import FakeClock
from factmem.testing.conformance.samples import CITY, LANGUAGES, PLANNER, USER, multiple, said, single


@attrs.define
class Commits:
    """A counter of the commits of every new connection, which can make them fail."""

    count: int = 0
    failure: apsw.Error | None = None

    def watch(self, connection: apsw.Connection) -> None:
        connection.set_commit_hook(self._committing)

    def _committing(self) -> bool:
        if self.failure is not None:
            raise self.failure
        self.count += 1
        return False


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Commits:
    seen = Commits()
    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, seen.watch])
    return seen


class GatedClock(FakeClock):
    """A clock that blocks the writer inside its transaction until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.gate = threading.Event()

    def __call__(self) -> object:  # type: ignore[override]
        self.reached.set()
        assert self.gate.wait(60)
        return super().__call__()


@pytest.fixture
async def provider(tmp_path: Path, commits: Commits) -> AsyncIterator[SqliteVecMemoryProvider]:
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as opened:
        await opened.save(single(CITY, "Bern"), USER, PLANNER)
        commits.count = 0
        yield opened


async def _values(provider: SqliteVecMemoryProvider) -> list[object]:
    return [entry.assertion.data for entry in await provider.changes(None) if isinstance(entry, Recorded)]


async def test_saves_at_the_same_time_share_a_commit(provider: SqliteVecMemoryProvider, commits: Commits) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(64):
            tasks.start_soon(provider.save, multiple(LANGUAGES, f"language {number}"), USER, PLANNER)
    assert len(await _values(provider)) == 65
    assert commits.count <= 3


async def test_a_failing_save_fails_alone(provider: SqliteVecMemoryProvider, commits: Commits) -> None:
    """A conflict in the middle of a transaction undoes only that transaction's earlier part."""
    wrong = said(Concept.single("city", "Where the person lives", int), 7)
    outcomes: dict[str, type[Exception] | None] = {}

    async def append(name: str, *statements: Append | StateRequest) -> None:
        outcomes[name] = None
        try:
            await provider.append(statements)
        except (ConceptConflictError, RecordNotFoundError, InvalidDataError) as error:
            outcomes[name] = type(error)

    nobody = StateRequest(assertion_id="0" * 32, tenant=None, state=AssertionState.RETRACTED)
    spoilt = StateRequest(assertion_id="0" * 32, tenant=None, state=AssertionState.RETRACTED, reason="\udc80")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(append, "first", Append(assertion=said(LANGUAGES, "Deutsch")))
        tasks.start_soon(append, "conflict", Append(assertion=said(LANGUAGES, "Latein")), Append(assertion=wrong))
        tasks.start_soon(append, "nobody", Append(assertion=said(LANGUAGES, "Griechisch")), nobody)
        tasks.start_soon(append, "spoilt", Append(assertion=said(LANGUAGES, "Hebräisch")), spoilt)
        tasks.start_soon(append, "last", Append(assertion=said(LANGUAGES, "Rumantsch")))
    assert outcomes == {
        "first": None,
        "conflict": ConceptConflictError,
        "nobody": RecordNotFoundError,
        "spoilt": InvalidDataError,
        "last": None,
    }
    assert sorted(map(str, await _values(provider))) == ["Bern", "Deutsch", "Rumantsch"]
    assert [entry.seq for entry in await provider.changes(None)] == [1, 2, 3]
    assert commits.count <= 2


async def test_a_commit_that_fails_fails_for_all_of_it(provider: SqliteVecMemoryProvider, commits: Commits) -> None:
    """Each task gets an error of its own, and the store continues afterwards."""
    errors: list[StoreUnavailableError] = []

    async def save(number: int) -> None:
        with pytest.raises(StoreUnavailableError, match="disk space") as caught:
            await provider.save(multiple(LANGUAGES, f"language {number}"), USER, PLANNER)
        errors.append(caught.value)

    commits.failure = apsw.FullError("no space")
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(save, number)
    commits.failure = None
    assert len({id(error) for error in errors}) == 5
    assert await _values(provider) == ["Bern"]
    await provider.save(multiple(LANGUAGES, "Deutsch"), USER, PLANNER)
    assert await provider.version(None) == 2


async def test_a_save_cancelled_while_it_waits_is_withdrawn(tmp_path: Path) -> None:
    clock = GatedClock()
    async with SqliteVecMemoryProvider(tmp_path / "facts.db", clock=clock) as provider:  # type: ignore[arg-type]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(provider.save, multiple(LANGUAGES, "Deutsch"), USER, PLANNER)
            await anyio.to_thread.run_sync(clock.reached.wait)
            with anyio.move_on_after(0.02) as scope:
                await provider.save(multiple(LANGUAGES, "Latein"), USER, PLANNER)
            assert scope.cancelled_caught
            clock.gate.set()
        assert await _values(provider) == ["Deutsch"]


async def test_a_save_cancelled_in_its_transaction_is_whole(tmp_path: Path) -> None:
    """Other saves of the transaction are unaffected."""
    clock = GatedClock()
    async with SqliteVecMemoryProvider(tmp_path / "facts.db", clock=clock) as provider:  # type: ignore[arg-type]
        async with anyio.create_task_group() as others, anyio.create_task_group() as tasks:
            tasks.start_soon(provider.save, multiple(LANGUAGES, "Deutsch", "Latein"), USER, PLANNER)
            await anyio.to_thread.run_sync(clock.reached.wait)
            others.start_soon(provider.save, multiple(LANGUAGES, "Rumantsch"), USER, PLANNER)
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
            clock.gate.set()
        assert await _values(provider) == ["Deutsch", "Latein", "Rumantsch"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_asyncio_cancels_leaves_the_others_unharmed(tmp_path: Path) -> None:
    """`Task.cancel()` frees the turn while the thread still writes; the next save waits for that thread."""
    clock = GatedClock()
    async with SqliteVecMemoryProvider(tmp_path / "facts.db", clock=clock) as provider:  # type: ignore[arg-type]
        first = asyncio.create_task(provider.save(multiple(LANGUAGES, "Deutsch"), USER, PLANNER))
        await anyio.to_thread.run_sync(clock.reached.wait)
        second = asyncio.create_task(provider.save(multiple(LANGUAGES, "Rumantsch"), USER, PLANNER))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0.02)
        clock.gate.set()
        await second
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await _values(provider) == ["Deutsch", "Rumantsch"]


async def test_the_same_assertion_twice_at_once_is_kept_once(provider: SqliteVecMemoryProvider) -> None:
    receipts: list[Receipt] = []

    async def append() -> None:
        receipts.extend(await provider.append([Append(assertion=said(LANGUAGES, "Deutsch"))]))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(append)
    assert sorted(receipt.new for receipt in receipts) == [False] * 4 + [True]
    assert all(receipt.recorded == receipts[0].recorded for receipt in receipts)
    assert await _values(provider) == ["Bern", "Deutsch"]


async def test_a_batch_finds_what_the_store_holds_and_what_it_says_itself(provider: SqliteVecMemoryProvider) -> None:
    (first,) = await provider.append([Append(assertion=said(LANGUAGES, "Deutsch"))])
    later = attrs.evolve(said(LANGUAGES, "Deutsch"), timestamp=said(LANGUAGES, "Deutsch").timestamp.replace(year=2027))
    state = StateRequest.of(first.recorded, AssertionState.RETRACTED)
    again, new, same, twin, last = await provider.append(
        [
            Append(assertion=said(LANGUAGES, "Deutsch")),
            Append(assertion=said(LANGUAGES, "Italiano")),
            Append(assertion=later),
            state,  # what was collected so far is written before it
            Append(assertion=said(LANGUAGES, "Italiano")),
            Append(assertion=later),
        ]
    )
    assert [receipt.new for receipt in (again, new, same, twin, last)] == [False, True, True, False, False]
    assert again.recorded == first.recorded
    assert same.recorded.record_id == first.recorded.record_id
    assert twin.recorded == new.recorded
    assert last.recorded == same.recorded
