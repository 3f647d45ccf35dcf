"""The shapes of conversations in JSON: chats in the common form, LoCoMo samples, LongMemEval questions."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from factmem.abc import Conversation, Message
from factmem.detection.conversations.times import said_at
from factmem.detection.media import count_not_text
from factmem.errors import ConversationFormatError

__all__ = ["conversations_of"]

_IDS: Final = ("id", "message_id", "dia_id", "uuid")
_CONVERSATION_IDS: Final = ("id", "conversation_id", "session_id")
_NAMES: Final = ("name", "speaker")
_TIMES: Final = ("timestamp", "created_at", "time", "date")
_STARTS: Final = ("started_at", *_TIMES)
_TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text"})
_CALLS: Final = ("tool_calls", "function_call")
_SESSION: Final = re.compile(r"session_(\d{1,6})")


def conversations_of(values: Iterable[tuple[str, Any]]) -> Iterator[Conversation]:
    """Turn the JSON values of a file into conversations; values that are messages make up one.

    Args:
        values: each with its path from the root of the file.

    Raises:
        ConversationFormatError: a value has none of the shapes that are known; the path says where.
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
                yield _conversation(value, path)
            case list():
                yield _chat(value, path)
            case {"role": _} | {"speaker": _}:
                chat = (_message(item, where) for where, item in itertools.chain([(path, value)], rest))
                yield _started(Conversation(messages=tuple(chat)))
            case _:
                raise ConversationFormatError(
                    "neither a message with role and content, nor a conversation with messages", path=path
                )


def _conversation(value: Mapping[str, Any], path: str) -> Conversation:
    messages = _messages(value["messages"], f"{path}.messages")
    return _started(
        Conversation(
            messages=messages, id=_label(value, _CONVERSATION_IDS, path), started_at=_time(value, _STARTS, path)
        )
    )


def _chat(value: list[Any], path: str) -> Conversation:
    return _started(Conversation(messages=_messages(value, path)))


def _started(conversation: Conversation) -> Conversation:
    """Let a conversation begin with the first message that tells its time, if it does not tell its own."""
    if conversation.started_at is not None:
        return conversation
    first = next((message.timestamp for message in conversation.messages if message.timestamp), None)
    return attrs.evolve(conversation, started_at=first)


def _messages(value: Any, path: str) -> tuple[Message, ...]:
    return tuple(_message(item, f"{path}[{index}]") for index, item in enumerate(_list(value, path)))


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConversationFormatError(f"expected a list, found {_kind(value)}", path=path)
    return value


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


def _message(value: Any, path: str) -> Message:
    if not isinstance(value, dict):
        raise ConversationFormatError(f"expected a message with role and content, found {_kind(value)}", path=path)
    content, not_text = _content(value, path)
    return Message(
        content=content,
        role=_role(value, path),
        name=_label(value, _NAMES, path),
        id=_label(value, _IDS, path),
        timestamp=_time(value, _TIMES, path),
        not_text=not_text,
    )


def _role(value: Mapping[str, Any], path: str) -> str:
    match value:
        case {"role": str() as role} if role.strip():
            return role.strip().lower()
        case {"role": _}:
            raise ConversationFormatError("the role must be a text: user, assistant, tool, …", path=f"{path}.role")
        case {"speaker": _}:
            return "user"  # a speaker without a role is a person
        case _:
            raise ConversationFormatError("the message has no role; give it one: user, assistant, tool, …", path=path)


def _content(value: Mapping[str, Any], path: str) -> tuple[str, int]:
    """Return the text of a message, and the number of its parts that hold none."""
    not_text = 0
    key = "content" if "content" in value else "text"
    match value.get(key):
        case str() as text:
            pass
        case list() as parts:
            text = "\n".join(_texts(parts, f"{path}.{key}"))
            not_text = count_not_text(parts)
        case None if key in value or any(call in value for call in _CALLS):
            text = ""
        case None:
            raise ConversationFormatError("the message has no content", path=path)
        case other:
            raise ConversationFormatError(
                f"expected a text or a list of parts, found {_kind(other)}", path=f"{path}.{key}"
            )
    match value:
        case {"blip_caption": str() as caption} if caption.strip():
            return f"{text} [image: {caption.strip()}]".lstrip(), not_text
        case {"img_url": [_, *_] as images}:
            not_text += len(images)
    return text, not_text


def _texts(parts: list[Any], path: str) -> Iterator[str]:
    """Yield the texts among a message's parts; images, tool calls and tool results are no words of the speaker."""
    for index, part in enumerate(parts):
        match part:
            case str():
                yield part
            case {"type": str() as kind, "text": str() as text} if kind in _TEXT_PARTS:
                yield text
            case {"type": "text" | "input_text" | "output_text"}:
                raise ConversationFormatError("the part has no text", path=f"{path}[{index}]")
            case {}:
                pass
            case other:
                raise ConversationFormatError(f"expected a part, found {_kind(other)}", path=f"{path}[{index}]")


def _label(value: Mapping[str, Any], keys: tuple[str, ...], path: str) -> str | None:
    """Return the id or name under the first key that has one; whole numbers are ids too."""
    for key in keys:
        match value.get(key):
            case None | "":
                continue
            case str() as label:
                return label
            case int() as number if not isinstance(number, bool):
                return str(number)
            case other:
                raise ConversationFormatError(f"expected a text, found {_kind(other)}", path=f"{path}.{key}")
    return None


def _time(value: Mapping[str, Any], keys: tuple[str, ...], path: str) -> dt.datetime | None:
    return next((said_at(value[key], f"{path}.{key}") for key in keys if value.get(key) not in (None, "")), None)


def _locomo(sessions: Mapping[str, Any], sample: str | None, path: str) -> Iterator[Conversation]:
    """Yield the sessions of a sample in their order; both speakers are people, told apart by their names."""
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
    """Yield the sessions of a question's haystack, but one whose id was seen before: that is the same session."""
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
