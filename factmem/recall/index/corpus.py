"""A snapshot of everything that can be recalled at one moment, read without a lock.

A corpus is immutable but for caches; its columns may grow, and erased vectors are overwritten.

It consists of a few `Segment`s. A write lays out the records that it changes, with their conversations, as a new small
segment, and marks these rows as gone in the others. Small segments are merged (`grown`), so that each record is laid
out a few times only. Statistics are kept by owner, so that those of a viewer exclude what others own.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
import numpy as np

from factmem.fold import Current, Moment
from factmem.recall.index.blob import JOB, REMOVED, microseconds
from factmem.recall.index.column_fold import Standing, joined, said_the_same
from factmem.recall.index.columns import Columns
from factmem.recall.index.segments import Hits, Segment
from factmem.recall.index.vector_slots import NO_VECTORS, VectorsView
from factmem.recall.text.related_words import Term
from factmem.records import Recorded

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Corpus", "Documents", "Occurrences", "Part", "Seen", "grown"]

_GROWTH: Final = 24
"""A new segment is merged with one that is at most this many times as large."""

_KNOWN_TERMS: Final = 4096

_KNOWN_VIEWERS: Final = 128
"""Number of cached per-viewer masks (up to one byte per record each)."""


class Documents(Protocol):
    """The assertions in full, by the rows of the columns."""

    def read(self, rows: Sequence[int]) -> Sequence[Recorded | None]:
        """Return assertions; None for those erased meanwhile. Blocks: for worker threads only."""
        ...


@attrs.frozen(eq=False)
class Part:
    """A segment, and which of its rows are current.

    Attributes:
        segment: The rows.
        alive: Which of them are current; None for all.
        totals: Statistics of shape (owners, 5): numbers of records, of terms in them, of terms in their exchanges, of
            conversations, and of terms in these.
    """

    segment: Segment
    alive: NDArray[np.bool_] | None
    totals: NDArray[np.int64]

    @classmethod
    def of(cls, segment: Segment) -> Part:
        """Return a segment of which every row is current."""
        return cls(segment, None, _totals(segment, np.arange(len(segment))))

    def __len__(self) -> int:
        return int(self.totals[:, 0].sum())

    def without(self, gone: NDArray[np.intp]) -> Part:
        """Return the part without some rows, which are whole conversations."""
        if not len(gone):
            return self
        alive = np.ones(len(self.segment), np.bool_) if self.alive is None else self.alive.copy()
        alive[gone] = False
        lost = _totals(self.segment, gone)
        totals = self.totals.copy()
        totals[: len(lost)] -= lost
        return Part(self.segment, alive, totals)

    def lacking(self, columns: Columns) -> NDArray[np.intp]:
        """Return the current rows of the columns that are not embedded yet."""
        if not self.segment.unembedded:
            return np.empty(0, np.intp)
        rows = self.segment.rows[self.rows()].astype(np.intp)
        left: NDArray[np.intp] = rows[columns["slot"][rows] < 0]
        return left

    def embedded(self, columns: Columns) -> Part:
        """Return the part with the slots of its rows; every current row is embedded or has nothing to embed."""
        if not self.segment.unembedded:
            return self
        slots = np.maximum(columns["slot"][self.segment.rows], 0)
        return attrs.evolve(self, segment=attrs.evolve(self.segment, slots=slots, unembedded=False))

    def locate(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the current rows of some assertions, given by their rows of the columns; ascending both."""
        return self._standing(self.segment.locate(rows))

    def conversations(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the current rows of conversations, ascending."""
        return self._standing(self.segment.of_conversations(keys))

    def _standing(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        return rows if self.alive is None else rows[self.alive[rows]]

    def rows(self) -> NDArray[np.intp]:
        """Return the current rows."""
        return np.arange(len(self.segment)) if self.alive is None else np.flatnonzero(self.alive)


@attrs.frozen(kw_only=True, eq=False)
class Seen:
    """The view of a corpus by one viewer.

    Attributes:
        masks: The visible rows of each part; None for all.
        counts: Numbers of records, exchanges and conversations.
        averages: Mean numbers of terms in each of them.
    """

    masks: tuple[NDArray[np.bool_] | None, ...]
    counts: tuple[int, int, int]
    averages: tuple[float, float, float]


@attrs.frozen(eq=False)
class Occurrences:
    """The occurrences of a term.

    Attributes:
        levels: The records, exchanges and conversations of each part that hold it.
        documents: Document frequencies at the three levels. A document that holds related words only counts as the
            part of an occurrence that they are.
    """

    levels: Sequence[tuple[Hits, Hits, Hits]]
    documents: tuple[float, ...]


@attrs.frozen(kw_only=True, eq=False)
class Corpus:
    """Everything current at one moment.

    Attributes:
        columns: The assertions, and any appended since.
        moment: The moment.
        counts: Which rows of the columns count at that moment.
        parts: The records.
        vectors: The embeddings known so far; recall by meaning needs a corpus that is `embedded`.
        documents: The assertions in full.
    """

    columns: Columns
    moment: Moment
    counts: NDArray[np.bool_]
    parts: tuple[Part, ...]
    vectors: VectorsView
    documents: Documents
    _seen: dict[int, Seen] = attrs.field(factory=dict, init=False)
    _known: dict[tuple[int, int], tuple[float, ...]] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def embedded(self) -> bool:
        """Whether every record has its vector, or nothing to embed."""
        return self.vectors is not NO_VECTORS and not any(part.segment.unembedded for part in self.parts)

    @functools.cached_property
    def retired(self) -> NDArray[np.intp]:
        """The assertions from conversations that are not current, ascending; without texts that wait for a model."""
        columns, moment, size = self.columns, self.moment, len(self.counts)
        left = (columns["conversation"][:size] > 0) & ((columns["flags"][:size] & (JOB | REMOVED)) == 0)
        for part in self.parts:
            left[part.segment.rows[part.rows()]] = False
        rows = np.flatnonzero(left)
        if moment.as_of is not None:
            rows = rows[columns["said_at"][rows] <= microseconds(moment.as_of)]
        if moment.known_at is not None:
            rows = rows[columns["recorded_at"][rows] <= microseconds(moment.known_at)]
        return rows

    def seen(self, viewer: str | None) -> Seen:
        """Return the view of a viewer: public records and their own."""
        owner = self._owner(viewer)
        known = self._seen.get(owner)
        if known is None:
            if len(self._seen) >= _KNOWN_VIEWERS:
                self._seen.clear()
            known = self._seen[owner] = self._seen_by(owner)
        return known

    def _owner(self, viewer: str | None) -> int:
        """Return the owner of a viewer's records; viewers without records share the public view."""
        return 0 if viewer is None else self.columns.owners.find(viewer) or 0

    def term(self, term: Term, viewer: str | None, among: Sequence[NDArray[np.bool_]] | None = None) -> Occurrences:
        """Return the occurrences of a term in the view of a viewer.

        Args:
            term: The term.
            viewer: The viewer.
            among: The rows of each part to look at, whole conversations; None for all. Document frequencies are
                always those of all rows.
        """
        key = (self._owner(viewer), term.number)
        known = self._known.get(key)
        if known is None:
            levels = self._levels(term, viewer, None)
            if len(self._known) >= _KNOWN_TERMS:
                self._known.clear()
            known = self._known[key] = tuple(
                sum(_documents(of_part[level]) for of_part in levels) for level in range(3)
            )
        else:
            levels = self._levels(term, viewer, among)
        return Occurrences(levels, known)

    def _levels(
        self, term: Term, viewer: str | None, among: Sequence[NDArray[np.bool_]] | None
    ) -> tuple[tuple[Hits, Hits, Hits], ...]:
        masks = self.seen(viewer).masks
        return tuple(
            part.segment.levels(_seen_of(part.segment.occurrences(term, some), mask))
            for part, mask, some in zip(self.parts, masks, among or (None,) * len(masks), strict=True)
        )

    def currents(self, standing: Standing) -> list[Current | None]:
        """Return records in full; None for those erased meanwhile. Blocks: for worker threads only.

        Args:
            standing: Records of this corpus.
        """
        rows: list[list[int]] = [[row] for row in standing.rows.tolist()]
        for at in np.flatnonzero(standing.counts > 1).tolist():
            rows[at] += said_the_same(self.columns, rows[at][0], self.counts, self.moment).tolist()
        read = iter(self.documents.read([row for group in rows for row in group]))
        return [_current([next(read) for _ in group]) for group in rows]

    def embeddings(self, standing: Standing) -> list[NDArray[np.float32] | None]:
        """Return the embeddings of records, of length 1; None for a record with nothing to embed."""
        slots = self._slots(standing.rows)
        vectors = self.vectors.take(slots)
        return [vector if slot > 0 else None for vector, slot in zip(vectors, slots.tolist(), strict=True)]

    def _slots(self, rows: NDArray[np.intp]) -> NDArray[np.int32]:
        """Return the slots of records in `vectors`; those of the columns may belong to newer vectors."""
        slots = np.zeros(len(rows), np.int32)
        order = np.argsort(rows)
        ascending = rows[order]
        for part in self.parts:
            at = part.locate(ascending)
            slots[order[np.searchsorted(ascending, part.segment.rows[at])]] = part.segment.slots[at]
        return slots

    def _seen_by(self, owner: int) -> Seen:
        owners = [0, owner] if owner else [0]
        masks, sums = [], np.zeros(5, np.int64)
        for part in self.parts:
            inside = [number for number in owners if number < len(part.totals)]
            total = part.totals[inside].sum(axis=0)
            sums += total
            masks.append(None if total[0] == len(part.segment) else _mask(part, owners))
        records, own, exchange, sessions, session = sums.tolist()
        return Seen(
            masks=tuple(masks),
            counts=(records, records, sessions),
            averages=(own / max(records, 1), exchange / max(records, 1), session / max(sessions, 1)),
        )

    def changed(self, gone: Mapping[int, NDArray[np.intp]], new: Standing, **rest: Any) -> Corpus:
        """Return the corpus after a write.

        Args:
            gone: By part, the rows that are no longer current or are in ``new``; whole conversations.
            new: The records of the new segment.
            rest: The other attributes that change.
        """
        parts = [part.without(gone[number]) if number in gone else part for number, part in enumerate(self.parts)]
        return attrs.evolve(self, parts=grown(rest.get("columns", self.columns), parts, new), **rest)


def grown(columns: Columns, parts: Sequence[Part], new: Standing) -> tuple[Part, ...]:
    """Return parts with a new one, merged with those before it that are not much larger."""
    left = [part for part in parts if len(part)]
    merged = [new]
    size = len(new.rows)
    while left and size and (len(left[-1]) <= _GROWTH * size or _mostly_gone(left[-1])):
        part = left.pop()
        rows = part.rows()
        merged.append(part.segment.standing(rows))
        size += len(rows)
    if size:
        left.append(Part.of(Segment.build(columns, joined(merged))))
    return tuple(left)


def _seen_of(hits: Hits, mask: NDArray[np.bool_] | None) -> Hits:
    if mask is None or not len(hits.rows):
        return hits
    kept = mask[hits.rows]
    return Hits(hits.rows[kept], hits.counts[kept])


def _documents(hits: Hits) -> float:
    return float(np.minimum(hits.counts, 1).sum(dtype=np.float64))


def _mostly_gone(part: Part) -> bool:
    return 2 * len(part) < len(part.segment)


def _current(read: Sequence[Recorded | None]) -> Current | None:
    winner, said = read[0], tuple(item for item in read[1:] if item is not None)
    return None if winner is None else Current(winner, said or (winner,))


def _mask(part: Part, owners: Sequence[int]) -> NDArray[np.bool_]:
    mask = np.isin(part.segment.owners, owners)
    return mask if part.alive is None else mask & part.alive


def _totals(segment: Segment, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the statistics of some rows, whole conversations, by owner."""
    if not len(rows):
        return np.zeros((1, 5), np.int64)
    sessions = np.unique(segment.session[rows])
    of_rows, of_sessions = segment.owners[rows], segment.owners[segment.first_of_session[sessions]]
    size = int(of_rows.max()) + 1
    lengths = segment.lengths
    columns = (
        np.bincount(of_rows, minlength=size),
        np.bincount(of_rows, lengths.own[rows], size),
        np.bincount(of_rows, lengths.exchange[rows], size),
        np.bincount(of_sessions, minlength=size),
        np.bincount(of_sessions, lengths.session[sessions], size),
    )
    return np.stack(columns, axis=1).astype(np.int64)
