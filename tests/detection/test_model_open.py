"""Facts found without a concept in the request: by stable keywords, or as memories about topics."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.abc import DetectionExample, DetectionRequest
from factmem.abc.detector import Conversation, DropReason, Message
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS, MANAGED_TOPICS, PERSONAL_INFORMATION, PREFERENCES, Topic
from factmem.details import Origin
from factmem.detection import OriginPolicy, Treatment
from factmem.detection.tasks import LONGEST_KEYWORD, Vocabulary, keyword_of
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT, Concept
from factmem.subjects import MemorySubject
from tests.tables import each_case


@attrs.frozen
class Pet:
    name: str
    age: int | None = None


SEATS = Concept.single("seats", "How many seats are booked", int)
DRINK = Concept.multiple("favourite_drink", "What they like to drink")
OPEN = DetectionRequest(open=True)


SAID = "so it is: Oslo, tea, chess, 120 and 7 seats, Tom, and Rex who is 3"


def fact(keyword: str, value: Any, **rest: Any) -> dict[str, Any]:
    return {"facts": [{"quote": "so it is", "message": 1, "keyword": keyword, "value": value, **rest}]}


@pytest.mark.parametrize("request_", [DetectionRequest(), OPEN])
async def test_a_request_for_nothing_in_particular_is_an_open_search(
    read: Callable[..., Any], request_: DetectionRequest
) -> None:
    answer = fact("Home City", "Oslo", description="where  they live", kind="single")
    reading = await read([SAID], request_, answer)
    (candidate,) = reading.detection.candidates
    assert candidate.fact.concept == Concept.single("home_city", "where they live")
    assert candidate.fact.values == ("Oslo",)


@pytest.mark.parametrize("keyword", ["favourite_drink", "Favourite Drink", "favouriteDrink", "FAVOURITE-DRINK"])
async def test_a_keyword_in_use_keeps_its_spelling_type_and_description(read: Callable[..., Any], keyword: str) -> None:
    """The model's own details of the concept are ignored."""
    answer = fact(keyword, "tea", kind="single", description="something else")
    reading = await read([SAID], DetectionRequest(open=True, in_use=[DRINK]), answer)
    assert [item.fact.concept for item in reading.detection.candidates] == [DRINK]


async def test_keywords_in_use_are_shown_with_type_and_description(read: Callable[..., Any]) -> None:
    reading = await read(["so it is"], DetectionRequest(open=True, in_use=[DRINK, SEATS]), {})
    (prompt,) = reading.prompts
    assert '<keyword name="favourite_drink" kind="multiple" type="text">What they like to drink</keyword>' in (
        prompt.content
    )
    assert '<keyword name="seats" kind="single" type="whole number">' in prompt.content


async def test_a_value_of_a_keyword_in_use_is_of_its_type(read: Callable[..., Any]) -> None:
    pet = Concept.multiple("pet", "A pet", Pet)
    request = DetectionRequest(open=True, in_use=[SEATS], concepts=[pet])
    facts = [
        *(fact("seats", value)["facts"][0] for value in ("120", 7, "many", None, True)),
        *(fact("pet", value)["facts"][0] for value in ('{"name": "Tom"}', {"name": "Rex", "age": 3}, "Tom")),
    ]
    reading = await read([SAID], request, {"facts": facts})
    assert [item.fact.values[0] for item in reading.detection.candidates] == [120, 7, Pet("Tom"), Pet("Rex", 3)]
    assert reading.detection.dropped == {DropReason.INVALID_VALUE: 4}


async def test_a_new_keyword_has_one_type_in_the_whole_conversation(read: Callable[..., Any]) -> None:
    facts = [
        {
            "quote": "4 and chess",
            "message": 1,
            "keyword": "hobby",
            "description": "a hobby",
            "kind": "multiple",
            "value": 4,
        },
        {"quote": "go", "message": 1, "keyword": "Hobby", "description": "his game", "kind": "single", "value": "go"},
    ]
    reading = await read(["I like 4 and chess and go"], OPEN, {"facts": facts})
    first, second = (item.fact for item in reading.detection.candidates)
    assert first.concept == second.concept == Concept.multiple("hobby", "a hobby")
    assert first.values == ("4",)


