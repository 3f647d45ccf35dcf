"""Signs that a record fits a query."""

from __future__ import annotations

import datetime as dt
import operator
from functools import reduce

from factmem import Conversation, Memory, MemoryScope, MemorySubject, Message
from factmem.facts import STATEMENT, FactType
from factmem.recall.text.signs import (
    GIVEN_NAMES,
    Kind,
    asks_for_assistant,
    asks_for_present,
    capitalized,
    kinds_asked,
    kinds_held,
    nameless,
)
from factmem.records import Assertion, Place, assertions_of
from factmem.sentences import tells_of_another, tells_of_change
from factmem.shapes import shape_of
from tests.tables import each_case

EVERYWHERE = Place(MemorySubject.EVERYTHING, MemoryScope.CROSS_PRODUCT)


def fact(keyword: str, description: str, value_type: type, data: object) -> Assertion:
    return Assertion(
        place=EVERYWHERE,
        keyword=keyword,
        description=description,
        fact_type=FactType.SINGLE,
        shape=shape_of(value_type),
        data=data,
        timestamp=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )


@each_case("query", "kinds")
def test_a_question_word_asks_for_a_kind_of_value(query: str, kinds: list[str]) -> None:
    assert kinds_asked(query) == reduce(operator.or_, map(Kind.__getitem__, kinds), Kind.NONE)


@each_case("keyword", "description", "value_type", "value", "kind")
def test_a_fact_holds_the_kind_of_its_type_and_concept(
    keyword: str, description: str, value_type: str, value: object, kind: str
) -> None:
    types: dict[str, type] = {"bool": bool, "date": dt.date, "int": int, "str": str}
    assert kinds_held(fact(keyword, description, types[value_type], value)) == Kind[kind]


async def test_a_short_statement_is_not_taken_for_small_talk() -> None:
    talk = ("The venue is the old tram depot.", "It has room for 120 people.", "I am allergic to hazelnuts.")
    messages = [Message(name="Maya", content=content) for content in talk]
    memory = Memory("memory:")
    await memory.remember(Conversation(messages=messages, id="monday"))
    (best, *_) = await memory.recall("What is Maya allergic to?")
    assert best.record.value == talk[-1]


@each_case("text", "held")
def test_a_statement_holds_a_number_in_digits_or_as_a_word(text: str, held: str) -> None:
    (said,) = assertions_of(STATEMENT.fact([text], timestamp=dt.datetime(2026, 1, 1, tzinfo=dt.UTC)), EVERYWHERE)
    assert kinds_held(said) is Kind[held]


@each_case("query")
def test_a_question_whose_subject_is_the_second_person_asks_for_the_assistants_words(query: str) -> None:
    assert asks_for_assistant(query)


@each_case("query")
def test_a_request_and_a_question_about_others_do_not(query: str) -> None:
    assert not asks_for_assistant(query)


def test_capitalized_words_may_be_names_but_for_the_first_and_i() -> None:
    query = "Where did Ann and I meet Bo's aunt in O city?"
    assert capitalized(query) == ["Ann", "Bo's"]
    assert nameless(query) == "Where did and I meet aunt in O city?"
    assert nameless("Ann?") == "Ann?"
    assert nameless("") == ""


@each_case("query", "of_now")
def test_a_question_asks_for_the_present_unless_a_word_says_otherwise(query: str, of_now: bool) -> None:
    assert asks_for_present(query) is of_now


@each_case("text", "changes")
def test_a_text_tells_of_a_change(text: str, changes: bool) -> None:
    assert tells_of_change(text) is changes


async def test_a_change_stands_first_for_a_question_about_the_present() -> None:
    said = ["The meeting room is on the second floor.", "The meeting room has moved up to the fifth floor."]
    async with Memory("memory:") as memory:
        for text in said:
            await memory.remember(text)
        now = await memory.recall("Where is the meeting room?")
        before = await memory.recall("Where was the meeting room?")
    assert [match.record.value for match in now] == said[::-1]
    assert [match.record.value for match in before] == said


@each_case("text", "begins")
def test_what_begins_with_a_name_tells_of_another(text: str, begins: bool) -> None:
    assert tells_of_another(text, GIVEN_NAMES) is begins
