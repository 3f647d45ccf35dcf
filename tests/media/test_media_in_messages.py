"""Media in messages: what is in them is kept with its place, in quarantine unless the user points to it."""

from __future__ import annotations

import base64
import gc
import hashlib
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem import AgentMemory, AgentMemoryConfig, Conversation, InMemoryProvider, Memory, Message, Origin, Policies
from factmem.abc.detector import DropReason
from factmem.agent.chat_history import DictFormat
from factmem.details import MediumPart
from factmem.errors import CapabilityError, FactMemError, InvalidDataError, MediumError, ModelUnavailableError
from factmem.media import Medium
from factmem.media.medium import MEDIA_TYPES
from factmem.media.parts import MediaParts, media_in
from factmem.media.pdf_text import PdfError, pdf_pages
from factmem.media.references import points_to_media
from factmem.memory.context import MediaSettings
from factmem.testing import HashEmbedder, ScriptedModel
from tests.media.readers import ScriptedReader
from tests.media.samples import JPEG, MP3, MP4, PNG, SAMPLES, WAV, bomb, pdf, pdf_of
from tests.memory.telling import CITY, CONCEPTS, USER, well
from tests.narrowing import not_none
from tests.tables import cases, sections

TICKET = "Seat 42, Leipzig to Oslo"
WORDS = sections(Path(__file__).with_name("pointing.txt"))


def opened(reader: ScriptedReader | None = None, provider: InMemoryProvider | None = None, **options: Any) -> Memory:
    return Memory(provider or InMemoryProvider(), embedder=HashEmbedder(), media_reader=reader, **options)


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    """A memory whose reader reads a ticket in every medium."""
    async with opened(ScriptedReader([TICKET])) as memory:
        yield memory


def photo(text: str, *, media: Medium | None = None, id: str = "m1", **details: Any) -> Message:
    return Message(content=text, id=id, media=[media or Medium(PNG, "image/png")], **details)


async def values(memory: Memory) -> list[Any]:
    return [record.value for record in await memory.list_records()]


async def apart(memory: Memory) -> list[Any]:
    return [record.value for record in await memory.inbox.quarantine.list()]


async def test_what_a_model_reads_is_quarantined_with_its_hash_type_and_place() -> None:
    async with opened(ScriptedReader([TICKET], parts=[{"box": (0.1, 0.2, 0.5, 0.6)}])) as memory:
        outcome = await memory.remember(photo("What is that?"))
        assert await values(memory) == ["What is that?"]
        assert await apart(memory) == [TICKET]
        (record,) = await memory.inbox.quarantine.list()
    part = MediumPart(sha256=hashlib.sha256(PNG).hexdigest(), mime="image/png", box=(0.1, 0.2, 0.5, 0.6))
    assert record.details.origin is Origin.DOCUMENT
    assert [item.medium for item in record.evidence] == [part]
    assert record.evidence[0].quote == TICKET
    assert outcome.dropped == {}


async def test_time_spans_of_a_recording_are_kept() -> None:
    spans: list[dict[str, Any]] = [{"start": 0.0, "end": 2.5}, {"start": 2.5, "end": 9.0}]
    async with opened(ScriptedReader(["Hello.", "It is Ada."], parts=spans)) as memory:
        await memory.remember(photo("Listen.", media=Medium(WAV, "audio/wav")))
        records = await memory.inbox.quarantine.list()
    assert [(item.value, item.evidence[0].medium) for item in records] == [
        (text, MediumPart(sha256=hashlib.sha256(WAV).hexdigest(), mime="audio/wav", **span))
        for text, span in zip(["Hello.", "It is Ada."], spans, strict=True)
    ]


async def test_a_caption_needs_no_model() -> None:
    async with opened() as memory:
        outcome = await memory.remember(photo("Look!", media=Medium(PNG, "image/png", caption="A red bicycle")))
        assert await apart(memory) == ["A red bicycle"]
        assert outcome.dropped == {}


