"""Planning what becomes of newcomers and of what is known; nothing here touches a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
from anyio import to_thread

from factmem.abc import Append, Consolidator, Statement, StateRequest, Verdicts
from factmem.consolidation.asking import ask_all, lawful
from factmem.consolidation.deciding import Claims, Decision, compared, wished
from factmem.consolidation.newcomers import Newcomer, Vector, walls_of
from factmem.consolidation.policy import ConsolidationPolicy, Proposal
from factmem.consolidation.questions import Question, questions_about
from factmem.consolidation.revising import aside, confirmation, merged_aside, revision
from factmem.consolidation.survey import Standing, Survey
from factmem.errors import ModelError
from factmem.fold import Current
from factmem.records import AssertionState, LogEntry

__all__ = ["ASKED_TO_BE_FORGOTTEN", "Plan", "plan"]

ASKED_TO_BE_FORGOTTEN: Final = "asked to be forgotten"
"""Beginning of the reason for which a wish of the user's retracts something."""

_DEFAULT = ConsolidationPolicy()


@attrs.frozen(kw_only=True)
class Plan:
    """What to append, all of it in one `KeepsHistory.append`.

    Attributes:
        statements: in the order of the newcomers that brought them about.
        questions: how many questions were asked.
        refused: the deletions that were not approved, and are not in the statements.
        failures: why questions were not answered; those newcomers are inserted as they are.
    """

    statements: tuple[Statement, ...] = ()
    questions: int = 0
    refused: tuple[Proposal, ...] = ()
    failures: tuple[ModelError, ...] = ()


async def plan(
    newcomers: Sequence[Newcomer],
    known: Iterable[tuple[Current, Vector]],
    consolidator: Consolidator | None = None,
    policy: ConsolidationPolicy = _DEFAULT,
    *,
    log: Sequence[LogEntry],
    leave_out: Collection[str] = frozenset(),
) -> Plan:
    """Plan what becomes of newcomers and of what is known.

    Typed facts are appended, for the fold settles them; so are their removals. A statement is compared
    with similar ones behind the same walls (tenant, scope, subject and owner): the consolidator says which
    of them it updates or makes obsolete, and whether it is new at all. A wish to forget a statement is
    shown what was said before it behind its walls, typed facts too, the most similar first; what says
    exactly the same is meant without asking.

    - Nothing is erased: what is deleted, merged or taken back is retracted, and its words are in the log.
    - Each record has one thing done to it. A wish to forget goes first, then the first newcomer wins.
    - A newcomer that no record says afterwards is inserted, whatever the consolidator thinks; so is one
      about which it fails, for its `ModelError` costs the comparison and not the fact.
    - Nobody's words change those of a higher rank (user, assistant, others), and words that are not
      believed change nothing. A record is never updated by words of another origin.
    - A newcomer that was recorded before, in whatever state it is now, brings nothing about; nor does a
      wish that was met before.

    Args:
        newcomers: what is new, in the order said; see `without_duplicates`.
        known: what is current, as the owner of the newcomers sees it, with embeddings. What stands behind
            other walls is ignored, and is neither shown nor changed.
        consolidator: whom to ask; without one every statement is inserted, and only an exact match forgotten.
        policy: how to compare, and what needs approval.
        log: of the same store, at least behind the walls of the newcomers.
        leave_out: ids of assertions to look away from: the words that wait and the newcomers were found in.
            Where a newcomer is itself such words, fingerprint and all, it is appended as it is: whoever
            applies the plan lets the words stand instead.
    """
    newcomers = [_dated_removal(newcomer) if newcomer.forgets else newcomer for newcomer in newcomers]
    survey = await to_thread.run_sync(Survey.of, newcomers, known, log, leave_out)
    fresh = [newcomer for newcomer in newcomers if newcomer.assertion.fingerprint not in survey.heard]
    questions = await to_thread.run_sync(questions_about, fresh, survey, policy)
    said = await ask_all(consolidator, questions, policy.concurrency) if consolidator is not None else {}
    answers = {
        number: lawful(answer, questions[number].novelty)
        for number, answer in sorted(said.items())
        if isinstance(answer, Verdicts)
    }
    drafter = _Drafter(newcomers=fresh, questions=questions, answers=answers, survey=survey, policy=policy)
    decisions, refused = await drafter.decide()
    return Plan(
        statements=await to_thread.run_sync(partial(tuple, drafter.statements(decisions))),
        questions=len(said),
        refused=refused,
        failures=tuple(answer for _, answer in sorted(said.items()) if isinstance(answer, ModelError)),
    )


