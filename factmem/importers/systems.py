"""The systems that can be imported from, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from factmem.errors import FileFormatError, InvalidDataError
from factmem.importers.contract import Found, ImportOptions, Problem
from factmem.importers.sources import Limits, Source


@attrs.frozen
class System:
    """A system to import from.

    Attributes:
        name: Its name on the command line.
        reads: The files that are read, in a few words.
        module: The module below `factmem.importers` with its reader, which is imported when something is read.
        option: Field of `ImportOptions` that it reads beside subject, scope, source, private and dates.
        words: Whether it holds conversations, which are ingested, rather than facts.
    """

    name: str
    reads: str
    module: str = attrs.field(default="memories", kw_only=True)
    option: str | None = attrs.field(default=None, kw_only=True)
    words: bool = attrs.field(default=False, kw_only=True)


SYSTEMS: Final[Mapping[str, System]] = {
    system.name: system
    for system in (
        System("mem0", "get_all() as JSON, history.db, or both in a folder", option="with_deleted"),
        System("crewai", "the folder of its LanceDB table, or its records as JSON Lines"),
        System("graphiti", "edges as JSON Lines, with nodes and episodes beside them"),
        System("letta", "an agent file (.af)"),
        System("langgraph", "the store's SQLite file, a dump of PostgreSQL, or items as JSON", option="namespace"),
        System("koog", "the folder of its memory, plain or encrypted", module="koog", option="key"),
        System("memory-bank", "the answers of its REST API as JSON"),
        System("mcp-memory", "the memory.jsonl of the MCP reference server"),
        System("memory-folder", "a folder of notes, such as /memories"),
        System("chatgpt", "the data export", module="chats", words=True),
        System("claude", "the data export", module="chats", words=True),
        System("langchain", "histories of messages as JSON", module="chats", words=True),
        System("openai-agents", "the database of SQLiteSession", module="chats", words=True),
        System("pydantic-ai", "messages as JSON", module="chats", words=True),
        System("table", "csv, tsv, jsonl or json with columns", option="columns"),
    )
}
"""Every system by name, in the order of the help page."""


@attrs.frozen(kw_only=True, eq=False)
class Reading:
    """The findings of an importer in a source. Each iteration reads it anew, and blocks: use a worker thread.

    Attributes:
        system: The system.
        source: The file or folder.
        options: Choices of the person who imports.
    """

    system: System
    source: Source
    options: ImportOptions

    def __iter__(self) -> Iterator[Found]:
        """Yield what is found, in the order of the source; of a source without anything, a `Problem`.

        Raises:
            FileFormatError: The source is damaged, unsafe, or not of the system. What was yielded before stays valid.
        """
        module = importlib.import_module(f"factmem.importers.{self.system.module}")
        name = f"read_{self.system.name.replace('-', '_')}"
        read: Callable[[Source, ImportOptions], Iterator[Found]] = getattr(module, name)
        empty = True
        for found in read(self.source, self.options):
            yield found
            empty = False
        if empty:
            place = self.source.path.name
            yield Problem(place, FileFormatError(f"nothing of {self.system.name} is in it: is it the right file?"))

    @property
    def share(self) -> float:
        """The share that has been read, from 0 to 1; 0 as long as the size is unknown."""
        return min(self.source.bytes_read / self.source.size, 1.0) if self.source.size else 0.0


def system_named(name: str) -> System:
    """Return a system by its name.

    Raises:
        InvalidDataError: There is no such system.
    """
    if (found := SYSTEMS.get(name)) is None:
        known = "; ".join(f"{system.name} ({system.reads})" for system in SYSTEMS.values())
        raise InvalidDataError(f"unknown system {name!r}: name one of {known}")
    return found


def read_system(
    name: str, path: Path | str, options: ImportOptions | None = None, *, limits: Limits | None = None
) -> Reading:
    """Open a source of another system. It is read when the result is iterated.

    Args:
        name: Name of the system; see `SYSTEMS`.
        path: File or folder to read.
        options: Choices of the person who imports.
        limits: Sizes beyond which the source is refused.

    Raises:
        InvalidDataError: There is no such system, or an option is not one of its own.
        FileFormatError: There is no such file.

    Example:
        >>> for found in read_system("mem0", "memories.json"):
        ...     print(found)
    """
    system, options = system_named(name), options or ImportOptions()
    for field, option in _OPTIONS.items():
        if getattr(options, field) and field != system.option:
            readers = ", ".join(other.name for other in SYSTEMS.values() if field == other.option)
            raise InvalidDataError(f"{name} has no use for {option}, which is for {readers}")
    if options.source is None:
        options = attrs.evolve(options, source=name)
    return Reading(system=system, source=Source(Path(path), limits), options=options)


_OPTIONS: Final = {"columns": "--column", "namespace": "--namespace", "key": "a key", "with_deleted": "--with-deleted"}
"""Options that some systems read, and their names for people."""
