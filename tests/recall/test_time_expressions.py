"""Times in a query are read as spans relative to a clock, and no other text is read as a time."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import Conversation, InMemoryProvider, Memory, Message
from factmem.recall.text.times import TimeSpan, days_in, easter, moves_with_its_day, times_and_rest, times_in
from factmem.testing import FakeClock
from factmem.time_phrases import in_english
from factmem.toml_tables import table
from tests.growth import cpu_seconds, grows_faster
from tests.tables import each_case, rows, sections

NOW = dt.datetime(2026, 11, 21, 15, 30, tzinfo=dt.UTC)
MONTHS = [name for name in calendar.month_name if name]
HOLIDAYS = ["Christmas", "Christmas Eve", "New Year", "Valentine's Day", "Easter", "Halloween", "Thanksgiving"]
RECURRING = [*HOLIDAYS, "spring", "summer", "autumn", "winter"]
MOMENTS = st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2090, 12, 31), timezones=st.just(dt.UTC))


def day(text: str) -> dt.datetime:
    """Return the beginning of a day, or another moment of it."""
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(("query", "start", "end"), rows(Path(__file__).with_name("time_expressions.txt"))["spans"])
def test_a_time_is_read_as_a_span(query: str, start: str, end: str) -> None:
    assert times_in(query, NOW) == (TimeSpan(start=day(start), end=day(end)),)


@pytest.mark.parametrize("turn", ["before", "until", "prior to", "earlier than", "up to"])
def test_what_lies_before_a_time_has_no_beginning(turn: str) -> None:
    assert times_in(f"Where did I live {turn} March 2024?", NOW) == (TimeSpan(start=None, end=day("2024-03-01")),)


@each_case("query", "end")
def test_a_word_before_last_or_this_is_heeded(query: str, end: str) -> None:
    assert times_in(query, NOW) == (TimeSpan(start=None, end=day(end)),)


@each_case("query")
def test_what_is_no_time_is_not_read_as_one(query: str) -> None:
    assert times_in(query, NOW) == ()


@each_case("query", "plain")
def test_letters_that_are_others_without_their_case_are_read_as_those(query: str, plain: str) -> None:
    assert times_in(query, NOW) == times_in(plain, NOW) != ()


_ANY_WORDS = """
    last this past the a in on of since before after until between from and to late mid- early end half first second
    ago today yesterday night previous year years month week weekend quarter decade days hour fortnight several couple
    at over for back other the first Christmas Christmases Easter eve new year's Thanksgiving nineties onwards '24 so or
    1 3 31 99 999 May march APRIL frıday FRİDAY auguſt ſummer winter Monday Q1 2024 1900 2099 2024-01-03 2024-13-41
    2024-01-03T10:00Z 2025/05/06 31.02.2025 1990s 90s 00s fourth thirty-first twenty İ ı ſ wee\u212a ٣ é - – ,
