"""Messages as a detector reads them."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
from typing import Final

import attrs

from factmem.abc.detector import Conversation
from factmem.details import Evidence, MediumPart, Origin, Treatment
from factmem.detection.redaction import redact_conversation
from factmem.detection.statements import says_something
from factmem.detection.words import ReadableText
from factmem.facts import ClockTime

_MESSAGE_STEP = dt.timedelta(milliseconds=1)
CLOCK_STEP: Final = dt.timedelta(microseconds=1)
"""Time between two messages without a time that are submitted together."""


@attrs.frozen(kw_only=True)
class Utterance:
    """One message as a detector reads it.

    Attributes:
        text: the text, its secrets redacted.
        origin: the source of the words.
        role: the speaker's role.
        speaker: the speaker's name, if known.
        timestamp: time of the message, in UTC.
        conversation_id: the conversation's id, or one derived from its content.
        message_id: the message's id, or its position.
        position: index of the message in the conversation, from 0.
        treatment: the message's own treatment, if it has one.
        medium: the part of a medium that the text was read from; None for words said.
    """

    text: str = attrs.field(repr=False)
    origin: Origin
    role: str
    speaker: str | None
    timestamp: dt.datetime
    conversation_id: str
    message_id: str
    position: int
    treatment: Treatment | None = None
    medium: MediumPart | None = None

    @functools.cached_property
    def readable(self) -> ReadableText:
        """The text, ready to read the passages of quotes in."""
        return ReadableText(self.text)

    def cite(self, start: int, end: int) -> Evidence:
        """Return a span of the text, in characters, as evidence."""
        return Evidence(
            quote=self.text[start:end],
            message_id=self.message_id,
            role=self.role,
            speaker=self.speaker,
            conversation_id=self.conversation_id,
            position=self.position,
            start=start,
            end=end,
            medium=self.medium,
        )


def utterances(conversation: Conversation, now: dt.datetime) -> tuple[Utterance, ...]:
    """Return the utterances of a conversation, in order. Messages that are not detectable or say nothing are left out.

    A message without a time takes the conversation's start plus a millisecond for each message before it; without a
    start, ``now`` minus a microsecond for each message that follows, so that nothing lies in the future. A conversation
    without an id takes one derived from its redacted content, so that reading it again gives the same id, and no secret
    can be guessed from it.

    Args:
        conversation: the conversation.
        now: the current time, for conversations without times.
    """
    clean = redact_conversation(conversation)
    conversation_id = clean.id or _id_of_content(clean)
    return tuple(
        Utterance(
            text=message.content,
            origin=message.origin,
            role=message.role,
            speaker=message.name,
            timestamp=message.timestamp or _time_at(clean, position, now),
            conversation_id=conversation_id,
            message_id=message.id or str(position),
            position=position,
            treatment=message.treatment,
            medium=message.medium,
        )
        for position, message in enumerate(clean.messages)
        if message.detectable and says_something(message.content)
    )


def _time_at(conversation: Conversation, position: int, now: dt.datetime) -> dt.datetime:
    if conversation.started_at is not None:
        later = conversation.started_at + position * _MESSAGE_STEP
        return ClockTime.of(later) if isinstance(conversation.started_at, ClockTime) else later
    return now - (len(conversation.messages) - position) * CLOCK_STEP


def _id_of_content(conversation: Conversation) -> str:
    said = [[it.id, it.role, it.name, it.content, it.timestamp] for it in conversation.messages]
    content = json.dumps([conversation.started_at, said], ensure_ascii=False, default=dt.datetime.isoformat)
    return f"content:{hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}"
