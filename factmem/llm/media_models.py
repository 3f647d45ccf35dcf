"""Media readers over HTTP: the wire forms of OpenAI, Anthropic and Google for images, sound, video and PDF."""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

import attrs

from factmem.abc.media import Passage
from factmem.details import MediumPart
from factmem.errors import CapabilityError, InvalidDataError, ModelAnswerError, ModelRefusedError, ModelUnavailableError
from factmem.llm.asking import meter, meter_request, usage_of
from factmem.llm.json_endpoint import JsonEndpoint, Key, host_of, openai_package
from factmem.toml_tables import table

_ASKED: Final = table("llm/media")
_INSTRUCTIONS, _REQUEST, _SCHEMA = _ASKED["instructions"], _ASKED["request"], _ASKED["schema"]


@attrs.frozen(kw_only=True)
class MediaForm:
    """Form in which the endpoint of a vendor takes media and answers.

    Attributes:
        base_url: The vendor's own endpoint.
        url_variable: Environment variable with the address of another one.
        keys: Environment variables that may hold the key.
        key_header: Header of requests that carries the key.
        types: MIME types that it takes.
        path: Returns the path of a request, by model.
        body: Returns the body of a request: model, MIME type and base64.
        text: Returns the JSON text in an answer; None if the model refused.
        headers: Headers that every request has.
    """

    base_url: str
    url_variable: str
    keys: tuple[str, ...]
    key_header: str = "Authorization"
    types: frozenset[str]
    path: Callable[[str], str]
    body: Callable[[str, str, str], dict[str, Any]]
    text: Callable[[Any], str | None]
    headers: Mapping[str, str] = attrs.field(factory=dict)


_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_PDF: Final = "application/pdf"
_OPENAI_SOUND: Final = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def _openai_part(mime: str, data: str) -> dict[str, Any]:
    if mime in _OPENAI_SOUND:
        return {"type": "input_audio", "input_audio": {"data": data, "format": _OPENAI_SOUND[mime]}}
    address = f"data:{mime};base64,{data}"
    if mime == _PDF:
        return {"type": "file", "file": {"filename": "document.pdf", "file_data": address}}
    return {"type": "image_url", "image_url": {"url": address}}


def _openai_body(model: str, mime: str, data: str) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": _INSTRUCTIONS},
            {"role": "user", "content": [_openai_part(mime, data), {"type": "text", "text": _REQUEST}]},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "passages", "strict": True, "schema": _SCHEMA},
        },
    }


def _check_complete(reason: object) -> None:
    """Refuse an answer that ended for lack of room."""
    if reason in ("length", "max_tokens", "MAX_TOKENS"):
        raise ModelAnswerError("the media model's answer was cut off: give a long medium in parts")


def _openai_text(answer: Any) -> str | None:
    (choice,) = answer["choices"]
    _check_complete(choice.get("finish_reason"))
    if choice["message"].get("refusal") or choice.get("finish_reason") == "content_filter":
        return None
    return str(choice["message"]["content"])


def _anthropic_body(model: str, mime: str, data: str) -> dict[str, Any]:
    kind = "document" if mime == _PDF else "image"
    source = {"type": "base64", "media_type": mime, "data": data}
    return {
        "model": model,
        "max_tokens": 8192,
        "system": _INSTRUCTIONS,
        "messages": [
            {"role": "user", "content": [{"type": kind, "source": source}, {"type": "text", "text": _REQUEST}]}
        ],
        "tools": [{"name": "passages", "description": "The passages of the medium.", "input_schema": _SCHEMA}],
        "tool_choice": {"type": "tool", "name": "passages"},
    }


def _anthropic_text(answer: Any) -> str | None:
    if answer.get("stop_reason") == "refusal":
        return None
    _check_complete(answer.get("stop_reason"))
    (use,) = (block for block in answer["content"] if block["type"] == "tool_use")
    return json.dumps(use["input"])


def _google_body(model: str, mime: str, data: str) -> dict[str, Any]:
    return {
        "systemInstruction": {"parts": [{"text": _INSTRUCTIONS}]},
        "contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": mime, "data": data}}, {"text": _REQUEST}]}],
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": _SCHEMA},
    }


def _google_text(answer: Any) -> str | None:
    if not answer.get("candidates"):
        return None if "promptFeedback" in answer else str(answer["candidates"])
    found = answer["candidates"][0]
    _check_complete(found.get("finishReason"))
    if found.get("finishReason") in ("SAFETY", "PROHIBITED_CONTENT", "RECITATION", "BLOCKLIST", "SPII"):
        return None
    return "".join(part["text"] for part in found["content"]["parts"] if not part.get("thought"))


_OPENAI: Final = MediaForm(
    base_url="https://api.openai.com/v1",
    url_variable="OPENAI_BASE_URL",
    keys=("OPENAI_API_KEY",),
    types=frozenset({*_IMAGES, *_OPENAI_SOUND, _PDF}),
    path=lambda model: "/chat/completions",
    body=_openai_body,
    text=_openai_text,
)
_ANTHROPIC: Final = MediaForm(
    base_url="https://api.anthropic.com",
    url_variable="ANTHROPIC_BASE_URL",
    keys=("ANTHROPIC_API_KEY",),
    key_header="x-api-key",
    types=frozenset({*_IMAGES, _PDF}),
    path=lambda model: "/v1/messages",
    body=_anthropic_body,
    text=_anthropic_text,
    headers={"anthropic-version": "2023-06-01"},
)
_GOOGLE: Final = MediaForm(
    base_url="https://generativelanguage.googleapis.com/v1beta",
    url_variable="GOOGLE_BASE_URL",
    keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    key_header="x-goog-api-key",
    types=frozenset(
        {
            *("image/png", "image/jpeg", "image/webp", _PDF),
            *("audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4", "audio/webm"),
            *("video/mp4", "video/quicktime", "video/webm"),
        }
    ),
    path=lambda model: f"/models/{model}:generateContent",
    body=_google_body,
    text=_google_text,
)