async def test_the_text_layer_of_a_pdf_needs_no_model_and_has_its_pages() -> None:
    pytest.importorskip("pypdf", reason="the extra pdf is not installed")
    reader = ScriptedReader(["never asked"])
    async with opened(reader) as memory:
        await memory.remember(photo("See.", media=Medium(pdf(["Rent: 900", "", "Signed: Bo"]), "application/pdf")))
        found = [(record.value, record.evidence[0].medium) for record in await memory.inbox.quarantine.list()]
    assert [(value, part.page) for value, part in found if part] == [("Rent: 900", 1), ("Signed: Bo", 3)]
    assert reader.asked == []


async def test_a_scanned_pdf_without_text_is_read_by_the_model() -> None:
    pytest.importorskip("pypdf", reason="the extra pdf is not installed")
    reader = ScriptedReader(["Rent: 900"], parts=[{"page": 1}])
    async with opened(reader) as memory:
        await memory.remember(photo("See.", media=Medium(pdf_of([b""]), "application/pdf")))
        assert await apart(memory) == ["Rent: 900"]
    assert reader.asked == ["application/pdf"]


async def test_a_file_is_read_when_the_message_is_taken_in(tmp_path: Path, memory: Memory) -> None:
    file = tmp_path / "photo.png"
    message = photo("What is that?", media=Medium(file, "image/png"))
    with pytest.raises(MediumError, match="file"):
        await memory.remember(message)
    assert await values(memory) == []
    file.write_bytes(PNG)
    await memory.remember(message)
    assert await apart(memory) == [TICKET]


async def test_the_same_bytes_again_give_nothing_new_and_ask_no_model() -> None:
    provider, reader = InMemoryProvider(), ScriptedReader([TICKET])
    async with opened(reader, provider) as memory:
        await memory.remember(Conversation(messages=[photo("One."), photo("Two.", id="m2")], id="talk"))
        await memory.remember(photo("Three."))
        submission = await memory.remember_many([photo("Four."), photo("Five.")])
        await submission.wait()
    async with opened(reader, provider) as memory:  # another process has no list of its own
        await memory.inbox.ingest_events("chat", [photo("Six.")])
        assert await apart(memory) == [TICKET]
        assert set(await values(memory)) == {"One.", "Two.", "Three.", "Four.", "Five.", "Six."}
    assert reader.asked == ["image/png"]


async def test_the_same_bytes_are_read_again_for_another_user_and_after_they_were_forgotten() -> None:
    reader = ScriptedReader([TICKET])
    async with opened(reader, viewer="ada") as memory:
        await memory.remember(photo("This is my ticket."), private=True)
        bo = memory.view(viewer="bo")
        assert TICKET not in await values(bo)
        await bo.remember(photo("That is my ticket."), private=True)
        (mine,) = [record for record in await bo.list_records() if record.value == TICKET]
        await bo.forget(mine.id)
        assert TICKET not in await values(bo)
        await bo.remember(photo("That is my ticket.", id="m9"), private=True)
        assert TICKET in await values(bo)
        assert TICKET in await values(memory)
    assert len(reader.asked) == 3


async def test_what_the_user_points_to_counts_and_is_found(memory: Memory) -> None:
    await memory.remember(photo("This is my train ticket."))
    assert await apart(memory) == []
    (match,) = [match for match in await memory.recall("seat to Oslo") if match.record.value == TICKET]
    assert match.record.details.origin is Origin.DOCUMENT
    assert match.score > 0


async def test_a_model_finds_facts_in_what_the_user_points_to_and_in_nothing_else() -> None:
    model, reader = ScriptedModel(well), ScriptedReader(["I live in Oslo."])
    async with opened(reader, model=model, concepts=CONCEPTS, subjects=[USER]) as memory:
        await memory.remember(photo("What does it say?"), subject=USER)
        assert await memory.load(CITY, subject=USER) is None
        assert not any("Oslo" in prompt.content for prompt in model.prompts)
        await memory.remember(photo("Here is my letter.", media=Medium(JPEG, "image/jpeg"), id="m2"), subject=USER)
        assert not_none(await memory.load(CITY, subject=USER)).value == "Oslo"
        (record,) = [record for record in await memory.list_records() if record.concept == CITY]
    assert record.details.origin is Origin.DOCUMENT
    (evidence,) = record.evidence
    assert evidence.medium == MediumPart(sha256=hashlib.sha256(JPEG).hexdigest(), mime="image/jpeg")
    assert evidence.quote in "I live in Oslo."


