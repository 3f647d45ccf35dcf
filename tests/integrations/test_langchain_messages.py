"""Histories of ``langchain_core``: reading, rendering, compression and recognition of blocks."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
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

from factmem import InMemoryProvider, Memory, SingleFact
from factmem.abc.detector import MEMORY_ROLE, Message
from factmem.agent.chat_history import MEMORY_NAME, spoken, with_block
from factmem.agent.compression import FactRetrievalCompression
from factmem.agent.config import AgentMemoryConfig
from factmem.agent.plugin import AgentMemory, format_of
from factmem.agent.rendering import MemoryBlock
from factmem.detection import InstructorDetector
from factmem.integrations.langchain import LangChainFormat
from factmem.testing import HashEmbedder, ScriptedModel
from tests.integrations.chat_model import calling
from tests.memory.telling import SEATS, well

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
