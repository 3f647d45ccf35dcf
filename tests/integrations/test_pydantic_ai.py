"""pydantic-ai: the prompts of a model, the history of a result, and facts saved from a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent, RunContext, ToolReturn
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCalls, FunctionModel
from pydantic_ai.models.test import TestModel

from factmem import AgentMemory, Memory, MemoryScope, Message, SingleFact
from factmem.abc.detector import MEMORY_ROLE
from factmem.agent import install
from factmem.agent.chat_history import with_block
from factmem.agent.config import USER, Hooks, RunIdentity
from factmem.agent.rendering import MemoryBlock
from factmem.errors import CapabilityError
from factmem.integrations.pydantic_ai import AgentWithMemory, MemoryCapability, PydanticAIFormat
from tests.agent.installed import memory_over, plugin
from tests.memory.telling import CITY, words
from tests.narrowing import not_none

ALICE = SimpleNamespace(user_id="alice", session_id="monday")
ASKED = "Where do I live?"


class Heard:
    """A model that answers and records its requests."""

    def __init__(self, answer: str = "Very well.") -> None:
        self.requests: list[list[ModelMessage]] = []
        self.instructions: list[str | None] = []
        self.answer = answer

    def model(self) -> FunctionModel:
        return FunctionModel(self._respond, stream_function=self._stream)

    @property
    def shown(self) -> list[str]:
        """Return the system's and users' prompts of each request, in order."""
        return [
            "|".join(str(getattr(part, "content", "")) for message in request for part in message.parts)
            for request in self.requests
        ]

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(messages)
        self.instructions.append(info.instructions)
        answered = any(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
        if info.function_tools and not answered:
            return ModelResponse(parts=[ToolCallPart(info.function_tools[0].name, {})])
        return ModelResponse(parts=[TextPart(self.answer)])

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        self.requests.append(messages)
        for word in self.answer.split(" "):
            yield f"{word} "


async def knowing(memory: Memory, city: str = "Oslo", name: str = "alice") -> AgentMemory:
    await memory.save(SingleFact(CITY, city), subject=USER.individual(name), scope=MemoryScope.agent("clerk"))
    return plugin(memory)


async def test_what_is_known_stands_before_the_prompt_and_after_the_system_prompt_in_the_request_alone(
    memory: Memory,
) -> None:
    heard = Heard()
    agent = install(
        await knowing(memory), into=Agent(heard.model(), system_prompt="You are a clerk.", instructions="Be brief.")
    )
    result = await agent.run(ASKED, deps=ALICE)
    (shown,) = heard.shown
    assert shown.startswith("You are a clerk.|<memory>")
    assert shown.endswith(f"</memory>|{ASKED}")
    assert "Oslo" in shown
    assert heard.instructions == ["Be brief."], "the block is not an instruction"
    assert b"Oslo" not in ModelMessagesTypeAdapter.dump_json(result.all_messages())
    assert [type(part).__name__ for part in result.all_messages()[0].parts] == ["SystemPromptPart", "UserPromptPart"]


async def test_each_request_of_a_run_has_one_block_and_no_tool_answer_is_separated_from_its_call(
    memory: Memory,
) -> None:
    """A tool may add words to its answer, which have the user's role."""
    heard = Heard()
    agent = Agent(heard.model())

    @agent.tool_plain
    def look_up() -> ToolReturn[str]:
        """Look at the page."""
        return ToolReturn("a page", content=["I live in Paris."])

    installed = install(await knowing(memory), into=agent)
    await installed.run(ASKED, deps=ALICE)
    assert [shown.count("<memory>") for shown in heard.shown] == [1, 1]
    kinds = [type(part).__name__ for message in heard.requests[1] for part in message.parts]
    assert kinds[:4] == ["UserPromptPart", "UserPromptPart", "ToolCallPart", "ToolReturnPart"]
    assert "I live in Paris." not in words(await memory.list_records()), "nor are its words the user's"


async def test_the_agent_that_was_given_stays_as_it_was(memory: Memory) -> None:
    heard = Heard()
    agent = Agent(heard.model(), name="clerk")
    installed = install(await knowing(memory), into=agent)
    assert isinstance(installed, AgentWithMemory)
    assert installed.name == "clerk"
    await agent.run("I live in Bern.", deps=ALICE)
    assert words(await memory.list_records()) == []
    assert "<memory>" not in heard.shown[0]


async def test_tools_may_be_added_to_an_agent_that_has_a_memory(memory: Memory) -> None:
    installed: Any = install(plugin(memory), into=Agent(TestModel()))

    def ring() -> str:
        return "rang"

    installed.tool_plain(ring)
    assert "rang" in (await installed.run("Ring.")).output
    with pytest.raises(AttributeError, match="no_such"):
        _ = installed.no_such


