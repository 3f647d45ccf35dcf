"""Times that a question names in other languages than English are read as their English is."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem import Conversation, InMemoryProvider, Memory, Message
from factmem.recall.text.times import times_and_rest, times_in
from factmem.testing import FakeClock
from factmem.time_phrases import in_english
from factmem.toml_tables import table
from tests.growth import cpu_seconds, grows_faster
from tests.tables import sections

NOW: Final = dt.datetime(2026, 11, 21, 15, 30, tzinfo=dt.UTC)
SAMPLES: Final = {
    **dict.fromkeys(("month", "name"), "March"),
    **dict.fromkeys(("time", "when"), "last week"),
    "weekday": "Monday",
    "season": "summer",
    "number": "3",
    "y": "2023",
    "d": "5",
}
"""Words of each kind, for the phrases of the tables; a unit is a week."""

NOT_READ: Final = {"Geçen pazartesiden beri kimi gördüm?"}
"""No word of it is in the tables by which a language is recognized."""


QUESTIONS: Final = sections(Path(__file__).with_name("times_by_language.txt"))
DIARIES: Final = sections(Path(__file__).with_name("diaries_by_language.txt"))


@pytest.mark.parametrize("language", QUESTIONS)
def test_a_time_is_read_as_its_english(language: str) -> None:
    wrong = {
        question: in_english(question)
        for question, _, english in (line.rpartition(" =") for line in QUESTIONS[language])
        if times_in(question, NOW) != (times_in(english, NOW) if english else ())
    }
    assert wrong.keys() <= NOT_READ, wrong


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("Was habe ich letzte Woche gemacht?", "Was habe ich gemacht?"),
        ("Was habe ich seit dem 5. Mai 2024 über Lena gesagt?", "Was habe ich über Lena gesagt?"),
        ("¿Qué hice AYER, y con quién?", "¿Qué hice , y con quién?"),
        ("先週何を買いましたか?", "何を買いましたか?"),
        ("Что я делал на прошлой неделе и 2024-05-03?", "Что я делал и ?"),
        ("Wo wohnt August?", "Wo wohnt August?"),
    ],
)
def test_the_rest_is_the_question_without_the_words_of_the_time(question: str, rest: str) -> None:
    assert " ".join(times_and_rest(question, NOW)[1].split()) == rest


@pytest.mark.parametrize("language", table("time_phrases"))
def test_the_readers_know_the_english_of_each_phrase(language: str) -> None:
    """All but "next" and "every", which are for what is not past time."""
    data = table("time_phrases")[language]
    for phrase, english in data["phrases"].items():
        said = english.format(*[SAMPLES.get(kind, "week") for kind in re.findall(r"«(\w+)»", phrase)])
        assert len(times_in(" ".join(said.split()), NOW)) == (not said.startswith(("next", "every"))), phrase
    assert [english for english in data.get("times", ()) if len(times_in(english, NOW)) != 1] == []


@pytest.mark.parametrize(
    "part", ["letzte Woche im Mai und ", "vor zwei ", "zwischen ", "ayer de mayo ", "5月から", "年"]
)
def test_a_long_text_is_read_in_time_that_does_not_grow_with_its_length(part: str) -> None:
    def cost(length: int) -> float:
        return cpu_seconds(lambda: times_in((part * length)[:length], NOW))

    assert not grows_faster(cost, 30_000, 300_000, times=30, least=0.01)


_WORDS: Final = """
    vor zwei drei Wochen seit März Mai und zwischen letzte gestern am 5. 2024 Montag hace desde ayer entre y 1999 {0} 31
    先週 3月 から 5日 年 前 の間 上周 周一 之前 어제 2주 전 \ue000 \ue800 \uf8ff İ ı «when» na przed majem
"""


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(_WORDS.split()) | st.text(max_size=3), max_size=14), st.sampled_from([" ", ""]))
def test_nothing_that_is_asked_raises(words: list[str], between: str) -> None:
    query = between.join(words)
    assert all(span.start is None or span.start < span.end for span in times_in(query, NOW))
    assert all(0 <= first < last <= len(query) for first, last, _ in in_english(query))


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """One event loop is enough for a figure of quality."""
    return str(request.param)


@pytest.mark.parametrize("language", DIARIES)
async def test_questions_that_differ_by_time_find_the_day(language: str) -> None:
    """Without the times, 4 to 6 of the 10 were found first."""
    days = [line.split(" | ") for line in DIARIES[language] if " | " in line]
    asked = [line.removeprefix("? ").rsplit(" = ", 1) for line in DIARIES[language] if line.startswith("? ")]
    async with Memory(InMemoryProvider(), clock=FakeClock(NOW)) as memory:
        for number, (date, text) in enumerate(days):
            said = Message(content=text, timestamp=dt.datetime.fromisoformat(f"{date}T12:00+00:00"))
            await memory.remember(Conversation(messages=[said], id=str(number)))
        await memory.inbox.flush()
        found = [str((await memory.recall(question, limit=1))[0].record.value) for question, _ in asked]
    missed = [
        (question, value) for (question, day), value in zip(asked, found, strict=True) if value != days[int(day)][1]
    ]
    assert len(missed) <= 1, missed
