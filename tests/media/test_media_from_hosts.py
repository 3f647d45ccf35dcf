"""Media that hosts pass, in every form that they write them, become `Medium` objects; URLs stay unread."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from factmem import InMemoryProvider, Memory, Message
from factmem.agent import AgentMemory, AgentMemoryConfig, DictFormat
from factmem.detection import MediaParts, media_in
from factmem.media import Medium
from factmem.testing import HashEmbedder
from tests.media.readers import ScriptedReader
from tests.media.samples import JPEG, MP3, MP4, PNG, SAMPLES, WAV

PDF = SAMPLES["application/pdf"]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def url(data: bytes, mime: str) -> str:
    return f"data:{mime};base64,{b64(data)}"


HELD: dict[str, tuple[dict[str, Any], bytes, str]] = {
    "OpenAI image": ({"type": "image_url", "image_url": {"url": url(PNG, "image/png")}}, PNG, "image/png"),
    "OpenAI sound": ({"type": "input_audio", "input_audio": {"data": b64(MP3), "format": "mp3"}}, MP3, "audio/mpeg"),
    "OpenAI file": (
        {"type": "file", "file": {"filename": "a.pdf", "file_data": url(PDF, "application/pdf")}},
        PDF,
        "application/pdf",
    ),
    "Responses image": ({"type": "input_image", "image_url": url(JPEG, "image/jpeg")}, JPEG, "image/jpeg"),
    "Responses file": (
        {"type": "input_file", "filename": "a.pdf", "file_data": url(PDF, "application/pdf")},
        PDF,
        "application/pdf",
    ),
    "Anthropic image": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(PNG)}},
        PNG,
        "image/png",
    ),
    "Anthropic document": (
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": b64(PDF)}},
        PDF,
        "application/pdf",
    ),
    "LangChain image": ({"type": "image", "base64": b64(PNG), "mime_type": "image/png"}, PNG, "image/png"),
    "LangChain video": ({"type": "video", "base64": b64(MP4), "mime_type": "video/mp4"}, MP4, "video/mp4"),
    "LangChain of before": (
        {"type": "audio", "source_type": "base64", "data": b64(WAV), "mime_type": "audio/wav"},
        WAV,
        "audio/wav",
    ),
    "Google in Python": ({"inline_data": {"mime_type": "image/png", "data": PNG}}, PNG, "image/png"),
    "Google in JSON": ({"inlineData": {"mimeType": "image/png", "data": b64(PNG)}}, PNG, "image/png"),
}
NOT_HELD: list[dict[str, Any]] = [
    {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,***"}},
    {"type": "image_url", "image_url": {"url": url(PNG, "image/jpeg")}},
    {"type": "image_url", "image_url": {"url": url(b"<html>", "text/html")}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
    {"type": "image_url"},
    {"type": "input_image", "file_id": "file-1"},
    {"type": "input_audio", "input_audio": {"data": b64(MP3), "format": "dvd"}},
    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
    {"type": "image", "url": "https://example.com/a.png"},
    {"type": "file", "file_id": "file-1"},
    {"fileData": {"fileUri": "gs://bucket/a.png", "mimeType": "image/png"}},
]


@pytest.mark.parametrize("form", HELD)
def test_bytes_in_a_part_are_a_medium(form: str) -> None:
    part, data, mime = HELD[form]
    assert media_in(["text", {"type": "text", "text": "text"}, part]) == MediaParts((Medium(data, mime),))


@pytest.mark.parametrize("part", NOT_HELD)
def test_what_is_not_at_hand_or_not_what_it_says_is_counted_and_never_fetched(part: dict[str, Any]) -> None:
    assert media_in([part]) == MediaParts((), 1)


@pytest.mark.parametrize("form", HELD)
def test_messages_as_dicts_carry_their_media(form: str) -> None:
    part, data, mime = HELD[form]
    (message,) = DictFormat().messages({"role": "user", "content": [{"type": "input_text", "text": "Look."}, part]})
    assert (message.content, message.media, message.not_text) == ("Look.", (Medium(data, mime),), 0)


async def test_message_dicts_are_remembered_with_what_is_in_their_pictures() -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder(), media_reader=ScriptedReader(["Seat 42"])) as memory:
        await memory.remember({"role": "user", "content": [{"type": "text", "text": "Hm."}, HELD["OpenAI image"][0]]})
        assert [record.value for record in await memory.quarantine.list()] == ["Seat 42"]


@pytest.mark.parametrize("wrapped", ["contents", "events"])
async def test_contents_of_googles_apis_bring_their_pictures(wrapped: str) -> None:
    contents = [{"role": "user", "parts": [{"text": "Hm."}, HELD["Google in JSON"][0]]}]
    source = contents if wrapped == "contents" else [{"content": content, "event_id": "e1"} for content in contents]
    async with Memory(InMemoryProvider(), embedder=HashEmbedder(), media_reader=ScriptedReader(["Seat 42"])) as memory:
        await (await memory.generate(source)).wait()
        assert [record.value for record in await memory.quarantine.list()] == ["Seat 42"]
        assert [record.value for record in await memory.list_records()] == ["Hm."]


async def test_a_plugin_reads_the_pictures_of_a_conversation_once() -> None:
    reader = ScriptedReader(["Seat 42"])
    history = [
        {"role": "user", "content": [{"type": "text", "text": "This is my ticket."}, HELD["OpenAI image"][0]]},
        {"role": "assistant", "content": "A fine ticket."},
    ]
    async with Memory(InMemoryProvider(), embedder=HashEmbedder(), media_reader=reader) as memory:
        messages = [message for native in history for message in DictFormat().messages(native)]
        for _ in range(3):
            await memory.ingest_events("chat", messages)
        assert "Seat 42" in [record.value for record in await memory.list_records()]
    assert reader.asked == ["image/png"]


def test_the_plugin_hands_its_reader_on() -> None:
    plugin = AgentMemory(AgentMemoryConfig(agent_name="a", store="none:", media_reader=ScriptedReader()))
    assert plugin.config.media_reader is not None


def test_langchains_content_blocks_are_media() -> None:
    pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
    from langchain_core.messages import HumanMessage
    from langchain_core.messages.content import ContentBlock, create_audio_block, create_file_block, create_image_block

    from factmem.integrations.langchain import LangChainFormat

    blocks: list[ContentBlock] = [
        {"type": "text", "text": "Look."},
        create_image_block(base64=b64(PNG), mime_type="image/png"),
        create_audio_block(base64=b64(WAV), mime_type="audio/wav"),
        create_file_block(base64=b64(PDF), mime_type="application/pdf"),
        create_image_block(url="https://example.com/a.png"),
    ]
    (message,) = LangChainFormat().messages(HumanMessage(content_blocks=blocks))
    assert message.content == "Look."
    assert [medium.mime for medium in message.media] == ["image/png", "audio/wav", "application/pdf"]
    assert message.not_text == 1


def test_pydantic_ais_parts_are_media() -> None:
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    from pydantic_ai import BinaryContent, ImageUrl
    from pydantic_ai.messages import BinaryImage, FilePart, ModelRequest, ModelResponse, UserContent, UserPromptPart

    from factmem.integrations.pydantic_ai import PydanticAIFormat

    said: list[UserContent] = [
        "Look.",
        BinaryContent(PNG, media_type="image/png"),
        ImageUrl("https://example.com/a.png"),
    ]
    odd: list[UserContent] = [
        BinaryContent(b"<html>", media_type="text/html"),
        BinaryContent(MP4, media_type="video/mp4"),
    ]
    (message,) = PydanticAIFormat().messages(ModelRequest(parts=[UserPromptPart([*said, *odd])]))
    assert message.content == "Look."
    assert ([medium.mime for medium in message.media], message.not_text) == (["image/png", "video/mp4"], 2)
    drawn = ModelResponse(parts=[FilePart(BinaryImage(PNG, media_type="image/png"))])
    (message,) = PydanticAIFormat().messages(drawn)
    assert (message.role, [medium.mime for medium in message.media]) == ("assistant", ["image/png"])


def test_adks_parts_are_media() -> None:
    pytest.importorskip("google.adk", reason="the extra adk is not installed")
    from google.genai import types

    from factmem.integrations.adk.events import ContentFormat

    content = types.Content(
        role="user",
        parts=[
            types.Part(text="Look."),
            types.Part.from_bytes(data=MP4, mime_type="video/mp4"),
            types.Part.from_uri(file_uri="gs://bucket/a.png", mime_type="image/png"),
            types.Part.from_bytes(data=b"<html>", mime_type="text/html"),
        ],
    )
    (message,) = ContentFormat().messages(content)
    assert message.content == "Look."
    assert ([medium.mime for medium in message.media], message.not_text) == (["video/mp4"], 2)


def test_items_of_the_agents_sdk_are_media() -> None:
    pytest.importorskip("agents", reason="the extra openai-agents is not installed")
    from agents import TResponseInputItem

    item: TResponseInputItem = {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "Look."},
            {"type": "input_image", "image_url": url(PNG, "image/png"), "detail": "auto"},
            {"type": "input_file", "file_data": url(PDF, "application/pdf"), "filename": "a.pdf"},
            {"type": "input_file", "file_id": "file-1"},
        ],
    }
    (message,) = DictFormat().messages(item)
    assert message.content == "Look."
    assert [medium.mime for medium in message.media] == ["image/png", "application/pdf"]
    assert message.not_text == 1


def test_a_message_of_a_picture_alone_is_kept_for_its_picture() -> None:
    (message,) = DictFormat().messages({"role": "user", "content": [HELD["OpenAI image"][0]]})
    assert message == Message(content="", role="user", media=[Medium(PNG, "image/png")])
