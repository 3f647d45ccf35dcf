"""Calls of every path as one caller, and a record of each leak."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
from mcp import Client

from factmem import Memory, MemorySubject, Policies
from factmem.consolidation import ConsolidationPolicy
from factmem.mcp import make_server
from factmem.testing import ScriptedModel
from tests.walls.agents import AGENT_MEMORY, AGENTS_MD, MEMORY_FILES, MEMORY_RUN, MEMORY_TOOLS, agent_caller
from tests.walls.capabilities import CAPABILITIES, OWN
from tests.walls.facade import READING, WAITING, at_other_moments
from tests.walls.hosts import BACKEND, LANGGRAPH_STORE, MEMORY_SERVICE
from tests.walls.leaves import Leaf, leaves
from tests.walls.meddling_model import meddling_answers, mixed
from tests.walls.pending import DEAD_LETTERS, QUARANTINE
from tests.walls.protocol import PROMPTS, RESOURCES, TEMPLATES, TOOLS
from tests.walls.stores import FilledStore
from tests.walls.ways import EMBEDDER, Asked, Door, Reads, Shows, Step, Way, Writes, answer_of, leaked, memory_at
from tests.walls.worlds import SUBJECTS, Caller
from tests.walls.writing import WRITING

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
"""Subjects whose facts a confined server serves."""
SERVER: Final = {"tool": TOOLS, "resource": RESOURCES, "template": TEMPLATES, "prompt": PROMPTS}


@attrs.frozen
class Leak:
    """A hidden fact in an answer, or a visible one that is missing.

    Attributes:
        path: the path of the answer.
        caller: the caller.
        tokens: the facts, by token and fate.
        leaves: the parts of the answer with the tokens.
    """

    path: str
    caller: Caller
    tokens: tuple[str, ...]
    leaves: tuple[Leaf, ...] = ()


@attrs.define
class LeakReport:
    """Leaks and counts so far.

    Attributes:
        leaks: the leaks found.
        shown: number of permitted facts shown by each path.
        answers: number of answers searched.
    """

    leaks: list[Leak] = attrs.field(factory=list)
    shown: Counter[str] = attrs.field(factory=Counter)
    answers: int = 0

    def take(self, path: str, way: Way, asked: Asked, leaves: Sequence[Leaf]) -> None:
        """Search an answer of a path."""
        wrong, missing, shown = leaked(leaves, way, asked)
        self.answers += 1
        self.shown[path] += len(shown)
        for what, plants in (("told", wrong), ("missing", missing)):
            if plants:
                tokens = tuple(f"{what}: {plant.token} ({plant.fate.name}, {plant.owner})" for plant in plants)
                where = tuple(leaf for leaf in leaves if any(plant.token in f"{leaf}" for plant in plants))
                self.leaks.append(Leak(path, asked.caller, tokens, where[:3]))


def steps_of(
    tables: Mapping[str, Doors], asked: Asked, kind: type[Reads] | type[Writes], name: str = ""
) -> Iterator[Step]:
    """Yield every way to call the paths of some tables that read, or that write."""
    for door_of, doors in tables.items():
        for path, door in doors.items():
            if isinstance(door, kind):
                assert isinstance(door, Reads | Writes)
                for way in door.ways:
                    yield Step(f"{name}{door_of}.{path}", way, asked)


@attrs.frozen
class Tables:
    """MCP servers that are made once, with a client of each; the memory they serve is replaced for each caller.

    Attributes:
        client: the client of a server of a whole memory.
        confined: the client of a server of facts about `CONFINED` only.
        served: the memory that was passed to the servers.
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


async def call_reads(
    filled: FilledStore, caller: Caller, chance: random.Random, tables: Tables, notes: LeakReport
) -> None:
    """Call every path that reads: as a program, as a client of a server, and as an agent."""
    memory = memory_at(caller, filled)
    program = Asked.of(filled, caller, chance, memory)
    async with Memory(filled.provider, organization=caller.tenant, embedder=EMBEDDER, clock=filled.clock) as base:
        agent = Asked.of(filled, agent_caller(caller), chance, base)
        for step in _reading_steps(program, agent, tables, chance):
            notes.take(step.path, step.way, step.asked, await answer_of(step.way, step.asked))


def _reading_steps(program: Asked, agent: Asked, tables: Tables, chance: random.Random) -> Iterator[Step]:
    yield from steps_of(MEMORY | PAGES, program, Reads)
    name, then = chance.choice(at_other_moments(program))
    for step in steps_of({"Memory": READING}, then, Reads, f"{name} "):
        shows = Shows.EVER if step.way.shows is Shows.NOW else step.way.shows
        yield attrs.evolve(step, way=attrs.evolve(step.way, shows=shows, whole=False))
    yield from steps_of({"Provider": CAPABILITIES, **_own(program)}, program, Reads)
    yield from served_steps(program, tables, Reads, confined=_confines(program.caller, chance))
    yield from steps_of(AGENT, agent, Reads)


