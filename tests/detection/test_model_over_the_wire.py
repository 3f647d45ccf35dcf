"""The detector over a real socket: requests as sent, and answers in the forms that endpoints return."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from factmem.abc import Detection, DetectionRequest
from factmem.abc.analyst import AnalysisRequest
from factmem.abc.consolidator import Known, Novelty
from factmem.abc.detector import Conversation, DropReason, Message
from factmem.abc.question_analyst import QuestionRequest
from factmem.abc.topics import MANAGED_TOPICS
from factmem.consolidation.model_consolidator import InstructorConsolidator
from factmem.detection import InstructorDetector
from factmem.detection.model_analyst import InstructorAnalyst, InstructorQuestionAnalyst
from factmem.errors import ModelAnswerError, ModelError, ModelRefusedError
from factmem.facts import Concept
from factmem.llm import InstructorModel
from factmem.memory.facade import Memory
from factmem.subjects import MemorySubject
from factmem.testing import HashEmbedder
from factmem.testing.chat_answers import answering, chat_answer
from factmem.testing.openai_server import LoopbackOpenAIServer, Responder
from factmem.testing.strategies import Mood, Pet

pytestmark = pytest.mark.slow

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
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


async def detected(
    respond: Responder, *, mode: str = "JSON_SCHEMA", said: str = SAID
) -> tuple[Detection, list[dict[str, Any]]]:
    with LoopbackOpenAIServer(respond) as server:
        model = InstructorModel("m", base_url=server.base_url, api_key="k", mode=mode, tries=2, retries=0, pause=0.0)
        conversation = Conversation(messages=[Message(content=said)], id="c")
        detection = await InstructorDetector(model).detect(conversation, REQUEST)
    return detection, [request for _, request in server.requests]


def values(detection: Detection) -> list[Any]:
    return [value for item in detection.candidates for value in item.fact.values]


MODES = ["TOOLS", "JSON_SCHEMA", "JSON", "MD_JSON"]
in_one_form, in_both_forms = (
    pytest.mark.parametrize(
        "mode", [mode if mode in forms else pytest.param(mode, marks=pytest.mark.big) for mode in MODES]
    )
    for forms in (["JSON_SCHEMA"], ["TOOLS", "JSON_SCHEMA"])
)
"""An answer is the arguments of a call or a text, which is read in the same way whatever it was asked for by."""


@pytest.mark.parametrize("mode", MODES)
async def test_typed_facts_come_back_in_every_mode(mode: str) -> None:
    detection, (request,) = await detected(answering(RIGHT), mode=mode)
    assert values(detection) == [12, Pet("Tom", None, Mood.GOOD)]
    assert "tr0ub4dor" not in json.dumps(request)


def schema_of(request: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = request["response_format"]["json_schema"]["schema"]
    return schema


async def test_the_schema_that_is_sent_holds_the_types_asked_for() -> None:
    _, (request,) = await detected(answering(RIGHT))
    schema = schema_of(request)
    assert list(schema["properties"]) == list(RIGHT) == schema["required"]
    seats, pets = (schema["properties"][name]["items"]["properties"] for name in ("seats", "pets"))
    assert seats["value"] == {"type": "integer"}
    assert pets["values"]["items"]["required"] == ["name", "age", "mood"]


async def test_the_schema_sets_limits_that_a_small_model_stops_at() -> None:
    """An enforced schema keeps it from repeating one value without end and from extending a quote."""
    _, (request,) = await detected(answering(RIGHT))
    lists = schema_of(request)["properties"]
    assert all(part["maxItems"] < 50 for part in lists.values())
    assert lists["seats"]["maxItems"] < lists["pets"]["maxItems"]
    assert all(part["items"]["properties"]["quote"]["maxLength"] < 500 for part in lists.values())


@pytest.mark.parametrize("mode", MODES)
async def test_two_conversations_share_all_of_a_request_but_their_words(mode: str) -> None:
    """Schema, instructions, examples and headers depend on the request alone, so that a provider can cache them."""
    texts = [SAID, "I moved to Oslo. " * 400]
    sent = [(await detected(answering(RIGHT), mode=mode, said=text))[1][0] for text in texts]
    formats = [{key: value for key, value in request.items() if key != "messages"} for request in sent]
    assert formats[0] == formats[1]
    *before, last = zip(*(request["messages"] for request in sent), strict=True)
    assert all(one == other for one, other in before)
    assert len(before) >= 5
    headers = [message["content"].partition("<conversation>")[0] for message in last]
    assert headers[0] == headers[1]


@pytest.mark.parametrize("mode", MODES)
async def test_the_schema_is_sent_once_without_titles_and_in_our_words(mode: str) -> None:
    _, (request,) = await detected(answering(RIGHT), mode=mode)
    sent = json.dumps(request, ensure_ascii=False).replace('\\"', '"').replace(" ", "")
    assert sent.count('"quote":{"maxLength"') == len(RIGHT)
    assert '"title":"Quote"' not in sent
    assert "genius" not in sent


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


WRONG_SEATS = SEATS_ITEM | {"value": "a dozen"}
PET_ITEM = RIGHT["pets"][0]
NOTHING: dict[str, Any] = {key: [] for key in RIGHT}


@in_both_forms
@pytest.mark.parametrize(
    ("wrong", "reasons"),
    [
        ({"seats": [SEATS_ITEM, WRONG_SEATS]}, {DropReason.INVALID_VALUE: 1}),
        (
            {"pets": [PET_ITEM | {"values": [{"name": "Tom", "mood": "good"}, {"name": "Rex", "mood": "green"}]}]},
            {DropReason.INVALID_VALUE: 1},
        ),
        ({"pets": [PET_ITEM, PET_ITEM | {"values": [{"mood": "green"}]}]}, {DropReason.INVALID_VALUE: 1}),
        ({"facts": ["They booked.", {"colour": "green"}]}, {DropReason.MALFORMED: 2}),
        ({"memories": [SEATS_ITEM | {"quote": ["no", "text"]}]}, {DropReason.MALFORMED: 1}),
        ({"bookings": [SEATS_ITEM]}, {DropReason.UNKNOWN_CONCEPT: 1}),
    ],
    ids=["value of a single", "value among several", "all values", "no object", "no quote", "key not asked for"],
)
async def test_one_wrong_item_is_dropped_and_counted_and_costs_no_other(
    wrong: dict[str, Any], reasons: dict[DropReason, int], mode: str
) -> None:
    detection, requests = await detected(answering(RIGHT | wrong), mode=mode)
    assert (values(detection), len(requests)) == ([12, Pet("Tom")], 1)
    assert detection.dropped == reasons


@in_both_forms
async def test_an_answer_without_a_valid_item_is_asked_again_with_what_was_wrong(mode: str) -> None:
    detection, requests = await detected(answering(NOTHING | {"seats": [WRONG_SEATS]}, RIGHT), mode=mode)
    assert (values(detection), len(requests)) == ([12, Pet("Tom")], 2)
    assert "value: Input should be a valid integer" in json.dumps(requests[1])
    assert detection.dropped == {}


WRAPPED: dict[str, Any] = {
    "result": {"result": RIGHT},
    "a list": [RIGHT],
    "a call": {"name": "Findings", "arguments": RIGHT},
    "some of the keys": {"seats": RIGHT["seats"], "pets": RIGHT["pets"]},
    "one item for a list": RIGHT | {"seats": SEATS_ITEM},
    "null and nothing": RIGHT | {"facts": None, "forget": {}},
}


@in_one_form
@pytest.mark.parametrize("said", WRAPPED.values(), ids=WRAPPED.keys())
async def test_an_answer_in_a_single_wrapper_is_taken_out_of_it(said: Any, mode: str) -> None:
    detection, requests = await detected(answering(said), mode=mode)
    assert (values(detection), len(requests)) == ([12, Pet("Tom")], 1)


MISSHAPEN: dict[str, Any] = {
    "an empty object": {},
    "an empty list": [],
    "other keys": {"homeCity": [{"quote": "booked 12 seats", "value": "Oslo"}]},
    "other keys in a wrapper": {"result": {"homeCity": []}},
    "an empty wrapper": {"result": {}},
    "an error": {"error": "no facts could be extracted"},
    "an error of the right shape": {"error": RIGHT},
    "two answers": [RIGHT, RIGHT],
    "the schema": {"type": "object", "properties": {}},
    "findings under another key": NOTHING | {"seat": [SEATS_ITEM]},
}


@in_one_form
@pytest.mark.parametrize("said", MISSHAPEN.values(), ids=MISSHAPEN.keys())
async def test_an_answer_of_the_wrong_shape_is_asked_again_and_then_an_error(said: Any, mode: str) -> None:
    detection, requests = await detected(answering(said, RIGHT), mode=mode)
    assert (values(detection), len(requests)) == ([12, Pet("Tom")], 2)
    with pytest.raises(ModelAnswerError):
        await detected(answering(said), mode=mode)


INVALID: dict[str, tuple[Any, DropReason]] = {
    "a value of another type": ({"seats": [SEATS_ITEM | {"value": "a few"}]}, DropReason.INVALID_VALUE),
    "a word for a list": ({"seats": "none"}, DropReason.INVALID_VALUE),
    "a text for an item": (NOTHING | {"facts": ["They booked seats."]}, DropReason.MALFORMED),
}


@in_one_form
@pytest.mark.parametrize(("said", "why"), INVALID.values(), ids=INVALID.keys())
async def test_an_answer_of_invalid_items_alone_is_asked_again_and_they_are_then_dropped(
    said: Any, why: DropReason, mode: str
) -> None:
    detection, requests = await detected(answering(said, RIGHT), mode=mode)
    assert (values(detection), detection.dropped, len(requests)) == ([12, Pet("Tom")], {}, 2)
    detection, requests = await detected(answering(said), mode=mode)
    assert (values(detection), detection.dropped, len(requests)) == ([], {why: 1}, 2)


@in_one_form
@pytest.mark.parametrize("said", [NOTHING, {"facts": []}, {"result": {"facts": []}}], ids=["all", "one", "wrapped"])
async def test_an_answer_that_found_nothing_is_an_empty_result(said: Any, mode: str) -> None:
    detection, requests = await detected(answering(said), mode=mode)
    assert (detection.candidates, detection.dropped, len(requests)) == ((), {}, 1)


@in_one_form
@pytest.mark.parametrize("said", [{}, {"result": {}}, {"homeCity": [SEATS_ITEM]}, {"error": "no"}])
async def test_words_that_no_answer_was_understood_about_are_kept_as_a_dead_letter(said: Any, mode: str) -> None:
    with LoopbackOpenAIServer(answering(said)) as server:
        model = InstructorModel("m", base_url=server.base_url, api_key="k", mode=mode, tries=2, pause=0.0)
        async with Memory("memory:", model=model, embedder=HashEmbedder()) as memory:
            result = await memory.remember(Message(content="We booked 12 seats."), looking_for=REQUEST)
            assert result.failure == "ModelAnswerError"
            assert [record.value for record in await memory.list_records()] == ["We booked 12 seats."]
            assert len(await memory.inbox.dead_letters.list()) == 1


async def _consolidated(model: InstructorModel) -> object:
    known = Known(text="Ana lives in Lyon.", said_at=NOW)
    novelty = Novelty(text="Ana lives in Faro.", said_at=NOW, known=(known,))
    return await InstructorConsolidator(model).decide(novelty)


OTHERS: dict[str, tuple[Callable[[InstructorModel], Awaitable[object]], dict[str, Any], dict[str, Any]]] = {
    "verdicts": (
        _consolidated,
        {"known": [{"number": 0, "action": "keep"}], "insert": True},
        {"known": [{"number": "first", "action": "keep"}]},
    ),
    "a question": (
        lambda model: InstructorQuestionAnalyst(model).analyse_question("Where is she?", QuestionRequest(now=NOW)),
        {"questions": [], "scopes": []},
        {"questions": [{"query": "Where?"}]},
    ),
    "gaps": (
        lambda model: InstructorQuestionAnalyst(model).find_gaps("Where is she?", []),
        {"gaps": []},
        {"gaps": ["where"]},
    ),
    "a text": (
        lambda model: InstructorAnalyst(model).analyse("Ana sails.", AnalysisRequest(importance=False)),
        {"entities": ["Ana"]},
        {"entities": [["Ana"]]},
    ),
    "statements": (
        lambda model: InstructorAnalyst(model).extract("Ana sails."),
        {"statements": []},
        {"statements": [{"text": "Ana sails."}]},
    ),
}


@in_one_form
@pytest.mark.parametrize(("ask", "right", "invalid"), OTHERS.values(), ids=OTHERS.keys())
async def test_every_other_answer_is_held_to_its_shape_as_well(
    ask: Callable[[InstructorModel], Awaitable[object]], right: dict[str, Any], invalid: dict[str, Any], mode: str
) -> None:
    def model(server: LoopbackOpenAIServer) -> InstructorModel:
        return InstructorModel("m", base_url=server.base_url, api_key="k", mode=mode, tries=2, retries=0, pause=0.0)

    wrong: dict[str, Any]
    for wrong in ({"other_key": []}, invalid):
        with LoopbackOpenAIServer(answering(wrong, right)) as server:
            await ask(model(server))
            assert len(server.requests) == 2
        with LoopbackOpenAIServer(answering(wrong)) as server, pytest.raises(ModelAnswerError):
            await ask(model(server))
    with LoopbackOpenAIServer(answering({"result": right})) as server:
        await ask(model(server))
        assert len(server.requests) == 1


async def test_a_verdict_that_is_not_valid_keeps_its_record_and_what_is_new() -> None:
    said = {"known": [{"number": 0, "action": "delete"}, {"number": 1, "action": "burn"}], "insert": False}
    known = [Known(text=f"Ana has {number} cats.", said_at=NOW) for number in (2, 3)]
    with LoopbackOpenAIServer(answering(said)) as server:
        model = InstructorModel("m", base_url=server.base_url, api_key="k")
        novelty = Novelty(text="Ana has 4 cats.", said_at=NOW, known=tuple(known))
        verdicts = await InstructorConsolidator(model).decide(novelty)
    assert (verdicts.insert, list(verdicts.known)) == (True, [0])


async def test_unknown_subjects_topics_and_quotes_do_not_cost_the_others() -> None:
    """One invalid item must not fail the whole answer."""
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
