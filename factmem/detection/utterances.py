"""What was said in a conversation, and how it is cited: redacted, in order, each with its speaker and time."""

from __future__ import annotations

import datetime as dt
import hashlib
import json

import attrs

from factmem.abc import Conversation, Message
from factmem.details import Treatment
from factmem.detection.redaction import redact_conversation
from factmem.detection.statements import says_something
from factmem.records import Evidence, Origin

__all__ = ["Utterance", "utterances"]

_MESSAGE_STEP = dt.timedelta(milliseconds=1)
_CLOCK_STEP = dt.timedelta(microseconds=1)


@attrs.frozen(kw_only=True)
class Utterance:
    """One message as a detector sees it.

    Attributes:
        text: what was said, its secrets redacted.
        origin: whose words these are.
        role: the role of who said it.
        speaker: the name of who said it, if known.
        timestamp: when, in UTC.
        conversation_id: the conversation's id, or one derived from what was said in it.
        message_id: the message's id; its position, if it has none.
        position: the message's place in the conversation, from 0.
        treatment: the message's own treatment, if it has one.
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

    def cite(self, start: int, end: int) -> Evidence:
        """Return the words from ``start`` to ``end``, in characters, as evidence."""
        return Evidence(
            quote=self.text[start:end],
            message_id=self.message_id,
            role=self.role,
            speaker=self.speaker,
            conversation_id=self.conversation_id,
            position=self.position,
            start=start,
            end=end,
        )


def utterances(conversation: Conversation, now: dt.datetime) -> tuple[Utterance, ...]:
    """Return what was said, in order; messages that are not detectable or say nothing are left out.

    A message without a time takes the conversation's beginning plus a millisecond for each message before
    it; where that is not known either, ``now`` less a microsecond for each message that follows, so that
    nothing lies in the future. A conversation without an id takes one derived from its redacted content,
    so that the same conversation read again is the same, and no secret can be guessed from the id.

    Args:
        conversation: what was said.
        now: the present, for conversations that tell no time.
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
        )
        for position, message in enumerate(clean.messages)
        if message.detectable and says_something(message.content)
    )


def _time_at(conversation: Conversation, position: int, now: dt.datetime) -> dt.datetime:
    if conversation.started_at is not None:
        return conversation.started_at + position * _MESSAGE_STEP
    return now - (len(conversation.messages) - position) * _CLOCK_STEP


def _id_of_content(conversation: Conversation) -> str:
    said = [_identity(message) for message in conversation.messages]
    content = json.dumps([_isoformat(conversation.started_at), said], ensure_ascii=False)
    return f"content:{hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}"


def _identity(message: Message) -> list[str | None]:
    return [message.id, message.role, message.name, message.content, _isoformat(message.timestamp)]


def _isoformat(moment: dt.datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
