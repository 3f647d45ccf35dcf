r"""CrewAI: the LanceDB table that its memory keeps, or the same records as JSON Lines.

To write JSON Lines where CrewAI is installed::

    rows = LanceDBStorage(path="memory").list_records(limit=1_000_000)
    Path("memories.jsonl").write_text("".join(row.model_dump_json() + "\n" for row in rows), "utf-8")
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from factmem.errors import FileFormatError, MissingPackageError
from factmem.importers.contract import NO_TEXT, Found, ImportOptions, Lost, Row, Skipped, converted
from factmem.importers.sources import Source
from factmem.records import FactDetails, Origin
from factmem.scopes import MemoryScope

__all__ = ["read"]

_TABLE: Final = "memories"
_COLUMNS: Final = (
    "id",
    "content",
    "scope",
    "categories_str",
    "metadata_str",
    "importance",
    "created_at",
    "last_accessed",
    "source",
    "private",
)
_ROWS_AT_ONCE: Final = 500


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the records.

    Raises:
        FileFormatError: It is neither such a table nor a file of records.
        MissingPackageError: A table is to be read, and lancedb is not installed.
    """
    rows = _table_rows(source) if source.is_folder else source.rows(source.path, "records", _TABLE)
    yield from converted(rows, lambda row: _record(row, options))


def _table_rows(source: Source) -> Iterator[Row]:
    try:
        import lancedb
    except ModuleNotFoundError:
        raise MissingPackageError("lancedb", extra="import-crewai") from None
    folder, name = _table(source.path)
    try:
        table = lancedb.connect(str(folder)).open_table(name)
        columns = [column for column in _COLUMNS if column in table.schema.names]
        batches = table.search().select(columns).to_batches(_ROWS_AT_ONCE)
        number = 0
        for batch in batches:
            for row in batch.to_pylist():
                number += 1
                yield Row(f"row {number} of {name}", row)
    except (OSError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{source.path} cannot be read as a LanceDB table: {type(error).__name__}") from None


def _table(folder: Path) -> tuple[Path, str]:
    if folder.suffix == ".lance":
        return folder.parent, folder.stem
    if not (folder / f"{_TABLE}.lance").is_dir():
        raise FileFormatError(f"{folder} holds no {_TABLE}.lance: name the folder of CrewAI's memory storage")
    return folder, _TABLE


def _record(row: Row, options: ImportOptions) -> Iterator[Found]:
    if (text := row.text("content")) is None:
        yield Skipped(NO_TEXT)
        return
    said, source, path = row.time("created_at"), row.text("source"), row.text("scope")
    if said is None:
        raise row.fault("the record has no created_at")
    private = row.flag("private")
    owner = source or options.owner
    if private and owner is None:
        raise row.fault("the record is private and has no source: name its owner with --viewer", "private")
    importance = row.fraction("importance")
    details = FactDetails(
        categories=_json(row, "categories", list, ()),
        metadata=_json(row, "metadata", dict, {}),
        source=source,
        owner=owner if private else None,
        origin=Origin.UNKNOWN,
    )
    yield options.statement(
        text,
        timestamp=said,
        where=row.where,
        key=row.required("id"),
        scope=MemoryScope.parse(path) if path and path.strip("/") else None,
        details=details if importance is None else attrs.evolve(details, importance=importance),
    )
    if "categories_str" in row.data:  # a row of the table
        yield Lost("vectors, which are computed anew")
    if row.data.get("last_accessed") not in (None, row.data.get("created_at")):
        yield Lost("times of the last access")


def _json(row: Row, key: str, kind: type[Any], empty: Sequence[Any] | Mapping[str, Any]) -> Any:
    """Return a field of a record, or the JSON that the table has for it."""
    value = row.data.get(key)
    if value is None and (text := row.text(f"{key}_str")) is not None:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise row.fault("not JSON", f"{key}_str") from None
    if value is None:
        return empty
    if not isinstance(value, kind):
        raise row.fault(f"expected a {kind.__name__}", key)
    return value
