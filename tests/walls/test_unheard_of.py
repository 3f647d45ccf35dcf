"""Hidden facts have no effect on answers: no score, order, count, type or error differs because of them."""

from __future__ import annotations

import functools
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import pytest

import factmem.recall.overtaken
from factmem import Memory
from factmem.consolidation import ConsolidationPolicy
from factmem.memory import Policies
from factmem.testing import FakeClock, ScriptedModel
from tests.walls.agents import agent_seat
from tests.walls.awake import awake
from tests.walls.capabilities import CAPABILITIES
from tests.walls.facade import READING, WAITING, at_other_moments
from tests.walls.leaves import Leaf, unnamed
from tests.walls.stores import STORES, Grown, planted
from tests.walls.touring import AGENT, MEMORY, PAGES, SERVER, Tables, steps_of
from tests.walls.ways import EMBEDDER, Asked, Reads, Step, Writes, memory_at, walked
from tests.walls.worlds import NOW, Seat, World, seats, world
from tests.walls.writing import WRITING

DURABLE: Final = ("sqlite-vec", "file", "encrypted", "encrypted-sqlite", "postgres")

WORLDS: Final = {"memory": (3, 60), **dict.fromkeys(DURABLE, (1, 15))}
"""How many worlds a store is filled with, and how many if the numbers are big, to walk every path."""

READ: Final = {"memory": (12, 1000), **dict.fromkeys(DURABLE, (2, 50))}
"""The same, to walk the paths of a memory that read."""

_VERBS: Final = {"Provider": {name: CAPABILITIES[name] for name in ("load", "load_all", "load_by_description")}}
_KEPT: Final = {name: WAITING[name] for name in ("audit", "export", "traces", "accesses")}

Walk: TypeAlias = Callable[[Grown, Seat, random.Random], Awaitable[list[tuple[str, list[Leaf]]]]]
"""Returns all that is told from a seat, by paths."""


@pytest.mark.timeout(0)
@pytest.mark.usefixtures("without_threads")
@pytest.mark.parametrize("store", STORES)
async def test_what_is_hidden_changes_no_answer(
    store: str, tmp_path: Path, big: bool, promise: Callable[[str, str], None]
) -> None:
    """Two stores, of which one holds what the seat does not see as well, and all that is told from there in each."""
    count, answers = WORLDS[store][big], 0
    async with Tables.laid() as tables:
        for seed in range(count):
            chance = random.Random(f"{store} {seed}")
            full = world(chance)
            (seat,) = seats(chance, full, 1)
            walk = functools.partial(_everything, tables)
            answers += await _compared(store, tmp_path / str(seed), full, seat, chance, walk)
    promise("tenancy, private facts: scores, order, counts, errors", f"{store}: {answers} answers the same, 0 others")


@pytest.mark.timeout(0)
@pytest.mark.usefixtures("without_threads")
@pytest.mark.parametrize("store", STORES)
async def test_a_view_is_a_world_of_its_own(
    store: str, tmp_path: Path, big: bool, promise: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tenants, owners, scopes, slices, moments of the past and what is unreviewed: whatever is read from a view."""
    monkeypatch.setattr(factmem.recall.overtaken, "_MOST_ROWS", 2)  # so that some words are common
    count, answers = READ[store][big], 0
    for seed in range(count):
        chance = random.Random(f"view {store} {seed}")
        full = world(chance, size=chance.randrange(12, 48)).with_unreviewed(chance)
        (seat,) = seats(chance, full, 1)
        if seed % 2 and not (seat.roots or seat.exact):
            seat = attrs.evolve(seat, roots=(chance.choice(full.seen_from(seat)).scope,))
        reviewing = attrs.evolve(seat, reviewed=chance.random() < 0.3)
        seat = reviewing if full.seen_from(reviewing) else seat
        answers += await _compared(store, tmp_path / str(seed), full, seat, chance, _read)
    promise("views: scores, order, counts, errors", f"{store}: {count} worlds, {answers} answers the same, 0 others")


async def _compared(store: str, folder: Path, full: World, seat: Seat, chance: random.Random, walk: Walk) -> int:
    told: list[list[tuple[str, list[Leaf]]]] = []
    alone = full.without(full.hidden_from(seat))
    seed = chance.random()
    for number, peopled in enumerate((alone, full)):
        here = folder / str(number)
        here.mkdir(parents=True)
        clock = FakeClock(NOW)
        async with STORES[store](here, clock) as provider:
            grown = await planted(peopled, provider, clock)
            told.append(await walk(attrs.evolve(grown, world=alone), seat, random.Random(seed)))
    for (path, mine), (other_path, theirs) in zip(*told, strict=True):
        assert path == other_path
        assert _differences(mine, theirs) == [], f"{path} from {seat}"
    return len(told[0])


def _differences(mine: list[Leaf], theirs: list[Leaf]) -> list[tuple[Leaf, Leaf]]:
    if len(mine) != len(theirs):
        return [(("$.leaves", len(mine)), ("$.leaves", len(theirs)))]
    return [(one, other) for one, other in zip(mine, theirs, strict=True) if one != other][:5]


async def _everything(tables: Tables, grown: Grown, seat: Seat, chance: random.Random) -> list[tuple[str, list[Leaf]]]:
    memory = memory_at(seat, grown)
    program = Asked.of(grown, seat, chance, memory)
    options: dict[str, Any] = {"organization": seat.tenant, "embedder": EMBEDDER, "clock": grown.clock}
    steps = [*steps_of(MEMORY | PAGES, program, Reads)]
    steps += steps_of(SERVER, attrs.evolve(program, client=tables.serving(memory)), Reads)
    told = [(step.path, await _told(step)) for step in steps]
    if not (seat.roots or seat.exact):  # the others have a view of their own, or none
        async with Memory(grown.provider, **options) as base:
            agent = Asked.of(grown, agent_seat(seat), chance, base)
            steps = [*steps_of(_VERBS, program, Reads), *steps_of(AGENT, agent, Reads)]
            told += [(step.path, await _told(step)) for step in steps]
    meddling = ScriptedModel(awake)
    async with memory_at(
        seat, grown, model=meddling, policies=Policies(consolidation=ConsolidationPolicy(threshold=0.3))
    ) as writing:
        await (await writing.resume()).wait()
        asked = attrs.evolve(program, memory=writing, reader=writing)
        told += [(step.path, await _told(step)) for step in steps_of({"Memory": WRITING}, asked, Writes)]
    return told


async def _read(grown: Grown, seat: Seat, chance: random.Random) -> list[tuple[str, list[Leaf]]]:
    memory = memory_at(seat, grown)
    program = Asked.of(grown, seat, chance, memory)
    steps = [*steps_of({"Memory": {**READING, **_KEPT}}, program, Reads)]
    for name, then in at_other_moments(program):
        steps += steps_of({"Memory": READING}, then, Reads, f"{name} ")
    return [(step.path, await _told(step)) for step in steps]


async def _told(step: Step) -> list[Leaf]:
    return unnamed(await walked(step.way, step.asked))
