"""A snapshot of everything that can be recalled at one moment, read without a lock.

A corpus is immutable but for caches; its columns may grow, and erased vectors are overwritten. It holds one item per
row of the columns at its moment: which rows are current (`Layout`), and where their neighbours are. A write copies
these arrays and links the conversations that it changes anew; postings are shared.

Statistics are those of what a caller sees (`Corpus.seen`): their own and public records, in the scopes of their view.
They are sums of whole numbers over whole conversations, so that they are exact whatever the order of writes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import attrs
import numpy as np

from factmem.facts import microseconds
from factmem.fold import Current, Moment
from factmem.recall.index.column_fold import NONE_CURRENT, CurrentRows, said_the_same
from factmem.recall.index.columns import Columns
from factmem.recall.index.outline_codec import (
    ALL_ASKED,
    ALL_WHOM,
    ASKED_FROM,
    ASKS,
    ASSISTANT,
    CHANGES,
    DENIES,
    JOB,
    KINDS_FROM,
    POINTS_BACK,
    REMOVED,
    TELLS,
    UNREVIEWED,
    WHOM_FROM,
)
from factmem.recall.index.overtaking import Updated, Updates
from factmem.recall.index.postings import Block, Hits, occurrences
from factmem.recall.index.sizes import OBJECT
from factmem.recall.index.vector_slots import NO_VECTORS, VectorsView
from factmem.recall.scoring import context_weight, idf, length_norm, recency, says_little, words_weight
from factmem.recall.text.related_words import Term
from factmem.views import Sight

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.index.source import Library


Rows: TypeAlias = "NDArray[np.intp]"
"""Rows of the columns."""

Mask: TypeAlias = "NDArray[np.bool_]"
"""Whether each of some rows has a property."""

_KNOWN_TERMS: Final = 4096
"""Number of terms whose figures are cached, and of queries whose occurrences are."""

_KNOWN_ROWS: Final = 250_000
"""Number of rows, of 20 bytes each, that the cached occurrences of queries hold."""

_KNOWN_QUERY: Final = 4000
"""Typical bytes of the cached occurrences of a query, without their rows."""

_FEW: Final = 16
"""A caller sees few rows if they see less than one in this many."""

_NOTHING: Final = np.zeros(1, np.float32)

_VIEWS_ROOM: Final = 4_000_000
"""Maximum size of the cache of visible rows, in bytes, unless that holds fewer than `_LEAST_VIEWS` views."""

_LEAST_VIEWS: Final = 4
_MOST_VIEWS: Final = 128


class Lengths(NamedTuple):
    """Numbers of terms by row: of its own text, of the text with its neighbours, of the conversation that it begins."""

    own: NDArray[Any]
    exchange: NDArray[Any]
    session: NDArray[Any]


@attrs.frozen(kw_only=True, eq=False)
class Layout:
    """The current records and their neighbours: arrays by row of the columns.

    Attributes:
        current: Whether the row is a record.
        firsts: The oldest assertion of the record's value.
        counts: Number of assertions of the record's value.
        before: The record before it in its conversation; -1 for none.
        after: The record after it in its conversation; -1 for none.
        session: The first record of its conversation; a record outside conversations is one of its own.
        exchanges: Number of terms of the record with its neighbours.
        sessions: Number of terms of the conversation that begins with the record.
    """

    current: Mask
    firsts: NDArray[np.int32]
    counts: NDArray[np.int32]
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    session: NDArray[np.int32]
    exchanges: NDArray[np.int32]
    sessions: NDArray[np.int32]

    @classmethod
    def none(cls) -> Layout:
        """Return the layout of no rows."""
        numbers: NDArray[np.int32] = np.empty(0, np.int32)
        names = [field.name for field in attrs.fields(cls) if field.name != "current"]
        return cls(current=np.empty(0, np.bool_), **dict.fromkeys(names, numbers))

    def __len__(self) -> int:
        return len(self.current)

    def changed(self, columns: Columns, size: int, rows: Rows, new: CurrentRows) -> Layout:
        """Return the layout after some rows were folded again.

        Args:
            columns: The assertions.
            size: Number of rows of the new layout.
            rows: All rows of the records that may have changed.
            new: The records that are current among them.
        """
        added = np.arange(len(self), size, dtype=np.int32)
        own, none = columns["terms_count"][len(self) : size], np.full(len(added), -1, np.int32)
        grown = Layout(
            current=np.append(self.current, np.zeros(len(added), np.bool_)),
            firsts=np.append(self.firsts, added),
            counts=np.append(self.counts, np.ones(len(added), np.int32)),
            before=np.append(self.before, none),
            after=np.append(self.after, none),
            session=np.append(self.session, added),
            exchanges=np.append(self.exchanges, own),
            sessions=np.append(self.sessions, own),
        )
        grown.current[rows] = False
        grown.current[new.rows] = True
        grown.firsts[new.rows], grown.counts[new.rows] = new.firsts, new.counts
        grown._link(columns, rows)
        return grown

    def _link(self, columns: Columns, rows: Rows) -> None:
        """Link the records of the conversations of some rows, in the order said.

        Positions count within what was submitted at once: they order what was said at the same time.
        """
        talk, own = columns["talk"][: len(self)], columns["terms_count"]
        keys = talk[rows]
        inside = np.flatnonzero(talk) if len(rows) == len(self) else columns.find("talk", keys[keys > 0])
        inside = inside[inside < len(self)]
        if not len(inside):
            return
        self.before[inside] = self.after[inside] = -1
        self.session[inside] = inside
        self.exchanges[inside] = self.sessions[inside] = own[inside]
        inside = inside[self.current[inside]]
        order = inside[np.lexsort([columns[name][inside] for name in ("seq", "start", "position", "said_at", "talk")])]
        follows = talk[order[1:]] == talk[order[:-1]]
        earlier, later = order[:-1][follows], order[1:][follows]
        self.before[later], self.after[earlier] = earlier, later
        self.exchanges[later] += own[earlier]
        self.exchanges[earlier] += own[later]
        starts = np.append(0, np.flatnonzero(~follows) + 1)[: len(order)]
        self.session[order] = order[starts].repeat(np.diff(starts, append=len(order)))
        self.sessions[order[starts]] = np.add.reduceat(own[order], starts) if len(order) else 0


@attrs.frozen(kw_only=True, eq=False)
class RowWeights:
    """The part of a score that depends on the records alone, by row; see `factmem.recall.scoring.Evidence`.

    Attributes:
        context: The weight of a row's context.
        words: The weight of its words.
        answered: The weight of the row before, if the row answers it: that one ends with a question, or the assistant
            replies to somebody; None if no row answers one.
        little: The share by which the row counts less because it says hardly anything; None if none does.
        change: How clearly the row tells of a change; None if none does.
        importance: From 0 to 1.
    """

    context: NDArray[Any]
    words: NDArray[Any]
    answered: NDArray[Any] | None
    little: NDArray[Any] | None
    change: NDArray[Any] | None
    importance: NDArray[Any]


@attrs.frozen(kw_only=True, eq=False)
class Seen:
    """The part of a corpus that a caller sees, and its statistics.

    Attributes:
        key: What stands for it in caches.
        mask: The visible records; None if these are all rows.
        few: The visible records where they are few, ascending; None where they are many.
        counts: Numbers of records, exchanges and conversations.
        norms: BM25's norm of the numbers of terms in each of them; see `scoring.length_norm`.
        subjects: Whether any visible record is about each subject, by its number.
        people: Whether any visible record is of each person, by the number as a subject; see `Columns.of_heads`.
        concepts: Whether any visible fact is of each concept, by its number.
        facts: The heads of visible facts; see `Columns.of_heads`.
        overtaken: The statements that others overtake.
        followed: Those that others follow.
        others: A cache of which heads are about others than a query asks about that names nobody, by the viewer's name
            and by whether it asks for what is the speaker's own.
    """

    key: object = attrs.field(factory=object, init=False)
    mask: Mask | None
    few: Rows | None
    counts: tuple[int, int, int]
    norms: tuple[tuple[float, float], ...]
    subjects: Mask
    people: Mask
    concepts: Mask
    facts: NDArray[np.integer[Any]]
    overtaken: Updated
    followed: Updated
    others: dict[tuple[str | None, bool, bool], Mask] = attrs.field(factory=dict, init=False)

    @property
    def rows(self) -> Rows:
        """The visible records, ascending."""
        if self.few is not None:
            return self.few
        return np.arange(self.counts[0]) if self.mask is None else np.flatnonzero(self.mask)


@attrs.frozen(eq=False)
class Figures:
    """The figures of a term among what a caller sees, at the three levels.

    Attributes:
        documents: Document frequencies. A document that holds related words only counts as the part of an occurrence
            that they are.
        weights: The idf.
    """

    documents: tuple[float, ...]
    weights: tuple[float, ...]


@attrs.frozen(eq=False)
class Occurrences:
    """The occurrences of the terms of a query.

    Attributes:
        levels: Those in records, exchanges and conversations.
        figures: The figures of each term.
    """

    levels: tuple[Hits, Hits, Hits]
    figures: tuple[Figures, ...]


@attrs.define(eq=False)
class _Known:
    """A cache of terms, bounded in terms and in rows.

    Attributes:
        figures: Those of terms, by caller, and by number.
        queries: The occurrences of all terms of a query in all rows that a caller sees, by caller and numbers.
    """

    figures: dict[object, dict[int, Figures]] = attrs.field(factory=dict)
    queries: dict[tuple[object, tuple[int, ...]], Occurrences] = attrs.field(factory=dict)
    _rows: int = 0

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        return 20 * self._rows + _KNOWN_QUERY * len(self.queries) + 4 * OBJECT * self._terms

    @property
    def _terms(self) -> int:
        return sum(map(len, self.figures.values()))

    def keep(self, key: tuple[object, tuple[int, ...]], found: Occurrences) -> None:
        """Keep the terms of a query."""
        caller, numbers = key
        if self._terms >= _KNOWN_TERMS:
            self.figures.clear()
        self.figures.setdefault(caller, {}).update(zip(numbers, found.figures, strict=True))
        size = sum([len(hits.keys) for hits in found.levels])
        if size * 4 > _KNOWN_ROWS:
            return
        if self._rows + size > _KNOWN_ROWS or len(self.queries) >= _KNOWN_TERMS:
            self.queries.clear()
            self._rows = 0
        self.queries[key] = found
        self._rows += size


@attrs.frozen(kw_only=True, eq=False)
class Corpus:
    """Everything current at one moment.

    Attributes:
        columns: The assertions, and any appended since.
        moment: The moment.
        counts: Which rows of the columns count at that moment.
        layout: The records.
        postings: The rows that hold each term, whether they are current or not.
        slots: By row, the slot of its vector; 0 for none, -1 for one that is not embedded yet.
        updates: The statements that others overtake or follow, whether they are current or not.
        vectors: The embeddings known so far; recall by meaning needs a corpus that is `embedded`.
        documents: The assertions in full.
    """

    columns: Columns
    moment: Moment
    counts: Mask
    layout: Layout
    postings: tuple[Block, ...]
    slots: NDArray[np.int32]
    vectors: VectorsView
    documents: Library
    updates: Updates
    _seen: dict[Hashable, Seen] = attrs.field(factory=dict, init=False)
    _known: _Known = attrs.field(factory=_Known, init=False)
    _recencies: dict[float, NDArray[np.float32]] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        return int(self.layout.current.sum())

    @functools.cached_property
    def lacking(self) -> Rows:
        """The records that are not embedded yet."""
        return np.flatnonzero(self.layout.current & (self.slots < 0))

    @property
    def embedded(self) -> bool:
        """Whether every record has its vector, or nothing to embed."""
        return self.vectors is not NO_VECTORS and not len(self.lacking)

    @functools.cached_property
    def retired(self) -> Rows:
        """The assertions from conversations that are not current, ascending; without texts that wait for a model."""
        columns, moment, size = self.columns, self.moment, len(self.counts)
        left = (columns["conversation"][:size] > 0) & ((columns["flags"][:size] & (JOB | REMOVED)) == 0)
        rows = np.flatnonzero(left & ~self.layout.current)
        if moment.as_of is not None:
            rows = rows[columns["said_at"][rows] <= microseconds(moment.as_of)]
        if moment.known_at is not None:
            rows = rows[columns["recorded_at"][rows] <= microseconds(moment.known_at)]
        return rows

    @functools.cached_property
    def overtaken(self) -> Updated:
        """The current statements that others overtake, each with the newest of these."""
        return self.updates.overtaken.present(self.layout.current).by_newest(self.columns)

    @functools.cached_property
    def followed(self) -> Updated:
        """The current statements that others follow, each with the newest of these."""
        return self.updates.followed.present(self.layout.current).by_newest(self.columns)

    def shown(self, sight: Sight) -> Corpus:
        """Return the corpus that a caller may see a part of: without unreviewed records, if these are invisible."""
        reviewed = self._reviewed if sight.reviewed else None
        return self if reviewed is None else reviewed

    @functools.cached_property
    def _reviewed(self) -> Corpus | None:
        """The corpus without records that are `FactDetails.unreviewed`; None if there are none."""
        flags, size = self.columns["flags"], len(self.layout)
        hidden = np.flatnonzero(self.layout.current & ((flags[:size] & UNREVIEWED) != 0))
        left = self.layout.changed(self.columns, size, hidden, NONE_CURRENT)
        return attrs.evolve(self, layout=left) if len(hidden) else None

    def seen(self, sight: Sight) -> Seen:
        """Return what a caller sees of this corpus, which is `shown` to them."""
        key = (self.columns.owner_of(sight.viewer), sight.view)
        known = self._seen.get(key)
        if known is None:
            if len(self._seen) >= max(_LEAST_VIEWS, min(_MOST_VIEWS, _VIEWS_ROOM // max(len(self.layout), 1))):
                self._seen.clear()
            known = self._seen[key] = self._seen_by(self.columns.visible_heads(sight))
        return known

    def _seen_by(self, heads: Mask) -> Seen:
        columns, layout = self.columns, self.layout
        # A conversation lies in one place and has one owner, so that it is visible as a whole or not at all.
        mask = layout.current & heads[self.heads]
        rows = np.flatnonzero(mask)
        begins = rows[layout.session[rows] == rows]
        counts = (len(rows), len(rows), len(begins))
        sums = (self.lengths.own[rows], layout.exchanges[rows], layout.sessions[begins])
        subjects, people, concepts = (
            np.zeros(len(of), np.bool_) for of in (columns.subjects, columns.subjects, columns.concepts)
        )
        shown = np.unique(self.heads[rows])
        subjects[columns.of_heads("subject")[shown]] = True
        people[columns.of_heads("person")[shown]] = True
        concepts[columns.of_heads("concept")[shown]] = True
        if (statement := columns.concepts.find("")) is not None and statement < len(concepts):
            concepts[statement] = False
        pairs = zip(sums, counts, strict=True)
        return Seen(
            mask=mask if len(rows) < len(mask) else None,
            few=rows if len(rows) * _FEW <= len(mask) else None,
            counts=counts,
            norms=tuple([length_norm(int(of.sum(dtype=np.int64)) / max(count, 1)) for of, count in pairs]),
            subjects=subjects,
            people=people,
            concepts=concepts,
            facts=shown[concepts[columns.of_heads("concept")[shown]]],
            overtaken=self.overtaken.at(mask[self.overtaken.older]),
            followed=self.followed.at(mask[self.followed.older]),
        )

    def named(
        self, terms: Sequence[int], people: Mapping[int, int], seen: Seen, *, speakers: bool = True
    ) -> tuple[list[int], dict[int, int]]:
        """Return the people of what a caller sees that a query names; see `SubjectIndex.named`.

        Args:
            terms: The numbers of the query's terms.
            people: See `SubjectIndex.named`.
            seen: What the caller sees.
            speakers: Whether who says a statement is named, too, beside whom records are about.
        """
        columns = self.columns
        visible = seen.people if speakers else seen.subjects
        return columns.subject_index.named(columns.subjects.texts, terms, people, visible)

    def occurrences(self, terms: Sequence[Term], seen: Seen, among: Mask | None = None) -> Occurrences:
        """Return the occurrences of the terms of a query in what a caller sees.

        Args:
            terms: The terms, one at least.
            seen: What the caller sees.
            among: The visible rows that matter, whole conversations; None for all. Figures are always those of all
                visible rows.
        """
        numbers = tuple([term.number for term in terms])
        found = self._known.queries.get((seen.key, numbers))
        if found is not None:
            return found
        if among is not None and (known := self._known_figures(terms, seen)) is not None:
            return Occurrences(self.levels(terms, among), known)
        levels = self.levels(terms, seen.mask)
        documents = zip(*[hits.documents().tolist() for hits in levels], strict=True)
        found = Occurrences(levels, tuple([Figures(of, tuple(map(idf, of, seen.counts))) for of in documents]))
        self._known.keep((seen.key, numbers), found)
        return found

    def figures(self, terms: Sequence[Term], seen: Seen) -> Sequence[Figures]:
        """Return the figures of some terms, one at least, in what a caller sees."""
        known = self._known_figures(terms, seen)
        return self.occurrences(terms, seen).figures if known is None else known

    def _known_figures(self, terms: Sequence[Term], seen: Seen) -> tuple[Figures, ...] | None:
        """Return the figures of some terms if all are known."""
        known = self._known.figures.get(seen.key, {})
        found = tuple([known[term.number] for term in terms if term.number in known])
        return found if len(found) == len(terms) else None

    def levels(self, terms: Sequence[Term], among: Mask | None) -> tuple[Hits, Hits, Hits]:
        """Return the occurrences of terms at the three levels."""
        layout, count = self.layout, len(terms)
        own = occurrences(self.postings, terms, among, len(layout))
        if self.single:
            return own, own, own
        rows = own.rows
        begins = own.keys - rows
        beside = np.concatenate([layout.before[rows], layout.after[rows]])
        (there,) = (beside >= 0).nonzero()
        near = np.concatenate([begins, begins])[there] + beside[there]
        often = np.concatenate([own.counts, own.counts])[there]
        keys, counts = np.concatenate([own.keys, near]), np.concatenate([own.counts, often])
        exchange = Hits.of(keys, counts, len(layout), count)
        return own, exchange, Hits.of(begins + layout.session[rows], own.counts, len(layout), count)

    @functools.cached_property
    def single(self) -> bool:
        """Whether every conversation has one record, as where messages are remembered one by one."""
        return not (self.layout.before >= 0).any()

    @functools.cached_property
    def grouped(self) -> Mask:
        """Whether each row is in a conversation with others."""
        return (self.layout.before >= 0) | (self.layout.after >= 0)

    @functools.cached_property
    def heads(self) -> NDArray[np.int32]:
        """The head of each row."""
        return self._column("head")

    @functools.cached_property
    def points_back(self) -> Mask:
        """Whether each row names a time before its own."""
        return self._column("tells") & POINTS_BACK != 0

    @functools.cached_property
    def denies(self) -> Mask:
        """Whether each row is a fact that says that something is not so."""
        return self._column("tells") & DENIES != 0

    @functools.cached_property
    def kinds(self) -> NDArray[np.uint8]:
        """The kinds of values that each row holds; see `factmem.recall.text.signs.Kind`."""
        return (self._column("signs") >> KINDS_FROM).astype(np.uint8)

    @functools.cached_property
    def kinds_held(self) -> int:
        """The kinds of values that any record holds."""
        return int(np.bitwise_or.reduce(self.kinds[self.layout.current]))

    @functools.cached_property
    def assistant(self) -> Mask | None:
        """Whether the assistant said each row; None if it said none."""
        return _some((self._column("signs") & ASSISTANT) != 0)

    @functools.cached_property
    def said_at(self) -> NDArray[np.float64]:
        """When each row was said, in seconds since 1970."""
        return self._column("said_at") / 1e6

    @functools.cached_property
    def lengths(self) -> Lengths:
        """The lengths of the documents of the three levels."""
        return Lengths(self._column("terms_count"), self.layout.exchanges, self.layout.sessions)

    @functools.cached_property
    def short_lengths(self) -> Lengths:
        """The lengths in single precision."""
        return Lengths(*(lengths.astype(np.float32) for lengths in self.lengths))

    def _column(self, name: str) -> NDArray[Any]:
        return self.columns[name][: len(self.layout)]

    @functools.cached_property
    def short_weights(self) -> RowWeights:
        """The weights of all rows, in single precision."""
        return self.weights(slice(None), np.float32)

    @functools.cached_property
    def answers(self) -> Mask | None:
        """Whether each row answers the row before; None if none does. See `RowWeights.answered`."""
        before, signs = self.layout.before, self._column("signs")
        answers: Mask = (before >= 0) & ((signs[before] & ASKS) != 0)
        if self.assistant is not None:
            answers |= (before >= 0) & self.assistant & ~self.assistant[before]
        return _some(answers)

    @functools.cached_property
    def told_of(self) -> NDArray[Any]:
        """Of whom each row tells; see `factmem.recall.text.signs.Whom`."""
        return self._column("tells") >> WHOM_FROM & ALL_WHOM

    @functools.cached_property
    def _little(self) -> NDArray[np.float32] | None:
        """The share by which each row counts less because it says hardly anything; None if none does."""
        tells = self._column("tells")
        return _some(says_little(self.lengths.own, tells & TELLS != 0, (tells >> ASKED_FROM & ALL_ASKED) / ALL_ASKED))

    @functools.cached_property
    def _changes(self) -> Mask | None:
        """Whether each row tells of a change; None if none does."""
        return _some(self._column("tells") & CHANGES != 0)

    def weights(self, rows: Rows | slice, precision: type[np.floating[Any]] = np.float64) -> RowWeights:
        """Return the weights of some rows."""
        own, grouped = self.lengths.own, self.grouped[rows]
        length = own[rows].astype(precision)
        context = context_weight(grouped, length)
        answered: NDArray[Any] | None = None
        if self.answers is not None:
            answered = context_weight(self.answers[rows], own[self.layout.before[rows]].astype(precision))
        return RowWeights(
            context=context,
            words=words_weight(grouped, context).astype(precision),
            answered=answered,
            little=None if self._little is None else self._little[rows].astype(precision),
            change=None if self._changes is None else context_weight(self._changes[rows], length),
            importance=self._column("importance")[rows].astype(precision),
        )

    @functools.cached_property
    def _newest(self) -> float:
        """When the newest row was said, in seconds since 1970."""
        return float(self.said_at.max())

    def recency(self, half_life_days: float, now: float) -> NDArray[np.float32]:
        """Return the recency of all rows, in single precision: that when the newest was said, lowered since."""
        if now < self._newest:
            return recency((now - self.said_at).astype(np.float32), half_life_days)
        if half_life_days not in self._recencies:
            self._recencies.clear()
            self._recencies[half_life_days] = recency((self._newest - self.said_at).astype(np.float32), half_life_days)
        lowered = recency(np.array([now - self._newest], np.float32), half_life_days)
        return self._recencies[half_life_days] * lowered

    def cosines(self, dots: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inner products of the rows, from those of all slots; a copy."""
        found: NDArray[np.float32] = dots[self._places]
        return found.copy() if isinstance(self._places, slice) else found

    @functools.cached_property
    def _places(self) -> slice | NDArray[np.int32]:
        """The places of the rows among all slots."""
        first = int(self.slots[0])
        in_a_row = first > 0 and (np.diff(self.slots) == 1).all()
        return slice(first, first + len(self.slots)) if in_a_row else np.maximum(self.slots, 0)

    def near(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the mean of each row's value and its neighbours'."""
        if self.single:
            return values
        padded: NDArray[np.float32] = np.concatenate([values, _NOTHING])  # -1 is the place of the last one
        mean = values + padded[self.layout.before]
        mean += padded[self.layout.after]
        mean *= self._shares_of_neighbours
        return mean

    @functools.cached_property
    def _shares_of_neighbours(self) -> NDArray[np.float32]:
        together = 1 + (self.layout.before >= 0).astype(np.float32) + (self.layout.after >= 0)
        return (1 / together).astype(np.float32)

    def around(self, rows: Rows | Mask) -> Mask:
        """Return a mask of some records, given as rows or by a mask, and of the conversations that they are in."""
        begin = np.zeros(len(self.layout), np.bool_)
        begin[self.layout.session[rows]] = True
        around: Mask = begin[self.layout.session]
        around &= self.layout.current
        return around

    def currents(self, records: Rows, *, beside: Sequence[int] = ()) -> list[Current | None]:
        """Return records in full; None for those erased meanwhile. Blocks; see `factmem.short_work`.

        Args:
            records: Rows of records of this corpus.
            beside: Other rows, to be read with them because they may be needed next.
        """
        rows = records.tolist()
        several = (self.layout.counts[records] > 1).nonzero()[0].tolist()
        same = {at: said_the_same(self.columns, rows[at], self.counts, self.moment).tolist() for at in several}
        read = iter(self.documents.read([*rows, *itertools.chain.from_iterable(same.values()), *beside]))
        found = [None if item is None else Current(item, (item,)) for item in itertools.islice(read, len(rows))]
        for at, others in same.items():
            said = tuple(filter(None, itertools.islice(read, len(others))))
            if said and (current := found[at]) is not None:
                found[at] = Current(current.recorded, said)
        return found

    def embeddings(self, records: Rows) -> list[NDArray[np.float32] | None]:
        """Return the embeddings of records, of length 1; None for a record with nothing to embed."""
        slots = np.maximum(self.slots[records], 0)
        vectors = self.vectors.take(slots)
        return [vector if slot > 0 else None for vector, slot in zip(vectors, slots.tolist(), strict=True)]


def _some(of_rows: NDArray[Any]) -> NDArray[Any] | None:
    """Return the values of all rows, or None if no row has one."""
    return of_rows if of_rows.any() else None
