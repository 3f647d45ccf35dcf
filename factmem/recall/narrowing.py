"""Narrowing a corpus by a filter, before anything is scored: by whole tracks first, then row by row."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from factmem.abc import number_of_id
from factmem.facts import STATEMENT
from factmem.recall.choosing import level_of
from factmem.recall.columns import Columns, subject_text
from factmem.recall.corpus import Corpus, Part
from factmem.recall.filters import MetadataCondition, RecallFilter
from factmem.recall.folding import Standing, joined
from factmem.recall.growing import spread
from factmem.recall.outlines import MULTIPLE, UNREVIEWED, microseconds
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.intp]

__all__ = ["heads_of", "kept_by_part", "passing", "selected", "without"]


def selected(corpus: Corpus, viewer: str | None, wanted: RecallFilter) -> Standing:
    """Return the records that the viewer sees and the filter keeps, in no order."""
    kept = kept_by_part(corpus, viewer, wanted)
    found = []
    for part, rows, mask in zip(corpus.parts, kept, corpus.seen(viewer).masks, strict=True):
        if rows is None:
            rows = np.arange(len(part.segment)) if mask is None else np.flatnonzero(mask)
        found.append(part.segment.standing(rows))
    return joined(found)


def kept_by_part(corpus: Corpus, viewer: str | None, wanted: RecallFilter) -> list[Rows | None]:
    """Return the rows of each part that the viewer sees and the filter keeps, ascending; None for all that they see."""
    if wanted.empty and not wanted.strongest:
        return [None] * len(corpus.parts)
    heads = heads_of(corpus.columns, wanted)
    ids = corpus.columns.find("record", map(number_of_id, wanted.record_ids)) if wanted.record_ids is not None else None
    masks = corpus.seen(viewer).masks
    kept: list[Rows] = []
    for part, mask in zip(corpus.parts, masks, strict=True):
        rows = _of_heads(part, heads)
        if ids is not None:
            rows = rows[np.isin(part.segment.rows[rows], ids)]
        if mask is not None:
            rows = rows[mask[rows]]
        kept.append(rows[passing(corpus.columns, part.segment.rows[rows], wanted)])
    return list(_strongest(corpus, kept) if wanted.strongest and kept else kept)


def without(corpus: Corpus, viewer: str | None, kept: Sequence[Rows | None], gone: Rows) -> list[Rows | None]:
    """Return what is kept of each part without some rows of the columns."""
    left: list[Rows | None] = []
    for part, rows, mask in zip(corpus.parts, kept, corpus.seen(viewer).masks, strict=True):
        if rows is None:
            rows = np.arange(len(part.segment)) if mask is None else np.flatnonzero(mask)
        left.append(rows[~np.isin(part.segment.rows[rows], gone)])
    return left


def heads_of(columns: Columns, wanted: RecallFilter) -> NDArray[np.bool_] | None:
    """Return which heads pass by place and keyword; None if all do."""
    of = columns.all_of_heads()
    tests = []
    if wanted.scope is not None or wanted.within is not None:
        scopes = np.fromiter(
            (wanted.reaches(_parsed(text, columns.tenant)) for text in columns.scopes.texts),
            np.bool_,
            len(columns.scopes),
        )
        tests.append(scopes[of["scope"]])
    about = (None if wanted.subject is None else (wanted.subject,), wanted.subjects)
    named = [subjects for subjects in about if subjects is not None]
    tests += [np.isin(of["subject"], _subjects(columns, subjects)) for subjects in named]
    if wanted.places is not None:
        tests.append(_at_places(columns, of, wanted.places))
    if wanted.keywords is not None:
        numbers = [number for word in wanted.keywords if (number := columns.keywords.find(word)) is not None]
        tests.append(np.isin(of["keyword"], numbers))
    if wanted.without_keywords is not None:
        numbers = [number for word in wanted.without_keywords if (number := columns.keywords.find(word)) is not None]
        tests.append(np.isin(of["keyword"], numbers, invert=True))
    return np.logical_and.reduce(tests) if tests else None


def _at_places(
    columns: Columns, of: Mapping[str, NDArray[Any]], places: Iterable[tuple[Any, ...]]
) -> NDArray[np.bool_]:
    mask = np.zeros(len(of["scope"]), np.bool_)
    for tenant, (kind, *path), subject in places:
        scope = columns.scopes.find(str(MemoryScope(ScopeKind(kind), tuple(path))))
        about = columns.subjects.find(subject_text(*subject))
        if tenant == columns.tenant and scope is not None and about is not None:
            mask |= (of["scope"] == scope) & (of["subject"] == about)
    return mask


def _subjects(columns: Columns, subjects: Sequence[MemorySubject] | Any) -> list[int]:
    found = (columns.subjects.find(subject_text(subject.name, subject.individual_name)) for subject in subjects)
    return [number for number in found if number is not None]


@functools.lru_cache(maxsize=16_384)
def _parsed(text: str, tenant: str | None) -> MemoryScope:
    return MemoryScope.parse(text).within(tenant)


def _of_heads(part: Part, heads: NDArray[np.bool_] | None) -> Rows:
    """Return the rows of some heads, ascending; all if None."""
    if heads is None:
        return np.arange(len(part.segment))
    numbers = np.flatnonzero(heads)
    if 4 * len(numbers) > len(heads):
        return np.flatnonzero(heads[part.segment.heads])
    order, ordered = part.segment.by_head
    low, high = (np.searchsorted(ordered, numbers, side) for side in ("left", "right"))
    return np.sort(order[spread(low, high)]).astype(np.intp)


def passing(columns: Columns, rows: NDArray[Any], wanted: RecallFilter) -> NDArray[np.bool_]:
    """Return which rows of the columns pass what does not follow from place and keyword."""
    keep = np.ones(len(rows), np.bool_)
    for name in ("categories", "topics", "sources"):
        if (tags := getattr(wanted, name)) is not None:
            keep &= columns.labels_with(name, tags)[columns["labels"][rows]]
    for column, since, until in (
        ("said_at", wanted.since, wanted.until),
        ("recorded_at", wanted.recorded_since, wanted.recorded_until),
    ):
        if since is not None:
            keep &= columns[column][rows] >= microseconds(since)
        if until is not None:
            keep &= columns[column][rows] < microseconds(until)
    if wanted.min_importance is not None:
        keep &= columns["importance"][rows] >= wanted.min_importance
    if wanted.max_importance is not None:
        keep &= columns["importance"][rows] <= wanted.max_importance
    if wanted.reviewed:
        keep &= (columns["flags"][rows] & UNREVIEWED) == 0
    conditions = wanted.conditions
    if conditions:
        left = np.flatnonzero(keep)
        keep[left] = [_meets(columns.metadata.get(row, "{}"), conditions) for row in rows[left].tolist()]
    return keep


def _meets(metadata: str, conditions: tuple[tuple[tuple[MetadataCondition, ...], ...], ...]) -> bool:
    """Whether metadata meets, of each set of groups, all conditions of one group."""
    read = json.loads(metadata)
    return all(any(all(condition.holds(read) for condition in group) for group in groups) for groups in conditions)


def _strongest(corpus: Corpus, kept: Sequence[Rows]) -> list[Rows]:
    """Keep of the typed facts those that hold; see `factmem.recall.chosen`."""
    columns = corpus.columns
    free = columns.keywords.find(STATEMENT.keyword)
    typed, firsts = [], []
    for part, rows in zip(corpus.parts, kept, strict=True):
        chosen = rows[columns.of_rows("keyword", part.segment.rows[rows]) != (-1 if free is None else free)]
        typed.append(part.segment.rows[chosen])
        firsts.append(part.segment.firsts[chosen])
    rows, first = np.concatenate(typed), np.concatenate(firsts)
    standing = _chosen(columns, rows, first)
    return [
        of_part[
            (columns.of_rows("keyword", part.segment.rows[of_part]) == (-1 if free is None else free))
            | np.isin(part.segment.rows[of_part], standing)
        ]
        for part, of_part in zip(corpus.parts, kept, strict=True)
    ]


def _chosen(columns: Columns, rows: NDArray[Any], firsts: NDArray[Any]) -> Rows:
    """Return the rows that `factmem.recall.choosing.chosen` would choose."""
    order = np.lexsort((columns["seq"][firsts], columns["said_at"][firsts], columns.of_rows("keyword", rows)))
    rows = rows[order]
    keyword = columns.of_rows("keyword", rows)
    starts = np.flatnonzero(np.append(True, keyword[1:] != keyword[:-1])) if len(rows) else rows
    found: list[int] = []
    for items in np.split(rows, starts[1:]) if len(rows) else ():
        found += _strongest_of(columns, items)
    return np.array(found, np.intp)


def _strongest_of(columns: Columns, rows: Rows) -> list[int]:
    """Choose among rows of one keyword, in the order first said."""
    levels = [_level(columns, row) for row in rows.tolist()]
    said = columns["said_at"][rows].tolist()
    best = min(range(len(rows)), key=lambda at: (levels[at], -said[at]))
    several = (columns["flags"][rows] & MULTIPLE) != 0
    if not several[best]:
        return [int(rows[best])]
    united: dict[int, int] = {}
    values = columns["value"][rows].tolist()
    for at, row in enumerate(rows.tolist()):
        if several[at] and levels[at] == levels[best]:
            united.setdefault(values[at], row)
    return list(united.values())


def _level(columns: Columns, row: int) -> tuple[int, bool, tuple[int, int]]:
    head = int(columns["head"][row])
    scope = _parsed(columns.scopes.texts[int(columns.of_heads("scope")[head])], columns.tenant)
    return level_of(int(columns.of_heads("priority")[head]), int(columns.of_heads("owner")[head]) == 0, scope)
