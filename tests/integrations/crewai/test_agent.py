"""Memory in an agent of CrewAI: its kickoffs, and its tasks in a crew without memory."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("crewai", reason="crewai is installed in an environment of its own: see .ci/run")
from crewai.agent import Agent
from crewai.crew import Crew
from crewai.flow.flow import Flow, start
from crewai.memory.unified_memory import Memory as CrewAIMemory
from crewai.task import Task

from factmem import AgentMemory, InMemoryProvider, Memory
from factmem.agent import Saving, install
from factmem.agent.config import SavingTime
from factmem.errors import CapabilityError, InvalidDataError
from factmem.integrations.crewai import FactMemStorage
from tests.integrations.crewai.test_crew import agent_memory, known, learnt
from tests.integrations.hosts.crewai import Scripted

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")  # of fields that CrewAI reads itself


@pytest.fixture
def model() -> Scripted:
    return Scripted(model="scripted")


def clerk(model: Scripted, *tools: Any, **settings: Any) -> Agent:
    return Agent(role="clerk", goal="help", backstory="You are brief.", llm=model, tools=list(tools), **settings)


def test_a_kickoff_is_told_what_is_known_and_learnt_from(memory: AgentMemory, model: Scripted) -> None:
    known(memory, "alice", "Rome")
    given = clerk(model)
    agent = install(memory, into=given)
    with memory.run(user_id="alice"):
        assert agent.kickoff("Where do I live? I have a dog.").raw == "Very well."
    assert [shown.count("<memory>") for shown in model.shown] == [1]
    assert "Rome" in model.shown[0]
    assert learnt(memory) == ["user:alice: Very well.", "user:alice: Where do I live? I have a dog."]
    assert isinstance(agent, type(given))
    assert given.memory is None
    given.kickoff("Where do I live?")
    assert "Rome" not in model.shown[1]


async def test_an_async_kickoff_does_the_same(memory: AgentMemory, model: Scripted) -> None:
    known(memory, "alice", "Rome")
    agent = install(memory, into=clerk(model))
    with memory.run(user_id="alice"):
        await agent.kickoff_async("I have a dog.")
        await agent.kickoff("I have a cat.")  # CrewAI returns a coroutine in an event loop
    assert ["Rome" in shown for shown in model.shown] == [True, True]
    assert [line for line in learnt(memory) if "have" in line] == [
        "user:alice: I have a cat.",
        "user:alice: I have a dog.",
    ]


def test_a_continued_conversation_is_saved_once(memory: AgentMemory, model: Scripted) -> None:
    agent = install(memory, into=clerk(model))
    said: list[Any] = []
    with memory.run(user_id="alice", session_id="monday"):
        for text in ("I have a dog.", "I have a cat."):
            said.append({"role": "user", "content": text})
            said.append({"role": "assistant", "content": agent.kickoff(said).raw})

        async def revisions(store: Memory) -> int:
            return len(await store.history("statement"))

        assert memory.for_run().held.use_blocking(revisions) == 4
    assert learnt(memory) == ["user:alice: I have a cat.", "user:alice: I have a dog.", "user:alice: Very well."]


def test_it_remembers_its_tasks_in_a_crew_without_memory(memory: AgentMemory, model: Scripted) -> None:
    known(memory, "alice", "Rome")
    agent = install(memory, into=clerk(model))
    crew = Crew(agents=[agent], tasks=[Task(description="I have a dog.", expected_output="an answer", agent=agent)])
    with memory.run(user_id="alice"):
        crew.kickoff()
    assert "Rome" in model.shown[0]
    assert learnt(memory) == ["user:alice: I have a dog.", "user:alice: Very well."]


def test_a_crew_with_memory_saves_its_tasks_alone(memory: AgentMemory, model: Scripted) -> None:
    agent = install(memory, into=clerk(model))
    task = Task(description="I have a dog.", expected_output="an answer", agent=agent)
    install(memory, into=Crew(agents=[agent], tasks=[task])).kickoff(inputs={"user_id": "alice"})

    async def revisions(store: Memory) -> int:
        return len(await store.history("statement"))

    assert memory.for_run().held.use_blocking(revisions) == 2


@pytest.mark.filterwarnings("ignore:.*callbacks cannot be serialized:UserWarning")
def test_a_copy_has_the_same_memory(memory: AgentMemory, model: Scripted) -> None:
    known(memory, "alice", "Rome")
    agent = install(memory, into=clerk(model))
    task = Task(description="Where does {who} live?", expected_output="an answer", agent=agent)
    with memory.run(user_id="alice"):
        Crew(agents=[agent], tasks=[task]).kickoff_for_each(inputs=[{"who": "she"}, {"who": "Alice"}])
    assert ["Rome" in shown for shown in model.shown] == [True, True]


async def test_it_works_inside_of_a_flow(memory: AgentMemory, model: Scripted) -> None:
    known(memory, "alice", "Rome")
    agent = install(memory, into=clerk(model))

    class Asking(Flow):
        @start()
        async def ask(self) -> str:
            return str((await agent.kickoff_async("Where do I live?")).raw)

    with memory.run(user_id="alice"):
        assert await Asking().kickoff_async() == "Very well."
    assert "Rome" in model.shown[0]


def test_the_program_says_when_it_is_saved(model: Scripted) -> None:
    memory = agent_memory(saving=Saving(when=SavingTime.MANUALLY))
    install(memory, into=clerk(model)).kickoff("I have a dog.")
    assert learnt(memory) == []
    memory.close()


def test_memory_goes_into_agents_without_one(memory: AgentMemory, model: Scripted) -> None:
    agent = install(memory, into=clerk(model))
    with pytest.raises(InvalidDataError, match="already"):
        install(memory, into=agent)
    storage = FactMemStorage(memory)
    own = clerk(model, memory=CrewAIMemory(storage=storage, embedder=storage.embed))
    with pytest.raises(InvalidDataError, match="FactMemStorage"):
        install(memory, into=own)
    with pytest.raises(CapabilityError, match="event loop"):
        install(agent_memory(store=Memory(InMemoryProvider()), embedder=None), into=clerk(model))
