"""Tables of any system: CSV with a header, and JSON Lines or JSON, with a mapping of columns to fields."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from factmem.errors import FileFormatError, InvalidDataError
from factmem.facts import STATEMENT, Concept, Fact, MultipleFacts, SingleFact
from factmem.importers.contract import NO_TEXT, Found, ImportOptions, Lost, Problem, Row, Skipped, converted
from factmem.importers.sources import Source
from factmem.records import FactDetails, Origin
from factmem.scalars import scalar_named
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["FIELDS", "read"]

FIELDS: Final[Mapping[str, str]] = {
    "value": "the statement, or the value of a concept",
    "id": "id of the row",
    "keyword": "keyword of the concept; without one, the value is a statement",
    "description": "description of the concept",
    "type": "type of the value, such as int or date (default: str)",
    "multiple": "true if the concept has several values",
    "subject": "subject, such as user:alice",
    "scope": "path of the scope",
    "timestamp": "time when it was said",
    "valid_from": "time since which it is true",
    "valid_to": "time until which it is true",
    "expires_at": "time from which it is not recalled any more",
    "origin": "user, assistant, tool, document or unknown (the default)",
    "importance": "number from 0 to 1",
    "category": "categories, separated by semicolons",
    "source": "name of the source",
    "owner": "the only viewer who may see it",
}
"""Fields of a row and their meanings. A column of the same name is taken without a mapping; others are metadata."""

_TRUE: Final = ("true", "yes", "1")
_FALSE: Final = ("false", "no", "0", "")


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the rows of a table.

    Raises:
        FileFormatError: The file cannot be read, or has no column for the value.
        InvalidDataError: A column is mapped to a field that does not exist.
    """
    if unknown := [field for field in options.columns if field not in FIELDS]:
        raise InvalidDataError(f"{unknown[0]} is not a field of a row: name one of {', '.join(FIELDS)}")
    columns = {field: field for field in FIELDS} | dict(options.columns)
    if source.path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
        rows: Iterator[Row | Problem] = _csv_rows(source, columns)
    else:
        rows = source.rows(source.path, "rows")
    yield from converted(rows, lambda row: _fact(row, columns, source, options))


def _csv_rows(source: Source, columns: Mapping[str, str]) -> Iterator[Row | Problem]:
    delimiter = "\t" if ".tsv" in source.path.name.lower() else ","
    with source.text() as text:
        lines = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            header = next(lines, [])
        except csv.Error:
            header = []
        if columns["value"] not in header:
            raise FileFormatError(f"{source.path} has no column {columns['value']}: map one with --column value=NAME")
        if len(set(header)) < len(header):
            raise FileFormatError(f"{source.path} has two columns of one name")
        while True:
            try:
                cells = next(lines)
            except StopIteration:
                return
            except csv.Error:
                where = f"line {lines.line_num}"
                yield Problem(
                    where, FileFormatError("no row of CSV: its quotes are wrong, or it is too long", path=where)
                )
                continue
            where = f"line {lines.line_num}"
            if not cells:
                continue
            if len(cells) != len(header):
                fault = FileFormatError(f"the row has {len(cells)} cells, and the header {len(header)}", path=where)
                yield Problem(where, fault)
                continue
            yield Row(where, {name: cell for name, cell in zip(header, cells, strict=True) if cell.strip()})


def _fact(row: Row, columns: Mapping[str, str], source: Source, options: ImportOptions) -> Iterator[Found]:
    mapped = set(columns.values())
    cells = Row(row.where, {field: row.data[column] for field, column in columns.items() if column in row.data})
    value = cells.data.get("value")
    if value is None or (isinstance(value, str) and not value.strip()):
        yield Skipped(NO_TEXT)
        return
    said = cells.time("timestamp")
    if said is None and options.dated is None:
        yield Lost("dates (undated rows are dated by the file; --date sets another date)")
    times: dict[str, Any] = {
        "timestamp": said or options.dated or source.changed_at(),
        "valid_from": cells.time("valid_from"),
        "valid_to": cells.time("valid_to"),
    }
    subject, scope, importance = cells.text("subject"), cells.text("scope"), cells.fraction("importance")
    details = FactDetails(
        categories=tuple(label.strip() for label in (cells.text("category") or "").split(";") if label.strip()),
        metadata={name: item for name, item in row.data.items() if name not in mapped},
        source=cells.text("source"),
        owner=cells.text("owner"),
        origin=_origin(cells),
        expires_at=cells.time("expires_at"),
    )
    yield from options.entries(
        _typed(cells, times),
        where=row.where,
        key=cells.text("id") or row.where,
        subject=_subject(subject) if subject else None,
        scope=MemoryScope.parse(scope) if scope else None,
        details=details if importance is None else attrs.evolve(details, importance=importance),
    )


def _subject(text: str) -> MemorySubject:
    name, colon, individual = text.partition(":")
    return MemorySubject(name).individual(individual) if colon else MemorySubject(name)


def _origin(cells: Row) -> Origin:
    name = (cells.text("origin") or "unknown").lower()
    try:
        return Origin(name)
    except ValueError:
        raise cells.fault(f"no origin: write one of {', '.join(item.value for item in Origin)}", "origin") from None


def _typed(cells: Row, times: Mapping[str, Any]) -> Fact[Any]:
    """Return the fact of a row."""
    keyword = cells.text("keyword")
    if keyword is None:
        return MultipleFacts(STATEMENT, (cells.required("value"),), **times)
    scalar, written = scalar_named(cells.text("type") or "str"), cells.data["value"]
    try:
        # A cell of CSV is a text; a value of JSON may have its type already.
        if isinstance(written, str) and scalar.parse is not None:
            value = scalar.parse(written)
        else:
            value = scalar.read(json.loads(written) if isinstance(written, str) else written)
    except (ValueError, OverflowError, RecursionError):
        raise cells.fault(f"not a valid {scalar.shape}", "value") from None
    description = cells.text("description") or ""
    if _true(cells, "multiple"):
        return MultipleFacts(Concept.multiple(keyword, description, scalar.type), (value,), **times)
    return SingleFact(Concept.single(keyword, description, scalar.type), value, **times)


def _true(cells: Row, key: str) -> bool:
    value = str(cells.data.get(key, "")).strip().lower()
    if value not in (*_TRUE, *_FALSE):
        raise cells.fault("expected true or false", key)
    return value in _TRUE
