"""Statements that follow earlier ones: what tells of a change stands before that whose rare words it takes up."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator

import pytest

from factmem import Memory, Message
from factmem.testing import FakeClock
from tests.tables import each_case

TEACHER = "I found a teacher online, Giulia."
NEWS = "Giulia has a baby now, so I'm with Matteo."


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(dt.datetime(2026, 3, 2, tzinfo=dt.UTC))


@pytest.fixture
async def memory(clock: FakeClock) -> AsyncIterator[Memory]:
    async with Memory("memory:", clock=clock) as memory:
        yield memory


async def tell(memory: Memory, clock: FakeClock, *texts: str) -> None:
    for text in texts:
        clock.advance(dt.timedelta(days=3))
        await memory.remember(text)


async def values(memory: Memory, question: str) -> list[object]:
    return [match.record.value for match in await memory.recall(question)]


@each_case("older", "newer", "question")
async def test_news_stands_before_what_it_follows(
    older: str, newer: str, question: str, memory: Memory, clock: FakeClock
) -> None:
    await tell(memory, clock, older, newer, "The bakery opens at 7.")
    first, second, *_ = await memory.recall(question)
    assert (first.record.value, second.record.value) == (newer, older)
    assert "newest" in first.reasons
    assert second.newer is None, "it may still hold"


@each_case("older", "newer", "question")
async def test_what_tells_no_news_holds_few_words_or_is_asked_of_the_past_is_not_lifted(
    older: str, newer: str, question: str, memory: Memory, clock: FakeClock
) -> None:
    await tell(memory, clock, older, newer)
    assert all("newest" not in match.reasons for match in await memory.recall(question))


async def test_only_the_newest_of_several_is_lifted(memory: Memory, clock: FakeClock) -> None:
    moved = "Giulia moved to Bari."
    await tell(memory, clock, TEACHER, moved, NEWS)
    found = await memory.recall("Who's my Italian teacher?")
    assert [match.record.value for match in found if "newest" in match.reasons] == [NEWS]
    assert [match.record.value for match in found[:2]] == [NEWS, TEACHER]


async def test_words_that_many_statements_hold_link_nothing(memory: Memory, clock: FakeClock) -> None:
    often = [f"Giulia and I went to the {place}." for place in ("lake", "cinema", "market", "museum")]
    await tell(memory, clock, *often, TEACHER, NEWS)
    assert (await values(memory, "Who's my Italian teacher?"))[0] == TEACHER


async def test_what_is_hidden_lifts_nothing(memory: Memory, clock: FakeClock) -> None:
    await tell(memory.for_user("ann"), clock, TEACHER)
    await tell(memory.for_user("bob"), clock, NEWS)
    found = await memory.for_user("bob").recall("Who's my Italian teacher?")
    assert [match.reasons for match in found if match.record.value == NEWS] == [("recent",)]


async def test_a_retracted_statement_lifts_nothing_and_a_filter_changes_no_score(
    memory: Memory, clock: FakeClock
) -> None:
    await tell(memory, clock, TEACHER, NEWS)
    whole = await memory.recall("Who's my Italian teacher?")
    since = clock() - dt.timedelta(days=1)
    alone = await memory.recall("Who's my Italian teacher?", since=since)
    assert [match.score for match in alone] == [whole[0].score]
    await memory.retract(whole[1].record.id)
    (left,) = await memory.recall("Who's my Italian teacher?")
    assert "newest" not in left.reasons


async def test_parts_of_one_message_do_not_follow_each_other(memory: Memory) -> None:
    await memory.remember([Message(role="user", content=f"{TEACHER} {NEWS}")])
    assert all("newest" not in match.reasons for match in await memory.recall("Who's my Italian teacher?"))
