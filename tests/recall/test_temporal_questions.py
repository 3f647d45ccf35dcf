"""Questions that differ only by time find the statement of that time, in a diary of three years."""

from __future__ import annotations

import datetime as dt
from typing import Final

import pytest

from factmem import STATEMENT, Concept, InMemoryProvider, Memory, MultipleFacts, SingleFact
from factmem.sentences import points_back
from factmem.testing import FakeClock
from tests.recall.dated_diary import NOW, conversations, questions
from tests.tables import each_case

PEOPLE: Final = "Ann Ben Cleo Dag Eva Finn Greta Hugo Ines Jan Kaja Leo Mona Nils"
"""People met on one day each, five days apart."""


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """One event loop is enough for a figure of quality."""
    return str(request.param)


async def test_temporal_questions_are_answered_among_the_first_five() -> None:
    async with Memory(InMemoryProvider(), clock=FakeClock(NOW)) as memory:
        await memory.remember_many(conversations())
        await memory.inbox.flush()
        missed = list[str]()
        for question, *expected in questions():
            found = [str(match.record.value) for match in await memory.recall(question, limit=5)]
            if not any(text.startswith(tuple(expected)) for text in found):
                missed.append("\n  ".join([f"{question} ({' or '.join(expected)})", *found]))
    share = 1 - len(missed) / len(questions())
    assert share >= 0.85, f"{share:.2f} of the questions were answered; missed:\n" + "\n".join(missed)


@each_case("question", "days")
async def test_an_irregular_verb_and_a_day_find_what_was_told_of_them(question: str, days: int) -> None:
    """A statement's own "yesterday" does not mislead, and a day later is not too late to tell."""
    async with Memory(InMemoryProvider(), clock=(clock := FakeClock(NOW))) as memory:
        asked = list[tuple[dt.datetime, str]]()
        for number, name in enumerate(PEOPLE.split()):
            met = NOW - dt.timedelta(days=5 * number + 10)
            told, when = (met + dt.timedelta(days=1), "yesterday") if number % 2 else (met, "today")
            text = f"I met {name} at the station {when}."
            await memory.save(MultipleFacts(STATEMENT, (text,), timestamp=told))
            asked.append((met + dt.timedelta(days=days, hours=3), text))
        for moment, text in asked:
            clock.set(moment)
            (found,) = await memory.recall(question, limit=1)
            assert found.record.value == text


@each_case("question", "days")
async def test_what_was_said_after_a_time_stands_below_what_was_said_at_it(question: str, days: int) -> None:
    told = "I paid the electricity bill."
    for later in ("I had breakfast with my aunt.", "I watched an opera.", "I cooked goulash."):
        async with Memory(InMemoryProvider(), clock=FakeClock(NOW)) as memory:
            for text, ago in ((told, days), (later, 0)):
                at = NOW - dt.timedelta(days=ago)
                await memory.save(MultipleFacts(STATEMENT, (text,), timestamp=at))
            (found,) = await memory.recall(question, limit=1)
            assert found.record.value == told


@each_case("question", "told")
async def test_a_date_finds_what_names_the_same_day_in_any_form(question: str, told: str) -> None:
    texts = (
        "Noah's birthday is on May 14th.",
        "Noah starts school on June 14th.",
        "The dentist appointment is on 6 May at 10.",
        "My thesis is due 2026-07-01.",
        "Omas Feier ist am 2. Juni.",
        "Something funny happens at the club each Sunday.",
    )
    async with Memory(InMemoryProvider(), clock=FakeClock(NOW)) as memory:
        await memory.remember_many(list(texts))
        first = (await memory.recall(question))[0]
        assert (first.record.value, first.parts.dated) == (told, 1.0)
        assert "dated" in first.reasons


@each_case("question", "texts")
async def test_a_date_finds_no_loose_numbers_and_no_other_year(question: str, texts: tuple[str, ...]) -> None:
    async with Memory(InMemoryProvider(), clock=FakeClock(NOW)) as memory:
        await memory.remember_many(list(texts))
        assert [match.record.value for match in await memory.recall(question) if "dated" in match.reasons] == []


async def test_a_typed_date_is_found_by_its_date_and_a_typed_time_is_not() -> None:
    visit = Concept.single("visit", "The day of the visit", value_type=dt.date)
    alarm = Concept.single("alarm", "When the alarm rings", value_type=dt.time)
    async with Memory(InMemoryProvider(), clock=FakeClock(NOW)) as memory:
        await memory.save(SingleFact(visit, dt.date(NOW.year, 5, 14)))
        await memory.save(SingleFact(alarm, dt.time(5, 14)))
        found = await memory.recall("what's on May 14th?")
        assert [match.record.value for match in found if "dated" in match.reasons] == [dt.date(NOW.year, 5, 14)]


async def test_what_is_on_today_is_what_was_dated_so() -> None:
    async with Memory(InMemoryProvider(), clock=(clock := FakeClock(NOW))) as memory:
        day = NOW + dt.timedelta(days=40)
        told = f"The landlord comes on {day:%B} {day.day}."
        await memory.remember_many([told, "I have yoga on Tuesdays.", "I bought a standing desk."])
        clock.set(day)
        assert (await memory.recall("what's on today?"))[0].record.value == told


@each_case("text", "back")
def test_words_of_a_time_before_point_back(text: str, back: bool) -> None:
    assert points_back(text) is back