async def test_a_medium_never_overrides_what_the_user_said() -> None:
    async with opened(ScriptedReader(["I live in Paris."]), model=ScriptedModel(well), concepts=CONCEPTS) as memory:
        await memory.remember(Message(content="I live in Oslo.", id="m1"))
        await memory.remember(photo("This is my old letter.", id="m2"))
        fact = await memory.load(CITY)
    assert fact is not None
    assert fact.value == "Oslo"


@pytest.mark.parametrize("role", ["assistant", "tool", "document"])
async def test_only_the_user_can_vouch_for_a_medium(role: str, memory: Memory) -> None:
    medium = Medium(PNG, "image/png", vouched=True)
    await memory.remember(photo("This is my train ticket.", media=medium, role=role))
    assert TICKET not in await values(memory)
    assert TICKET in await apart(memory)


async def test_a_caller_may_say_that_the_user_vouches(memory: Memory) -> None:
    await memory.remember(photo("Voilà.", media=Medium(PNG, "image/png", vouched=True)))
    assert TICKET in await values(memory)


@pytest.mark.parametrize("words", WORDS["pointing"])
def test_words_that_point_to_a_medium(words: str) -> None:
    assert points_to_media(words)


@pytest.mark.parametrize("words", ["", *WORDS["not pointing"]])
def test_words_that_point_to_none(words: str) -> None:
    assert not points_to_media(words)


async def test_media_without_a_reader_are_counted() -> None:
    async with opened() as memory:
        outcome = await memory.remember(photo("What is that?"))
        assert outcome.dropped == {DropReason.NOT_TEXT: 1}
        assert await values(memory) == ["What is that?"]


async def test_instructions_and_recalled_text_bring_no_media() -> None:
    reader = ScriptedReader([TICKET])
    async with opened(reader) as memory:
        for role in ("system", "memory"):
            await memory.remember(photo("Be kind.", role=role))
    assert reader.asked == []


async def test_a_type_that_the_model_does_not_take_is_a_capability_error_and_nothing_is_written() -> None:
    message = photo("A film.", media=Medium(MP4, "video/mp4"))
    async with opened(ScriptedReader([TICKET])) as memory:
        with pytest.raises(CapabilityError, match="video/mp4"):
            await memory.remember(message)
        assert await values(memory) == []
    async with opened(ScriptedReader(["A cat jumps."], types=("video/mp4",))) as memory:
        await memory.remember(message)
        assert await apart(memory) == ["A cat jumps."]


async def test_a_failing_model_is_an_error_of_the_call_and_nothing_is_written_so_that_it_can_be_repeated() -> None:
    reader = ScriptedReader([TICKET], failure=ModelUnavailableError("away"))
    async with opened(reader) as memory:
        for call in (memory.remember, lambda message: memory.remember_many([message])):
            with pytest.raises(ModelUnavailableError):
                await call(photo("What is that?"))
        assert await values(memory) == []
        reader.failure = None
        await memory.remember(photo("What is that?"))
        assert await values(memory) == ["What is that?"]
        assert await apart(memory) == [TICKET]


async def test_a_stream_of_events_goes_on_without_media_that_fail(caplog: pytest.LogCaptureFixture) -> None:
    """The words are kept, the medium is counted, and it is not tried again at each turn."""
    reader = ScriptedReader(failure=ModelUnavailableError("away"))
    async with opened(reader) as memory:
        events = [photo("I live in Oslo.")]
        submission = await memory.inbox.ingest_events("chat", events)
        assert submission.dropped == {DropReason.NOT_TEXT: 1}
        await memory.inbox.ingest_events("chat", [*events, Message(content="It rains.", id="m2")])
        assert sorted(await values(memory)) == ["I live in Oslo.", "It rains."]
    assert reader.asked == ["image/png"]
    assert not any("Oslo" in message for message in caplog.messages)


async def test_an_event_of_media_only_is_read(memory: Memory) -> None:
    submission = await memory.inbox.ingest_events("chat", [photo("", id="m1")])
    assert submission.dropped == {}
    assert await apart(memory) == [TICKET]


async def test_secrets_in_a_medium_are_redacted() -> None:
    key = "sk-proj-" + "a1B2c3D4" * 6
    async with opened(ScriptedReader([f"The key is {key} on the wall."])) as memory:
        await memory.remember(photo("This is my desk."))
        assert not any(key in str(value) for value in [*await values(memory), *await apart(memory)])


