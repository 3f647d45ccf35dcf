"""Histories of agents: conversion of each framework's messages, and insertion of the memory block."""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs

from factmem.abc.detector import MEMORY_ROLE, Message
from factmem.agent.config import RunIdentity
from factmem.agent.rendering import MemoryBlock
from factmem.details import Origin, Treatment
from factmem.errors import InvalidDataError
from factmem.media.parts import MediaParts, media_in

NativeT = TypeVar("NativeT")

_TEXT_ONLY: Final = MediaParts()


class HistoryFormat(Protocol, Generic[NativeT]):
    """Conversion between the messages of one framework and those of factmem."""

    def messages(self, native: NativeT) -> Sequence[Message]:
        """Convert a message to factmem's messages; function calls convert to none.

        Memory blocks get the role `factmem.abc.detector.MEMORY_ROLE`, tool results the role ``tool``.
        """
        ...

    def calls(self, native: NativeT) -> bool:
        """Return whether a message contains function calls, which await results."""
        ...

    def memory(self, block: MemoryBlock) -> NativeT:
        """Return a message with the user's role that holds a memory block and is marked as factmem's."""
        ...

    def summary(self, text: str) -> NativeT:
        """Return a message with the assistant's role that replaces compressed messages."""
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
"""Name of factmem's messages in histories of dicts; it identifies them in stored histories."""


class DictFormat:
    """Histories of OpenAI's APIs: messages of chat completions, or items of responses.

    Messages are dicts or objects of OpenAI's client; a history may mix both.
    """

    def messages(self, native: Any) -> Sequence[Message]:
        """See `HistoryFormat.messages`."""
        native = _as_mapping(native)
        role, content = native.get("role"), native.get("content")
        if native.get("name") == MEMORY_NAME and role == "user":
            role = MEMORY_ROLE
        elif native.get("type") == "function_call_output":
            role, content = "tool", native.get("output")
        if not isinstance(role, str):
            return ()
        parts = media_in(content) if isinstance(content, list | tuple) else MediaParts()
        names = {name: given for name in ("id", "name") if isinstance(given := native.get(name), str)}
        return said(_text(content), role, parts, **names)

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
    """Return the text of a message's content, or of its text parts."""
    match content:
        case str():
            return content
        case [*parts]:
            return "\n".join(
                part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)
            )
        case _:
            return ""


def said(text: str, role: str, parts: MediaParts = _TEXT_ONLY, **fields: Any) -> tuple[Message, ...]:
    """Return a message of a text and media; no message if both are empty.

    Args:
        text: The text.
        role: The role of its speaker.
        parts: The media.
        fields: Other fields of `Message`.
    """
    message = Message(content=text, role=role, media=parts.media, not_text=parts.not_text, **fields)
    return (message,) if text.strip() or parts != _TEXT_ONLY else ()


def spoken(format: HistoryFormat[NativeT], history: Sequence[NativeT]) -> list[Message]:
    """Convert a history to messages, each with an id that stays the same as the history grows."""
    return identified([message for native in history for message in format.messages(native)])


def with_block(format: HistoryFormat[NativeT], history: Sequence[NativeT], block: MemoryBlock) -> list[NativeT]:
    """Return a history with a memory block before the user's last message.

    Earlier blocks are removed. All other messages stay: the same objects in the same order.
    """
    kept = [native for native in history if all(message.role != MEMORY_ROLE for message in format.messages(native))]
    if not block:
        return kept
    place = next((number for number in range(len(kept) - 1, -1, -1) if _is_of_user(format, kept[number])), len(kept))
    return [*kept[:place], format.memory(block), *kept[place:]]


def _is_of_user(format: HistoryFormat[NativeT], native: NativeT) -> bool:
    """Return whether a message is the user's and holds no tool results, which must directly follow their calls."""
    roles = {message.role for message in format.messages(native)}
    return "user" in roles and "tool" not in roles


def identified(messages: Sequence[Message], before: Sequence[str] | None = None) -> list[Message]:
    """Return messages with ids; a missing id is generated from the role, the content and the number of repetitions.

    Args:
        messages: The messages.
        before: The keys of the user's earlier words, if known; generated ids are then generated again.
    """
    seen = Counter(before)
    found = []
    for message in messages:
        key = _key(message)
        if message.id is None or (before is not None and message.id != key):
            seen[key] += 1
            message = attrs.evolve(message, id=f"{key}-{seen[key]}")
        found.append(message)
    return found


def _key(message: Message) -> str:
    """Return what repetitions of a message share: its digest if it has no id but a made one, else its id."""
    digest = _digest(message.role, message.content)
    return digest if message.id is None or message.id.startswith(f"{digest}-") else message.id


def conversation_id(identity: RunIdentity, messages: Sequence[Message]) -> str:
    """Return the id of a run's conversation: its session, or a digest of the user and the first message."""
    if identity.session_id is not None:
        return identity.session_id
    contents = (message.content for message in messages if message.role == "user")
    first = next((content for content in contents if content.strip()), "")
    return f"conversation-{_digest(identity.user_id, first)}"


