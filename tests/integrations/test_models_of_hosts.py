"""Models of hosts in the memories of their agents: real agents and clients over real sockets, which stay open."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import attrs
import pytest
from pydantic import SecretStr

from factmem import AgentMemory, AgentMemoryConfig, BlockingMemory, Memory
from factmem.agent import install
from factmem.testing import HashEmbedder
from factmem.testing.chat_answers import answering, chat_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.memory.telling import CITY, answer_to

pytestmark = [
    pytest.mark.usefixtures("sockets_collected"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

ALICE: Final = SimpleNamespace(user_id="alice", session_id="monday")
PAUSES: Final = (0.0, 0.3, 0.05, 0.0)
CITIES: Final = ("Oslo", "Rome", "Bern", "Paris")


@attrs.define
class Endpoint:
    """A server that answers agents at once, and the questions of a memory once its gate is open."""

    base_url: str = ""
    gate: threading.Event = attrs.field(factory=threading.Event)
    asked: threading.Event = attrs.field(factory=threading.Event)
    questions: int = 0

    def respond(self, path: str, request: dict[str, Any]) -> Answer:
        wanted = _wanted_in(request)
        if wanted is None:
            return chat_answer("Very well.")
        self.questions += 1
        self.asked.set()
        self.gate.wait(60)
        document = next(said["content"] for said in reversed(request["messages"]) if said["role"] == "user")
        answer = answering(answer_to(str(document), wanted))(path, request)
        # A run may end in the middle of an answer that trickles: every other one does.
        return attrs.evolve(answer, drip=0.0005 * (self.questions % 2))


def _wanted_in(request: dict[str, Any]) -> str | None:
    """Return the name of the wanted answer; None for a request of an agent."""
    if tools := request.get("tools"):
        return str(tools[0]["function"]["name"])
    wanted = request.get("response_format", {}).get("json_schema")
    return wanted and str(wanted["schema"].get("title", wanted["name"]))  # the Agents SDK has a name for all answers


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    made.gate.set()
    with LoopbackOpenAIServer(made.respond, keep_alive=True) as server:
        made.base_url = server.base_url
        yield made
        made.gate.set()
    gc.collect()  # sockets that outlive their loop, while their warning is ignored


@attrs.frozen
class Host:
    """A framework: a model with its default client, and an agent with memory, as functions of a text."""

    model: Callable[[str], Any]
    agent: Callable[[AgentMemory, Any], tuple[Callable[[str], Awaitable[Any]], Callable[[str], Any]]]


def _langchain_model(base_url: str) -> Any:
    chat = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    return chat.ChatOpenAI(model="loopback", base_url=base_url, api_key=SecretStr("key"), max_retries=0)


def _langchain_agent(memory: AgentMemory, model: Any) -> Any:
    from langchain.agents import create_agent

    agent: Any = install(memory, into=create_agent)(model)
    whose = vars(ALICE)
    return (
        lambda said: agent.ainvoke({"messages": [said]}, context=whose),
        lambda said: agent.invoke({"messages": [said]}, context=whose),
    )


def _pydantic_ai_model(base_url: str) -> Any:
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIChatModel("loopback", provider=OpenAIProvider(base_url=base_url, api_key="key"))


def _pydantic_ai_agent(memory: AgentMemory, model: Any) -> Any:
    from pydantic_ai import Agent

    agent = install(memory, into=Agent(model, deps_type=SimpleNamespace))
    return lambda said: agent.run(said, deps=ALICE), lambda said: agent.run_sync(said, deps=ALICE)


def _agents_sdk_model(base_url: str) -> Any:
    pytest.importorskip("agents", reason="the extra openai-agents is not installed")
    import openai
    from agents import OpenAIChatCompletionsModel

    return OpenAIChatCompletionsModel("loopback", openai.AsyncOpenAI(base_url=base_url, api_key="key", max_retries=0))


def _agents_sdk_agent(memory: AgentMemory, model: Any) -> Any:
    from agents import Agent, RunConfig, Runner

    agent, quiet = install(memory, into=Agent("Clerk", model=model)), RunConfig(tracing_disabled=True)
    return (
        lambda said: Runner.run(agent, said, context=ALICE, run_config=quiet),
        lambda said: Runner.run_sync(agent, said, context=ALICE, run_config=quiet),
    )


HOSTS: Final = {
    "langchain": Host(_langchain_model, _langchain_agent),
    "pydantic-ai": Host(_pydantic_ai_model, _pydantic_ai_agent),
    "openai-agents": Host(_agents_sdk_model, _agents_sdk_agent),
}
every = pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
one = pytest.mark.parametrize("host", [HOSTS["pydantic-ai"]], ids=["pydantic-ai"])
"""For what the thread of a memory does, whatever asks."""


def memory_with(model: Any, folder: Path) -> AgentMemory:
    return AgentMemory(
        AgentMemoryConfig(
            store=f"{folder}/facts.db", agent_name="clerk", model=model, concepts=[CITY], embedder=HashEmbedder()
        )
    )


def told(folder: Path) -> list[str]:
    """Return every city that was found, in order; nothing waits, and nothing is given up."""
    with BlockingMemory(Memory(f"{folder}/facts.db", embedder=HashEmbedder())) as memory:
        assert not memory.inbox.dead_letters.list()
        (record,) = memory.list_records(concepts=[CITY])
        return sorted({str(revision.value) for revision in memory.history(record.id)}, key=CITIES.index)


@contextlib.contextmanager
def own_loop() -> Iterator[None]:
    """Give this thread the event loop that agents run in when they are called without one."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@every