@pytest.mark.parametrize("mime", MEDIA_TYPES)
def test_a_medium_of_each_type_is_known_by_its_first_bytes(mime: str) -> None:
    assert Medium(SAMPLES[mime], mime).mime == mime
    wrong = JPEG if mime != "image/jpeg" else PNG
    with pytest.raises(MediumError, match="first bytes"):
        Medium(wrong, mime)


@pytest.mark.parametrize(
    ("content", "mime", "error"),
    [
        (b"", "image/png", MediumError),
        (b"<svg/>", "image/svg+xml", MediumError),
        (PNG, "image/jpeg", MediumError),
        (PNG, "text/html", MediumError),
        (PNG, "", MediumError),
        (PNG, None, MediumError),
        ("https://example.com/a.png", "image/png", InvalidDataError),
        ("data:image/png;base64,iVBORw0KGgo=", "image/png", InvalidDataError),
        ("iVBORw0KGgo=", "image/png", InvalidDataError),
        ("photo.png", "image/png", InvalidDataError),
        (None, "image/png", InvalidDataError),
    ],
)
def test_a_medium_is_never_fetched_or_guessed(content: Any, mime: Any, error: type[FactMemError]) -> None:
    with pytest.raises(error) as caught:
        Medium(content, mime)
    assert "example.com" not in str(caught.value)


def test_a_messages_media_are_a_list_of_media() -> None:
    for wrong in (PNG, Medium(PNG, "image/png"), ["photo.png"]):
        with pytest.raises(InvalidDataError):
            Message(content="", media=wrong)  # type: ignore[arg-type]


def test_usual_spellings_of_a_type_are_the_type() -> None:
    assert Medium(JPEG, "image/JPG; q=1").mime == "image/jpeg"
    assert Medium(WAV, "audio/x-wav").mime == "audio/wav"


