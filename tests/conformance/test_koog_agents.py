"""Requirements of Koog's tests of agents, nodes and compression, and its defects there.

The numbers are those of Koog's tests and the letters those of its defects, in the study that factmem's
vocabulary comes from. Covered elsewhere:

- 1 NoMemory: agent/test_saving.py::test_nothing_is_kept_without_a_store
- 2, 6, 7, 9, 11 saving from the history, one concept or several:
  agent/test_saving.py::test_typed_facts_are_found_with_their_source,
  agent/test_nodes.py::test_only_the_given_concepts_are_detected
- 3, 8 every scope of the profile is read:
  agent/test_loading.py::test_only_the_scopes_that_the_agent_takes_part_in_are_read
- 4, D1, D2 order of precedence: agent/test_loading.py::test_loading_twice_leaves_one_up_to_date_block,
  agent/test_loading.py::test_a_stronger_subject_goes_before_a_narrower_scope_and_that_before_a_newer_time
- 10, 12 auto-detection: agent/test_nodes.py::test_saving_changes_nothing_of_the_state
- 13 a node changes the prompt: agent/test_nodes.py::test_loading_gives_an_update_of_the_state
- 23, 26, D12 the prompt is unchanged: agent/test_nodes.py::test_saving_changes_nothing_of_the_state
- 24, 25 facts replace the history: agent/test_compression.py::test_facts_replace_the_messages
- 27, 28 the fallback: agent/test_compression.py::test_a_failing_model_means_the_fallback
- 29, 30, D13 escaping: agent/test_compression.py::test_facts_are_escaped,
  agent/test_loading.py::test_no_value_closes_the_block
- 36, 37, D4 a token budget, ranked first:
  agent/test_loading.py::test_the_budget_keeps_the_best_matches
- D3 dates: agent/test_loading.py::test_speaker_date_and_subject_are_rendered
- D4 no duplicates: agent/test_loading.py::test_values_of_a_multiple_are_rendered_once_and_of_one_level
- D19 a typed marker, no magic sentence: agent/test_loading.py::test_text_that_resembles_a_block_is_not_a_block,
  agent/test_compression.py::test_a_rendered_block_is_kept_and_not_read_for_facts
- long-term memory, retrieval and ingestion: agent/test_saving.py::test_a_run_may_opt_out,
  agent/test_saving.py::test_a_growing_history_is_learnt_from_once
- failure policies: agent/test_saving.py::test_an_agent_goes_on_without_its_memory_unless_the_policy_says_otherwise
- chat memory, sessions isolated: agent/test_saving.py::test_the_same_session_of_two_users_is_two_conversations

Detection itself is in ``test_koog_detection.py``. Deliberate differences: 5 (a timestamp is the time of the
message, so equal ones are legal), 14 to 18 and the file store (see ``test_koog.py``).
"""

from __future__ import annotations

import pytest

from factmem import Concept, FactDetails, InMemoryProvider, MemoryScope, MemorySubject, MultipleFacts, SingleFact
from factmem.agent import Saving
from factmem.agent.config import USER, AgentMemoryConfig
from factmem.agent.plugin import AgentMemory
from factmem.errors import InvalidDataError
from factmem.scopes import ScopeKind
from factmem.testing import HashEmbedder, ScriptedModel
from tests.agent.installed import assistant, memory_over, plugin, texts, user
from tests.memory.telling import CITY, PETS, SEATS, opened, well

ASKED = user("What do you know?")
SUPPORT = {
    "user-preferences": "Prefers calls to mails",
    "user-issues": "The printer jams",
    "diagnostic-results": "Roller worn",
    "organization-solutions": "Replace the roller",
}


async def test_31_to_35_a_second_agent_knows_what_the_first_one_kept_for_the_product() -> None:
    """It finds no facts of the first agent's own scope."""
    async with memory_over() as memory:
        for keyword, value in SUPPORT.items():
            await memory.save(SingleFact(Concept.single(keyword, "x"), value), scope=MemoryScope.product("desk"))
        first = plugin(memory, agent_name="first", product_name="desk")
        handle = await first.save_facts_from_history([user("I live in Oslo."), assistant("Noted.")])
        assert handle is not None
        second = plugin(memory, agent_name="second", product_name="desk")
        loaded = texts(await second.load_all_facts_to_agent([ASKED]))[0]
        assert [value in loaded for value in SUPPORT.values()] == [True] * 4
        assert "Oslo" not in loaded
        assert "Oslo" in texts(await first.load_all_facts_to_agent([ASKED]))[0]


