"""Conversations from JSON files and streams: chats, contents and events of Google's APIs, LoCoMo, LongMemEval.

Files may be plain or gzipped, in any encoding of Unicode. They are read one conversation at a time, so that a large
file is never in memory as a whole.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import itertools
import json
import os
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import attrs

from factmem.abc.detector import Conversation, Message
from factmem.errors import ConversationFormatError, InvalidDataError
from factmem.facts import utc
from factmem.json_stream import json_rows, kind_of_json
from factmem.media.parts import MediaParts, media_in
from factmem.patterns import lazy_pattern

_LOCOMO: Final = lazy_pattern(r"(\d{1,2}):(\d{2}) ?([ap])m on (\d{1,2}) ([a-z]{3})[a-z]*,? (\d{4})", re.IGNORECASE)
_LONGMEMEVAL: Final = lazy_pattern(r"(\d{4})/(\d{2})/(\d{2}) \(\w{3}\) (\d{2}):(\d{2})")
_EPOCH: Final = lazy_pattern(r"\d{9,13}(?:\.\d{1,9})?")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MILLISECONDS_FROM: Final = 1e11
"""A larger number of seconds lies after the year 5000, and is taken for milliseconds."""


def said_at(value: Any, path: str) -> dt.datetime | None:
    """Return a time in UTC, or None for None. A time without a zone is taken as UTC.

    Args:
        value: text in ISO 8601 or a data set's format, or a number of seconds (or milliseconds) since 1970.
        path: its path in the file, for the error.

    Raises:
        ConversationFormatError: it is not a time.
    """
    if value is None:
        return None
    try:
        moment = _parsed(value)
        return utc(moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC))
    except (ValueError, OverflowError, OSError, InvalidDataError):
        raise ConversationFormatError(
            "not a time that can be read; write it as ISO 8601, for example 2024-05-08T13:56:00Z", path=path
        ) from None


def _parsed(value: Any) -> dt.datetime:
    match value:
        case dt.datetime():
            return value
        case bool():
            raise ValueError
        case int() | float():
            return _epoch(float(value))
        case str():
            text = value.strip()
        case _:
            raise ValueError
    if _EPOCH.fullmatch(text):
        return _epoch(float(text))
    if found := _LOCOMO.fullmatch(text):
        hour, minute, half, day, month, year = found.groups()
        return dt.datetime(
            *(int(year), _MONTHS.index(month.lower()) + 1, int(day)), _hour(int(hour), half), int(minute)
        )
    if found := _LONGMEMEVAL.fullmatch(text):
        year_, month_, day_, hour_, minute_ = map(int, found.groups())
        return dt.datetime(year_, month_, day_, hour_, minute_)
    return dt.datetime.fromisoformat(text)


def _hour(hour: int, half: str) -> int:
    if not 1 <= hour <= 12:
        raise ValueError
    return hour % 12 + (12 if half.lower() == "p" else 0)


def _epoch(seconds: float) -> dt.datetime:
    if abs(seconds) >= _MILLISECONDS_FROM:
        seconds /= 1000
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


_IDS: Final = ("id", "message_id", "event_id", "dia_id", "uuid")
_CONVERSATION_IDS: Final = ("id", "conversation_id", "session_id")
_NAMES: Final = ("name", "speaker")
_TIMES: Final = ("timestamp", "created_at", "event_time", "time", "date")
_STARTS: Final = ("started_at", *_TIMES)
_TEXT_PARTS: Final = ("text", "input_text", "output_text")
_CALLS: Final = ("tool_calls", "function_call")
_MEDIA_OF_PARTS: Final = frozenset({"inline_data", "inlineData", "file_data", "fileData"})
_SESSION: Final = lazy_pattern(r"session_(\d{1,6})")


def conversations_of(values: Iterable[tuple[str, Any]]) -> Iterator[Conversation]:
    """Yield the conversations of the JSON values of a file. Values that are messages make up one conversation.

    Args:
        values: pairs of a path, from the root of the file, and a value.

    Raises:
        ConversationFormatError: a value has no known form; the path locates it.
    """
    seen: set[str] = set()
    rest = iter(values)
    for path, value in rest:
        match value:
            case {"haystack_sessions": _}:
                yield from _longmemeval(value, path, seen)
            case {"conversation": {} as sessions}:
                yield from _locomo(sessions, _label(value, ("sample_id",), path), path)
            case {"messages": _}:
                yield _conversation(value, "messages", path)
            case {"events": list()}:
                yield _conversation(value, "events", path)
            case {"contents": list()}:
                yield _conversation(value, "contents", path)
            case {"contents": contents}:
                yield _chat([contents], f"{path}.contents")
            case list():
                yield _chat(value, path)
            case {"role": _} | {"speaker": _} | {"parts": _} | {"content": {"parts": _}}:
                chat = (_message(item, where) for where, item in itertools.chain([(path, value)], rest))
                yield _started(Conversation(messages=tuple(chat)))
            case _:
                raise ConversationFormatError(
                    "neither a message with role and content, nor a conversation with messages", path=path
                )


def _conversation(value: Mapping[str, Any], key: str, path: str) -> Conversation:
    messages = _messages(value[key], f"{path}.{key}")
    return _started(
        Conversation(
            messages=messages, id=_label(value, _CONVERSATION_IDS, path), started_at=_time(value, _STARTS, path)
        )
    )


def _chat(value: list[Any], path: str) -> Conversation:
    return _started(Conversation(messages=_messages(value, path)))


def _started(conversation: Conversation) -> Conversation:
    """Return a conversation that starts with its first dated message, unless it has a start already."""
    if conversation.started_at is not None:
        return conversation
    first = next((message.timestamp for message in conversation.messages if message.timestamp), None)
    return attrs.evolve(conversation, started_at=first)


def _messages(value: Any, path: str) -> tuple[Message, ...]:
    return tuple(_message(item, f"{path}[{index}]") for index, item in enumerate(_list(value, path)))


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConversationFormatError(f"expected a list, found {kind_of_json(value)}", path=path)
    return value


def _message(value: Any, path: str) -> Message:
    match value:
        case str():  # an API takes a text in place of a message of the user
            value = {"role": "user", "content": value}
        case {"content": {"parts": _} as inner}:  # an event
            value = {key: item for key, item in value.items() if key != "content"} | inner
        case {"author": str()} if value.get("content") is None:  # an event without words
            value = value | {"parts": []}
        case dict():
            pass
        case _:
            raise ConversationFormatError(
                f"expected a message with role and content, found {kind_of_json(value)}", path=path
            )
    content, parts = _content(value, path)
    return Message(
        content=content,
        role=_role(value, path),
        name=_label(value, _NAMES, path),
        id=_label(value, _IDS, path),
        timestamp=_time(value, _TIMES, path),
        media=parts.media,
        not_text=parts.not_text,
    )


def _role(value: Mapping[str, Any], path: str) -> str:
    match value:
        case {"role": str() as role} if role.strip():
            return role.strip().lower()
        case {"role": _}:
            raise ConversationFormatError("the role must be a text: user, assistant, tool, …", path=f"{path}.role")
        case {"speaker": _}:
            return "user"  # a speaker without a role is a person
        case {"parts": _, "author": str() as author}:
            return "user" if author == "user" else "model"
        case {"parts": _}:
            return "user"
        case _:
            raise ConversationFormatError("the message has no role; give it one: user, assistant, tool, …", path=path)


def _content(value: Mapping[str, Any], path: str) -> tuple[str, MediaParts]:
    """Return the text of a message, and its parts without text."""
    if "parts" in value:
        return _content_of_parts(value["parts"], f"{path}.parts")
    others = MediaParts()
    key = "content" if "content" in value else "text"
    match value.get(key):
        case str() as text:
            pass
        case list() as parts:
            text = "\n".join(_texts(parts, f"{path}.{key}"))
            others = media_in(parts)
        case None if key in value or any(call in value for call in _CALLS):
            text = ""
        case None:
            raise ConversationFormatError("the message has no content", path=path)
        case other:
            raise ConversationFormatError(
                f"expected a text or a list of parts, found {kind_of_json(other)}", path=f"{path}.{key}"
            )
    match value:
        case {"blip_caption": str() as caption} if caption.strip():
            return f"{text} [image: {caption.strip()}]".lstrip(), others
        case {"img_url": [_, *_] as images}:
            others = attrs.evolve(others, not_text=others.not_text + len(images))
    return text, others


def _content_of_parts(given: Any, path: str) -> tuple[str, MediaParts]:
    """Return the text of the parts of Google's APIs, and those without text.

    Thoughts, calls of functions and their results are not words of the speaker.
    """
    listed = given if isinstance(given, list) else [] if given is None else [given]
    parts = [{"text": part} if isinstance(part, str) else part for part in listed]
    for index, part in enumerate(parts):
        if not isinstance(part, dict) or not isinstance(part.get("text", ""), str):
            raise ConversationFormatError("expected a part, such as one with a text", path=f"{path}[{index}]")
    texts = (part["text"] for part in parts if "text" in part and not part.get("thought"))
    return "\n".join(texts), media_in(part for part in parts if not _MEDIA_OF_PARTS.isdisjoint(part))


def _texts(parts: list[Any], path: str) -> Iterator[str]:
    """Yield the texts among a message's parts. Images, tool calls and tool results are not words of the speaker."""
    for index, part in enumerate(parts):
        match part:
            case str():
                yield part
            case {"text": str() as text} if part.get("type", "text") in _TEXT_PARTS:
                yield text
            case {"type": "text" | "input_text" | "output_text"}:
                raise ConversationFormatError("the part has no text", path=f"{path}[{index}]")
            case {}:
                pass
            case other:
                raise ConversationFormatError(f"expected a part, found {kind_of_json(other)}", path=f"{path}[{index}]")


