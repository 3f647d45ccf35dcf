"""Questions to a consolidator: which candidates raise one, and how much of an answer is followed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, assert_never

import attrs

from factmem.abc import Consolidator
from factmem.abc.consolidator import Action, Known, Novelty, Verdict, Verdicts
from factmem.consolidation.candidates import (
    ROUNDING,
    CandidateAssertion,
    Directions,
    Partition,
    Vector,
    is_free_text,
    partition_of,
    text_of,
)
from factmem.consolidation.policy import ConsolidationPolicy
from factmem.consolidation.survey import CurrentRecord, Survey
from factmem.details import MetadataMerge, merged_metadata
from factmem.errors import BudgetSpentError, InvalidDataError, ModelAnswerError, ModelAwayError, ModelError
from factmem.languages import WORD, folded, language_of
from factmem.llm.asking import bounded_gather
from factmem.patterns import lazy_pattern
from factmem.records import Assertion
from factmem.validators import check_text


@attrs.frozen(eq=False)
class Fellow:
    """An earlier candidate of the same batch.

    Attributes:
        number: its index in the batch.
        candidate: the candidate.
    """

    number: int
    candidate: CandidateAssertion

    @property
    def said(self) -> Assertion:
        """The candidate's assertion."""
        return self.candidate.assertion

    @property
    def vector(self) -> Vector:
        """Its embedding, or None."""
        return self.candidate.vector


Shown: TypeAlias = CurrentRecord | Fellow
"""A record or candidate that a question can be about."""


@attrs.frozen(kw_only=True, eq=False)
class Question:
    """A question about one candidate.

    Attributes:
        shown: the records shown to the consolidator, by their numbers in the question.
        exact: the exact matches of a wish to forget, which need no question.
        novelty: the question as the consolidator receives it.
    """

    shown: tuple[Shown, ...]
    exact: tuple[Shown, ...] = ()
    novelty: Novelty


def questions_about(
    candidates: Sequence[CandidateAssertion], survey: Survey, policy: ConsolidationPolicy
) -> dict[int, Question]:
    """Return the questions that candidates raise, by their index in the batch.

    A statement raises one if similar ones are known and none is equal. A wish to forget a statement raises one if
    anything is known that was said before it. Typed facts and words that are not believed raise none. Records of a
    higher trust than the candidate are never shown. See `CandidateAssertion.may_change`.
    """
    asking = {
        number: candidate
        for number, candidate in enumerate(candidates)
        if candidate.counts and is_free_text(candidate.assertion)
    }
    directions: dict[tuple[Partition, int], Directions] = {}
    questions: dict[int, Question] = {}
    for number, candidate in asking.items():
        partition = partition_of(candidate.assertion)
        records = survey.records.get(partition, ())
        dimension = 0 if candidate.vector is None else len(candidate.vector)
        known = directions.get((partition, dimension))
        if known is None:
            known = Directions.of([record.vector for record in records], dimension)
            directions[partition, dimension] = known
        if candidate.removal:
            question = _about_wish(candidate, records, known, _fellows_before(number, candidates), policy)
        else:
            question = None if survey.equal_to(candidate) else _about_similar(candidate, records, known, policy)
        if question is not None:
            questions[number] = question
    return questions


_OF_WISHES: Final = 10
"""A question about a wish to forget shows so many times the records of another one."""


def _same(one: Assertion, other: Assertion) -> bool:
    return one.keyword == other.keyword and one.slot == other.slot


def _about_similar(
    candidate: CandidateAssertion, records: Sequence[CurrentRecord], known: Directions, policy: ConsolidationPolicy
) -> Question | None:
    cosines = known.cosines(candidate.vector)
    close = [
        (-float(cosines[number]), number)
        for number in (cosines >= policy.threshold - ROUNDING).nonzero()[0].tolist()
        if _comparable(records[number], candidate, policy)
    ]
    if not close:
        return None
    return _question(candidate, [records[number] for _, number in sorted(close)[: policy.limit]])


def _comparable(record: CurrentRecord, candidate: CandidateAssertion, policy: ConsolidationPolicy) -> bool:
    if record.unread or not is_free_text(record.said) or not candidate.may_change(record.said):
        return False
    if _differ_in_speaker(record.said, candidate.assertion):
        return False  # what one person says is nothing new about another
    if policy.metadata is not MetadataMerge.REQUIRE_EXACT_MATCH:
        return True
    before, brought = record.said.details.metadata, candidate.assertion.details.metadata
    return merged_metadata(before, brought, policy.metadata) is not None


def _differ_in_speaker(one: Assertion, other: Assertion) -> bool:
    return None not in (one.speaker, other.speaker) and one.speaker != other.speaker


def _about_wish(
    candidate: CandidateAssertion,
    records: Sequence[CurrentRecord],
    known: Directions,
    fellows: Sequence[Fellow],
    policy: ConsolidationPolicy,
) -> Question | None:
    said = candidate.assertion
    fellow_cosines = Directions.of([fellow.vector for fellow in fellows], known.rows.shape[1]).cosines(candidate.vector)
    cosines = [*known.cosines(candidate.vector).tolist(), *fellow_cosines.tolist()]
    items: list[Shown] = [*records, *fellows]
    ranks = [
        (not _same(item.said, said), -cosine, -item.said.timestamp.timestamp(), number)
        for number, (item, cosine) in enumerate(zip(items, cosines, strict=True))
        if item.said.timestamp <= said.timestamp
        and candidate.may_change(item.said)
        and not _differ_in_speaker(item.said, said)  # one person's wish takes nothing of another's
    ]
    if not ranks:
        return None
    eligible = [items[number] for *_, number in sorted(ranks)]
    exact = tuple(item for item in eligible if _same(item.said, said))
    return attrs.evolve(_question(candidate, eligible[: _OF_WISHES * policy.limit]), exact=exact)


