"""The nodes of `factmem.agent` in real graphs of LangGraph."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from factmem import AgentMemory, InMemoryProvider, Memory, SingleFact
from factmem.agent import install, load_all_facts_from_memory, save_to_memory_auto_detect_facts
from factmem.agent.config import USER, AgentMemoryConfig
from factmem.agent.nodes import Node, StateAccess
from factmem.errors import CapabilityError, InvalidDataError
from factmem.integrations.langgraph import ADDED_MESSAGES, runnable, with_facts_from_memory
from factmem.testing import HashEmbedder, ScriptedModel
from tests.memory.telling import CITY, SEATS, well

ALICE: Any = {"configurable": {"user_id": "alice", "thread_id": "monday"}}
WHERE: Any = {"messages": [HumanMessage("Where do I live?")]}


class Plain(TypedDict):
    messages: list[AnyMessage]


class Who(TypedDict):
    user_id: int


class Dicts(TypedDict):
    messages: list[dict[str, Any]]


@dataclasses.dataclass
class Record:
    messages: list[AnyMessage]
    other: str = "kept"


def opened() -> Memory:
    return Memory(InMemoryProvider(), embedder=HashEmbedder(), model=ScriptedModel(well))


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    async with opened() as memory:
        yield memory


def over(memory: Memory) -> AgentMemory:
    return AgentMemory(AgentMemoryConfig(store=memory, agent_name="clerk", users="shared", concepts=(CITY, SEATS)))


async def know(memory: Memory, city: str, user: str = "alice") -> None:
    await memory.save(SingleFact(CITY, city), subject=USER.individual(user), scope="/agent/clerk")


async def ask(state: Any) -> dict[str, Any]:
    """A model that repeats the user's messages and the block."""
    messages = state["messages"] if isinstance(state, dict) else state.messages
    return {"messages": [AIMessage(" | ".join(str(one.text) for one in messages if one.type == "human"))]}


def graph_of(schema: Any, *nodes: Node | Any, **settings: Any) -> Any:
    """Return a graph of nodes in sequence."""
    builder = StateGraph(schema)
    names = [f"node{place}" for place in range(len(nodes))]
    for name, node in zip(names, nodes, strict=True):
        builder.add_node(name, node)
    for before, after in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(before, after)
    return builder.compile(**settings)


def block_positions(messages: Sequence[BaseMessage]) -> list[int]:
    """Return the positions of the block's messages."""
    return [place for place, message in enumerate(messages) if "<memory>" in message.text]


@pytest.mark.parametrize("schema", [MessagesState, Plain, Record, Dicts], ids=lambda schema: schema.__name__)
async def test_a_node_fits_every_kind_of_state(schema: Any) -> None:
    state = ADDED_MESSAGES if schema is MessagesState else StateAccess[Any]()
    async with opened() as memory:
        await know(memory, "Oslo")
        await know(memory, "Bern", "bob")
        graph = graph_of(schema, load_all_facts_from_memory(over(memory), state=state))
        given = {"messages": [{"role": "user", "content": "Where?"}]} if schema is Dicts else WHERE
        result = await graph.ainvoke(given, ALICE)
    known, asked = result["messages"]
    text = known["content"] if schema is Dicts else known.text
    assert ("Oslo" in text, "Bern" in text) == (True, False)
    assert asked == given["messages"][-1]
    assert result.get("other", "kept") == "kept"


@pytest.mark.parametrize("schema", [MessagesState, Plain], ids=lambda schema: schema.__name__)
async def test_loading_twice_leaves_one_block_also_after_a_checkpoint(schema: Any, memory: Memory) -> None:
    """The second turn of a thread has one block with the current facts, before the question."""
    state = ADDED_MESSAGES if schema is MessagesState else StateAccess[Any]()
    load = load_all_facts_from_memory(over(memory), state=state)
    graph = graph_of(schema, load, load, checkpointer=InMemorySaver())
    for city in ("Oslo", "Rome"):
        await know(memory, city)
        before = (await graph.aget_state(ALICE)).values.get("messages", [])
        new = [HumanMessage(f"Is it {city}?")]
        result = await graph.ainvoke({"messages": new if schema is MessagesState else [*before, *new]}, ALICE)
        assert block_positions(result["messages"]) == [len(result["messages"]) - 2]
        assert city in result["messages"][-2].text
    assert [message.text for message in result["messages"] if "<memory>" not in message.text] == [
        "Is it Oslo?",
        "Is it Rome?",
    ]
    await memory.forget(scope="/agent/clerk")
    again = {"messages": [] if schema is MessagesState else result["messages"]}
    assert block_positions((await graph.ainvoke(again, ALICE))["messages"]) == []


async def test_a_state_without_a_reducer_gets_one_block(memory: Memory) -> None:
    await know(memory, "Oslo")
    load = load_all_facts_from_memory(over(memory))
    graph = graph_of(MessagesState, load, ask, load, checkpointer=InMemorySaver())
    for _ in range(2):
        result = await graph.ainvoke(WHERE, ALICE)
        assert len(block_positions([one for one in result["messages"] if one.type == "human"])) == 1


