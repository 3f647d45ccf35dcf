"""Hidden facts have no effect on answers: no score, order, count, type or error differs because of them."""

from __future__ import annotations

import functools
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import pytest

from factmem import Memory, Policies
from factmem.consolidation import ConsolidationPolicy
from factmem.testing import FakeClock, ScriptedModel
from tests.stores import STORES
from tests.walls.agents import agent_caller
from tests.walls.capabilities import CAPABILITIES
from tests.walls.facade import READING, WAITING, at_other_moments
from tests.walls.leak_search import AGENT, CONFINED, MEMORY, PAGES, SERVER, Tables, served_steps, steps_of
from tests.walls.leaves import Leaf, unnamed
from tests.walls.meddling_model import meddling_answers
from tests.walls.stores import DURABLE, IN_MIRROR, FilledStore, planted
from tests.walls.ways import EMBEDDER, Asked, Reads, Step, Writes, answer_of, memory_at, plain
from tests.walls.worlds import NOW, SUBJECTS, Caller, World, callers, world
from tests.walls.writing import WRITING

WORLDS: Final = {"memory": (1, 60), **dict.fromkeys(DURABLE, (1, 15))}
"""Number of worlds for each store, without and with `--big`, for calls of every path."""

READ: Final = {"memory": (2, 1000), **dict.fromkeys(DURABLE, (1, 50))}
"""Number of worlds for each store, without and with `--big`, for the paths of a memory that read."""

_VERBS: Final = {"Provider": {name: CAPABILITIES[name] for name in ("load", "load_all", "load_by_description")}}
_KEPT: Final = {name: WAITING[name] for name in ("audit", "export", "traces", "accesses")}

SERVED: Final = (2, 1000)
"""Number of worlds for a confined server, without and with `--big`."""

Answers: TypeAlias = list[tuple[str, list[Leaf]]]
"""Answers by path."""

Walk: TypeAlias = Callable[[FilledStore, Caller, random.Random], Awaitable[Answers]]
"""Function that returns all answers to a caller, by path."""


@pytest.mark.timeout(0)
@pytest.mark.usefixtures("without_threads")
@pytest.mark.parametrize("store", STORES)
async def test_what_is_hidden_changes_no_answer(
    store: str, tmp_path: Path, big: bool, promise: Callable[[str, str], None]
) -> None:
    """Compare all answers of two stores, only one of which has the facts hidden from the caller."""
    answers = 0
    async with Tables.laid() as tables:
        for seed in _seeds(store, WORLDS[store][big]):
            chance = random.Random(f"{store} {seed}")
            full = world(chance)
            (caller,) = callers(chance, full, 1)
            if seed % 2 and not caller.subjects:
                caller = _of_one_user(caller, full, chance)
            walk = functools.partial(_everything, tables)
            answers += await _compared(store, tmp_path / str(seed), full, caller, chance, walk)
    promise("tenancy, private facts: scores, order, counts, errors", f"{store}: {answers} answers the same, 0 others")


@pytest.mark.timeout(0)
@pytest.mark.usefixtures("without_threads")
@pytest.mark.parametrize("store", IN_MIRROR)
async def test_a_view_is_a_world_of_its_own(
    store: str, tmp_path: Path, big: bool, promise: Callable[[str, str], None]
) -> None:
    """Views are by tenant, owner, scope, slice, subject, user, moment and review; every read of a view is compared."""
    count, answers = READ[store][big], 0
    for seed in _seeds(store, count):
        chance = random.Random(f"view {store} {seed}")
        full = world(chance, size=chance.randrange(12, 48)).with_unreviewed(chance)
        (caller,) = callers(chance, full, 1)
        if seed % 2 and not caller.confined:
            within = chance.choice(full.seen_from(caller))
            narrower = {"roots": (within.scope,)} if chance.random() < 0.5 else {"subjects": (plain(within.subject),)}
            caller = attrs.evolve(caller, **narrower)
        if not caller.subjects and chance.random() < 0.5:
            caller = _of_one_user(caller, full, chance)
        reviewing = attrs.evolve(caller, reviewed=chance.random() < 0.3)
        caller = reviewing if full.seen_from(reviewing) else caller
        answers += await _compared(store, tmp_path / str(seed), full, caller, chance, _read)
    promise("views: scores, order, counts, errors", f"{store}: {count} worlds, {answers} answers the same, 0 others")


