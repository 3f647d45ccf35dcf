"""The MCP reference server "memory": its ``memory.jsonl``, a graph of entities with observations and relations."""

from __future__ import annotations

from collections.abc import Iterator

from factmem.facts import Concept, MultipleFacts
from factmem.importers.contract import Found, ImportOptions, Lost, Row, Skipped, converted, individual
from factmem.importers.sources import Source
from factmem.records import FactDetails, Origin
from factmem.subjects import MemorySubject

__all__ = ["read"]


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the observations about entities, and their relations, as the assistant's: it wrote the file.

    Raises:
        FileFormatError: The file cannot be read.
    """
    path = source.needed("memory.jsonl", "memory.json")
    said = options.dated or source.changed_at(path)
    subjects: dict[str, MemorySubject] = {}

    def facts(row: Row) -> Iterator[Found]:
        match row.text("type"):
            case "entity":
                yield from observations(row)
            case "relation":
                yield from relation(row)
            case _:
                raise row.fault("neither an entity nor a relation", "type")

    def observations(row: Row) -> Iterator[Found]:
        name = row.required("name")
        subjects[name] = individual(name, of=row.text("entityType") or "entity")
        if not (texts := row.texts("observations")):
            yield Skipped("they are entities without observations")
        for number, text in enumerate(texts, 1):
            yield options.statement(
                text,
                timestamp=said,
                where=row.where,
                key=f"{name}/{number}",
                subject=subjects[name],
                details=FactDetails(origin=Origin.ASSISTANT),
            )
        if texts and options.dated is None:
            yield Lost("dates (they are dated by the file; --date sets another date)")

    def relation(row: Row) -> Iterator[Found]:
        start, end, kind = row.required("from"), row.required("to"), row.required("relationType")
        yield from options.entries(
            MultipleFacts(Concept.multiple(kind, "A relation between entities"), (end,), timestamp=said),
            where=row.where,
            key=f"{start}/{kind}/{end}",
            subject=subjects.get(start) or individual(start, of="entity"),
            details=FactDetails(origin=Origin.ASSISTANT),
        )

    with source.text(path) as text:
        yield from converted(source.json_lines(text), facts)
