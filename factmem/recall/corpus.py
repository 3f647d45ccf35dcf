"""Everything that can be recalled, as arrays: one row a current record, ready to be scored at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from factmem.fold import Current
from factmem.recall.scoring import B_CONTEXT, B_OWN, K1, idf, lexical, semantic
from factmem.records import Assertion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Corpus", "Document", "Evidences"]


@attrs.frozen
class Document:
    """One current record as recall reads it.

    Attributes:
        current: the record.
        terms: the numbers of its terms, with repetitions.
        vector: its embedding of length 1, or None if there is nothing in it to embed.
    """

    current: Current
    terms: NDArray[np.int32]
    vector: NDArray[np.float32] | None = attrs.field(kw_only=True)


@attrs.frozen(kw_only=True)
class Evidences:
    """What speaks for each row of a corpus: arrays of shape (rows,), each 0 to 1."""

    lexical: NDArray[np.float64]
    semantic: NDArray[np.float64]
    cosine: NDArray[np.float64]


@attrs.frozen(kw_only=True, eq=False)
class Corpus:
    """Rows in the order of their conversations, so that neighbours stand side by side.

    Attributes:
        rows: the records, one a row.
        owners: the owner's number of each row; 0 is public.
        owner_numbers: the number of each owner.
        timestamps: when each was said, in seconds since 1970.
        importance: of each, 0 to 1.
        tracks: an assertion of each place and keyword that there is, to test by these alone.
        track_numbers: which of them each row is like.
    """

    rows: Sequence[Current]
    owners: NDArray[np.int32]
    owner_numbers: Mapping[str | None, int]
    timestamps: NDArray[np.float64]
    importance: NDArray[np.float64]
    tracks: Sequence[Assertion]
    track_numbers: NDArray[np.intp]
    _vectors: NDArray[np.float32] = attrs.field(alias="vectors")
    _postings: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]] = attrs.field(alias="postings")
    _session: NDArray[np.int64] = attrs.field(alias="session")
    _starts: NDArray[np.int64] = attrs.field(alias="starts")
    _follows: NDArray[np.bool_] = attrs.field(alias="follows")
    _lengths: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] = attrs.field(alias="lengths")
    _visible: dict[str | None, _Visible] = attrs.field(factory=dict, init=False)

    @classmethod
    def build(cls, documents: Sequence[Document], *, dimension: int, terms: int) -> Corpus:
        """Lay out documents as arrays.

        Args:
            documents: the current records, in any order.
            dimension: of the vectors.
            terms: how many terms have a number.
        """
        import numpy as np

        documents = sorted(documents, key=_conversation_order)
        rows = [document.current for document in documents]
        keys = [_conversation(current) for current in rows]
        follows = np.array([row > 0 and keys[row] == keys[row - 1] for row in range(len(rows))], dtype=np.bool_)
        session = np.cumsum(~follows) - 1
        owner_numbers = {None: 0} | {
            owner: number
            for number, owner in enumerate(
                dict.fromkeys(row.recorded.assertion.details.owner for row in rows if _is_private(row)), start=1
            )
        }
        vectors = np.zeros((len(rows), dimension), dtype=np.float32)
        for row, document in enumerate(documents):
            if document.vector is not None:
                vectors[row] = document.vector
        said = [row.recorded.assertion for row in rows]
        tracks: dict[tuple[object, ...], tuple[int, Assertion]] = {}
        numbers = [tracks.setdefault((*item.place.key, item.keyword), (len(tracks), item))[0] for item in said]
        own = np.array([len(document.terms) for document in documents], dtype=np.float64)
        return cls(
            rows=rows,
            owners=np.array([owner_numbers[item.details.owner] for item in said], dtype=np.int32),
            owner_numbers=owner_numbers,
            timestamps=np.array([item.timestamp.timestamp() for item in said], dtype=np.float64),
            importance=np.array([item.details.importance for item in said], dtype=np.float64),
            tracks=[item for _, item in tracks.values()],
            track_numbers=np.array(numbers, dtype=np.intp),
            vectors=vectors,
            postings=_postings([document.terms for document in documents], terms),
            session=session,
            starts=np.flatnonzero(~follows),
            follows=follows,
            lengths=(own, _with_neighbours(own, follows), np.bincount(session, own).astype(np.float64)),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def vector(self, row: int) -> NDArray[np.float32] | None:
        """Return the embedding of a row, of length 1; None if there was nothing in it to embed."""
        vector: NDArray[np.float32] = self._vectors[row]
        return vector if vector.any() else None

    def visible(self, viewer: str | None) -> NDArray[np.bool_]:
        """Return which rows a viewer may see: what is public and what is their own."""
        return self._for(viewer).rows

    def evidences(
        self, terms: Sequence[int | None], vector: NDArray[np.float32] | None, viewer: str | None
    ) -> Evidences:
        """Return what speaks for each row; the invisible ones' numbers mean nothing.

        Args:
            terms: the numbers of the query's distinct terms; None for one that no record holds.
            vector: the query's embedding of length 1, or None to go without.
            viewer: who asks; only what they may see counts in the statistics.
        """
        import numpy as np

        cosine = self._vectors @ vector if vector is not None and len(self) else np.zeros(len(self))
        cosine = np.maximum(cosine, 0).astype(np.float64)
        best = np.maximum.reduceat(cosine, self._starts)[self._session] if len(self) else cosine
        return Evidences(
            lexical=lexical(*self._shares(terms, self._for(viewer))),
            semantic=semantic(cosine, best),
            cosine=cosine,
        )

    def _shares(
        self, terms: Sequence[int | None], seen: _Visible
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """The share of the attainable BM25 that each row attains, by its own text, exchange and conversation."""
        import numpy as np

        own, exchange, session = np.zeros(len(self)), np.zeros(len(self)), np.zeros(len(self._starts))
        attainable = np.full(3, 1e-9)
        for term in terms:
            rows, counts = self._posting(term, seen)
            found = (
                (rows, counts),
                self._in_exchanges(rows, counts),
                _summed(self._session[rows], counts),
            )
            for level, (scores, (where, frequency)) in enumerate(zip((own, exchange, session), found, strict=True)):
                weight = idf(len(where), seen.counts[level]) * (K1 + 1)
                attainable[level] += weight
                scores[where] += weight * frequency / (frequency + seen.norms[level][where])
        own_max, exchange_max, session_max = attainable
        spread = session[self._session] if len(self) else session
        return own / own_max, exchange / exchange_max, spread / session_max

    def _posting(self, term: int | None, seen: _Visible) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        starts, rows, counts = self._postings
        # A term may have got its number after this corpus was laid out.
        if term is None or term + 1 >= len(starts):
            return rows[:0], counts[:0]
        posting = slice(starts[term], starts[term + 1])
        if seen.everything:
            return rows[posting], counts[posting]
        kept = seen.rows[rows[posting]]
        return rows[posting][kept], counts[posting][kept]

    def _in_exchanges(
        self, rows: NDArray[np.int64], counts: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        import numpy as np

        after = np.append(self._follows[1:], False)
        has_before, has_after = self._follows[rows], after[rows] if len(self) else self._follows[rows]
        return _summed(
            np.concatenate([rows, rows[has_before] - 1, rows[has_after] + 1]),
            np.concatenate([counts, counts[has_before], counts[has_after]]),
        )

    def _for(self, viewer: str | None) -> _Visible:
        known = self._visible.get(viewer)
        if known is None:
            known = self._visible[viewer] = self._visible_to(viewer)
        return known

    def _visible_to(self, viewer: str | None) -> _Visible:
        import numpy as np

        rows = self.owners == 0
        if viewer is not None and viewer in self.owner_numbers:
            rows |= self.owners == self.owner_numbers[viewer]
        sessions = rows[self._starts] if len(self) else rows
        own, exchange, session = self._lengths
        return _Visible(
            rows=rows,
            everything=bool(rows.all()),
            counts=(int(rows.sum()), int(rows.sum()), int(sessions.sum())),
            norms=(
                _norms(own, rows, B_OWN),
                _norms(exchange, rows, B_CONTEXT),
                _norms(session, np.asarray(sessions), B_CONTEXT),
            ),
        )


@attrs.frozen(kw_only=True, eq=False)
class _Visible:
    """The statistics of what one viewer may see."""

    rows: NDArray[np.bool_]
    everything: bool
    counts: tuple[int, int, int]
    norms: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _norms(lengths: NDArray[np.float64], seen: NDArray[np.bool_], b: float) -> NDArray[np.float64]:
    """BM25's ``k1 · (1 - b + b · length / average)`` of every row, the average over what is seen."""
    average = float(lengths[seen].mean()) if seen.any() else 0.0
    normed: NDArray[np.float64] = K1 * (1 - b + b * lengths / (average or 1.0))
    return normed


