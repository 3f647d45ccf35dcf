"""The exact best of a corpus, in two passes.

The first pass (`first_pass`) scores every row of a segment at once, in float32 and with the error bounded; what
could still be among the best after that is scored again by the second (`second_pass`), each row by itself, in
double precision and by `factmem.recall.scoring`. Those scores are functions of the query, the record, its
conversation and the viewer's statistics alone, to the last bit: not of what else there is, nor of how it is laid
out. Where a filter leaves few rows, these are scored by the second pass at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from factmem.recall.asking import Query, asked_of
from factmem.recall.corpus import Corpus
from factmem.recall.first_pass import approximate, slack
from factmem.recall.second_pass import Found, scored
from factmem.recall.segments import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["search"]

_FEW: Final = 16
"""A filter that keeps less than one row in so many leaves few."""

_BLOCK: Final = 512


def search(corpus: Corpus, query: Query, keep: Sequence[NDArray[np.intp] | None], limit: int) -> Found | None:
    """Return the best rows and all that score as the last of them does, in no order; None if there is none.

    Args:
        corpus: what there is.
        query: what is looked for.
        keep: of each part, the rows that a filter keeps, ascending; None for all that the viewer sees.
        limit: how many.
    """
    few = [rows is not None and _few(rows, part.segment) for part, rows in zip(corpus.parts, keep, strict=True)]
    among = _around(corpus, keep) if all(few) else None
    asked = asked_of(corpus, query, among=among)
    chosen: list[tuple[int, NDArray[np.intp]]] = []
    firsts: list[tuple[int, NDArray[np.float32]]] = []
    for number, rows in enumerate(keep):
        if rows is not None and few[number]:
            chosen.append((number, rows))
            continue
        scores = approximate(corpus, number, asked)
        mask = corpus.seen(query.viewer).masks[number]
        if rows is not None:
            mask = np.zeros(len(scores), np.bool_)
            mask[rows] = True
        if mask is not None:
            scores[~mask] = -1
        firsts.append((number, scores))
    chosen += _candidates(firsts, limit, slack(asked))
    parts = [scored(corpus, number, asked, rows) for number, rows in chosen if len(rows)]
    if not parts:
        return None
    found = parts[0] if len(parts) == 1 else _joined(parts)
    if limit < len(found.rows):
        cut = np.partition(found.score, len(found.rows) - limit)[len(found.rows) - limit]
        found = found.at(np.flatnonzero(found.score >= cut))
    return found


def _around(corpus: Corpus, keep: Sequence[NDArray[np.intp] | None]) -> list[NDArray[np.bool_]]:
    return [part.segment.around(rows) for part, rows in zip(corpus.parts, keep, strict=True) if rows is not None]


def _joined(parts: Sequence[Found]) -> Found:
    columns = {field.name: [getattr(item, field.name) for item in parts] for field in attrs.fields(Found)}
    return Found(**{name: np.concatenate(column) for name, column in columns.items()})


def _few(rows: NDArray[np.intp], segment: Segment) -> bool:
    return len(rows) * _FEW <= len(segment) or len(segment) <= _BLOCK


def _candidates(
    firsts: Sequence[tuple[int, NDArray[np.float32]]], limit: int, wrong: float
) -> list[tuple[int, NDArray[np.intp]]]:
    """Return the rows of each part that may be among the best, by scores that may be wrong by half so much."""
    highest = [_highest(scores, limit) for _, scores in firsts]
    pooled = np.concatenate(highest) if highest else np.empty(0, np.float32)
    pooled = pooled[pooled >= 0]
    cut = -0.5
    if limit < len(pooled):
        cut = max(cut, float(np.partition(pooled, len(pooled) - limit)[len(pooled) - limit]) - wrong)
    return [(number, np.flatnonzero(scores >= cut)) for number, scores in firsts]


def _highest(scores: NDArray[np.float32], limit: int) -> NDArray[np.float32]:
    """Return scores of which at least ``limit + 1`` are among the highest, if there are so many."""
    blocks = len(scores) // _BLOCK
    if blocks > 2 * limit:
        # The best of each block: as many rows score at least so much.
        return np.maximum.reduceat(scores, np.arange(blocks) * _BLOCK)
    return scores
