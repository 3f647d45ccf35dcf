"""Results of recall: matches with their scores and reasons, and the report of a deep recall."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.abc.question_analyst import Complexity, Gap
from factmem.facts import STATEMENT, Concept
from factmem.fold import Current
from factmem.languages import QUESTION_MARKS
from factmem.recall.queries import Compared
from factmem.recall.scoring import ANSWERS, confidence
from factmem.recall.text.times import TimeSpan
from factmem.records import FactRecord, shown_record
from factmem.sentences import tells

FIRST_RESULTS: Final = 10
"""Number of first results that the confidence is computed from."""


@attrs.frozen(kw_only=True)
class ScoreParts:
    """Parts of a score, each from 0 to 1.

    The similarity fuses the evidence of words and of meaning; names, times and numbers raise it. With recency and
    importance it makes the score. See `factmem.recall.scoring`.

    Attributes:
        similarity: Similarity of the query and the record; 0 if neither words nor meaning agree.
        lexical: Evidence of words: of the record, its neighbours and its conversation.
        semantic: Evidence of meaning: of the record and its neighbours.
        named: 1 if the query names the speaker, the subject or the concept, else 0.
        other: 1 if the record is about others than the query asks about: than it names, or than the viewer. A statement
            is its speaker's, or else of the individual that is its subject, and about whom it mentions, unless they
            take part in the conversation.
        dated: Closeness to the times that the query names, 1 if the record names their day; 0 if it names none.
        cosine: Raw cosine of the two embeddings, 0 if negative. It depends on the embedder, and not on words,
            neighbours or age: compare it with thresholds for near-duplicates.
        recency: 1 for now, halved with each half-life.
        importance: Importance of the record.
        reranked: Score by the memory's reranker, of any range; None if it did not read the record.
    """

    similarity: float
    lexical: float
    semantic: float
    named: float
    other: float
    dated: float
    cosine: float
    recency: float
    importance: float
    reranked: float | None = None

    def by_name(self) -> dict[str, float]:
        """Return the parts by name, without what was not measured."""
        return {name: part for name, part in attrs.asdict(self).items() if part is not None}


@attrs.frozen(kw_only=True)
class RecallMatch:
    """One result of recall.

    Attributes:
        record: The record.
        score: Similarity, recency and importance in one number from 0 to 1; see `Boost` and `Additive`. It is a
            function of the query, the record, its conversation and the statistics of what the caller may see, never of
            the other results. With `Boost` it is low if nothing answers, and near 0 for a query without meaning, so
            that ``min_score`` can cut there: on conversations .3 keeps 99 % of the right messages that are among the
            first ten, and nothing for 95 % of such queries. A record that agrees in meaning alone scores less than
            one that shares words.
        parts: Parts of the score.
        reasons: Reasons for the match: ``lexical``, ``semantic``, ``named``, ``dated``, ``recent``, ``important``,
            ``newest`` (it overtakes or follows a statement that answers better, and scores like it), ``linked``.
        path: Records whose values are subjects, which led from the subject that the question names to that of this
            record, in order; empty without ``linked``. Their fit raises the score.
        newer: The newest record that overtakes this statement, if there is one: a later statement of the same matter
            and person, which scores higher, or the present value of a fact that was found in the same message. Of the
            filters only places change it.
        retracted: Whether a fact that was found in this statement's message was retracted or removed since, and not
            restored.
        earlier: Earlier revisions of the record, newest first, each with its state; empty unless requested.
    """

    record: FactRecord[Any]
    score: float
    parts: ScoreParts
    reasons: tuple[str, ...]
    path: tuple[FactRecord[Any], ...] = ()
    newer: FactRecord[Any] | None = None
    retracted: bool = False
    earlier: tuple[FactRecord[Any], ...] = ()

    def __repr__(self) -> str:
        newer = f", newer={self.newer!r}" if self.newer else ""
        return f"RecallMatch({self.score:.2f}, {self.record!r}, because={', '.join(self.reasons)!r}{newer})"


@attrs.frozen(kw_only=True)
class DeepRecall:
    """The result of deep recall, with an account of its course.

    Attributes:
        matches: The best records, best first, each with its score for the question itself. Matches of a search by a
            hint have ``time``, ``scope`` or ``concept`` among their reasons.
        confidence: From 0 to 1; see `factmem.recall.deep`.
        questions: All questions searched for, the question itself first.
        times: Intervals of additional searches: those that the question names or the model proposes.
        scopes: Paths of the scopes of additional searches.
        complexity: Complexity of the question, if the model was asked.
        rounds: Number of rounds of asking what is missing.
        gaps: What is still missing, if the model was asked.
        calls: Number of questions to the model.
        tokens: Number of tokens that they took, as far as the endpoint reports them.
        failure: The reason why the model could not be asked or its answer not be used; None for none. The result
            holds what was found without it.
    """

    matches: tuple[RecallMatch, ...]
    confidence: float
    questions: tuple[str, ...]
    times: tuple[TimeSpan, ...] = ()
    scopes: tuple[str, ...] = ()
    complexity: Complexity = Complexity.SIMPLE
    rounds: int = 0
    gaps: tuple[Gap, ...] = ()
    calls: int = 0
    tokens: int = 0
    failure: str | None = None


class RecallMatches(list[RecallMatch]):
    """The results of a recall, best first.

    Attributes:
        confidence: The confidence that any of the ten best results answers, from 0 to 1, comparable across embedders;
            after a deep recall, of the ten best for the question itself. The limit makes no difference to it.
        failure: The reasons why the results go by words alone although meaning was requested, or are not reranked
            although there is a reranker; None otherwise. It holds no text of the query.
        deep: The report of a deep recall; None after a shallow one.
    """

    def __init__(
        self,
        matches: Iterable[RecallMatch] = (),
        *,
        confidence: float = 0.0,
        failure: str | None = None,
        deep: DeepRecall | None = None,
    ) -> None:
        super().__init__(matches)
        self.confidence: float = confidence
        self.failure: str | None = failure
        self.deep: DeepRecall | None = deep

    def __repr__(self) -> str:
        return "[" + ",\n ".join(map(repr, self)) + "]"

    @property
    def answers(self) -> bool:
        """Whether anything answers: the confidence is high enough, or a model has found the results by its questions.

        Results are returned in any case, for they may be useful. It is a matter of degree: about one in twenty
        questions with an answer seems to have none. Among hundreds of short facts hardly any question seems to: one
        about the same person or the same matter scores like the answer.
        """
        return (self.deep is not None and self.deep.calls > 0) or self.confidence >= ANSWERS


def confidence_in(matches: Sequence[RecallMatch], compared: Compared, *, known: bool) -> float:
    """Return the confidence that any of the first matches answers; see `factmem.recall.scoring.confidence`.

    Args:
        matches: The matches, best first.
        compared: The records that the query was compared with.
        known: Whether the embedder knows the words of the query; if not, only those of the matches count.
    """
    told: list[tuple[float, float, float, bool, bool]] = []
    for match in matches[:FIRST_RESULTS]:
        fact, parts = match.record.fact, match.parts
        is_statement = fact.concept.keyword == STATEMENT.keyword
        text = str(fact.values[0]) if is_statement else ""
        if text.rstrip().endswith(QUESTION_MARKS) and not tells(text):
            continue  # it was asked before, and answers nothing
        told.append((parts.similarity, parts.lexical, parts.semantic, parts.other > 0, is_statement))
    if not told:
        return 0.0
    similarity, lexical, semantic, other, said = zip(*told, strict=True)
    by_words = not known or not any(semantic)
    meaning, held = (lexical, 1.0) if by_words else (semantic, compared.held)
    alike = similarity if known else lexical
    fits = [
        (words + means) / 2 if is_statement else whole
        for words, means, is_statement, whole in zip(lexical, meaning, said, alike, strict=True)
    ]
    return confidence(similarity=alike, semantic=meaning, fits=fits, other=other, among=compared.records, held=held)


def hydrate(current: Current, concepts: Mapping[str, Concept[Any, Any]]) -> FactRecord[Any]:
    """Return a current record as users see it, read as its declared concept if that fits."""
    return hydrated([current], concepts)[0]


def hydrated(several: Sequence[Current], concepts: Mapping[str, Concept[Any, Any]]) -> list[FactRecord[Any]]:
    """Return current records as users see them; see `hydrate`."""
    found: list[FactRecord[Any]] = []
    for current in several:
        recorded = current.recorded
        alone = len(current.said) == 1 and recorded.assertion.keyword not in concepts
        shared = recorded.shared_record if alone else None
        found.append(shown_record(recorded, concepts, details=current.details) if shared is None else shared)
    return found
