"""Worked examples: their headers, those of callers, and the lines that teach what small models get wrong."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections.abc import Callable
from typing import Any

import pytest

from factmem.abc import DetectionExample, DetectionRequest, Prompt
from factmem.abc.detector import Conversation, DropReason, Message
from factmem.abc.model import WorkedExample
from factmem.abc.topics import MANAGED_TOPICS, Topic
from factmem.detection import InstructorDetector
from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.subjects import MemorySubject
from factmem.testing import ScriptedModel

SAID_AT = dt.datetime(2024, 5, 31, tzinfo=dt.UTC)
USER = MemorySubject("user", "who speaks")
ALLERGIES = Concept.multiple("allergies", "What somebody cannot eat")
SEATS = Concept.single(
    "seats", "How many people fit", int, examples=[("We booked for a dozen.", 12), ("Room for 3.", 3)]
)


BOOTS = Concept.single("boot_size", "the size of their boots")
SIZE = BOOTS.fact(["43"], timestamp=SAID_AT)


class Diet(enum.Enum):
    EVERYTHING = "everything"
    VEGAN = "vegan"


async def shown(read: Callable[..., Any], request: DetectionRequest) -> list[tuple[WorkedExample, dict[str, Any]]]:
    """Return the worked examples of a request, with their answers."""
    (prompt,) = (await read(["I moved to Oslo."], request, {})).prompts
    return [(example, json.loads(example.answer)) for example in prompt.examples]


async def test_only_the_question_has_what_is_looked_for(read: Callable[..., Any]) -> None:
    request = DetectionRequest(subjects=[USER], concepts=[ALLERGIES], open=True, topics=MANAGED_TOPICS, in_use=[SEATS])
    (prompt,) = (await read(["I moved to Oslo."], request, {})).prompts
    shown = prompt.examples[-1].content
    for part in ("<subjects>", "<concepts>", "<topics>", "<known_keywords>", "<conversation>"):
        assert part in prompt.content
        assert (part in shown) is (part in ("<known_keywords>", "<conversation>"))


async def test_a_concept_brings_examples_of_its_own(read: Callable[..., Any]) -> None:
    """All of them are shown, whatever stands first among the concepts."""
    diet = Concept.single("diet", "What they eat", Diet, examples=[("No animals on my plate.", Diet.VEGAN)])
    (_, (example, answer)) = await shown(read, DetectionRequest(concepts=[ALLERGIES, SEATS, diet]))
    assert [(item["quote"], item["value"]) for item in answer["seats"]] == [
        ("We booked for a dozen.", 12),
        ("Room for 3.", 3),
    ]
    assert answer["diet"] == [{"quote": "No animals on my plate.", "message": 3, "value": "vegan"}]
    assert answer["allergies"] == []
    assert "No animals on my plate." in example.content


@pytest.mark.parametrize("examples", [[("We booked for a dozen.", "12")], [("\ud800", 12)], [(12, 12)]])
def test_an_example_of_another_type_is_refused(examples: Any) -> None:
    with pytest.raises(InvalidDataError, match="example"):
        Concept.single("seats", "How many people fit", int, examples=examples)


def test_examples_are_no_part_of_what_a_concept_is() -> None:
    plain = Concept.single("seats", "How many people fit", int)
    assert (plain, hash(plain)) == (SEATS, hash(SEATS))
    assert "dozen" not in repr(SEATS)


async def test_a_callers_example_shows_facts_with_the_sentence_that_says_them(read: Callable[..., Any]) -> None:
    talk = Conversation(messages=[Message(content="Good day. The hall holds 80 people. My boots are size 43.")])
    example = DetectionExample(
        conversation=talk, facts=[SEATS.fact([80], timestamp=SAID_AT), BOOTS.fact(["43"], timestamp=SAID_AT)]
    )
    request = DetectionRequest(concepts=[SEATS], open=True, examples=[example])
    (*_, (_, answer)) = await shown(read, request)
    assert answer["seats"] == [{"quote": "The hall holds 80 people.", "message": 1, "value": 80}]
    (item,) = answer["facts"]
    assert item["description"] == "the size of their boots"
    assert (item["quote"], item["keyword"], item["value"]) == ("My boots are size 43.", "boot_size", "43")


async def test_only_a_new_keyword_is_described(read: Callable[..., Any]) -> None:
    talk = Conversation(messages=[Message(content="My boots are size 43.")])
    example = DetectionExample(conversation=talk, facts=[SIZE])
    ((_, built_in), (_, own)) = (await shown(read, DetectionRequest(open=True, in_use=[BOOTS], examples=[example])))[1:]
    described = {item["keyword"]: "description" in item for item in (*built_in["facts"][:2], *own["facts"])}
    assert described == {"shoe_size": True, "allergy": False, "boot_size": False}


async def test_a_topic_without_examples_has_one_all_the_same_and_the_callers_comes_last(
    read: Callable[..., Any],
) -> None:
    garden = Topic("garden", "what grows where")
    ((_, nothing), (_, answer)) = await shown(read, DetectionRequest(topics=[garden]))
    assert nothing == {"memories": []}
    (memory,) = answer["memories"]
    assert memory["topics"] == ["garden"]
    own = DetectionExample(
        conversation=Conversation(messages=[Message(content="The figs stand by the wall.")]),
        memories=(("The figs stand by the wall.", ("garden",)),),
    )
    (*_, (_, middle), (last, _)) = await shown(read, DetectionRequest(topics=[garden], examples=[own]))
    assert middle == {"memories": []}, "a better example is there"
    assert "figs" in last.content


async def test_examples_correct_and_suppose(read: Callable[..., Any]) -> None:
    (_, (example, answer)) = await shown(read, DetectionRequest(open=True))
    assert [item["value"] for item in answer["facts"] if item["keyword"] == "shoe_size"] == ["39", "41"]
    assert "If I had a garden" in example.content
    assert "bees" not in example.answer


async def test_a_fact_about_a_third_person_waits(read: Callable[..., Any]) -> None:
    """It is somebody else's, with their name in the value or without."""
    cited = {"quote": "brother Bo is allergic to shellfish", "message": 1}
    answer = {"allergies": [{**cited, "values": ["Bo: shellfish"]}, {**cited, "values": ["shellfish"]}]}
    said = ["My brother Bo is allergic to shellfish."]
    found = (await read(said, DetectionRequest(subjects=[USER], concepts=[ALLERGIES]), answer)).detection
    assert [(item.fact.values, item.doubt is not None) for item in found.candidates] == [
        (("Bo: shellfish",), True),
        (("shellfish",), True),
    ]


