r"""CrewAI: the LanceDB table that its memory keeps, or the same records as JSON Lines.

To write JSON Lines where CrewAI is installed::

    rows = LanceDBStorage(path="memory").list_records(limit=1_000_000)
    Path("memories.jsonl").write_text("".join(row.model_dump_json() + "\n" for row in rows), "utf-8")
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from factmem.errors import FileFormatError, MissingPackageError
from factmem.importers.contract import Found, ImportOptions, Lost
from factmem.importers.rows import Fields, Row, converted, parsed
from factmem.importers.sources import Source
from factmem.scopes import MemoryScope

__all__ = ["read"]

_TABLE: Final = "memories"
_ROWS_AT_ONCE: Final = 500

_RECORD: Final = Fields(
    value="content",
    id="id",
    said="created_at",
    importance="importance",
    categories="categories",
    metadata="metadata",
    source="source",
)


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
        columns = [column for column in table.schema.names if column != "vector"]
        number = 0
        for batch in table.search().select(columns).to_batches(_ROWS_AT_ONCE):
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
    data: dict[str, Any] = {}
    for name, value in row.data.items():  # the table keeps lists and objects as texts of JSON
        written = name.endswith("_str") and isinstance(value, str)
        data[name.removesuffix("_str")] = parsed(value, f"{row.where}.{name}") if written else value
    record = Row(row.where, data)
    private, path = record.flag("private"), record.text("scope")
    owner = record.text("source") or options.owner
    if private and owner is None:
        raise record.fault("the record is private and has no source: name its owner with --viewer", "private")
    yield from _RECORD.found(
        record,
        options,
        scope=MemoryScope.parse(path) if path and path.strip("/") else None,
        owner=owner if private else None,
    )
    if data.keys() != row.data.keys():  # a row of the table
        yield Lost("vectors, which are computed anew")
    if data.get("last_accessed") not in (None, data.get("created_at")):
        yield Lost("times of the last access")