def _label(value: Mapping[str, Any], keys: tuple[str, ...], path: str) -> str | None:
    """Return the id or name under the first key that has one. Whole numbers are ids too."""
    for key in keys:
        match value.get(key):
            case None | "":
                continue
            case str() as label:
                return label
            case int() as number if not isinstance(number, bool):
                return str(number)
            case other:
                raise ConversationFormatError(f"expected a text, found {kind_of_json(other)}", path=f"{path}.{key}")
    return None


def _time(value: Mapping[str, Any], keys: tuple[str, ...], path: str) -> dt.datetime | None:
    return next((said_at(value[key], f"{path}.{key}") for key in keys if value.get(key) not in (None, "")), None)


def _locomo(sessions: Mapping[str, Any], sample: str | None, path: str) -> Iterator[Conversation]:
    """Yield the sessions of a sample in order. Both speakers are people, distinguished by their names."""
    where = f"{path}.conversation"
    numbers = {key: int(found[1]) for key in sessions if (found := _SESSION.fullmatch(key))}
    if not numbers:
        raise ConversationFormatError("the sample has no session_1, session_2, …", path=where)
    for key in sorted(numbers, key=numbers.__getitem__):
        yield Conversation(
            messages=_messages(sessions[key], f"{where}.{key}"),
            id=None if sample is None else f"{sample}/{key}",
            started_at=said_at(sessions.get(f"{key}_date_time"), f"{where}.{key}_date_time"),
        )


