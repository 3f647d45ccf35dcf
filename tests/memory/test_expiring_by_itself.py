"""Expired records are erased without a call."""

from __future__ import annotations

import datetime as dt
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem import AgentMemoryProvider, FactDetails, InMemoryProvider, Memory, Policies, SingleFact, TtlPolicy
from factmem.abc import OperationCompleted
from factmem.abc.capabilities import EraseReceipt
from factmem.abc.observer import Operation
from factmem.errors import StoreUnavailableError
from factmem.memory import facade
from factmem.testing import FakeClock, HashEmbedder
from tests.memory.telling import CITY, SEATS, USER, log_of, until

DAY = dt.timedelta(days=1)


def over(provider: AgentMemoryProvider, clock: FakeClock, **options: Any) -> Memory:
    return Memory(provider, embedder=HashEmbedder(), clock=clock, **options)


async def kept(provider: AgentMemoryProvider, organization: str | None = None) -> list[str]:
    return sorted(entry.assertion.keyword for entry in (await log_of(provider, organization))[0])


async def planted(memory: Memory) -> None:
    """Save facts that last a day and facts that last, public and private to alice, and an update that lasts a day."""
    for whose in (memory, memory.view(viewer="alice")):
        private = whose is not memory
        await whose.save(SingleFact(CITY, "Oslo"), ttl=DAY, private=private)
        await whose.save(SingleFact(SEATS, 12), private=private)