def served_steps(asked: Asked, tables: Tables, kind: type[Reads] | type[Writes], *, confined: bool) -> Iterator[Step]:
    """Yield every way to call the paths of a server, confined to some subjects or not."""
    client = tables.serving(asked.memory, confined=confined)
    for step in steps_of(SERVER, attrs.evolve(asked, client=client), kind):
        yield attrs.evolve(step, way=_confined(step.way), path=f"confined {step.path}") if confined else step


def _confines(caller: Caller, chance: random.Random) -> bool:
    """Whether a server is confined to some subjects; one of a view that is about others cannot be."""
    return chance.random() < 0.5 and not caller.subjects


def _confined(way: Way) -> Way:
    about = {subject.key for subject in CONFINED}
    return attrs.evolve(way, only=lambda plant, asked: way.only(plant, asked) and plant.subject.key in about)


def _own(asked: Asked) -> dict[str, Doors]:
    name = type(asked.filled.provider).__name__
    return {name: OWN[name]} if name in OWN else {}


_LATE: Final = (
    "Quarantine.accept",
    "Quarantine.reject",
    "Memory.expire",
    "Memory.convert",
    "Memory.merge",
    "Memory.forget",
    "Memory.reset",
    "tool.forget",
)
"""Paths that release or remove facts on which other paths are to be tested first."""


async def call_writes(
    filled: FilledStore, caller: Caller, chance: random.Random, tables: Tables, notes: LeakReport
) -> None:
    """Call every path that writes, with a meddling model, and check that no hidden fact is shown or changed."""
    before = await hidden_log(filled, caller)
    model, shown = ScriptedModel(meddling_answers), list[object]()
    policies = Policies(consolidation=ConsolidationPolicy(threshold=0.3))
    memory = memory_at(caller, filled, on_event=shown.append, model=model, policies=policies)
    async with memory:
        asked = Asked.of(filled, caller, chance, memory)
        doors = {"DeadLetters": DEAD_LETTERS, "Memory": WRITING, "Quarantine": QUARANTINE, **PAGES}
        steps = [*steps_of(doors, asked, Writes), *steps_of({"Provider": CAPABILITIES}, asked, Writes)]
        steps += served_steps(asked, tables, Writes, confined=_confines(caller, chance))
        steps.sort(key=lambda step: step.path.removeprefix("confined ") in _LATE)
        for step in steps:
            if step.path == _LATE[0]:
                _note_mixed(model, asked, notes)
                model.prompts.clear()
            notes.take(step.path, step.way, step.asked, await answer_of(step.way, step.asked))
    notes.take("event", Way(_nothing, Shows.KEPT), asked, list(leaves(shown)))
    for path, plant in _touched(before, await hidden_log(filled, caller)):
        notes.leaks.append(Leak(f"touched: {path}", caller, (plant,)))


def _note_mixed(model: ScriptedModel, asked: Asked, notes: LeakReport) -> None:
    notes.answers += len(model.prompts)
    notes.shown["prompt"] += sum(
        plant.token in prompt.content for prompt in model.prompts for plant in asked.filled.world.plants
    )
    for plants in mixed(model.prompts, asked):
        notes.leaks.append(Leak("prompt", asked.caller, tuple(f"{plant.token} ({plant.owner})" for plant in plants)))


async def _nothing(asked: Asked) -> None:
    """Do nothing, for paths that are observed without a call."""


async def hidden_log(filled: FilledStore, caller: Caller) -> dict[str, object]:
    """Return the log entries hidden from a caller, by id, except pending words, which any owner's model may read."""
    hidden = [plant for plant in filled.world.hidden_from(caller) if plant.fate.name != "PENDING"]
    ids = {filled.entries[plant.token] for plant in hidden}
    tenants = {plant.scope.tenant for plant in hidden}
    log = [entry for tenant in tenants for entry in await filled.provider.changes(tenant)]
    return {
        f"{getattr(entry, 'assertion_id', None) or getattr(entry, 'id', '')}/{entry.seq}": entry
        for entry in log
        if (getattr(entry, "assertion_id", None) or getattr(entry, "id", None)) in ids
    }


def _touched(before: Mapping[str, object], after: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    for id in sorted(before.keys() | after.keys()):
        if before.get(id) != after.get(id):
            yield "gone" if id not in after else "changed", id
