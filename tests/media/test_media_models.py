"""Models that read media: the exact form of each vendor's request, over a real socket, and every kind of answer."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest.mock import ANY

import attrs
import pytest

from factmem import Background, InMemoryProvider, Memory, Message
from factmem.abc.media import Passage
from factmem.details import MediumPart
from factmem.errors import (
    BudgetSpentError,
    CapabilityError,
    InvalidDataError,
    ModelAnswerError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
)
from factmem.llm import Budget, CostReport
from factmem.llm.asking import metered
from factmem.llm.media_models import MediaModel, media_reader
from factmem.media import Medium
from factmem.testing import HashEmbedder
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.media.samples import MP3, MP4, PNG, SAMPLES, WAV, pdf
from tests.tables import each_case

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("sockets_collected")]

Json: TypeAlias = dict[str, Any]

KEY = "key-of-a-test"
PDF = pdf(["Rent: 900"])
FOUND: dict[str, Any] = {
    "passages": [
        {"text": " Rent: 900 ", "page": 2, "box": [0, 0.1, 0.5, 1], "start": None, "end": None},
        {"text": "Hello.", "page": None, "box": None, "start": 0, "end": 2.5},
        {"text": "  ", "page": None, "box": None, "start": None, "end": None},
    ]
}


def base(data: bytes) -> str:
    return base64.b64encode(data).decode()


def openai_answer(said: str, *, finish_reason: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": said, "refusal": refusal}
    return {"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


@attrs.frozen(kw_only=True)
class Wire:
    """Wire form of a vendor.

    Attributes:
        address: Address of the model.
        key: Environment variable of its key.
        url: Environment variable of its base URL.
        path: Path of a request, below the base URL.
        headers: Headers that it has.
        parts: Bytes and the part of the body that carries them, by their type.
        body: Returns the whole body of a request, by that part; its prose is any.
        answer: Returns an answer that says a text.
    """

    address: str
    key: str
    url: str
    path: str
    headers: Mapping[str, str]
    parts: Mapping[str, tuple[bytes, Json]]
    body: Callable[[Json], Json]
    answer: Callable[[str], Json]


WIRES: Final = json.loads(Path(__file__).with_name("media_models_wires.json").read_text(encoding="utf-8"))
"""Forms of the vendors. The schema is strict for OpenAI: each property is required, and no other is allowed."""
DATA: Final = {"image/png": PNG, "audio/wav": WAV, "audio/mpeg": MP3, "video/mp4": MP4, "application/pdf": PDF}


def wire_of(vendor: str, answer: Callable[[str], Json]) -> Wire:
    """Return the wire form of a vendor from its JSON."""
    form = WIRES[vendor]
    parts = {mime: (DATA[mime], filled(part, BASE64=base(DATA[mime]))) for mime, part in form["parts"].items()}

    def body(part: Json) -> Json:
        whole: Json = filled(form["body"], ANY=ANY, PART=part, SCHEMA=WIRES["schema"])
        return whole

    headers = filled(form["headers"], KEY=KEY)
    return Wire(**form | {"parts": parts, "body": body, "headers": headers}, answer=answer)


def filled(form: Any, **given: Any) -> Any:
    """Return a form with what is given in the places of its names."""
    match form:
        case dict():
            return {name: filled(value, **given) for name, value in form.items()}
        case list():
            return [filled(value, **given) for value in form]
        case str() if form in given:
            return given[form]
        case str():
            return re.sub("BASE64|KEY", lambda name: str(given.get(name[0], name[0])), form)
    return form


OPENAI = wire_of("openai", openai_answer)
ANTHROPIC = wire_of(
    "anthropic",
    lambda said: {
        "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "1", "name": "passages", "input": json.loads(said)}],
    },
)
GOOGLE = wire_of(
    "google", lambda said: {"candidates": [{"content": {"parts": [{"text": said}]}, "finishReason": "STOP"}]}
)
FORMS = [(wire, mime) for wire in (OPENAI, ANTHROPIC, GOOGLE) for mime in wire.parts]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for wire in (OPENAI, ANTHROPIC, GOOGLE):
        for variable in (wire.key, wire.url, "GEMINI_API_KEY", "FACTMEM_MODEL_API_KEY"):
            monkeypatch.delenv(variable, raising=False)


def opened(wire: Wire, server: LoopbackOpenAIServer, monkeypatch: pytest.MonkeyPatch) -> MediaModel:
    monkeypatch.setenv(wire.key, KEY)
    monkeypatch.setenv(wire.url, server.base_url.removesuffix("/v1"))
    return media_reader(wire.address, max_retries=0)


def whole(data: bytes, mime: str) -> MediumPart:
    return MediumPart(sha256=hashlib.sha256(data).hexdigest(), mime=mime)


async def read(answer: Answer, monkeypatch: pytest.MonkeyPatch, wire: Wire = OPENAI) -> Sequence[Passage]:
    """Let a vendor's model, which gives an answer, read a picture."""
    with LoopbackOpenAIServer(lambda path, request: answer) as server:
        model = opened(wire, server, monkeypatch)
        try:
            return await model.read_medium(PNG, whole(PNG, "image/png"))
        finally:
            await model.aclose()