"""
_ANY_NOW = st.builds(
    lambda moment, minutes: moment.replace(tzinfo=dt.timezone(dt.timedelta(minutes=minutes))),
    st.datetimes()
    | st.datetimes(max_value=dt.datetime(12, 1, 1))
    | st.datetimes(min_value=dt.datetime(9989, 1, 1))
    | st.sampled_from([dt.datetime.min, dt.datetime.max]),
    st.integers(-1439, 1439),
)


@given(
    st.lists(st.sampled_from(_ANY_WORDS.split()) | st.text(max_size=3), max_size=14),
    st.sampled_from([" ", ""]),
    _ANY_NOW,
)
def test_nothing_that_is_asked_at_any_time_raises(words: list[str], between: str, now: dt.datetime) -> None:
    for query in (between.join(words), between.join(words).upper()):
        for span in times_in(query, now):
            assert span.end.tzinfo is dt.UTC
            assert span.start is None or span.start < span.end


def test_a_range_that_would_begin_before_the_calendar_is_read_as_its_two_ends() -> None:
    found = times_in("between 3 January and 1 January", dt.datetime(1, 7, 1, tzinfo=dt.UTC))
    assert [span.start for span in found] == [day("0001-01-03"), day("0001-01-01")]


@pytest.mark.slow
@each_case("part")
def test_a_long_text_is_read_in_time_that_grows_with_its_length(part: str) -> None:
    def cost(length: int) -> float:
        return cpu_seconds(lambda: times_in((part * length)[:length], NOW))

    assert not grows_faster(cost, 30_000, 300_000, times=30, least=0.01)


def test_of_many_times_the_first_are_read() -> None:
    found = times_in(" ".join(f"in {year}, on 3 May {year + 1}," for year in range(1950, 2000)), NOW)
    assert [span.start and span.start.year for span in found] == [
        year + more for year in range(1950, 1958) for more in (0, 1)
    ]


def test_several_times_come_in_their_order() -> None:
    found = times_in("Did I weigh more in 2021 than in 2019, or than in 2021?", NOW)
    assert [span.start for span in found] == [day("2021-01-01"), day("2019-01-01")]


@each_case("query", "days")
def test_a_day_that_is_named_by_its_date_has_terms(query: str, days: list[str]) -> None:
    (time,) = times_in(query, NOW)
    assert list(time.days) == days


@each_case("text", "days")
def test_a_text_names_the_days_whose_dates_it_holds(text: str, days: list[str]) -> None:
    assert days_in(text) == days


def test_a_day_that_no_calendar_has_is_read_as_its_month() -> None:
    assert times_in("on 31 February 2024", NOW) == (TimeSpan(start=day("2024-02-01"), end=day("2024-03-01")),)


def test_days_begin_in_the_time_zone_of_the_clock() -> None:
    """In Auckland it is Saturday already, whatever the day in Greenwich."""
    now = dt.datetime(2026, 11, 21, 9, tzinfo=ZoneInfo("Pacific/Auckland"))
    (span,) = times_in("yesterday", now)
    assert (span.start, span.end) == (day("2026-11-19T11:00"), day("2026-11-20T11:00"))


@given(st.integers(1, 300), st.sampled_from(["day", "week", "month", "year"]), MOMENTS)
def test_so_long_ago_is_in_the_span_and_now_is_not(number: int, unit: str, now: dt.datetime) -> None:
    days = {"day": 1, "week": 7, "month": 30.44, "year": 365.25}[unit] * number
    if now.year - days / 365 < 3:
        return
    (span,) = times_in(f"What was that {number} {unit}s ago?", now)
    assert span.start is not None
    assert span.start <= now - dt.timedelta(days=days) < span.end <= now + dt.timedelta(days=1)


@given(st.sampled_from(MONTHS), MOMENTS)
def test_a_month_without_a_year_is_the_last_that_had_begun(month: str, now: dt.datetime) -> None:
    (span,) = times_in(f"Who came in {month}?", now)
    assert span.start is not None
    assert span.start <= now < span.start + dt.timedelta(days=366)
    assert span.start.month == MONTHS.index(month) + 1


@each_case("sunday")
def test_easter_is_the_sunday_of_the_calendar(sunday: str) -> None:
    assert easter(int(sunday[:4])) == dt.date.fromisoformat(sunday)


@given(st.sampled_from(RECURRING), MOMENTS)
def test_what_recurs_each_year_is_the_last_that_had_begun(name: str, now: dt.datetime) -> None:
    (span,) = times_in(f"What did we do at {name}?" if name in HOLIDAYS else f"What did we do in the {name}?", now)
    assert span.start is not None
    assert span.start - dt.timedelta(days=1) <= now
    assert now < span.start + dt.timedelta(days=366 + 35)


@given(st.sampled_from(RECURRING), st.integers(2, 10), MOMENTS)
def test_what_recurs_each_year_lies_a_year_apart(name: str, times: int, now: dt.datetime) -> None:
    (last,), (before,) = (times_in(f"{number} {name}s ago", now) for number in (times - 1, times))
    assert last.start is not None
    assert before.start is not None
    assert before.end < last.start < now
    assert dt.timedelta(days=330) < last.start - before.start < dt.timedelta(days=400)


@given(st.dates(dt.date(1900, 1, 1), dt.date(2099, 12, 31)), MOMENTS)
def test_a_date_means_that_day_however_it_is_written(date: dt.date, now: dt.datetime) -> None:
    month, start = MONTHS[date.month - 1], dt.datetime(date.year, date.month, date.day, tzinfo=dt.UTC)
    span = TimeSpan(start=start, end=start + dt.timedelta(days=1))
    for written in (f"{date}", f"{date.day} {month} {date.year}", f"{month[:3]} {date.day}, {date.year}"):
        assert times_in(f"What did we do on {written}?", now) == (span,)
        assert times_in(f"what DID we do on {written.upper()}", now) == (span,)


@given(st.integers(1900, 2098), st.integers(1900, 2098), st.sampled_from(MONTHS), st.sampled_from(MONTHS))
def test_two_times_that_are_ends_make_one(first: int, last: int, month: str, other: str) -> None:
    if (first, MONTHS.index(month)) > (last, MONTHS.index(other)):
        first, last, month, other = last, first, other, month
    (span,) = times_in(f"What went on between {month} {first} and {other} {last}?", NOW)
    assert (span.start, span.end - dt.timedelta(days=1)) == (
        dt.datetime(first, MONTHS.index(month) + 1, 1, tzinfo=dt.UTC),
        dt.datetime(last, *_last_day(last, MONTHS.index(other) + 1), tzinfo=dt.UTC),
    )


def _last_day(year: int, month: int) -> tuple[int, int]:
    return month, calendar.monthrange(year, month)[1]


@each_case("moves", "texts")
def test_some_texts_name_a_time_that_moves_with_their_day(moves: bool, texts: list[str]) -> None:
    assert [moves_with_its_day(text) for text in texts] == [moves] * len(texts)


# Times that a question names in other languages than English are read as their English is.


SAMPLES: Final = {
    **dict.fromkeys(("month", "name"), "March"),
    **dict.fromkeys(("time", "when"), "last week"),
    "weekday": "Monday",
    "season": "summer",
    "number": "3",
    **dict.fromkeys(("y", "late"), "2023"),
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


@each_case("question", "rest")
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


_WORDS: Final = """
    vor zwei drei Wochen seit März Mai und zwischen letzte gestern am 5. 2024 Montag hace desde ayer entre y 1999 {0} 31
    先週 3月 から 5日 年 前 の間 上周 周一 之前 어제 2주 전 \ue000 \ue800 \uf8ff İ ı «when» na przed majem
"""


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
