"""The paths of an agent's memory: the messages of a run, its tools, and known facts as files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from factmem import STATEMENT, AgentMemory, Memory, MemoryScope, MemorySubject, Message
from factmem.agent import Lessons
from factmem.agent.agents_md import AgentsMdFacts
from factmem.agent.agents_md.tree import MemoryFiles
from factmem.agent.config import AgentMemoryConfig, RunIdentity
from factmem.agent.run import MemoryRun
from tests.walls.ways import EMBEDDER, Asked, Door, Neither, Reads, Shows, Way, Writes, each, outcome
from tests.walls.worlds import MANY, NOW, SHARED, SUBJECTS, Caller, Plant, below
from tests.walls.writing import MARK

_NAME: Final = "a"


def agent_caller(caller: Caller) -> Caller:
    """Return the caller for an agent called ``a``, in a product of that name."""
    scopes = (MemoryScope.product(_NAME), MemoryScope.agent(_NAME))
    return attrs.evolve(
        caller,
        subjects=(),
        roots=tuple(scope.within(caller.tenant) for scope in scopes),
        exact=(MemoryScope.CROSS_PRODUCT.within(caller.tenant),),
    )


def agent_over(memory: Memory) -> AgentMemory:
    """Return the memory of such an agent, over an open one."""
    config = AgentMemoryConfig(
        store=memory, agent_name=_NAME, product_name=_NAME, users="shared", user=SUBJECTS[0], embedder=EMBEDDER
    )
    return AgentMemory(config)


def _agent(asked: Asked) -> AgentMemory:
    return agent_over(asked.memory)


def _run(asked: Asked) -> MemoryRun:
    return _agent(asked).for_run(_identity(asked))


def _identity(asked: Asked) -> RunIdentity:
    return RunIdentity(user_id=asked.caller.viewer, session_id="talk-1")


def of_run(plant: Plant, asked: Asked) -> bool:
    """Return whether a plant is about the user of the run, or about everything."""
    user = SUBJECTS[0] if asked.caller.viewer is None else SUBJECTS[0].individual(asked.caller.viewer)
    return plant.subject.key in (user.key, MemorySubject.EVERYTHING.key)


def _history(asked: Asked) -> list[Message]:
    return [Message(content=asked.query, id="m-9", timestamp=NOW)]


def _keywords(asked: Asked) -> list[Any]:
    return [SHARED, MANY, STATEMENT, *(plant.concept.keyword for plant in asked.some)]


AGENT_MEMORY: Final[Mapping[str, Door]] = {
    "load_facts_to_agent": Reads(
        [
            Way(
                lambda asked: _agent(asked).load_facts_to_agent(
                    [Message(content="the old red door?")], _keywords(asked), identity=_identity(asked)
                ),
                only=of_run,
            )
        ]
    ),
    "load_all_facts_to_agent": Reads(
        [
            Way(
                lambda asked: _agent(asked).load_all_facts_to_agent(
                    [Message(content="the old red door?")], identity=_identity(asked)
                ),
                only=of_run,
            )
        ]
    ),
    "save_facts_from_history": Writes(
        [
            Way(
                lambda asked: _waited(
                    asked, [Message(content=f"I have a {MARK}. {plant.words}", id="m-1") for plant in asked.some[:1]]
                ),
                Shows.KEPT,
            )
        ]
    ),
    "run": Neither("returns a MemoryRun, whose own paths are listed"),
    "for_run": Neither("returns a MemoryRun, whose own paths are listed"),
    "declare": Neither("names concepts to load"),
    "close": Neither("closes it"),
    "aclose": Neither("closes it"),
}


async def _waited(asked: Asked, history: list[Message]) -> object:
    saved = await _agent(asked).save_facts_from_history(history, identity=_identity(asked))
    return None if saved is None else (await saved.wait(), saved.outcomes, saved.pending, saved.failures)


async def _loaded(asked: Asked) -> object:
    run = _run(asked)
    return [
        await run.load(_history(asked)),
        await run.load(),
        await run.load(_history(asked), concepts=_keywords(asked)),
        await outcome(lambda: run.load(scopes=["/product/ab"])),
        await outcome(lambda: run.load(scopes=["/product/a/x"])),
    ]


MEMORY_RUN: Final[Mapping[str, Door]] = {
    "check_user": Neither("raises without a user, and reads nothing"),
    "failed": Neither("logs the type of an error, or raises it"),
    "load": Reads(
        [
            Way(_loaded, only=of_run),
            Way(
                lambda asked: _run(asked).load(subjects=[asked.subject]),
                only=lambda plant, asked: _asked_about(plant, asked),
            ),
        ]
    ),
    "save": Neither("is what save_facts_from_history calls"),
    "load_blocking": Neither("is load, without an event loop; CapabilityError with an open Memory"),
    "finish": Neither("is save, unless the settings say otherwise"),
    "finish_blocking": Neither("is finish, without an event loop; CapabilityError with an open Memory"),
    "save_blocking": Neither("is save, without an event loop; CapabilityError with an open Memory"),
    "use_blocking": Neither("calls the program's own function; CapabilityError with an open Memory"),
    "attempt": Neither("calls the program's own function"),
    "tools": Neither("returns MemoryTools, whose own paths are listed"),
    "user": Neither("is a name set by the program"),
    "view": Neither("returns a view, whose own paths are tested"),
    "hear": Neither("keeps messages in this process, and reads nothing stored"),
    "written_by_model": Neither("returns a view, whose own paths are tested"),
}


def _asked_about(plant: Plant, asked: Asked) -> bool:
    about = asked.subject
    if about.key == SUBJECTS[0].key and asked.caller.viewer is not None:
        about = about.individual(asked.caller.viewer)
    return plant.subject.key == about.key


MEMORY_TOOLS: Final[Mapping[str, Door]] = {
    "recall_memory": Reads(
        [
            Way(lambda asked: _run(asked).tools.recall_memory(asked.query, 50), only=of_run),
            Way(lambda asked: _run(asked).tools.recall_memory("green door"), only=of_run),
        ]
    ),
    "save_memory": Writes([Way(lambda asked: _run(asked).tools.save_memory(f"{MARK} says the cat"), Shows.NOTHING)]),
    "forget_memory": Writes([Way(lambda asked: _forgotten(asked), Shows.NOTHING)]),
}


async def _forgotten(asked: Asked) -> object:
    return [await _run(asked).tools.forget_memory([id]) for id in asked.ids]


async def _tree(asked: Asked) -> object:
    files = MemoryFiles(run=_run(asked))
    tree = await files.run.held.use(files.tree)
    return tree, tree.page("/AGENTS.md"), tree.page("/product/ab/user.md"), [tree.page(path) for path in tree.files]


async def _written(asked: Asked, made: str) -> object:
    files = MemoryFiles(run=_run(asked))
    tree = await files.run.held.use(files.tree)
    return await each([*tree.files, "/product/ab/user.md"], lambda path: _edit(files, path, made))


async def _edit(files: MemoryFiles, path: str, made: str) -> object:
    if made == "write":
        return await files.run.held.use(lambda memory: files.write(memory, path, f"- {MARK} sat by the door"))
    return await files.run.held.use(lambda memory: files.edit(memory, path, lambda text: f"{text}\n- {MARK} came in\n"))


MEMORY_FILES: Final[Mapping[str, Door]] = {
    "tree": Reads([Way(_tree, only=of_run)]),
    "write": Writes([Way(lambda asked: _written(asked, "write"), Shows.KEPT)]),
    "edit": Writes([Way(lambda asked: _written(asked, "edit"), Shows.KEPT)]),
}


def _lessons(asked: Asked) -> Lessons:
    return Lessons(_agent(asked), scope=f"/agent/{_NAME}")


LESSONS: Final[Mapping[str, Door]] = {
    "learn": Writes(
        [
            Way(
                lambda asked: _lessons(asked).learn(
                    "draft", f"{MARK} Dear all", f"Sign with {MARK}.", identity=_identity(asked)
                ),
                Shows.NOTHING,
            )
        ]
    ),
    "recall": Reads(
        [Way(lambda asked: _lessons(asked).recall("draft", asked.query, identity=_identity(asked)), Shows.NOTHING)]
    ),
    "recall_blocking": Neither("is recall, without an event loop; CapabilityError with an open Memory"),
    "learn_blocking": Neither("is learn, without an event loop; CapabilityError with an open Memory"),
    "apply": Neither("sends what recall returns to a language model, with the output that it is given"),
    "reviewed": Neither("is made of recall, apply and learn"),
    "block": Neither("is what recall returned to the call that is under way"),
}


async def _synced(asked: Asked, how: str) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "AGENTS.md"
        facts = AgentsMdFacts(asked.memory, path, subjects=[asked.subject], scope=asked.scope, clock=asked.filled.clock)
        if how == "read_back":
            await facts.sync()
        changes = await getattr(facts, how)()
        return changes, path.read_text(encoding="utf-8").replace(folder, "")


def _on_page(plant: Plant, asked: Asked) -> bool:
    return plant.subject.key == asked.subject.key and below(plant.scope, asked.scope)


AGENTS_MD: Final[Mapping[str, Door]] = {
    "write": Reads([Way(lambda asked: _synced(asked, "write"), only=_on_page)]),
    "sync": Reads([Way(lambda asked: _synced(asked, "sync"), only=_on_page)]),
    "read_back": Reads([Way(lambda asked: _synced(asked, "read_back"), only=_on_page)]),
}

_WHOLE: Final = "what was submitted is looked at where it is handed back, with all that it has"
SAVED_HISTORY: Final[Mapping[str, Door]] = {
    name: Neither(_WHOLE)
    for name in ("ids", "pending", "outcome", "outcomes", "failures", "held_by", "wait", "wait_blocking")
} | dict.fromkeys(("dropped", "skipped"), Neither("is a count, without content"))