@pytest.mark.timeout(0)
@pytest.mark.usefixtures("without_threads")
async def test_facts_outside_the_subjects_of_a_server_change_no_answer(
    tmp_path: Path, big: bool, promise: Callable[[str, str], None]
) -> None:
    """Compare all answers of two stores to a confined client, only one of which has facts about other subjects."""
    count, answers = SERVED[big], 0
    async with Tables.laid() as tables:
        for seed in range(count):
            chance = random.Random(f"served {seed}")
            full = world(chance)
            (anybody,) = callers(chance, full, 1)
            caller = attrs.evolve(anybody, subjects=CONFINED)
            walk = functools.partial(_served, tables)
            answers += await _compared("memory", tmp_path / str(seed), full, caller, chance, walk)
    promise("views: a server confined to subjects", f"{count} worlds, {answers} answers the same, 0 others")


def _seeds(store: str, count: int) -> range:
    """Return seeds for a store that begin with an even one for half of the stores, and an odd one for the others."""
    first = list(STORES).index(store)
    return range(first, first + count)


def _of_one_user(caller: Caller, full: World, chance: random.Random) -> Caller:
    """Return the caller as one of the individuals, if that one sees anything."""
    individual = chance.choice([subject for subject in SUBJECTS if subject.individual_name is not None])
    user = attrs.evolve(caller, viewer=individual.individual_name, individual=individual)
    return user if full.seen_from(user) else caller


async def _compared(store: str, folder: Path, full: World, caller: Caller, chance: random.Random, walk: Walk) -> int:
    answers: list[Answers] = []
    alone = full.without(full.hidden_from(caller))
    seed = chance.random()
    for number, peopled in enumerate((alone, full)):
        here = folder / str(number)
        here.mkdir(parents=True)
        clock = FakeClock(NOW)
        async with STORES[store](here, clock) as provider:
            filled = await planted(peopled, provider, clock)
            answers.append(await walk(attrs.evolve(filled, world=alone), caller, random.Random(seed)))
    for (path, mine), (other_path, theirs) in zip(*answers, strict=True):
        assert path == other_path
        assert _differences(mine, theirs) == [], f"{path} from {caller}"
    return len(answers[0])


def _differences(mine: list[Leaf], theirs: list[Leaf]) -> list[tuple[Leaf, Leaf]]:
    if len(mine) != len(theirs):
        return [(("$.leaves", len(mine)), ("$.leaves", len(theirs)))]
    return [(one, other) for one, other in zip(mine, theirs, strict=True) if one != other][:5]


async def _everything(tables: Tables, filled: FilledStore, caller: Caller, chance: random.Random) -> Answers:
    memory = memory_at(caller, filled)
    program = Asked.of(filled, caller, chance, memory)
    options: dict[str, Any] = {"organization": caller.tenant, "embedder": EMBEDDER, "clock": filled.clock}
    steps = [*steps_of(MEMORY | PAGES, program, Reads)]
    steps += steps_of(SERVER, attrs.evolve(program, client=tables.serving(memory)), Reads)
    answers = [(step.path, await _answer(step)) for step in steps]
    if not caller.confined:  # the others have a view of their own, or none
        async with Memory(filled.provider, **options) as base:
            agent = Asked.of(filled, agent_caller(caller), chance, base)
            steps = [*steps_of(_VERBS, program, Reads), *steps_of(AGENT, agent, Reads)]
            answers += [(step.path, await _answer(step)) for step in steps]
    meddling = ScriptedModel(meddling_answers)
    async with memory_at(
        caller, filled, model=meddling, policies=Policies(consolidation=ConsolidationPolicy(threshold=0.3))
    ) as writing:
        await (await writing.inbox.resume()).wait()
        asked = attrs.evolve(program, memory=writing, reader=writing)
        doors = dict(WRITING)
        if caller.individual is not None:  # words go with what was found in them, whomever else they tell of
            del doors["forget"]
        answers += [(step.path, await _answer(step)) for step in steps_of({"Memory": doors}, asked, Writes)]
    return answers


async def _served(tables: Tables, filled: FilledStore, caller: Caller, chance: random.Random) -> Answers:
    """Call every path of a confined server of an unconfined memory."""
    async with memory_at(attrs.evolve(caller, subjects=()), filled) as memory:
        asked = Asked.of(filled, caller, chance, memory)
        steps = [step for kind in (Reads, Writes) for step in served_steps(asked, tables, kind, confined=True)]
        return [(step.path, await _answer(step)) for step in steps]


async def _read(filled: FilledStore, caller: Caller, chance: random.Random) -> Answers:
    memory = memory_at(caller, filled)
    program = Asked.of(filled, caller, chance, memory)
    steps = [*steps_of({"Memory": {**READING, **_KEPT}}, program, Reads)]
    for name, then in at_other_moments(program):
        steps += steps_of({"Memory": READING}, then, Reads, f"{name} ")
    return [(step.path, await _answer(step)) for step in steps]


async def _answer(step: Step) -> list[Leaf]:
    return unnamed(await answer_of(step.way, step.asked))
