"""Google's Memory Bank: the answers of the REST API to ``memories.list`` and ``memories.revisions.list``, as JSON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.importers.contract import Found, ImportOptions, Lost, Problem, Skipped, individual, scope_at
from factmem.importers.rows import Fields, Row, converted
from factmem.importers.sources import Source
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["read"]

_LISTS: Final = ("memories", "memoryRevisions", "revisions")
_REVISION: Final = "/revisions/"
_USERS: Final = ("user_id", "user", "userId")
_AGENTS: Final = ("agent_id", "agent", "agentId", "agent_name", "app_name", "appName")

_MEMORY: Final = Fields(value="fact", said="updateTime createTime", recorded="createTime", expires_at="expireTime")


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the memories, each after its earlier revisions if they stand in the same file.

    Raises:
        FileFormatError: The file cannot be read.
    """
    path = source.needed("memories.json", "memories.jsonl")
    revisions: dict[str, list[Row]] = {}
    for row in source.rows(path, *_LISTS):
        if isinstance(row, Row) and _REVISION in (name := str(row.data.get("name"))):
            revisions.setdefault(name.partition(_REVISION)[0], []).append(row)
    # A revision is yielded with its memory; the malformed rows of this pass alone are reported.
    rows = (
        row
        for row in source.rows(path, *_LISTS)
        if isinstance(row, Problem) or _REVISION not in str(row.data.get("name"))
    )
    yield from converted(rows, lambda row: _memory(row, revisions, options))
    if left := sum(map(len, revisions.values())):
        yield Skipped("they are revisions of memories that the file does not hold", left)


def _memory(row: Row, revisions: dict[str, list[Row]], options: ImportOptions) -> Iterator[Found]:
    name = row.required("name")
    own = revisions.pop(name, [])
    subject, scope = _place(row, options)
    shared: dict[str, Any] = {"subject": subject, "scope": scope, "topics": _topics(row), "metadata": _metadata(row)}
    if row.text("memoryType") == "STRUCTURED_PROFILE":
        for keyword, value in row.inner("structuredContent").inner("data").data.items():
            concept = Concept.single(keyword, "", str if isinstance(value, str) else object)
            yield from _MEMORY.found(row, options, concept=concept, values=(value,), key=f"{name}/{keyword}", **shared)
        return
    earlier, faults = _earlier(own, row.text("fact"))
    yield from faults
    # The newest revision holds the memory as it is now, and says since when.
    for number, one in enumerate([*earlier, row]):
        about = row if one is row else Row(row.where, {**row.data, "expireTime": None})
        yield from _MEMORY.found(
            one, options, about=about, key=f"{name}@{number}", record=name, revises=number > 0, **shared
        )
    if not own and (created := row.time("createTime")) is not None and created < (row.time("updateTime") or created):
        yield Lost("earlier revisions (add the answer of revisions.list as memoryRevisions)")


def _earlier(revisions: Sequence[Row], text: str | None) -> tuple[list[Row], list[Problem]]:
    """Return the earlier revisions of a memory, oldest first, without the present one, and what cannot be read."""
    found, faults = list[tuple[dt.datetime, str, Row]](), list[Problem]()
    for row in revisions:
        try:
            then, when = row.text("fact"), row.time("createTime")
        except InvalidDataError as error:
            faults.append(Problem(row.where, error))
        else:
            found += [] if then is None or when is None else [(when, then, row)]
    found.sort(key=lambda revision: revision[0])
    if found and found[-1][1] == text:
        found.pop()
    return [row for _, _, row in found], faults


def _place(row: Row, options: ImportOptions) -> tuple[MemorySubject | None, MemoryScope]:
    """Return the subject and the scope that the keys of a memory's scope name."""
    subject, path = None, list[str]()
    given = row.inner("scope")
    for key in sorted(given.data):
        name = given.required(key)
        if key in _USERS:
            subject = individual(name)
        elif key in _AGENTS:
            path[:0] = ["agent", name]
        else:
            path += [key, name]
    return subject, scope_at(path, options.scope)


def _topics(row: Row) -> tuple[str, ...]:
    labels = list[str]()
    for topic in row.items("topics"):
        match topic:
            case str():
                labels.append(topic)
            case {"customMemoryTopicLabel": str() as label} | {"managedMemoryTopic": str() as label}:
                labels.append(label.lower().replace("_", " ") if label.isupper() else label)
            case _:
                raise row.fault("a topic has no label", "topics")
    return tuple(labels)


def _metadata(row: Row) -> dict[str, Any]:
    """Return the metadata without the types that the API writes around the values."""
    return {
        key: next(iter(value.values()), None) if isinstance(value, Mapping) and len(value) == 1 else value
        for key, value in row.inner("metadata").data.items()
    }