async def test_d5_what_is_known_can_be_taken_back_and_forgotten() -> None:
    async with memory_over() as memory:
        agent = plugin(memory)
        (record,) = await memory.save(SingleFact(CITY, "Oslo"), subject=USER)
        await memory.retract(record.id)
        assert await agent.load_all_facts_to_agent([ASKED]) == [ASKED]
        await memory.restore(record.id)
        assert len(await agent.load_all_facts_to_agent([ASKED])) == 2
        await memory.forget(record.id)
        assert await agent.load_all_facts_to_agent([ASKED]) == [ASKED]


async def test_d10_an_organizations_name_is_a_wall() -> None:
    """Koog uses it only to switch a scope on."""
    provider = InMemoryProvider()
    async with opened(provider, viewer=None, organization="acme") as acme:
        await acme.save(SingleFact(CITY, "Oslo"), subject=USER)
    for organization, loaded in (("evil", 1), ("acme", 2)):
        async with plugin(provider, organization_name=organization, embedder=HashEmbedder()) as agent:
            assert len(await agent.load_all_facts_to_agent([ASKED])) == loaded


async def test_d11_nothing_to_remember_is_no_fact() -> None:
    """No value stands for a missing fact."""
    async with memory_over(ScriptedModel(lambda prompt, answer: {})) as memory:
        handle = await plugin(memory).save_facts_from_history([user("Hello there.")])
        assert handle is not None
        await handle.wait()
        assert await memory.list_records() == []


async def test_d15_subjects_are_given_and_never_registered() -> None:
    """Two equal subjects are one: a fact is rendered once."""
    team = MemorySubject("team", "the user's team")
    async with memory_over() as memory:
        await memory.save(SingleFact(CITY, "Oslo"), subject=team)
        agent = plugin(memory, subjects=[team, MemorySubject("team", "the user's team"), MemorySubject("ghost")])
        assert texts(await agent.load_all_facts_to_agent([ASKED]))[0].count("Oslo") == 1
        assert await plugin(memory).load_all_facts_to_agent([ASKED]) == [ASKED]


def test_d21_a_scope_without_a_name_is_an_error_on_request() -> None:
    """Koog saves nothing, without an error."""
    with pytest.raises(InvalidDataError, match="feature"):
        AgentMemoryConfig(saving=Saving(scope=ScopeKind.FEATURE))


def test_d22_nobody_overwrites_the_agents_name() -> None:
    config = AgentMemoryConfig(agent_name="mine", store="memory:")
    memory = AgentMemory(config)
    assert memory.config is config
    assert [str(scope) for scope in memory.config.scopes] == ["/agent/mine", "/cross-product"]


async def test_d23_one_question_for_all_concepts() -> None:
    model = ScriptedModel(well)
    async with memory_over(model) as memory:
        handle = await plugin(memory).save_facts_from_history(
            [user("I live in Oslo. We booked 12 seats. I have a cat.")]
        )
        assert handle is not None
        await handle.wait()
    assert len([prompt for prompt in model.prompts if "<conversation>" in prompt.content]) == 1


async def test_facts_of_every_kind_stand_in_one_message() -> None:
    """Koog adds a message for each concept, and two for one keyword with two descriptions."""
    async with memory_over() as memory:
        await memory.save(SingleFact(CITY, "Oslo"), subject=USER)
        await memory.save(SingleFact(SEATS, 12), subject=USER)
        await memory.save(MultipleFacts(PETS, ("cat", "dog")), subject=USER, details=FactDetails(importance=1.0))
        loaded = await plugin(memory).load_all_facts_to_agent([ASKED])
        assert len(loaded) == 2
        assert texts(loaded)[0].count("<fact") == 4
