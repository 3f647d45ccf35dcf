"""Which questions newcomers raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from factmem.abc import Known, Novelty
from factmem.consolidation.newcomers import Newcomer, Vector, Walls, is_statement, rank_of, text_of, walls_of
from factmem.consolidation.policy import ConsolidationPolicy
from factmem.consolidation.similarity import ROUNDING, Directions
from factmem.consolidation.survey import Standing, Survey
from factmem.records import Assertion, MetadataMerge, merged_metadata

__all__ = ["Fellow", "Question", "Shown", "questions_about"]


@attrs.frozen(eq=False)
class Fellow:
    """Another newcomer of the batch, which a wish to forget may mean as well.

    Attributes:
        number: its place in the batch.
        newcomer: what it says.
    """

    number: int
    newcomer: Newcomer

    @property
    def said(self) -> Assertion:
        """What was said."""
        return self.newcomer.assertion

    @property
    def vector(self) -> Vector:
        """Its embedding, or None."""
        return self.newcomer.vector


Shown: TypeAlias = Standing | Fellow
"""What a question can be about."""


@attrs.frozen(kw_only=True, eq=False)
class Question:
    """A question about one newcomer.

    Attributes:
        shown: what a consolidator is shown, by its numbers in the question.
        exact: those that say exactly what is asked to be forgotten; nobody has to be asked about them.
        novelty: the question as the consolidator gets it.
    """

    shown: tuple[Shown, ...]
    exact: tuple[Shown, ...] = ()
    novelty: Novelty


def questions_about(newcomers: Sequence[Newcomer], survey: Survey, policy: ConsolidationPolicy) -> dict[int, Question]:
    """Return the questions that newcomers raise, by their places in the batch.

    A statement raises one if similar ones are known and none that is equal. A wish to forget a statement
    raises one if anything is known that was said before it. Typed facts and words that are not believed
    raise none. What is shown is never of a higher rank than the newcomer: see `rank_of`.
    """
    asking = {
        number: newcomer
        for number, newcomer in enumerate(newcomers)
        if newcomer.counts and is_statement(newcomer.assertion)
    }
    directions: dict[tuple[Walls, int], Directions] = {}
    questions: dict[int, Question] = {}
    for number, newcomer in asking.items():
        walls = walls_of(newcomer.assertion)
        records = survey.standing.get(walls, ())
        dimension = 0 if newcomer.vector is None else len(newcomer.vector)
        known = directions.get((walls, dimension))
        if known is None:
            known = Directions.of([record.vector for record in records], dimension)
            directions[walls, dimension] = known
        if newcomer.forgets:
            question = _wish(newcomer, records, known, _fellows_before(number, newcomers), policy)
        else:
            question = None if survey.equal_to(newcomer) else _comparison(newcomer, records, known, policy)
        if question is not None:
            questions[number] = question
    return questions


def _same(one: Assertion, other: Assertion) -> bool:
    return one.keyword == other.keyword and one.slot == other.slot


def _comparison(
    newcomer: Newcomer, records: Sequence[Standing], known: Directions, policy: ConsolidationPolicy
) -> Question | None:
    cosines = known.cosines(newcomer.vector)
    close = [
        (-float(cosines[number]), number)
        for number in (cosines >= policy.threshold - ROUNDING).nonzero()[0].tolist()
        if _comparable(records[number], newcomer, policy)
    ]
    if not close:
        return None
    return _question(newcomer, [records[number] for _, number in sorted(close)[: policy.limit]])


def _comparable(record: Standing, newcomer: Newcomer, policy: ConsolidationPolicy) -> bool:
    if record.unread or not is_statement(record.said) or not _may_touch(newcomer, record):
        return False
    if policy.metadata is not MetadataMerge.REQUIRE_EXACT_MATCH:
        return True
    before, brought = record.said.details.metadata, newcomer.assertion.details.metadata
    return merged_metadata(before, brought, policy.metadata) is not None


def _wish(
    newcomer: Newcomer,
    records: Sequence[Standing],
    known: Directions,
    fellows: Sequence[Fellow],
    policy: ConsolidationPolicy,
) -> Question | None:
    said = newcomer.assertion
    told = Directions.of([fellow.vector for fellow in fellows], known.rows.shape[1]).cosines(newcomer.vector)
    cosines = [*known.cosines(newcomer.vector).tolist(), *told.tolist()]
    items: list[Shown] = [*records, *fellows]
    ranks = [
        (not _same(item.said, said), -cosine, -item.said.timestamp.timestamp(), number)
        for number, (item, cosine) in enumerate(zip(items, cosines, strict=True))
        if item.said.timestamp <= said.timestamp and _may_touch(newcomer, item)
    ]
    if not ranks:
        return None
    eligible = [items[number] for *_, number in sorted(ranks)]
    exact = tuple(item for item in eligible if _same(item.said, said))
    return attrs.evolve(_question(newcomer, eligible[: policy.limit]), exact=exact)


def _fellows_before(number: int, newcomers: Sequence[Newcomer]) -> list[Fellow]:
    walls = walls_of(newcomers[number].assertion)
    return [
        Fellow(place, newcomer)
        for place, newcomer in enumerate(newcomers[:number])
        if not newcomer.forgets and newcomer.counts and walls_of(newcomer.assertion) == walls
    ]


def _may_touch(newcomer: Newcomer, item: Shown) -> bool:
    return rank_of(item.said.details) <= rank_of(newcomer.assertion.details)


def _question(newcomer: Newcomer, shown: Sequence[Shown]) -> Question:
    novelty = Novelty(
        text=text_of(newcomer.assertion),
        said_at=newcomer.assertion.timestamp,
        removal=newcomer.forgets,
        known=tuple(Known(text=text_of(item.said), said_at=item.said.timestamp) for item in shown),
    )
    return Question(shown=tuple(shown), novelty=novelty)
