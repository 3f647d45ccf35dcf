"""Walking every path there is from one seat, and noting what was told that must not be."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
from mcp import Client

from factmem import Memory, MemorySubject
from factmem.consolidation import ConsolidationPolicy
from factmem.mcp import make_server
from factmem.memory import Policies
from factmem.testing import ScriptedModel
from tests.walls.agents import (
    AGENT_MEMORY,
    AGENTS_MD,
    MEMORY_FILES,
    MEMORY_RUN,
    MEMORY_TOOLS,
    agent_seat,
)
from tests.walls.awake import awake, mixed
from tests.walls.capabilities import CAPABILITIES, OWN
from tests.walls.facade import READING, WAITING, at_other_moments
from tests.walls.hosts import BACKEND, LANGGRAPH_STORE, MEMORY_SERVICE
from tests.walls.leaves import Leaf, leaves
from tests.walls.protocol import PROMPTS, RESOURCES, TEMPLATES, TOOLS
from tests.walls.stores import Grown
from tests.walls.waiting import DEAD_LETTERS, QUARANTINE
from tests.walls.ways import EMBEDDER, Asked, Door, Reads, Shows, Step, Way, Writes, leaked, memory_at, walked
from tests.walls.worlds import SUBJECTS, Seat
from tests.walls.writing import WRITING

__all__ = [
    "AGENT",
    "CONFINED",
    "MEMORY",
    "PAGES",
    "SERVER",
    "Leak",
    "Notes",
    "Tables",
    "looked_around",
    "served_steps",
    "steps_of",
    "worked",
]

Doors = Mapping[str, Door]

MEMORY: Final = {"Memory": {**READING, **WAITING}, "Quarantine": QUARANTINE, "DeadLetters": DEAD_LETTERS}
PAGES: Final = {"AgentsMdFacts": AGENTS_MD}
AGENT: Final = {
    "AgentMemory": AGENT_MEMORY,
    "MemoryRun": MEMORY_RUN,
    "MemoryTools": MEMORY_TOOLS,
    "MemoryFiles": MEMORY_FILES,
    "FactMemMemoryService": MEMORY_SERVICE,
    "FactMemStore": LANGGRAPH_STORE,
    "FactMemBackend": BACKEND,
}
CONFINED: Final = (SUBJECTS[1], MemorySubject.EVERYTHING)
"""Whom a confined server serves facts about."""
SERVER: Final = {"tool": TOOLS, "resource": RESOURCES, "template": TEMPLATES, "prompt": PROMPTS}


@attrs.frozen
class Leak:
    """Something that was told and must not be, or was not and must be.

    Attributes:
        path: where.
        seat: to whom.
        tokens: what, by its token and its fate.
        told: how.
    """

    path: str
    seat: Seat
    tokens: tuple[str, ...]
    told: tuple[Leaf, ...] = ()


@attrs.define
class Notes:
    """Findings of a tour so far.

    Attributes:
        leaks: what went wrong.
        shown: how much each path showed of what it may show.
        answers: how many answers were looked through.
    """

    leaks: list[Leak] = attrs.field(factory=list)
    shown: Counter[str] = attrs.field(factory=Counter)
    answers: int = 0

    def take(self, path: str, way: Way, asked: Asked, told: Sequence[Leaf]) -> None:
        """Look through what was told on a path."""
        wrong, missing, shown = leaked(told, way, asked)
        self.answers += 1
        self.shown[path] += len(shown)
        for what, plants in (("told", wrong), ("missing", missing)):
            if plants:
                tokens = tuple(f"{what}: {plant.token} ({plant.fate.name}, {plant.owner})" for plant in plants)
                where = tuple(leaf for leaf in told if any(plant.token in f"{leaf}" for plant in plants))
                self.leaks.append(Leak(path, asked.seat, tokens, where[:3]))


def steps_of(
    tables: Mapping[str, Doors], asked: Asked, kind: type[Reads] | type[Writes], name: str = ""
) -> Iterator[Step]:
    """Yield every way to walk the paths of some tables that read, or that write."""
    for door_of, doors in tables.items():
        for path, door in doors.items():
            if isinstance(door, kind):
                assert isinstance(door, Reads | Writes)
                for way in door.ways:
                    yield Step(f"{name}{door_of}.{path}", way, asked)


@attrs.frozen
class Tables:
    """MCP servers that are made once, with a client of each; whose memory they serve changes from seat to seat.

    Attributes:
        client: the client of one that serves all of a memory.
        confined: the client of one that serves facts about `CONFINED` only.
        served: the memory that the servers were given.
    """

    client: Client
    confined: Client
    served: Memory

    def serving(self, memory: Memory, *, confined: bool = False) -> Client:
        """Return the client of a server of a memory."""
        vars(self.served).clear()
        vars(self.served).update(vars(memory))
        return self.confined if confined else self.client

    @classmethod
    @asynccontextmanager
    async def laid(cls) -> AsyncIterator[Tables]:
        """Make a server and connect to it."""
        memory = Memory("none:", embedder=EMBEDDER)
        options: dict[str, Any] = {"allow_erase": True, "trust": True}
        server, other = make_server(memory, **options), make_server(memory, subjects=CONFINED, **options)
        async with Client(server) as client, Client(other) as confined:
            yield cls(client, confined, memory)


async def looked_around(grown: Grown, seat: Seat, chance: random.Random, tables: Tables, notes: Notes) -> None:
    """Walk every path that reads: as a program, as a client of a server, and as an agent."""
    memory = memory_at(seat, grown)
    program = Asked.of(grown, seat, chance, memory)
    async with Memory(grown.provider, organization=seat.tenant, embedder=EMBEDDER, clock=grown.clock) as base:
        agent = Asked.of(grown, agent_seat(seat), chance, base)
        for step in _reading_steps(program, agent, tables, chance):
            notes.take(step.path, step.way, step.asked, await walked(step.way, step.asked))


def _reading_steps(program: Asked, agent: Asked, tables: Tables, chance: random.Random) -> Iterator[Step]:
    yield from steps_of(MEMORY | PAGES, program, Reads)
    name, then = chance.choice(at_other_moments(program))
    for step in steps_of({"Memory": READING}, then, Reads, f"{name} "):
        shows = Shows.EVER if step.way.shows is Shows.NOW else step.way.shows
        yield attrs.evolve(step, way=attrs.evolve(step.way, shows=shows, whole=False))
    yield from steps_of({"Provider": CAPABILITIES, **_own(program)}, program, Reads)
    yield from served_steps(program, tables, Reads, confined=_confines(program.seat, chance))
    yield from steps_of(AGENT, agent, Reads)


def served_steps(asked: Asked, tables: Tables, kind: type[Reads] | type[Writes], *, confined: bool) -> Iterator[Step]:
    """Yield every way to walk the paths of a server, of one that serves some subjects only or of one that does not."""
    client = tables.serving(asked.memory, confined=confined)
    for step in steps_of(SERVER, attrs.evolve(asked, client=client), kind):
        yield attrs.evolve(step, way=_confined(step.way), path=f"confined {step.path}") if confined else step


def _confines(seat: Seat, chance: random.Random) -> bool:
    """Whether a server is confined to some subjects; one of a view that is about others cannot be."""
    return chance.random() < 0.5 and not seat.subjects


def _confined(way: Way) -> Way:
    about = {subject.key for subject in CONFINED}
    return attrs.evolve(way, only=lambda plant, asked: way.only(plant, asked) and plant.subject.key in about)


def _own(asked: Asked) -> dict[str, Doors]:
    name = type(asked.grown.provider).__name__
    return {name: OWN[name]} if name in OWN else {}


_LATE: Final = (
    "Quarantine.accept",
    "Quarantine.reject",
    "Memory.expire",
    "Memory.forget",
    "Memory.reset",
    "tool.forget",
)
"""What lets in or takes away what others are to be tried on."""


async def worked(grown: Grown, seat: Seat, chance: random.Random, tables: Tables, notes: Notes) -> None:
    """Walk every path that writes, with a model that meddles, and see that nothing hidden was told or touched."""
    before = await hidden_log(grown, seat)
    model, heard = ScriptedModel(awake), list[object]()
    policies = Policies(consolidation=ConsolidationPolicy(threshold=0.3))
    memory = memory_at(seat, grown, on_event=heard.append, model=model, policies=policies)
    async with memory:
        asked = Asked.of(grown, seat, chance, memory)
        doors = {"DeadLetters": DEAD_LETTERS, "Memory": WRITING, "Quarantine": QUARANTINE, **PAGES}
        steps = [*steps_of(doors, asked, Writes), *steps_of({"Provider": CAPABILITIES}, asked, Writes)]
        steps += served_steps(asked, tables, Writes, confined=_confines(seat, chance))
        steps.sort(key=lambda step: step.path.removeprefix("confined ") in _LATE)
        for step in steps:
            if step.path == _LATE[0]:
                _note_mixed(model, asked, notes)
                model.prompts.clear()
            notes.take(step.path, step.way, step.asked, await walked(step.way, step.asked))
    notes.take("event", Way(_nothing, Shows.KEPT), asked, list(leaves(heard)))
    for path, plant in _touched(before, await hidden_log(grown, seat)):
        notes.leaks.append(Leak(f"touched: {path}", seat, (plant,)))


def _note_mixed(model: ScriptedModel, asked: Asked, notes: Notes) -> None:
    notes.answers += len(model.prompts)
    notes.shown["prompt"] += sum(
        plant.token in prompt.content for prompt in model.prompts for plant in asked.grown.world.plants
    )
    for plants in mixed(model.prompts, asked):
        notes.leaks.append(Leak("prompt", asked.seat, tuple(f"{plant.token} ({plant.owner})" for plant in plants)))


async def _nothing(asked: Asked) -> None:
    """Do nothing, for paths that are heard without asking."""


async def hidden_log(grown: Grown, seat: Seat) -> dict[str, object]:
    """Return the log entries hidden from a seat, by id, except pending words, which anybody's model may read."""
    hidden = [plant for plant in grown.world.hidden_from(seat) if plant.fate.name != "PENDING"]
    ids = {grown.entries[plant.token] for plant in hidden}
    tenants = {plant.scope.tenant for plant in hidden}
    log = [entry for tenant in tenants for entry in await grown.provider.changes(tenant)]
    return {
        f"{getattr(entry, 'assertion_id', None) or getattr(entry, 'id', '')}/{entry.seq}": entry
        for entry in log
        if (getattr(entry, "assertion_id", None) or getattr(entry, "id", None)) in ids
    }


def _touched(before: Mapping[str, object], after: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    for id in sorted(before.keys() | after.keys()):
        if before.get(id) != after.get(id):
            yield "gone" if id not in after else "changed", id