@pytest.mark.parametrize("keyword", ["", "!?", "a word " * 30])
async def test_a_keyword_that_is_none_is_dropped_and_counted(read: Callable[..., Any], keyword: str) -> None:
    reading = await read(["so it is"], OPEN, fact(keyword, "x"))
    assert reading.detection.dropped == {DropReason.UNKNOWN_CONCEPT: 1}


async def test_a_fact_of_the_built_in_keyword_is_a_statement(read: Callable[..., Any]) -> None:
    """Another type under this keyword would conflict with every statement at the place."""
    reading = await read(["so it is"], OPEN, fact("statement", "It is so.", kind="single"))
    assert [item.fact.concept for item in reading.detection.candidates] == [STATEMENT]


async def test_an_answer_without_a_description_takes_the_keywords_words(read: Callable[..., Any]) -> None:
    reading = await read([SAID], OPEN, fact("home_city", "Oslo", description=None))
    assert reading.detection.candidates[0].fact.concept.description == "home city"


async def test_remember_that_gives_a_statement(read: Callable[..., Any]) -> None:
    said = "Please remember that I can't eat nuts."
    answer = {"remember": [{"quote": "I can't eat nuts", "message": 1, "memory": "The user cannot eat nuts."}]}
    (candidate,) = (await read([said], OPEN, answer)).detection.candidates
    assert (candidate.fact.concept, candidate.fact.values) == (STATEMENT, ("The user cannot eat nuts.",))
    assert candidate.details.topics == (EXPLICIT_INSTRUCTIONS.label,)
    assert not candidate.removed


async def test_forget_that_names_the_value_the_concept_or_what_in_words(read: Callable[..., Any]) -> None:
    request = DetectionRequest(open=True, in_use=[SEATS, DRINK])
    quoted = {"quote": "Forget it", "message": 1}
    forget = [
        {**quoted, "what": "That they like tea.", "keyword": "Favourite drink", "value": "tea"},
        {**quoted, "what": "How many seats there are.", "keyword": "seats", "value": None},
        {**quoted, "what": "The old car.", "keyword": None, "value": None},
        {**quoted, "what": "How many seats.", "keyword": "seats", "value": "a few"},
    ]
    by_value, cleared, in_words, unreadable = (
        await read(["Forget it all: tea, how many seats, the old car!"], request, {"forget": forget})
    ).detection.candidates
    assert (by_value.fact.concept, by_value.fact.values, by_value.cleared) == (DRINK, ("tea",), None)
    assert (cleared.fact.concept, cleared.fact.values, cleared.cleared) == (
        STATEMENT,
        ("How many seats there are.",),
        SEATS,
    )
    assert (in_words.fact.values, in_words.cleared) == (("The old car.",), None)
    assert unreadable.cleared is None, "clearing all values would be too much when one was meant"
    assert all(item.removed for item in (by_value, cleared, in_words, unreadable))


async def test_instructions_are_not_looked_for_where_only_concepts_or_other_topics_are(
    read: Callable[..., Any],
) -> None:
    ignored = {"forget": [{"quote": "Forget it", "message": 1, "what": "it"}]}
    for request in (DetectionRequest(concepts=[SEATS]), DetectionRequest(topics=[PREFERENCES])):
        reading = await read(["Forget it"], request, ignored)
        assert reading.detection.candidates == ()
        assert "ask to forget" not in reading.prompts[0].instructions


async def test_a_wish_to_forget_is_recognized_where_only_concepts_are_asked_for(read: Callable[..., Any]) -> None:
    quoted = {"quote": "Forget how many seats I need", "message": 1, "keyword": "seats"}
    reading = await read(["Forget how many seats I need"], DetectionRequest(concepts=[SEATS]), {"forget": [quoted]})
    (wish,) = reading.detection.candidates
    assert (wish.removed, wish.cleared, reading.detection.dropped) == (True, SEATS, {})
    assert "asks to forget" in reading.prompts[0].instructions


