"""Memory in agents of LangChain: the block in each request, and no trace of it in the thread."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from factmem import STATEMENT, InMemoryProvider, Memory, SingleFact
from factmem.abc.detector import MEMORY_ROLE, Message
from factmem.agent import install
from factmem.agent.chat_history import MEMORY_NAME, spoken, with_block
from factmem.agent.compression import FactRetrievalCompression
from factmem.agent.config import USER, AgentMemoryConfig
from factmem.agent.plugin import AgentMemory, format_of
from factmem.agent.rendering import MemoryBlock
from factmem.detection import InstructorDetector
from factmem.errors import CapabilityError, InvalidDataError
from factmem.integrations.langchain import FactMemMiddleware, LangChainFormat, memory_tools
from factmem.testing import HashEmbedder, ScriptedModel
from tests.integrations.chat_model import NotingModel, calling, model
from tests.memory.telling import CITY, SEATS, well

ALICE: Any = {"user_id": "alice", "session_id": "monday"}
WHERE: Any = {"messages": [HumanMessage("Where do I live?")]}
THREAD: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def provider() -> InMemoryProvider:
    return InMemoryProvider()


@pytest.fixture
def memory(provider: InMemoryProvider) -> AgentMemory:
    return over(provider)


def over(store: Any, **settings: Any) -> AgentMemory:
    given = {"agent_name": "clerk", "concepts": (CITY, SEATS), **settings}
    if not isinstance(store, Memory):
        given = {"model": ScriptedModel(well), "embedder": HashEmbedder(), **given}
    return AgentMemory(AgentMemoryConfig(store=store, users="shared", **given))


async def know(memory: AgentMemory, city: str, user: str = "alice") -> None:
    async def keep(opened: Memory) -> None:
        await opened.save(SingleFact(CITY, city), subject=USER.individual(user), scope="/agent/clerk")

    await memory.for_run().held.use(keep)


async def learnt(memory: AgentMemory) -> list[tuple[str, Any]]:
    """Return the subject and value of each record, after all messages are read."""

    async def told(opened: Memory) -> list[tuple[str, Any]]:
        await opened.inbox.flush()
        return sorted(((str(record.subject), record.value) for record in await opened.list_records()), key=str)

    return await memory.for_run().held.use(told)


def agent_of(memory: AgentMemory, chat: NotingModel, tools: list[Any] | None = None, **settings: Any) -> Any:
    return install(memory, into=create_agent)(chat, tools or [], **settings)


async def _told_of(concept: Any, opened: Memory) -> list[Any]:
    return await opened.history(concept)


@tool
def look_up() -> str:
    """Read the page."""
    return "Nothing."


async def test_a_thread_is_shown_the_current_facts_and_keeps_none(memory: AgentMemory) -> None:
    """The next run on a checkpointed thread is shown the current facts, and no forgotten ones."""
    chat, saver = model(), InMemorySaver()
    agent = agent_of(memory, chat, checkpointer=saver)
    async with memory:
        for city in ("Oslo", "Rome"):
            await know(memory, city)
            await agent.ainvoke(WHERE, THREAD, context=ALICE)
            assert city in chat.shown()
        assert "Oslo" not in chat.shown()

        async def forgotten(opened: Memory) -> None:
            await opened.inbox.flush()
            await opened.forget(scope="/agent/clerk")

        await memory.for_run().held.use(forgotten)
        await agent.ainvoke(WHERE, THREAD, context=ALICE)
        assert "<memory>" not in chat.shown()
    kept = list(saver.list(THREAD))
    assert len(kept) > 6
    assert "Oslo" not in str(kept)
    for checkpoint in kept:
        written = {channel for _, channel, _ in checkpoint.pending_writes or ()}
        assert "factmem_loaded" not in written | checkpoint.checkpoint["channel_values"].keys()


async def test_a_run_that_was_interrupted_goes_on_with_what_is_known(memory: AgentMemory) -> None:
    chat = model(calling("look_up"))
    agent = agent_of(memory, chat, [look_up], checkpointer=InMemorySaver(), interrupt_before=["tools"])
    async with memory:
        await know(memory, "Oslo")
        await agent.ainvoke(WHERE, THREAD, context=ALICE)
        assert await learnt(memory) == [("user:alice", "Oslo")], "the run has not ended"
        await agent.ainvoke(None, THREAD, context=ALICE)
    assert len(chat.asked) == 2
    assert "Oslo" in chat.shown()


async def test_what_was_said_is_learnt_once(memory: AgentMemory) -> None:
    """A program's own history has no ids, so LangGraph assigns new ones for each run."""
    chat = model()
    agent = agent_of(memory, chat)
    async with memory:
        said: list[Any] = [{"role": "user", "content": "We booked 12 seats."}]
        await agent.ainvoke({"messages": said}, context=ALICE)
        assert ("user:alice", 12) in await learnt(memory)
        said += [{"role": "assistant", "content": "Very well."}, {"role": "user", "content": "I live in Oslo."}]
        await agent.ainvoke({"messages": said}, context=ALICE)
        assert ("user:alice", "Oslo") in await learnt(memory)
        for concept, times in ((SEATS, 1), (CITY, 1), (STATEMENT, 2)):
            revisions = await memory.for_run().held.use(partial(_told_of, concept))
            assert len(revisions) == times


