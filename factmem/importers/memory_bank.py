"""Google's Memory Bank: the answers of the REST API to ``memories.list`` and ``memories.revisions.list``, as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.errors import InvalidDataError
from factmem.facts import Concept, SingleFact
from factmem.importers.contract import (
    NO_TEXT,
    Found,
    ImportOptions,
    Lost,
    Problem,
    Row,
    Skipped,
    converted,
    individual,
    scope_at,
)
from factmem.importers.sources import Source
from factmem.records import FactDetails, Origin
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json

__all__ = ["read"]

_MEMORIES: Final = ("memories", "memoryRevisions", "revisions")
_REVISION: Final = "/revisions/"
_USERS: Final = ("user_id", "user", "userId")
_AGENTS: Final = ("agent_id", "agent", "agentId", "agent_name", "app_name", "appName")
_STRUCTURED: Final = "STRUCTURED_PROFILE"


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the memories, each after its earlier revisions if they stand in the same file.

    Raises:
        FileFormatError: The file cannot be read.
    """
    path = source.needed("memories.json", "memories.jsonl")
    revisions: dict[str, list[Row]] = {}
    for row in source.rows(path, *_MEMORIES):
        if isinstance(row, Row) and _REVISION in (name := str(row.data.get("name"))):
            revisions.setdefault(name.partition(_REVISION)[0], []).append(row)
    # A revision is yielded with its memory; the malformed rows of this pass alone are reported.
    rows = (
        row
        for row in source.rows(path, *_MEMORIES)
        if isinstance(row, Problem) or _REVISION not in str(row.data.get("name"))
    )
    yield from converted(rows, lambda row: _memory(row, revisions, options))
    if left := sum(map(len, revisions.values())):
        yield Skipped("they are revisions of memories that the file does not hold", left)


def _memory(row: Row, revisions: dict[str, list[Row]], options: ImportOptions) -> Iterator[Found]:
    name = row.required("name")
    own = revisions.pop(name, [])
    subject, scope = _place(row, options)
    details = FactDetails(
        topics=tuple(_topics(row)), metadata=_metadata(row), expires_at=row.time("expireTime"), origin=Origin.UNKNOWN
    )
    if details.expires_at is not None and details.expires_at <= options.now:
        yield Skipped("they had expired there")
        return
    said = row.time("updateTime", "createTime")
    if said is None:
        raise row.fault("the memory has no updateTime")
    if row.text("memoryType") == _STRUCTURED:
        for keyword, value in Row(row.where, row.mapping("structuredContent")).mapping("data").items():
            yield from options.entries(
                SingleFact(
                    Concept.single(keyword, "", str if isinstance(value, str) else object), value, timestamp=said
                ),
                where=row.where,
                key=f"{name}/{keyword}",
                subject=subject,
                scope=scope,
                details=details,
            )
        return
    if (text := row.text("fact")) is None:
        yield Skipped(NO_TEXT)
        return
    earlier, faults = _earlier(own, text)
    yield from faults
    # The newest revision holds the memory as it is now, and says since when.
    for number, (then, when, where) in enumerate([*earlier, (text, said, row.where)]):
        yield options.statement(
            then,
            timestamp=when,
            where=where,
            key=f"{name}@{number}",
            record=name,
            revises=number > 0,
            subject=subject,
            scope=scope,
            details=details if number == len(earlier) else attrs.evolve(details, expires_at=None),
            recorded_at=row.time("createTime"),
        )
    if not own and (created := row.time("createTime")) is not None and created < said:
        yield Lost("earlier revisions (add the answer of revisions.list as memoryRevisions)")


def _earlier(revisions: Sequence[Row], text: str) -> tuple[list[tuple[str, Any, str]], list[Problem]]:
    """Return the earlier texts of a memory, oldest first, without the present one, and what cannot be read."""
    found, faults = [], []
    for row in revisions:
        try:
            then, when = row.text("fact"), row.time("createTime")
        except InvalidDataError as error:
            faults.append(Problem(row.where, error))
        else:
            found += [] if then is None or when is None else [(then, when, row.where)]
    found.sort(key=lambda revision: revision[1])
    if found and found[-1][0] == text:
        found.pop()
    return found, faults


def _place(row: Row, options: ImportOptions) -> tuple[MemorySubject, MemoryScope]:
    """Return the subject and the scope that the keys of a memory's scope name."""
    subject, path = options.subject, list[str]()
    given = row.mapping("scope")
    for key in sorted(given):
        name = Row(f"{row.where}.scope", given).required(key)
        if key in _USERS:
            subject = individual(name)
        elif key in _AGENTS:
            path[:0] = ["agent", name]
        else:
            path += [key, name]
    return subject, scope_at(path, options.scope)


def _topics(row: Row) -> Iterator[str]:
    for topic in row.items("topics"):
        match topic:
            case str():
                yield topic
            case {"customMemoryTopicLabel": str() as label} | {"managedMemoryTopic": str() as label}:
                yield label.lower().replace("_", " ") if label.isupper() else label
            case _:
                raise row.fault("a topic has no label", "topics")


def _metadata(row: Row) -> dict[str, Json]:
    return {
        key: next(iter(value.values()), None) if isinstance(value, Mapping) and len(value) == 1 else value
        for key, value in row.mapping("metadata").items()
    }
