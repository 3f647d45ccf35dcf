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
from attrs.validators import deep_mapping, in_, instance_of

from factmem.conversations import said_at
from factmem.details import FactDetails, Origin
from factmem.detection.redaction import redact
from factmem.errors import FileFormatError, InvalidDataError
from factmem.facts import STATEMENT, Fact, MultipleConcept, SingleConcept
from factmem.importers.contract import SOURCE_ID, Entry, Found, ImportOptions, Lost, Problem, Skipped
from factmem.json_stream import kind_of_json
from factmem.records import AssertionState, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.toml_tables import table

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
            FileFormatError: It is of another kind.
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
            FileFormatError: The text is missing.
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
        """Return an object as a row; without an object, an empty row.

        Raises:
            FileFormatError: It is something else.
        """
        return Row(".".join((self.where, *keys[:1])), self._first(keys, "an object", dict) or {})

    def items(self, *keys: str) -> Sequence[Any]:
        """Return a list; without a list, an empty one.

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


_DETAILS: Final[Mapping[str, Callable[..., Any]]] = {
    "importance": Row.fraction,
    "categories": Row.texts,
    "source": Row.text,
    "owner": Row.text,
    "expires_at": Row.time,
}
"""Readers of the details of a fact that stand in one field."""


_KEYS: Final = {
    *("value", "id", "said", "recorded", "valid_from", "valid_to", "expires_at"),
    *("importance", "categories", "metadata", "source", "owner"),
}


@attrs.frozen
class Fields:
    """Keys under which a system keeps what factmem asks for, separated by spaces; the first one with a value counts.

    Attributes:
        keys: The keys, by what they hold: ``value`` (the words), ``id`` (it makes a changed row of a later import a
            revision of the record; see `SOURCE_ID`), ``said`` (times when it was said, or was changed to what it
            is), ``recorded`` (time when the system recorded it), ``valid_from``, ``valid_to``, ``expires_at`` (a row
            that had expired is skipped), ``importance`` (from 0 to 1), ``categories`` (a list of texts), ``metadata``
            (an object), ``source``, and ``owner`` (the only viewer who may see it).
        origin: Origin of all rows.
        overwritten: Name of what is lost of a row that was changed after it had been recorded; empty for nothing.
    """

    keys: Mapping[str, str] = attrs.field(validator=deep_mapping(in_(_KEYS), instance_of(str)))
    origin: Origin = Origin.UNKNOWN
    overwritten: str = ""

    @classmethod
    def of(cls, system: str, **others: str) -> Fields:
        """Return the fields of a system as the table has them, or with others in place of some."""
        keys = {**table("importers/systems")[system]["fields"], **others}
        return cls(keys, Origin(keys.pop("origin", "unknown")), keys.pop("overwritten", ""))

    def _at(self, name: str) -> list[str]:
        return self.keys.get(name, "").split()

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
        """Yield the fact of a row, an entry for each value, or the reason to skip it; and what is lost of it.

        Secrets in statements are redacted.

        Args:
            row: The row.
            options: Choices of the person who imports.
            concept: The concept (default: the row's words are a statement).
            values: The values, if they are not the row's words.
            about: The row with the details, if it is another one.
            undated: Time of the file, for a row without a date of its own.
            subject: The subject, if the row names one.
            scope: The scope, if the row names one.
            key: The id, if it is made of several fields. A place in the source, such as a line, is not an id.
            record: Id of its record in the other system (default: its own).
            revises: Whether it revises an earlier entry of its record.
            state: Whether it counts there.
            details: Fields of `FactDetails` that are computed.

        Raises:
            InvalidDataError: A field is malformed or missing, or the fact lies in the future or has no owner.
        """
        if values is None:
            words = row.text(*self._at("value"))
            values = () if words is None else (words,)
        if not values:
            yield Skipped(NO_TEXT)
            return
        known = {**self._details(about or row), **details}
        if known["expires_at"] is not None and known["expires_at"] <= options.now:
            yield Skipped("they had expired there")
            return
        said, recorded = row.time(*self._at("said")), row.time(*self._at("recorded"))
        timestamp = said or options.dated or undated
        if timestamp is None or (said is None and undated is None):
            raise row.fault(f"the row has no {' or '.join(self._at('said'))}")
        if said is None and options.dated is None:
            yield Lost(UNDATED)
        options.check_time(timestamp, row.where)
        place = Place(subject or options.subject, scope or options.scope)
        known["owner"] = known["owner"] or options.owner_of(place.subject)
        known["source"] = known["source"] or options.source
        known["evidence"] = [attrs.evolve(item, quote=redact(item.quote).text) for item in known.get("evidence", ())]
        id = key or row.text(*self._at("id"))
        if id is not None:
            known["metadata"] = {**known["metadata"], SOURCE_ID: f"{options.source}/{record or id}"}
        if concept.is_statement:
            values = [redact(text).text for text in values]
        valid = {name: row.time(*self._at(name)) for name in ("valid_from", "valid_to")}
        fact: Fact[Any] = concept.fact(values, timestamp=timestamp, **valid)
        stated = assertions_of(fact, place, FactDetails(**{name: it for name, it in known.items() if it is not None}))
        id = id or row.where
        record = record or id
        for index, one in enumerate(stated, 1):
            number = f"#{index}" if len(stated) > 1 else ""
            yield Entry(
                where=row.where,
                recorded=Recorded(
                    assertion=attrs.evolve(one, state=state, revises=record if revises else None),
                    id=f"{id}{number}",
                    record_id=f"{record}{number}",
                    seq=index,
                    recorded_at=recorded or timestamp,
                ),
            )
        if self.overwritten and said is not None and recorded is not None and recorded < said:
            yield Lost(self.overwritten)

    def _details(self, row: Row) -> dict[str, Any]:
        """Return the details of a fact that stand in a row."""
        found: dict[str, Any] = {name: read(row, *self._at(name)) for name, read in _DETAILS.items()}
        return {**found, "origin": self.origin, "metadata": row.inner(*self._at("metadata")).data}


def parsed(text: str | bytes, where: str) -> Any:
    """Return the value of a text of JSON.

    Raises:
        FileFormatError: The text is not JSON.
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
