"""Superseded statements and retracted facts in the block: the newer record is rendered, retracted ones are not."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from factmem import AgentMemory, Conversation, FactDetails, Memory, MemoryScope, Message, SingleFact
from factmem.agent import Loading
from factmem.agent.config import USER
from factmem.details import Evidence
from factmem.records import FactRecord
from tests.agent.installed import plugin, texts, user
from tests.memory.telling import BEGAN, CITY
from tests.tables import each_case

AGENT, PRODUCT = MemoryScope.agent("clerk"), MemoryScope.product("fair")
ASKED = [user("Where do I live, in Oslo?")]


async def block_of(memory: Memory, loading: Loading | None = None) -> str:
    blocks = await plugin(memory, loading=loading or Loading()).load_all_facts_to_agent(ASKED)
    return str(blocks[0]["content"]) if len(blocks) > 1 else ""


async def remember(memory: Memory, *texts: str) -> None:
    messages = [
        Message(content=text, id=f"m{number}", timestamp=BEGAN + number * dt.timedelta(days=1))
        for number, text in enumerate(texts)
    ]
    await memory.remember(Conversation(messages=tuple(messages), id="talk"), subject=USER, scope=AGENT)


async def save_fact(memory: Memory, city: str, message: str, scope: MemoryScope = AGENT) -> FactRecord[str]:
    evidence = Evidence(quote=city, message_id=message, conversation_id="talk", position=int(message[1:]))
    fact = SingleFact(CITY, city, timestamp=BEGAN)
    (record,) = await memory.save(fact, subject=USER, scope=scope, details=FactDetails(evidence=(evidence,)))
    return record


@each_case("said", "settings", "shown", "left_out")
async def test_the_newer_statement_is_rendered_and_the_older_one_on_request(
    said: list[str], settings: dict[str, Any], shown: list[str], left_out: list[str], memory: Memory
) -> None:
    await remember(memory, *said)
    block = await block_of(memory, Loading(**settings))
    assert [text for text in (*shown, *left_out) if text in block] == shown


async def test_the_words_of_a_retracted_fact_are_not_rendered_until_it_is_restored(memory: Memory) -> None:
    await remember(memory, "Oslo it is, for me.")
    record = await save_fact(memory, "Oslo", "m0")
    await memory.retract(record.id)
    assert await block_of(memory) == ""
    await memory.restore(record.id)
    assert "Oslo" in await block_of(memory)


async def test_the_words_of_a_former_value_give_way_to_the_fact(memory: Memory) -> None:
    await remember(memory, "Oslo it is, for me.")
    await save_fact(memory, "Oslo", "m0")
    await memory.save(SingleFact(CITY, "Rome"), subject=USER, scope=AGENT)
    block = await block_of(memory)
    assert (block.count("Rome"), "Oslo" in block) == (1, False)


@pytest.mark.parametrize("later", [(), ("Rome",)], ids=["as it was", "replaced"])
@pytest.mark.parametrize("first", [AGENT, PRODUCT], ids=str)
async def test_a_value_that_a_stronger_one_overrules_is_not_told_and_the_rest_of_its_words_is(
    first: MemoryScope, later: tuple[str, ...], memory: Memory
) -> None:
    await remember(memory, "I live in Oslo. I like tea.", "Bern it is, for me.", "Rome is where I stay.")
    if first == AGENT:
        await save_fact(memory, "Bern", "m1")
    await save_fact(memory, "Oslo", "m0", PRODUCT)
    for city in later:
        await save_fact(memory, city, "m2", PRODUCT)
    if first == PRODUCT:
        await save_fact(memory, "Bern", "m1")
    block = await block_of(memory)
    assert (block.count("Bern"), block.count("tea"), "Oslo" in block) == (1, 1, False)
    assert ("Rome" in block) is not bool(later)


async def test_a_block_without_a_question_marks_former_values_too(memory: Memory) -> None:
    await remember(memory, "I live in Oslo and my two cats love the garden there.")
    await save_fact(memory, "Oslo", "m0")
    await memory.save(SingleFact(CITY, "Rome"), subject=USER, scope=AGENT)
    (block,) = texts(await plugin(memory).load_all_facts_to_agent([]))
    assert ("Rome" in block, "<overtaken>Oslo</overtaken>" in block) == (True, True)


async def test_the_tool_returns_the_newer_statement_only(memory: Memory, agent: AgentMemory) -> None:
    await remember(memory, "I live in Oslo.", "I moved to Lisbon.")
    answer = await agent.for_run().tools.recall_memory("Where do I live?")
    assert ("Lisbon" in answer, "Oslo" in answer) == (True, False)
