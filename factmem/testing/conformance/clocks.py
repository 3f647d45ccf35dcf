"""Specs of the times that a provider gives: they never fall below the newest of the store."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from factmem.abc import AgentMemoryProvider, FeedsChanges, KeepsHistory
from factmem.facts import ClockTime
from factmem.records import Recorded
from factmem.testing.clocks import FakeClock
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import CITY, PLANNER, USER

__all__ = ["ClockSpecs"]

_STEPS = tuple(dt.timedelta(minutes=minutes) for minutes in (0, -60, 30, -5, 90))


class ClockSpecs(ProviderCase):
    """Specs of a clock that steps back between saves."""

    async def test_recorded_times_grow_with_the_sequence_although_the_clock_steps_back(self, tmp_path: Path) -> None:
        clock = FakeClock()
        provider = await self._opened(tmp_path, clock)
        async with provider:
            for number, step in enumerate(_STEPS):
                clock.advance(step)
                await provider.save(CITY.fact([f"city {number}"], timestamp=clock()), USER, PLANNER)
            if not isinstance(provider, KeepsHistory) or not isinstance(provider, FeedsChanges):
                pytest.skip(f"{type(provider).__name__} tells no recorded times")
            entries = [entry for entry in await provider.changes(None) if isinstance(entry, Recorded)]
        times = [entry.recorded_at for entry in sorted(entries, key=lambda entry: entry.seq)]
        assert len(times) == len(_STEPS)
        assert times == sorted(times)

    async def test_what_is_said_last_by_the_clock_is_current_although_it_steps_back(self, tmp_path: Path) -> None:
        clock = FakeClock()
        provider = await self._opened(tmp_path, clock)
        async with provider:
            for number, step in enumerate(_STEPS):
                clock.advance(step)
                await provider.save(CITY.fact([f"city {number}"], timestamp=ClockTime.of(clock())), USER, PLANNER)
                found = await provider.load(CITY, USER, PLANNER)
                assert found is not None
                assert found.value == f"city {number}"

    async def _opened(self, directory: Path, clock: FakeClock) -> AgentMemoryProvider:
        provider = await self.open_provider_with_clock(directory, clock)
        if provider is None:
            pytest.skip(f"{type(self).__name__} does not write open_provider_with_clock")
        return provider
