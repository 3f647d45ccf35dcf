"""The contract of detectors: what turns messages into candidate facts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import attrs

from factmem.errors import InvalidDataError
from factmem.facts import Fact, utc
from factmem.records import FactDetails, Origin

__all__ = ["MEMORY_ROLE", "Candidate", "Conversation", "Detector", "Message"]

MEMORY_ROLE: Final = "memory"
"""The role of text that factmem itself put into a prompt.

It is a typed marker, not a magic sentence: whoever turns a host's messages into a `Conversation` gives
this role to what a recall put in, and no detector takes it for something that was said.
"""

_INSTRUCTIONS: Final = frozenset({"system", "developer"})


def _said_at(moment: dt.datetime | None) -> dt.datetime | None:
    return None if moment is None else utc(moment)


def _storable(text: object) -> str:
    """Return a text with its lone surrogates, which no store can carry, replaced one by one."""
    if not isinstance(text, str):
        raise InvalidDataError(f"a message's texts must be strings, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text)
    return text


def _storable_or_none(text: object) -> str | None:
    return None if text is None else _storable(text)


@attrs.frozen(kw_only=True)
class Message:
    """One message of a conversation. Lone surrogates in its texts become U+FFFD.

    Attributes:
        content: the text.
        role: ``user``, ``assistant``, ``tool``, ``document``, ``system``, …, or `MEMORY_ROLE`.
        name: the speaker's name, if known.
        id: unique in its conversation.
        timestamp: when it was said, in UTC, if known.

    Raises:
        InvalidDataError: a text is no string, or the time has no zone.
    """

    content: str = attrs.field(repr=False, converter=_storable)
    role: str = attrs.field(default="user", converter=_storable)
    name: str | None = attrs.field(default=None, converter=_storable_or_none)
    id: str | None = attrs.field(default=None, converter=_storable_or_none)
    timestamp: dt.datetime | None = attrs.field(default=None, converter=_said_at)

    @property
    def origin(self) -> Origin:
        """Whose words these are; roles that are none of the known ones are `Origin.UNKNOWN`."""
        match self.role:
            case "user" | "human":
                return Origin.USER
            case "assistant" | "ai" | "model":
                return Origin.ASSISTANT
            case "tool" | "function":
                return Origin.TOOL
            case "document":
                return Origin.DOCUMENT
            case _:
                return Origin.UNKNOWN

    @property
    def detectable(self) -> bool:
        """Whether a detector may take facts from it: not from instructions, nor from what memory put in."""
        return self.role not in _INSTRUCTIONS and self.role != MEMORY_ROLE


def _messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(messages)


@attrs.frozen(kw_only=True)
class Conversation:
    """Messages in the order they were said.

    Attributes:
        messages: the messages.
        id: the conversation's (session's) id; the same id is the same conversation.
        started_at: when it began, in UTC; stands in for messages without a time.
    """

    messages: tuple[Message, ...] = attrs.field(converter=_messages)
    id: str | None = attrs.field(default=None, converter=_storable_or_none)
    started_at: dt.datetime | None = attrs.field(default=None, converter=_said_at)


@attrs.frozen(kw_only=True)
class Candidate:
    """A fact that a detector found and nothing has been done with yet.

    Attributes:
        fact: the fact.
        details: its evidence, origin, importance and so on.
    """

    fact: Fact[Any]
    details: FactDetails


@runtime_checkable
class Detector(Protocol):
    """Finds facts in conversations."""

    async def detect(self, conversation: Conversation) -> Sequence[Candidate]:
        """Return the facts found, each with evidence whose quote stands in a message; none is a normal answer.

        The quote stands in the message's text after redaction, which its offsets count in. The same
        conversation, if it tells its times, gives the same candidates. Messages that are not
        `Message.detectable` give none. Messages without any time at all take the caller's clock.
        """
        ...