async def test_a_run_that_was_cancelled_leaves_nothing_behind(memory: AgentMemory) -> None:
    waiting = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        waiting.set()
        await anyio.sleep_forever()
        return ""

    agent = agent_of(memory, model(calling("wait")), [wait])
    async with memory:
        await know(memory, "Oslo")
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await agent.ainvoke({"messages": [HumanMessage("We booked 12 seats.")]}, context=ALICE)

            tasks.start_soon(run)
            await waiting.wait()
            tasks.cancel_scope.cancel()
        assert await learnt(memory) == [("user:alice", "Oslo")]


async def test_streams_show_nothing_of_it(memory: AgentMemory) -> None:
    agent = agent_of(memory, model(calling("look_up")), [look_up], checkpointer=InMemorySaver())
    async with memory:
        await know(memory, "Oslo")
        modes = ["values", "updates", "messages", "debug", "tasks", "checkpoints"]
        seen = [part async for part in agent.astream(WHERE, THREAD, context=ALICE, stream_mode=modes)]
    assert {mode for mode, _ in seen} == set(modes)
    assert "Oslo" not in str(seen)
    assert "<memory>" in str(seen), "its beginning is seen, not what it found"


async def test_an_open_memory_is_for_async_runs_only() -> None:
    chat = model()
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as opened:
        memory = over(opened)
        await know(memory, "Oslo")
        agent = agent_of(memory, chat)
        await agent.ainvoke(WHERE, context=ALICE)
        assert "Oslo" in chat.shown()
        with pytest.raises(CapabilityError, match="address"):
            agent.invoke(WHERE, context=ALICE)


async def test_the_model_may_be_given_tools(memory: AgentMemory) -> None:
    chat = model(calling("save_memory", text="The hall is booked."), "Yes.", calling("recall_memory", query="hall"))
    agent: Any = create_agent(chat, middleware=[FactMemMiddleware(memory, tools=True)])
    async with memory:
        await agent.ainvoke({"messages": [HumanMessage("Book it.")]}, context=ALICE)
        assert [one.name for one in chat.bound] == ["recall_memory", "save_memory", "forget_memory"]
        assert ("user:alice", "The hall is booked.") in await learnt(memory)
        result = await agent.ainvoke({"messages": [HumanMessage("Is it?")]}, context=ALICE)
        assert "The hall is booked." in result["messages"][-2].text
        await know(memory, "Bern", "bob")
        chat.messages = iter([calling("recall_memory", query="Bern city"), "No."])
        result = await agent.ainvoke({"messages": [HumanMessage("Is it?")]}, context=ALICE)
        assert "Bern" not in result["messages"][-2].text


