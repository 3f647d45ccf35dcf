"""Recall: from a query to the best records of the whole store."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from factmem.facts import Concept
from factmem.fold import Current
from factmem.recall.asking import Query
from factmem.recall.corpus import Corpus
from factmem.recall.diversity import Ranking, diverse
from factmem.recall.filters import RecallFilter
from factmem.recall.folding import Standing
from factmem.recall.narrowing import kept_by_part, without
from factmem.recall.searching import search
from factmem.recall.second_pass import Found
from factmem.records import FactRecord
from factmem.showing import shown_record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.deep import DeepRecall

__all__ = ["RecallMatch", "RecallMatches", "ScoreParts", "hydrate", "ranked"]


@attrs.frozen(kw_only=True)
class ScoreParts:
    """Parts of a score; each from 0 to 1.

    The similarity fuses the evidence of words and of meaning, and is raised by names, times and numbers; see
    `factmem.recall.scoring`. With recency and importance it makes the score; see `Boost` and `Additive`.

    Attributes:
        similarity: similarity of the query and the record; 0 if neither words nor meaning agree.
        lexical: the evidence of words: of the record, its neighbours and its conversation.
        semantic: the evidence of meaning: of the record and its neighbours.
        named: 1 if the query names the speaker, the subject or the concept, else 0.
        dated: closeness to the times that the query names; 0 if it names none.
        cosine: the raw cosine of the two embeddings, 0 if negative. It depends on the embedder, and not on words,
            neighbours or age: compare it with thresholds for near-duplicates.
        recency: 1 for now, halved with each half-life.
        importance: the importance of the record.
    """

    similarity: float
    lexical: float
    semantic: float
    named: float
    dated: float
    cosine: float
    recency: float
    importance: float


@attrs.frozen(kw_only=True)
class RecallMatch:
    """One result of recall.

    Attributes:
        record: the record.
        score: similarity, recency and importance in one number from 0 to 1; see `Boost` and `Additive`. A function of
            the query, the record, its conversation and the statistics of what the viewer sees, never of the other
            results. By `Boost` it is low where nothing answers, and near 0 for a query of no meaning, so that
            ``min_score`` can cut there: on conversations .3 keeps 99 % of the right messages that are among the first
            ten, and nothing for 95 % of such queries. What agrees with the query in meaning alone scores less than
            what shares its words.
        parts: what the score is made of.
        reasons: why it was found, in words: ``lexical``, ``semantic``, ``named``, ``dated``, ``recent``,
            ``important``.
        newer: the newer record that says what became of what this statement says, if there is one: a later
            statement of the same person, or the present value of a fact that was found in the same message. It passes
            the filters of the search. The order of results does not depend on it.
        retracted: whether a fact that was found in this statement's message was retracted or removed since, and not
            restored.
        earlier: what was known before of the same record, newest first, with what became of it; empty unless
            it was asked for.
    """

    record: FactRecord[Any]
    score: float
    parts: ScoreParts
    reasons: tuple[str, ...]
    newer: FactRecord[Any] | None = None
    retracted: bool = False
    earlier: tuple[FactRecord[Any], ...] = ()


class RecallMatches(list[RecallMatch]):
    """The results of a recall, best first.

    Attributes:
        failure: why meaning did not count though it was to, and the results go by words alone; None otherwise. It
            holds no text of the query.
        deep: Report of deep recall; None after a shallow one.
    """

    def __init__(
        self, matches: Iterable[RecallMatch] = (), *, failure: str | None = None, deep: DeepRecall | None = None
    ) -> None:
        super().__init__(matches)
        self.failure: str | None = failure
        self.deep: DeepRecall | None = deep


_PARTS: Final = tuple(field.name for field in attrs.fields(ScoreParts))


def hydrate(current: Current, concepts: Mapping[str, Concept[Any, Any]]) -> FactRecord[Any]:
    """Show a current record as people see it, read as its declared concept where that fits."""
    return shown_record(current.recorded, concepts, details=current.details)


def ranked(
    corpus: Corpus,
    query: Query,
    *,
    wanted: RecallFilter,
    limit: int,
    min_score: float = 0.0,
    concepts: Mapping[str, Concept[Any, Any]],
) -> list[RecallMatch]:
    """Return the true best of all records that the viewer sees and the filter keeps, best first.

    With a `RecallSettings.diversity`, those that add most to the ones before; see `factmem.recall.diversity`.
    Equal scores are ordered by timestamp, newest first, then by a digest of what is said, so that the order
    is the same in every store.

    Args:
        corpus: everything current.
        query: what is looked for, and who asks.
        wanted: which records count.
        limit: how many results at the most.
        min_score: leave out what scores less.
        concepts: the declared concepts by keyword.
    """
    best = functools.partial(_best, corpus, query, kept_by_part(corpus, query.viewer, wanted), min_score)
    diversity = query.settings.diversity
    ranking = diverse(corpus, best, limit, diversity) if diversity else best(limit)
    if ranking is None:
        return []
    shown = enumerate(hydrate(current, concepts) for current in ranking.currents)
    return [_match(record, ranking.found, row) for row, record in shown]


def _best(
    corpus: Corpus, query: Query, keep: Sequence[NDArray[np.intp] | None], min_score: float, limit: int
) -> Ranking | None:
    """Return the best of some rows of each part; None if there are none."""
    while (found := search(corpus, query, keep, limit)) is not None:
        found = found.at(np.flatnonzero(found.score >= min_score))
        if not len(found.rows):
            return None
        best = found.at(_cut(found, np.lexsort((-found.said_at, -found.score)), limit))
        read = corpus.currents(Standing(best.rows, best.rows, counts=best.counts))
        gone = [current is None for current in read]
        if not any(gone):
            there = [(row, current) for row, current in enumerate(read) if current is not None]
            if _has_ties(best):
                there.sort(key=lambda pair: _order(best, *pair))
            ordered = there[:limit]
            return Ranking(best.at(np.array([row for row, _ in ordered])), [current for _, current in ordered])
        # Erased since the corpus was made: others take their places.
        keep = without(corpus, query.viewer, keep, best.rows[gone])
    return None


def _has_ties(best: Found) -> bool:
    """Whether any two rows that stand in order, but for the digests of what is said, have equal scores and times."""
    return bool(((best.score[1:] == best.score[:-1]) & (best.said_at[1:] == best.said_at[:-1])).any())


def _order(found: Found, row: int, current: Current) -> tuple[float, float, bytes]:
    return (-found.score[row], -found.said_at[row], current.recorded.assertion.fingerprint)


def _cut(found: Found, order: NDArray[np.intp], limit: int) -> NDArray[np.intp]:
    """The first rows in an order, with all that equal the last of them in score and time."""
    if limit >= len(order):
        return order
    last = order[limit - 1]
    rest = order[limit:]
    equal = (found.score[rest] == found.score[last]) & (found.said_at[rest] == found.said_at[last])
    return np.concatenate([order[:limit], rest[equal]])


def _match(record: FactRecord[Any], found: Found, row: int) -> RecallMatch:
    parts = ScoreParts(**{name: float(getattr(found, name)[row]) for name in _PARTS})
    reasons = [
        name
        for name, holds in (
            ("lexical", parts.lexical > 0),
            ("semantic", parts.cosine >= 0.3),
            ("named", parts.named > 0),
            ("dated", parts.dated == 1),
            ("recent", parts.recency > 0.5),
            ("important", parts.importance > 0.5),
        )
        if holds
    ]
    return RecallMatch(record=record, score=float(found.score[row]), parts=parts, reasons=tuple(reasons))
