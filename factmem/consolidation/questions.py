"""Questions to a consolidator: which candidates raise one, and how much of an answer is followed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from factmem.abc import Action, Consolidator, Known, Novelty, Verdict, Verdicts
from factmem.consolidation.candidates import (
    ROUNDING,
    Directions,
    Newcomer,
    Vector,
    Walls,
    is_statement,
    rank_of,
    text_of,
    walls_of,
)
from factmem.consolidation.policy import ConsolidationPolicy
from factmem.consolidation.survey import Standing, Survey
from factmem.errors import InvalidDataError, ModelAnswerError, ModelError
from factmem.llm import bounded_gather
from factmem.records import Assertion, MetadataMerge, merged_metadata
from factmem.values import check_text

__all__ = ["LONGEST_REASON", "Fellow", "Question", "Shown", "ask_all", "lawful", "questions_about"]


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


LONGEST_REASON: Final = 300
"""How much of a model's reason is kept, in characters."""

_SLACK: Final = 200
"""By how much an updated text may be longer than the two that it unites, in characters."""


async def ask_all(
    consolidator: Consolidator, questions: Mapping[int, Question], concurrency: int
) -> dict[int, Verdicts | ModelError]:
    """Ask a consolidator about candidates, and return each answer or its failure by the candidate's number."""

    def call(novelty: Novelty) -> Callable[[], Awaitable[Verdicts | ModelError]]:
        return lambda: _asked(consolidator, novelty)

    answers = await bounded_gather([call(question.novelty) for question in questions.values()], concurrency)
    return dict(zip(questions, answers, strict=True))


async def _asked(consolidator: Consolidator, novelty: Novelty) -> Verdicts | ModelError:
    """Whatever goes wrong here costs the comparison, and must not cost the fact."""
    try:
        answer: object = await consolidator.decide(novelty)
    except ModelError as error:
        return error
    except Exception as error:  # somebody else's code
        return ModelAnswerError(f"the consolidator failed with {type(error).__name__}")
    if not isinstance(answer, Verdicts) or not isinstance(answer.known, Mapping):
        return ModelAnswerError(f"the consolidator answered {type(answer).__name__} instead of verdicts")
    return answer


def lawful(answer: Verdicts, novelty: Novelty) -> Verdicts:
    """Return what of an answer can be followed.

    A number that names nothing shown is passed over. An update without a text, with one that says nothing
    or that no store can carry, or with one that is much longer than what was known and what is new
    together, is a keep; since what is new would have stood there, it is inserted then. A reason is cut to
    `LONGEST_REASON`.
    """
    shown = range(len(novelty.known))
    known = {
        number: _lawful(verdict, len(novelty.text) + len(novelty.known[number].text) + _SLACK)
        for number, verdict in answer.known.items()
        if type(number) is int and number in shown and isinstance(verdict, Verdict)
    }
    spoiled = any(
        answer.known[number].action is Action.UPDATE and verdict.action is Action.KEEP
        for number, verdict in known.items()
    )
    return Verdicts(insert=spoiled or answer.insert is not False, known=known)


def _lawful(verdict: Verdict, longest: int) -> Verdict:
    reason = _storable(verdict.reason)
    short = attrs.evolve(verdict, text=None, reason=reason[:LONGEST_REASON] if reason else None)
    match verdict.action:
        case Action.UPDATE:
            text = (_storable(verdict.text) or "").strip()
            if any(char.isalnum() for char in text) and len(text) <= longest:
                return attrs.evolve(short, text=text)
            return attrs.evolve(short, action=Action.KEEP)
        case Action.DELETE:
            return short
        case _:
            return attrs.evolve(short, action=Action.KEEP)


def _storable(text: object) -> str | None:
    if not isinstance(text, str):
        return None
    try:
        check_text(text, path="$")
    except InvalidDataError:
        return None
    return text
