"""Scopes with counts: a summary of one scope, and the tree of all of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import attrs

from factmem.facts import moment_at
from factmem.recall.index.columns import Columns
from factmem.scopes import MemoryScope
from factmem.short_work import may_wait

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KeyT = TypeVar("KeyT", bound=Hashable)


@attrs.frozen(kw_only=True)
class ScopeInfo:
    """Summary of the records in a scope and its subtree. Mappings hold the number of records, in the order of the keys.

    Attributes:
        scope: The scope; None for everything.
        records: Number of records.
        keywords: Records by keyword of the concept.
        subjects: Records by subject.
        categories: Records by category.
        scopes: Records by the very scope that holds them.
        children: The scopes one level down that hold records, or have scopes below that do.
        oldest: The time when the oldest record was said, in UTC.
        newest: The time when the newest record was said, in UTC.
    """

    scope: MemoryScope | None
    records: int
    keywords: Mapping[str, int]
    subjects: Mapping[str, int]
    categories: Mapping[str, int]
    scopes: Mapping[MemoryScope, int]
    children: tuple[MemoryScope, ...]
    oldest: dt.datetime | None
    newest: dt.datetime | None


@attrs.frozen(kw_only=True)
class ScopeTree:
    """One node of the tree of scopes. Printed, it is the whole tree, one node a line.

    Attributes:
        name: The last segment of the path; empty for the root.
        scope: The scope of the node, which may be a whole branch such as ``/agent``; None for the root.
        records: Number of records here and below.
        children: The nodes one level down, sorted by name.
    """

    name: str
    scope: MemoryScope | None
    records: int
    children: tuple[ScopeTree, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.name or '/'} ({self.records})"
        for child in self.children:
            first, *rest = child._lines()
            last = child is self.children[-1]
            yield ("└── " if last else "├── ") + first
            yield from (("    " if last else "│   ") + line for line in rest)


def info_of(columns: Columns, rows: NDArray[np.intp], scope: MemoryScope | None) -> ScopeInfo:
    """Sum up records that all lie in ``scope`` or below it. Takes long for many; see `factmem.short_work`.

    Args:
        columns: The log that they belong to.
        rows: The records, as rows of the columns.
        scope: The scope that holds them all.
    """
    may_wait()
    times = columns["said_at"][rows]
    scopes = _scopes(columns, rows)
    return ScopeInfo(
        scope=scope,
        records=len(rows),
        keywords=_sorted(counted_texts(columns, "keyword", rows)),
        subjects=_sorted(
            {text.replace("\0", ":"): count for text, count in counted_texts(columns, "subject", rows).items()}
        ),
        categories=_categories(columns, rows),
        scopes=_sorted(scopes),
        children=tuple(sorted(_children(scopes, scope), key=str)),
        oldest=moment_at(int(times.min())) if len(rows) else None,
        newest=moment_at(int(times.max())) if len(rows) else None,
    )


def _sorted(counts: Mapping[KeyT, int]) -> dict[KeyT, int]:
    return dict(sorted(counts.items(), key=lambda item: str(item[0])))


def counted_texts(columns: Columns, name: str, rows: NDArray[np.intp]) -> dict[str, int]:
    """Return the texts of records in a column, such as ``keyword``, with the number of records of each."""
    numbers, counts = columns.counted(name, rows)
    texts = getattr(columns, f"{name}s").texts
    return {texts[number]: count for number, count in zip(numbers, counts, strict=True)}


def _categories(columns: Columns, rows: NDArray[np.intp]) -> dict[str, int]:
    labels = columns["labels"][rows]
    return {
        name: int(columns.labels_with("categories", [name])[labels].sum())
        for name in columns.tags_of("categories", labels)
    }


def _scopes(columns: Columns, rows: NDArray[np.intp]) -> dict[MemoryScope, int]:
    """Return the scopes of records, with the number that each holds."""
    numbers, counts = columns.counted("scope", rows)
    return {columns.scope(number).within(None): count for number, count in zip(numbers, counts, strict=True)}


def _children(scopes: Iterable[MemoryScope], parent: MemoryScope | None) -> set[MemoryScope]:
    depth = 1 if parent is None else len(parent.path) + 1
    return {attrs.evolve(scope, path=scope.path[:depth]) for scope in scopes if parent is None or scope != parent}


def tree_of(
    columns: Columns, rows: NDArray[np.intp], scope: MemoryScope | None = None, depth: int | None = None
) -> ScopeTree:
    """Return the tree of scopes of records, given as rows of the columns. Takes long; see `factmem.short_work`.

    Args:
        columns: The log that they belong to.
        rows: The records.
        scope: The root of the tree, which holds them all; None for the root of all scopes.
        depth: Number of levels below the root; all if None.
    """
    may_wait()
    root = () if scope is None else scope.segments
    tree = attrs.evolve(_node(root[-1] if root else "", _scopes(columns, rows), len(root)), scope=scope)
    return tree if depth is None else _cut(tree, depth)


def _cut(tree: ScopeTree, depth: int) -> ScopeTree:
    return attrs.evolve(tree, children=tuple(_cut(child, depth - 1) for child in tree.children) if depth > 0 else ())


def _node(name: str, counts: Mapping[MemoryScope, int], depth: int) -> ScopeTree:
    """Return the node at a depth that is common to some scopes, with the number of records of each."""
    branches: dict[str, dict[MemoryScope, int]] = {}
    for scope, count in counts.items():
        if len(scope.segments) > depth:
            branches.setdefault(scope.segments[depth], {})[scope] = count
    first = next(iter(counts), None)
    return ScopeTree(
        name=name,
        scope=attrs.evolve(first, path=first.path[: depth - 1]) if first and depth else None,
        records=sum(counts.values()),
        children=tuple(_node(child, branches[child], depth + 1) for child in sorted(branches)),
    )
