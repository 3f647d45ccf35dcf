"""Google ADK: facts in the requests of its agents, saving from its runs, and unchanged objects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import anyio
import pytest
from google.adk.agents import LlmAgent
from google.adk.apps.app import App
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from factmem import AgentMemory, AgentMemoryConfig, InMemoryProvider, Memory, SingleFact
from factmem.agent import Loading, install
from factmem.errors import CapabilityError, InvalidDataError
from factmem.integrations.adk import MIN_SCORE, FactMemMemoryService
from factmem.testing import HashEmbedder
from tests.integrations.hosts.adk import Scripted, said
from tests.memory.telling import CITY
from tests.narrowing import not_none

pytestmark = pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning:google.adk")

ROME = SingleFact(CITY, "Rome")


def config(**settings: Any) -> AgentMemoryConfig:
    given: dict[str, Any] = {"agent_name": "clerk", "embedder": HashEmbedder(), "concepts": (CITY,)}
    given["store"] = InMemoryProvider()
    return AgentMemoryConfig(**given | settings)


@pytest.fixture
async def memory() -> AsyncIterator[AgentMemory]:
    """A memory with alice's city."""
    async with AgentMemory(config()) as opened:
        await known(opened, "alice", ROME)
        yield opened


async def known(memory: AgentMemory, user_id: str, fact: SingleFact[Any]) -> None:
    with memory.run(user_id=user_id) as run:

        async def save(store: Memory) -> None:
            await store.save(fact, subject=run.user, scope=run.config.home)

        await run.held.use(save)


async def statements(memory: AgentMemory) -> list[str]:
    """Return everything that was saved, oldest first."""

    async def listed(store: Memory) -> list[str]:
        return [record.value for record in await store.list_records(concepts=["statement"], descending=False)]

    return await memory.for_run().held.use(listed)


def app_of(model: Scripted, **agent: Any) -> App:
    return App(name="fair", root_agent=LlmAgent(name="clerk", model=model, **agent))


async def asked(runner: Runner, *texts: str, user_id: str = "alice", session_id: str = "s1", **options: Any) -> None:
    """Run the agent once for each text."""
    sessions = runner.session_service
    if await sessions.get_session(app_name="fair", user_id=user_id, session_id=session_id) is None:
        await sessions.create_session(app_name="fair", user_id=user_id, session_id=session_id)
    for text in texts:
        async for _ in runner.run_async(user_id=user_id, session_id=session_id, new_message=said(text), **options):
            pass


async def events_of(runner: Runner, user_id: str = "alice") -> list[Event]:
    session = not_none(await runner.session_service.get_session(app_name="fair", user_id=user_id, session_id="s1"))
    return session.events


def texts_of(contents: Sequence[types.Content]) -> list[str]:
    return [part.text for content in contents for part in content.parts or () if part.text]


def runner_of(app: App) -> Runner:
    return Runner(app=app, session_service=InMemorySessionService())


async def test_a_runner_gets_a_memory_of_its_own_kind(memory: AgentMemory) -> None:
    """The given runner is unchanged; a memory service is added only if there is none."""
    model = Scripted()
    given = runner_of(app_of(model))
    runner = install(memory, into=given)
    await asked(runner, "Where do I live?")
    assert "Rome" in "".join(texts_of(model.shown[0]))
    assert isinstance(runner.memory_service, FactMemMemoryService)
    assert given.memory_service is None
    assert given.plugin_manager.plugins == []
    own = FactMemMemoryService(memory, top_k=1)
    service = Runner(app=app_of(model), session_service=InMemorySessionService(), memory_service=own)
    assert install(memory, into=service).memory_service is own


def test_the_memory_service_of_a_runner_has_the_minimum_score_of_loading() -> None:
    for loading, least in ((Loading(), MIN_SCORE), (Loading(min_score=0.4), 0.4)):
        runner = install(AgentMemory, into=runner_of(app_of(Scripted())), store="memory:", loading=loading)
        assert isinstance(runner.memory_service, FactMemMemoryService)
        assert runner.memory_service.min_score == least


async def test_memory_goes_into_an_app_once_and_into_no_agent(memory: AgentMemory) -> None:
    app = install(memory, into=app_of(Scripted()))
    with pytest.raises(InvalidDataError, match="already"):
        install(memory, into=app)
    with pytest.raises(CapabilityError, match="App"):
        install(memory, into=LlmAgent(name="clerk"))


async def test_an_agent_run_as_a_tool_loads_and_does_not_save(memory: AgentMemory) -> None:
    """Its user is a model, whose requests are not alice's words."""
    inner = Scripted(script=[types.Part(text="It rains.")])
    weather = LlmAgent(name="weather", model=inner, description="Tells the weather")
    outer = Scripted(script=[types.Part.from_function_call(name="weather", args={"request": "I live in Paris."})])
    runner = runner_of(install(memory, into=app_of(outer, tools=[AgentTool(weather)])))
    await asked(runner, "How is the weather?")
    assert "Rome" in "".join(texts_of(inner.shown[0]))
    assert sorted(await statements(memory)) == ["How is the weather?", "Very well."]


async def test_a_run_that_fails_is_not_learnt_from(memory: AgentMemory) -> None:
    class Failing(Scripted):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            yield LlmResponse(content=said("I"), partial=True)
            raise ValueError("no answer")

    runner = runner_of(install(memory, into=app_of(Failing())))
    with pytest.raises(ValueError, match="no answer"):
        await asked(runner, "I have a dog.")
    assert await statements(memory) == []
    assert not any("<memory>" in event.model_dump_json() for event in await events_of(runner))


async def test_a_run_that_is_cancelled_leaves_nothing_behind(memory: AgentMemory) -> None:
    """Neither the session nor the memory has a trace; the next run is shown the known facts once."""
    asked_for = anyio.Event()

    class Waiting(Scripted):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            if asked_for.is_set():
                async for response in super().generate_content_async(llm_request, stream):
                    yield response
                return
            asked_for.set()
            await anyio.sleep_forever()

    model = Waiting()
    runner = runner_of(install(memory, into=app_of(model)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asked, runner, "I have a dog.")
        await asked_for.wait()
        tasks.cancel_scope.cancel()
    assert await statements(memory) == []
    assert [event.author for event in await events_of(runner)] == ["user"]
    await asked(runner, "Where do I live?")
    assert sum("<memory>" in text for text in texts_of(model.shown[0])) == 1


async def test_an_app_is_the_product_where_the_configuration_names_nothing() -> None:
    async with AgentMemory(config(agent_name=None)) as memory:
        await asked(runner_of(install(memory, into=app_of(Scripted()))), "I have a dog.")

        async def scopes(store: Memory) -> list[str]:
            return [str(scope) for scope in (await store.admin.info()).scopes]

        assert await memory.for_run().held.use(scopes) == ["/product/fair"]
