"""Moving in from another system: its files are read, and what they hold becomes facts with dates, owners and origins.

::

    report = await move_in(memory, read_system("mem0", "get_all.json"))
    print(report.imported, report.skipped, report.lost)

`SYSTEMS` lists the systems. Each has a reader, which is pure: `contract` says what it is given and finds, `rows` is
the engine that makes facts of rows by a table of their keys, `sources` opens files that may mean harm, and `moving`
writes to a memory through its public methods.
"""

from typing import TYPE_CHECKING

from factmem.importers.contract import (
    Dialogue,
    Entry,
    Found,
    ImportOptions,
    Lost,
    Problem,
    Skipped,
)
from factmem.importers.rows import Row
from factmem.importers.sources import Limits, Source
from factmem.importers.systems import SYSTEMS, Reading, System, read_system, system_named
from factmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from factmem.importers.documents import DocumentPassage, DocumentReport, ingest_document, passages_in
    from factmem.importers.moving import ImportReport, move_in, preview

__all__ = [
    "SYSTEMS",
    "Dialogue",
    "DocumentPassage",
    "DocumentReport",
    "Entry",
    "Found",
    "ImportOptions",
    "ImportReport",
    "Limits",
    "Lost",
    "Problem",
    "Reading",
    "Row",
    "Skipped",
    "Source",
    "System",
    "ingest_document",
    "move_in",
    "passages_in",
    "preview",
    "read_system",
    "system_named",
]

_HOMES = {
    "documents": ("DocumentPassage", "DocumentReport", "ingest_document", "passages_in"),
    "moving": ("ImportReport", "move_in", "preview"),
}
if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of the package
    __getattr__ = lazy_names(__name__, _HOMES)
