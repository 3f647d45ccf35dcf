"""The contract of importers: what they are given, and what they find.

An importer is a function of a `Source` and `ImportOptions` that yields what it finds, in the order of the source. It
reads and never writes, holds one row at a time, and follows no link. A row that cannot be read is a `Problem` and does
not cost the others; a source that cannot be read as a whole is a `FileFormatError`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, ParamSpec, TypeAlias

import attrs

from factmem.abc import Conversation
from factmem.detection.conversations import said_at
from factmem.errors import FactMemError, FileFormatError, InvalidDataError
from factmem.facts import STATEMENT, Fact, MultipleFacts, utc
from factmem.json_stream import kind_of_json
from factmem.records import AssertionState, FactDetails, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject

__all__ = [
    "DELETED_TEXT",
    "NO_TEXT",
    "Dialogue",
    "Entry",
    "Found",
    "ImportOptions",
    "Lost",
    "Problem",
    "Row",
    "Skipped",
    "converted",
    "guarded",
    "individual",
    "scope_at",
]

P = ParamSpec("P")

NO_TEXT: Final = "they hold no text"
"""Reason to skip a row."""

DELETED_TEXT: Final = "they were deleted there (--with-deleted keeps them as history)"
"""Reason to skip a row."""

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


@attrs.frozen
class Row:
    """One row of a source, with typed access to its fields. Every error names the field.

    Attributes:
        where: Its place in the source.
        data: Its fields.
    """

    where: str
    data: Mapping[str, Any]

    @classmethod
    def of(cls, where: str, value: Any) -> Row:
        """Return an object as a row.

        Raises:
            FileFormatError: It is something else.
        """
        if not isinstance(value, Mapping):
            raise FileFormatError(f"expected an object, found {kind_of_json(value)}", path=where)
        return cls(where, value)

    def text(self, *keys: str) -> str | None:
        """Return the text under the first key that has one; None if there is none, or a blank one.

        A whole number is a text as well, since ids are numbers in some systems.

        Raises:
            FileFormatError: It is something else.
        """
        for key in keys:
            match self.data.get(key):
                case None:
                    continue
                case str() as text:
                    if text.strip():
                        return text
                case bool() as other:
                    raise self.fault(f"expected a text, found {kind_of_json(other)}", key)
                case int() as number:
                    return str(number)
                case other:
                    raise self.fault(f"expected a text, found {kind_of_json(other)}", key)
        return None

    def required(self, *keys: str) -> str:
        """Return the text under the first key that has one.

        Raises:
            FileFormatError: There is none.
        """
        if (text := self.text(*keys)) is None:
            raise self.fault(f"the row has no {' or '.join(keys)}")
        return text

    def time(self, *keys: str) -> dt.datetime | None:
        """Return the time under the first key that has one, in UTC.

        Raises:
            FileFormatError: It is not a time.
        """
        for key in keys:
            if (value := self.data.get(key)) not in (None, ""):
                return said_at(value, f"{self.where}.{key}")
        return None

    def fraction(self, key: str) -> float | None:
        """Return a number from 0 to 1.

        Raises:
            FileFormatError: It is something else.
        """
        value = self.data.get(key)
        if value is None or value == "":
            return None
        try:
            number = None if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or not 0 <= number <= 1:
            raise self.fault("expected a number from 0 to 1", key)
        return number

    def flag(self, key: str) -> bool:
        """Return a truth value; SQLite's 0 and 1 are some.

        Raises:
            FileFormatError: It is something else.
        """
        match self.data.get(key):
            case None | False | 0:
                return False
            case True | 1:
                return True
            case other:
                raise self.fault(f"expected true or false, found {kind_of_json(other)}", key)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return an object; an empty one if there is none.

        Raises:
            FileFormatError: It is something else.
        """
        match self.data.get(key):
            case None:
                return {}
            case dict() as mapping:
                return mapping
            case other:
                raise self.fault(f"expected an object, found {kind_of_json(other)}", key)

    def items(self, key: str) -> Sequence[Any]:
        """Return a list; an empty one if there is none.

        Raises:
            FileFormatError: It is something else.
        """
        match self.data.get(key):
            case None:
                return ()
            case list() | tuple() as items:
                return items
            case other:
                raise self.fault(f"expected a list, found {kind_of_json(other)}", key)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, without blank ones.

        Raises:
            FileFormatError: It is something else.
        """
        found = self.items(key)
        if not all(isinstance(item, str) for item in found):
            raise self.fault("expected a list of texts", key)
        return tuple(item for item in found if item.strip())

    def rows(self, key: str) -> Iterator[Row]:
        """Yield the objects of a list.

        Raises:
            FileFormatError: It is not a list of objects.
        """
        for index, item in enumerate(self.items(key)):
            yield Row.of(f"{self.where}.{key}[{index}]", item)

    def fault(self, message: str, key: str | None = None) -> FileFormatError:
        """Return an error about this row, or about one of its fields."""
        return FileFormatError(message, path=self.where if key is None else f"{self.where}.{key}")


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

    def statement(self, text: str, *, timestamp: dt.datetime, where: str, **entry: Any) -> Entry:
        """Return a text as an entry; see `entries`."""
        (found,) = self.entries(MultipleFacts(STATEMENT, (text,), timestamp=timestamp), where=where, **entry)
        return found

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
        """Return a fact of another system as entries, one for each value.

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
        details = attrs.evolve(
            details,
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
        conversation: Conversation,
        *,
        where: str,
        changed_at: dt.datetime,
        scope: MemoryScope | None = None,
    ) -> Dialogue:
        """Return a conversation to ingest.

        Args:
            conversation: The conversation.
            where: Its place in the source.
            changed_at: Time of an undated one: that of the last change of its file.
            scope: Its scope, if the row names one.

        Raises:
            InvalidDataError: It lies in the future, or has no owner.
        """
        times = [message.timestamp for message in conversation.messages if message.timestamp]
        started = conversation.started_at or min(times, default=None) or self.dated or changed_at
        for moment in (started, *times):
            self.check_time(moment, where)
        return Dialogue(
            where=where,
            conversation=attrs.evolve(conversation, started_at=started),
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


def converted(rows: Iterable[Row | Problem], convert: Callable[[Row], Iterable[Found]]) -> Iterator[Found]:
    """Yield what is found in rows; a row that cannot be converted is a `Problem`."""
    for row in rows:
        if isinstance(row, Problem):
            yield row
            continue
        yield from guarded(row.where, convert, row)


def guarded(where: str, find: Callable[P, Iterable[Found]], *args: P.args, **kwargs: P.kwargs) -> Iterator[Found]:
    """Yield what a function finds; if it finds a fault in the data, a `Problem`.

    Args:
        where: Place of the data in the source.
        find: The function.
        args: Its arguments.
        kwargs: Its keyword arguments.
    """
    try:
        yield from find(*args, **kwargs)
    except InvalidDataError as error:
        yield Problem(where, error)