async def test_a_fact_that_is_asked_for_and_found_openly_too_is_there_once(read: Callable[..., Any]) -> None:
    item = {"quote": "12 seats", "message": 1, "value": 12}
    answer = {"seats": [item], "facts": [{**item, "keyword": "Seats"}]}
    reading = await read(["we have 12 seats"], DetectionRequest(open=True, concepts=[SEATS]), answer)
    assert [candidate.fact.concept for candidate in reading.detection.candidates] == [SEATS]


async def test_the_assistant_gives_attributed_statements_and_no_facts(read: Callable[..., Any]) -> None:
    said = [Message(content="so it is"), Message(content="You live in Rome.", role="assistant")]
    answer = {"facts": [{"quote": "You live in Rome", "message": 2, "keyword": "home_city", "value": "Rome"}]}
    origins = OriginPolicy(assistant=Treatment.STATEMENTS)
    reading = await read(said, DetectionRequest(subjects=[MemorySubject("user")]), answer, origins=origins)
    (candidate,) = reading.detection.candidates
    assert (candidate.fact.concept, candidate.details.origin) == (STATEMENT, Origin.ASSISTANT)
    assert reading.detection.dropped == {DropReason.NOT_THE_USERS_WORDS: 1}


@each_case("text", "keyword")
def test_keywords_are_snake_case_in_any_script(text: str, keyword: str) -> None:
    assert keyword_of(text) == keyword


@given(st.text(max_size=40))
def test_a_keyword_made_again_from_itself_is_itself(text: str) -> None:
    made = keyword_of(text)
    assert keyword_of(made) == made


@given(st.lists(st.text(max_size=12), max_size=6))
def test_a_vocabulary_takes_up_a_keyword_once(keywords: list[str]) -> None:
    vocabulary = Vocabulary.of([])
    first = [vocabulary.take_up(keyword, "first", multiple=True) for keyword in keywords]
    assert first == [vocabulary.take_up(keyword, "second", multiple=False) for keyword in keywords]
    assert all(len(concept.keyword) <= LONGEST_KEYWORD for concept in first if concept)


# Memories about topics: managed, custom, and with positive and negative examples.


GARDEN = Topic("garden", "plants & <beds>")
LIKES_TEA = "I moved to Oslo and prefer tea."
QUOTED: dict[str, Any] = {"quote": "moved to Oslo", "message": 1, "memory": "The user moved to Oslo."}


def memory(*topics: str) -> dict[str, Any]:
    return {"memories": [{**QUOTED, "topics": list(topics)}]}


async def test_a_memory_is_a_statement_with_its_topics(read: Callable[..., Any]) -> None:
    answer = memory("Personal Information", "preferences", "weather")
    (candidate,) = (await read([LIKES_TEA], DetectionRequest(topics=MANAGED_TOPICS), answer)).detection.candidates
    assert (candidate.fact.concept, candidate.fact.values) == (STATEMENT, ("The user moved to Oslo.",))
    assert candidate.details.topics == (PERSONAL_INFORMATION.label, PREFERENCES.label)
    assert candidate.details.evidence[0].quote == "moved to Oslo"


@pytest.mark.parametrize("topics", [("weather",), ()])
async def test_a_memory_of_no_topic_asked_for_is_dropped_and_counted(
    read: Callable[..., Any], topics: tuple[str, ...]
) -> None:
    request = DetectionRequest(topics=[PREFERENCES, GARDEN])
    reading = await read([LIKES_TEA], request, memory(*topics))
    assert reading.detection.candidates == ()
    assert reading.detection.dropped == {DropReason.UNKNOWN_TOPIC: 1}


@pytest.mark.parametrize("topic", MANAGED_TOPICS, ids=lambda topic: topic.label)
async def test_every_managed_topic_has_a_worked_example(read: Callable[..., Any], topic: Topic) -> None:
    (prompt,) = (await read([LIKES_TEA], DetectionRequest(topics=[topic]), {})).prompts
    _, full = prompt.examples
    answer = json.loads(full.answer)
    if topic is EXPLICIT_INSTRUCTIONS:
        assert answer["remember"]
        assert answer["forget"]
    else:
        assert [(item["quote"], item["memory"]) for item in answer["memories"]] == [*topic.examples]
        assert topic.examples


