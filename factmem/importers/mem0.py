"""mem0: the answer of ``get_all()`` as JSON, and the history that mem0 keeps beside its vector store.

The local Qdrant of mem0 keeps its points as pickles, which are never read: write ``get_all()`` to a file instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import attrs

from factmem.errors import FileFormatError, InvalidDataError
from factmem.importers.contract import (
    DELETED_TEXT,
    NO_TEXT,
    Found,
    ImportOptions,
    Lost,
    Problem,
    Row,
    Skipped,
    converted,
    individual,
)
from factmem.importers.sources import Source
from factmem.records import AssertionState, Evidence, FactDetails, Origin
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["read"]

_MEMORIES: Final = ("get_all.json", "mem0_get_all.json", "memories.json", "get_all.jsonl", "memories.jsonl")
_LISTS: Final = ("results", "memories")
_COLUMNS: Final = ("memory_id", "new_memory", "event", "created_at", "updated_at", "is_deleted")
_ORDER: Final = "memory_id, created_at, updated_at, rowid"


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the memories of a ``get_all()``, each after its earlier texts if there is a ``history.db``.

    The history knows texts and times, ``get_all()`` users, agents and metadata: a folder with both joins them.

    Raises:
        FileFormatError: It is neither.
    """
    if not source.is_folder:
        history, memories = (source.path, None) if source.is_database() else (None, source.path)
    else:
        history, memories = source.file("history.db"), source.file(*_MEMORIES)
    if history is not None:
        yield from _with_history(source, history, memories, options)
    elif memories is not None:
        rows = source.rows(memories, *_LISTS)
        yield from converted(rows, lambda row: _memory(row, _About.of(row, options), options))
    else:
        raise FileFormatError(
            f"{source.path} holds neither history.db nor {_MEMORIES[0]}: write the answer of get_all() to that file "
            "(the folder of Qdrant holds pickles, which are not read)"
        )


@attrs.frozen(kw_only=True)
class _About:
    """All that ``get_all()`` knows of a memory beside its text and times."""

    subject: MemorySubject
    scope: MemoryScope
    details: FactDetails
    role: str | None = None
    speaker: str | None = None
    run: str | None = None

    @classmethod
    def of(cls, row: Row, options: ImportOptions) -> _About:
        user, agent = row.text("user_id"), row.text("agent_id")
        role, run = row.text("role"), row.text("run_id")
        metadata = dict(row.mapping("metadata"))
        if run is not None and role is None:  # there are no words to be evidence of the run
            metadata.setdefault("run_id", run)
        return cls(
            subject=individual(user) if user else options.subject,
            scope=MemoryScope.agent(agent) if agent else options.scope,
            details=FactDetails(
                categories=row.texts("categories"),
                metadata=metadata,
                origin=_origin(role),
                expires_at=row.time("expiration_date"),
            ),
            role=role,
            speaker=row.text("actor_id"),
            run=run,
        )

    def details_of(self, text: str, *, as_said: bool) -> FactDetails:
        """Return the details of a text; it is evidence as it was said, not as it was changed later."""
        if self.role is None or not as_said:
            return self.details
        said = Evidence(quote=text, role=self.role, speaker=self.speaker, conversation_id=self.run)
        return attrs.evolve(self.details, evidence=(said,))


def _origin(role: str | None) -> Origin:
    match role:
        case "user":
            return Origin.USER
        case "assistant":
            return Origin.ASSISTANT
        case _:
            return Origin.UNKNOWN


def _memory(row: Row, about: _About, options: ImportOptions) -> Iterator[Found]:
    """Yield a memory of ``get_all()``, whose history is not known."""
    if (text := row.text("memory")) is None:
        yield Skipped(NO_TEXT)
        return
    created, updated = row.time("created_at"), row.time("updated_at")
    said = updated or created
    if said is None:
        raise row.fault("the memory has no created_at")
    if created is not None and said > created:
        yield Lost("earlier texts of updated memories (import history.db with get_all())")
    yield options.statement(
        text,
        timestamp=said,
        where=row.where,
        key=row.required("id"),
        subject=about.subject,
        scope=about.scope,
        details=about.details_of(text, as_said=said == created),
        recorded_at=created,
    )


def _with_history(source: Source, history: Path, memories: Path | None, options: ImportOptions) -> Iterator[Found]:
    """Yield the memories of the history, then those that it does not know."""
    known: dict[str, _About] = {}
    if memories is not None:
        yield from converted(source.rows(memories, *_LISTS), lambda row: _learn(row, known, options))
    rows = source.table("history", _COLUMNS, order=_ORDER, path=history)
    for id, changes in groupby(rows, key=lambda row: row.data["memory_id"]):
        about = known.pop(str(id), None)
        yield from _changes([*changes], about, options, answered=memories is not None)
    if known and memories is not None:
        rest = (row for row in source.rows(memories, *_LISTS) if isinstance(row, Row) and row.data.get("id") in known)
        yield from converted(rest, lambda row: _memory(row, _About.of(row, options), options))


def _learn(row: Row, known: dict[str, _About], options: ImportOptions) -> Iterable[Found]:
    known[row.required("id")] = _About.of(row, options)
    return ()


def _changes(rows: Sequence[Row], about: _About | None, options: ImportOptions, *, answered: bool) -> Iterator[Found]:
    """Yield the texts of one memory, oldest first.

    Args:
        rows: Its history.
        about: All that ``get_all()`` knows of it.
        options: Choices of the person who imports.
        answered: Whether there is an answer of ``get_all()``, which may have left it out.
    """
    try:
        deleted = any(row.flag("is_deleted") or row.data.get("event") == "DELETE" for row in rows)
    except InvalidDataError as error:
        yield Problem(rows[0].where, error)
        return
    if deleted and not options.with_deleted:
        yield Skipped(DELETED_TEXT)
        return
    if about is None and answered and not deleted:
        yield Lost("users and agents of memories that get_all() left out (ask it for more: top_k=100000)")
    state = AssertionState.RETRACTED if deleted else AssertionState.ACTIVE
    texts = [row for row in rows if row.data.get("event") != "DELETE"]
    yield from converted(
        texts, lambda row: _change(row, about or _About.of(row, options), options, state, revises=row is not texts[0])
    )


def _change(
    row: Row, about: _About, options: ImportOptions, state: AssertionState, *, revises: bool
) -> Iterator[Found]:
    if (text := row.text("new_memory")) is None:
        yield Skipped(NO_TEXT)
        return
    updated = row.data.get("event") == "UPDATE"
    said = row.time("updated_at", "created_at") if updated else row.time("created_at", "updated_at")
    if said is None:
        raise row.fault("the change has no time")
    yield options.statement(
        text,
        timestamp=said,
        where=row.where,
        key=row.required("id"),
        record=row.required("memory_id"),
        revises=revises,
        subject=about.subject,
        scope=about.scope,
        details=about.details_of(text, as_said=not updated),
        state=state,
        recorded_at=row.time("created_at"),
    )
