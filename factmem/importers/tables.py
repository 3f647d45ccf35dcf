"""Tables of any system, as CSV or JSON, whose columns are mapped to the fields of a fact."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from factmem.details import Origin
from factmem.errors import FileFormatError, InvalidDataError
from factmem.facts import STATEMENT, Concept, MultipleConcept, SingleConcept
from factmem.importers.contract import Found, ImportOptions, Problem, Skipped
from factmem.importers.rows import Fields, Row, converted, parsed
from factmem.importers.sources import Source
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.toml_tables import table
from factmem.value_types import Scalar, scalar_named

_LONGEST_NAME: Final = 40
"""Maximum length of a column's name in an error, in characters."""

FIELDS: Final[Mapping[str, str]] = table("importers/table")
"""Fields of a row and their meanings. A column of the same name is taken without a mapping; others are metadata."""

_ROW: Final = Fields.of("table")


def read_table(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the rows of a table.

    It is CSV with a header, JSON Lines or JSON; columns are mapped to `FIELDS`.

    Raises:
        FileFormatError: The file cannot be read, or has no column for the value, or lacks one that is mapped.
        InvalidDataError: A column is mapped to a field that does not exist.
    """
    if unknown := [field for field in options.columns if field not in FIELDS]:
        raise InvalidDataError(f"{unknown[0]} is not a field of a row: name one of {', '.join(FIELDS)}")
    columns = {field: field for field in FIELDS} | dict(options.columns)
    if source.path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
        rows: Iterator[Row | Problem | Skipped] = _csv_rows(source, options)
    else:
        rows = _json_rows(source, options)
    yield from converted(rows, lambda row: _fact(row, columns, source, options))


def _check_columns(columns: Collection[str], source: Source, options: ImportOptions, beside: str = "") -> None:
    """Check that a table has the column of the value, and all that are mapped.

    Raises:
        FileFormatError: It lacks one. The error names only columns that cannot be words of a row.
    """
    for field, column in ({"value": "value"} | dict(options.columns)).items():
        if column not in columns:
            names = ", ".join(name for name in columns if name.isidentifier() and len(name) <= _LONGEST_NAME)
            raise FileFormatError(
                f"{source.path} has no column {column} among its {len(columns)}{beside}{names and f': {names}'}; "
                f"map one with --column {field}=NAME"
            )


def _json_rows(source: Source, options: ImportOptions) -> Iterator[Row | Problem | Skipped]:
    rows = (row for row in source.rows(source.path, "rows") if isinstance(row, Row))
    columns = dict.fromkeys(column for row in rows for column in row.data)
    if columns:  # before a row is yielded: one without its owner would be public
        _check_columns(columns, source, options)
    yield from source.rows(source.path, "rows")


def _csv_rows(source: Source, options: ImportOptions) -> Iterator[Row | Problem]:
    with source.text() as text:
        first = text.readline(source.limits.row_chars)
        delimiter = "\t" if ".tsv" in source.path.name.lower() else max(",;\t", key=first.count)
        lines = csv.reader(chain([first], text), delimiter=delimiter, strict=True)
        try:
            header = next(lines, [])
        except csv.Error:
            header = []
        _check_columns(header, source, options, f", separated by {delimiter!r}")
        if len(set(header)) < len(header):
            raise FileFormatError(f"{source.path} has two columns of one name")
        while True:
            cells, fault = list[str](), None
            try:
                cells = next(lines)
                if cells and len(cells) != len(header):
                    fault = f"the row has {len(cells)} cells, and the header {len(header)}"
            except StopIteration:
                return
            except csv.Error:
                fault = "not a row of CSV: its quotes are wrong, or it is too long"
            where = f"line {lines.line_num}"
            if fault is not None:
                yield Problem(where, FileFormatError(fault, path=where))
            elif cells:
                yield Row(where, {name: cell for name, cell in zip(header, cells, strict=True) if cell.strip()})


def _fact(row: Row, columns: Mapping[str, str], source: Source, options: ImportOptions) -> Iterator[Found]:
    mapped = set(columns.values())
    cells = Row(row.where, {field: row.data[column] for field, column in columns.items() if column in row.data})
    subject, scope, labels = cells.text("subject"), cells.text("scope"), cells.text("category") or ""
    id = cells.text("id")
    concept, values = _typed(cells)
    yield from _ROW.found(
        cells,
        options,
        concept=concept,
        values=values,
        key=None if id is None else f"{source.path.name}/{id}",  # ids are those of one table
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
        raise cells.fault(f"not an origin: write one of {', '.join(item.value for item in Origin)}", "origin") from None


def _typed(cells: Row) -> tuple[SingleConcept[Any] | MultipleConcept[Any], Sequence[Any] | None]:
    """Return the concept and the values of a row; None for the words of a statement."""
    keyword, written = cells.text("keyword"), cells.data.get("value")
    if keyword is None or written is None or (isinstance(written, str) and not written.strip()):
        return STATEMENT, None
    scalar = scalar_named(cells.text("type") or "str")
    value = _value_in(cells, "value", written, scalar)
    about = (keyword, cells.text("description") or "", scalar.type)
    several = _value_in(cells, "multiple", str(cells.data.get("multiple") or "false"), scalar_named("bool"))
    return (Concept.multiple(*about) if several else Concept.single(*about)), (value,)


def _value_in(cells: Row, field: str, written: Any, scalar: Scalar) -> Any:
    """Return the value of a field. A cell of CSV is a text; a value of JSON may have its type already."""
    try:
        if isinstance(written, str) and scalar.parse is not None:
            return scalar.parse(written)
        return scalar.read(parsed(written, cells.where) if isinstance(written, str) else written)
    except (ValueError, OverflowError, FileFormatError):
        raise cells.fault(f"not a valid {scalar.shape}", field) from None