def test_tools_work_without_an_event_loop(memory: AgentMemory) -> None:
    recall, save, _ = memory_tools(memory)
    alice: Any = {"configurable": {"user_id": "alice"}}
    assert save.invoke({"text": "The hall is booked."}, alice) == "Saved."
    assert "The hall is booked." in recall.invoke({"query": "hall"}, alice)
    assert recall.invoke({"query": "hall"}, {"configurable": {"user_id": "bob"}}) == "Nothing is known about that."
    assert recall.args["limit"]["description"].startswith("Maximum")
    memory.close()


async def test_what_was_given_stays_as_it_was(memory: AgentMemory) -> None:
    chat, middleware = model(), list[Any]()
    make_agent = install(memory, into=create_agent)
    make_agent(chat, middleware=middleware)
    assert (middleware, make_agent.__name__) == ([], "create_agent")
    assert inspect.signature(make_agent) == inspect.signature(create_agent)
    agent: Any = create_agent(chat)
    async with memory:
        await know(memory, "Oslo")
        await agent.ainvoke(WHERE, context=ALICE)
    assert "<memory>" not in chat.shown()
    assert chat.bound == []


def test_what_memory_cannot_be_put_into_is_said(memory: AgentMemory) -> None:
    with pytest.raises(CapabilityError, match="install it into create_agent"):
        install(memory, into=model())
    with pytest.raises(CapabilityError, match=r"install\(memory, into=create_agent\)"):
        install(memory, into=create_agent(model()))
    for again in (
        lambda: install(memory, into=install(memory, into=create_agent))(model()),
        lambda: install(memory, into=create_agent)(model(), middleware=[FactMemMiddleware(memory)]),
    ):
        check: Callable[[], Any] = again
        with pytest.raises(InvalidDataError, match="has a memory already"):
            check()


async def test_no_event_loop_is_blocked(tmp_path: Path) -> None:
    """Reading, writing and calls of tools block neither the agent's loop nor that of an open memory."""
    chat = model("Yes.", "Yes.", calling("recall_memory", query="hall"))
    async with over(f"sqlite-vec:{tmp_path / 'facts.db'}") as memory:
        agent: Any = create_agent(chat, middleware=[FactMemMiddleware(memory, tools=True)])
        assert await learnt(memory) == []
        with blockbuster_ctx("factmem"):
            for _ in range(3):
                await agent.ainvoke({"messages": [HumanMessage("We booked 12 seats.")]}, context=ALICE)
            assert ("user:alice", 12) in await learnt(memory)


# Histories of ``langchain_core``: reading, rendering, compression and recognition of blocks.