async def test_who_it_is_may_be_in_the_context_of_the_run(memory: Memory) -> None:
    await know(memory, "Oslo")
    await know(memory, "Bern", "7")
    builder = StateGraph(MessagesState, context_schema=Who)
    builder.add_node("load", load_all_facts_from_memory(over(memory), state=ADDED_MESSAGES))
    builder.add_edge(START, "load")
    graph: Any = builder.compile()
    result = await graph.ainvoke(WHERE, ALICE, context={"user_id": 7})
    assert ("Bern" in result["messages"][0].text, "Oslo" in result["messages"][0].text) == (True, False)


class Owned(MessagesState):
    owner: str


async def test_a_replayed_run_finds_its_user_in_the_state(memory: Memory) -> None:
    """The config of a checkpoint names the thread alone."""
    await know(memory, "Oslo")
    config = AgentMemoryConfig(store=memory, agent_name="clerk", user="state.owner")
    model = with_facts_from_memory(AgentMemory(config), ask)
    graph = graph_of(Owned, lambda state: {}, model, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "monday"}}
    await graph.ainvoke({**WHERE, "owner": "alice"}, thread)
    (past,) = [past async for past in graph.aget_state_history(thread) if past.next == ("node1",)]
    result = await graph.ainvoke(None, past.config)
    assert "Oslo" in result["messages"][-1].text


SECRET = "Samarkand"


def bytes_of(saver: InMemorySaver) -> str:
    """Return everything that a checkpointer keeps."""
    return repr((dict(saver.storage), dict(saver.blobs), dict(saver.writes)))


async def test_nothing_of_memory_is_in_the_state_or_in_a_checkpoint(memory: Memory) -> None:
    """The model is given it with the messages; forgetting reaches everything that is kept."""
    given: list[Any] = []

    async def call_model(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        given.append((block_positions(state["messages"]), (config.get("configurable") or {})["thread_id"]))
        return {"messages": [AIMessage("I have looked it up." if SECRET in repr(state) else "I do not know.")]}

    saver = InMemorySaver()
    await know(memory, SECRET)
    agent = over(memory)
    node = with_facts_from_memory(agent, call_model)
    graph = graph_of(MessagesState, node, save_to_memory_auto_detect_facts(agent), checkpointer=saver)
    for _ in range(2):
        result = await graph.ainvoke({"messages": [HumanMessage("Where do I live?")]}, ALICE)
        assert result["messages"][-1].text == "I have looked it up."
        assert block_positions(result["messages"]) == []
    assert given == [([0], "monday"), ([2], "monday")]
    assert SECRET not in repr((await graph.aget_state(ALICE)).values)
    assert "looked it up" in bytes_of(saver)
    assert SECRET not in bytes_of(saver)
    loading = graph_of(MessagesState, load_all_facts_from_memory(agent, state=ADDED_MESSAGES), checkpointer=saver)
    await loading.ainvoke(WHERE, {"configurable": {"user_id": "alice", "thread_id": "tuesday"}})
    assert SECRET in bytes_of(saver)  # so the test could fail: a load node's block is a part of the state


@pytest.mark.parametrize("schema", [MessagesState, Plain, Record, Dicts], ids=lambda schema: schema.__name__)
async def test_a_node_that_returns_the_whole_history_returns_no_block(schema: Any, memory: Memory) -> None:
    async def call_model(state: Any) -> Any:
        messages = state["messages"] if isinstance(state, dict) else state.messages
        assert SECRET in repr(messages)
        return {"messages": [*messages]} if schema is not Record else Command(update={"messages": [*messages]})

    await know(memory, SECRET)
    graph = graph_of(schema, with_facts_from_memory(over(memory), call_model, concepts=[CITY]))
    given = {"messages": [{"role": "user", "content": "Where?"}]} if schema is Dicts else WHERE
    result = await graph.ainvoke(given, ALICE)
    assert len(result["messages"]) == 1
    assert SECRET not in repr(result)


def call_sync(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage("Yes." if SECRET in repr(state) else "No.")]}


async def test_a_sync_graph_says_that_an_open_memory_lives_in_a_loop(memory: Memory) -> None:
    graph = graph_of(MessagesState, runnable(load_all_facts_from_memory(over(memory), state=ADDED_MESSAGES)))
    with pytest.raises(CapabilityError, match="event loop"):
        graph.invoke(WHERE, ALICE)


async def test_what_cannot_be_a_node_is_refused_when_it_is_made() -> None:
    with pytest.raises(InvalidDataError, match="takes no part"):
        with_facts_from_memory(over(opened()), call_sync, scopes=["/agent/other"])
    chain: Any = RunnableLambda(call_sync)
    with pytest.raises(InvalidDataError, match="function of the state"):
        with_facts_from_memory(over(opened()), chain)


async def test_an_object_may_be_a_node(memory: Memory) -> None:
    class Calling:
        async def __call__(self, state: MessagesState) -> dict[str, Any]:
            return call_sync(state)

    await know(memory, SECRET)
    graph = graph_of(MessagesState, with_facts_from_memory(over(memory), Calling()))
    assert (await graph.ainvoke(WHERE, ALICE))["messages"][-1].text == "Yes."


async def test_a_graph_has_no_place_of_its_own_for_memory(memory: Memory) -> None:
    for graph in (StateGraph(MessagesState), graph_of(MessagesState, ask)):
        with pytest.raises(CapabilityError, match=r"load_all_facts_from_memory\(memory\)"):
            install(over(memory), into=graph)
