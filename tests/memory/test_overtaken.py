"""Superseded statements, and those whose fact was retracted, are marked in the results of recall."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from factmem import (
    AgentMemoryProvider,
    Concept,
    Conversation,
    Evidence,
    FactDetails,
    Memory,
    MemorySubject,
    Message,
    MultipleFacts,
    Origin,
    RecallMatch,
    SingleFact,
)
from factmem.facts import STATEMENT
from factmem.recall.text.updates import overtakes
from factmem.testing import FakeClock, HashEmbedder
from tests.recall.test_updates import matter
from tests.recall.update_pairs import CHAT, UNSEEN

CITY = Concept.single("city", "Where somebody lives")
PETS = Concept.multiple("pets", "Animals that somebody keeps")
OLD, NEW = "I live in Oslo.", "I moved to Lisbon."


@pytest.fixture
def memory(provider: AgentMemoryProvider, clock: FakeClock) -> Memory:
    """A memory with typed concepts, and alice as its viewer."""
    return Memory(provider, viewer="alice", embedder=HashEmbedder(), clock=clock, concepts=[CITY, PETS])


def talk(*texts: str, id: str, at: dt.datetime, name: str | None = None) -> Conversation:
    return Conversation(
        messages=tuple(
            Message(role="user", name=name, content=text, id=f"m{number}", timestamp=at + dt.timedelta(minutes=number))
            for number, text in enumerate(texts)
        ),
        id=id,
    )


async def found(memory: Memory, text: str = OLD, **options: Any) -> RecallMatch:
    """Return the match of a statement, whatever its rank."""
    matches = await memory.recall(text, limit=50, **options)
    return next(match for match in matches if match.record.value == text)


async def newer(memory: Memory, text: str = OLD, **options: Any) -> Any:
    """Return the value of the record that supersedes a statement, or None."""
    match = await found(memory, text, **options)
    return None if match.newer is None else match.newer.value


async def save_found(memory: Memory, fact: Any, message: str, quote: str, *, private: bool = False) -> Any:
    """Save a fact that was found in a message of the conversation ``talk``."""
    evidence = Evidence(quote=quote, message_id=message, conversation_id="talk", role="user", position=int(message[1:]))
    return await memory.save(fact, details=FactDetails(evidence=(evidence,)), private=private)


async def test_an_older_statement_is_marked_with_the_newer_one_and_stands_below_it(memory: Memory) -> None:
    await memory.remember(OLD)
    (before,) = await memory.recall("Where do I live in Oslo?")
    (record,) = (await memory.remember(NEW)).records
    match = await found(memory)
    assert match.newer == record
    assert (match.retracted, (await found(memory, NEW)).newer) == (False, None)
    first, second = await memory.recall("Where do I live in Oslo?")
    assert (first.record, second.record) == (record, before.record)
    assert first.score > second.score > 0.999 * first.score
    assert ("newest" in first.reasons, "newest" in second.reasons) == (True, False)


@pytest.mark.parametrize("limit", [1, 50])
async def test_no_filter_changes_what_a_newer_statement_scores(memory: Memory, limit: int) -> None:
    await memory.remember(OLD, categories=["old"])
    for text in CHAT:
        await memory.remember(text)
    await memory.remember(NEW, categories=["new"])
    first, second = (await memory.recall(OLD, limit=50))[:2]
    (new,) = await memory.recall(OLD, limit=limit, categories=["new"])
    (old,) = await memory.recall(OLD, limit=limit, categories=["old"])
    assert [new.score, old.score] == pytest.approx([first.score, second.score], rel=1e-9)
    assert (new.record.value, old.record.value, old.newer) == (NEW, OLD, new.record)


async def test_the_newest_of_several_is_returned(memory: Memory) -> None:
    for text in (OLD, NEW, "I moved to Rome."):
        await memory.remember(text)
    assert [await newer(memory, text) for text in (OLD, NEW)] == ["I moved to Rome."] * 2


async def test_a_newer_statement_marks_hardly_any_other_remark_of_a_chat(memory: Memory, clock: FakeClock) -> None:
    others = 0
    for number, (older, later) in enumerate(pair for pair in UNSEEN if overtakes(*map(matter, pair[::-1]))):
        texts = (*CHAT[:10], older, *CHAT[10:], later)
        scope = f"/product/{number}"
        await memory.remember(talk(*texts, id=str(number), at=clock() - dt.timedelta(days=1)), scope=scope)
        matches = await memory.recall(older, limit=50, scope=scope)
        marked = {match.record.value: match.newer.value for match in matches if match.newer}
        assert marked.pop(older) == later
        others += len(marked)
    assert others <= 1


async def test_another_speaker_another_origin_and_another_place_overtake_nothing(
    memory: Memory, clock: FakeClock
) -> None:
    await memory.remember(talk(OLD, id="one", at=clock() - dt.timedelta(hours=2), name="Ann"))
    await memory.remember(talk(NEW, id="two", at=clock() - dt.timedelta(hours=1), name="Ben"))
    await memory.remember(NEW, scope="/product/alpha")
    await memory.remember(NEW, subject=MemorySubject("team"))
    await memory.remember(Message(content=NEW, role="assistant", name="Ann"))
    await memory.remember(NEW, private=True)
    assert await newer(memory) is None


async def _message(memory: Memory, text: str) -> None:
    await memory.remember(Message(content=text))


async def _under_own_name(memory: Memory, text: str) -> None:
    await memory.remember(Message(content=text, name="alice"))


async def _saved(memory: Memory, text: str) -> None:
    await memory.save(MultipleFacts(STATEMENT, (text,)))


async def _updated(memory: Memory, text: str) -> None:
    (said,) = await memory.remember(Message(content=text.replace(".", " now.")))
    await memory.update(said.id, value=text)


async def _updated_under_own_name(memory: Memory, text: str) -> None:
    (said,) = await memory.remember(Message(content=text.replace(".", " now."), name="alice"))
    await memory.update(said.id, value=text)


_WAYS = [_message, _under_own_name, _saved, _updated, _updated_under_own_name]


@pytest.mark.parametrize("earlier", _WAYS)
@pytest.mark.parametrize("later", _WAYS)
async def test_a_statement_overtakes_an_earlier_one_in_whatever_way_both_were_written(
    memory: Memory, clock: FakeClock, earlier: Any, later: Any
) -> None:
    alice = memory.for_user("alice")
    await earlier(alice, OLD)
    clock.advance(dt.timedelta(days=1))
    await later(alice, NEW)
    assert await newer(alice) == NEW


@pytest.mark.parametrize("who", ["Tom", None])
async def test_an_updated_statement_of_a_group_overtakes_its_speakers_alone(
    memory: Memory, clock: FakeClock, who: str | None
) -> None:
    group: Any = {"scope": "/product/family"}
    for name in ("Ana", "Tom"):
        await memory.remember(Message(content=OLD, name=name), **group)
    clock.advance(dt.timedelta(days=1))
    (said,) = await memory.remember(Message(content="I moved to Lisboa.", name=who), **group)
    await memory.update(said.id, value=NEW)
    marked = {
        match.record.evidence[0].speaker: match.newer and match.newer.value
        for match in await memory.recall(OLD, limit=9, **group)
        if match.record.value == OLD
    }
    assert marked == {"Ana": None, "Tom": NEW if who else None}


async def test_the_newer_record_lies_in_the_view_and_no_filter_hides_it(memory: Memory) -> None:
    await memory.remember(OLD, scope="/product/alpha", categories=["home"])
    await memory.remember(NEW, scope="/product/alpha")
    between = (await found(memory, NEW)).record.timestamp
    assert await newer(memory.scope("/product/alpha")) == NEW
    assert await newer(memory, scope="/product/alpha") == NEW
    assert await newer(memory, categories=["home"]) == NEW
    assert await newer(memory, until=between) == NEW


async def test_only_records_known_then_are_returned(memory: Memory) -> None:
    (old,) = (await memory.remember(OLD)).records
    (new,) = (await memory.remember(NEW)).records
    later = new.recorded_at + dt.timedelta(milliseconds=1)
    for then in (memory.view(as_of=old.recorded_at), memory.view(known_at=old.recorded_at)):
        assert await newer(then) is None
    for then in (memory.view(as_of=later), memory.view(known_at=later)):
        assert await newer(then) == NEW


async def test_a_newer_statement_that_was_retracted_overtakes_nothing_until_it_is_restored(memory: Memory) -> None:
    await memory.remember(OLD)
    (record,) = (await memory.remember(NEW)).records
    await memory.retract(record.id)
    assert await newer(memory) is None
    await memory.restore(record.id)
    assert await newer(memory) == NEW


async def test_the_words_of_a_fact_are_marked_with_its_new_value(memory: Memory, clock: FakeClock) -> None:
    await memory.remember(talk("Oslo it is, for me.", id="talk", at=clock()))
    await save_found(memory, SingleFact(CITY, "Oslo"), "m0", "Oslo it is")
    text = "Oslo it is, for me."
    assert await newer(memory, text) is None
    await memory.save(SingleFact(CITY, "Rome"))
    assert await newer(memory, text) == "Rome"
    assert await newer(memory, text, concepts=["statement"]) == "Rome", "a filter by concept does not hide it"
    await memory.save(SingleFact(CITY, "Oslo"))
    assert await newer(memory, text) is None


async def test_words_of_which_another_fact_still_holds_are_not_overtaken(memory: Memory, clock: FakeClock) -> None:
    text = "Oslo for me and the cat."
    await memory.remember(talk(text, id="talk", at=clock()))
    await save_found(memory, SingleFact(CITY, "Oslo"), "m0", "Oslo for me")
    await save_found(memory, MultipleFacts(PETS, ("cat",)), "m0", "the cat")
    await memory.save(SingleFact(CITY, "Rome"))
    assert await newer(memory, text) is None


async def test_the_words_of_a_retracted_fact_are_marked_until_it_is_restored(memory: Memory, clock: FakeClock) -> None:
    text = "Oslo it is, for me."
    await memory.remember(talk(text, "Nice weather.", id="talk", at=clock()))
    (fact,) = await save_found(memory, SingleFact(CITY, "Oslo"), "m0", "Oslo it is")
    before = clock()
    await memory.retract(fact.id, reason="it was a joke")
    assert [(await found(memory, said)).retracted for said in (text, "Nice weather.")] == [True, False]
    assert not (await found(memory.view(known_at=before), text)).retracted
    changes = await memory.restore(fact.id)
    assert not (await found(memory, text)).retracted
    undone = await memory.undo(changes)
    assert (await found(memory, text)).retracted
    await memory.undo(undone)
    assert not (await found(memory, text)).retracted


async def test_the_words_of_a_removed_value_are_marked(memory: Memory, clock: FakeClock) -> None:
    text = "The cat and the dog say hello."
    await memory.remember(talk(text, id="talk", at=clock()))
    (cat, _) = await save_found(memory, MultipleFacts(PETS, ("cat", "dog")), "m0", "The cat and the dog")
    assert not (await found(memory, text)).retracted
    await memory.retract(cat.id)
    assert (await found(memory, text)).retracted


async def test_a_rollback_marks_the_words_of_the_value_that_it_took_back(memory: Memory, clock: FakeClock) -> None:
    await memory.remember(talk("Oslo it is.", "No, Rome it is.", id="talk", at=clock()))
    (oslo,) = await save_found(memory, SingleFact(CITY, "Oslo"), "m0", "Oslo it is")
    await save_found(memory, SingleFact(CITY, "Rome"), "m1", "Rome it is")
    assert await newer(memory, "Oslo it is.") == "Rome"
    await memory.rollback(oslo)
    first, second = [await found(memory, text) for text in ("Oslo it is.", "No, Rome it is.")]
    assert [(match.newer, match.retracted) for match in (first, second)] == [(None, False), (None, True)]


async def test_a_statement_whose_fact_was_retracted_overtakes_nothing(memory: Memory, clock: FakeClock) -> None:
    await memory.remember(talk(OLD, NEW, id="talk", at=clock()))
    (fact,) = await save_found(memory, SingleFact(CITY, "Lisbon"), "m1", NEW)
    assert await newer(memory) == NEW
    await memory.retract(fact.id)
    assert await newer(memory) is None


async def test_a_fact_outside_of_the_view_marks_nothing(memory: Memory, clock: FakeClock) -> None:
    text = "Oslo it is, for me."
    await memory.remember(talk(text, id="talk", at=clock()), scope="/product/alpha")
    (fact,) = await save_found(memory, SingleFact(CITY, "Oslo"), "m0", "Oslo it is")
    await memory.save(SingleFact(CITY, "Rome"))
    assert await newer(memory, text) == "Rome"
    for options in ({}, {"scope": "/product/alpha"}):
        seen = memory if options else memory.scope("/product/alpha")
        assert await newer(seen, text, **options) is None
    await memory.retract(fact.id)
    assert (await found(memory, text)).retracted
    assert not (await found(memory.scope("/product/alpha"), text)).retracted
    assert not (await found(memory, text, scope="/product/alpha")).retracted


async def test_words_in_quarantine_overtake_nothing(memory: Memory) -> None:
    await memory.remember(OLD)
    await memory.remember(Message(content=NEW, role="tool"))
    assert await newer(memory) is None
    assert (await found(memory)).record.details.origin is Origin.USER