def _fellows_before(number: int, candidates: Sequence[CandidateAssertion]) -> list[Fellow]:
    partition = partition_of(candidates[number].assertion)
    return [
        Fellow(place, candidate)
        for place, candidate in enumerate(candidates[:number])
        if not (candidate.removal or candidate.ends)
        and candidate.counts
        and partition_of(candidate.assertion) == partition
    ]


def _question(candidate: CandidateAssertion, shown: Sequence[Shown]) -> Question:
    novelty = Novelty(
        text=text_of(candidate.assertion),
        said_at=candidate.assertion.timestamp,
        removal=candidate.removal,
        known=tuple(Known(text=text_of(item.said), said_at=item.said.timestamp) for item in shown),
    )
    return Question(shown=tuple(shown), novelty=novelty)


LONGEST_REASON: Final = 300
"""Maximum length of a stored reason, in characters."""

_SLACK: Final = 200
"""Maximum length of an updated text beyond that of the two that it unites, in characters."""

_NUMBER: Final = lazy_pattern(r"[1-9]\d*")
_ADDRESS: Final = lazy_pattern(r"(?<![\w.-])[\w.-]++@[\w.-]+|(?<!\w)\w++://[^\s/]+|www\.[\w.-]+")
_STEM: Final = 5
"""Number of letters by which names are compared, for their endings differ."""


async def answers_to(
    questions: Mapping[int, Question], consolidator: Consolidator, concurrency: int
) -> dict[int, Verdicts | ModelError]:
    """Ask a consolidator about candidates, and return each answer or its failure by the candidate's number."""
    asking = [partial(_asked, consolidator, question.novelty) for question in questions.values()]
    return dict(zip(questions, await bounded_gather(asking, concurrency), strict=True))


async def _asked(consolidator: Consolidator, novelty: Novelty) -> Verdicts | ModelError:
    """Ask a consolidator. A failure costs the comparison, and must not cost the fact."""
    try:
        answer: object = await consolidator.decide(novelty)
    except (BudgetSpentError, ModelAwayError):  # no failure: the question is asked later
        raise
    except ModelError as error:
        return error
    except Exception as error:  # third-party code
        return ModelAnswerError(f"the consolidator failed with {type(error).__name__}")
    if not isinstance(answer, Verdicts) or not isinstance(answer.known, Mapping):
        return ModelAnswerError(f"the consolidator returned {type(answer).__name__} instead of verdicts")
    return answer


def lawful(answer: Verdicts, novelty: Novelty, flags: Callable[[str], Collection[str]]) -> Verdicts:
    """Return the part of an answer that can be followed.

    A number that was not shown is ignored. An update is a keep if its text is missing, says nothing, cannot be stored,
    is much longer than the known and the new text together, or says what neither says; the new statement, which would
    be part of it, is inserted then. A reason is cut to `LONGEST_REASON`.

    Args:
        answer: the answer.
        novelty: what was asked.
        flags: returns the flags of a text, of which an update must not have other ones.
    """
    shown = range(len(novelty.known))
    known = {
        number: _lawful(verdict, (novelty.text, novelty.known[number].text), flags)
        for number, verdict in answer.known.items()
        if type(number) is int and number in shown and isinstance(verdict, Verdict)
    }
    spoiled = any(
        answer.known[number].action is Action.UPDATE and verdict.action is Action.KEEP
        for number, verdict in known.items()
    )
    return Verdicts(insert=spoiled or answer.insert is not False, known=known)


def _lawful(verdict: Verdict, sources: Sequence[str], flags: Callable[[str], Collection[str]]) -> Verdict:
    reason = _storable(verdict.reason)
    short = attrs.evolve(verdict, text=None, reason=reason[:LONGEST_REASON] if reason else None)
    if not isinstance(verdict.action, Action):  # another's code may answer anything
        return attrs.evolve(short, action=Action.KEEP)
    match verdict.action:
        case Action.UPDATE:
            text = (_storable(verdict.text) or "").strip()
            short_enough = any(map(str.isalnum, text)) and len(text) <= sum(map(len, sources)) + _SLACK
            if short_enough and not _invents(text, sources) and {*flags(text)} <= {*flags("\n".join(sources))}:
                return attrs.evolve(short, text=text)
            return attrs.evolve(short, action=Action.KEEP)
        case Action.KEEP | Action.DELETE:
            return short
        case _:
            assert_never(verdict.action)


def _invents(text: str, sources: Sequence[str]) -> bool:
    """Return whether a text has a number, an address or a name that its sources lack, in any inflection."""
    said, lowered = "\n".join(sources), folded(text)
    if any(set(part.findall(lowered)) - set(part.findall(folded(said))) for part in (_NUMBER, _ADDRESS)):
        return True
    language, known = language_of(lowered), {word[:_STEM] for word in WORD.findall(folded(said))}
    if language.capitals:
        return False  # its nouns look like names
    words = WORD.findall(text)[1:]
    others = {folded(word) for word in words if word[0].isupper()} - language.everyday
    return not {word[:_STEM] for word in others} <= known


def _storable(text: object) -> str | None:
    if not isinstance(text, str):
        return None
    try:
        check_text(text, path="$")
    except InvalidDataError:
        return None
    return text
