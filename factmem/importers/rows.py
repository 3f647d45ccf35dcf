"""Rows of other systems, and the engine that makes facts of them by a table of their keys.

`Row` gives typed access to the fields of one row. `Fields` says under which keys a system keeps what factmem asks for;
one engine reads the rows of all systems by it, so that dates, owners, expiry and empty rows are treated alike.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, ParamSpec, TypeVar

import attrs

from factmem.conversations import said_at
from factmem.details import FactDetails, Origin
from factmem.errors import FileFormatError, InvalidDataError
from factmem.facts import STATEMENT, Fact, MultipleConcept, MultipleFacts, SingleConcept, SingleFact
from factmem.importers.contract import SOURCE_ID, Found, ImportOptions, Lost, Problem, Skipped
from factmem.json_stream import kind_of_json
from factmem.records import AssertionState
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

P = ParamSpec("P")
T = TypeVar("T")

NO_TEXT: Final = "they hold no text"
"""Reason to skip a row."""

UNDATED: Final = "dates (they are dated by the file; --date sets another date)"
"""Part of a row that is lost."""


@attrs.frozen
class Row:
    """One row of a source, with typed access to its fields. Every error names the field.

    Of several keys, the first one with a value counts; a blank text counts as none.

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

    def _first(self, keys: Sequence[str], expected: str, *kinds: type) -> Any:
        """Return the value under the first key that has one, or None.

        Raises:
            FileFormatError: It is of none of the kinds.
        """
        for key in keys:
            value = self.data.get(key)
            if value is None or (isinstance(value, str) and not value.strip()):
                continue
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise self.fault(f"expected {expected}, found {kind_of_json(value)}", key)
            return value
        return None

    def text(self, *keys: str) -> str | None:
        """Return a text, or None. A whole number is one as well, since ids are numbers in some systems.

        Raises:
            FileFormatError: It is something else.
        """
        found = self._first(keys, "a text", str, int)
        return None if found is None else str(found)

    def required(self, *keys: str) -> str:
        """Return a text.

        Raises:
            FileFormatError: There is none.
        """
        if (text := self.text(*keys)) is None:
            raise self.fault(f"the row has no {' or '.join(keys)}")
        return text

    def time(self, *keys: str) -> dt.datetime | None:
        """Return a time in UTC, or None.

        Raises:
            FileFormatError: It is not a time.
        """
        for key in keys:
            if (value := self.data.get(key)) not in (None, ""):
                return said_at(value, f"{self.where}.{key}")
        return None

    def fraction(self, *keys: str) -> float | None:
        """Return a number from 0 to 1, or None.

        Raises:
            FileFormatError: It is something else.
        """
        value = self._first(keys, "a number from 0 to 1", int, float, str)
        try:
            number = 0 if value is None else float(value)
        except (ValueError, OverflowError):
            number = -1
        if not 0 <= number <= 1:
            raise self.fault("expected a number from 0 to 1", keys[0])
        return None if value is None else number

    def flag(self, key: str) -> bool:
        """Return a truth value; SQLite's 0 and 1 are some.

        Raises:
            FileFormatError: It is something else.
        """
        found = self._first((key,), "true or false", bool, int)
        if found not in (None, 0, 1):
            raise self.fault("expected true or false", key)
        return bool(found)

    def inner(self, *keys: str) -> Row:
        """Return an object as a row; an empty one if there is none.

        Raises:
            FileFormatError: It is something else.
        """
        return Row(".".join((self.where, *keys[:1])), self._first(keys, "an object", dict) or {})

    def items(self, *keys: str) -> Sequence[Any]:
        """Return a list; an empty one if there is none.

        Raises:
            FileFormatError: It is something else.
        """
        return self._first(keys, "a list", list, tuple) or ()

    def texts(self, *keys: str) -> tuple[str, ...]:
        """Return a list of texts, without blank ones.

        Raises:
            FileFormatError: It is something else.
        """
        found = self.items(*keys)
        if not all(isinstance(item, str) for item in found):
            raise self.fault("expected a list of texts", keys[0])
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


