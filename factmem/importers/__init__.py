"""Moving in from another system: its files are read, and what they hold becomes facts with dates, owners and origins.

::

    report = await move_in(memory, read_system("mem0", "get_all.json"))
    print(report.imported, report.skipped, report.lost)

`SYSTEMS` lists the systems. Each has a reader, which is pure: `contract` says what it is given and finds, `rows` is
the engine that makes facts of rows by a table of their keys, `sources` opens files that may mean harm, and `moving`
writes to a memory through its public methods.
"""

from typing import TYPE_CHECKING

from factmem.importers.contract import ImportOptions
from factmem.importers.systems import read_system
from factmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from factmem.importers.documents import ingest_document
    from factmem.importers.moving import move_in

__all__ = ["ImportOptions", "ingest_document", "move_in", "read_system"]

_HOMES = {"documents": ("ingest_document",), "moving": ("move_in",)}
if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of the package
    __getattr__ = lazy_names(__name__, _HOMES)
