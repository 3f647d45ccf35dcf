"""The contract of importers: what they are given, and what they find.

An importer is a function of a `Source` and `ImportOptions` that yields what it finds, in the order of the source. It
reads and never writes, holds one row at a time, and follows no link. A row that cannot be read is a `Problem` and does
not cost the others; a source that cannot be read as a whole is a `FileFormatError`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from factmem.abc.detector import Conversation
from factmem.conversations import conversations_of
from factmem.details import FactDetails
from factmem.detection.redaction import redact
from factmem.errors import FactMemError, FileFormatError, InvalidDataError
from factmem.facts import STATEMENT, Fact, MultipleFacts, utc
from factmem.records import AssertionState, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject

SOURCE_ID: Final = "source_id"
"""Key of the metadata that holds the id of a record in its source, by which a later import knows it."""

_USER: Final = "user"
_CLOCK_SKEW: Final = dt.timedelta(minutes=5)


@attrs.frozen(kw_only=True)
class Entry:
    """An assertion as another system recorded it.

    Attributes:
        where: Its place in the source: a path, a line or a row.
        recorded: The assertion, with the ids of the other system. A revision follows the entry that it revises, by its
            record id, with nothing between them but other revisions of that record.
    """

    where: str
    recorded: Recorded


@attrs.frozen(kw_only=True)
class Dialogue:
    """A conversation to ingest: words, not facts.

    Attributes:
        where: Its place in the source.
        conversation: The conversation.
        subject: Subject of the facts in it.
        scope: Scope of the facts in it.
        owner: The only viewer who may see them; None for public.
        source: Name of the source.
    """

    where: str
    conversation: Conversation
    subject: MemorySubject
    scope: MemoryScope
    owner: str | None = None
    source: str | None = None


@attrs.frozen
class Skipped:
    """Rows that are left out on purpose.

    Attributes:
        reason: Half a sentence about them: "they were deleted there".
        count: Number of them.
    """

    reason: str
    count: int = 1


@attrs.frozen
class Lost:
    """A part of imported rows for which factmem has no place.

    Attributes:
        what: Name of the part: "vectors".
        count: Number of rows that had it.
    """

    what: str
    count: int = 1


@attrs.frozen
class Problem:
    """A row that cannot be read or kept.

    Attributes:
        where: Its place in the source.
        error: The fault; its text holds no word of the row.
    """

    where: str
    error: FactMemError


Found: TypeAlias = Entry | Dialogue | Skipped | Lost | Problem
"""One thing that an importer finds."""


@attrs.frozen(kw_only=True)
class ImportOptions:
    """Choices of the person who imports. Each system reads some of them; see `System.options`.

    Attributes:
        subject: Subject of rows that name none.
        scope: Scope of rows that name none.
        source: Name of the source, instead of the system's.
        private: Keep each fact for the user that it is about.
        owner: Owner of private facts that are about no user.
        columns: Names of the fields of a table by what they mean, such as ``{"value": "text"}``.
        namespace: Meaning of the segments of a namespace, such as ``memories,{user}``.
        key: Key of encrypted files, as base64 of 32 bytes.
        with_deleted: Keep deleted rows, too, as retracted ones.
        dated: Time when undated rows were said (default: the file's last change).
        now: The present. Rows from the future are refused.

    Raises:
        InvalidDataError: A time has no zone.
    """

    subject: MemorySubject = MemorySubject.EVERYTHING
    scope: MemoryScope = MemoryScope.CROSS_PRODUCT
    source: str | None = None
    private: bool = False
    owner: str | None = None
    columns: Mapping[str, str] = attrs.field(factory=dict)
    namespace: str | None = None
    key: str | None = attrs.field(default=None, repr=False)
    with_deleted: bool = False
    dated: dt.datetime | None = attrs.field(default=None, converter=attrs.converters.optional(utc))
    now: dt.datetime = attrs.field(factory=lambda: dt.datetime.now(dt.UTC), converter=utc)

    def owner_of(self, subject: MemorySubject) -> str | None:
        """Return the owner of facts about a subject: the user that it is, else `owner`; None if facts are public.

        Raises:
            InvalidDataError: They are private, and there is no one to own them.
        """
        if not self.private:
            return None
        owner = (subject.individual_name if subject.name == _USER else None) or self.owner
        if owner is None:
            raise InvalidDataError("a private fact needs an owner: name one with --viewer, or --subject user:NAME")
        return owner

    def check_time(self, moment: dt.datetime, where: str) -> None:
        """Refuse a time in the future.

        Raises:
            FileFormatError: It lies in the future.
        """
        if moment > self.now + _CLOCK_SKEW:
            raise FileFormatError("the row was said in the future: correct its date", path=where)

    def entries(
        self,
        fact: Fact[Any],
        *,
        where: str,
        key: str,
        details: FactDetails,
        subject: MemorySubject | None = None,
        scope: MemoryScope | None = None,
        record: str | None = None,
        revises: bool = False,
        state: AssertionState = AssertionState.ACTIVE,
        recorded_at: dt.datetime | None = None,
    ) -> tuple[Entry, ...]:
        """Return a fact of another system as entries, one for each value; secrets in statements are redacted.

        Args:
            fact: The fact.
            where: Its place in the source.
            key: Its id in the other system.
            details: Its details; owner and source are filled in.
            subject: Its subject, if the row names one.
            scope: Its scope, if the row names one.
            record: Id of its record in the other system (default: its own).
            revises: Whether it revises an earlier entry of its record.
            state: Whether it counts there.
            recorded_at: Time when the other system recorded it (default: when it was said).

        Raises:
            InvalidDataError: It lies in the future, or has no owner.
        """
        self.check_time(fact.timestamp, where)
        place = Place(subject or self.subject, scope or self.scope)
        if isinstance(fact, MultipleFacts) and fact.concept.keyword == STATEMENT.keyword:
            fact = attrs.evolve(fact, values=[redact(text).text for text in fact.values])
        details = attrs.evolve(
            details,
            evidence=[attrs.evolve(item, quote=redact(item.quote).text) for item in details.evidence],
            owner=details.owner or self.owner_of(place.subject),
            source=details.source or self.source,
        )
        record = record or key
        said = assertions_of(fact, place, details)
        many = len(said) > 1
        return tuple(
            Entry(
                where=where,
                recorded=Recorded(
                    assertion=attrs.evolve(one, state=state, revises=record if revises else None),
                    id=f"{key}#{index}" if many else key,
                    record_id=f"{record}#{index}" if many else record,
                    seq=index,
                    recorded_at=recorded_at or fact.timestamp,
                ),
            )
            for index, one in enumerate(said, 1)
        )

    def dialogue(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        where: str,
        id: str,
        changed_at: dt.datetime,
        scope: MemoryScope | None = None,
    ) -> Iterator[Dialogue | Skipped]:
        """Yield messages as a conversation to ingest, if anything was said in them.

        Args:
            messages: The messages, with role and content; see `factmem.conversations.read_conversations`.
            where: Their place in the source.
            id: Id of the conversation.
            changed_at: Time of an undated one: that of the last change of its file.
            scope: Its scope, if the source names one.

        Raises:
            InvalidDataError: A message has no known form, it lies in the future, or has no owner.
        """
        said = list(messages)
        if not any(message["content"] for message in said):
            yield Skipped("nothing was said in them")
            return
        (conversation,) = conversations_of([(where, {"messages": said})])
        times = [message.timestamp for message in conversation.messages if message.timestamp]
        started = conversation.started_at or min(times, default=None) or self.dated or changed_at
        for moment in (started, *times):
            self.check_time(moment, where)
        yield Dialogue(
            where=where,
            conversation=attrs.evolve(conversation, id=id, started_at=started),
            subject=self.subject,
            scope=scope or self.scope,
            owner=self.owner_of(self.subject),
            source=self.source,
        )


def individual(name: str, *, of: str = _USER) -> MemorySubject:
    """Return the subject of one individual."""
    return MemorySubject(of).individual(name)


def scope_at(segments: Sequence[str], default: MemoryScope) -> MemoryScope:
    """Return the scope of the segments of a path or a namespace.

    ``agent``, ``feature`` and ``product`` before a name are the kinds of that name; anything else lies under
    `MemoryScope.CROSS_PRODUCT`. No segments mean the default.

    Raises:
        InvalidNameError: A segment is not legal.
    """
    match tuple(segments):
        case ():
            return default
        case ("agent" | "feature" | "product" as kind, str() as name, *rest):
            return MemoryScope(ScopeKind(kind), (name, *rest))
        case path:
            return MemoryScope(ScopeKind.CROSS_PRODUCT, path)
