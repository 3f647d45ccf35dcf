"""What is where: scopes as a tree, with counts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from factmem.recall import Columns
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ScopeInfo", "ScopeTree", "info_of", "tree_of"]


@attrs.frozen(kw_only=True)
class ScopeInfo:
    """What a scope holds, its subtree included.

    Attributes:
        scope: which; None for the whole of what was looked at.
        records: how many records.
        keywords: the concepts in use, sorted.
        subjects: the subjects that have records, sorted.
        categories: the categories in use, sorted.
        oldest: when the oldest was said, in UTC.
        newest: when the newest was said, in UTC.
        children: the scopes one level down that hold records, or have scopes below that do.
        scopes: every scope here and below that holds records itself, sorted by path.
    """

    scope: MemoryScope | None
    records: int
    keywords: tuple[str, ...]
    subjects: tuple[str, ...]
    categories: tuple[str, ...]
    oldest: dt.datetime | None
    newest: dt.datetime | None
    children: tuple[MemoryScope, ...]
    scopes: tuple[MemoryScope, ...]


@attrs.frozen(kw_only=True)
class ScopeTree:
    """One node of the tree of scopes.

    Attributes:
        name: the last segment of the path; empty for the root.
        scope: the scope that this is; None for the root and for a kind, which hold no records themselves.
        records: how many records here and below.
        children: the nodes one level down, sorted by name.
    """

    name: str
    scope: MemoryScope | None
    records: int
    children: tuple[ScopeTree, ...]


def info_of(columns: Columns, rows: NDArray[np.intp], scope: MemoryScope | None) -> ScopeInfo:
    """Sum up records that all lie in ``scope`` or below it.

    Args:
        columns: the log that they are of.
        rows: the records, as rows of the columns.
        scope: what holds them all.
    """
    times = columns["said_at"][rows]
    scopes = set(_scopes(columns, rows))
    subjects = (MemorySubject(name, individual_name=one) for name, one in columns.subjects_of(rows))
    return ScopeInfo(
        scope=scope,
        records=len(rows),
        keywords=tuple(sorted(columns.texts_of("keyword", rows))),
        subjects=tuple(sorted(map(str, subjects))),
        categories=tuple(columns.tags_of("categories", columns["labels"][rows])),
        oldest=_moment(times.min()) if len(rows) else None,
        newest=_moment(times.max()) if len(rows) else None,
        children=tuple(sorted(_children(scopes, scope), key=str)),
        scopes=tuple(sorted(scopes, key=str)),
    )


def _scopes(columns: Columns, rows: NDArray[np.intp]) -> dict[MemoryScope, int]:
    """Return the scopes of records, and how many each holds."""
    numbers, counts = columns.counted("scope", rows)
    return {columns.scope(number).within(None): count for number, count in zip(numbers, counts, strict=True)}


def _moment(microseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=int(microseconds))


def _children(scopes: Iterable[MemoryScope], parent: MemoryScope | None) -> set[MemoryScope]:
    depth = 1 if parent is None else len(parent.path) + 1
    return {attrs.evolve(scope, path=scope.path[:depth]) for scope in scopes if parent is None or scope != parent}


def tree_of(columns: Columns, rows: NDArray[np.intp]) -> ScopeTree:
    """Return the tree of all scopes that hold records, given as rows of the columns."""
    return _node("", {scope.segments: (scope, count) for scope, count in _scopes(columns, rows).items()})


def _node(name: str, below: Mapping[tuple[str, ...], tuple[MemoryScope, int]], depth: int = 0) -> ScopeTree:
    """Return the node that some scopes, by their segments, have in common: each is looked at once a level."""
    branches: dict[str, dict[tuple[str, ...], tuple[MemoryScope, int]]] = {}
    for segments, held in below.items():
        if len(segments) > depth:
            branches.setdefault(segments[depth], {})[segments] = held
    return ScopeTree(
        name=name,
        scope=_scope_at(below, depth),
        records=sum(count for _, count in below.values()),
        children=tuple(_node(child, branches[child], depth + 1) for child in sorted(branches)),
    )


def _scope_at(below: Mapping[tuple[str, ...], tuple[MemoryScope, int]], depth: int) -> MemoryScope | None:
    """The scope of a node; the root is none, and a kind is one only where it holds records itself."""
    if depth > 1:
        scope, _ = next(iter(below.values()))
        return attrs.evolve(scope, path=scope.path[: depth - 1])
    return next((scope for segments, (scope, _) in below.items() if len(segments) == depth), None)
