"""The contract of detectors: what turns messages into candidate facts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from factmem.facts import Fact, utc
from factmem.records import FactDetails, Origin

__all__ = ["Candidate", "Conversation", "Detector", "Message"]


def _said_at(moment: dt.datetime | None) -> dt.datetime | None:
    return None if moment is None else utc(moment)


@attrs.frozen(kw_only=True)
class Message:
    """One message of a conversation.

    Attributes:
        content: the text.
        role: ``user``, ``assistant``, ``tool``, ``document``, ``system``, …
        name: the speaker's name, if known.
        id: unique in its conversation.
        timestamp: when it was said, in UTC, if known.
    """

    content: str = attrs.field(repr=False)
    role: str = "user"
    name: str | None = None
    id: str | None = None
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


@attrs.frozen(kw_only=True)
class Conversation:
    """Messages in the order they were said.

    Attributes:
        messages: the messages.
        id: the conversation's (session's) id; the same id is the same conversation.
        started_at: when it began, in UTC; stands in for messages without a time.
    """

    messages: tuple[Message, ...] = attrs.field(converter=tuple)
    id: str | None = None
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

        Messages without any time at all take the caller's clock.
        """
        ...