async def test_it_goes_when_the_memory_is_opened(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    """Expired records of every owner are erased; closing waits for work that has begun."""
    memory = over(provider, clock)
    await planted(memory)
    async with memory:
        assert await kept(provider) == ["city", "city", "seats", "seats"]
    clock.advance(2 * DAY)
    async with over(provider, clock) as memory:
        assert await memory.load(CITY) is None
    assert await kept(provider) == ["seats", "seats"]


@pytest.mark.parametrize("years", [4, 600])
async def test_a_clock_that_is_years_ahead_of_the_store_erases_nothing_by_itself(
    clock: FakeClock, caplog: pytest.LogCaptureFixture, years: int
) -> None:
    """As where the store of a simulation is opened without its clock. What is expired by that clock is not shown."""
    provider, far = InMemoryProvider(clock=clock), years > 5
    await planted(over(provider, clock))
    clock.advance(years * 365 * DAY)
    async with over(provider, clock) as memory:
        assert await memory.load(CITY) is None
    assert await kept(provider) == (["city", "city", "seats", "seats"] if far else ["seats", "seats"])
    assert ("clock is 600 years ahead" in caplog.text) == far
    clock.advance(-years * 365 * DAY)
    async with over(provider, clock) as memory:
        assert (await memory.load(CITY) is not None) == far


@pytest.mark.parametrize("called", [True, False])
async def test_after_years_without_a_write_expired_facts_go_by_a_call_or_after_the_next_save(
    clock: FakeClock, called: bool
) -> None:
    provider = InMemoryProvider(clock=clock)
    await planted(over(provider, clock))
    clock.advance(6 * 365 * DAY)
    async with over(provider, clock) as memory:
        if called:
            assert (await memory.admin.expire(all_users=True)).expired == 2
        else:
            await memory.save(SingleFact(SEATS, 13))
    async with over(provider, clock):
        pass
    assert "city" not in await kept(provider)


async def test_it_goes_while_the_memory_is_open(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facade, "_BETWEEN_EXPIRIES", dt.timedelta(milliseconds=1))
    events: list[Any] = []
    async with over(InMemoryProvider(clock=clock), clock, observers=[events.append]) as memory:
        await planted(memory)
        clock.advance(2 * DAY)
        await until(lambda: any(isinstance(event, OperationCompleted) for event in expiries(events)))
    (completed,) = [event for event in expiries(events) if isinstance(event, OperationCompleted)]
    assert completed.records_out == 2


def expiries(events: list[Any]) -> list[Any]:
    return [event for event in events if event.operation is Operation.EXPIRE]


async def test_no_event_is_sent_if_nothing_has_expired(clock: FakeClock) -> None:
    events: list[Any] = []
    async with over(InMemoryProvider(clock=clock), clock, observers=[events.append]) as memory:
        await planted(memory)
    assert expiries(events) == []


async def test_a_memory_that_is_read_only_erases_nothing(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    await planted(over(provider, clock))
    clock.advance(2 * DAY)
    async with over(provider, clock, read_only=True) as memory:
        assert await memory.load(CITY) is None
    async with over(provider, clock).scope("/product/alpha") as view:
        assert await view.list_records() == []
    assert await kept(provider) == ["city", "city", "seats", "seats"]


async def test_superseded_revisions_go_where_the_policy_says_so(clock: FakeClock) -> None:
    provider = InMemoryProvider(clock=clock)
    memory = over(provider, clock, policies=Policies(ttl=TtlPolicy(revisions=7 * DAY)))
    (record,) = await memory.save(SingleFact(CITY, "Oslo"), subject=USER)
    await memory.update(record.id, value="Rome")
    clock.advance(8 * DAY)
    async with over(provider, clock):
        pass
    assert len(await kept(provider)) == 2
    async with over(provider, clock, policies=Policies(ttl=TtlPolicy(revisions=7 * DAY))) as memory:
        pass
    assert [revision.value for revision in await memory.history(CITY)] == ["Rome"]


async def test_a_store_that_fails_is_logged_and_asked_again(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(facade, "_BETWEEN_EXPIRIES", dt.timedelta(milliseconds=1))
    provider = InMemoryProvider(clock=clock)
    memory = over(provider, clock)
    await memory.save(SingleFact(CITY, "Oslo"), details=FactDetails(expires_at=clock() + DAY))
    clock.advance(2 * DAY)
    erase, failures = provider.erase, [StoreUnavailableError("it is away"), StoreUnavailableError("still")]

    done = anyio.Event()

    async def failing(*args: Any, **kwargs: Any) -> EraseReceipt:
        if failures:
            raise failures.pop()
        receipt = await erase(*args, **kwargs)
        done.set()
        return receipt

    monkeypatch.setattr(provider, "erase", failing)
    with caplog.at_level(logging.INFO, "factmem"):
        async with memory:
            await done.wait()
        assert await kept(provider) == []
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "StoreUnavailableError" in caplog.messages[0]
    assert "Oslo" not in caplog.text


async def test_a_first_failure_is_not_reported_above_the_error_of_a_caller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "folder").mkdir()
    with caplog.at_level(logging.INFO, "factmem"):
        async with Memory(tmp_path / "folder", embedder=HashEmbedder()) as memory:
            for _ in range(20):
                with pytest.raises(StoreUnavailableError, match="is a folder"):
                    await memory.remember("The mill is old.")
                await anyio.sleep(0.002)
    assert caplog.messages == []


@pytest.mark.parametrize("wait", [0, 0.001, 0.004])
async def test_closing_is_not_reported_as_a_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, wait: float
) -> None:
    monkeypatch.setattr(facade, "_BETWEEN_EXPIRIES", dt.timedelta(milliseconds=1))
    with caplog.at_level(logging.INFO, "factmem"):
        async with Memory(tmp_path / "facts.db", embedder=HashEmbedder()) as memory:
            await anyio.sleep(wait)
            await memory.aclose()
            await anyio.sleep(0.02)
    assert caplog.messages == []


async def test_a_superseded_revision_goes_at_its_own_time(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    """The policy does not matter, and a current revision stays; private ones have such a time, too."""
    memory = over(provider, clock)
    for whose in (memory, memory.view(viewer="alice")):
        details = FactDetails(revision_expires_at=clock() + DAY)
        (record,) = await whose.save(SingleFact(CITY, "Oslo"), details=details, private=whose is not memory)
        await whose.update(record.id, value="Rome", revision_ttl=3 * DAY)
    clock.advance(2 * DAY)
    async with over(provider, clock):
        pass
    assert [revision.value for revision in await memory.view(viewer="alice").history(CITY)] == ["Rome", "Rome"]
    clock.advance(2 * DAY)
    async with over(provider, clock):
        pass
    assert len(await kept(provider)) == 2, "the present revision stays"
