"""Memories about topics: managed, custom, and with positive and negative examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from factmem.abc import DetectionExample, DetectionRequest
from factmem.abc.detector import Conversation, DropReason, Message
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS, MANAGED_TOPICS, PERSONAL_INFORMATION, PREFERENCES, Topic
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT

GARDEN = Topic("garden", "plants & <beds>")
SAID = "I moved to Oslo and prefer tea."
QUOTED: dict[str, Any] = {"quote": "moved to Oslo", "message": 1, "memory": "The user moved to Oslo."}


def memory(*topics: str) -> dict[str, Any]:
    return {"memories": [{**QUOTED, "topics": list(topics)}]}


async def test_a_memory_is_a_statement_with_its_topics(read: Callable[..., Any]) -> None:
    answer = memory("Personal Information", "preferences", "weather")
    (candidate,) = (await read([SAID], DetectionRequest(topics=MANAGED_TOPICS), answer)).detection.candidates
    assert (candidate.fact.concept, candidate.fact.values) == (STATEMENT, ("The user moved to Oslo.",))
    assert candidate.details.topics == (PERSONAL_INFORMATION.label, PREFERENCES.label)
    assert candidate.details.evidence[0].quote == "moved to Oslo"


@pytest.mark.parametrize("topics", [("weather",), ()])
async def test_a_memory_of_no_topic_asked_for_is_dropped_and_counted(
    read: Callable[..., Any], topics: tuple[str, ...]
) -> None:
    request = DetectionRequest(topics=[PREFERENCES, GARDEN])
    reading = await read([SAID], request, memory(*topics))
    assert reading.detection.candidates == ()
    assert reading.detection.dropped == {DropReason.UNKNOWN_TOPIC: 1}


@pytest.mark.parametrize("topic", MANAGED_TOPICS, ids=lambda topic: topic.label)
async def test_every_managed_topic_has_a_worked_example(read: Callable[..., Any], topic: Topic) -> None:
    (prompt,) = (await read([SAID], DetectionRequest(topics=[topic]), {})).prompts
    _, full = prompt.examples
    answer = json.loads(full.answer)
    if topic is EXPLICIT_INSTRUCTIONS:
        assert answer["remember"]
        assert answer["forget"]
    else:
        assert [(item["quote"], item["memory"]) for item in answer["memories"]] == [*topic.examples]
        assert topic.examples


async def test_with_one_topic_a_memory_need_not_name_it(read: Callable[..., Any]) -> None:
    (candidate,) = (await read([SAID], DetectionRequest(topics=[GARDEN]), memory())).detection.candidates
    assert candidate.details.topics == ("garden",)


async def test_only_the_topics_asked_for_are_shown_and_escaped(read: Callable[..., Any]) -> None:
    (prompt,) = (await read([SAID], DetectionRequest(topics=[GARDEN]), {})).prompts
    assert '<topic label="garden">plants &amp; &lt;beds&gt;</topic>' in prompt.content
    assert PREFERENCES.label not in prompt.content


async def test_explicit_instructions_are_a_topic_of_their_own(read: Callable[..., Any]) -> None:
    request = DetectionRequest(topics=[EXPLICIT_INSTRUCTIONS])
    answer = {
        "remember": [QUOTED],
        "forget": [{"quote": "prefer tea", "message": 2, "what": "That the user prefers tea."}],
        "memories": [{**QUOTED, "topics": ["anything"]}],
    }
    kept, forgotten = (await read([SAID, "Forget that I prefer tea."], request, answer)).detection.candidates
    assert (kept.details.topics, kept.removed) == ((EXPLICIT_INSTRUCTIONS.label,), False)
    assert (forgotten.fact.values, forgotten.removed) == (("That the user prefers tea.",), True)


async def test_what_is_a_memory_and_asked_to_be_remembered_is_there_once_with_both_topics(
    read: Callable[..., Any],
) -> None:
    answer = memory(PERSONAL_INFORMATION.label) | {"remember": [QUOTED]}
    (candidate,) = (await read([SAID], DetectionRequest(topics=MANAGED_TOPICS), answer)).detection.candidates
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
    (prompt,) = (await read([SAID], DetectionRequest(topics=[GARDEN], examples=[positive, negative]), {})).prompts
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
    reading = await read([SAID, "Ana sails, remember."], DetectionRequest(topics=MANAGED_TOPICS), answer)
    believed = [item.details.evidence[0].position for item in reading.detection.candidates if item.doubt is None]
    assert believed == [1], "not the sailing of somebody who moved to Oslo"
    assert reading.detection.dropped == {}


def test_a_request_names_a_topic_once() -> None:
    with pytest.raises(InvalidDataError):
        DetectionRequest(topics=[GARDEN, Topic("garden")])


def test_a_topic_has_a_legal_label() -> None:
    with pytest.raises(InvalidDataError):
        Topic(" ")