async def test_with_one_topic_a_memory_need_not_name_it(read: Callable[..., Any]) -> None:
    (candidate,) = (await read([LIKES_TEA], DetectionRequest(topics=[GARDEN]), memory())).detection.candidates
    assert candidate.details.topics == ("garden",)


async def test_only_the_topics_asked_for_are_shown_and_escaped(read: Callable[..., Any]) -> None:
    (prompt,) = (await read([LIKES_TEA], DetectionRequest(topics=[GARDEN]), {})).prompts
    assert '<topic label="garden">plants &amp; &lt;beds&gt;</topic>' in prompt.content
    assert PREFERENCES.label not in prompt.content


async def test_explicit_instructions_are_a_topic_of_their_own(read: Callable[..., Any]) -> None:
    request = DetectionRequest(topics=[EXPLICIT_INSTRUCTIONS])
    answer = {
        "remember": [QUOTED],
        "forget": [{"quote": "prefer tea", "message": 2, "what": "That the user prefers tea."}],
        "memories": [{**QUOTED, "topics": ["anything"]}],
    }
    kept, forgotten = (await read([LIKES_TEA, "Forget that I prefer tea."], request, answer)).detection.candidates
    assert (kept.details.topics, kept.removed) == ((EXPLICIT_INSTRUCTIONS.label,), False)
    assert (forgotten.fact.values, forgotten.removed) == (("That the user prefers tea.",), True)


async def test_what_is_a_memory_and_asked_to_be_remembered_is_there_once_with_both_topics(
    read: Callable[..., Any],
) -> None:
    answer = memory(PERSONAL_INFORMATION.label) | {"remember": [QUOTED]}
    (candidate,) = (await read([LIKES_TEA], DetectionRequest(topics=MANAGED_TOPICS), answer)).detection.candidates
    assert candidate.details.topics == (PERSONAL_INFORMATION.label, EXPLICIT_INSTRUCTIONS.label)


async def test_examples_are_shown_as_worked_examples_also_the_negative_ones(read: Callable[..., Any]) -> None:
    positive = DetectionExample(
        conversation=Conversation(
            messages=[
                Message(content="The password is tr0ub4dor. I grow <i>figs</i>."),
                Message(content="Figs!", role="assistant"),
            ]
        ),
        memories=(("The user grows figs.", ("garden",)),),
    )
    negative = DetectionExample(conversation=Conversation(messages=[Message(content="It rains.")]))
    (prompt,) = (await read([LIKES_TEA], DetectionRequest(topics=[GARDEN], examples=[positive, negative]), {})).prompts
    *_, first, second = prompt.examples
    assert "&lt;i&gt;figs&lt;/i&gt;" in first.content
    assert "tr0ub4dor" not in first.content
    (shown,) = json.loads(first.answer)["memories"]
    assert (shown["memory"], shown["topics"], shown["message"]) == ("The user grows figs.", ["garden"], 1)
    assert "It rains." in second.content
    assert json.loads(second.answer) == {"memories": []}


async def test_a_worked_example_is_a_memory_only_where_the_words_say_so(read: Callable[..., Any]) -> None:
    """A small model that repeats it cites words of another meaning; a message in the words of the example is kept."""
    parroted = {"quote": "moved to Oslo", "message": 1, "memory": "Ana sails."}
    said = {"quote": "Ana sails", "message": 2, "memory": "Ana sails."}
    answer = {"remember": [parroted, said]}
    reading = await read([LIKES_TEA, "Ana sails, remember."], DetectionRequest(topics=MANAGED_TOPICS), answer)
    believed = [item.details.evidence[0].position for item in reading.detection.candidates if item.doubt is None]
    assert believed == [1], "not the sailing of somebody who moved to Oslo"
    assert reading.detection.dropped == {}


def test_a_request_names_a_topic_once() -> None:
    with pytest.raises(InvalidDataError):
        DetectionRequest(topics=[GARDEN, Topic("garden")])


def test_a_topic_has_a_legal_label() -> None:
    with pytest.raises(InvalidDataError):
        Topic(" ")
