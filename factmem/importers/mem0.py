"""mem0: the answer of ``get_all()`` as JSON, and the history that mem0 keeps beside its vector store.

The local Qdrant of mem0 keeps its points as pickles, which are never read: write ``get_all()`` to a file instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import attrs

from factmem.errors import FileFormatError
from factmem.importers.contract import Found, ImportOptions, Lost, Problem, Skipped, individual
from factmem.importers.rows import Fields, Row, converted, guarded
from factmem.importers.sources import Source
from factmem.records import AssertionState, Evidence, Origin
from factmem.scopes import MemoryScope

__all__ = ["read"]

_FILES: Final = ("get_all.json", "mem0_get_all.json", "memories.json", "get_all.jsonl", "memories.jsonl")
_LISTS: Final = ("results", "memories")
_COLUMNS: Final = ("memory_id", "new_memory", "event", "created_at", "updated_at", "is_deleted")
_ORDER: Final = "memory_id, created_at, updated_at, rowid"
_ORIGINS: Final = {"user": Origin.USER, "assistant": Origin.ASSISTANT}

_MEMORY: Final = Fields(
    value="memory",
    id="id",
    said="updated_at created_at",
    recorded="created_at",
    expires_at="expiration_date",
    categories="categories",
    overwritten="earlier texts of updated memories (import history.db with get_all())",
)
_UPDATE: Final = attrs.evolve(_MEMORY, value="new_memory", overwritten=None)
_ADDITION: Final = attrs.evolve(_UPDATE, said="created_at updated_at")


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the memories of a ``get_all()``, each after its earlier texts if there is a ``history.db``.

    The history knows texts and times, ``get_all()`` users, agents and metadata: a folder with both joins them.

    Raises:
        FileFormatError: It is neither.
    """
    if source.is_folder:
        history, memories = source.file("history.db"), source.file(*_FILES)
    else:
        history, memories = (source.path, None) if source.is_database() else (None, source.path)
    if history is None and memories is None:
        raise FileFormatError(
            f"{source.path} holds neither history.db nor {_FILES[0]}: write the answer of get_all() to that file "
            "(the folder of Qdrant holds pickles, which are not read)"
        )
    known: dict[str, Row] = {}
    if history is not None:
        for row in () if memories is None else source.rows(memories, *_LISTS):
            if isinstance(row, Row) and "id" in row.data:
                known[str(row.data["id"])] = Row(row.where, {**row.data, "memory": None})
        rows = source.table("history", _COLUMNS, order=_ORDER, path=history)
        for id, changes in groupby(rows, key=lambda row: str(row.data["memory_id"])):
            own = [*changes]
            about = known.pop(id, None)
            yield from guarded(own[0].where, _changes, own, about, options, answered=memories is not None)
    if memories is not None:
        rest = (
            row
            for row in source.rows(memories, *_LISTS)
            if history is None or isinstance(row, Problem) or str(row.data.get("id")) in known
        )
        yield from converted(rest, lambda row: _memory(row, options))


def _memory(row: Row, options: ImportOptions) -> Iterator[Found]:
    """Yield a memory of ``get_all()``, whose history is not known."""
    as_said = row.time("updated_at", "created_at") == row.time("created_at")
    yield from _MEMORY.found(row, options, **_about(row, options, row.text("memory") if as_said else None))


def _about(row: Row, options: ImportOptions, said: str | None) -> dict[str, Any]:
    """Return the place and details of a memory; its text is evidence as it was said, not as it was changed later."""
    user, agent = row.text("user_id"), row.text("agent_id")
    role, run = row.text("role"), row.text("run_id")
    metadata = dict(row.inner("metadata").data)
    if run is not None and role is None:  # there are no words to be evidence of the run
        metadata.setdefault("run_id", run)
    evidence: tuple[Evidence, ...] = ()
    if said is not None and role is not None:
        evidence = (Evidence(quote=said, role=role, speaker=row.text("actor_id"), conversation_id=run),)
    return {
        "subject": individual(user) if user else None,
        "scope": MemoryScope.agent(agent) if agent else None,
        "metadata": metadata,
        "origin": _ORIGINS.get(role or "", Origin.UNKNOWN),
        "evidence": evidence,
    }


def _changes(rows: Sequence[Row], about: Row | None, options: ImportOptions, *, answered: bool) -> Iterator[Found]:
    """Yield the texts of one memory, oldest first.

    Args:
        rows: Its history.
        about: All that ``get_all()`` knows of it.
        options: Choices of the person who imports.
        answered: Whether there is an answer of ``get_all()``, which may have left it out.
    """
    deleted = any(row.flag("is_deleted") or row.data.get("event") == "DELETE" for row in rows)
    if deleted and not options.with_deleted:
        yield Skipped("they were deleted there (--with-deleted keeps them as history)")
        return
    if about is None and answered and not deleted:
        yield Lost("users and agents of memories that get_all() left out (ask it for more: top_k=100000)")
    texts = [row for row in rows if row.data.get("event") != "DELETE"]

    def change(row: Row) -> Iterator[Found]:
        updated = row.data.get("event") == "UPDATE"
        yield from (_UPDATE if updated else _ADDITION).found(
            row,
            options,
            about=about,
            record=row.required("memory_id"),
            revises=row is not texts[0],
            state=AssertionState.RETRACTED if deleted else AssertionState.ACTIVE,
            **_about(about or row, options, None if updated else row.text("new_memory")),
        )

    yield from converted(texts, change)
