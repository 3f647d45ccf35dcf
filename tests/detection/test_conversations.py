"""Conversations in the forms of vendors, and errors that say where a form is wrong."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import Conversation, Message, json_stream
from factmem.conversations import conversations_in, conversations_of, read_conversations
from factmem.details import Origin
from factmem.errors import ConversationFormatError, InvalidDataError
from tests.tables import cases, each_case

CASES = cases(__file__)

CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "I moved to Lisbon."},
    {"role": "assistant", "content": "Lovely!"},
]
MESSAGES = (Message(content="I moved to Lisbon."), Message(content="Lovely!", role="assistant"))
LOCOMO, QUESTION, CONTENTS = (
    json.loads((Path(__file__).parent / "conversations" / f"{name}.json").read_text("utf-8"))
    for name in ("locomo", "longmemeval", "contents_of_google")
)


def read(text: str | bytes) -> list[Conversation]:
    return list(conversations_in(io.BytesIO(text.encode() if isinstance(text, str) else text)))


def read_json(value: Any) -> list[Conversation]:
    return read(json.dumps(value))


def lines(*values: Any) -> str:
    return "\n".join(json.dumps(value) for value in values)


@pytest.mark.parametrize(
    ("text", "count"), [*CASES["the common chat shapes are told apart"], (json.dumps([CHAT, CHAT, CHAT]), 3)]
)
def test_the_common_chat_shapes_are_told_apart(text: str, count: int) -> None:
    assert [conversation.messages for conversation in read(text)] == [MESSAGES] * count


def test_ids_names_and_times_are_kept() -> None:
    (conversation,) = read_json(
        {
            "id": 12,
            "created_at": "2024-05-08T13:56:00+02:00",
            "messages": [{"role": "User", "name": "Ann", "id": "m1", "timestamp": 1715169600, "content": "Hi"}],
        }
    )
    assert conversation == Conversation(
        id="12",
        started_at=dt.datetime(2024, 5, 8, 11, 56, tzinfo=dt.UTC),
        messages=(Message(content="Hi", name="Ann", id="m1", timestamp=dt.datetime(2024, 5, 8, 12, tzinfo=dt.UTC)),),
    )


def test_a_conversation_begins_with_its_first_time_if_it_tells_no_other() -> None:
    later = {"role": "user", "content": "Hi", "created_at": "2024-05-08"}
    (conversation,) = read_json([*CHAT, later])
    assert conversation.started_at == dt.datetime(2024, 5, 8, tzinfo=dt.UTC)


@each_case("written", "meant")
def test_times_are_read_in_every_known_way_and_taken_as_utc(
    written: Any, meant: tuple[int, int, int, int, int]
) -> None:
    (conversation,) = read_json({"messages": CHAT, "started_at": written})
    assert conversation.started_at == dt.datetime(*meant, tzinfo=dt.UTC)


def test_only_the_texts_among_the_parts_are_the_speakers_words() -> None:
    parts = ["One.", {"type": "text", "text": "Two."}, {"type": "image_url"}, {"type": "tool_result", "content": "no"}]
    (conversation,) = read_json([{"role": "user", "content": parts}])
    assert conversation.messages[0].content == "One.\nTwo."


def test_a_call_of_a_tool_keeps_its_place_among_the_messages() -> None:
    (conversation,) = read_json(
        [{"role": "assistant", "content": None}, {"role": "assistant", "tool_calls": []}, *CHAT]
    )
    assert [message.content for message in conversation.messages[:2]] == ["", ""]


def test_locomo_sessions_come_in_order_with_people_image_captions_and_dates() -> None:
    first, second, tenth = read_json([LOCOMO])
    assert [session.id for session in (first, second, tenth)] == [f"conv-1/session_{n}" for n in (1, 2, 10)]
    assert first.started_at == dt.datetime(2023, 5, 8, 13, 56, tzinfo=dt.UTC)
    assert second.started_at == dt.datetime(2023, 6, 1, 0, 5, tzinfo=dt.UTC)
    assert first.messages == (
        Message(content="Hi Bob!", name="Ann", id="D1:1"),
        Message(content="My dog. [image: a dog on a sofa]", name="Bob", id="D1:2"),
    )


@pytest.mark.parametrize("as_text", [json.dumps([QUESTION, QUESTION]), lines(QUESTION, QUESTION)])
def test_a_longmemeval_session_that_questions_share_comes_once(as_text: str) -> None:
    first, second = read(as_text)
    assert (first.id, second.id) == ("s1", "s2")
    assert first.messages == MESSAGES
    assert first.started_at == dt.datetime(2023, 4, 26, 11, 5, tzinfo=dt.UTC)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize("zipped", [False, True])
def test_encodings_and_gzip_are_recognized(encoding: str, zipped: bool) -> None:
    data = json.dumps([{"role": "user", "content": "Grüße aus 東京"}], ensure_ascii=False).encode(encoding)
    (conversation,) = read(gzip.compress(data) if zipped else data)
    assert conversation.messages[0].content == "Grüße aus 東京"


def test_a_file_is_read_again_with_the_same_times_and_reports_its_progress(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([CHAT, CHAT]))
    os.utime(path, (1715176560, 1715176560))
    file = read_conversations(path)
    assert (file.size, file.bytes_read) == (path.stat().st_size, 0)
    first = list(file)
    assert first == list(file) == list(read_conversations(str(path)))
    assert first[0].started_at == dt.datetime(2024, 5, 8, 13, 56, tzinfo=dt.UTC)
    assert file.bytes_read == file.size


@pytest.mark.slow
def test_a_large_file_is_read_as_it_is_asked_for(tmp_path: Path) -> None:
    """The first conversation is returned after a small part of the file was read."""
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(json.dumps({"messages": CHAT}) for _ in range(20_000)))
    file = read_conversations(path)
    iterator = iter(file)
    next(iterator)
    assert 0 < file.bytes_read < file.size / 4
    assert sum(1 for _ in iterator) == 19_999


def test_a_value_larger_than_a_chunk_is_read_whole() -> None:
    (conversation,) = read_json([{"role": "user", "content": "long \\ text " * 50_000}])
    assert len(conversation.messages[0].content) == 600_000


def test_a_file_without_conversations_has_none() -> None:
    assert read("") == read(" \n") == read("[]") == []


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConversationFormatError, match="No such file"):
        read_conversations(tmp_path / "missing.json")
    with pytest.raises(ConversationFormatError, match="directory"):
        list(read_conversations(tmp_path))


def test_images_audio_and_files_are_counted() -> None:
    """A caption stands for its image; calls and results of tools are not media."""
    media = [{"type": "image_url", "image_url": {}}, {"type": "input_audio"}, {"type": "file"}, {"type": "image"}]
    tools = [{"type": "tool_use"}, {"type": "tool_result"}, {"type": "thinking", "thinking": ""}]
    content = [{"type": "text", "text": "Look."}, *media, *tools]
    chat = [{"role": "user", "content": content}, {"role": "user", "content": "Nice."}]
    captioned = {"speaker": "Ana", "text": "Look!", "img_url": ["https://example.org/a.png"]}
    assert [message.not_text for message in read_json(chat)[0].messages] == [4, 0]
    (seen,) = read_json({"messages": [captioned, captioned | {"blip_caption": "a cat"}]})
    assert [message.not_text for message in seen.messages] == [1, 0]


@pytest.mark.parametrize("wrapped", [CONTENTS, {"contents": CONTENTS}], ids=["alone", "in a request"])
def test_contents_of_googles_apis_are_read(wrapped: Any) -> None:
    """Calls of functions, their results and thoughts are not words; media are counted."""
    (conversation,) = conversations_of([("$", wrapped)])
    assert [(message.role, message.content, message.not_text) for message in conversation.messages] == [
        ("user", "I live in Oslo.", 1),
        ("model", "Noted.", 0),
        ("user", "", 0),
        ("user", "And I have a cat.", 0),
        ("user", "A dog as well.", 0),
    ]
    assert conversation.messages[1].origin is Origin.ASSISTANT


def test_events_of_memory_bank_and_adk_are_read() -> None:
    said_at = dt.datetime(2024, 5, 8, 12, tzinfo=dt.UTC)
    content = CONTENTS[0]
    of_bank = {"events": [{"content": content, "event_id": "e1", "event_time": "2024-05-08T12:00:00Z"}]}
    of_adk = {
        "id": "s",
        "events": [{"content": content, "id": "e1", "timestamp": said_at.timestamp(), "author": "user"}],
    }
    typed = [{"content": content, "event_id": "e1", "event_time": said_at}]
    for value, id in ((of_bank, None), (of_adk, "s"), (typed, None)):
        (conversation,) = conversations_of([("$", value)])
        (message,) = conversation.messages
        assert (message.id, message.timestamp, message.content) == ("e1", said_at, "I live in Oslo.")
        assert conversation.id == id
    wordless: dict[str, Any] = {"author": "clerk", "content": None, "actions": {}}
    (reply,) = conversations_of([("$", [{"author": "clerk", "content": {"parts": [{"text": "Noted."}]}}, wordless])])
    assert [(message.origin, message.content) for message in reply.messages] == [
        (Origin.ASSISTANT, "Noted."),
        (Origin.ASSISTANT, ""),
    ]


@pytest.mark.parametrize("parts", [7, [7], [{"text": 7}], [None]])
def test_parts_that_are_none_are_an_error(parts: Any) -> None:
    with pytest.raises(ConversationFormatError, match=r"\$\[0\]\.parts"):
        list(conversations_of([("$", [{"role": "user", "parts": parts}])]))


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        (Message(content="Hi."), r"messages takes a list of Message, not a Message: give \[one, …\]"),
        ([{"role": "user", "content": "Hi."}], "messages takes Message, not a dict"),
    ],
)
def test_a_conversation_of_something_else_than_messages_is_refused(messages: Any, error: str) -> None:
    with pytest.raises(InvalidDataError, match=error):
        Conversation(messages=messages)


# Damaged and unusual conversation files: a typed error with the position, and no other error.


GOOD = {"role": "user", "content": "Hi"}


@each_case("value", "path")
def test_the_error_says_where(value: Any, path: str) -> None:
    with pytest.raises(ConversationFormatError) as caught:
        read(json.dumps(value).encode())
    assert caught.value.path.endswith(path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"not json at all", "not JSON"),
        (b'[{"role": "user", "content": "Hi"}', "incomplete"),
        (b'[{"role": "user", "content": "H', "not JSON"),
        (b'[{"role": "user", "content": "Hi"} {"role"', "comma"),
        (b'[{"role": "user", "content": "Hi"}] []', "follows"),
        (b'[{"role": "user", "content": "Hi"},]', "not JSON"),
        (b'{"messages": ' * 100_000, "nested too deeply"),
        (b'{"messages": [], "id": ' + b"9" * 5_000 + b"}", "too long"),
        (b'[{"role": "user", "content": "\xff"}]', "UTF-8"),
        (gzip.compress(json.dumps([GOOD]).encode(), mtime=0)[:-12], "gzip"),
        (b"\x1f\x8b rubbish", "gzip"),
    ],
)
def test_damaged_files_are_described(data: bytes, reason: str) -> None:
    with pytest.raises(ConversationFormatError, match=f"(?i){reason}"):
        read(data)


def test_what_came_before_the_damage_stands() -> None:
    conversations = conversations_in(io.BytesIO(json.dumps([{"messages": [GOOD]}, {"messages": [{}]}]).encode()))
    assert len(next(conversations).messages) == 1
    with pytest.raises(ConversationFormatError):
        next(conversations)


def test_the_error_holds_no_word_of_the_conversation() -> None:
    with pytest.raises(ConversationFormatError) as caught:
        read(b'[{"role": "user", "content": "my cat Tom", "time": "my cat Tom"}]')
    assert "Tom" not in str(caught.value)


def test_not_a_number_reads_as_nothing() -> None:
    (conversation,) = read(b'[{"role": "user", "content": "Hi", "timestamp": NaN, "score": -Infinity}]')
    assert conversation.messages[0].timestamp is None


def test_a_value_beyond_the_limit_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MAX_VALUE_CHARS", 100_000)
    with pytest.raises(ConversationFormatError, match="longer than"):
        read(b'[{"role": "user", "content": "' + b"x" * 500_000)


KEYS = st.sampled_from(
    [
        *("role", "content", "text", "messages", "id", "name", "speaker", "timestamp", "created_at", "conversation"),
        *("session_1", "session_1_date_time", "haystack_sessions", "haystack_session_ids", "haystack_dates", "type"),
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["user", "text", "2024-05-08", "1:56 pm on 8 May, 2023", "\ud800"])
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


def _read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ConversationFormatError):
        read(data)


@pytest.mark.slow
@given(JSON)
def test_any_json_is_read_or_refused(value: Any) -> None:
    _read_or_refused(json.dumps(value).encode())


@given(st.binary() | st.binary().map(lambda data: b"\x1f\x8b\x08" + data))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    _read_or_refused(data)


@given(st.integers(0, 400), st.integers(0, 255))
def test_one_changed_byte_is_read_or_refused(at: int, byte: int) -> None:
    data = bytearray(gzip.compress(json.dumps([{"messages": [GOOD] * 9, "id": "c"}]).encode(), mtime=0))
    data[at % len(data)] = byte
    _read_or_refused(bytes(data))
