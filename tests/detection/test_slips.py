"""Slips of a model, over a real socket: what is meant is kept, and long lists are read on until all of them is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest

from factmem.abc import Detection, DetectionExample, DetectionRequest
from factmem.abc.detector import Conversation, Message
from factmem.abc.topics import Topic
from factmem.detection import InstructorDetector
from factmem.facts import Concept
from factmem.llm import InstructorModel
from factmem.testing.chat_answers import answering, chat_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer, Responder
from factmem.testing.strategies import Pet
from tests.tables import cases

pytestmark = pytest.mark.slow

SEATS = Concept.single("seats", "How many seats there are", int)
PRICE = Concept.single("price", "What a seat costs", Decimal)
TAGS = Concept.single("tags", "Its tags", list[str])
CITY = Concept.single("city", "Where they live")
LANGUAGES = Concept.multiple("languages", "Programming languages that they use")
PET = Concept.single("pet", "Their pet", Pet)
CONCEPTS = DetectionRequest(concepts=[SEATS, PRICE, TAGS, CITY, LANGUAGES, PET])
SAID = (
    "We have 80 seats, for €12.50 each. I live in New Delhi. I write Python and Rust.\n"
    "Its tags are blue and round. I like “dark roast” coffee."
)


async def detected(
    respond: Responder, request: DetectionRequest = CONCEPTS, said: str = SAID
) -> tuple[Detection, list[dict[str, Any]]]:
    with LoopbackOpenAIServer(respond) as server:
        model = InstructorModel("m", base_url=server.base_url, api_key="k", tries=2, retries=0, pause=0.0)
        conversation = Conversation(messages=[Message(content=said)], id="c")
        detection = await InstructorDetector(model).detect(conversation, request)
    return detection, [request for _, request in server.requests]


def values(detection: Detection) -> list[Any]:
    """Return all values that were found, believed at once or to be asked about."""
    return [value for item in detection.candidates for value in item.fact.values]


def found(keyword: str, quote: str, **item: Any) -> dict[str, Any]:
    return {keyword: [{"quote": quote, "message": 1, **item}]}


WRITE = "I write Python and Rust"
MEANT: Mapping[str, tuple[Any, list[Any]]] = {
    "a price": (found("price", "for €12.50 each", value="€12.50"), [Decimal("12.50")]),
    **{name: (said, meant) for name, said, meant in cases(__file__)["small slips"]},
}


@pytest.mark.parametrize(("said", "meant"), MEANT.values(), ids=MEANT.keys())
async def test_a_small_slip_is_read_as_it_is_meant(said: Any, meant: list[Any]) -> None:
    detection, requests = await detected(answering(said))
    assert (values(detection), detection.dropped, len(requests)) == (meant, {}, 1)


async def test_several_values_of_an_open_fact_are_a_fact_each() -> None:
    fact = {"keyword": "language", "kind": "multiple", "description": "d", "values": ["Python", "Rust"]}
    answer = {"facts": [{"quote": WRITE, "message": 1, **fact}]}
    detection, _ = await detected(answering(answer), DetectionRequest(open=True))
    assert values(detection) == ["Python", "Rust"]


@pytest.mark.parametrize(
    "said",
    [
        {"city": "Mumbai"},
        {"seats": 81},
        found("seats", "have 80 seats", values=[81, 82]),
        found("city", "I live in Old Delhi", value="New Delhi"),
        found("price", "for €12.50 each", value="1250"),
    ],
    ids=["a plain text", "a plain number", "several values", "other words", "another number"],
)
async def test_what_nobody_said_is_not_believed_whatever_the_slip(said: Any) -> None:
    detection, _ = await detected(answering(said))
    assert [item for item in detection.candidates if item.doubt is None] == []


@pytest.mark.parametrize("value", ["12 or 80 seats", "80k seats", "several", "none", True])
async def test_a_text_that_may_be_several_numbers_is_asked_again(value: object) -> None:
    right = found("seats", "have 80 seats", value=80)
    detection, requests = await detected(answering(found("seats", "have 80 seats", value=value), right))
    assert (values(detection), len(requests)) == ([80], 2)


HOBBY = Concept.multiple("hobby", "What they like to do")
HOBBIES = [
    "".join(pair)
    for pair in zip(
        [*("chess", "tennis", "piano", "judo", "golf", "yoga", "polo", "rugby", "darts", "sewing") * 15],
        [end for end in "abcdefghijklmno" for _ in range(10)],
        strict=True,
    )
]
TEXTS: Mapping[str, Callable[[list[str]], str]] = {
    "one sentence": lambda names: f"My hobbies are {', '.join(names)}.",
    "lines": lambda names: "My hobbies:\n" + "\n".join(f"- {name}" for name in names),
    "sentences": lambda names: " ".join(f"I like {name} a lot." for name in names),
}


def listing(most: Callable[[dict[str, Any]], int]) -> Responder:
    """Return a model that lists the hobbies in a request, as many as it may."""

    def respond(path: str, request: dict[str, Any]) -> Answer:
        document = request["messages"][-1]["content"]
        said = re.findall(r'<message number="(\d+)" take_facts="yes"[^>]*>(.*?)</message>', document, re.DOTALL)
        items = [
            {"quote": name, "message": int(number), "values": [name]}
            for number, text in said
            for name in re.findall(r"[a-z]+", text)
            if name in HOBBIES
        ]
        return chat_answer({"hobby": items[: most(request)]})

    return respond


def allowed(request: dict[str, Any]) -> int:
    schema = request["response_format"]["json_schema"]["schema"]
    return int(schema["properties"]["hobby"]["maxItems"])


MODELS: Mapping[str, Callable[[dict[str, Any]], int]] = {
    "lists all": lambda request: len(HOBBIES),
    "lists what the schema allows": allowed,
    "lists sixteen at a time": lambda request: 16,
}


@pytest.mark.parametrize("number", [60, *(pytest.param(number, marks=pytest.mark.big) for number in (30, 150))])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("most", MODELS.values(), ids=MODELS.keys())
async def test_a_long_list_is_read_on_in_parts_until_all_of_it_is_kept(
    most: Callable[[dict[str, Any]], int], text: Callable[[list[str]], str], number: int
) -> None:
    names = HOBBIES[:number]
    detection, requests = await detected(listing(most), DetectionRequest(concepts=[HOBBY]), text(names))
    assert (values(detection), detection.dropped) == (names, {})
    assert len(requests) < number


async def test_many_values_of_one_finding_are_all_kept() -> None:
    names = HOBBIES[:60]
    text = TEXTS["one sentence"](names)
    answer = found("hobby", text, values=names)
    detection, requests = await detected(answering(answer), DetectionRequest(concepts=[HOBBY]), text)
    assert (values(detection), len(requests)) == (names, 1)


WINDOW = "The user prefers window seats."
FLYING = Topic("flying", "how they fly", examples=(("Window seats, always.", WINDOW),))


@pytest.mark.parametrize("said", ["I'd always take the window when flying.", "Window, please, as ever."])
async def test_a_memory_that_equals_a_worked_example_is_kept_if_it_was_said(said: str) -> None:
    example = DetectionExample(
        conversation=Conversation(messages=[Message(content="By the window.")]), memories=((WINDOW, ("flying",)),)
    )
    request = DetectionRequest(topics=[FLYING], examples=[example])
    answer = found("memories", said, memory=WINDOW, topics=["flying"])
    detection, _ = await detected(answering(answer), request, said)
    assert values(detection) == [WINDOW]
    detection, _ = await detected(
        answering(found("memories", "moved to Oslo", memory=WINDOW)), request, "I moved to Oslo."
    )
    assert [item for item in detection.candidates if item.doubt is None] == []


async def test_a_text_concept_has_no_example_but_its_own() -> None:
    """A sentence that was made for no concept in particular would teach nonsense ("We settled on Alder")."""
    _, (request,) = await detected(answering({"city": []}), DetectionRequest(concepts=[CITY, LANGUAGES, SEATS]))
    (shown,) = [json.loads(item["content"]) for item in request["messages"] if item["role"] == "assistant"][1:]
    assert (shown["city"], shown["languages"], len(shown["seats"])) == ([], [], 1)
    own = Concept.single("city", "Where they live", examples=[("Porto is home now.", "Porto")])
    _, (request,) = await detected(answering({"city": []}), DetectionRequest(concepts=[own]))
    (shown,) = [json.loads(item["content"]) for item in request["messages"] if item["role"] == "assistant"][1:]
    assert shown == {"city": [{"quote": "Porto is home now.", "message": 1, "value": "Porto"}], "forget": []}


async def test_a_request_without_examples_shows_its_schema_instead() -> None:
    _, (request,) = await detected(answering({"city": []}), DetectionRequest(concepts=[CITY]))
    assert [item["role"] for item in request["messages"]] == ["system", "user"]
    assert '"city":{' in request["messages"][0]["content"]