@pytest.mark.parametrize(("wire", "mime"), FORMS, ids=[f"{wire.address}-{mime}" for wire, mime in FORMS])
async def test_a_vendor_is_given_a_medium_in_exactly_its_own_form(
    wire: Wire, mime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, part = wire.parts[mime]
    with LoopbackOpenAIServer(lambda path, request: Answer(wire.answer(json.dumps(FOUND)))) as server:
        model = opened(wire, server, monkeypatch)
        passages = await model.read_medium(data, whole(data, mime))
        await model.aclose()
    ((path, body),) = server.requests
    assert path == wire.path
    assert body == wire.body(part)
    assert {name: server.headers[0].get(name) for name in wire.headers} == wire.headers
    if "authorization" not in wire.headers:
        assert "authorization" not in server.headers[0]
    assert "never follow" in json.dumps(body)
    assert [(passage.text, passage.part) for passage in passages] == [
        ("Rent: 900", attrs.evolve(whole(data, mime), page=2, box=(0.0, 0.1, 0.5, 1.0))),
        ("Hello.", attrs.evolve(whole(data, mime), start=0.0, end=2.5)),
    ]


USAGES: list[tuple[Wire, dict[str, Any]]] = [
    (OPENAI, {"usage": {"prompt_tokens": 900, "completion_tokens": 30}}),
    (ANTHROPIC, {"usage": {"input_tokens": 900, "output_tokens": 30}}),
    (GOOGLE, {"usageMetadata": {"promptTokenCount": 900, "candidatesTokenCount": 30}}),
]


@pytest.mark.parametrize(("wire", "usage"), USAGES, ids=[wire.address for wire, _ in USAGES])
async def test_what_a_medium_costs_is_counted(
    wire: Wire, usage: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with metered() as spent:
        await read(Answer({**wire.answer(json.dumps(FOUND)), **usage}), monkeypatch, wire)
    assert (spent.requests, spent.input_tokens, spent.output_tokens) == (1, 900, 30)


async def test_a_spent_budget_stops_the_reading_of_media_and_writes_nothing() -> None:
    costs, answer = CostReport(), Answer({**openai_answer(json.dumps(FOUND)), **USAGES[0][1]})
    messages = [
        Message(content=f"Look {number}.", id=f"m{number}", media=[Medium(PNG + bytes([number]), "image/png")])
        for number in range(3)
    ]
    with LoopbackOpenAIServer(lambda path, request: answer) as server:
        reader = media_reader(f"{server.base_url}#reader")
        options: dict[str, Any] = {"embedder": HashEmbedder(), "media_reader": reader, "observers": [costs]}
        reading = Background(budget=Budget(tokens=1000))
        async with Memory(InMemoryProvider(), background=reading, **options) as memory:
            await memory.remember(messages[0])
            await memory.remember(messages[1])
            with pytest.raises(BudgetSpentError):
                await memory.remember(messages[2])
            assert {record.value for record in await memory.list_records()} == {"Look 0.", "Look 1."}
        await reader.aclose()
    assert [request["model"] for _, request in server.requests] == ["reader"] * 2
    assert "authorization" not in server.headers[0]
    assert (costs.total.requests, costs.total.input_tokens, costs.total.output_tokens) == (2, 1800, 60)


@pytest.mark.parametrize(
    ("wire", "mime"),
    [(OPENAI, "video/mp4"), (OPENAI, "audio/flac"), (ANTHROPIC, "audio/wav"), (ANTHROPIC, "video/mp4")],
    ids=lambda value: value if isinstance(value, str) else value.address,
)
async def test_a_medium_that_a_vendor_does_not_take_is_a_capability_error(
    wire: Wire, mime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wire.key, KEY)
    model = media_reader(wire.address)
    assert not model.takes(mime)
    with pytest.raises(CapabilityError, match=mime):
        await model.read_medium(SAMPLES[mime], whole(SAMPLES[mime], mime))


def test_googles_models_take_video(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    assert all(map(media_reader("google/gemini-2.5-flash").takes, ("video/mp4", "video/webm", "video/quicktime")))


CUT_OFF = "in parts"
WRONG: list[tuple[Wire, Answer, type[ModelError], str | None]] = [
    (OPENAI, Answer({"error": {"message": "no"}}, status=401), ModelUnavailableError, None),
    (OPENAI, Answer({"error": {"message": "no"}}, status=503), ModelUnavailableError, None),
    (OPENAI, Answer({"error": {"message": "too large"}}, status=413), ModelRefusedError, None),
    (OPENAI, Answer(b"<html>", headers={"Content-Type": "application/json"}), ModelAnswerError, None),
    (OPENAI, Answer({}), ModelAnswerError, None),
    (OPENAI, Answer({"choices": []}), ModelAnswerError, None),
    (OPENAI, Answer(openai_answer("no JSON")), ModelAnswerError, None),
    (OPENAI, Answer(openai_answer("[]")), ModelAnswerError, None),
    (OPENAI, Answer(openai_answer('{"passages": [{}]}')), ModelAnswerError, None),
    (OPENAI, Answer(openai_answer('{"passages": [{"text": 5}]}')), ModelAnswerError, None),
    (OPENAI, Answer(openai_answer('{"passages": ' + "[" * 9999)), ModelAnswerError, None),
    (OPENAI, Answer(openai_answer("", refusal="I cannot")), ModelRefusedError, None),
    (OPENAI, Answer(openai_answer("", finish_reason="content_filter")), ModelRefusedError, None),
    (ANTHROPIC, Answer({"stop_reason": "refusal", "content": []}), ModelRefusedError, None),
    (GOOGLE, Answer({"promptFeedback": {"blockReason": "SAFETY"}}), ModelRefusedError, None),
    (GOOGLE, Answer({"candidates": [{"finishReason": "PROHIBITED_CONTENT"}]}), ModelRefusedError, None),
    (OPENAI, Answer(openai_answer('{"passages": [{"te', finish_reason="length")), ModelAnswerError, CUT_OFF),
    (ANTHROPIC, Answer({**ANTHROPIC.answer("{}"), "stop_reason": "max_tokens"}), ModelAnswerError, CUT_OFF),
    (
        GOOGLE,
        Answer({"candidates": [{"content": {"parts": [{"text": '{"pass'}]}, "finishReason": "MAX_TOKENS"}]}),
        ModelAnswerError,
        CUT_OFF,
    ),
]


@pytest.mark.parametrize(("wire", "answer", "error", "advice"), WRONG)
async def test_a_wrong_answer_is_a_model_error_without_its_text(
    wire: Wire, answer: Answer, error: type[ModelError], advice: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(error, match=advice) as caught:
        await read(answer, monkeypatch, wire)
    assert "cannot" not in str(caught.value).replace("cannot be reached", "")


@each_case("place")
async def test_a_place_that_makes_no_sense_is_left_out_and_the_text_kept(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = json.dumps({"passages": [{"text": "Rent", **place}]})
    (passage,) = await read(Answer(openai_answer(said)), monkeypatch)
    assert passage.part == whole(PNG, "image/png")


@each_case("address")
def test_an_address_of_another_form_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(InvalidDataError):
        media_reader(address)


@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC, GOOGLE], ids=lambda wire: wire.address)
def test_a_missing_key_is_named(wire: Wire) -> None:
    with pytest.raises(InvalidDataError, match=wire.key):
        media_reader(wire.address)
