"""Events in a question are recognized in natural forms, and dated by the record about them."""

from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from factmem import STATEMENT, InMemoryProvider, Memory, MultipleFacts
from factmem.recall.events import EventTime, events_in
from factmem.testing import FakeClock
from tests.tables import cases, each_case

CASES = cases(__file__)

NOW = dt.datetime(2026, 11, 21, 15, 30, tzinfo=dt.UTC)
SAID = dict(CASES["said"])


@each_case("query", "before", "phrase")
def test_an_event_is_read_with_the_side_that_is_meant(query: str, before: bool, phrase: str) -> None:
    assert events_in(query, NOW) == (EventTime(before, phrase),)


@each_case("query", "rest")
def test_the_words_of_an_event_count_only_for_what_may_tell_of_it(query: str, rest: str) -> None:
    (event,) = events_in(query, NOW)
    assert " ".join(event.rest.split()) == rest


@each_case("query", "least", "most")
def test_an_offset_says_how_far_from_the_event(query: str, least: float, most: float) -> None:
    (event,) = events_in(query, NOW)
    assert event.offset is not None
    assert event.offset.least == dt.timedelta(days=least)
    assert event.offset.most == dt.timedelta(days=most)


@each_case("query")
def test_what_names_no_event_is_not_read_as_one(query: str) -> None:
    assert events_in(query, NOW) == ()


@each_case("query", "dated")
async def test_an_event_is_dated_by_the_record_that_says_that_it_happened(query: str, dated: list[str]) -> None:
    """A plan or a later mention does not date it. "Exam" is related to "test". An unknown event has no date."""
    async with Memory(InMemoryProvider(), clock=FakeClock(NOW)) as memory:
        for day, text in SAID.items():
            at = dt.datetime.fromisoformat(day).replace(tzinfo=dt.UTC)
            await memory.save(MultipleFacts(STATEMENT, (text,), timestamp=at))
        found = await memory.recall(query, limit=len(SAID))
        days = {str(match.record.timestamp.date()) for match in found if match.parts.dated == 1}
        expected = {"2025-05-10", "2026-01-12", "2026-06-20"}
        assert sorted(days - expected) == [day for day in dated if day not in expected]


@each_case("query", "first")
async def test_the_event_itself_does_not_come_before_what_is_asked_for(query: str, first: str) -> None:
    said = ("I bought a new bicycle.", "I learned to bake bread.", "I moved to Lisbon.", "I adopted a kitten.")
    async with Memory(InMemoryProvider(), clock=FakeClock(NOW)) as memory:
        for month, text in enumerate(said, start=1):
            await memory.save(MultipleFacts(STATEMENT, (text,), timestamp=dt.datetime(2026, month, 15, tzinfo=dt.UTC)))
        found = await memory.recall(query, limit=1)
        assert [match.record.value for match in found] == [first]


_WORDS = (
    "before since after until during the we I Bo moved moving wedding week two weeks a day shortly what , ? 's month"
)


@given(st.lists(st.sampled_from(_WORDS.split()) | st.text(max_size=3), max_size=14), st.datetimes())
def test_nothing_that_is_asked_raises(words: list[str], moment: dt.datetime) -> None:
    for event in events_in(" ".join(words), NOW):
        span = event.span(moment.replace(tzinfo=dt.UTC), NOW)
        assert span is None or span.end.tzinfo is dt.UTC


async def test_a_filter_does_not_change_the_date_of_an_event() -> None:
    """The record that dates the event counts, whether or not it passes the filter."""
    async with Memory(InMemoryProvider(), clock=FakeClock(NOW)) as memory:
        for day, text in SAID.items():
            said_at = dt.datetime.fromisoformat(f"{day}T12:00+00:00")
            scope = "/product/diary" if "moved to" in text else "/product/shop"
            await memory.save(MultipleFacts(STATEMENT, (text,), timestamp=said_at), scope=scope)
        query = "What did I order after we moved to Porto?"
        everything = await memory.recall(query, limit=99)
        kept = [match for match in everything if str(match.record.scope) == "/product/shop"]
        assert await memory.recall(query, limit=99, scope="/product/shop") == kept
        assert any(match.parts.dated for match in kept)
