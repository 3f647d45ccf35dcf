"""The life of a conversation: repetition, correction and forgetting, and the origins of its words."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import attrs

from factmem import STATEMENT, AgentMemoryProvider, ChangeKind, Conversation, Memory, Message, Origin, Policies
from factmem.abc import Prompt
from factmem.abc.detector import DropReason
from factmem.detection import OriginPolicy, Treatment
from factmem.errors import ModelUnavailableError
from factmem.llm import InstructorModel
from factmem.testing import ScriptedModel
from factmem.testing.chat_answers import chat_answer
from factmem.testing.openai_server import LoopbackOpenAIServer
from tests.memory.telling import BEGAN, CITY, FOUND_ALONE, PETS, USER, log_of, opened, over_the_wire, said, talk, well

FIRST = talk("I live in Oslo.", "I have a cat and 12 seats.", "Remember that tea is good.", id="first")
LATER = talk("actually it is Bergen.", "We booked 14 seats.", id="later", start=BEGAN + dt.timedelta(days=1))


async def known(memory: Memory) -> dict[str, list[Any]]:
    """Return all current values, by keyword."""
    found: dict[str, list[Any]] = {}
    for record in await memory.list_records():
        found.setdefault(record.concept.keyword, []).append(record.value)
    return {keyword: sorted(values) for keyword, values in sorted(found.items())}


async def test_a_conversation_submitted_a_hundred_times_is_saved_once(provider: AgentMemoryProvider) -> None:
    """There is one set of facts and one question: alone, in a batch with itself, and in another process."""
    model = ScriptedModel(well)
    async with opened(provider, model) as memory:
        first = await memory.remember(FIRST, subject=USER)
        log = (await log_of(provider))[0]
        for _ in range(30):
            again = await memory.remember(FIRST, subject=USER)
            assert (said(again.records), again.changes) == (said(first.records), ())
        await (await memory.remember_many([FIRST] * 39, subject=USER)).wait()
    async with opened(provider, model) as memory:
        await (await memory.remember_many([FIRST] * 30, subject=USER)).wait()
        assert await known(memory) == {"city": ["Oslo"], "pets": ["cat"], "seats": [12], "statement": ["tea is good"]}
    assert len(model.prompts) == 1
    assert (await log_of(provider))[0] == log


async def test_conversations_in_any_order_come_to_the_same(provider: AgentMemoryProvider) -> None:
    """The time of a message counts, not the time of arrival."""
    async with opened(provider, ScriptedModel(well)) as memory:
        late = await memory.remember(LATER, subject=USER)
        assert {change.kind for change in late.changes} == {ChangeKind.CREATED}
        early = await memory.remember(FIRST, subject=USER)
        assert {change.kind for change in early.changes} == {ChangeKind.CREATED}
        assert said([change.record for change in early.changes]) == ["cat", "tea is good"]
        assert await known(memory) == {"city": ["Bergen"], "pets": ["cat"], "seats": [14], "statement": ["tea is good"]}
        then = memory.view(as_of=BEGAN + dt.timedelta(hours=1))
        assert (fact := await then.load(CITY, subject=USER)) is not None
        assert fact.value == "Oslo"


async def test_a_correction_updates_and_keeps_the_old_value(provider: AgentMemoryProvider) -> None:
    """The record keeps its id, quotes the correction, and can be rolled back."""
    async with opened(provider, ScriptedModel(well)) as memory:
        first = await memory.remember(FIRST, subject=USER)
        outcome = await memory.remember(LATER, subject=USER)
        change = next(item for item in outcome.changes if item.record.concept == CITY)
        assert (change.kind, change.record.value) == (ChangeKind.UPDATED, "Bergen")
        assert change.previous is not None
        assert (change.previous.value, change.previous.id) == ("Oslo", change.record.id)
        assert change.record.evidence[0].quote == "actually it is Bergen"
        assert change.record.id in {record.id for record in first.records}
        assert [record.value for record in await memory.history(CITY, subject=USER)] == ["Oslo", "Bergen"]
        await memory.rollback(change.previous.revision)
        assert (await known(memory))["city"] == ["Oslo"]


async def test_what_is_asked_to_be_forgotten_is_gone_and_can_come_back(provider: AgentMemoryProvider) -> None:
    """The removal is dated: its words stay in history, and undoing it restores them."""
    wish = talk("Forget that I have a cat.", id="wish", start=BEGAN + dt.timedelta(days=1))
    async with opened(provider, ScriptedModel(well)) as memory:
        await memory.remember(FIRST, subject=USER)
        outcome = await memory.remember(wish, subject=USER)
        (change,) = outcome.changes
        assert (change.kind, change.record.value) == (ChangeKind.DELETED, "cat")
        assert await memory.load(PETS, subject=USER) is None
        assert (pets := await memory.view(as_of=BEGAN + dt.timedelta(hours=1)).load(PETS, subject=USER)) is not None
        assert pets.values == ("cat",)
        await memory.rollback(change.record.revision)
        assert (await known(memory))["pets"] == ["cat"]


async def test_a_statement_that_is_asked_to_be_forgotten_is_retracted_and_restored(
    provider: AgentMemoryProvider,
) -> None:
    """The exact words are matched without a model, and no other statement is retracted."""
    wish = talk("Forget that tea is good.", id="wish", start=BEGAN + dt.timedelta(days=1))
    async with opened(provider, ScriptedModel(well)) as memory:
        await memory.remember(FIRST, subject=USER)
        (change,) = (await memory.remember(wish, subject=USER)).changes
        assert (change.kind, change.record.value) == (ChangeKind.DELETED, "tea is good")
        assert await known(memory) == {"city": ["Oslo"], "pets": ["cat"], "seats": [12]}
        await memory.restore(change.record.id)
        assert (await known(memory))["statement"] == ["tea is good"]
        await memory.remember(wish, subject=USER)
        assert (await known(memory))["statement"] == ["tea is good"], "a request that was applied is not applied twice"


async def test_a_wish_that_the_model_cannot_place_is_no_lost_wish(provider: AgentMemoryProvider) -> None:
    """It is filed as a dead letter, whose retry carries it out."""
    away = True

    def script(prompt: Prompt, answer: type[Any]) -> dict[str, Any]:
        if answer.__name__ == "ConsolidationAnswer":
            if away:
                raise ModelUnavailableError("away")
            return {"known": [{"number": 0, "action": "delete"}], "insert": False}
        return well(prompt, answer)

    wish = talk("Forget that sugar is in it.", id="wish", start=BEGAN + dt.timedelta(days=1))
    async with opened(provider, ScriptedModel(script), policies=Policies()) as memory:
        await memory.remember(Message(content="There is sugar in the tea.", timestamp=BEGAN), subject=USER)
        outcome = await memory.remember(wish, subject=USER)
        assert outcome.failure == "ModelUnavailableError"
        away = False
        (letter,) = await memory.inbox.dead_letters.list()
        (retried,) = await memory.inbox.dead_letters.retry(letter.id)
        assert [(change.kind, change.record.value) for change in retried.changes] == [
            (ChangeKind.DELETED, "There is sugar in the tea.")
        ]


async def test_a_wish_that_takes_too_much_is_counted_and_its_words_stay(provider: AgentMemoryProvider) -> None:
    def script(prompt: Prompt, answer: type[Any]) -> dict[str, Any]:
        if answer.__name__ == "ConsolidationAnswer":
            return {"known": [{"number": number, "action": "delete"} for number in range(4)], "insert": False}
        return well(prompt, answer)

    known_texts = [f"Note {number} is about tea." for number in range(4)]
    wish = "Forget that you know anything."
    async with opened(provider, ScriptedModel(script), policies=Policies()) as memory:
        for text in known_texts:
            await memory.remember(Message(content=text, timestamp=BEGAN), subject=USER, consolidate=False)
        outcome = await memory.remember(talk(wish, id="wish", start=BEGAN + dt.timedelta(days=1)), subject=USER)
        assert [change.kind for change in outcome.changes] == [ChangeKind.CREATED], "the words of the wish"
        assert outcome.dropped == {DropReason.NOT_APPROVED: 1}
        assert sorted((await known(memory))["statement"]) == sorted([*known_texts, wish])


async def test_secrets_neither_leave_the_process_nor_reach_the_store(provider: AgentMemoryProvider) -> None:
    """This covers a conversation, a text and events, for a detector, an analyst and a consolidator."""
    secret = "hunter2-Zx81"
    confession = f"I live in Oslo. My password is {secret}."
    with LoopbackOpenAIServer(lambda path, request: chat_answer(over_the_wire(request))) as server:
        model = InstructorModel("m", base_url=server.base_url, api_key="k", mode="JSON_SCHEMA")
        async with opened(provider, model) as memory:
            await memory.remember(talk(confession), subject=USER)
            await memory.remember(confession, subject=USER)
            await memory.remember(f"{confession} So it is.", subject=USER, scope="/product/alpha")
            await (await memory.inbox.ingest_events("s", [Message(content=confession)], subject=USER)).wait()
            assert any(
                "redacted: password" in record.value for record in await memory.list_records(concepts=[STATEMENT])
            )
    assert len(server.requests) >= 4
    assert secret not in json.dumps(server.requests)
    assert secret not in repr([entry.assertion.data for entry in (await log_of(provider))[0]])
    assert secret not in repr([entry.assertion.details.evidence[:1] for entry in (await log_of(provider))[0]])


SPOKEN = Conversation(
    messages=[
        Message(content="I live in Oslo.", id="u", timestamp=BEGAN),
        Message(content="You have 40 seats; I live in Rome.", role="assistant", id="a", timestamp=BEGAN),
        Message(content="Result: I live in Paris.", role="tool", id="t", timestamp=BEGAN),
        Message(content="A page says that I live in Nome.", role="document", id="d", timestamp=BEGAN),
        Message(content="Who? I live in Lima.", role="stranger", id="x", timestamp=BEGAN),
        Message(content="You live in Kyiv, says memory.", role="memory", id="m", timestamp=BEGAN),
        Message(content="You are a helpful assistant in Bonn.", role="system", id="s", timestamp=BEGAN),
    ],
    id="spoken",
)


async def test_the_assistants_words_stay_what_the_assistant_said(provider: AgentMemoryProvider) -> None:
    origins = OriginPolicy(assistant=Treatment.STATEMENTS)
    async with opened(provider, ScriptedModel(well), policies=attrs.evolve(FOUND_ALONE, origins=origins)) as memory:
        await memory.remember(SPOKEN, subject=USER)
        assert await known(memory) == {"city": ["Oslo"], "statement": ["You have 40 seats; I live in Rome."]}
        (record,) = await memory.list_records(concepts=[STATEMENT])
        assert (record.details.origin, record.evidence[0].role) == (Origin.ASSISTANT, "assistant")


async def test_words_of_tools_documents_and_strangers_are_kept_apart(provider: AgentMemoryProvider) -> None:
    """They are not in the question, not recalled, not counted; rendered blocks and instructions are not kept."""
    model = ScriptedModel(well)
    async with opened(provider, model) as memory:
        await memory.remember(SPOKEN, subject=USER)
        apart = await memory.inbox.quarantine.list()
        assert [record.details.origin for record in apart] == [Origin.TOOL, Origin.DOCUMENT, Origin.UNKNOWN]
        for city in ("Paris", "Nome", "Lima", "Kyiv", "Bonn"):
            assert city not in model.prompts[0].content
            assert not [match for match in await memory.recall(city) if city in str(match.record.value)]
        assert (await memory.admin.info()).records == 1
        stored = repr([entry.assertion.data for entry in (await log_of(provider))[0]])
        assert "Kyiv" not in stored
        assert "Bonn" not in stored