@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocking", "shared"),
    [
        pytest.param(False, True, id="async-shared"),
        pytest.param(True, False, id="sync-separate"),
        pytest.param(False, False, id="async-separate", marks=pytest.mark.big),
        pytest.param(True, True, id="sync-shared", marks=pytest.mark.big),
    ],
)
def test_an_agent_and_its_memory_ask_one_model(
    host: Host, shared: bool, blocking: bool, endpoint: Endpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """LangChain's models share a client even if they are separate."""
    model = host.model(endpoint.base_url)
    memory = memory_with(model if shared else host.model(endpoint.base_url), tmp_path)
    run, run_blocking = host.agent(memory, model)

    async def talk() -> None:
        for city, pause in zip(CITIES, PAUSES, strict=True):
            await run(f"I live in {city}.")
            await asyncio.sleep(pause)
        await memory.aclose()

    if not blocking:
        asyncio.run(talk())
    else:
        with own_loop():
            for city, pause in zip(CITIES, PAUSES, strict=True):
                run_blocking(f"I live in {city}.")
                time.sleep(pause)
            memory.close()
    assert told(tmp_path) == list(CITIES)
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


@one
def test_no_turn_waits_for_the_memorys_question(host: Host, endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.gate.clear()
    model = host.model(endpoint.base_url)
    memory = memory_with(model, tmp_path)
    run, _ = host.agent(memory, model)

    async def talk() -> None:
        await run("I live in Oslo.")
        await asyncio.to_thread(endpoint.asked.wait, 60)
        await run("I live in Rome.")
        assert endpoint.questions > 0
        endpoint.gate.set()
        await memory.aclose()

    asyncio.run(talk())
    assert told(tmp_path) == ["Oslo", "Rome"]


@one
def test_words_wait_for_the_next_run_if_the_loop_has_ended(host: Host, endpoint: Endpoint, tmp_path: Path) -> None:
    """They are those of another conversation, and none of them becomes a dead letter."""
    endpoint.gate.clear()
    model = host.model(endpoint.base_url)
    memory = memory_with(model, tmp_path)
    run, _ = host.agent(memory, model)

    async def talk_and_end() -> None:
        await run("I live in Oslo.")
        await asyncio.to_thread(endpoint.asked.wait, 60)

    async def talk_again() -> None:
        with memory.run("alice", "tuesday"):
            await run("We booked 12 seats.")
        await memory.aclose()

    asyncio.run(talk_and_end())
    endpoint.gate.set()
    asyncio.run(talk_again())
    assert told(tmp_path) == ["Oslo"]


@one
def test_closing_in_a_running_loop_leaves_the_words_to_the_next_process(
    host: Host, endpoint: Endpoint, tmp_path: Path
) -> None:
    """The loop cannot ask while it waits for the memory to close."""
    endpoint.gate.clear()
    model = host.model(endpoint.base_url)

    async def talk_and_block() -> None:
        memory = memory_with(model, tmp_path)
        run, _ = host.agent(memory, model)
        await run("I live in Oslo.")
        await asyncio.to_thread(endpoint.asked.wait, 60)
        memory.close()
        endpoint.gate.set()

    async def talk_again() -> None:
        async with memory_with(model, tmp_path) as memory:
            run, _ = host.agent(memory, model)
            await run("I live in Rome.")

    asyncio.run(talk_and_block())
    asyncio.run(talk_again())
    assert told(tmp_path) == ["Oslo", "Rome"]


@pytest.mark.parametrize("blocking", [False, True], ids=["async", "sync"])
def test_questions_stay_out_of_callbacks_and_counts_of_the_program(
    blocking: bool, endpoint: Endpoint, tmp_path: Path
) -> None:
    model = _langchain_model(endpoint.base_url)
    from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback

    class Counting(BaseCallbackHandler):
        requests = 0

        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            self.requests += 1

    counting = Counting()
    model.callbacks = [counting]
    memory = memory_with(model, tmp_path)
    run, run_blocking = _langchain_agent(memory, model)

    async def talk() -> None:
        await run("I live in Oslo.")
        await memory.aclose()

    with get_usage_metadata_callback() as counted:
        if blocking:
            run_blocking("I live in Oslo.")
            memory.close()
        else:
            asyncio.run(talk())
    assert told(tmp_path) == ["Oslo"]
    assert counting.requests == 1
    assert [usage["total_tokens"] for usage in counted.usage_metadata.values()] == [2]


@pytest.mark.parametrize("opened", [False, True], ids=["own thread", "open memory"])
def test_questions_are_asked_in_the_loop_of_the_agent_and_no_run_waits_for_them(opened: bool, tmp_path: Path) -> None:
    """This covers what is found and its verification; neither inherits anything of the run."""
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    of_run: ContextVar[str | None] = ContextVar("of_run", default=None)
    ended = asyncio.Event()
    seen: list[tuple[str, str | None, asyncio.AbstractEventLoop]] = []

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        document = str(getattr(messages[-1].parts[-1], "content", ""))
        kind = "run" if not info.output_tools else "verify" if "<claim" in document else "find"
        if kind == "verify":
            await ended.wait()
        seen.append((kind, of_run.get(), asyncio.get_running_loop()))
        if kind == "run":
            return ModelResponse(parts=[TextPart("Very well.")])
        (tool,) = info.output_tools
        claims = {"claims": [{"number": 1, "answer": "yes"}]}
        answer = claims if kind == "verify" else answer_to(document, tool.name)
        return ModelResponse(parts=[ToolCallPart(tool.name, answer)])

    model = FunctionModel(respond)

    async def talk(memory: AgentMemory) -> asyncio.AbstractEventLoop:
        run, _ = _pydantic_ai_agent(memory, model)
        of_run.set("a run's own")
        await run("As they say: I live in Oslo, right?")
        ended.set()
        await memory.aclose()
        return asyncio.get_running_loop()

    async def talk_in_open_memory() -> asyncio.AbstractEventLoop:
        async with Memory(f"{tmp_path}/facts.db", model=model, concepts=[CITY], embedder=HashEmbedder()) as memory:
            return await talk(AgentMemory(AgentMemoryConfig(store=memory, agent_name="clerk", concepts=[CITY])))

    loop = asyncio.run(talk_in_open_memory() if opened else talk(memory_with(model, tmp_path)))
    assert seen == [("run", "a run's own", loop), ("find", None, loop), ("verify", None, loop)]
    assert told(tmp_path) == ["Oslo"]
