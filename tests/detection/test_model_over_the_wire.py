"""The detector over a real socket: the request that leaves the process, and answers as endpoints give them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from factmem.abc import MANAGED_TOPICS, AnalysisRequest, Conversation, Detection, DetectionRequest, DropReason, Message
from factmem.detection import InstructorAnalyst, InstructorDetector
from factmem.errors import ModelAnswerError, ModelError, ModelRefusedError
from factmem.facts import Concept
from factmem.llm import InstructorModel
from factmem.subjects import MemorySubject
from factmem.testing.chat_answers import answering, chat_answer
from factmem.testing.openai_server import LoopbackOpenAIServer, Responder
from factmem.testing.strategies import Mood, Pet

SEATS = Concept.single("seats", "How many seats are booked", int)
PETS = Concept.multiple("pets", "Animals that they keep", Pet)
REQUEST = DetectionRequest(
    subjects=[MemorySubject("user", "who speaks"), MemorySubject("firm")],
    concepts=[SEATS, PETS],
    open=True,
    topics=MANAGED_TOPICS,
)
SAID = "We booked 12 seats and I have a cat, Tom. My password is tr0ub4dor&3."
SEATS_ITEM = {"quote": "booked 12 seats", "message": 1, "about": "firm", "value": 12}
RIGHT: dict[str, Any] = {
    "seats": [SEATS_ITEM],
    "pets": [{"quote": "a cat, Tom", "message": 1, "about": "user", "values": [{"name": "Tom", "mood": "good"}]}],
    "facts": [],
    "memories": [],
    "remember": [],
    "forget": [],
}


async def detected(respond: Responder, *, mode: str = "JSON_SCHEMA") -> tuple[Detection, list[dict[str, Any]]]:
    with LoopbackOpenAIServer(respond) as server:
        model = InstructorModel("m", base_url=server.base_url, api_key="k", mode=mode, tries=2, retries=0, pause=0.0)
        conversation = Conversation(messages=[Message(content=SAID)], id="c")
        detection = await InstructorDetector(model).detect(conversation, REQUEST)
    return detection, [request for _, request in server.requests]


def values(detection: Detection) -> list[Any]:
    return [value for item in detection.candidates for value in item.fact.values]


@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA", "JSON", "MD_JSON"])
async def test_typed_facts_come_back_in_every_mode(mode: str) -> None:
    detection, (request,) = await detected(answering(RIGHT), mode=mode)
    assert values(detection) == [12, Pet("Tom", None, Mood.GOOD)]
    assert "tr0ub4dor" not in json.dumps(request)


async def test_the_schema_that_is_sent_holds_the_types_asked_for() -> None:
    _, (request,) = await detected(answering(RIGHT))
    schema = request["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == list(RIGHT) == schema["required"]
    assert {"type": "integer", "description": "How many seats are booked", "title": "Value"} in [
        part["properties"].get("value") for part in schema["$defs"].values()
    ]
    assert schema["$defs"]["Pet"]["required"] == ["name", "age", "mood"]
    assert all(part["maxItems"] < 20 for part in schema["properties"].values()), "a small model would go on for ever"


async def test_a_short_text_has_a_short_answer() -> None:
    """Where the schema is enforced, a small model can neither repeat one value for ever nor talk on in a quote."""
    _, (request,) = await detected(answering(RIGHT))
    schema = request["response_format"]["json_schema"]["schema"]
    lists, parts = schema["properties"], schema["$defs"]
    assert lists["seats"]["maxItems"] < lists["pets"]["maxItems"]
    quotes = [part["properties"]["quote"] for part in parts.values() if "quote" in part["properties"]]
    assert max(quote["maxLength"] for quote in quotes) < 500


@pytest.mark.parametrize(
    "said",
    [
        f"```json\n{json.dumps(RIGHT)}\n```",
        f"Here you are: {json.dumps(RIGHT)} Anything else?",
        json.dumps(json.dumps(RIGHT)),
        RIGHT | {"note": "an extra key", "seats": [SEATS_ITEM | {"sure": True}]},
    ],
)
async def test_answers_in_the_wrong_wrapping_are_read(said: Any) -> None:
    detection, requests = await detected(answering(said))
    assert (values(detection), len(requests)) == ([12, Pet("Tom")], 1)


async def test_a_wrong_type_is_asked_again() -> None:
    wrong = RIGHT | {"seats": [SEATS_ITEM | {"value": "a dozen"}]}
    detection, requests = await detected(answering(wrong, RIGHT))
    assert (values(detection), len(requests)) == ([12, Pet("Tom")], 2)


async def test_unknown_subjects_topics_and_quotes_do_not_cost_the_others() -> None:
    """One bad item must not make the whole answer fail."""
    said = RIGHT | {
        "seats": [SEATS_ITEM, SEATS_ITEM | {"about": "the pope"}, SEATS_ITEM | {"quote": "booked 99 seats"}],
        "memories": [SEATS_ITEM | {"memory": "They booked seats.", "topics": ["gossip"]}],
    }
    detection, requests = await detected(answering(said))
    assert (values(detection), len(requests)) == ([12, Pet("Tom")], 1)
    assert detection.dropped == {
        DropReason.UNKNOWN_SUBJECT: 1,
        DropReason.QUOTE_NOT_FOUND: 1,
        DropReason.UNKNOWN_TOPIC: 1,
    }


@pytest.mark.parametrize(
    ("respond", "error"),
    [
        (answering("No facts extracted"), ModelAnswerError),
        (answering({"seats": "none"}), ModelAnswerError),
        (answering(chat_answer(None, refusal="I can't help with that.")), ModelRefusedError),
        (answering(chat_answer('{"seats": [', finish_reason="length")), ModelAnswerError),
    ],
)
async def test_no_answer_is_a_typed_error_and_never_an_empty_result(
    respond: Responder, error: type[ModelError]
) -> None:
    with pytest.raises(error) as raised:
        await detected(respond)
    assert "seats and I" not in str(raised.value)


async def test_an_importance_out_of_range_is_asked_again() -> None:
    said: dict[str, Any] = {"scope": None, "categories": [], "entities": [], "dates": [], "topics": []}
    with LoopbackOpenAIServer(answering(said | {"importance": 1.2}, said | {"importance": 0.7})) as server:
        model = InstructorModel("m", base_url=server.base_url, api_key="k", tries=2, pause=0.0)
        analysis = await InstructorAnalyst(model).analyse("So.", AnalysisRequest())
    assert (analysis.importance, len(server.requests)) == (0.7, 2)
