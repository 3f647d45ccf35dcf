"""Hidden facts have no effect on answers: no score, order, count, type or error differs because of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from factmem import Memory
from factmem.consolidation import ConsolidationPolicy
from factmem.memory import Policies
from factmem.testing import FakeClock, ScriptedModel
from tests.walls.agents import agent_seat
from tests.walls.awake import awake
from tests.walls.capabilities import CAPABILITIES
from tests.walls.leaves import Leaf, same, unnamed
from tests.walls.stores import STORES, Grown, planted
from tests.walls.touring import AGENT, MEMORY, PAGES, SERVER, Tables, steps_of
from tests.walls.ways import EMBEDDER, Asked, Reads, Step, Writes, memory_at, walked
from tests.walls.worlds import NOW, Seat, World, seats, world
from tests.walls.writing import WRITING

WORLDS: Final = {"memory": (3, 60), **dict.fromkeys(("sqlite-vec", "file", "encrypted", "encrypted-sqlite"), (1, 15))}
_VERBS: Final = {"Provider": {name: CAPABILITIES[name] for name in ("load", "load_all", "load_by_description")}}


def hidden_by_owner(world: World, seat: Seat) -> World:
    """The same world without what is another organization's or somebody else's own."""
    gone = [
        plant for plant in world.plants if plant.scope.tenant != seat.tenant or plant.owner not in (None, seat.viewer)
    ]
    return world.without(gone)


@pytest.mark.timeout(0)
@pytest.mark.usefixtures("without_threads")
@pytest.mark.parametrize("store", STORES)
async def test_what_is_hidden_changes_no_answer(
    store: str, tmp_path: Path, big: bool, promise: Callable[[str, str], None]
) -> None:
    """Two stores, of which one holds others' facts as well, and everything that is told from a seat in each."""
    count, answers = WORLDS[store][big], 0
    async with Tables.laid() as tables:
        for seed in range(count):
            answers += await _compared(store, tmp_path / str(seed), random.Random(f"{store} {seed}"), tables)
    promise("tenancy, private facts: scores, order, counts, errors", f"{store}: {answers} answers the same, 0 others")


async def _compared(store: str, folder: Path, chance: random.Random, tables: Tables) -> int:
    full = world(chance)
    (seat,) = seats(chance, full, 1)
    told: list[list[tuple[str, list[Leaf]]]] = []
    alone = hidden_by_owner(full, seat)
    seed = chance.random()
    for number, peopled in enumerate((alone, full)):
        here = folder / str(number)
        here.mkdir(parents=True)
        clock = FakeClock(NOW)
        async with STORES[store](here, clock) as provider:
            grown = await planted(peopled, provider, clock)
            told.append(await _everything(grown, alone, seat, random.Random(seed), tables))
    for (path, mine), (other_path, theirs) in zip(*told, strict=True):
        assert path == other_path
        assert _differences(mine, theirs) == [], f"{path} from {seat}"
    return len(told[0])


def _differences(mine: list[Leaf], theirs: list[Leaf]) -> list[tuple[Leaf, Leaf]]:
    if len(mine) != len(theirs):
        return [(("$.leaves", len(mine)), ("$.leaves", len(theirs)))]
    return [(one, other) for one, other in zip(mine, theirs, strict=True) if not same(one, other)][:5]


async def _everything(
    grown: Grown, alone: World, seat: Seat, chance: random.Random, tables: Tables
) -> list[tuple[str, list[Leaf]]]:
    """All that is told from a seat, by paths; asked for is only what is there in either store."""
    only = attrs.evolve(grown, world=alone)
    memory = memory_at(seat, grown)
    program = Asked.of(only, seat, chance, memory)
    options: dict[str, Any] = {"organization": seat.tenant, "embedder": EMBEDDER, "clock": grown.clock}
    told = []
    async with Memory(grown.provider, **options) as base:
        agent = Asked.of(only, agent_seat(seat), chance, base)
        steps = [*steps_of(MEMORY | PAGES | _VERBS, program, Reads), *steps_of(AGENT, agent, Reads)]
        steps += steps_of(SERVER, attrs.evolve(program, client=tables.serving(memory)), Reads)
        told += [(step.path, await _told(step)) for step in steps]
    meddling = ScriptedModel(awake)
    async with memory_at(
        seat, grown, model=meddling, policies=Policies(consolidation=ConsolidationPolicy(threshold=0.3))
    ) as writing:
        await (await writing.resume()).wait()
        asked = attrs.evolve(program, memory=writing, reader=writing)
        told += [(step.path, await _told(step)) for step in steps_of({"Memory": WRITING}, asked, Writes)]
    return told


async def _told(step: Step) -> list[Leaf]:
    return unnamed(await walked(step.way, step.asked))
