"""Planning what becomes of candidates and of known records. Nothing here touches a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
from anyio import to_thread

from factmem.abc import Action, Append, Consolidator, Statement, StateRequest, Verdicts
from factmem.consolidation.candidates import Newcomer, Vector, evidence_of, is_statement, rank_of, walls_of
from factmem.consolidation.policy import ConsolidationPolicy, Proposal
from factmem.consolidation.questions import Fellow, Question, ask_all, lawful, questions_about
from factmem.consolidation.survey import Standing, Survey
from factmem.errors import ModelError
from factmem.fold import Current
from factmem.records import Assertion, AssertionState, Evidence, FactDetails, LogEntry, merged_metadata

__all__ = [
    "ASKED_TO_BE_FORGOTTEN",
    "Claims",
    "Decision",
    "Plan",
    "aside",
    "compared",
    "confirmation",
    "may_merge",
    "merged_aside",
    "plan",
    "revision",
    "wished",
]


def may_merge(record: Standing, newcomer: Newcomer) -> bool:
    """Whether a newcomer may live on in a record only.

    It may not if the two are of different origins, since what the assistant says must not pass for what
    the user said, nor the reverse; nor if the record expires and the newcomer is to last.
    """
    known, new = record.said.details, newcomer.assertion.details
    lasts = newcomer.lasts and new.expires_at is None
    return known.origin is new.origin and (known.expires_at is None or not lasts)


def revision(record: Standing, newcomer: Newcomer, text: str, policy: ConsolidationPolicy) -> Append:
    """Return the update of a record: a new text that has the evidence of both.

    It was said when the later one of the two was, so that it stands even if the newcomer is the older one.
    """
    said = newcomer.assertion
    evidence = (*record.current.details.evidence, *(() if newcomer.forgets else evidence_of(said)))
    return Append(
        assertion=attrs.evolve(
            _revised(record),
            data=text,
            timestamp=max(said.timestamp, record.said.timestamp),
            valid_from=said.valid_from,
            valid_to=said.valid_to,
            details=_details(record, newcomer, policy, evidence=evidence),
        ),
        follows=record.current.recorded.seq,
    )


def confirmation(record: Standing, newcomer: Newcomer, policy: ConsolidationPolicy) -> Append:
    """Return what keeps a newcomer's evidence and time with the record that says it already."""
    details = _details(record, newcomer, policy, evidence=evidence_of(newcomer.assertion))
    revised = attrs.evolve(_revised(record), timestamp=newcomer.assertion.timestamp, details=details)
    return Append(assertion=revised, vector=record.vector, follows=record.current.recorded.seq)


def merged_aside(record: Standing, newcomer: Newcomer) -> Append:
    """Return the newcomer itself, retracted, in the history of the record that it was merged into.

    So its own words are not lost, the merger can be undone, and erasing the record erases it, too.
    """
    revised = attrs.evolve(newcomer.assertion, revises=record.id, revised=record.current.recorded.seq)
    return aside(attrs.evolve(newcomer, assertion=revised))


def aside(newcomer: Newcomer) -> Append:
    """Return a newcomer as something that was said and is no more."""
    return Append(assertion=attrs.evolve(newcomer.assertion, state=AssertionState.RETRACTED), vector=newcomer.vector)


def _revised(record: Standing) -> Assertion:
    return attrs.evolve(
        record.said,
        removed=False,
        errand=None,
        actor=None,
        state=AssertionState.ACTIVE,
        revises=record.id,
        revised=record.current.recorded.seq,
    )


def _details(
    record: Standing, newcomer: Newcomer, policy: ConsolidationPolicy, *, evidence: tuple[Evidence, ...]
) -> FactDetails:
    """Owner, origin, source, importance and expiry are the record's; it loses no category, topic or evidence."""
    known, new = record.said.details, newcomer.assertion.details
    if newcomer.forgets:
        return attrs.evolve(known, evidence=evidence, labels=new.labels)
    metadata = merged_metadata(known.metadata, new.metadata, policy.metadata)
    expires_at = known.expires_at
    if expires_at is not None and new.expires_at is not None:
        expires_at = max(expires_at, new.expires_at)
    return attrs.evolve(
        known,
        categories=(*known.categories, *new.categories),
        topics=(*known.topics, *new.topics),
        metadata=known.metadata if metadata is None else metadata,
        evidence=dict.fromkeys(evidence),
        expires_at=expires_at,
        labels=new.labels,
    )


@attrs.frozen(kw_only=True, eq=False)
class Decision:
    """What comes of one newcomer.

    Attributes:
        insert: it becomes a record, or joins the one that says the same.
        taken_back: it is kept as something that was said and is no more.
        merged_into: the record that it lives on in.
        confirms: whether that record is said again by this.
        updates: records with the text that each says from now on.
        deletes: records that are no more, with the reason given.
        fellows: the newcomers that a wish to forget takes back.
    """

    insert: bool = False
    taken_back: bool = False
    merged_into: Standing | None = None
    confirms: bool = False
    updates: tuple[tuple[Standing, str], ...] = ()
    deletes: tuple[tuple[Standing, str | None], ...] = ()
    fellows: frozenset[int] = frozenset()


