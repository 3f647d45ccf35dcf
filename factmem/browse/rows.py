"""Records as rows: plain data to show.

Values, quotes and speakers are on one line, with hidden characters made visible. Names (keyword, subject, scope,
source, labels) are as the store has them, so that a page can link to them: a browser shows them through
`factmem.browse.texts.shown`.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final

import attrs

from factmem.browse.texts import shown, value_text
from factmem.facts import STATEMENT
from factmem.json_form import value_json
from factmem.records import AssertionState, Evidence, FactRecord, Origin
from factmem.subjects import MemorySubject

__all__ = ["Quote", "RecordRow", "cited", "row_of", "value_of"]

_DERIVED: Final = re.compile(r"content:[0-9a-f]{32}|conversation-[0-9a-f]{24}|[0-9a-f]{24}-[0-9]+")
"""Ids that were made of the content, where the caller gave none: they tell a person nothing."""


@attrs.frozen(kw_only=True)
class Quote:
    """Words that a record comes from.

    Attributes:
        text: The words.
        speaker: Name and role of the speaker, as far as they are known.
        place: The conversation and the message, as far as they are known.
        repeats: Whether the words are the record's value itself, so that a page need not show them twice.
    """

    text: str
    speaker: str
    place: str
    repeats: bool


@attrs.frozen(kw_only=True)
class RecordRow:
    """A record as one row of a page.

    Attributes:
        id: Id of the record; of a quarantined one, its id in the quarantine.
        keyword: Keyword of its concept.
        statement: Whether it is a free statement, whose keyword says nothing.
        value: Its value, as text: strings as they are, anything else as JSON.
        shape: Its type, as people write it.
        subject: The subject, and the individual after a colon.
        general: Whether it is about no subject of its own.
        scope: Path of its scope.
        said_at: Time when it was said, in UTC.
        recorded_at: Time when the store recorded it, in UTC.
        revision: Number of the revision that is shown.
        state: Its state.
        origin: Origin of its words.
        importance: From 0 to 1.
        private: Whether its owner alone sees it.
        source: Name of the source; empty if it has none.
        categories: Labels given by callers.
        topics: Topics found by a detector.
        flags: Reasons for suspicion.
        waits: Why it waits in quarantine; empty unless it does.
        quotes: The words it comes from.
    """

    id: str
    keyword: str
    statement: bool
    value: str
    shape: str
    subject: str
    general: bool
    scope: str
    said_at: dt.datetime
    recorded_at: dt.datetime
    revision: int
    state: AssertionState
    origin: Origin
    importance: float
    private: bool
    source: str = ""
    categories: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    waits: str = ""
    quotes: tuple[Quote, ...] = ()

    @property
    def current(self) -> bool:
        """Whether it counts now."""
        return self.state in (AssertionState.ACTIVE, AssertionState.PENDING, AssertionState.FAILED)


def row_of(record: FactRecord[Any]) -> RecordRow:
    """Return a record as a row."""
    details = record.details
    value = value_json(record)
    return RecordRow(
        id=record.id,
        keyword=record.concept.keyword,
        statement=record.concept.keyword == STATEMENT.keyword,
        value=value_of(record),
        shape=shown(value_text(record.concept.shape)),
        subject=str(record.subject),
        general=record.subject.key == MemorySubject.EVERYTHING.key,
        scope=str(record.scope),
        said_at=record.timestamp,
        recorded_at=record.recorded_at,
        revision=record.revision,
        state=record.state,
        origin=details.origin,
        importance=details.importance,
        private=record.private,
        source=details.source or "",
        categories=details.categories,
        topics=details.topics,
        flags=details.flags,
        waits=shown(record.quarantine_reason),
        quotes=tuple(_quote(item, repeats=item.quote == value) for item in details.evidence),
    )


def value_of(record: FactRecord[Any]) -> str:
    """Return a record's value as one line: strings as they are, anything else as JSON."""
    return shown(value_text(value_json(record)))


def _quote(item: Evidence, *, repeats: bool) -> Quote:
    speaker, place = cited(item)
    return Quote(text=shown(item.quote), speaker=speaker, place=place, repeats=repeats)


def cited(item: Evidence) -> tuple[str, str]:
    """Return the speaker of some words, and the conversation and message or the place in a document, as far as known.

    Ids that were derived from the content are left out, and so is the position in a conversation without a name.
    """
    named = [shown(name) for name in (item.speaker, item.role) if name]
    speaker = f"{named[0]} ({named[1]})" if len(named) == 2 else "".join(named)
    conversation, message = (
        id if id and not _DERIVED.fullmatch(id) else "" for id in (item.conversation_id, item.message_id)
    )
    if not conversation and message == str(item.position):
        message = ""
    talk, words = ("", "") if item.role == Origin.DOCUMENT.value else ("conversation ", "message ")
    where = [f"{what}{id}" for what, id in ((talk, conversation), (words, message)) if id]
    return speaker, shown(", ".join(where))
