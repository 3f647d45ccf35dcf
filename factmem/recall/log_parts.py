"""Parts of a log: what is asked of it, so that nobody has to look through all of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from factmem.abc import number_of_id
from factmem.recall.filters import RecallFilter
from factmem.recall.folding import affected
from factmem.recall.narrowing import heads_of, passing
from factmem.recall.outlines import ERRAND, NEVER, STATES, TRUSTED, microseconds
from factmem.records import AssertionState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.columns import Columns

__all__ = ["LogPart", "rows_of"]


@attrs.frozen(kw_only=True)
class LogPart:
    """Which assertions of a log are meant; all that is given must hold. Their changes of state go with them.

    Attributes:
        ids: with one of these ids.
        record_ids: of one of these records.
        seqs: with one of these numbers.
        conversations: said in one of these conversations.
        states: that are in one of these states now.
        errands: that wait for something, or once did.
        apart: that did not count when they were recorded.
        expired: Expired at this time.
        kept: that pass this filter.
        related: these, and all that bears on what is current of their records.
    """

    ids: Collection[str] | None = None
    record_ids: Collection[str] | None = None
    seqs: Collection[int] | None = None
    conversations: Collection[str] | None = None
    states: Collection[AssertionState] | None = None
    errands: bool = False
    apart: bool = False
    expired: dt.datetime | None = None
    kept: RecallFilter | None = None
    related: bool = False


_ACTIVE: Final = STATES.index(AssertionState.ACTIVE)
_WAITING: Final = (STATES.index(AssertionState.PENDING), STATES.index(AssertionState.FAILED))


def rows_of(columns: Columns, part: LogPart) -> NDArray[np.intp]:
    """Return the rows of a part of a log, ascending."""
    rows = _named(columns, part)
    if part.conversations is not None:
        rows = rows[np.isin(rows, columns.said_in(part.conversations))]
    if part.states is not None:
        rows = rows[np.isin(columns["state"][rows], [STATES.index(state) for state in part.states])]
    if part.errands:
        rows = rows[(columns["flags"][rows] & ERRAND) != 0]
    if part.apart:
        rows = rows[_apart(columns, rows)]
    if part.expired is not None:
        rows = rows[columns["expires_at"][rows] <= microseconds(part.expired)]
    if part.kept is not None:
        rows = rows[_kept(columns, rows, part.kept)]
    return affected(columns, rows) if part.related else rows


def _named(columns: Columns, part: LogPart) -> NDArray[np.intp]:
    named: list[Any] = []
    if part.ids is not None:
        named.append(columns.find("id", map(number_of_id, part.ids)))
    if part.record_ids is not None:
        named.append(columns.find("record", map(number_of_id, part.record_ids)))
    if part.seqs is not None:
        named.append(np.flatnonzero(np.isin(columns["seq"], [seq for seq in part.seqs if 0 < seq < NEVER])))
    rows = np.arange(len(columns)) if not named else named[0]
    for others in named[1:]:
        rows = rows[np.isin(rows, others)]
    return rows


def _apart(columns: Columns, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    first, trusted = columns["first_state"][rows], (columns["flags"][rows] & TRUSTED) != 0
    counted: NDArray[np.bool_] = (first == _ACTIVE) | (np.isin(first, _WAITING) & trusted)
    return ~counted


def _kept(columns: Columns, rows: NDArray[np.intp], wanted: RecallFilter) -> NDArray[np.bool_]:
    heads = heads_of(columns, wanted)
    keep = np.ones(len(rows), np.bool_) if heads is None else heads[columns["head"][rows]]
    if wanted.record_ids is not None:
        keep &= np.isin(rows, columns.find("record", map(number_of_id, wanted.record_ids)))
    left = np.flatnonzero(keep)
    keep[left] = passing(columns, rows[left], wanted)
    return keep
