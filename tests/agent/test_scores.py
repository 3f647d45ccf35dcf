"""Minimum score and weights of recall, as set by an agent."""

from __future__ import annotations

import datetime as dt

from factmem import AgentMemory, Conversation, Memory, MemoryScope, Message, RecallSettings
from factmem.agent import Loading
from factmem.agent.config import USER
from factmem.recall import Additive
from tests.agent.installed import plugin, user
from tests.memory.telling import BEGAN

AGENT = MemoryScope.agent("clerk")
ASKED = [user("Which hall has 120 seats?")]
NEWEST_FIRST = RecallSettings(
    composite=Additive(similarity_weight=0.0, recency_weight=1.0, importance_weight=0.0), half_life_days=10_000
)


async def remember_both(memory: Memory) -> None:
    """Save a statement about the hall and, a year later in another conversation, one about soup."""
    for number, text in enumerate(("The north hall has 120 seats.", "Lunch was soup.")):
        message = Message(content=text, id=f"m{number}", timestamp=BEGAN + number * dt.timedelta(days=365))
        await memory.remember(Conversation(messages=(message,), id=f"talk {number}"), subject=USER, scope=AGENT)


async def rendered(agent: AgentMemory) -> tuple[bool, bool]:
    """Return whether the block holds the statement about the hall, and the one about soup."""
    block = await agent.load_all_facts_to_agent(ASKED)
    text = str(block[0]["content"]) if len(block) > 1 else ""
    return "hall" in text, "soup" in text


async def test_all_records_are_rendered_unless_a_minimum_score_is_set(memory: Memory) -> None:
    await remember_both(memory)
    assert await rendered(plugin(memory)) == (True, True)
    assert await rendered(plugin(memory, loading=Loading(min_score=0.3))) == (True, False)
    assert await rendered(plugin(memory, loading=Loading(min_score=1))) == (False, False)


async def test_the_tool_applies_the_minimum_score(memory: Memory) -> None:
    await remember_both(memory)
    tools = plugin(memory, loading=Loading(min_score=0.3)).for_run().tools
    answer = await tools.recall_memory("Which hall has 120 seats?")
    assert ("hall" in answer, "soup" in answer) == (True, False)
    assert await tools.recall_memory("zxqv blorp") == "Nothing is known about that."


async def test_standing_instructions_ignore_the_minimum_score(memory: Memory) -> None:
    await memory.remember("Always answer in French.", subject=USER, scope=AGENT)
    (_, asked) = await plugin(memory, loading=Loading(min_score=1)).load_all_facts_to_agent(ASKED)
    assert asked == ASKED[0]


async def test_the_newer_record_stands_in_for_a_better_match(memory: Memory) -> None:
    for number, text in enumerate(("I live in Oslo.", "I moved to Lisbon.")):
        message = Message(content=text, id="m", timestamp=BEGAN + number * dt.timedelta(days=1))
        await memory.remember(Conversation(messages=(message,), id=f"talk {number}"), subject=USER, scope=AGENT)
    new, old = await memory.recall("Do I live in Oslo?")
    assert old.newer == new.record
    loading = Loading(min_score=(old.score + new.score) / 2)
    block = await plugin(memory, loading=loading).load_all_facts_to_agent([user("Do I live in Oslo?")])
    assert ("Lisbon" in block[0]["content"], "Oslo" in block[0]["content"]) == (True, False)


async def test_the_weights_of_an_agent_hold_in_a_memory_that_has_others(memory: Memory) -> None:
    await remember_both(memory)
    only_best = Loading(limit=1)
    agent = plugin(memory, loading=only_best)
    newest = plugin(memory, loading=only_best, recall=NEWEST_FIRST)
    assert (await rendered(agent), await rendered(newest)) == ((True, False), (False, True))
    tools = newest.for_run().tools
    assert "soup" in await tools.recall_memory("Which hall has 120 seats?", limit=1)
    assert (await memory.recall("Which hall has 120 seats?", limit=1))[0].record.value.startswith("The north hall")
