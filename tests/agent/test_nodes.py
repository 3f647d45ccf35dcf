"""Nodes as plain async functions. Tests in real graphs are in tests/integrations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from factmem import AgentMemory, Concept, Memory, MemoryScope, MemorySubject, Message, SingleFact
from factmem.abc import DetectionRequest
from factmem.agent import load_all_facts_from_memory, load_from_memory, save_to_memory, save_to_memory_auto_detect_facts
from factmem.agent.config import USER, RunIdentity
from factmem.agent.nodes import Node, StateAccess
from factmem.errors import InvalidDataError
from factmem.scopes import ScopeKind
from factmem.testing import ScriptedModel
from tests.agent.installed import memory_over, plugin, user
from tests.memory.telling import CITY, PETS, SEATS, Gated, said, well

ALICE = {"configurable": {"user_id": "alice", "thread_id": "monday"}}


@attrs.define
class Step:
    """Stand-in for the object that pydantic-graph hands to a step."""

    state: Any
    deps: Any
    inputs: Any


@attrs.define
class Deps:
    user_id: str
    session_id: str


@attrs.define
class Talk:
    talk: list[Any]
    who: str = "alice"


async def test_loading_gives_an_update_of_the_state(memory: Memory, agent: AgentMemory) -> None:
    await memory.save(SingleFact(CITY, "Oslo"), subject=USER.individual("alice"))
    await memory.save(SingleFact(SEATS, 12), subject=USER.individual("alice"))
    state = {"messages": [user("Where?")], "other": 1}
    update = await load_from_memory(agent, [CITY])(state, ALICE)
    assert list(update) == ["messages"]
    assert ("Oslo" in update["messages"][0]["content"], "seats" in update["messages"][0]["content"]) == (True, False)
    everything = await load_all_facts_from_memory(agent)(state, ALICE)
    assert "seats" in everything["messages"][0]["content"]
    assert state == {"messages": [user("Where?")], "other": 1}


async def test_saving_changes_nothing_of_the_state() -> None:
    state = {"messages": [user("I live in Oslo. We booked 12 seats.")]}
    async with memory_over(ScriptedModel(well)) as memory:
        assert await save_to_memory_auto_detect_facts(plugin(memory))(state, ALICE) == {}
        await memory.inbox.flush()
        assert said(await memory.list_records()) == [12, "Oslo"]
        assert state == {"messages": [user("I live in Oslo. We booked 12 seats.")]}


async def test_a_node_may_wait_until_the_history_is_read() -> None:
    """The next run then finds the new fact; without waiting it is read in the background."""
    model = Gated()
    async with memory_over(model) as memory:
        state = {"messages": [user("I live in Oslo.")]}
        await save_to_memory(plugin(memory), [CITY])(state, ALICE)
        assert said(await memory.list_records(concepts=[CITY])) == []
        model.gate.set()
    async with memory_over(ScriptedModel(well)) as memory:
        await save_to_memory(plugin(memory), [CITY], wait=True)(state, ALICE)
        assert said(await memory.list_records(concepts=[CITY])) == ["Oslo"]
    async with memory_over(ScriptedModel(well)) as memory:
        await save_to_memory_auto_detect_facts(plugin(memory), wait=True)(state, ALICE)
        assert said(await memory.list_records(concepts=[CITY])) == ["Oslo"]


async def test_one_concept_and_one_subject_need_no_list() -> None:
    state = {"messages": [user("I live in Oslo. We booked 12 seats.")]}
    async with memory_over(ScriptedModel(well)) as memory:
        agent = plugin(memory, concepts=())
        await save_to_memory(agent, CITY, subjects=USER, wait=True)(state, ALICE)
        assert said(await memory.list_records(concepts=[CITY, SEATS])) == ["Oslo"]
        identity, history = RunIdentity(user_id="alice"), [user("Where?")]
        update = await load_from_memory(agent, CITY, subjects=USER, scopes=MemoryScope.agent("clerk"))(
            {"messages": history}, ALICE
        )
        loaded = await agent.load_facts_to_agent(history, CITY, identity=identity)
        for shown in (update["messages"], loaded):
            assert "Oslo" in shown[0]["content"]
    assert DetectionRequest(subjects=USER, concepts=CITY) == DetectionRequest(subjects=[USER], concepts=[CITY])


@pytest.mark.parametrize(
    ("scope", "paths"),
    [
        (None, ["/agent/clerk"]),
        ("/product/fair/plan", ["/product/fair/plan"]),
        (ScopeKind.PRODUCT, ["/product/fair"]),
        (MemoryScope.CROSS_PRODUCT, ["/cross-product"]),
        ([ScopeKind.AGENT, "/product/fair", MemoryScope.agent("clerk")], ["/agent/clerk", "/product/fair"]),
    ],
)
async def test_it_is_saved_in_one_scope_or_several(scope: Any, paths: list[str]) -> None:
    state = {"messages": [user("I live in Oslo.")]}
    makers: list[Callable[[AgentMemory], Node]] = [
        lambda agent: save_to_memory(agent, [CITY], scope=scope, wait=True),
        lambda agent: save_to_memory_auto_detect_facts(agent, scope=scope, wait=True),
    ]
    for make in makers:
        async with memory_over(ScriptedModel(well)) as memory:
            await make(plugin(memory))(state, ALICE)
            assert sorted(str(record.scope) for record in await memory.list_records(concepts=[CITY])) == paths


@pytest.mark.parametrize(
    "make", [load_all_facts_from_memory, lambda agent, **where: load_from_memory(agent, [CITY], **where)]
)
async def test_a_node_loads_its_subjects_and_scopes(make: Any, memory: Memory) -> None:
    """Other subjects and scopes are left out.

    Without any given, it loads the user and the agent's subjects in all its scopes.
    """
    alice, team = USER.individual("alice"), MemorySubject("team", "the user's team", priority_level=2)
    for subject, scope, city in (
        (alice, MemoryScope.agent("clerk"), "Oslo"),
        (alice, MemoryScope.product("fair"), "Bern"),
        (team, MemoryScope.agent("clerk"), "Rome"),
        (team, MemoryScope.product("fair"), "Faro"),
    ):
        await memory.save(SingleFact(CITY, city), subject=subject, scope=scope)

    async def loaded(**where: Any) -> set[str]:
        update = await make(plugin(memory, subjects=[team]), **where)({"messages": [user("Where?")]}, ALICE)
        text = "".join(message["content"] for message in update["messages"])
        return {city for city in ("Oslo", "Bern", "Rome", "Faro") if city in text}

    assert await loaded() == {"Oslo"}
    assert await loaded(subjects=[team]) == {"Rome"}
    assert await loaded(subjects=[USER]) == {"Oslo"}, "the user's subject is that of the run"
    assert await loaded(subjects=[]) == set()
    assert await loaded(scopes=["/product/fair"]) == {"Bern"}
    assert await loaded(scopes=[ScopeKind.PRODUCT], subjects=[team]) == {"Faro"}
    assert await loaded(scopes=[MemoryScope.CROSS_PRODUCT]) == set()


async def test_a_step_passes_its_inputs_on_and_changes_its_state(memory: Memory) -> None:
    await memory.save(SingleFact(CITY, "Oslo"), subject=USER.individual("alice"))
    state = attrs.make_class("State", ["messages"])([user("Where?")])
    step = Step(state, Deps("alice", "monday"), inputs=object())
    assert await load_from_memory(plugin(memory), [CITY])(step) is step.inputs
    assert len(state.messages) == 2
    assert await save_to_memory(plugin(memory), [PETS])(step) is step.inputs
    in_mapping = Step({"messages": [user("Where?")]}, Deps("alice", "monday"), inputs=1)
    assert await load_all_facts_from_memory(plugin(memory))(in_mapping) == 1
    assert len(in_mapping.state["messages"]) == 2


async def test_a_custom_state_is_read_by_functions(memory: Memory) -> None:
    access = StateAccess[Talk](
        messages=lambda state: state.talk,
        update=lambda history: {"talk": history},
        identity=lambda state: RunIdentity(user_id=state.who),
    )
    await memory.save(SingleFact(CITY, "Oslo"), subject=USER.individual("alice"))
    node = load_from_memory(plugin(memory), [CITY], state=access)
    update = await node(Talk([Message(content="Where?")]))
    assert [message.role for message in update["talk"]] == ["memory", "user"]
    assert await node(Talk([Message(content="Where?")], who="bob")) == {"talk": [Message(content="Where?")]}


async def test_a_state_without_messages_is_an_error_with_advice(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="StateAccess"):
        await load_all_facts_from_memory(plugin(memory))({"history": []})


def test_they_are_named_async_functions() -> None:
    """Graph libraries name a node by its function."""
    agent = plugin("none:")
    nodes = [
        load_from_memory(agent, [CITY]),
        load_all_facts_from_memory(agent),
        save_to_memory(agent, [CITY]),
        save_to_memory_auto_detect_facts(agent),
    ]
    assert [node.__name__ for node in nodes if inspect.iscoroutinefunction(node)] == [
        "load_from_memory",
        "load_all_facts_from_memory",
        "save_to_memory",
        "save_to_memory_auto_detect_facts",
    ]


PREFERENCE = Concept.multiple("user-preference", "User's preference for some programming language")
MACHINE = MemorySubject("machine", "Technical environment (installed tools, OS, etc.)", priority_level=2)


@pytest.mark.parametrize("declared", [True, False], ids=["node", "method"])
async def test_koogs_sample_works_as_it_stands(declared: bool) -> None:
    """A node detects facts by itself, and the next one loads a concept of which the model was shown nothing."""
    found = [
        {"quote": "I prefer Kotlin", "message": 1, "about": "user:alice", "kind": "multiple"},
        {"quote": "It runs Linux", "message": 1, "about": "machine", "kind": "single"},
    ]
    named = [{"keyword": "user_preference", "value": "Kotlin"}, {"keyword": "os", "value": "Linux"}]
    model = ScriptedModel(lambda prompt, answer: {"facts": [one | two for one, two in zip(found, named, strict=True)]})
    async with memory_over(model) as memory:
        agent = plugin(memory, concepts=())
        detect = save_to_memory_auto_detect_facts(agent, subjects=[USER, MACHINE], wait=True)
        load = load_from_memory(agent, [PREFERENCE], subjects=[USER]) if declared else None
        state = {"messages": [user("I prefer Kotlin. It runs Linux.")]}
        await detect(state, ALICE)
        identity = RunIdentity(user_id="alice", session_id="tuesday")
        history = [user("Write it.")]
        if load is not None:
            shown = (await load({"messages": history}, {"configurable": {"user_id": "alice"}}))["messages"]
        else:
            shown = await agent.load_facts_to_agent(history, [PREFERENCE], subjects=[USER], identity=identity)
        assert "Kotlin" in shown[0]["content"]
        assert "Linux" not in shown[0]["content"]
        (record,) = await memory.list_records(concepts=[PREFERENCE])
        assert record.concept.keyword == ("user-preference" if declared else "user_preference")
        assert ("user-preference" in model.prompts[0].content) == declared


async def test_load_nodes_declare_what_they_load() -> None:
    """Concepts are declared once, whatever their spelling; keywords have no type to declare."""
    agent = plugin("memory:", concepts=(CITY,))
    load_from_memory(agent, [SEATS, "colour", Concept.single("City", "Another one")])
    load_from_memory(agent, [SEATS, PETS])
    assert agent.config.concepts == (CITY, SEATS, PETS)
    assert agent.for_run().config.concepts == (CITY, SEATS, PETS)


async def test_no_concepts_are_not_all_concepts(agent: AgentMemory) -> None:
    state = {"messages": [user("Where?")]}
    assert await load_from_memory(agent, [])(state, ALICE) == state
    with pytest.raises(InvalidDataError, match="leave the node out"):
        save_to_memory(agent, [])
