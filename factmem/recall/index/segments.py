"""A segment: an immutable layout of current records for vectorized search.

Records outside conversations come first, then whole conversations, their statements in order, so that neighbours are
adjacent. A segment holds postings and lengths of documents; vectors are in slots elsewhere.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import numpy as np

from factmem.facts import STATEMENT
from factmem.recall.index.column_fold import CurrentRows
from factmem.recall.index.columns import Columns, spread, subject_text
from factmem.recall.index.outline_codec import ASKS, ASSISTANT, KINDS_FROM
from factmem.recall.scoring import aged, context_weight, recency, says_little, words_weight
from factmem.recall.text.related_words import Term
from factmem.subjects import MemorySubject

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "Hits",
    "Lengths",
    "RowWeights",
    "Segment",
    "Totals",
    "VisibleRows",
    "conversation_keys",
    "lay_out",
    "leading_terms",
    "max_views",
    "post",
    "row_before",
    "with_neighbours",
]

_VIEWS_ROOM: Final = 4_000_000
"""Maximum size of a segment's cache of visible rows, in bytes, unless that holds fewer than `_LEAST_VIEWS` views."""

_LEAST_VIEWS: Final = 4
_MOST_VIEWS: Final = 128

_ROWS_AT_ONCE: Final = 4096
"""Number of rows whose terms are read at a time, so that they stay in the processor's cache."""

_DENSE: Final = 16
"""Occurrences are counted in a dense array if there is at least one to this many rows."""


class Lengths(NamedTuple):
    """Numbers of terms of the documents of the three levels: records, exchanges, conversations."""

    own: NDArray[np.int32]
    exchange: NDArray[np.int32]
    session: NDArray[np.int32]


@attrs.frozen
class Totals:
    """Sums over whole conversations, from which statistics are made.

    Attributes:
        records: Number of records.
        terms: Number of terms in them.
        exchanges: Number of terms in their exchanges.
        sessions: Number of conversations; a record outside conversations is one of its own.
        session_terms: Number of terms in the conversations.
    """

    records: int
    terms: int
    exchanges: int
    sessions: int
    session_terms: int

    def less(self, other: Totals) -> Totals:
        """Return the sums without those of some of the conversations."""
        return Totals(*(whole - part for whole, part in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))


@attrs.frozen(eq=False)
class VisibleRows:
    """The rows of a segment that a caller may see: whole conversations.

    Attributes:
        mask: The visible rows; None for all.
        totals: Sums over them.
    """

    mask: NDArray[np.bool_] | None
    totals: Totals


