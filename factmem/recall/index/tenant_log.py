"""A tenant's log in memory with its current records, updated write by write."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from factmem.abc.capabilities import ScansVectors
from factmem.abc.outlines import number_of_id
from factmem.facts import microseconds
from factmem.fold import Moment
from factmem.recall.index.column_fold import CurrentRows, affected, counting, current_rows, takes_part
from factmem.recall.index.columns import Columns, Growing, Rows, among
from factmem.recall.index.corpus import Corpus, Layout
from factmem.recall.index.outline_codec import NEVER, STATES, outlines_of
from factmem.recall.index.overtaking import UpdateFinder
from factmem.recall.index.postings import Block, extended
from factmem.recall.index.selection import LogPart, rows_of
from factmem.recall.index.sizes import nbytes
from factmem.recall.index.source import Held, Library, rows_in_outline
from factmem.recall.index.vector_slots import NO_VECTORS, HeldVectors, StoredVectors, VectorsView
from factmem.records import AssertionState, LogEntry, Recorded, StateChange, Tombstone
from factmem.text_caches import forget_texts
from factmem.views import Sight

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NOWHERE = -1
"""The slot of a row that is not embedded yet."""


_WAITING = [
    STATES.index(state) for state in (AssertionState.QUARANTINED, AssertionState.PENDING, AssertionState.FAILED)
]

_CHANGED: Final = {"row": np.intp, "state": np.uint8, "seq": np.int64, "recorded_at": np.int64}
"""Columns of the changes of state."""

_CHANGE = 600
"""Typical bytes of a change of state; more than an erasure takes."""

_MOST_REUSED: Final = 64
"""Number of times that a size is reused before it is measured anew: that walks all that is held, and each read asks."""


class TenantLog:
    """The log of a tenant as columns, with its current records.

    Methods block and are called from one worker thread at a time.

    Args:
        tenant: The tenant.
        documents: The assertions in full; None to hold them in memory.

    Attributes:
        erasures: Everything erased, in order.
        newest: The newest sequence number.
    """

    def __init__(self, tenant: str | None, documents: Library | None = None) -> None:
        self._columns = Columns(tenant)
        self.documents: Library = documents or Held()
        self.erasures: list[Tombstone] = []
        self._changes: list[StateChange] = []
        self._changed = Growing(_CHANGED)
        self._touched: list[NDArray[np.intp]] = []
        self._vectors: HeldVectors | StoredVectors | None = None
        self._now: Corpus | None = None
        self._updates = UpdateFinder()
        self._postings: tuple[Block, ...] = ()
        self._expires = NEVER
        self._nbytes = self._measured_at = self._reused = 0
        self.newest: int = 0

    def take_in(self, entries: Iterable[LogEntry], rows: Rows | None = None) -> None:
        """Append to the log.

        Args:
            entries: Changes, and assertions in full.
            rows: Assertions as rows of the columns.
        """
        new = list(entries)
        erased = [entry for entry in new if isinstance(entry, Tombstone)]
        self.newest = max([self.newest, *(entry.seq for entry in new)])
        self.erasures += erased
        if rows is not None:
            self._add_rows(rows)
        added = [entry for entry in new if isinstance(entry, Recorded)]
        self.documents.add(added)
        self._add_rows(rows_in_outline(added, outlines_of([recorded.assertion for recorded in added])))
        self._change([entry for entry in new if isinstance(entry, StateChange)])
        self._erase([entry.assertion_id for entry in erased])

    def log(self, part: LogPart | None = None) -> Sequence[LogEntry]:
        """Return the log, or a part of it, without erased assertions."""
        if part is None:
            return [*self._in_full(range(len(self._columns))), *self._changes]
        rows = rows_of(self._columns, part, self.documents)
        changes = np.flatnonzero(among(self._changed["row"], rows)).tolist()
        return [*self._in_full(rows.tolist()), *(self._changes[change] for change in changes)]

    def actions(self, part: LogPart, since: dt.datetime | None, until: dt.datetime | None) -> dict[int, int]:
        """Return the actions on the assertions of a part: the number of the assertion by the number of the action.

        Args:
            part: The part.
            since: Only actions recorded at this time or later.
            until: Only actions recorded before this time.
        """
        rows, changes, columns = rows_of(self._columns, part, self.documents), self._changed, self._columns
        inside = among(changes["row"], rows)
        on = np.concatenate([rows, changes["row"][inside]])
        numbers = np.concatenate([columns["seq"][rows], changes["seq"][inside]])
        at = np.concatenate([columns["recorded_at"][rows], changes["recorded_at"][inside]])
        meant = np.ones(len(on), np.bool_) if since is None else at >= microseconds(since)
        meant &= True if until is None else at < microseconds(until)
        return dict(zip(numbers[meant].tolist(), columns["seq"][on[meant]].tolist(), strict=True))

    def _in_full(self, rows: Sequence[int]) -> Iterable[Recorded]:
        return (item for item in self.documents.read(rows) if item is not None)

    def waiting(self, sight: Sight) -> int:
        """Return the number of assertions that wait to be accepted and are visible to a caller.

        These are the quarantined ones, and those that wait for a model and do not count meanwhile.
        """
        columns = self._columns
        waits = among(columns["state"], _WAITING) & ~takes_part(columns["state"], columns["flags"])
        if not waits.any():
            return 0
        return int(columns.visible_heads(sight)[columns["head"][waits]].sum())

    @property
    def nbytes(self) -> int:
        """The size in memory, with all caches, in bytes, as it was measured a little earlier."""
        self._reused += 1
        if self._reused > _MOST_REUSED or self.newest > self._measured_at + self._measured_at // 16:
            held = nbytes(self._columns, self.documents, self._vectors, self._now, self._touched, self._updates)
            self._nbytes = held + _CHANGE * (len(self._changes) + len(self.erasures))
            self._measured_at, self._reused = self.newest, 0
        return self._nbytes

    @property
    def size(self) -> int:
        """The number of assertions."""
        return len(self._columns)

    def up_to_date(self, moment: Moment) -> Corpus | None:
        """Return the current records; None if that takes any work."""
        if self._touched or not self._later(moment) or microseconds(moment.now) >= self._expires:
            return None
        return self._now

    def use_vectors(self, dimension: int, store: ScansVectors | None, most: int | None) -> bool:
        """Set the dimension and the place of vectors; return whether those in memory were dropped.

        Args:
            dimension: Dimension of the vectors.
            store: Store that can scan its vectors; None if it cannot.
            most: Maximum size of the vectors in memory, in bytes; unlimited if None.
        """
        if self._vectors is None or self._vectors.dimension != dimension:
            self._vectors = HeldVectors(dimension)
        too_many = most is not None and 4 * dimension * len(self._columns) > most
        if store is None or not too_many or self.vectors_stay:
            return False
        self.drop_vectors()
        self._vectors = StoredVectors(dimension, store, self._columns.tenant)
        return True

    @property
    def vectors_stay(self) -> bool:
        """Whether the vectors are left in the store."""
        return isinstance(self._vectors, StoredVectors)

    def corpus(self, moment: Moment, *, present: bool) -> Corpus:
        """Return the records at a moment, with the vectors known so far.

        Args:
            moment: The moment.
            present: Whether that is now, so that only the rows that changed since the corpus before are folded.
        """
        before = self._now if present and self._later(moment) else None
        corpus = self._built(moment) if before is None else self._brought_up_to_date(before, moment)
        if present:
            expires = self._columns["expires_at"]
            self._now, self._touched = corpus, []
            self._expires = int(np.min(expires, where=expires > microseconds(moment.now), initial=NEVER))
        return corpus

    def _built(self, moment: Moment) -> Corpus:
        """Fold all rows."""
        counts: NDArray[np.bool_] = counting(self._columns, moment, self._changed)
        current = current_rows(self._columns, moment, np.flatnonzero(counts))
        return self._laid_out(moment, counts, Layout.none(), np.arange(len(self._columns)), current)

    def _brought_up_to_date(self, before: Corpus, moment: Moment) -> Corpus:
        """Fold the rows that changed since a corpus, or expired."""
        since, until = microseconds(before.moment.now), microseconds(moment.now)
        expires = self._columns["expires_at"]
        expired = np.flatnonzero((expires > since) & (expires <= until))
        rows = affected(self._columns, np.unique(np.concatenate([*self._touched, expired])))
        counts = np.zeros(len(self._columns), np.bool_)
        counts[: len(before.counts)] = before.counts
        counts[rows] = counting(self._columns, moment, self._changed, rows)
        current = current_rows(self._columns, moment, rows[counts[rows]])
        return self._laid_out(moment, counts, before.layout, rows, current)

    def _laid_out(
        self, moment: Moment, counts: NDArray[np.bool_], layout: Layout, rows: NDArray[np.intp], current: CurrentRows
    ) -> Corpus:
        """Return a corpus, after some rows were folded again; see `Layout.changed`."""
        columns = self._columns
        self._postings = extended(self._postings, columns, len(columns))
        return Corpus(
            columns=columns,
            moment=moment,
            counts=counts,
            layout=layout.changed(columns, len(columns), rows, current),
            postings=self._postings,
            slots=columns["slot"].copy(),
            updates=self._updates.of(columns),
            vectors=self._view(),
            documents=self.documents,
        )

    def embedded(self, corpus: Corpus, *, present: bool) -> tuple[Corpus, list[int]]:
        """Return a corpus with the vectors known so far, and the assertions that lack theirs.

        Args:
            corpus: The current corpus; nothing was appended since.
            present: Whether it is the present one, on which later ones build.

        Returns:
            The corpus, and the numbers of ids; see `factmem.abc.outlines.number_of_id`.
        """
        corpus = attrs.evolve(corpus, slots=self._columns["slot"][: len(corpus.slots)].copy(), vectors=self._view())
        if len(corpus.lacking):
            return corpus, self._columns["id"][corpus.lacking].tolist()
        if present:
            self._now = corpus
        return corpus, []

    def assertions(self, ids: Sequence[int]) -> list[Recorded | None]:
        """Return assertions in full, by the numbers of their ids; None for erased ones."""
        rows = self._rows_of(ids)
        read = iter(self.documents.read([row for row in rows if row is not None]))
        return [None if row is None else next(read) for row in rows]

    def _rows_of(self, ids: Sequence[int]) -> list[int | None]:
        rows = self._columns.find("id", ids)
        found = dict(zip(self._columns["id"][rows].tolist(), rows.tolist(), strict=True))
        return [found.get(id) for id in ids]

    def take_stored_vectors(self, seqs: Sequence[int] | NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Add vectors that the store keeps.

        Args:
            seqs: The sequence numbers of their assertions, ascending.
            rows: The vectors, one a row; of width 0 if they stay in the store.
        """
        numbers, known, slots = np.asarray(seqs, np.int64), self._columns["seq"], self._columns["slot"]
        if not len(known):
            return
        at = np.minimum(known.searchsorted(numbers), len(known) - 1)
        there = (known[at] == numbers) & (slots[at] == _NOWHERE)
        slots[at[there]] = self._place(numbers[there], rows if there.all() else rows[there])

    def take_vectors(self, made: Mapping[int, NDArray[np.float32] | None]) -> None:
        """Add vectors by the numbers of their assertions' ids; None for a text without anything to embed.

        Assertions that were erased or embedded meanwhile are skipped.
        """
        slots = self._columns["slot"]
        pairs = zip(self._rows_of(list(made)), made.values(), strict=True)
        new = [(row, vector) for row, vector in pairs if row is not None and slots[row] == _NOWHERE]
        slots[[row for row, _ in new]] = 0
        some = [(row, vector) for row, vector in new if vector is not None]
        if some:
            rows = np.array([row for row, _ in some], np.intp)
            slots[rows] = self._place(self._columns["seq"][rows], np.array([vector for _, vector in some], np.float32))

    def drop_vectors(self) -> None:
        """Drop all vectors."""
        self._vectors, self._now = None, None
        self._columns["slot"][:] = _NOWHERE

    def vector(self, assertion_id: str) -> NDArray[np.float32] | None:
        """Return the vector of an assertion, or None."""
        rows = self._columns.find("id", [number_of_id(assertion_id)])
        slots = self._columns["slot"][rows]
        vectors = self._vectors  # another thread may drop them
        if vectors is None or not (slots > 0).any():
            return None
        return vectors.view().take(slots[slots > 0])[0]

    def _view(self) -> VectorsView:
        return NO_VECTORS if self._vectors is None else self._vectors.view()

    def _add_rows(self, rows: Rows) -> None:
        first = len(self._columns)
        self._columns.add(rows)
        self.newest = max(self.newest, *rows.seqs[-1:], 0)
        if len(self._columns) > first:
            self._touched.append(np.arange(first, len(self._columns)))
            self.documents.seqs = self._columns["seq"]

    def _change(self, changed: Sequence[StateChange]) -> None:
        if not changed:
            return
        found = self._rows_of([number_of_id(change.assertion_id) for change in changed])
        changes = [change for change, row in zip(changed, found, strict=True) if row is not None]
        rows = np.array([row for row in found if row is not None], np.intp)
        states = [STATES.index(change.state) for change in changes]
        self._columns["state"][rows] = states  # of several for one row the last one
        self._changes += changes
        self._changed.append(
            row=rows,
            state=states,
            seq=[change.seq for change in changes],
            recorded_at=[microseconds(change.recorded_at) for change in changes],
        )
        self._touched.append(rows)

    def _erase(self, ids: Sequence[str]) -> None:
        """Erase assertions from the columns and from all caches of words."""
        if not ids:
            return
        rows = self._columns.find("id", map(number_of_id, ids))
        if not len(rows):
            forget_texts()  # this process may have read them without holding them here
            return
        if self._vectors is not None:
            self._vectors.erase(self._columns["slot"][rows])
        self._columns, left = self._columns.without(rows)
        self.documents = self.documents.without(left)
        self.documents.seqs = self._columns["seq"]
        changed, self._changed = self._changed, Growing(_CHANGED)
        kept = among(changed["row"], left)
        self._changes = [*itertools.compress(self._changes, kept)]
        arrays = {name: changed[name][kept] for name in _CHANGED}
        self._changed.append(**arrays | {"row": left.searchsorted(arrays["row"])})
        self._now, self._touched, self._updates, self._postings = None, [], UpdateFinder(), ()
        forget_texts()

    def _place(self, seqs: NDArray[np.int64], vectors: NDArray[np.float32]) -> NDArray[np.int32]:
        assert self._vectors is not None
        return self._vectors.append(seqs, vectors)

    def _later(self, moment: Moment) -> bool:
        return self._now is not None and self._now.moment.now <= moment.now