class MediaModel:
    """A model that reads media, at an HTTP endpoint. See `MediaReader`.

    Args:
        model: Name of the model.
        form: Form of requests and answers.
        endpoint: The endpoint.
        types: MIME types that the model takes; None for all that the form has. Models with vision often take no sound.
    """

    def __init__(
        self, model: str, form: MediaForm, endpoint: JsonEndpoint, *, types: frozenset[str] | None = None
    ) -> None:
        self._model, self._form, self._endpoint = model, form, endpoint
        self._types = form.types if types is None else form.types & types

    def takes(self, mime: str) -> bool:
        """See `MediaReader.takes`."""
        return mime in self._types

    async def read_medium(self, data: bytes, part: MediumPart) -> Sequence[Passage]:
        """See `MediaReader.read_medium`."""
        if not self.takes(part.mime):
            raise CapabilityError(
                f"this model takes no {part.mime}: leave it out, convert it, or use a model that does "
                "(Google's take video)"
            )
        meter_request()
        answer = await self._answer(data, part)
        meter(usage=usage_of(answer))
        try:
            text = self._form.text(answer)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ModelAnswerError(f"the media model returned an unexpected response: {type(error).__name__}") from None
        if text is None:
            raise ModelRefusedError("the media model refused to read a medium")
        return list(_passages(text, part))

    async def aclose(self) -> None:
        """Close the connections; another question opens new ones."""
        await self._endpoint.aclose()

    async def _answer(self, data: bytes, part: MediumPart) -> Any:
        openai = openai_package()
        body = self._form.body(self._model, part.mime, base64.b64encode(data).decode())
        try:
            return await self._endpoint.post(self._form.path(self._model), body, self._form.headers)
        except openai.APIStatusError as error:
            unable = error.status_code in (400, 404, 413, 415, 422)
            kind = ModelRefusedError if unable else ModelUnavailableError
            raise kind(f"the media model's endpoint failed: status {error.status_code}") from None
        except openai.OpenAIError as error:
            raise ModelUnavailableError(f"the media model cannot be reached: {type(error).__name__}") from None
        except ValueError:  # what says that it is JSON, and is not
            raise ModelAnswerError("the media model's endpoint did not return JSON") from None


def _passages(text: str, whole: MediumPart) -> Iterator[Passage]:
    """Yield the passages in a model's answer; a place that makes no sense is left out, the text kept."""
    try:
        items = json.loads(text)["passages"]
        texts = [item["text"] for item in items]
    except (LookupError, TypeError, ValueError, RecursionError):
        raise ModelAnswerError("the media model's answer is not the JSON that was asked for") from None
    if not all(isinstance(found, str) for found in texts):
        raise ModelAnswerError("the media model's answer holds a passage without text")
    for item in items:
        if item["text"].strip():
            yield Passage(item["text"].strip(), attrs.evolve(whole, **_place(item)))


def _place(item: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    page, box, start, end = (item.get(name) for name in ("page", "box", "start", "end"))
    if isinstance(page, int) and not isinstance(page, bool) and 0 < page < 1_000_000:
        found["page"] = page
    match box:
        case [left, top, right, bottom] if all(_is_number(side) and side <= 1 for side in box):
            if left <= right and top <= bottom:
                found["box"] = tuple(map(float, box))
    if _is_number(start) and _is_number(end) and start <= end:
        found |= {"start": float(start), "end": float(end)}
    return found


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


_FORMS: Final = {"openai": _OPENAI, "anthropic": _ANTHROPIC, "google": _GOOGLE}


def media_reader(address: str, *, timeout: float = 120.0, max_retries: int = 2) -> MediaModel:
    """Return the media reader at an address. Nothing is opened before its first question.

    Args:
        address: ``openai/MODEL``, ``anthropic/MODEL``, ``google/MODEL``, or ``http://HOST:PORT/v1#MODEL`` for another
            server with OpenAI's form. Keys are in the environment, as those of language models; that of a URL in
            ``FACTMEM_MODEL_API_KEY``.
        timeout: Timeout of one request, in seconds.
        max_retries: Maximum number of retries of a failed request.

    Raises:
        InvalidDataError: The address has none of these forms, or the key is missing.
    """
    name, _, model = address.partition("/")
    if name in ("http:", "https:"):
        url, _, model = address.partition("#")
        form, key = _OPENAI, os.environ.get("FACTMEM_MODEL_API_KEY", "")
        if not model or not host_of(url):
            raise InvalidDataError("write a server's address as http://HOST:PORT/v1#MODEL", path="$.media_reader")
    elif name not in _FORMS or not model:
        raise InvalidDataError(
            "a media reader is named openai/MODEL, anthropic/MODEL, google/MODEL or http://HOST:PORT/v1#MODEL",
            path="$.media_reader",
        )
    else:
        form = _FORMS[name]
        url = os.environ.get(form.url_variable) or form.base_url
        key = next(filter(None, map(os.environ.get, form.keys)), "")
        if not key and url == form.base_url:
            raise InvalidDataError(f"{name} needs a key: set {' or '.join(form.keys)}", path="$.media_reader")
    endpoint = JsonEndpoint(url, Key(form.key_header, key), timeout=timeout, max_retries=max_retries)
    return MediaModel(model, form, endpoint)
