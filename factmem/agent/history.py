"""The histories of agents, in whatever form they have: read as messages, and told what is known."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs

from factmem.abc import MEMORY_ROLE, Message
from factmem.agent.config import RunIdentity
from factmem.agent.rendering import MemoryBlock
from factmem.detection import count_not_text
from factmem.errors import InvalidDataError

__all__ = [
    "MEMORY_NAME",
    "DictFormat",
    "HistoryFormat",
    "MessageFormat",
    "conversation_id",
    "identified",
    "spoken",
    "with_block",
]

NativeT = TypeVar("NativeT")


class HistoryFormat(Protocol, Generic[NativeT]):
    """Conversion between the messages of one framework and those of factmem."""

    def messages(self, native: NativeT) -> Sequence[Message]:
        """Return what a message says, in factmem's words; nothing for calls of functions.

        What memory put in has the role `factmem.abc.MEMORY_ROLE`, results of tools have the role ``tool``.
        """
        ...

    def calls(self, native: NativeT) -> bool:
        """Whether a message calls functions, and so waits for what they answer."""
        ...

    def memory(self, block: MemoryBlock) -> NativeT:
        """Return a message of the user's role that tells what is known and is marked as factmem's own."""
        ...

    def summary(self, text: str) -> NativeT:
        """Return a message of the assistant's role that stands for messages that were compressed away."""
        ...


class MessageFormat:
    """Histories of `factmem.Message`."""

    def messages(self, native: Message) -> Sequence[Message]:
        """See `HistoryFormat.messages`."""
        return (native,)

    def calls(self, native: Message) -> bool:
        """See `HistoryFormat.calls`."""
        return False

    def memory(self, block: MemoryBlock) -> Message:
        """See `HistoryFormat.memory`."""
        return Message(content=block.text, role=MEMORY_ROLE)

    def summary(self, text: str) -> Message:
        """See `HistoryFormat.summary`."""
        return Message(content=text, role="assistant")


MEMORY_NAME: Final = "factmem_memory"
"""The name under which factmem speaks in histories of dicts, so that it is known again in one that was stored."""


class DictFormat:
    """Histories as the APIs of OpenAI write them: messages of chat completions, or items of responses.

    They are dicts, or the objects that OpenAI's client returns, which programs often put beside them.
    """

    def messages(self, native: Any) -> Sequence[Message]:
        """See `HistoryFormat.messages`."""
        native = _as_mapping(native)
        role, content = native.get("role"), native.get("content")
        if native.get("name") == MEMORY_NAME and role == "user":
            role = MEMORY_ROLE
        elif native.get("type") == "function_call_output":
            role, content = "tool", native.get("output")
        text, not_text = _text(content), count_not_text(content) if isinstance(content, list | tuple) else 0
        if not isinstance(role, str) or not (text.strip() or not_text):
            return ()
        id, name = native.get("id"), native.get("name")
        return (
            Message(
                content=text,
                role=role,
                name=name if isinstance(name, str) else None,
                id=id if isinstance(id, str) else None,
                not_text=not_text,
            ),
        )

    def calls(self, native: Any) -> bool:
        """See `HistoryFormat.calls`."""
        native = _as_mapping(native)
        return bool(native.get("tool_calls")) or native.get("type") == "function_call"

    def memory(self, block: MemoryBlock) -> dict[str, Any]:
        """See `HistoryFormat.memory`."""
        return {"role": "user", "name": MEMORY_NAME, "content": block.text}

    def summary(self, text: str) -> dict[str, Any]:
        """See `HistoryFormat.summary`."""
        return {"role": "assistant", "content": text}


def _as_mapping(native: Any) -> Mapping[str, Any]:
    if isinstance(native, Mapping):
        return native
    try:
        found: Mapping[str, Any] = native.model_dump(warnings=False)
    except AttributeError:
        kind = type(native).__name__
        raise InvalidDataError(f"a {kind} among dicts cannot be read: convert the history to factmem.Message") from None
    return found


def _text(content: object) -> str:
    """The text of a message: its content, or the text parts of it."""
    match content:
        case str():
            return content
        case [*parts]:
            return "\n".join(
                part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)
            )
        case _:
            return ""


def spoken(format: HistoryFormat[NativeT], history: Sequence[NativeT]) -> list[Message]:
    """Return what a whole history says, each message with an id that it keeps as the history grows."""
    return identified([message for native in history for message in format.messages(native)])


def with_block(format: HistoryFormat[NativeT], history: Sequence[NativeT], block: MemoryBlock) -> list[NativeT]:
    """Return a history that tells what is known, once, before the user's last message.

    What was told before is taken out; everything else is as it was, the same objects in the same order.
    """
    kept = [native for native in history if not _tells(format, native)]
    if not block:
        return kept
    place = next(
        (number for number in range(len(kept) - 1, -1, -1) if _is_of_user(format, kept[number])),
        len(kept),
    )
    return [*kept[:place], format.memory(block), *kept[place:]]


def _tells(format: HistoryFormat[NativeT], native: NativeT) -> bool:
    return any(message.role == MEMORY_ROLE for message in format.messages(native))


def _is_of_user(format: HistoryFormat[NativeT], native: NativeT) -> bool:
    """Whether a message is the user's, and not one that answers tools as well: that one must follow their calls."""
    roles = {message.role for message in format.messages(native)}
    return "user" in roles and "tool" not in roles


def identified(messages: Sequence[Message]) -> list[Message]:
    """Give each message that has no id one that it keeps: by what it says, and how often that was said before."""
    seen: Counter[str] = Counter()
    found = []
    for message in messages:
        if message.id is None:
            said = _digest(message.role, message.content)
            seen[said] += 1
            message = attrs.evolve(message, id=f"{said}-{seen[said]}")
        found.append(message)
    return found


def conversation_id(identity: RunIdentity, messages: Sequence[Message]) -> str:
    """Return the id of a run's conversation: its session, or else how it began, and with whom."""
    if identity.session_id is not None:
        return identity.session_id
    said = (message.content for message in messages if message.role == "user")
    began = next((content for content in said if content.strip()), "")
    return f"conversation-{_digest(identity.user_id, began)}"


def _digest(*said: str | None) -> str:
    return hashlib.blake2b(json.dumps(said).encode(), digest_size=12).hexdigest()