@attrs.frozen(kw_only=True, eq=False)
class _Drafter:
    """Makes decisions, has them approved, and writes them down."""

    newcomers: Sequence[Newcomer]
    questions: Mapping[int, Question]
    answers: Mapping[int, Verdicts]
    survey: Survey
    policy: ConsolidationPolicy

    async def decide(self) -> tuple[dict[int, Decision], tuple[Proposal, ...]]:
        """Return the decision about each newcomer, and what was not approved."""
        refused = []
        claims = Claims()
        wishes = wished(self.newcomers, self.questions, self.answers, claims)
        if (proposal := self._of_wishes(wishes)) is not None and not await self._approved(proposal):
            refused.append(proposal)
            claims, wishes = Claims(), {}
        taken_back = frozenset[int]().union(*(decision.fellows for decision in wishes.values()))
        compare = partial(compared, self.newcomers, self.questions, survey=self.survey, taken_back=taken_back)
        others = compare(answers=self.answers, claims=claims)
        if (proposal := self._of_comparisons(others)) is not None and not await self._approved(proposal):
            refused.append(proposal)
            others = compare(answers={}, claims=claims)
        return wishes | others, tuple(refused)

    async def _approved(self, proposal: Proposal) -> bool:
        return self.policy.approve is not None and await self.policy.approve(proposal)

    def _of_wishes(self, wishes: Mapping[int, Decision]) -> Proposal | None:
        """A wish is the user's own, but what is meant by it is a model's guess: hold it to all that is known there."""
        walls = {walls_of(self.newcomers[number].assertion) for number in wishes}
        among = sum(len(self.survey.standing.get(behind, ())) for behind in walls)
        among += sum(not item.forgets and walls_of(item.assertion) in walls for item in self.newcomers)
        fellows = {number for decision in wishes.values() for number in decision.fellows}
        return self._excess(_deleted(wishes.values()), len(fellows), among, removal=True)

    def _of_comparisons(self, decisions: Mapping[int, Decision]) -> Proposal | None:
        shown = {
            record.id
            for number, question in self.questions.items()
            if number in decisions and not decisions[number].taken_back
            for record in question.shown
            if isinstance(record, Standing)
        }
        return self._excess(_deleted(decisions.values()), 0, len(shown), removal=False)

    def _excess(self, record_ids: tuple[str, ...], fellows: int, among: int, *, removal: bool) -> Proposal | None:
        deletions = len(record_ids) + fellows
        if self.policy.allows(deletions, among):
            return None
        return Proposal(record_ids=record_ids, deletions=deletions, among=among, removal=removal)

    def statements(self, decisions: Mapping[int, Decision]) -> Iterator[Statement]:
        """Yield what carries out decisions."""
        retracted: set[str] = set()
        for number, decision in sorted(decisions.items()):
            newcomer = self.newcomers[number]
            for record, reason in decision.deletes:
                yield from self._retractions(record, _reason(newcomer, reason), retracted)
            if decision.merged_into is not None:
                yield merged_aside(decision.merged_into, newcomer)
                if decision.confirms:
                    yield confirmation(decision.merged_into, newcomer, self.policy)
            for record, text in decision.updates:
                if decision.merged_into is record or text != record.said.data:
                    yield revision(record, newcomer, text, self.policy)
            if decision.taken_back:
                yield aside(self._beside_words(newcomer, always=True))
            if decision.insert:
                said = self._beside_words(newcomer, always=False)
                yield Append(assertion=said.assertion, vector=said.vector)

    def _retractions(self, record: Standing, reason: str | None, done: set[str]) -> Iterator[StateRequest]:
        for recorded in self.survey.assertions_behind(record):
            if recorded.id not in done:
                done.add(recorded.id)
                yield StateRequest(
                    assertion_id=recorded.id,
                    state=AssertionState.RETRACTED,
                    reason=reason,
                    expected=self.survey.states.get(recorded.id, recorded.assertion.state),
                )

    def _beside_words(self, newcomer: Newcomer, *, always: bool) -> Newcomer:
        """What was found looks just like words that were read: make it a revision of them, or it would be lost."""
        said = newcomer.assertion
        words = self.survey.words.get(said.fingerprint)
        if words is None or (words.id in self.survey.left_out and not always):
            return newcomer
        return attrs.evolve(newcomer, assertion=attrs.evolve(said, revises=words.record_id, revised=words.seq))


def _dated_removal(newcomer: Newcomer) -> Newcomer:
    return attrs.evolve(newcomer, assertion=attrs.evolve(newcomer.assertion, removed=True))


def _deleted(decisions: Iterable[Decision]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(record.id for decision in decisions for record, _ in decision.deletes))


def _reason(newcomer: Newcomer, reason: str | None) -> str | None:
    """The reason of a wish names it by its fingerprint, so that the same wish is not met twice."""
    if not newcomer.forgets:
        return reason
    wish = f"{ASKED_TO_BE_FORGOTTEN} ({newcomer.assertion.fingerprint.hex()})"
    return f"{wish}: {reason}" if reason else wish
