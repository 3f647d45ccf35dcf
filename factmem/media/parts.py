"""Media in the content of messages as the APIs of models write it: OpenAI's, Anthropic's, Google's and LangChain's."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from factmem.errors import InvalidDataError
from factmem.media.medium import Medium
from factmem.patterns import lazy_pattern

_NO_CONTENT: Final = lazy_pattern(r"tool|function|thinking|reasoning|refusal|text")
"""Types of parts without media: tool calls and their results, reasoning, and text."""

_DATA_URL: Final = lazy_pattern(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,")
_SOUND: Final = {"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac", "ogg": "audio/ogg", "m4a": "audio/mp4"}
"""MIME types of the formats that OpenAI names."""


@attrs.frozen
class MediaParts:
    """The parts of a message without text.

    Attributes:
        media: Those whose bytes are at hand, of a type that is sound.
        not_text: Number of the others, such as URLs, which are never fetched.
    """

    media: tuple[Medium, ...] = ()
    not_text: int = 0


def media_in(parts: Iterable[object]) -> MediaParts:
    """Return the images, audio clips, files and the like among a message's parts.

    Args:
        parts: The content of a message: texts, and mappings with a ``type``, or Google's with ``inline_data``. A part
            of an unknown type counts as one without text.
    """
    return media_of(_bytes_in(part) for part in parts if isinstance(part, Mapping) and _is_media(part))


def media_of(found: Iterable[tuple[bytes, str] | None]) -> MediaParts:
    """Return media from their bytes and MIME types; those that are None, or of another type than stated, are counted.

    Args:
        found: Bytes and MIME type of each part without text; None for one that is not at hand.
    """
    media, not_text = [], 0
    for item in found:
        try:
            if item is None:
                not_text += 1
            else:
                media.append(Medium(*item))
        except InvalidDataError:  # what a host passes is not the user's mistake
            not_text += 1
    return MediaParts(tuple(media), not_text)


def _is_media(part: Mapping[object, object]) -> bool:
    kind = part.get("type")
    if isinstance(kind, str):
        return _NO_CONTENT.search(kind) is None
    return not isinstance(part.get("text"), str)


def _bytes_in(part: Mapping[object, object]) -> tuple[bytes, str] | None:
    """Return the bytes and the MIME type in a part; None if it holds a URL or an id, or is malformed."""
    match part:
        case (
            {"type": "image_url" | "input_image", "image_url": {"url": str() as url} | (str() as url)}
            | {"type": "file" | "input_file", "file": {"file_data": str() as url}}
            | {"file_data": str() as url}
        ):
            return _from_url(url)
        case {"type": "input_audio", "input_audio": {"data": str() as data, "format": str() as form}}:
            return _decoded(data, _SOUND.get(form, ""))
        case (
            {"source": {"type": "base64", "media_type": str() as mime, "data": str() as data}}
            | {"base64": str() as data, "mime_type": str() as mime}
            | {"data": str() as data, "mime_type": str() as mime}
        ):
            return _decoded(data, mime)
        case {"inline_data": {"mime_type": str() as mime, "data": data}} | {
            "inlineData": {"mimeType": str() as mime, "data": data}
        }:
            return (data, mime) if isinstance(data, bytes) else _decoded(data, mime)
        case _:
            return None


def _from_url(url: str) -> tuple[bytes, str] | None:
    found = _DATA_URL.match(url)
    return None if found is None else _decoded(url[found.end() :], found[1])


def _decoded(data: object, mime: str) -> tuple[bytes, str] | None:
    if not isinstance(data, str) or not mime:
        return None
    try:
        return base64.b64decode(data, validate=True), mime
    except ValueError:
        return None
