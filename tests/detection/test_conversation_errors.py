"""Damaged and unusual conversation files: a typed error with the position, and no other error."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import Conversation, json_stream
from factmem.conversations import conversations_in
from factmem.errors import ConversationFormatError

GOOD = {"role": "user", "content": "Hi"}


def read(data: bytes) -> list[Conversation]:
    return list(conversations_in(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([{"messages": [GOOD]}, {"messages": [GOOD, {"content": "no role"}]}], "$[1].messages[1]"),
        ([{"messages": [GOOD]}, {"messages": [GOOD, {"role": 3, "content": "x"}]}], "$[1].messages[1].role"),
        ({"messages": [GOOD, {"role": " ", "content": "x"}]}, "$.messages[1].role"),
        ({"messages": "Hi"}, "$.messages"),
        ({"messages": [GOOD], "id": [1]}, "$.id"),
        ({"messages": [GOOD], "created_at": "yesterday"}, "$.created_at"),
        ({"messages": [GOOD], "created_at": True}, "$.created_at"),
        ([GOOD, 7], "$[1]"),
        ([GOOD, {"role": "user"}], "$[1]"),
        ([GOOD, {"role": "user", "content": 7}], "$[1].content"),
        ([GOOD, {"role": "user", "content": [7]}], "$[1].content[0]"),
        ([GOOD, {"role": "user", "content": [{"type": "text"}]}], "$[1].content[0]"),
        ([GOOD, {**GOOD, "time": 1e300}], "$[1].time"),
        ([[GOOD], [GOOD, None]], "$[1][1]"),
        ({"conversation": {"speaker_a": "Ann"}}, "$.conversation"),
        ({"conversation": {"session_1": [{"text": "Hi"}]}}, "$.conversation.session_1[0]"),
        ({"conversation": {"session_1": [], "session_1_date_time": "1:99 pm on 1 May, 2023"}}, "session_1_date_time"),
        ({"haystack_sessions": [[GOOD]], "haystack_dates": []}, "$.haystack_dates"),
        ({"haystack_sessions": [[GOOD]], "haystack_dates": ["2023/13/01 (Mon) 00:00"]}, "$.haystack_dates[0]"),
        ({"haystack_sessions": [GOOD]}, "$.haystack_sessions[0]"),
        ({"some": "thing"}, "$"),
        ("text", "$"),
    ],
)
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