@attrs.define
class Claims:
    """Which records somebody has decided about already: the first one wins."""

    _changed: set[str] = attrs.field(factory=set, init=False)
    _relied_on: set[str] = attrs.field(factory=set, init=False)

    def change(self, record: Standing) -> bool:
        """Update or delete a record; return whether nobody was first."""
        if record.id in self._changed or record.id in self._relied_on:
            return False
        self._changed.add(record.id)
        return True

    def rely_on(self, record: Standing) -> bool:
        """Count on what a record says; return whether it goes on to say that."""
        if record.id in self._changed:
            return False
        self._relied_on.add(record.id)
        return True


def wished(
    newcomers: Sequence[Newcomer],
    questions: Mapping[int, Question],
    answers: Mapping[int, Verdicts],
    claims: Claims,
) -> dict[int, Decision]:
    """Decide about the wishes to forget. What says exactly the same is meant; about the rest the answers decide."""
    decisions = {}
    for number, question in questions.items():
        if newcomers[number].forgets:
            verdicts = answers.get(number, Verdicts())
            decisions[number] = _wish(question, verdicts, claims)
    return decisions


def _wish(question: Question, verdicts: Verdicts, claims: Claims) -> Decision:
    deleting = {number: verdict for number, verdict in verdicts.known.items() if verdict.action is Action.DELETE}
    reasons = {id(question.shown[number]): verdict.reason for number, verdict in deleting.items()}
    meant = [item for item in question.shown if id(item) in reasons]
    meant += [item for item in question.exact if id(item) not in reasons]
    records = [item for item in meant if isinstance(item, Standing) and claims.change(item)]
    return Decision(
        deletes=tuple((record, reasons.get(id(record))) for record in records),
        fellows=frozenset(item.number for item in meant if isinstance(item, Fellow)),
        updates=tuple(
            (item, verdict.text)
            for number, verdict in verdicts.known.items()
            if verdict.text
            and isinstance(item := question.shown[number], Standing)
            and is_statement(item.said)
            and claims.change(item)
        ),
    )


def compared(
    newcomers: Sequence[Newcomer],
    questions: Mapping[int, Question],
    answers: Mapping[int, Verdicts],
    survey: Survey,
    *,
    claims: Claims,
    taken_back: Collection[int],
) -> dict[int, Decision]:
    """Decide about everything that is no wish to forget, in the order of the batch.

    Args:
        newcomers: the batch.
        questions: what was asked, by newcomer.
        answers: what was answered; without an answer, a newcomer is inserted.
        survey: what is known.
        claims: what was decided before.
        taken_back: the newcomers that a wish takes back; what they brought about is not done.
    """
    decisions = {}
    for number, newcomer in enumerate(newcomers):
        if newcomer.forgets and newcomer.counts and is_statement(newcomer.assertion):
            continue
        if number in taken_back:
            decisions[number] = Decision(taken_back=True)
        elif number in questions and number in answers:
            decisions[number] = _comparison(newcomer, questions[number], answers[number], claims)
        else:
            decisions[number] = _unasked(newcomer, survey)
    return decisions


def _unasked(newcomer: Newcomer, survey: Survey) -> Decision:
    """Insert, but for a mere repetition by somebody whose words weigh less than the record's."""
    if newcomer.counts and is_statement(newcomer.assertion):
        record = survey.equal_to(newcomer)
        if record is not None and rank_of(record.said.details) > rank_of(newcomer.assertion.details):
            return Decision(merged_into=record)
    return Decision(insert=True)


def _comparison(newcomer: Newcomer, question: Question, verdicts: Verdicts, claims: Claims) -> Decision:
    updates: list[tuple[Standing, str]] = []
    deletes: list[tuple[Standing, str | None]] = []
    kept: list[Standing] = []
    for number, verdict in sorted(verdicts.known.items()):
        record = question.shown[number]
        if not isinstance(record, Standing):
            continue
        match verdict.action:
            case Action.DELETE if claims.change(record):
                deletes.append((record, verdict.reason))
            case Action.UPDATE if verdict.text and may_merge(record, newcomer) and claims.change(record):
                updates.append((record, verdict.text))
            case Action.KEEP if may_merge(record, newcomer):
                kept.append(record)
            case _:
                pass
    home, confirms = (updates[0][0] if updates else None), False
    updating = any(verdict.action is Action.UPDATE for verdict in verdicts.known.values())
    if not verdicts.insert and not updating:  # an update that cannot be made leaves what is new without a home
        home = next((record for record in kept if claims.rely_on(record)), None)
        confirms = home is not None
    merged = home if not verdicts.insert else None
    return Decision(
        insert=merged is None,
        merged_into=merged,
        confirms=confirms,
        updates=tuple(updates),
        deletes=tuple(deletes),
    )


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
