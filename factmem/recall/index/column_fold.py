"""The fold over columns: the result of `factmem.fold.fold`, computed for many assertions at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from factmem.facts import microseconds
from factmem.fold import Moment, ends, in_effect
from factmem.recall.index.columns import Columns, Growing, begins
from factmem.recall.index.outline_codec import REMOVED, REVISES, STATES, TRUST_FROM, TRUSTED
from factmem.records import AssertionState

if TYPE_CHECKING:
    from numpy.typing import NDArray


_ACTIVE, _PENDING, _FAILED = map(STATES.index, (AssertionState.ACTIVE, AssertionState.PENDING, AssertionState.FAILED))


@attrs.frozen(eq=False)
class CurrentRows:
    """Current records: arrays of one length.

    Attributes:
        rows: The assertion that decided.
        firsts: The oldest assertion of the same value; records are in the order of these.
        counts: Number of assertions of the same value.
    """

    rows: NDArray[np.intp]
    firsts: NDArray[np.intp]
    counts: NDArray[np.intp]


NONE_CURRENT: Final = CurrentRows(*[np.empty(0, np.intp)] * 3)


def takes_part(states: Any, flags: Any) -> Any:
    """Return whether assertions of some states count, as `Assertion.counts` says: a bool, or an array of them."""
    waits = (states == _PENDING) | (states == _FAILED)
    return (states == _ACTIVE) | (waits & ((flags & TRUSTED) != 0))


def counting(columns: Columns, moment: Moment, changes: Growing, rows: NDArray[np.intp] | None = None) -> Any:
    """Return which assertions count at a moment, as a mask over all rows or over some.

    Args:
        columns: The assertions.
        moment: The moment.
        changes: All changes of state in the order recorded: ``row``, ``state`` and ``recorded_at``.
        rows: The rows; None for all.
    """
    taken: Any = slice(None) if rows is None else rows
    states, flags = columns["state"], columns["flags"][taken]
    if moment.known_at is not None:
        states = columns["first_state"].copy()
        by_then = changes["recorded_at"] <= microseconds(moment.known_at)
        # Of several changes of one row the last one wins: they are in the order recorded.
        states[changes["row"][by_then]] = changes["state"][by_then]
    return in_effect(
        takes_part(states[taken], flags),
        (flags & REVISES) != 0,
        said_at=columns["said_at"][taken],
        recorded_at=columns["recorded_at"][taken],
        expires_at=columns["expires_at"][taken],
        at=microseconds,
        moment=moment,
    )


def current_rows(columns: Columns, moment: Moment, counted: NDArray[np.intp]) -> CurrentRows:
    """Return the current records among assertions that count.

    Args:
        columns: The assertions.
        moment: Moment that expiries are compared with.
        counted: The rows that count, ascending; all of each record.
    """
    ended = _ended(columns, moment, slice(None))
    several = _repeated(columns["fold"][counted])
    single = counted[~several]
    single = single[~ended[single]]
    won = _winners(columns, ended, counted[several])
    rows, firsts = np.concatenate([single, won.rows]), np.concatenate([single, won.firsts])
    counts = np.concatenate([np.ones(len(single), np.intp), won.counts])
    kept = _united(columns, rows, firsts)
    return CurrentRows(rows[kept], firsts[kept], counts[kept])


def affected(columns: Columns, changed: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return all rows of the records that may change if some rows do, ascending."""
    records = columns.find("fold", columns["fold"][changed])
    rivals = columns.find("stands", columns["stands"][records])
    return columns.find("fold", columns["fold"][rivals])


def of_one_record(columns: Columns, row: int, size: int) -> NDArray[np.intp]:
    """Return all rows of the record of a row, among the first ones."""
    rows = columns.find("fold", columns["fold"][row : row + 1])
    rows = rows[rows < size]
    return rows[columns.of_rows("track", rows) == columns.of_rows("track", np.array([row]))]


def said_the_same(columns: Columns, row: int, counts: NDArray[np.bool_], moment: Moment) -> NDArray[np.intp]:
    """Return the rows that count and have the value of a record's winner, oldest first.

    Args:
        columns: The assertions.
        row: The winner.
        counts: Which rows count; later rows are left out.
        moment: The moment.
    """
    rows = of_one_record(columns, row, len(counts))
    rows = rows[counts[rows]]
    same = rows[~_ended(columns, moment, rows) & (columns["value"][rows] == columns["value"][row])]
    return same[np.lexsort((columns["seq"][same], columns["said_at"][same]))]


def _ended(columns: Columns, moment: Moment, rows: Any) -> NDArray[np.bool_]:
    removed = (columns["flags"][rows] & REMOVED) != 0
    return ends(removed, columns["expires_at"][rows], microseconds(moment.present))


def _trust(columns: Columns, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    return (columns["flags"][rows] >> TRUST_FROM).astype(np.int64)


def _repeated(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    ordered = np.sort(keys)
    return np.isin(keys, ordered[~begins(ordered)])


def _winners(columns: Columns, ended: NDArray[np.bool_], rows: NDArray[np.intp]) -> CurrentRows:
    """Fold records of several assertions."""
    if not len(rows):
        return NONE_CURRENT
    track, fold = columns.of_rows("track", rows), columns["fold"][rows]
    order = np.lexsort((columns["seq"][rows], columns["said_at"][rows], track, fold))
    rows, track, fold = rows[order], track[order], fold[order]
    (starts,) = (begins(fold) | begins(track)).nonzero()
    sizes = np.diff(np.append(starts, len(rows)))
    in_order = np.arange(len(rows))
    last = rows[np.maximum.reduceat(_trust(columns, rows) * len(rows) + in_order, starts) % len(rows)]
    same = ~ended[rows] & (columns["value"][rows] == np.repeat(columns["value"][last], sizes))
    counts = np.add.reduceat(same.astype(np.intp), starts)
    where = np.where(same, in_order, len(rows))
    firsts = np.minimum.reduceat(where, starts)
    stands = ~ended[last]
    return CurrentRows(last[stands], rows[firsts[stands]], counts[stands])


def _united(columns: Columns, rows: NDArray[np.intp], firsts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Drop a second record of an equal value, which an update by id can produce, by trust and then by time."""
    doubtful = np.flatnonzero(_repeated(columns["stands"][rows]))
    if not len(doubtful):
        return np.arange(len(rows))
    first = firsts[doubtful]
    key = (columns["stands"][rows[doubtful]], columns.of_rows("track", rows[doubtful]))
    trust = _trust(columns, rows[doubtful])
    order = np.lexsort((columns["seq"][first], columns["said_at"][first], -trust, key[1], key[0]))
    first_of_value = begins(key[0][order]) | begins(key[1][order])
    return np.delete(np.arange(len(rows)), doubtful[order[~first_of_value]])