def _longmemeval(question: Mapping[str, Any], path: str, seen: set[str]) -> Iterator[Conversation]:
    """Yield the sessions of a question's haystack, except those whose id was seen before: they are the same."""
    sessions = _list(question["haystack_sessions"], f"{path}.haystack_sessions")
    ids = _parallel(question, "haystack_session_ids", len(sessions), path)
    dates = _parallel(question, "haystack_dates", len(sessions), path)
    for index, (session, label, date) in enumerate(zip(sessions, ids, dates, strict=True)):
        session_id = _label({"id": label}, ("id",), f"{path}.haystack_session_ids[{index}]")
        if session_id is not None:
            if session_id in seen:
                continue
            seen.add(session_id)
        yield Conversation(
            messages=_messages(session, f"{path}.haystack_sessions[{index}]"),
            id=session_id,
            started_at=said_at(date, f"{path}.haystack_dates[{index}]"),
        )


def _parallel(question: Mapping[str, Any], key: str, length: int, path: str) -> list[Any]:
    values = question.get(key)
    if values is None:
        return [None] * length
    if len(_list(values, f"{path}.{key}")) != length:
        raise ConversationFormatError("there must be as many as there are haystack_sessions", path=f"{path}.{key}")
    return list(values)


_GZIP: Final = b"\x1f\x8b"