HOBBY = Concept.multiple("hobby", "What they like")
HOBBIES = [f"hobby{number:02}" for number in range(60)]
MANY = " ".join(f"I like {name} a lot, and I have done so for many years now." for name in HOBBIES)


def liked(*names: str) -> dict[str, Any]:
    return {"hobby": [{"quote": f"I like {name}", "message": 1, "values": [name]} for name in names]}


@pytest.mark.slow
async def test_a_list_that_is_full_is_read_again_in_parts() -> None:
    """A schema's limit, the same for all texts, costs no fact of a long one."""

    def script(prompt: Prompt, answer: object) -> dict[str, Any]:
        said = [name for name in HOBBIES if f"{name} " in prompt.content]
        return liked(*said[:16])

    model = ScriptedModel(script)
    talk = Conversation(messages=[Message(content=MANY)])
    found = await InstructorDetector(model).detect(talk, DetectionRequest(concepts=[HOBBY]))
    assert len(model.prompts) > 2
    assert [value for item in found.candidates for value in item.fact.values] == HOBBIES


@pytest.mark.parametrize("answer", [liked(*HOBBIES[:15]), liked(*["hobby00"] * 16), liked(*HOBBIES[:17])])
async def test_a_list_that_is_not_cut_or_repeats_itself_is_not_read_again(
    read: Callable[..., Any], answer: dict[str, Any]
) -> None:
    reading = await read([MANY], DetectionRequest(concepts=[HOBBY]), answer)
    assert len(reading.prompts) == 1
    assert DropReason.TOO_MANY not in reading.detection.dropped
