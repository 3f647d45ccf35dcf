"""The systems that can be imported from, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from factmem.errors import InvalidDataError
from factmem.importers.contract import Found, ImportOptions
from factmem.importers.sources import Limits, Source

__all__ = ["SYSTEMS", "Reading", "System", "read_system", "system_named"]


@attrs.frozen
class System:
    """A system to import from.

    Attributes:
        name: Its name on the command line.
        reads: The files that are read, in a few words.
        reader: Its function below `factmem.importers`; its module is imported when something is read.
        option: Field of `ImportOptions` that it reads beside subject, scope, source, private and dates.
        words: Whether it holds conversations, which are ingested, rather than facts.
    """

    name: str
    reads: str
    reader: str = attrs.field(kw_only=True)
    option: str | None = attrs.field(default=None, kw_only=True)
    words: bool = attrs.field(default=False, kw_only=True)


SYSTEMS: Final[Mapping[str, System]] = {
    system.name: system
    for system in (
        System("mem0", "get_all() as JSON, history.db, or both in a folder", reader="mem0.read", option="with_deleted"),
        System("crewai", "the folder of its LanceDB table, or its records as JSON Lines", reader="crewai.read"),
        System("graphiti", "edges as JSON Lines, with nodes and episodes beside them", reader="graphiti.read"),
        System("letta", "an agent file (.af)", reader="letta.read"),
        System(
            "langgraph",
            "the store's SQLite file, a dump of PostgreSQL, or items as JSON",
            reader="langgraph.read",
            option="namespace",
        ),
        System("koog", "the folder of its memory, plain or encrypted", reader="koog.read", option="key"),
        System("memory-bank", "the answers of its REST API as JSON", reader="memory_bank.read"),
        System("mcp-memory", "the memory.jsonl of the MCP reference server", reader="mcp_memory.read"),
        System("memory-folder", "a folder of notes, such as /memories", reader="notes.read"),
        System("chatgpt", "the data export", reader="chats.read_chatgpt", words=True),
        System("claude", "the data export", reader="chats.read_claude", words=True),
        System("langchain", "histories of messages as JSON", reader="chats.read_langchain", words=True),
        System("openai-agents", "the database of SQLiteSession", reader="chats.read_openai_agents", words=True),
        System("pydantic-ai", "messages as JSON", reader="chats.read_pydantic_ai", words=True),
        System("table", "csv, tsv, jsonl or json with columns", reader="tables.read", option="columns"),
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
        """Yield what is found, in the order of the source.

        Raises:
            FileFormatError: The source is damaged, unsafe, or not of the system. What was yielded before stays valid.
        """
        module, _, name = self.system.reader.partition(".")
        read: Callable[[Source, ImportOptions], Iterator[Found]] = getattr(
            importlib.import_module(f"factmem.importers.{module}"), name
        )
        return read(self.source, self.options)

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


_OPTIONS: Final = {
    "columns": "--column",
    "namespace": "--namespace",
    "key": "a key",
    "with_deleted": "--with-deleted",
}
"""Options that some systems read, and their names for people."""
