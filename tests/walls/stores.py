"""Planting of a world in a store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

import attrs
import pytest

from factmem.abc.capabilities import Append, Receipt, Statement, StateRequest
from factmem.memory.journal import Job, JobKind, job_json
from factmem.records import Assertion, AssertionState, Place, assertions_of
from factmem.testing import FakeClock
from tests.stores import STORES
from tests.walls.worlds import BEGAN, NOW, Fate, Plant, World

DURABLE: Final = ("sqlite-vec", "file", "encrypted", "encrypted-sqlite", "postgres")

IN_MIRROR: Final = [
    store if store in ("memory", "sqlite-vec") else pytest.param(store, marks=pytest.mark.big) for store in STORES
]
"""Stores for what the engine above them does: a memory reads the log of any of them, and outlines where there are."""

EARLY: Final = BEGAN + dt.timedelta(days=1)
"""Time at which the first assertions were recorded."""

LATE: Final = BEGAN + dt.timedelta(days=2)
"""Time at which their successors and changes of state were recorded."""


@attrs.frozen(kw_only=True)
class FilledStore:
    """A world planted in a store.

    Attributes:
        world: the planted facts.
        provider: the store.
        clock: its clock, which is fixed at `NOW`.
        records: the ids of the records, by token.
        entries: the ids of the assertions, by token.
        revisions: the sequence numbers of the assertions, by token.
    """

    world: World
    provider: Any
    clock: FakeClock
    records: Mapping[str, str]
    entries: Mapping[str, str]
    revisions: Mapping[str, int]

    def numbered(self, tenant: str | None) -> dict[int, str]:
        """Return the tokens of a tenant's facts by the numbers of their revisions."""
        here = [plant.token for plant in self.world.plants if plant.scope.tenant == tenant]
        return {self.revisions[token]: token for token in here}


async def planted(world: World, provider: Any, clock: FakeClock) -> FilledStore:
    """Plant a world in an empty store."""
    first = [plant for plant in world.plants if not _successors(world).get(plant.token)]
    clock.set(EARLY)
    early = dict(zip((plant.token for plant in first), await provider.append(_appends(first, {})), strict=True))
    later = [plant for plant in world.plants if plant.token not in early]
    clock.set(LATE)
    received = await provider.append([*_appends(later, _revised(world, early)), *_changes(first, early)])
    receipts: dict[str, Receipt] = early | dict(zip((plant.token for plant in later), received, strict=True))
    clock.set(NOW)
    return FilledStore(
        world=world,
        provider=provider,
        clock=clock,
        records={token: receipt.recorded.record_id for token, receipt in receipts.items()},
        entries={token: receipt.recorded.id for token, receipt in receipts.items()},
        revisions={token: receipt.recorded.seq for token, receipt in receipts.items()},
    )


def _successors(world: World) -> dict[str, Plant]:
    return {plant.successor.token: plant for plant in world.plants if plant.successor is not None}


def _revised(world: World, early: Mapping[str, Receipt]) -> dict[str, Receipt]:
    """Return the receipts of facts that were updated by id, keyed by the token of their successor."""
    return {token: early[plant.token] for token, plant in _successors(world).items() if plant.fate is Fate.REVISED}


def _appends(plants: list[Plant], revised: Mapping[str, Receipt]) -> list[Statement]:
    return [Append(assertion=_assertion(plant, revised.get(plant.token))) for plant in plants]


def _assertion(plant: Plant, revised: Receipt | None) -> Assertion:
    fact = plant.concept.fact([plant.value], timestamp=plant.said)
    (said,) = assertions_of(fact, Place(plant.subject, plant.scope), plant.details)
    if plant.fate in (Fate.PENDING, Fate.FAILED):
        job = Job(id=f"job-{plant.token}", kind=JobKind.DETECT)
        said = attrs.evolve(said, job=job_json(job), state=AssertionState.PENDING)
    if revised is not None:
        said = attrs.evolve(said, revises=revised.recorded.record_id, revised=revised.recorded.seq)
    return said


_CHANGED: Final = {
    Fate.ACCEPTED: AssertionState.ACTIVE,
    Fate.RETRACTED: AssertionState.RETRACTED,
    Fate.REJECTED: AssertionState.RETRACTED,
    Fate.FAILED: AssertionState.FAILED,
}


def _changes(plants: list[Plant], receipts: Mapping[str, Receipt]) -> list[Statement]:
    return [
        StateRequest.of(receipts[plant.token].recorded, state=_CHANGED[plant.fate], reason="planted so")
        for plant in plants
        if plant.fate in _CHANGED
    ]
