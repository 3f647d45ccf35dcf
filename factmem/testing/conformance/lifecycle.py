"""Specs: concurrency, cancellation, closing and reopening."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from factmem.abc import AgentMemoryProvider
from factmem.errors import FactMemError, ProviderClosedError
from factmem.facts import Concept, Fact, MultipleFacts, SingleFact
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import (
    CITY,
    LANGUAGES,
    PLANNER,
    SEATS,
    USER,
    loaded_values,
    multiple,
    single,
)
from factmem.testing.detecting import capabilities_of

__all__ = ["LifecycleSpecs"]


def _numbered(number: int) -> SingleFact[Any]:
    return single(Concept.single(f"concept {number:03}", "One of many", int), number, number)


class LifecycleSpecs(ProviderCase):
    """Specs of opening, closing, cancelling and concurrency."""

    async def test_fifty_concurrent_saves_are_all_there(self, provider: AgentMemoryProvider) -> None:
        facts = [_numbered(number) for number in range(50)]
        async with anyio.create_task_group() as tasks:
            for fact in facts:
                tasks.start_soon(provider.save, fact, USER, PLANNER)
        assert list(await provider.load_all(USER, PLANNER)) == facts

    async def test_concurrent_saves_of_one_concept_lose_no_value(self, provider: AgentMemoryProvider) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(30):
                tasks.start_soon(provider.save, multiple(LANGUAGES, f"{number}", minutes=number), USER, PLANNER)
        assert await loaded_values(provider, LANGUAGES) == [f"{number}" for number in range(30)]

    async def test_a_load_beside_saves_never_sees_a_part_of_a_fact(self, provider: AgentMemoryProvider) -> None:
        size, seen = 20, set[int]()
        done = anyio.Event()

        async def read() -> None:
            while not done.is_set():
                seen.add(len(await loaded_values(provider, LANGUAGES)))
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(read)
            for batch in range(10):
                values = [f"{batch} {number}" for number in range(size)]
                await provider.save(multiple(LANGUAGES, *values, minutes=batch), USER, PLANNER)
            done.set()
        assert {count % size for count in seen} <= {0}

    async def test_a_cancelled_save_leaves_all_or_nothing_and_can_be_repeated(
        self, provider: AgentMemoryProvider
    ) -> None:
        """The cancellation comes after any number of turns of the event loop, or of milliseconds."""
        pauses = [*range(6), *(n / 1000 for n in range(1, 12, 2))]
        for number, pause in enumerate(pauses):
            subject = USER.individual(f"person {number}")
            fact = multiple(LANGUAGES, *(f"{index}" for index in range(20)))
            await _save_and_cancel(provider, fact, subject.individual_name or "", pause)
            left = await provider.load(LANGUAGES, subject, PLANNER)
            assert left in (None, fact)
            for _ in range(2):
                await provider.save(fact, subject, PLANNER)
                assert await provider.load(LANGUAGES, subject, PLANNER) == fact

    async def test_a_cancelled_load_harms_nothing(self, provider: AgentMemoryProvider) -> None:
        await provider.save(single(CITY, "Oslo"), USER, PLANNER)
        for _ in range(5):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await provider.load_all(USER, PLANNER)
        assert list(await provider.load_all(USER, PLANNER)) == [single(CITY, "Oslo")]

    async def test_closing_twice_is_harmless(self, provider: AgentMemoryProvider) -> None:
        await provider.save(single(CITY, "Oslo"), USER, PLANNER)
        await provider.aclose()
        await provider.aclose()

    async def test_closing_unused_is_harmless(self, provider: AgentMemoryProvider) -> None:
        await provider.aclose()

    @pytest.mark.parametrize("used", [True, False], ids=["used before", "never used"])
    async def test_use_after_closing_is_a_typed_error(self, provider: AgentMemoryProvider, used: bool) -> None:
        if used:
            await provider.save(single(CITY, "Oslo"), USER, PLANNER)
        await provider.aclose()
        verbs: list[Callable[[], Awaitable[object]]] = [
            lambda: provider.save(single(CITY, "Rome"), USER, PLANNER),
            lambda: provider.load(CITY, USER, PLANNER),
            lambda: provider.load_all(USER, PLANNER),
            lambda: provider.load_by_description("city", USER, PLANNER),
        ]
        for verb in verbs:
            with pytest.raises(ProviderClosedError):
                await verb()

    async def test_leaving_the_context_closes(self, tmp_path: Path) -> None:
        async with await self.open_provider(tmp_path) as provider:
            await provider.save(single(CITY, "Oslo"), USER, PLANNER)
        with pytest.raises(ProviderClosedError):
            await provider.load(CITY, USER, PLANNER)

    async def test_saves_that_race_with_closing_are_kept_or_refused(
        self, provider: AgentMemoryProvider, tmp_path: Path
    ) -> None:
        """No foreign error leaks, and every acknowledged save is there after reopening."""
        kept: list[SingleFact[Any]] = []
        refused: list[FactMemError] = []

        async def save(fact: SingleFact[Any]) -> None:
            try:
                await provider.save(fact, USER, PLANNER)
            except FactMemError as error:
                refused.append(error)
            else:
                kept.append(fact)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(save, _numbered(number))
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(provider.aclose)
        assert len(kept) + len(refused) == 20
        assert {type(error) for error in refused} <= {ProviderClosedError}
        if self.durable:
            async with await self.open_provider(tmp_path) as again:
                there = list(await again.load_all(USER, PLANNER))
            assert [fact for fact in kept if fact not in there] == []

    async def test_everything_is_there_when_it_is_opened_again(
        self, provider: AgentMemoryProvider, tmp_path: Path
    ) -> None:
        facts: list[Fact[Any]] = [
            single(SEATS, 4, 1),
            multiple(LANGUAGES, "Thai", "Ewe", minutes=2),
            single(CITY, "Oslo", 3),
        ]
        for fact in [single(SEATS, 3), *facts]:
            await provider.save(fact, USER, PLANNER)
            await provider.save(fact, USER, PLANNER.within("acme") / "child")
        async with await self.reopened(provider, tmp_path) as again:
            assert list(await again.load_all(USER, PLANNER)) == facts
            assert list(await again.load_all(USER, PLANNER.within("acme") / "child")) == facts
            await again.save(single(SEATS, 3), USER, PLANNER)
            assert await again.load(SEATS, USER, PLANNER) == single(SEATS, 4, 1)

    async def test_two_openings_of_one_store_see_each_other_s_saves(
        self, provider: AgentMemoryProvider, tmp_path: Path
    ) -> None:
        if not self.durable:
            pytest.skip(f"{type(provider).__name__} is not durable")
        async with await self.open_provider(tmp_path) as other:
            for minute in range(4):
                writer, reader = (provider, other) if minute % 2 else (other, provider)
                await writer.save(multiple(LANGUAGES, f"{minute}", minutes=minute), USER, PLANNER)
                assert await loaded_values(reader, LANGUAGES) == [f"{n}" for n in range(minute + 1)]

    async def test_the_capabilities_are_those_it_promises(self, provider: AgentMemoryProvider) -> None:
        if self.capabilities is None:
            pytest.skip(f"{type(self).__name__} names no capabilities that must be there")
        assert capabilities_of(provider) == list(self.capabilities)


async def _save_and_cancel(
    provider: AgentMemoryProvider, fact: MultipleFacts[Any], individual: str, pause: float
) -> None:
    """Cancel a save after a number of turns of the event loop (an integer) or of seconds (a fraction)."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(provider.save, fact, USER.individual(individual), PLANNER)
        if isinstance(pause, int):
            for _ in range(pause):
                await anyio.lowlevel.checkpoint()
        else:
            await anyio.sleep(pause)
        tasks.cancel_scope.cancel()