async def test_a_run_that_is_left_before_its_end_is_not_learnt_from(memory: Memory) -> None:
    agent = install(plugin(memory), into=Agent(Heard().model()))
    async with agent.iter("I have a cat.", deps=ALICE) as run:
        async for _ in run:
            break
    assert words(await memory.list_records()) == []


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_run_that_raises_or_is_cancelled_leaves_all_as_it_was(cancelled: bool, memory: Memory) -> None:
    async def fail(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if cancelled:
            scope.cancel()
            await anyio.sleep_forever()
        raise OSError("the model is away")

    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("Hello.")]),
        ModelResponse(parts=[TextPart("Hi.")]),
    ]
    before = ModelMessagesTypeAdapter.dump_json(history)
    agent = install(await knowing(memory), into=Agent(FunctionModel(fail)))
    with anyio.CancelScope() as scope:
        with pytest.raises((OSError, asyncio.CancelledError)) as raised:
            await agent.run(ASKED, deps=ALICE, message_history=history)
        if cancelled:
            raise raised.value
    assert scope.cancelled_caught is cancelled
    assert [record.value for record in await memory.list_records()] == ["Oslo"]
    assert ModelMessagesTypeAdapter.dump_json(history) == before


async def test_a_run_says_whom_it_works_for_and_the_program_goes_before_it() -> None:
    """By default the deps name the user, and pydantic-ai's own id names the conversation."""
    ids: list[Any] = []

    async def note(identity: RunIdentity, history: Sequence[Message]) -> bool:
        ids.append((identity.user_id, identity.session_id))
        return False

    async with memory_over() as store:
        memory = plugin(store, hooks=Hooks(before_load=note))
        agent = install(memory, into=Agent(TestModel()))
        await agent.run(ASKED, deps=SimpleNamespace(user_id=7, session_id="monday"))
        await agent.run(ASKED, deps={"user_id": "bob"}, conversation_id="c1")
        with memory.run("carol"):
            await agent.run(ASKED, deps=ALICE)

        def by_metadata(ctx: RunContext[Any]) -> RunIdentity:
            return RunIdentity(user_id=str((ctx.metadata or {})["tenant"]))

        own = Agent(TestModel(), capabilities=[MemoryCapability(memory, identity=by_metadata)])
        await own.run(ASKED, metadata={"tenant": "dora"})
    assert ids == [("7", "monday"), ("bob", "c1"), ("carol", "monday"), ("dora", None)]


async def test_tools_are_offered_when_they_are_asked_for() -> None:
    async with memory_over() as store:
        memory = plugin(store)
        offered = not_none(MemoryCapability[Any](memory, tools=True).get_toolset())
        assert [*offered.tools] == ["recall_memory", "save_memory", "forget_memory"]
        installed = install(memory, into=Agent(TestModel(call_tools=[])))
        assert isinstance(installed, AgentWithMemory)
        assert installed.capability.get_toolset() is None, "tools are added on request only"


async def test_a_memory_that_is_installed_twice_adds_one_block_and_the_runs_settings_come_first() -> None:
    heard = Heard()
    async with memory_over() as store, memory_over() as other:
        memory = await knowing(store)
        agent = install(
            memory, into=install(memory, into=Agent(heard.model(), capabilities=[MemoryCapability(memory)]))
        )
        await agent.run(ASKED, deps=ALICE)
        await agent.run(ASKED, deps=ALICE, capabilities=[MemoryCapability(await knowing(other, "Rome"))])
    assert [shown.count("<memory>") for shown in heard.shown] == [1, 1]
    assert ["Oslo" in shown for shown in heard.shown] == [True, False]


def test_histories_are_read_with_their_speakers_and_stored_blocks_are_recognized() -> None:
    form = PydanticAIFormat()
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(["Look:", BinaryContent(b"x", media_type="image/png")])]),
        ModelResponse(parts=[ThinkingPart("hm"), TextPart("A cat."), ToolCallPart("look", {})]),
        ModelRequest(parts=[ToolReturnPart("look", {"page": 1}, "1")]),
        ModelResponse(parts=[TextPart("Broken o")], state="interrupted"),
        form.summary("All of it."),
    ]
    block = MemoryBlock(text="<memory/>", records=(object(),))  # type: ignore[arg-type]
    dumped = ModelMessagesTypeAdapter.dump_json(with_block(form, history, block))
    stored = ModelMessagesTypeAdapter.validate_json(dumped)
    said = [(message.role, message.content) for native in stored for message in form.messages(native)]
    assert said == [
        (MEMORY_ROLE, "<memory/>"),
        ("user", "Look:"),
        ("assistant", "A cat."),
        ("tool", '{"page":1}'),
        ("assistant", "All of it."),
    ]
    assert [form.calls(native) for native in stored] == [False, False, True, False, False, False]


def test_parts_without_text_are_counted() -> None:
    form, image = PydanticAIFormat(), BinaryContent(b"x", media_type="image/png")
    natives: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(["Look:", image, ImageUrl("https://example.org/a.png"), CachePoint()])]),
        ModelRequest(parts=[UserPromptPart([image])]),
        ModelResponse(parts=[FilePart(image), TextPart("Here."), ThinkingPart("hm")]),
    ]
    said = [[(message.content, message.not_text) for message in form.messages(native)] for native in natives]
    assert said == [[("Look:", 2)], [("", 1)], [("", 1), ("Here.", 0)]]


def test_memory_is_put_into_agents_alone() -> None:
    with pytest.raises(CapabilityError, match="not into a TestModel"):
        install(AgentMemory, into=TestModel(), store="none:")