@attrs.frozen(eq=False)
class Hits:
    """The occurrences of a term at one of the three levels, ascending.

    Attributes:
        rows: Rows of the segment, or numbers of its conversations.
        counts: Number of occurrences in each; multiples of 1/256, so that sums of them are exact.
    """

    rows: NDArray[np.intp]
    counts: NDArray[np.float32]

    def of(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the number of occurrences in each of some rows."""
        if not len(self.rows):
            return np.zeros(len(rows))
        at = self.rows.searchsorted(rows)
        np.minimum(at, len(self.rows) - 1, out=at)
        counts = self.counts[at].astype(np.float64)
        counts *= self.rows[at] == rows
        return counts


@attrs.frozen(kw_only=True, eq=False)
class RowWeights:
    """The part of a score that depends on the records alone, by row; see `factmem.recall.scoring.Evidence`.

    Attributes:
        context: The weight of a row's context.
        words: The weight of its words.
        answered: The weight of the row before, if that one ends with a question; None if no row answers one.
        little: Whether the row says hardly anything.
        importance: From 0 to 1.
    """

    context: NDArray[Any]
    words: NDArray[Any]
    answered: NDArray[Any] | None
    little: NDArray[np.bool_]
    importance: NDArray[Any]


@attrs.frozen(kw_only=True, eq=False)
class Segment:
    """Records in their layout: arrays of shape (rows,) unless noted otherwise.

    Attributes:
        rows: The assertion of each, as its row of the columns.
        firsts: The oldest assertion of the same value.
        counts: Number of assertions of the same value.
        slots: Slot of its vector; 0 for none.
        unembedded: Whether any row was added before it was embedded.
        heads: The head's number.
        said_at: When it was said, in seconds since 1970.
        importance: From 0 to 1.
        leads: The first of its terms; 0 for none.
        tells: Whether it tells something; see `factmem.wording.tells`.
        assistant: Whether the assistant said it.
        asks: Whether it ends with a question.
        kinds: The kinds of values that it holds; see `factmem.recall.text.signs.Kind`.
        alone: Number of records outside conversations; they come first.
        keys: Keys of the conversations, ascending; see `conversation_keys`.
        starts: The first row of each conversation, and the end.
        lengths: See `Lengths`; of single records all three are the same, and a record is its own conversation.
    """

    rows: NDArray[np.int32]
    firsts: NDArray[np.int32]
    counts: NDArray[np.int32]
    slots: NDArray[np.int32]
    unembedded: bool
    heads: NDArray[np.int32]
    said_at: NDArray[np.float64]
    importance: NDArray[np.float64]
    leads: NDArray[np.uint64]
    tells: NDArray[np.bool_]
    assistant: NDArray[np.bool_]
    asks: NDArray[np.bool_]
    kinds: NDArray[np.uint8]
    alone: int
    keys: NDArray[np.uint64]
    starts: NDArray[np.intp]
    lengths: Lengths
    _terms: NDArray[np.uint64] = attrs.field(alias="terms")
    _postings: NDArray[np.int64] = attrs.field(alias="postings")
    _where: NDArray[np.int32] = attrs.field(alias="where")
    _often: NDArray[np.integer[Any]] = attrs.field(alias="often")
    _recency: dict[float, NDArray[np.float32]] = attrs.field(factory=dict, init=False)
    _visible: dict[Hashable, VisibleRows] = attrs.field(factory=dict, init=False)

    @classmethod
    def build(cls, columns: Columns, records: CurrentRows) -> Segment:
        """Build the segment of some records, with all current records of each conversation."""
        order, alone, keys, starts = lay_out(columns, records.rows)
        rows = records.rows[order]
        own = columns["terms_count"][rows]
        exchange = with_neighbours(own, alone, starts) if len(keys) else own
        session = np.concatenate([own[:alone], np.add.reduceat(own, starts[:-1], dtype=np.int32)]) if len(keys) else own
        terms, postings, where, often = post(columns, rows)
        return cls(
            rows=rows.astype(np.int32),
            firsts=records.firsts[order].astype(np.int32),
            counts=records.counts[order].astype(np.int32),
            slots=np.maximum(columns["slot"][rows], 0),
            unembedded=bool((columns["slot"][rows] < 0).any()),
            heads=columns["head"][rows],
            said_at=columns["said_at"][rows] / 1e6,
            importance=columns["importance"][rows],
            leads=leading_terms(columns, rows),
            tells=columns["tells"][rows] != 0,
            assistant=(columns["signs"][rows] & ASSISTANT) != 0,
            asks=(columns["signs"][rows] & ASKS) != 0,
            kinds=(columns["signs"][rows] >> KINDS_FROM).astype(np.uint8),
            alone=alone,
            keys=keys,
            starts=starts,
            lengths=Lengths(own, exchange, session),
            terms=terms,
            postings=postings,
            where=where,
            often=often,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, columns: Columns, rows: NDArray[np.intp]) -> Segment:
        """Return a segment of some of the records, with the same vectors."""
        new = Segment.build(columns, self.current_rows(rows))
        by_row = rows[np.argsort(self.rows[rows])]
        slots = self.slots[by_row[np.searchsorted(self.rows[by_row], new.rows)]]
        return attrs.evolve(new, slots=slots, unembedded=self.unembedded)

    def current_rows(self, rows: NDArray[np.intp]) -> CurrentRows:
        """Return some of the records, as the fold returns them."""
        return CurrentRows(
            self.rows[rows].astype(np.intp),
            self.firsts[rows].astype(np.intp),
            counts=self.counts[rows].astype(np.intp),
        )

    def visible(self, key: Hashable, heads: NDArray[np.bool_]) -> VisibleRows:
        """Return the rows of visible heads.

        A conversation lies in one place and has one owner, so that it is visible as a whole or not at all.

        Args:
            key: The key under which the rows are cached.
            heads: Which heads are visible.
        """
        known = self._visible.get(key)
        if known is None:
            mask = heads[self.heads]
            whole = bool(mask.all())
            known = VisibleRows(None if whole else mask, self.totals(None if whole else np.flatnonzero(mask)))
            if len(self._visible) >= max_views(len(self)):
                self._visible.clear()
            self._visible[key] = known
        return known

    def totals(self, rows: NDArray[np.intp] | None) -> Totals:
        """Return sums over whole conversations, given by their rows, ascending; None for all rows."""
        of = self.lengths
        if rows is None:
            return Totals(len(self), _total(of.own), _total(of.exchange), len(of.session), _total(of.session))
        sessions = self.session[rows]
        sessions = sessions[_new(sessions)]
        return Totals(
            len(rows), _total(of.own[rows]), _total(of.exchange[rows]), len(sessions), _total(of.session[sessions])
        )

    def locate(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows of the assertions that won here, ascending.

        Args:
            rows: Of the columns, ascending.
        """
        order = self._by_row
        at = np.minimum(np.searchsorted(self.rows[order], rows), len(order) - 1)
        found = order[at]
        return np.sort(found[self.rows[found] == rows])

    @functools.cached_property
    def session(self) -> NDArray[np.intp]:
        """The conversation of each row among all of the segment's; of a single record, its own number."""
        grouped = np.repeat(np.arange(len(self.keys)), np.diff(self.starts)) + self.alone
        return np.concatenate([np.arange(self.alone), grouped])

    @functools.cached_property
    def by_head(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The rows sorted by head, and their heads."""
        order = np.argsort(self.heads, kind="stable").astype(np.int32)
        return order, self.heads[order]

    @functools.cached_property
    def grouped(self) -> NDArray[np.bool_]:
        """Whether each row is in a conversation with others."""
        grouped = np.zeros(len(self), np.bool_)
        grouped[self.alone :] = self._follows[:-1] | self._follows[1:]
        return grouped

    @functools.cached_property
    def answers(self) -> NDArray[np.bool_]:
        """Whether the row before is of the same conversation and ends with a question."""
        answers = np.zeros(len(self), np.bool_)
        answers[1:] = self.asks[:-1]
        answers[self.first_of_session] = False
        return answers

    @property
    def first_of_session(self) -> NDArray[np.intp]:
        """The first row of each conversation, single records being conversations too."""
        return np.concatenate([np.arange(self.alone), self.starts[:-1]])

    def around(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return a mask of some rows and of the conversations that they are in."""
        mask = np.zeros(len(self), np.bool_)
        mask[rows] = True
        inside = rows[rows >= self.alone]
        if len(inside):
            mask[spread(*self.bounds(np.unique(self.session[inside])))] = True
        return mask

    def occurrences(self, term: Term, among: NDArray[np.bool_] | None = None) -> Hits:
        """Return the rows that hold a term or a related one.

        Args:
            term: The term.
            among: Which rows to look at; None for all.
        """
        at = self._terms.searchsorted(term.numbers)
        held = self._terms.take(at, mode="clip") == term.numbers if len(self._terms) else np.zeros(len(at), np.bool_)
        starts, ends = self._postings[at[held]], self._postings[at[held] + 1]
        places = spread(starts, ends)
        rows = self._where[places].astype(np.intp)
        counts = self._often[places] * np.repeat(term.weights[held], ends - starts)
        if among is not None:
            seen = among[rows]
            rows, counts = rows[seen], counts[seen]
        if len(starts) < 2 or not len(rows):
            return Hits(rows, counts)
        if len(rows) * _DENSE < len(self):
            return _summed(rows, counts)
        dense = np.bincount(rows, counts, len(self))
        rows = np.flatnonzero(dense)
        return Hits(rows, dense[rows].astype(np.float32))

    @functools.cached_property
    def speakers(self) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
        """The distinct first terms of all rows, ascending, and the place of each row's among them."""
        distinct, places = np.unique(self.leads, return_inverse=True)
        return distinct, places

    def leading(self, terms: Sequence[int]) -> list[tuple[int, int]]:
        """Return which terms are the first term of any row: pairs of their places in ``terms`` and in `speakers`."""
        if not terms:
            return []
        distinct = self.speakers[0]
        at = distinct.searchsorted(np.array(terms, np.uint64))
        held = distinct.take(at, mode="clip").tolist()
        pairs = enumerate(zip(terms, at.tolist(), held, strict=True))
        return [(place, where) for place, (term, where, found) in pairs if found == term]

    @functools.cached_property
    def single(self) -> bool:
        """Whether every conversation has one row, as where messages are remembered one by one."""
        return not self._follows.any()

    @functools.cached_property
    def has_assistant(self) -> bool:
        """Whether the assistant said any row."""
        return bool(self.assistant.any())

    def levels(self, own: Hits) -> tuple[Hits, Hits, Hits]:
        """Return the occurrences of a term at all three levels, from the rows that hold it."""
        return (own, own, own) if self.single else (own, self._exchanges(own), self._sessions(own))

    def _exchanges(self, own: Hits) -> Hits:
        cut = int(own.rows.searchsorted(self.alone))
        rows, counts = own.rows[cut:] - self.alone, own.counts[cut:]
        if not len(rows):
            return own
        if len(rows) * _DENSE >= len(self) - self.alone:
            dense = np.zeros(len(self) - self.alone, np.float32)
            dense[rows] = counts
            dense = self._with_neighbours(dense)
            rows = np.flatnonzero(dense)
            grouped = Hits(rows, dense[rows])
        else:
            before, after = self._follows[rows], self._follows[rows + 1]
            grouped = _summed(
                np.concatenate([rows, rows[before] - 1, rows[after] + 1]),
                np.concatenate([counts, counts[before], counts[after]]),
            )
        return Hits(
            np.concatenate([own.rows[:cut], grouped.rows + self.alone]),
            np.concatenate([own.counts[:cut], grouped.counts]),
        )

    def _sessions(self, own: Hits) -> Hits:
        numbers = self.session[own.rows]
        if not len(numbers) or own.rows[-1] < self.alone:
            return own
        starts = _starts(numbers)
        return Hits(numbers[starts], np.add.reduceat(own.counts, starts))

    @functools.cached_property
    def short_lengths(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """The lengths in single precision."""
        of = self.lengths
        own = of.own.astype(np.float32)
        if not len(self.keys):
            return own, own, own
        return own, of.exchange.astype(np.float32), of.session.astype(np.float32)

    def weights(self, rows: NDArray[np.intp]) -> RowWeights:
        """Return the weights of some rows, in double precision."""
        length, answers = self.lengths.own[rows].astype(np.float64), self.answers[rows]
        before = self.lengths.own[rows - 1].astype(np.float64)
        context = context_weight(grouped := self.grouped[rows], length)
        return RowWeights(
            context=context,
            words=words_weight(grouped, context),
            answered=context_weight(answers, before) if answers.any() else None,
            little=says_little(length, self.tells[rows]),
            importance=self.importance[rows],
        )

    @functools.cached_property
    def short_weights(self) -> RowWeights:
        """The weights of all rows, in single precision."""
        length = self.short_lengths[0]
        context = context_weight(self.grouped, length)
        return RowWeights(
            context=context,
            words=words_weight(self.grouped, context).astype(np.float32),
            answered=context_weight(self.answers, row_before(length)) if self.answers.any() else None,
            little=says_little(length, self.tells),
            importance=self.importance.astype(np.float32),
        )

    def recency(self, half_life_days: float, now: float) -> NDArray[np.float32]:
        """Return the recency of all rows, in single precision.

        That at the time of the newest row is cached.
        """
        since = now - self._newest
        if since < 0:
            return recency(now - self.said_at, half_life_days).astype(np.float32)
        then = self._recency.get(half_life_days)
        if then is None:
            then = recency(self._newest - self.said_at, half_life_days).astype(np.float32)
            self._recency.clear()  # concurrent readers keep their array
            self._recency[half_life_days] = then
        return aged(then, since, half_life_days)

    def of_slots(self, dots: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inner products of the rows, from those of all slots; a copy."""
        if self._in_a_row:
            first = int(self.slots[0])
            return dots[first : first + len(self)].copy()
        return dots[self.slots]

    def near(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the mean of each row's value and its neighbours'."""
        if self.single:
            return values
        near = values.copy()
        mean = self._with_neighbours(values[self.alone :])
        mean *= self._shares_of_neighbours
        near[self.alone :] = mean
        return near

    def _with_neighbours(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        follows, total = self._follows[1:-1], values.copy()
        total[1:] += values[:-1] * follows
        total[:-1] += values[1:] * follows
        return total

    def beside(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether rows have a neighbour of their conversation before and after them."""
        at = np.maximum(rows - self.alone, -1)
        before, after = self._follows[at], self._follows[np.minimum(at + 1, len(self._follows) - 1)]
        return before & (at >= 0), after & (at >= 0)

    @functools.cached_property
    def _shares_of_neighbours(self) -> NDArray[np.float32]:
        return (1 / (1 + self._follows[:-1].astype(np.float32) + self._follows[1:])).astype(np.float32)

    def bounds(self, sessions: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the first row and the end of conversations, of those with more rows than one alone."""
        numbers = sessions - self.alone
        return self.starts[numbers], self.starts[numbers + 1]

    @functools.cached_property
    def _by_row(self) -> NDArray[np.intp]:
        return np.argsort(self.rows)

    @functools.cached_property
    def _newest(self) -> float:
        return float(self.said_at.max())

    @functools.cached_property
    def _in_a_row(self) -> bool:
        return bool((np.diff(self.slots) == 1).all()) and bool(self.slots[0] > 0)

    def of_conversations(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the rows of some conversations, ascending."""
        found = np.flatnonzero(np.isin(self.keys, keys))
        return spread(self.starts[found], self.starts[found + 1])

    @functools.cached_property
    def _follows(self) -> NDArray[np.bool_]:
        """Whether a row follows another of its conversation; from the first row of a conversation on."""
        follows = np.ones(len(self) - self.alone + 1, np.bool_)
        follows[self.starts - self.alone] = False
        return follows


def row_before(values: NDArray[Any]) -> NDArray[Any]:
    """Return the value of the row before each; the first row's is arbitrary."""
    shifted = np.empty_like(values)
    shifted[:1] = values[-1:]
    shifted[1:] = values[:-1]
    return shifted


def max_views(rows: int) -> int:
    """Return the number of callers whose visible rows are cached, for a segment of so many rows."""
    return max(_LEAST_VIEWS, min(_MOST_VIEWS, _VIEWS_ROOM // max(rows, 1)))


def _total(numbers: NDArray[np.int32]) -> int:
    return int(numbers.sum(dtype=np.int64))


def _summed(rows: NDArray[np.intp], counts: NDArray[np.float32]) -> Hits:
    order = rows.argsort(kind="stable")
    rows, counts = rows[order], counts[order]
    starts = _starts(rows)
    return Hits(rows[starts], np.add.reduceat(counts, starts))


def _starts(ascending: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the first place of each number."""
    first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return first.nonzero()[0]


def conversation_keys(columns: Columns, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return the key of each row's conversation: its id, place and owner; 0 for none.

    Words never cross a partition: records of another place or owner are not context.
    """
    conversation = columns["conversation"][rows].astype(np.uint64)
    place = columns.of_rows("place", rows).astype(np.uint64)
    return np.where(conversation > 0, (conversation << np.uint64(32)) | place, np.uint64(0))


def lay_out(
    columns: Columns, rows: NDArray[np.intp]
) -> tuple[NDArray[np.intp], int, NDArray[np.uint64], NDArray[np.intp]]:
    """Return the order of rows, the number outside conversations, and the conversations' keys and first rows."""
    keys = conversation_keys(columns, rows)
    inside = np.flatnonzero(keys)
    outside = np.flatnonzero(keys == 0)
    outside = outside[np.argsort(rows[outside])]
    within = rows[inside]
    inside = inside[
        np.lexsort((columns["seq"][within], columns["start"][within], columns["position"][within], keys[inside]))
    ]
    ordered = keys[inside]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else inside
    alone = len(outside)
    return (
        np.concatenate([outside, inside]),
        alone,
        ordered[starts],
        np.append(starts + alone, len(rows)),
    )


def with_neighbours(own: NDArray[np.int32], alone: int, starts: NDArray[np.intp]) -> NDArray[np.int32]:
    """Return the lengths of exchanges, from those of rows."""
    total = own.copy()
    follows = np.ones(len(own), np.bool_)
    follows[: alone + 1] = False
    follows[starts[:-1]] = False
    behind = np.flatnonzero(follows)
    total[behind] += own[behind - 1]
    total[behind - 1] += own[behind]
    return total


def post(
    columns: Columns, rows: NDArray[np.intp]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32], NDArray[np.integer[Any]]]:
    """Return the distinct terms, the beginning of each posting, and the rows and counts of all postings."""
    starts, counts = columns["terms_start"][rows], columns["terms_count"][rows]
    # One number for a term and a row is sorted several times as fast as an order of two.
    bits = max(len(rows) - 1, 1).bit_length()
    keys, terms = _keys(columns.terms, starts, counts, bits)
    keys.sort()
    new = _new(keys)
    where = keys.astype(np.uint32)
    where &= np.uint32((1 << bits) - 1)
    found: NDArray[np.int32] = where[new].view(np.int32)
    often = _lengths_of_runs(new)
    keys >>= bits
    begins = np.flatnonzero(_new(keys)[new])
    if len(begins) < len(terms):  # the bits of a term that fit are those of another one as well
        rows_of_terms = np.arange(len(rows), dtype=np.int32).repeat(counts)
        begins, found, often = _posted(_of_rows(columns.terms, starts, counts), rows_of_terms)
    return terms, np.append(begins, len(found)), found, often


def _keys(
    terms: NDArray[np.uint64], starts: NDArray[np.int64], counts: NDArray[np.int32], bits: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return all terms of some rows with their lowest bits replaced by the row's number, and the distinct terms."""
    keys = np.empty(int(counts.sum(dtype=np.int64)), np.uint64)
    distinct: list[NDArray[np.uint64]] = []
    done = 0
    for first in range(0, len(counts), _ROWS_AT_ONCE):
        some = slice(first, first + _ROWS_AT_ONCE)
        held = _of_rows(terms, starts[some], counts[some])
        numbers = np.arange(first, first + len(counts[some]), dtype=np.uint64)
        keys[done : done + len(held)] = held >> bits << bits | numbers.repeat(counts[some])
        done += len(held)
        distinct.append(_distinct(held))
    return keys, distinct[0] if len(distinct) == 1 else _distinct(np.concatenate(distinct))


def _lengths_of_runs(new: NDArray[np.bool_]) -> NDArray[np.integer[Any]]:
    """Return the length of each run of equal items, as bytes if no run is long.

    Args:
        new: Which items begin a run; most do.
    """
    if new.all():
        return np.ones(len(new), np.uint8)
    again = np.flatnonzero(~new)
    runs = again - np.arange(1, len(again) + 1)
    several = np.flatnonzero(_new(runs))
    more = np.diff(several, append=len(runs))
    short = more.max() < 255
    lengths: NDArray[np.integer[Any]] = np.ones(len(new) - len(again), np.uint8 if short else np.int32)
    lengths[runs[several]] += more.astype(lengths.dtype)
    return lengths


def leading_terms(columns: Columns, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return the first term of each row, which names the speaker or the subject; 0 for none."""
    leads = np.zeros(len(rows), np.uint64)
    inside = columns["terms_count"][rows] > 0
    everything = columns.subjects.find(subject_text(MemorySubject.EVERYTHING.name, None))
    if everything is not None:
        statement = columns.keywords.find(STATEMENT.keyword)
        inside &= (columns.of_rows("subject", rows) != everything) | (columns.of_rows("keyword", rows) == statement)
    leads[inside] = columns.terms[columns["terms_start"][rows[inside]]]
    return leads


def _of_rows(terms: NDArray[np.uint64], starts: NDArray[np.int64], counts: NDArray[np.int32]) -> NDArray[np.uint64]:
    ends = starts + counts
    if len(starts) and (starts[1:] == ends[:-1]).all():
        return terms[starts[0] : ends[-1]]
    return terms[spread(starts, ends)]


def _posted(
    held: NDArray[np.uint64], where: NDArray[np.int32]
) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.int32]]:
    """Return the beginning of each term's posting, and the rows and counts of all postings."""
    order = np.lexsort((where, held))
    held, where = held[order], where[order]
    firsts = np.flatnonzero(_new(held) | _new(where))
    often = np.diff(firsts, append=len(held)).astype(np.int32)
    held, where = held[firsts], where[firsts]
    return np.flatnonzero(_new(held)), where, often


def _distinct(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    ordered = np.sort(numbers)
    return ordered[_new(ordered)]


def _new(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which items differ from the one before."""
    return np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
