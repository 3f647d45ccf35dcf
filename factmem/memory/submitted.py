"""Words and facts as callers submit them, and conversations of these."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, TypedDict

import attrs

from factmem.abc import DetectionRequest
from factmem.abc.detector import Conversation, Message
from factmem.conversations import conversations_of
from factmem.details import FactDetails, MetadataMerge
from factmem.detection import OriginPolicy
from factmem.error_hints import kind_of
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT, Fact, MultipleFacts, SingleFact
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import instance_of
from factmem.values import Json

_LEVELS: Final = 4
"""Mappings in one another that may be other types than dicts: a session, its events, their contents, the parts."""


def _topics(topics: Sequence[str]) -> tuple[str, ...]:
    return FactDetails(topics=topics).topics  # checked there, like those of any fact


Words: TypeAlias = "str | Message | Conversation | Sequence[Message] | Mapping[str, Any] | Sequence[Mapping[str, Any]]"
"""Words to remember: a text, a message, a conversation, or messages as dicts with ``role`` and ``content``.

The dicts may also be the contents and events of Google's APIs; see `factmem.conversations.read_conversations`.
"""


@attrs.frozen
class ReadyFact:
    """A fact that needs no reading, with its topics.

    Attributes:
        fact: The fact; a text is a statement, said now.
        topics: Its topics, such as the labels of `MANAGED_TOPICS`.

    Raises:
        InvalidDataError: It is neither a fact nor a text, or a topic is not legal.
    """

    fact: Fact[Any] | str = attrs.field(repr=False, validator=instance_of(SingleFact, MultipleFacts, str))
    topics: Sequence[str] = attrs.field(default=(), converter=_topics, kw_only=True)

    def said(self, now: dt.datetime) -> Fact[Any]:
        """Return the fact, or the statement that a text is."""
        return STATEMENT.fact([self.fact], timestamp=now) if isinstance(self.fact, str) else self.fact


def conversation_from(what: Words, now: dt.datetime) -> Conversation:
    """Return submitted words as a conversation.

    Raises:
        InvalidDataError: They are of another type, blank, or malformed.
    """
    match what:
        case Conversation():
            return what
        case Message():
            return Conversation(messages=(what,), started_at=what.timestamp or now)
        case str():
            if not what.strip():
                raise InvalidDataError("there is nothing to remember in a blank text")
            return Conversation(messages=(Message(content=what, timestamp=now),), started_at=now)
        case [Message() as first, *_]:
            messages = [item for item in what if isinstance(item, Message)]
            if len(messages) < len(what):
                other = next(item for item in what if not isinstance(item, Message))
                raise InvalidDataError(f"cannot generate from messages and {kind_of(other)} together")
            return Conversation(messages=messages, started_at=first.timestamp or now)
        case [first, *_] if _is_record(first):
            return _read([_plain(item) for item in what])
        case _ if _is_record(what):
            return _read(_plain(what))
        case _:
            raise InvalidDataError(
                f"cannot remember {kind_of(what)}: give a text, a Message, a Conversation, or message dicts"
            )


def spoken(source: Any, now: dt.datetime) -> Conversation:
    """Return words as a conversation; see `conversation_from`. Each text of a list is a message of the user.

    Raises:
        InvalidDataError: They are of another type, blank, or malformed.
    """
    match source:
        case [str(), *_]:
            return _read([_plain(item) for item in source])
        case _:
            return conversation_from(source, now)


def _is_record(item: object) -> bool:
    """Return whether an item is a mapping, or a pydantic model such as the contents of Google's SDK."""
    return isinstance(item, Mapping) or hasattr(type(item), "model_dump")


def _plain(item: Any, levels: int = _LEVELS) -> Any:
    """Return mappings and pydantic models as dicts, down to some levels, and anything else as it is."""
    if levels == 0:
        return item
    match item:
        case Mapping():
            return {key: _plain(value, levels - 1) for key, value in item.items()}
        case list() | tuple():
            return [_plain(value, levels) for value in item]
        case _:
            return item.model_dump(exclude_none=True) if _is_record(item) else item


def _read(value: object) -> Conversation:
    match list(conversations_of([("$", value)])):
        case [conversation]:
            return conversation
        case several:
            raise InvalidDataError(f"expected one conversation, got {len(several)}: pass them one by one")


class About(TypedDict, total=False):
    """Details of words that are to be remembered.

    Attributes:
        subject: Subject of the words, such as ``"user:alice"``; everything by default.
        scope: Scope that they hold in. Without one, the analyst proposes a scope for a text, and everything else goes
            to `MemoryScope.CROSS_PRODUCT`.
        importance: From 0 to 1; this memory's default if left out.
        categories: Labels.
        source: Source of the words.
        metadata: Other details, as JSON.
        expires_at: Time of expiry; by this memory's `TtlPolicy` if left out.
        ttl: The same, counted from now.
        private: Keep them for this memory's viewer alone.
        looking_for: Facts to look for in a conversation; by default all facts about the subject, those of the declared
            concepts first.
        consolidate: Compare findings with known records, as is the default.
        origins: Treatment of messages by their origin, instead of this memory's.
        labels: Labels of every new revision; see `FactDetails.labels`.
        merge: Treatment of the metadata of a record that is updated; it is merged by default. (Google's pages
            contradict each other on the default: MERGE on one, OVERWRITE on another. Merging loses nothing.)
        revision_ttl: Time after which every new revision is erased once it is superseded; by this memory's
            `TtlPolicy.revisions` if left out.
    """

    subject: MemorySubject | str | None
    scope: MemoryScope | str | None
    importance: float | None
    categories: Sequence[str] | None
    source: str | None
    metadata: Mapping[str, Json] | None
    expires_at: dt.datetime | None
    ttl: dt.timedelta | None
    private: bool | None
    looking_for: DetectionRequest | None
    consolidate: bool
    origins: OriginPolicy | None
    labels: Mapping[str, str] | None
    merge: MetadataMerge
    revision_ttl: dt.timedelta | None


@attrs.frozen(kw_only=True)
class StoredSession:
    """A conversation that is in the store already, or a part of it.

    Attributes:
        id: Id of the conversation.
        since: Only messages at this time or later.
        until: Only messages before this time.
        subject: Subject that the conversation was kept about; that of the memories if None.
        scope: Scope that it was kept in; that of the memories if None.
    """

    id: str
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    subject: MemorySubject | str | None = None
    scope: MemoryScope | str | None = None
