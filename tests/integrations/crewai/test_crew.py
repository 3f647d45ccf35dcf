"""Memory in a crew: facts in the prompts of its agents, saving from its runs, and unchanged objects."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("crewai", reason="crewai is installed in an environment of its own: see .ci/run")
from crewai.memory.unified_memory import Memory as CrewAIMemory

from factmem import AgentMemory, AgentMemoryConfig, InMemoryProvider, Memory, SingleFact
from factmem.agent import Saving, install
from factmem.errors import CapabilityError, InvalidDataError, StoreUnavailableError
from factmem.integrations.crewai import FactMemStorage
from factmem.testing import HashEmbedder
from tests.integrations.hosts.crewai import CALL, Scripted, crew_of, looking_up
from tests.memory.telling import CITY

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")  # of fields that CrewAI reads itself


class Broken(InMemoryProvider):
    """A store that cannot be read."""

    async def version(self, tenant: str | None) -> int:
        raise StoreUnavailableError("out of order")


def agent_memory(**settings: Any) -> AgentMemory:
    given: dict[str, Any] = {"store": InMemoryProvider(), "embedder": HashEmbedder(), "agent_name": "clerk"}
    given["users"] = "shared"
    return AgentMemory(AgentMemoryConfig(**given | settings))


@pytest.fixture
def model() -> Scripted:
    return Scripted(model="scripted")


def known(memory: AgentMemory, user: str, city: str) -> None:
    with memory.run(user_id=user) as run:

        async def save(store: Memory) -> None:
            await store.save(SingleFact(CITY, city), subject=run.user, scope=run.config.home)

        run.held.use_blocking(save)


def learnt(memory: AgentMemory) -> list[str]:
    """Return everything that was saved, in quarantine or not, sorted."""

    async def listed(store: Memory) -> list[str]:
        records = [*await store.list_records(concepts=["statement"]), *await store.inbox.quarantine.list()]
        return sorted(f"{record.subject}: {record.value}" for record in records)

    return memory.for_run().held.use_blocking(listed)


def test_what_is_known_is_in_the_prompt_once_and_nowhere_else(memory: AgentMemory, model: Scripted) -> None:
    """It is in each request of a task; the task, the agent and the crew that were passed are unchanged."""
    known(memory, "alice", "Rome")
    model.script = [CALL]
    given = crew_of(model, "Where do I live?", looking_up(["nothing"]))
    crew = install(memory, into=given)
    crew.kickoff(inputs={"user_id": "alice"})
    assert [shown.count("<memory>") for shown in model.shown] == [1, 1]
    assert "Rome" in model.shown[0]
    assert given.tasks[0].description == "Where do I live?"
    assert given.memory is False
    assert given.before_kickoff_callbacks == given.after_kickoff_callbacks == []
    assert [tool.name for tool in given.agents[0].tools or []] == ["look_up"]


def test_a_run_is_learnt_from_when_it_has_ended_well(memory: AgentMemory, model: Scripted) -> None:
    crew = install(memory, into=crew_of(model, "I have a {animal}."))
    crew.kickoff(inputs={"user_id": "alice", "animal": "dog"})
    crew.kickoff(inputs={"user_id": "bob", "animal": "cat"})
    said = ["user:alice: I have a dog.", "user:alice: Very well.", "user:bob: I have a cat.", "user:bob: Very well."]
    assert learnt(memory) == said

    class Failing(Scripted):
        def call(self, messages: Any, *args: Any, **options: Any) -> str:
            raise ValueError("no answer")

    with pytest.raises(ValueError, match="no answer"):
        install(memory, into=crew_of(Failing(model="failing"), "I have a fish.")).kickoff()
    assert learnt(memory) == said


def test_the_same_words_said_later_are_said_again(memory: AgentMemory, model: Scripted) -> None:
    """Each kickoff is a new conversation, so that an earlier statement can be true again."""
    crew = install(memory, into=crew_of(model, "I have a {animal}."))
    for animal in ("dog", "cat", "dog"):
        crew.kickoff(inputs={"user_id": "alice", "session_id": "s", "animal": animal})

    async def newest(store: Memory) -> str:
        return str((await store.list_records(limit=2))[1].value)

    assert memory.for_run().held.use_blocking(newest) == "I have a dog."


def test_answers_of_tools_are_quarantined_if_kept(model: Scripted) -> None:
    for tool_results, kept in ((False, []), (True, ["user: I live in Paris."])):
        memory = agent_memory(saving=Saving(tool_results=tool_results))
        model.script = [CALL]
        install(memory, into=crew_of(model, "Look.", looking_up(["I live in Paris."]))).kickoff()
        assert learnt(memory) == [*kept, "user: Look.", "user: Very well."]
        with memory.run() as run:
            assert "Paris" not in run.load_blocking().text
        memory.close()


def test_memories_found_by_its_own_tool_are_nothing_new(model: Scripted) -> None:
    memory = agent_memory(saving=Saving(tool_results=True))
    known(memory, "alice", "Rome")
    model.script = ['Thought: x\nAction: search_memory\nAction Input: {"queries": ["home"]}']
    install(memory, into=crew_of(model, "Where do I live?")).kickoff(inputs={"user_id": "alice"})
    assert "Found memories:" in model.shown[1]
    assert learnt(memory) == ["user:alice: Very well.", "user:alice: Where do I live?"]
    memory.close()


@pytest.mark.filterwarnings("ignore:.*callbacks cannot be serialized:UserWarning")
def test_a_crew_is_kicked_off_for_each_of_many(memory: AgentMemory, model: Scripted) -> None:
    """CrewAI copies the crew for that; each copy has the memory, for its own user."""
    for user, city in (("alice", "Rome"), ("bob", "Bern")):
        known(memory, user, city)
    crew = install(memory, into=crew_of(model, "Where does {user_id} live?"))
    crew.kickoff_for_each(inputs=[{"user_id": "alice"}, {"user_id": "bob"}])
    assert [("Rome" in shown, "Bern" in shown) for shown in model.shown] == [(True, False), (False, True)]
    assert [line for line in learnt(memory) if "live" in line] == [
        "user:alice: Where does alice live?",
        "user:bob: Where does bob live?",
    ]


def test_a_kickoff_without_a_user_is_not_the_last_ones(memory: AgentMemory, model: Scripted) -> None:
    known(memory, "alice", "Rome")
    install(memory, into=crew_of(model, "Where?")).kickoff(inputs={"user_id": "alice"})
    install(memory, into=crew_of(model, "Where is {x}?")).kickoff()
    assert "Rome" in model.shown[0]
    assert "Rome" not in model.shown[1]


def test_the_user_may_be_anywhere_in_the_inputs(model: Scripted) -> None:
    memory = agent_memory(user="inputs.uid", users="required")
    known(memory, "alice", "Oslo")
    install(memory, into=crew_of(model, "Where does {uid} live?")).kickoff(inputs={"uid": "alice"})
    assert "Oslo" in model.shown[0]
    memory.close()


def test_memory_goes_into_crews_without_one(memory: AgentMemory, model: Scripted) -> None:
    crew = install(memory, into=crew_of(model, "Hello."))
    with pytest.raises(InvalidDataError, match="already"):
        install(memory, into=crew)
    storage = FactMemStorage(memory)
    own = crew_of(model, "Hello.", memory=CrewAIMemory(storage=storage, embedder=storage.embed))
    with pytest.raises(InvalidDataError, match="FactMemStorage"):
        install(memory, into=own)
    with pytest.raises(CapabilityError, match="Crew"):
        install(memory, into=crew.tasks[0])
    with pytest.raises(CapabilityError, match="event loop"):
        install(agent_memory(store=Memory(InMemoryProvider()), embedder=None), into=crew_of(model, "Hello."))