@attrs.define(eq=False)
class ConversationFile:
    """The conversations of a file. Each iteration opens it anew and holds one conversation at a time.

    Attributes:
        path: the file.
        size: its size on disk, in bytes: the total of a progress bar.
        bytes_read: number of bytes read in the current iteration.
        changed_at: time of its last change. It dates conversations without times, so that reading the file again
            gives the same facts.
    """

    path: Path
    size: int
    changed_at: dt.datetime
    bytes_read: int = attrs.field(default=0, init=False)

    def __iter__(self) -> Iterator[Conversation]:
        """Yield the conversations in the order of the file.

        Raises:
            ConversationFormatError: the file is malformed; the path locates the fault. Conversations yielded before
                stay valid.
        """
        self.bytes_read = 0
        try:
            with self.path.open("rb") as file, contextlib.closing(conversations_in(file)) as conversations:
                for conversation in conversations:
                    self.bytes_read = file.tell()
                    if conversation.started_at is None:
                        conversation = attrs.evolve(conversation, started_at=self.changed_at)
                    yield conversation
                self.bytes_read = self.size
        except OSError as error:
            raise _unreadable(self.path, error) from None


def read_conversations(path: str | os.PathLike[str]) -> ConversationFile:
    """Return the conversations of a JSON or JSON Lines file, gzipped or not.

    The known forms, alone, in a list or one a line, are:

    - messages with ``role`` and ``content``, and optionally ``name``, ``id`` and ``timestamp``;
    - conversations with ``messages``, and optionally ``id`` and ``created_at``;
    - ``contents`` with ``role`` and ``parts``, and ``events`` with a ``content``, as Google's APIs, Memory Bank and ADK
      write them;
    - samples of LoCoMo: each session is a conversation, and captions of images stand in brackets behind the words;
    - questions of LongMemEval: each session is read once, however many questions share it.

    Times without a zone are taken as UTC. Reading blocks: call it in a thread from async code.

    Raises:
        ConversationFormatError: the file cannot be opened. Faults in its content are raised while reading.

    Example:
        >>> for conversation in read_conversations("chats.jsonl.gz"):
        ...     print(conversation.id, len(conversation.messages))
    """
    file = Path(path)
    try:
        found = file.stat()
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from None
    return ConversationFile(file, found.st_size, dt.datetime.fromtimestamp(found.st_mtime, dt.UTC))


def _unreadable(path: Path, error: Exception) -> ConversationFormatError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a file's name"
    return ConversationFormatError(f"{path} cannot be read: {reason}; check the path and its permissions")


def conversations_in(stream: BinaryIO) -> Generator[Conversation, None, None]:
    """Yield the conversations of a binary stream that can be rewound. See `read_conversations`.

    Raises:
        ConversationFormatError: it holds something else.
        OSError: raised by the stream.
    """
    try:
        text = _text(stream)
        try:
            yield from conversations_of(json_rows(text, fault=ConversationFormatError))
        finally:
            text.detach()  # the stream is the caller's to close
    except UnicodeDecodeError as error:
        raise ConversationFormatError(f"the file is not {error.encoding} text; save it as UTF-8") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise ConversationFormatError("the gzip data is damaged or incomplete; fetch the file again") from None


def _text(stream: BinaryIO) -> io.TextIOWrapper:
    zipped = _head(stream).startswith(_GZIP)
    binary = gzip.GzipFile(fileobj=stream) if zipped else stream
    return io.TextIOWrapper(binary, encoding=json.detect_encoding(_head(binary)), newline="")


def _head(stream: BinaryIO | gzip.GzipFile) -> bytes:
    head = stream.read(4)
    stream.seek(0)
    return head
