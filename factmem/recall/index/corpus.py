"""A snapshot of everything that can be recalled at one moment, read without a lock.

A corpus is immutable but for caches; its columns may grow, and erased vectors are overwritten.

It consists of a few `Segment`s. A write lays out the records that it changes, with their conversations, as a new small
segment, and marks these rows as gone in the others. Small segments are merged (`grown`), so that each record is laid
out a few times only.

Statistics are those of what a caller sees (`Corpus.seen`): their own and public records, in the scopes of their view.
They are sums of whole numbers over whole conversations, cached for each segment, so that they are exact after any
write and cost little.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
import numpy as np

from factmem.details import Origin
from factmem.fold import Current, Moment
from factmem.recall.index.column_fold import CurrentRows, joined, said_the_same
from factmem.recall.index.columns import Columns
from factmem.recall.index.matters import NO_PAIRS, Overtaken, Pairs
from factmem.recall.index.outline_codec import JOB, REMOVED, UNREVIEWED, microseconds, term_numbers
from factmem.recall.index.segments import Hits, Segment, VisibleRows, max_views
from factmem.recall.index.sizes import OBJECT
from factmem.recall.index.vector_slots import NO_VECTORS, VectorsView
from factmem.recall.text.analysis import analyse
from factmem.recall.text.related_words import Term
from factmem.records import Recorded
from factmem.views import Sight

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Corpus", "Documents", "Occurrences", "Part", "Seen", "grown"]

_GROWTH: Final = 24
"""A new segment is merged with one that is at most this many times as large."""

_KNOWN_TERMS: Final = 4096
"""Number of terms whose document frequencies are cached."""

_KNOWN_ROWS: Final = 250_000
"""Number of rows, of 12 bytes each, that cached occurrences of terms hold."""

_KNOWN_TERM: Final = 1500
"""Typical bytes of the cached occurrences of a term, without their rows."""

_FEW: Final = 16
"""A caller sees few rows of a part if they see less than one in this many."""


class Documents(Protocol):
    """The assertions in full, by the rows of the columns.

    Attributes:
        far: Whether reading takes a round trip, so that it pays to read at once what may be needed soon.
    """

    far: bool

    def read(self, rows: Sequence[int]) -> Sequence[Recorded | None]:
        """Return assertions; None for those erased meanwhile. Blocks: for worker threads only."""
        ...


@attrs.frozen(eq=False)
class Part:
    """A segment, and which of its rows are current.

    Attributes:
        segment: The rows.
        alive: Which of them are current; None for all.
        gone: The other rows, ascending.
    """

    segment: Segment
    alive: NDArray[np.bool_] | None = None
    gone: NDArray[np.intp] = attrs.field(factory=lambda: np.empty(0, np.intp))
    _visible: dict[Hashable, VisibleRows] = attrs.field(factory=dict, init=False)
    _reviewed: list[tuple[Part, ...] | None] = attrs.field(factory=list, init=False)

    def __len__(self) -> int:
        return len(self.segment) - len(self.gone)

    def without(self, gone: NDArray[np.intp]) -> Part:
        """Return the part without some rows, which are whole conversations."""
        if not len(gone):
            return self
        alive = np.ones(len(self.segment), np.bool_) if self.alive is None else self.alive.copy()
        alive[gone] = False
        return Part(self.segment, alive, np.union1d(self.gone, gone))

    def visible(self, key: Hashable, heads: NDArray[np.bool_]) -> VisibleRows:
        """Return the current rows of visible heads; see `Segment.visible`."""
        ever = self.segment.visible(key, heads)
        if self.alive is None:
            return ever
        known = self._visible.get(key)
        if known is None:
            gone = self.gone if ever.mask is None else self.gone[ever.mask[self.gone]]
            mask = self.alive if ever.mask is None else self.alive & ever.mask
            known = VisibleRows(mask, ever.totals.less(self.segment.totals(gone)))
            if len(self._visible) >= max_views(len(self.segment)):
                self._visible.clear()
            self._visible[key] = known
        return known

    def reviewed(self, columns: Columns) -> tuple[Part, ...]:
        """Return the part without records that are `FactDetails.unreviewed`, as one or two parts.

        Conversations that hold such a record are laid out again, so that it is nobody's neighbour.
        """
        if not self._reviewed:
            self._reviewed.append(self._without_unreviewed(columns))
        known = self._reviewed[0]
        return (self,) if known is None else known

    def _without_unreviewed(self, columns: Columns) -> tuple[Part, ...] | None:
        """Return the parts that are left; None for the whole, since a reference to itself would keep it in memory."""
        segment, rows = self.segment, self.rows()
        hidden = rows[(columns["flags"][segment.rows[rows]] & UNREVIEWED) != 0]
        if not len(hidden):
            return None
        around = rows[segment.around(hidden)[rows]]
        left = np.setdiff1d(around, hidden)
        rest = self.without(around)
        return (rest, Part(segment.of(columns, left))) if len(left) else (rest,)

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

    def places(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the row of each of some assertions, in their order; -1 for none."""
        here = self.locate(np.sort(rows))
        order = np.argsort(self.segment.rows[here])
        known = self.segment.rows[here[order]]
        at = np.minimum(known.searchsorted(rows), len(known) - 1) if len(known) else np.zeros(len(rows), np.intp)
        return np.where(known[at] == rows, here[order[at]], -1) if len(known) else at - 1

    def conversations(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the current rows of conversations, ascending."""
        return self._standing(self.segment.of_conversations(keys))

    def _standing(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        return rows if self.alive is None else rows[self.alive[rows]]

    def rows(self) -> NDArray[np.intp]:
        """Return the current rows."""
        return np.arange(len(self.segment)) if self.alive is None else np.flatnonzero(self.alive)

    def held(self) -> NDArray[np.intp]:
        """Return the current rows as rows of the columns."""
        return self.segment.rows[self.rows()].astype(np.intp)


@attrs.frozen(kw_only=True, eq=False)
class Seen:
    """The part of a corpus that a caller sees, and its statistics.

    Attributes:
        key: The key of the caller; callers who see the same share it.
        masks: The visible rows of each part; None for all.
        rows: The visible rows of each part where they are few, ascending; None where they are many.
        counts: Numbers of records, exchanges and conversations.
        averages: Mean numbers of terms in each of them.
        overtaken: The statements that others overtake.
    """

    key: Hashable
    masks: tuple[NDArray[np.bool_] | None, ...]
    rows: tuple[NDArray[np.intp] | None, ...]
    counts: tuple[int, int, int]
    averages: tuple[float, float, float]
    overtaken: Overtaken

    @classmethod
    def of(cls, key: Hashable, visible: Sequence[VisibleRows], overtaken: Overtaken) -> Seen:
        """Return the view of some visible rows of each part."""
        sums = [attrs.astuple(part.totals) for part in visible]
        records, own, exchange, sessions, session = map(sum, zip(*sums, strict=True)) if sums else (0,) * 5
        return cls(
            key=key,
            masks=tuple(part.mask for part in visible),
            rows=tuple(
                np.flatnonzero(part.mask)
                if part.mask is not None and part.totals.records * _FEW <= len(part.mask)
                else None
                for part in visible
            ),
            counts=(records, records, sessions),
            averages=(own / max(records, 1), exchange / max(records, 1), session / max(sessions, 1)),
            overtaken=overtaken,
        )


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


@attrs.define(eq=False)
class _KnownTerms:
    """A cache of terms by caller and number, bounded in terms and in rows.

    Attributes:
        documents: Document frequencies; see `Occurrences`.
        occurrences: Occurrences in all rows that the caller sees.
    """

    documents: dict[tuple[Hashable, int], tuple[float, ...]] = attrs.field(factory=dict)
    occurrences: dict[tuple[Hashable, int], Occurrences] = attrs.field(factory=dict)
    _rows: int = 0

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        return 12 * self._rows + _KNOWN_TERM * len(self.occurrences) + 2 * OBJECT * len(self.documents)

    def keep(self, key: tuple[Hashable, int], found: Occurrences) -> None:
        """Keep a term; common ones by their document frequencies alone."""
        if len(self.documents) >= _KNOWN_TERMS:
            self.documents.clear()
        self.documents[key] = found.documents
        size = sum(len(hits.rows) for levels in found.levels for hits in levels)
        if size * 8 > _KNOWN_ROWS:
            return
        if self._rows + size > _KNOWN_ROWS or len(self.occurrences) >= _KNOWN_TERMS:
            self.occurrences.clear()
            self._rows = 0
        self.occurrences[key] = found
        self._rows += size


@attrs.frozen(kw_only=True, eq=False)
class Corpus:
    """Everything current at one moment.

    Attributes:
        columns: The assertions, and any appended since.
        moment: The moment.
        counts: Which rows of the columns count at that moment.
        parts: The records.
        pairs: The statements that others overtake, whether they are current or not; see `Updates`.
        vectors: The embeddings known so far; recall by meaning needs a corpus that is `embedded`.
        documents: The assertions in full.
    """

    columns: Columns
    moment: Moment
    counts: NDArray[np.bool_]
    parts: tuple[Part, ...]
    vectors: VectorsView
    documents: Documents
    pairs: Pairs = NO_PAIRS
    _seen: dict[Hashable, Seen] = attrs.field(factory=dict, init=False)
    _terms: _KnownTerms = attrs.field(factory=_KnownTerms, init=False)

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

    @functools.cached_property
    def overtaken(self) -> Overtaken:
        """The current statements that others overtake."""
        return Overtaken.of(self.columns, self.pairs, self.parts)

    def shown(self, sight: Sight) -> Corpus:
        """Return the corpus that a caller may see a part of: without unreviewed records, if these are invisible."""
        reviewed = self._reviewed if sight.reviewed else None
        return self if reviewed is None else reviewed

    @functools.cached_property
    def _reviewed(self) -> Corpus | None:
        """The corpus without records that are `FactDetails.unreviewed`; None if there are none."""
        parts = tuple(new for part in self.parts for new in part.reviewed(self.columns))
        return None if parts == self.parts else attrs.evolve(self, parts=parts)

    def seen(self, sight: Sight) -> Seen:
        """Return what a caller sees of this corpus, which is `shown` to them."""
        key = (self.columns.owner_of(sight.viewer), sight.view)
        known = self._seen.get(key)
        if known is None:
            heads = self.columns.visible_heads(sight)
            visible = [part.visible(key, heads) for part in self.parts]
            known = Seen.of(key, visible, self.overtaken.at(heads[self.columns["head"][self.overtaken.older]]))
            if len(self._seen) >= max_views(len(self)):
                self._seen.clear()
            self._seen[key] = known
        return known

    def names_in(self, terms: Sequence[int], sight: Sight) -> set[int]:
        """Return which terms name somebody: they are the first term of a record that a caller sees, and no role."""
        terms = [term for term in terms if term not in _roles()]
        names: set[int] = set()
        for part, mask in zip(self.parts, self.seen(sight).masks, strict=True):
            for place, speaker in part.segment.leading(terms):
                if mask is None or mask[part.segment.speakers[1] == speaker].any():
                    names.add(terms[place])
        return names

    def term(self, term: Term, seen: Seen, among: Sequence[NDArray[np.bool_]] | None = None) -> Occurrences:
        """Return the occurrences of a term in what a caller sees.

        Args:
            term: The term.
            seen: What the caller sees.
            among: The visible rows of each part that matter, whole conversations; None for all. Document frequencies
                are always those of all visible rows.
        """
        key = (seen.key, term.number)
        whole = self._terms.occurrences.get(key)
        if whole is not None:
            return whole
        documents = self._terms.documents.get(key)
        if documents is not None and among is not None:
            return Occurrences(self._levels(term, among), documents)
        levels = self._levels(term, seen.masks)
        found = Occurrences(levels, tuple(sum(_documents(part[level]) for part in levels) for level in range(3)))
        self._terms.keep(key, found)
        return found

    def _levels(self, term: Term, among: Sequence[NDArray[np.bool_] | None]) -> tuple[tuple[Hits, Hits, Hits], ...]:
        return tuple(
            part.segment.levels(part.segment.occurrences(term, some))
            for part, some in zip(self.parts, among, strict=True)
        )

    def currents(self, records: CurrentRows, *, beside: Sequence[int] = ()) -> list[Current | None]:
        """Return records in full; None for those erased meanwhile. Blocks: for worker threads only.

        Args:
            records: Records of this corpus.
            beside: Other rows, to be read with them because they may be needed next.
        """
        rows: list[list[int]] = [[row] for row in records.rows.tolist()]
        for at in np.flatnonzero(records.counts > 1).tolist():
            rows[at] += said_the_same(self.columns, rows[at][0], self.counts, self.moment).tolist()
        read = iter(self.documents.read([*(row for group in rows for row in group), *beside]))
        return [_current([next(read) for _ in group]) for group in rows]

    def embeddings(self, records: CurrentRows) -> list[NDArray[np.float32] | None]:
        """Return the embeddings of records, of length 1; None for a record with nothing to embed."""
        slots = self._slots(records.rows)
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

    def changed(self, gone: Mapping[int, NDArray[np.intp]], new: CurrentRows, **rest: Any) -> Corpus:
        """Return the corpus after a write.

        Args:
            gone: By part, the rows that are no longer current or are in ``new``; whole conversations.
            new: The records of the new segment.
            rest: The other attributes that change.
        """
        parts = [part.without(gone[number]) if number in gone else part for number, part in enumerate(self.parts)]
        return attrs.evolve(self, parts=grown(rest.get("columns", self.columns), parts, new), **rest)


def grown(columns: Columns, parts: Sequence[Part], new: CurrentRows) -> tuple[Part, ...]:
    """Return parts with a new one, merged with those before it that are not much larger."""
    left = [part for part in parts if len(part)]
    merged = [new]
    size = len(new.rows)
    while left and size and (len(left[-1]) <= _GROWTH * size or _mostly_gone(left[-1])):
        part = left.pop()
        rows = part.rows()
        merged.append(part.segment.current_rows(rows))
        size += len(rows)
    if size:
        left.append(Part(Segment.build(columns, joined(merged))))
    return tuple(left)


@functools.cache
def _roles() -> frozenset[int]:
    return frozenset(term_numbers(analyse(" ".join(role.value for role in Origin))))


def _documents(hits: Hits) -> float:
    return float(np.minimum(hits.counts, 1).sum(dtype=np.float64))


def _mostly_gone(part: Part) -> bool:
    return 2 * len(part) < len(part.segment)


def _current(read: Sequence[Recorded | None]) -> Current | None:
    winner, said = read[0], tuple(item for item in read[1:] if item is not None)
    return None if winner is None else Current(winner, said or (winner,))
