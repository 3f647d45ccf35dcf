"""Tables of any system: CSV with a header, and JSON Lines or JSON, with a mapping of columns to fields."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from factmem.errors import FileFormatError, InvalidDataError
from factmem.facts import STATEMENT, Concept, MultipleConcept, SingleConcept
from factmem.importers.contract import Found, ImportOptions, Problem
from factmem.importers.rows import Fields, Row, converted, parsed
from factmem.importers.sources import Source
from factmem.records import Origin
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

_ROW: Final = Fields(
    value="value",
    id="id",
    said="timestamp",
    valid_from="valid_from",
    valid_to="valid_to",
    expires_at="expires_at",
    importance="importance",
    source="source",
    owner="owner",
)
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
    subject, scope, labels = cells.text("subject"), cells.text("scope"), cells.text("category") or ""
    concept, values = _typed(cells)
    yield from _ROW.found(
        cells,
        options,
        concept=concept,
        values=values,
        undated=source.changed_at(),
        subject=MemorySubject.parse(subject) if subject else None,
        scope=MemoryScope.parse(scope) if scope else None,
        categories=[label.strip() for label in labels.split(";") if label.strip()],
        metadata={name: item for name, item in row.data.items() if name not in mapped},
        origin=_origin(cells),
    )


def _origin(cells: Row) -> Origin:
    name = (cells.text("origin") or "unknown").lower()
    try:
        return Origin(name)
    except ValueError:
        raise cells.fault(f"no origin: write one of {', '.join(item.value for item in Origin)}", "origin") from None


def _typed(cells: Row) -> tuple[SingleConcept[Any] | MultipleConcept[Any], Sequence[Any] | None]:
    """Return the concept and the values of a row; None for the words of a statement."""
    keyword, written = cells.text("keyword"), cells.data.get("value")
    if keyword is None or written is None or (isinstance(written, str) and not written.strip()):
        return STATEMENT, None
    scalar = scalar_named(cells.text("type") or "str")
    try:
        # A cell of CSV is a text; a value of JSON may have its type already.
        if isinstance(written, str) and scalar.parse is not None:
            value = scalar.parse(written)
        else:
            value = scalar.read(parsed(written, cells.where) if isinstance(written, str) else written)
    except (ValueError, OverflowError, FileFormatError):
        raise cells.fault(f"not a valid {scalar.shape}", "value") from None
    about = (keyword, cells.text("description") or "", scalar.type)
    return (Concept.multiple(*about) if _true(cells, "multiple") else Concept.single(*about)), (value,)


def _true(cells: Row, key: str) -> bool:
    value = str(cells.data.get(key, "")).strip().lower()
    if value not in (*_TRUE, *_FALSE):
        raise cells.fault("expected true or false", key)
    return value in _TRUE
