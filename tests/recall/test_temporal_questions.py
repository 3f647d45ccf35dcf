"""Questions that differ only by time find the statement of that time, in a diary of three years."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final, TypeAlias

import pytest

from factmem import InMemoryProvider, Memory, MultipleFacts
from factmem.facts import STATEMENT
from factmem.testing import FakeClock
from tests.recall.dated_diary import NOW, conversations

Question: TypeAlias = tuple[str, str | tuple[str, ...]]
"""A question, with the beginning of the statement that answers it, or of several of which one is enough."""

QUESTIONS: Final[Sequence[Question]] = (  # written before the code
    ("What did Jonas give me at Christmas?", "Jonas gave me a ceramic lamp"),
    ("What did Jonas give me two Christmases ago?", "Jonas gave me a fountain pen"),
    ("Where did we have dinner on Valentine's Day?", "We had dinner at Almeja"),
    ("Where did we have dinner on Valentine's Day last year?", "We had dinner at Cantina 32"),
    ("Where did we spend our holidays last summer?", "We spent two weeks in Norway"),
    ("Where did we spend time two summers ago?", ("We spent twelve days in the Azores", "We spent a week in Galicia")),
    ("Where did we go over Easter?", "We spent four days in the Gerês"),
    ("What did we have for dinner on Thanksgiving?", "We had dinner at Rita's, turkey"),
    ("Which film did we watch at Halloween?", "We watched Possession"),
    ("Where did we watch the fireworks on New Year's Eve?", "We watched the fireworks from the beach"),
    ("What did the dentist do a year ago?", "I saw the dentist: a cleaning"),
    ("What was my favourite café before we moved?", "My favourite café here is the Labath"),
    ("What has been my favourite café since the move?", "My favourite café here is the Moustache"),
    ("What did I order the week before the wedding?", "I ordered a green dress"),
    ("What did we watch last week?", "We watched a documentary on octopuses"),
    ("Where did we spend the weekend, the week before last?", "We spent the weekend in Braga"),
    ("What did I buy the other day?", "I bought a train ticket"),
    ("What did the dentist do this morning?", "I saw the dentist: she polished"),
    ("How far did I run in the spring of 2025?", "I ran half a marathon"),
    ("How far did I run in early March?", "I ran fifteen kilometres"),
    ("What did I finish reading in mid-August two years ago?", "I finished reading Middlemarch"),
    (
        "Where did we have dinner at the end of last year?",
        ("We had dinner at Elin's, a veg", "We had dinner at Rita's"),
    ),
    ("How far did I run a couple of months ago?", "I ran a whole marathon"),
    ("Where did we have dinner half a year ago?", "We had dinner at Cafeína"),
    ("How far did I run between March and May?", ("I ran fifteen kilometres", "I ran eleven kilometres")),
    ("What did I do two weeks before the exam?", "I study two hours each evening"),
)

MORE_QUESTIONS: Final[Sequence[Question]] = (  # written after the code, which was not changed for them
    ("What did we eat on Thanksgiving two years ago?", "We had dinner at the American neighbours'"),
    ("Which film did we watch on Halloween the year before last?", "We watched The Orphanage"),
    ("Which film did we watch at Halloween three years ago?", "We watched Nosferatu"),
    ("Where did we spend Easter in 2024?", "We spent four days in Ostend"),
    ("What did I order last month?", "I ordered a dress in Madrid's colours"),
    ("Which book did I finish in the summer of 2025?", "I finished reading Moby-Dick"),
    ("Where did we watch the fireworks two years ago on New Year's Eve?", "We watched the fireworks from the bridge"),
    ("What did Jonas give me for Christmas 2023?", "Jonas gave me a wool scarf"),
    ("What was my favourite café after I passed the exam?", "My favourite café here is the Época"),
    ("What did I order shortly after we adopted the dog?", "I ordered a basket and a lead"),
    ("What did the dentist do early last year?", "I saw the dentist: he took out"),
    ("What did the dentist do in late May?", "I saw the dentist: a chipped tooth"),
    ("Where did we have dinner last Saturday?", "We had dinner at a Georgian place"),
    ("What did we watch over the weekend?", "We watched a documentary on octopuses"),
    ("How far did I run in mid-July of last year?", "I ran seven kilometres"),
    (
        "Where did we spend some days between June and August last year?",
        ("We spent twelve days in the Azores", "We spent a week in Galicia"),
    ),
    (
        "What have I bought since the summer?",
        ("I bought an electric", "I bought a standing", "I bought winter", "I bought a train"),
    ),
    ("What did I finish reading six weeks ago?", "I finished reading Flights"),
    ("Where did we have dinner at the beginning of September last year?", "We had dinner at the harbour"),
    ("What did Jonas give me in the spring of last year?", "Jonas gave me a raincoat"),
    ("Where did we have dinner a month after we moved?", "We had dinner at Tasca Zé with Jonas's new"),
    ("Where did we spend the first weekend of November?", "We spent the weekend in Braga"),
    ("What did I buy in 2024?", "I bought a second-hand cargo bicycle"),
    ("What did we watch around this time last year?", "We watched The Others"),
    ("How far did I run half a year ago?", "I ran eleven kilometres"),
    ("Where did we go on holiday three summers ago?", ("We spent ten days in Slovenia", "We spent a week in the Ard")),
)


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
        for question, answers in (*QUESTIONS, *MORE_QUESTIONS):
            found = [str(match.record.value) for match in await memory.recall(question, limit=5)]
            expected = (answers,) if isinstance(answers, str) else answers
            if not any(text.startswith(expected) for text in found):
                missed.append("\n  ".join([f"{question} ({' or '.join(expected)})", *found]))
    share = 1 - len(missed) / (len(QUESTIONS) + len(MORE_QUESTIONS))
    assert share >= 0.85, f"{share:.2f} of the questions were answered; missed:\n" + "\n".join(missed)


@pytest.mark.parametrize(
    ("question", "days"), [("Who did I meet yesterday?", 1), ("Who was met the day before yesterday?", 2)]
)
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