FORM = LangChainFormat()
BLOCKS: Any = [
    {"type": "text", "text": "I live in Oslo."},
    {"type": "image", "url": "https://example.org/oslo.png"},
    {"type": "text", "text": " It rains."},
]


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        (HumanMessage("Hello.", id="m1", name="Ana"), Message(content="Hello.", id="m1", name="Ana")),
        (HumanMessage("Hello.", id=str(uuid.uuid4())), Message(content="Hello.")),
        (HumanMessage(BLOCKS), Message(content="I live in Oslo. It rains.")),
        (AIMessage("Hello.", id="lc_run--1"), Message(content="Hello.", role="assistant")),
        (AIMessageChunk(content="Hello."), Message(content="Hello.", role="assistant")),
        (
            ToolMessage("Sunny.", tool_call_id="1", name="weather"),
            Message(content="Sunny.", role="tool", name="weather"),
        ),
        (SystemMessage("You are a clerk."), Message(content="You are a clerk.", role="system")),
        (ChatMessage(content="Hello.", role="critic"), Message(content="Hello.", role="critic")),
        (
            HumanMessage("Here is a summary.", additional_kwargs={"lc_source": "summarization"}),
            Message(content="Here is a summary.", role="system"),
        ),
        (HumanMessage("What is known.", name=MEMORY_NAME), Message(content="What is known.", role=MEMORY_ROLE)),
        (calling("look_up"), None),
        (HumanMessage(""), None),
        (RemoveMessage(id="m1"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_message_says(native: BaseMessage, expected: Message | None) -> None:
    found = FORM.messages(native)
    assert [(one.content, one.role, one.id) for one in found] == (
        [] if expected is None else [(expected.content, expected.role, expected.id)]
    )
    assert FORM.calls(native) is (native.type == "ai" and bool(getattr(native, "tool_calls", None)))


def test_blocks_without_text_are_counted() -> None:
    """Media of people and models are counted; calls of tools and thoughts are not media."""
    picture: Any = {"type": "image_url", "image_url": {"url": "https://example.org/oslo.png"}}
    thought: Any = [{"type": "thinking", "thinking": "Hm."}, {"type": "tool_use", "id": "1", "name": "f", "input": {}}]
    natives = [HumanMessage(BLOCKS), HumanMessage([picture, picture]), AIMessage([*thought, "Hello."])]
    assert [[one.not_text for one in FORM.messages(native)] for native in natives] == [[1], [2], [0]]
    assert not FORM.messages(AIMessage(thought))


async def test_stored_blocks_are_recognized() -> None:
    memory = Memory(InMemoryProvider(), embedder=HashEmbedder())
    async with memory:
        await memory.save(SingleFact(SEATS, 12), scope="/agent/clerk")
        agent = AgentMemory(AgentMemoryConfig(store=memory, agent_name="clerk", users="shared"))
        history: list[BaseMessage] = [SystemMessage("You are a clerk."), HumanMessage("How many seats?")]
        once = await agent.load_all_facts_to_agent(history)
        stored = messages_from_dict(messages_to_dict(once))
        twice = await agent.load_all_facts_to_agent(stored)
    assert [message.type for message in once] == ["system", "human", "human"]
    assert "12" in once[1].text
    assert [message.text for message in twice] == [message.text for message in once]
    assert len(history) == 2


def test_a_message_has_the_same_id_however_its_history_comes_in() -> None:
    def handed_in() -> list[Any]:
        return [
            HumanMessage("Yes.", id=str(uuid.uuid4())),
            AIMessage("Good.", id=f"run-{uuid.uuid4()}"),
            HumanMessage("Yes.", id=str(uuid.uuid4())),
        ]

    first, second = spoken(FORM, handed_in()), spoken(FORM, handed_in())
    assert [message.id for message in first] == [message.id for message in second]
    assert len({message.id for message in first}) == 3


def test_no_facts_means_no_block() -> None:
    history = [FORM.memory(MemoryBlock(text="old")), HumanMessage("Hello.")]
    assert with_block(FORM, history, MemoryBlock()) == history[1:]


async def test_a_history_is_compressed_to_its_facts() -> None:
    compression = FactRetrievalCompression(InstructorDetector(ScriptedModel(well)), [SEATS])
    history: list[BaseMessage] = [
        SystemMessage("You are a clerk."),
        HumanMessage("We booked 12 seats."),
        calling("look_up"),
        ToolMessage("There are 99 seats", tool_call_id="1"),
        AIMessage("Very well."),
        HumanMessage("Is it enough?"),
        calling("look_up", "2"),
    ]
    compressed = await compression.compress(history)
    assert [message.type for message in compressed] == ["system", "human", "ai", "human", "ai"]
    assert [compressed[place] for place in (0, 1, 3, 4)] == [history[place] for place in (0, 1, 5, 6)]
    assert ("12" in compressed[2].text, "99" in compressed[2].text) == (True, False)


def test_the_messages_are_found_by_their_class() -> None:
    assert isinstance(format_of([HumanMessage("Hello.")]), LangChainFormat)