def _digest(*parts: str | None) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()


_MOST_CONVERSATIONS: Final = 100
"""Maximum number of conversations kept in mind; the one that was silent for longest is dropped."""

_MOST_OF_A_USER: Final = 8
"""Maximum number of candidate conversations for a run without a session."""

_MOST_CHARACTERS: Final = 1_000_000
"""Maximum length of a conversation kept in mind, in characters; its oldest messages are dropped."""


@attrs.frozen
class _Heard:
    """A conversation as it was heard.

    Attributes:
        said: The messages by id, the latest last.
        order: The keys of the user's messages, in order.
        cut: Number of those before the beginning of the latest history, which the host has cut, or never shows again.
    """

    said: Mapping[str, Message] = attrs.field(factory=dict, repr=False)
    order: tuple[str, ...] = ()
    cut: int = 0

    def beginning_of(self, keys: Sequence[str]) -> int:
        """Return the place in the order at which a history begins: where most of it stands as it was heard.

        A history goes on from the latest one, of which its host may have cut the beginning; or it has everything, from
        the beginning on. Several messages that begin with the first one heard are everything, even if others are not as
        they were heard: a host may load a history in another form than it saves it in. If nothing of it was heard in
        this way, all of it comes after what was heard.
        """
        if self.order[self.cut :] == tuple(keys[: len(self.order) - self.cut]):
            return self.cut
        known = list(itertools.dropwhile(lambda key: key not in self.order, keys))  # a summary stands for what was cut
        shared = {at: self._shared(at, known) for at, key in enumerate(self.order) if key in known[:1]}
        whole = len(keys) > 1
        fitting = [(held, at) for at, held in shared.items() if at + held > self.cut or (at == 0 and whole)]
        return max(fitting, default=(0, len(self.order)))[1]

    def _shared(self, at: int, keys: Sequence[str]) -> int:
        pairs = zip(self.order[at:], keys, strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


@attrs.frozen(eq=False)
class Hearing:
    """The latest conversations of an agent's runs in this process, by user and conversation.

    Hosts pass the history with each request of a model, so every message is heard before the model can repeat it with a
    tool. Messages that a host drops from a later request stay heard. Safe to use from any thread.
    """

    _conversations: dict[tuple[str | None, str], _Heard] = attrs.field(factory=dict, init=False, repr=False)
    _changing: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)

    def hear(self, identity: RunIdentity, history: Sequence[Message]) -> list[Message]:
        """Keep a history in mind, and return it with ids that also count the messages heard before it.

        So repeated words get a new id, even if the host has cut the earlier ones.

        Args:
            identity: The identity of the run.
            history: The messages.
        """
        key = identity.user_id, conversation_id(identity, history)
        keys = [_key(message) for message in history if message.origin is Origin.USER]
        with self._changing:
            again = identity.session_id is None and len(keys) == 1 and self._has_begun_another(*key)
            known = self._conversations.pop(key, _Heard())
            cut = len(known.order) if again else known.beginning_of(keys)
            found = identified(history, known.order[:cut])
            new = {message.id or "": message for message in found}
            kept = {id: said for id, said in known.said.items() if id not in new}
            self._conversations[key] = _Heard(_latest({**kept, **new}), (*known.order[:cut], *keys), cut)
            while len(self._conversations) > _MOST_CONVERSATIONS:
                del self._conversations[next(iter(self._conversations))]
        return found

    def _has_begun_another(self, user: str | None, conversation: str) -> bool:
        """Return whether the latest conversation of a user is another one."""
        return next((of for whose, of in reversed(self._conversations) if whose == user), conversation) != conversation

    def heard(self, identity: RunIdentity) -> list[Message]:
        """Return the conversation of a run, in order; without a session, the latest conversations of its user.

        Args:
            identity: The identity of the run.
        """
        user, session = identity.user_id, identity.session_id
        with self._changing:
            conversations = [
                heard.said
                for (whose, conversation), heard in self._conversations.items()
                if whose == user and session in (None, conversation)
            ]
            return [message for said in conversations[-_MOST_OF_A_USER:] for message in said.values()]

    def left_out(self, identity: RunIdentity, history: Sequence[Message]) -> list[Message]:
        """Return the untrusted messages that a conversation's history no longer holds, for comparison only.

        Args:
            identity: The identity of the run.
            history: The messages, with ids.
        """
        key = identity.user_id, conversation_id(identity, history)
        shown = {message.id for message in history}
        with self._changing:
            known = list(self._conversations.get(key, _Heard()).said.items())
        return [
            attrs.evolve(message, id=id, treatment=Treatment.IGNORE, media=(), not_text=0)
            for id, message in known
            if id not in shown and not message.origin.trusted and message.detectable
        ]


def _latest(said: dict[str, Message]) -> dict[str, Message]:
    """Return the latest messages that are not too long together."""
    room = _MOST_CHARACTERS
    kept = []
    for id, message in reversed(said.items()):
        room -= len(message.content)
        if room < 0:
            break
        kept.append((id, message))
    return dict(reversed(kept))