def _keys(keys: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(keys.split()) if isinstance(keys, str) else keys


@attrs.frozen(kw_only=True)
class Fields:
    """Keys under which a system keeps what factmem asks for, separated by spaces; the first one with a value counts.

    Attributes:
        value: The words.
        id: The id. It makes a changed row of a later import a revision of the record; see `SOURCE_ID`.
        said: Times when it was said, or was changed to what it is.
        recorded: Time when the system recorded it.
        valid_from: Time since which it is true.
        valid_to: Time until which it is true.
        expires_at: Time from which it is not recalled any more; a row that had expired is skipped.
        importance: A number from 0 to 1.
        categories: A list of texts.
        metadata: An object.
        source: Name of the source.
        owner: The only viewer who may see it.
        origin: Origin of all rows.
        overwritten: Name of what is lost of a row that was changed after it had been recorded.
    """

    value: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    id: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    said: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    recorded: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    valid_from: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    valid_to: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    expires_at: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    importance: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    categories: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    metadata: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    source: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    owner: tuple[str, ...] = attrs.field(default=(), converter=_keys)
    origin: Origin = Origin.UNKNOWN
    overwritten: str | None = None

    def found(
        self,
        row: Row,
        options: ImportOptions,
        *,
        concept: SingleConcept[Any] | MultipleConcept[Any] = STATEMENT,
        values: Sequence[Any] | None = None,
        about: Row | None = None,
        undated: dt.datetime | None = None,
        subject: MemorySubject | None = None,
        scope: MemoryScope | None = None,
        key: str | None = None,
        record: str | None = None,
        revises: bool = False,
        state: AssertionState = AssertionState.ACTIVE,
        **details: Any,
    ) -> Iterator[Found]:
        """Yield the fact of a row, or the reason to skip it, and what is lost of it.

        Args:
            row: The row.
            options: Choices of the person who imports.
            concept: The concept (default: the row's words are a statement).
            values: The values, if they are not the row's words.
            about: The row with the details, if it is another one.
            undated: Time of the file, for a row without a date of its own.
            subject: The subject, if the row names one.
            scope: The scope, if the row names one.
            key: The id, if it is made of several fields; a place in the source, such as a line, is none.
            record: Id of its record in the other system (default: its own).
            revises: Whether it revises an earlier entry of its record.
            state: Whether it counts there.
            details: Fields of `FactDetails` that are computed.

        Raises:
            InvalidDataError: A field is malformed or missing.
        """
        values = values if values is not None else [text for text in (row.text(*self.value),) if text is not None]
        if not values:
            yield Skipped(NO_TEXT)
            return
        about = about or row
        if (expires_at := about.time(*self.expires_at)) is not None and expires_at <= options.now:
            yield Skipped("they had expired there")
            return
        said, recorded = row.time(*self.said), row.time(*self.recorded)
        if said is None:
            if undated is None:
                raise row.fault(f"the row has no {' or '.join(self.said)}")
            if options.dated is None:
                yield Lost(UNDATED)
        known = {
            "importance": about.fraction(*self.importance),
            "categories": about.texts(*self.categories),
            "metadata": about.inner(*self.metadata).data,
            "source": about.text(*self.source),
            "owner": about.text(*self.owner),
            "origin": self.origin,
            "expires_at": expires_at,
        } | details
        id = key or row.text(*self.id)
        if id is not None:
            known["metadata"] = {**known["metadata"], SOURCE_ID: f"{options.source}/{record or id}"}
        times: dict[str, Any] = {
            "timestamp": said or options.dated or undated,
            "valid_from": row.time(*self.valid_from),
            "valid_to": row.time(*self.valid_to),
        }
        fact: Fact[Any] = (
            SingleFact(concept, values[0], **times)
            if isinstance(concept, SingleConcept)
            else MultipleFacts(concept, tuple(values), **times)
        )
        yield from options.entries(
            fact,
            where=row.where,
            key=id or row.where,
            details=FactDetails(**{name: value for name, value in known.items() if value is not None}),
            subject=subject,
            scope=scope,
            record=record,
            revises=revises,
            state=state,
            recorded_at=recorded,
        )
        if self.overwritten is not None and said is not None and recorded is not None and recorded < said:
            yield Lost(self.overwritten)


def parsed(text: str | bytes, where: str) -> Any:
    """Return the value of a text of JSON.

    Raises:
        FileFormatError: It is none.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise FileFormatError("the JSON is nested too deeply", path=where) from None
    except ValueError:
        raise FileFormatError("not JSON: correct it, or remove it", path=where) from None


def converted(
    rows: Iterable[Row | Problem | Skipped], convert: Callable[[Row], Iterable[T]]
) -> Iterator[T | Problem | Skipped]:
    """Yield what is found in rows; a row that cannot be converted is a `Problem`. Other findings stay."""
    for row in rows:
        if isinstance(row, Row):
            yield from guarded(row.where, convert, row)
        else:
            yield row


def guarded(where: str, find: Callable[P, Iterable[T]], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T | Problem]:
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
