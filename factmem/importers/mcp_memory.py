"""The MCP reference server "memory": its ``memory.jsonl``, a graph of entities with observations and relations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from factmem.facts import Concept
from factmem.importers.contract import Found, ImportOptions, Skipped, individual
from factmem.importers.rows import Fields, Row, converted
from factmem.importers.sources import Source
from factmem.records import Origin
from factmem.subjects import MemorySubject

__all__ = ["read"]

_WRITTEN: Final = Fields(origin=Origin.ASSISTANT)


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the observations about entities, and their relations, as the assistant's: it wrote the file.

    Raises:
        FileFormatError: The file cannot be read.
    """
    path = source.needed("memory.jsonl", "memory.json")
    changed_at = source.changed_at(path)
    subjects: dict[str, MemorySubject] = {}

    def facts(row: Row) -> Iterator[Found]:
        match row.text("type"):
            case "entity":
                name = row.required("name")
                subjects[name] = individual(name, of=row.text("entityType") or "entity")
                if not (texts := row.texts("observations")):
                    yield Skipped("they are entities without observations")
                for number, text in enumerate(texts, 1):
                    yield from _WRITTEN.found(
                        row,
                        options,
                        values=(text,),
                        key=f"{name}/{number}",
                        subject=subjects[name],
                        undated=changed_at,
                    )
            case "relation":
                start, end, kind = row.required("from"), row.required("to"), row.required("relationType")
                yield from _WRITTEN.found(
                    row,
                    options,
                    concept=Concept.multiple(kind, "A relation between entities"),
                    values=(end,),
                    key=f"{start}/{kind}/{end}",
                    subject=subjects.get(start) or individual(start, of="entity"),
                    undated=changed_at,
                )
            case _:
                raise row.fault("neither an entity nor a relation", "type")

    with source.text(path) as text:
        yield from converted(source.json_lines(text), facts)