HOSTILE = {
    "rubbish": b"%PDF-1.7 rubbish",
    "a loop of pages": b"%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[2 0 R]/Count 9>>endobj\ntrailer<</Root 1 0 R>>",
    "a bomb": bomb(30_000_000),
    "thousands of pages": pdf(["x"] * 3000),
    "cut off": pdf(["Rent: 900"])[:200],
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_pdf_is_a_typed_error_and_nothing_is_lost(kind: str) -> None:
    pytest.importorskip("pypdf", reason="the extra pdf is not installed")
    message = photo("I live in Oslo.", media=Medium(HOSTILE[kind], "application/pdf"))
    async with opened(policies=Policies(media=MediaSettings(pdf_seconds=1))) as memory:
        with pytest.raises(MediumError, match="PDF"):
            await memory.remember(message)
        assert await values(memory) == []
        await memory.inbox.ingest_events("chat", [message])
        assert await values(memory) == ["I live in Oslo."]


async def test_a_pdf_that_takes_too_long_is_a_typed_error() -> None:
    pytest.importorskip("pypdf", reason="the extra pdf is not installed")
    async with opened(policies=Policies(media=MediaSettings(pdf_seconds=0.001))) as memory:
        with pytest.raises(MediumError, match="within"):
            await memory.remember(photo("See.", media=Medium(pdf(["x"]), "application/pdf")))


@pytest.mark.processes
def test_a_pdf_whose_time_is_up_while_its_process_starts_leaves_none_behind() -> None:
    pytest.importorskip("pypdf", reason="the extra pdf is not installed")

    async def read(seconds: float) -> None:
        with pytest.raises(PdfError, match="within"):
            await pdf_pages(pdf(["x"]), max_pages=1, max_chars=10, seconds=seconds)

    for step in range(40):
        anyio.run(read, step / 4000)
    gc.collect()  # where a process or a pipe is still open, this fails the test


async def test_a_pdf_without_the_extra_is_counted_and_the_log_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("factmem.memory.media.reads_pdf", lambda: False)
    async with opened() as memory:
        outcome = await memory.remember(photo("See.", media=Medium(pdf(["x"]), "application/pdf")))
        assert outcome.dropped == {DropReason.NOT_TEXT: 1}
        assert await values(memory) == ["See."]
    assert any("pip install 'factmem[pdf]'" in message for message in caplog.messages)


@pytest.mark.parametrize(
    "settings", [MediaSettings(max_bytes=10), MediaSettings(max_chars=10)], ids=["bytes", "characters"]
)
async def test_a_medium_beyond_a_limit_is_a_typed_error(settings: MediaSettings, tmp_path: Path) -> None:
    file = tmp_path / "photo.png"
    file.write_bytes(PNG)
    async with opened(ScriptedReader([TICKET]), policies=Policies(media=settings)) as memory:
        for content in (PNG, file):
            with pytest.raises(MediumError):
                await memory.remember(photo("Look.", media=Medium(content, "image/png")))
        assert await values(memory) == []


@pytest.mark.parametrize("settings", [{"max_bytes": 0}, {"max_pages": -1}, {"pdf_seconds": 0}])
def test_a_limit_that_allows_nothing_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        MediaSettings(**settings)


async def test_a_path_that_is_no_file_is_refused(tmp_path: Path, memory: Memory) -> None:
    with pytest.raises(MediumError, match="file"):
        await memory.remember(photo("Look.", media=Medium(tmp_path, "image/png")))


async def test_bytes_are_kept_on_request_only_and_go_when_all_that_was_read_is_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "media"
    reader = ScriptedReader([TICKET, "Platform 3"])
    async with opened(reader, policies=Policies(media=MediaSettings(keep=folder))) as memory:
        await memory.remember(photo("This is my ticket."))
        (kept,) = folder.iterdir()
        assert kept.name == hashlib.sha256(PNG).hexdigest()
        assert kept.read_bytes() == PNG
        assert kept.stat().st_mode & 0o777 == 0o600
        first, second = [record for record in await memory.list_records() if record.evidence[0].medium]
        await memory.forget(first.id)
        assert list(folder.iterdir()) == [kept]
        await memory.forget(second.id)
        assert list(folder.iterdir()) == []
    async with opened(reader) as memory:
        await memory.remember(photo("This is my ticket."))
    assert list(folder.iterdir()) == []


async def test_files_are_read_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    loaded = Medium.loaded

    def load(medium: Medium, most: int) -> bytes:
        threads.append(threading.get_ident())
        return loaded(medium, most)

    monkeypatch.setattr(Medium, "loaded", load)
    async with opened(ScriptedReader([TICKET])) as memory:
        await memory.remember(photo("Look."))
    assert threads
    assert threading.get_ident() not in threads


def test_nothing_logged_or_shown_holds_what_is_in_a_medium(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    medium = Medium(PNG, "image/png", caption="the code is 7")
    assert "code" not in repr(photo("Look.", media=medium))
    assert "picture" not in repr(medium)


# Media that hosts pass, in every form that they write them, become `Medium` objects; URLs stay unread.

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
    *cases(__file__)["not held"],
    {"type": "image_url", "image_url": {"url": url(PNG, "image/jpeg")}},
    {"type": "image_url", "image_url": {"url": url(b"<html>", "text/html")}},
    {"type": "input_audio", "input_audio": {"data": b64(MP3), "format": "dvd"}},
]


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
        assert [record.value for record in await memory.inbox.quarantine.list()] == ["Seat 42"]


@pytest.mark.parametrize("wrapped", ["contents", "events"])
async def test_contents_of_googles_apis_bring_their_pictures(wrapped: str) -> None:
    contents = [{"role": "user", "parts": [{"text": "Hm."}, HELD["Google in JSON"][0]]}]
    source = contents if wrapped == "contents" else [{"content": content, "event_id": "e1"} for content in contents]
    async with Memory(InMemoryProvider(), embedder=HashEmbedder(), media_reader=ScriptedReader(["Seat 42"])) as memory:
        await (await memory.generate(source)).wait()
        assert [record.value for record in await memory.inbox.quarantine.list()] == ["Seat 42"]
        assert [record.value for record in await memory.list_records()] == ["Hm."]


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

    from factmem.integrations.adk import ContentFormat

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


def test_a_message_of_a_picture_alone_is_kept_for_its_picture() -> None:
    (message,) = DictFormat().messages({"role": "user", "content": [HELD["OpenAI image"][0]]})
    assert message == Message(content="", role="user", media=[Medium(PNG, "image/png")])