def _is_private(current: Current) -> bool:
    return current.recorded.assertion.details.owner is not None


def _conversation(current: Current) -> tuple[Any, ...]:
    """What shares one context: a conversation at one place with one owner; else a record by itself.

    Words never cross a wall: what lies at another place or is somebody's own lends nothing.
    """
    said = current.recorded.assertion
    evidence = said.details.evidence
    if not evidence or evidence[0].conversation_id is None:
        return ("", current.recorded.record_id)
    return (evidence[0].conversation_id, said.place.key, said.details.owner)


def _conversation_order(document: Document) -> tuple[str, ...] | tuple[Any, ...]:
    current = document.current
    said = current.recorded.assertion
    position = said.details.evidence[0].position if said.details.evidence else None
    start = said.details.evidence[0].start if said.details.evidence else None
    return (repr(_conversation(current)), position or 0, start or 0, current.recorded.seq)


def _with_neighbours(lengths: NDArray[np.float64], follows: NDArray[np.bool_]) -> NDArray[np.float64]:
    import numpy as np

    total = lengths.copy()
    if len(lengths):
        total[1:] += np.where(follows[1:], lengths[:-1], 0)
        total[:-1] += np.where(follows[1:], lengths[1:], 0)
    return total


def _summed(keys: NDArray[Any], counts: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    import numpy as np

    where, inverse = np.unique(keys, return_inverse=True)
    return where.astype(np.int64), np.bincount(inverse, counts, minlength=len(where)).astype(np.float64)


def _postings(
    terms_of_rows: Sequence[NDArray[np.int32]], terms: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Rows and counts by term: ``rows[starts[t]:starts[t + 1]]`` hold term ``t``."""
    import numpy as np

    lengths = [len(row) for row in terms_of_rows]
    flat = np.concatenate(terms_of_rows) if terms_of_rows else np.zeros(0, dtype=np.int32)
    keys = flat.astype(np.int64) * max(len(lengths), 1) + np.repeat(np.arange(len(lengths)), lengths)
    pairs, counts = np.unique(keys, return_counts=True)
    term, row = np.divmod(pairs, max(len(lengths), 1))
    starts = np.searchsorted(term, np.arange(terms + 1))
    return starts, row, counts.astype(np.float64)
