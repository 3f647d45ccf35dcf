"""Planning what becomes of candidates and of known records. Nothing here touches a store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import assert_never

import attrs
from anyio import to_thread

from factmem.abc import Consolidator
from factmem.abc.capabilities import Append, Statement, StateRequest
from factmem.abc.consolidator import Action, Verdicts
from factmem.consolidation.candidates import CandidateAssertion, Vector, evidence_of, is_free_text, partition_of
from factmem.consolidation.policy import ConsolidationPolicy, Proposal
from factmem.consolidation.questions import Fellow, Question, answers_to, lawful, questions_about
from factmem.consolidation.survey import CurrentRecord, Survey, reason_of_wish
from factmem.details import Evidence, FactDetails, merged_metadata
from factmem.errors import ModelError
from factmem.fold import Current
from factmem.grouping import grouped
from factmem.llm.local_models import called
from factmem.records import Assertion, AssertionState, LogEntry

_log = logging.getLogger("factmem")


def _may_merge(record: CurrentRecord, candidate: CandidateAssertion) -> bool:
    """Return whether a candidate may be kept in a record only.

    It may not if their origins differ, since the assistant's words must not pass for the user's, nor the reverse; nor
    if the record expires and the candidate is to last.
    """
    known, new = record.said.details, candidate.assertion.details
    lasts = candidate.lasts and new.expires_at is None
    return known.origin is new.origin and (known.expires_at is None or not lasts)


def _revision(record: CurrentRecord, candidate: CandidateAssertion, text: str, policy: ConsolidationPolicy) -> Append:
    """Return the update of a record: a new text with the evidence of both.

    It takes the later timestamp of the two, so that it stands even if the candidate is older.
    """
    said = candidate.assertion
    evidence = (*record.current.details.evidence, *(() if candidate.removal else evidence_of(said)))
    return Append(
        assertion=attrs.evolve(
            _revised(record),
            data=text,
            timestamp=max(said.timestamp, record.said.timestamp),
            valid_from=said.valid_from,
            valid_to=said.valid_to,
            details=_details(record, candidate, policy, evidence=evidence),
        ),
        follows=record.current.recorded.seq,
    )


def _confirmation(record: CurrentRecord, candidate: CandidateAssertion, policy: ConsolidationPolicy) -> Append:
    """Return what keeps a candidate's evidence and time with the record that says it already."""
    details = _details(record, candidate, policy, evidence=evidence_of(candidate.assertion))
    revised = attrs.evolve(_revised(record), timestamp=candidate.assertion.timestamp, details=details)
    return Append(assertion=revised, vector=record.vector, follows=record.current.recorded.seq)


def _merged_aside(record: CurrentRecord, candidate: CandidateAssertion) -> Append:
    """Return a candidate, retracted, as part of the history of the record that it was merged into.

    So its own words are kept, the merge can be undone, and erasing the record erases it, too.
    """
    revised = attrs.evolve(candidate.assertion, revises=record.id, revised=record.current.recorded.seq)
    return _aside(attrs.evolve(candidate, assertion=revised))


def _aside(candidate: CandidateAssertion) -> Append:
    """Return a candidate as a retracted assertion."""
    return Append(assertion=attrs.evolve(candidate.assertion, state=AssertionState.RETRACTED), vector=candidate.vector)


def _revised(record: CurrentRecord) -> Assertion:
    return attrs.evolve(
        record.said,
        removed=False,
        job=None,
        actor=None,
        state=AssertionState.ACTIVE,
        revises=record.id,
        revised=record.current.recorded.seq,
    )


def _details(
    record: CurrentRecord, candidate: CandidateAssertion, policy: ConsolidationPolicy, *, evidence: tuple[Evidence, ...]
) -> FactDetails:
    """Return details with owner, origin, source, importance and expiry of the record, and everything else of both."""
    known, new = record.said.details, candidate.assertion.details
    if candidate.removal:
        return attrs.evolve(known, evidence=evidence, labels=new.labels, revision_expires_at=new.revision_expires_at)
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
        revision_expires_at=new.revision_expires_at,
    )


@attrs.frozen(kw_only=True, eq=False)
class Decision:
    """Decision about one candidate.

    Attributes:
        insert: it becomes a record, or joins an equal one.
        taken_back: it is kept as a retracted assertion.
        merged_into: the record that it is kept in.
        confirms: whether it confirms that record.
        updates: records with their new texts.
        deletes: records that are retracted, with the reasons given.
        fellows: the candidates that a wish to forget takes back.
    """

    insert: bool = False
    taken_back: bool = False
    merged_into: CurrentRecord | None = None
    confirms: bool = False
    updates: tuple[tuple[CurrentRecord, str], ...] = ()
    deletes: tuple[tuple[CurrentRecord, str | None], ...] = ()
    fellows: frozenset[int] = frozenset()


@attrs.define
class Claims:
    """Records that a decision was made about. The first decision wins."""

    _changed: set[str] = attrs.field(factory=set, init=False)
    _relied_on: set[str] = attrs.field(factory=set, init=False)

    def change(self, record: CurrentRecord, by: CandidateAssertion) -> bool:
        """Claim a record to update or delete it; return whether it is free, and the candidate may change it.

        Every change of a plan is claimed here, whatever was asked and answered.
        """
        if not by.may_change(record.said) or record.id in self._changed or record.id in self._relied_on:
            return False
        self._changed.add(record.id)
        return True

    def rely_on(self, record: CurrentRecord) -> bool:
        """Claim a record's present text; return whether it stays as it is."""
        if record.id in self._changed:
            return False
        self._relied_on.add(record.id)
        return True


def _decide_wish(candidate: CandidateAssertion, question: Question, verdicts: Verdicts, claims: Claims) -> Decision:
    asked = [(question.shown[number], verdict) for number, verdict in verdicts.known.items()]
    reasons = {item: verdict.reason for item, verdict in asked if verdict.action is Action.DELETE}
    remainders = [(item, verdict.text) for item, verdict in asked if verdict.action is Action.UPDATE]
    meant = [item for item in question.shown if item in reasons]
    meant += [item for item in question.exact if item not in reasons]
    records = [item for item in meant if isinstance(item, CurrentRecord) and claims.change(item, candidate)]
    return Decision(
        deletes=tuple((record, reasons.get(record)) for record in records),
        fellows=frozenset(item.number for item in meant if isinstance(item, Fellow)),
        updates=tuple(
            (item, text)
            for item, text in remainders
            if text and isinstance(item, CurrentRecord) and is_free_text(item.said) and claims.change(item, candidate)
        ),
    )


def _decide_unasked(candidate: CandidateAssertion, survey: Survey) -> Decision:
    """Insert, unless it only repeats a record of a higher trust."""
    if candidate.counts and is_free_text(candidate.assertion):
        record = survey.equal_to(candidate)
        if record is not None and not candidate.may_change(record.said):
            return Decision(merged_into=record)
    return Decision(insert=True)


def _decide_similar(candidate: CandidateAssertion, question: Question, verdicts: Verdicts, claims: Claims) -> Decision:
    updates: list[tuple[CurrentRecord, str]] = []
    deletes: list[tuple[CurrentRecord, str | None]] = []
    kept: list[CurrentRecord] = []
    for number, verdict in sorted(verdicts.known.items()):
        record = question.shown[number]
        if not isinstance(record, CurrentRecord):
            continue
        match verdict.action:
            case Action.KEEP:
                if _may_merge(record, candidate):
                    kept.append(record)
            case Action.UPDATE:
                if verdict.text and _may_merge(record, candidate) and claims.change(record, candidate):
                    updates.append((record, verdict.text))
            case Action.DELETE:
                if claims.change(record, candidate):
                    deletes.append((record, verdict.reason))
            case _:
                assert_never(verdict.action)
    home, confirms = (updates[0][0] if updates else None), False
    updating = any(verdict.action is Action.UPDATE for verdict in verdicts.known.values())
    if not verdicts.insert and not updating:  # an update that cannot be made leaves what is new without a home
        home = next((record for record in kept if claims.rely_on(record)), None)
        confirms = home is not None
    merged = home if not verdicts.insert else None
    return Decision(
        insert=merged is None, merged_into=merged, confirms=confirms, updates=tuple(updates), deletes=tuple(deletes)
    )


_DEFAULT = ConsolidationPolicy()


@attrs.frozen(kw_only=True)
class Plan:
    """Statements to append, all of them in one `KeepsLog.append`.

    Attributes:
        statements: in the order of the candidates that caused them.
        questions: number of questions that were asked.
        refused: deletions that were not approved, and are not in the statements.
        failures: failures of questions; their candidates are inserted as they are.
        vain: the evidence of the wishes to forget that take nothing back.
        heard: the fingerprints of the candidates that were recorded before, and have no effect.
    """

    statements: tuple[Statement, ...] = ()
    questions: int = 0
    refused: tuple[Proposal, ...] = ()
    failures: tuple[ModelError, ...] = ()
    vain: frozenset[tuple[Evidence, ...]] = frozenset()
    heard: frozenset[bytes] = frozenset()

    @property
    def refuses_wishes(self) -> bool:
        """Whether no wish to forget was carried out, for lack of approval."""
        return any(proposal.removal for proposal in self.refused)


async def plan(
    candidates: Sequence[CandidateAssertion],
    known: Iterable[tuple[Current, Vector]],
    consolidator: Consolidator | None = None,
    policy: ConsolidationPolicy = _DEFAULT,
    *,
    log: Sequence[LogEntry],
    flags: Callable[[str], Collection[str]],
    leave_out: Collection[str] = frozenset(),
) -> Plan:
    """Plan the effect of candidates on known records.

    Typed facts and their removals are appended: the fold settles them. A statement is compared with similar ones of its
    partition (tenant, scope, subject and owner): the consolidator decides which of them it updates or makes obsolete,
    and whether it is new at all. A wish to forget a statement is compared with everything said before it in its
    partition, typed facts too, the most similar first; exact matches are meant without a question.

    - Nothing is erased: deleted, merged or withdrawn records are retracted, and their words stay in the log.
    - A record changes once. A wish to forget goes first, then the first candidate wins.
    - A candidate that no record states afterwards is inserted, whatever the consolidator decides. So is one about which
      it fails: a `ModelError` costs the comparison, not the fact. An error about a wish to forget is raised.
    - Words never change those of a higher trust (user, assistant, others), and words that are not believed change
      nothing: such a part of an answer is refused. A record is never updated by words of another origin.
    - A candidate that was recorded before, in whatever state, has no effect; nor has a wish that was met.

    Args:
        candidates: the candidates, in the order said; see `without_duplicates`.
        known: the current records, as the owner of the candidates sees them, with embeddings. Other partitions are
            neither shown nor changed.
        consolidator: the consolidator; without one every statement is inserted, and only exact matches are forgotten.
        policy: thresholds and limits.
        log: the log of the store, at least for the partitions of the candidates.
        leave_out: ids of assertions to ignore: the pending words that the candidates were found in. A candidate
            that is such words itself, fingerprint and all, is appended as it is; the caller lets the
            words stand instead.
        flags: returns the flags of a text; see `lawful`.

    Raises:
        ModelError: the consolidator failed to say what a wish to forget means.
    """
    candidates = [
        attrs.evolve(it, assertion=attrs.evolve(it.assertion, removed=True)) if it.removal else it for it in candidates
    ]
    survey = await to_thread.run_sync(Survey.of, candidates, known, log, leave_out)
    fresh = [candidate for candidate in candidates if candidate.assertion.fingerprint not in survey.heard]
    questions = await to_thread.run_sync(questions_about, fresh, survey, policy)
    said = await answers_to(questions, consolidator, policy.concurrency) if consolidator is not None else {}
    for number, answer in said.items():
        if isinstance(answer, ModelError) and fresh[number].removal:
            raise answer
    answers = {
        number: lawful(answer, questions[number].novelty, flags)
        for number, answer in sorted(said.items())
        if isinstance(answer, Verdicts)
    }
    drafter = _Drafter(candidates=fresh, questions=questions, answers=answers, survey=survey, policy=policy)
    decisions, refused = await drafter.decide()
    return Plan(
        statements=await to_thread.run_sync(lambda: tuple(drafter.statements(decisions))),
        questions=len(said),
        refused=refused,
        failures=tuple(answer for _, answer in sorted(said.items()) if isinstance(answer, ModelError)),
        vain=frozenset() if any(proposal.removal for proposal in refused) else drafter.vain(decisions),
        heard=survey.heard,
    )


@attrs.frozen(kw_only=True, eq=False)
class _Drafter:
    """Makes decisions, has them approved, and writes them down."""

    candidates: Sequence[CandidateAssertion]
    questions: Mapping[int, Question]
    answers: Mapping[int, Verdicts]
    survey: Survey
    policy: ConsolidationPolicy

    async def decide(self) -> tuple[dict[int, Decision], tuple[Proposal, ...]]:
        """Return the decision about each candidate, and the refused proposals."""
        refused = []
        claims = Claims()
        wishes = self._wished(claims)
        if (proposal := self._of_wishes(wishes)) is not None and not await self._approved(proposal):
            refused.append(proposal)
            claims, wishes = Claims(), {}
        taken_back = frozenset[int]().union(*(decision.fellows for decision in wishes.values()))
        others = self._compared(self.answers, claims, taken_back)
        if (proposal := self._of_comparisons(others)) is not None and not await self._approved(proposal):
            refused.append(proposal)
            others = self._compared({}, claims, taken_back)
        return wishes | others, tuple(refused)

    def _wished(self, claims: Claims) -> dict[int, Decision]:
        """Decide about wishes to forget. Exact matches are meant; about the others the answers decide."""
        return {
            number: _decide_wish(self.candidates[number], question, self.answers.get(number, Verdicts()), claims)
            for number, question in self.questions.items()
            if self.candidates[number].removal
        }

    def _compared(
        self, answers: Mapping[int, Verdicts], claims: Claims, taken_back: Collection[int]
    ) -> dict[int, Decision]:
        """Decide about all candidates that are not wishes to forget, in the order of the batch.

        Args:
            answers: the answers that count, by candidate; a candidate without an answer is inserted.
            claims: earlier decisions.
            taken_back: the candidates that a wish takes back; they have no effect.
        """
        decisions = {}
        for number, candidate in enumerate(self.candidates):
            if candidate.removal and candidate.counts and is_free_text(candidate.assertion):
                continue
            if number in taken_back:
                decisions[number] = Decision(taken_back=True)
            elif number in self.questions and number in answers:
                decisions[number] = _decide_similar(candidate, self.questions[number], answers[number], claims)
            else:
                decisions[number] = _decide_unasked(candidate, self.survey)
        return decisions

    async def _approved(self, proposal: Proposal) -> bool:
        """Return whether the policy approves; a function that fails does not."""
        if self.policy.approve is None:
            return False
        try:
            return bool(await called(self.policy.approve, proposal))
        except Exception as error:
            _log.warning("%d deletions were not approved: %s", proposal.deletions, type(error).__name__)
            return False

    def _of_wishes(self, wishes: Mapping[int, Decision]) -> Proposal | None:
        """Return the proposal of wishes if they delete too much of all that is known in their partitions.

        A wish is the user's own, but its meaning is a model's guess.
        """
        partitions = {partition_of(self.candidates[number].assertion) for number in wishes}
        known = [record.said for partition in partitions for record in self.survey.records.get(partition, ())]
        known += [
            item.assertion
            for item in self.candidates
            if not item.removal and partition_of(item.assertion) in partitions
        ]
        fellows = {number for decision in wishes.values() for number in decision.fellows}
        deleted = _deleted(wishes.values())
        gone = [record.said for record in deleted] + [self.candidates[number].assertion for number in sorted(fellows)]
        return self._excess(deleted, _things(gone), _things(known), removal=True)

    def _of_comparisons(self, decisions: Mapping[int, Decision]) -> Proposal | None:
        shown = {
            record.id
            for number, question in self.questions.items()
            if number in decisions and not decisions[number].taken_back
            for record in question.shown
            if isinstance(record, CurrentRecord)
        }
        deleted = _deleted(decisions.values())
        return self._excess(deleted, len(deleted), len(shown), removal=False)

    def _excess(
        self, deleted: Sequence[CurrentRecord], deletions: int, among: int, *, removal: bool
    ) -> Proposal | None:
        if self.policy.allows(deletions, among):
            return None
        ids = tuple(record.id for record in deleted)
        return Proposal(record_ids=ids, deletions=deletions, among=among, removal=removal)

    def statements(self, decisions: Mapping[int, Decision]) -> Iterator[Statement]:
        """Yield the statements that carry out decisions."""
        retracted: set[str] = set()
        for number, decision in sorted(decisions.items()):
            candidate = self.candidates[number]
            for record, reason in decision.deletes:
                why = reason_of_wish(candidate.assertion, reason) if candidate.removal else reason
                yield from self._retractions(record, why, retracted)
            if decision.merged_into is not None:
                yield _merged_aside(decision.merged_into, candidate)
                if decision.confirms:
                    yield _confirmation(decision.merged_into, candidate, self.policy)
            for record, text in decision.updates:
                if decision.merged_into is record or text != record.said.data:
                    yield _revision(record, candidate, text, self.policy)
            if decision.taken_back:
                yield _aside(self._beside_words(candidate, always=True))
            if decision.insert:
                said = self._beside_words(candidate, always=False)
                yield Append(assertion=said.assertion, vector=said.vector)

    def vain(self, decisions: Mapping[int, Decision]) -> frozenset[tuple[Evidence, ...]]:
        """Return the evidence of the wishes to forget that take nothing back, with none of their candidates."""
        said = grouped((it.assertion for it in self.candidates if not it.removal), lambda one: one.key)
        met: dict[tuple[Evidence, ...], bool] = {}
        for number, item in enumerate(self.candidates):
            wish, decision = item.assertion, decisions.get(number, Decision())
            taken = not item.removal  # an item that leaves a collection: the rest of it is a new value
            if item.removal and wish.is_statement:
                taken = any((decision.deletes, decision.updates, decision.fellows))
            elif item.removal:
                equal = self.survey.equal_to(item)
                meant = [*said.get(wish.key, ()), *([] if equal is None else [equal.said])]
                taken = any(item.may_change(one) and one.timestamp <= wish.timestamp for one in meant)
            if item.counts:
                met[wish.details.evidence] = met.get(wish.details.evidence, False) or taken
        return frozenset(evidence for evidence, taken in met.items() if not taken)

    def _retractions(self, record: CurrentRecord, reason: str | None, done: set[str]) -> Iterator[StateRequest]:
        for recorded in self.survey.assertions_of(record):
            if recorded.id not in done:
                done.add(recorded.id)
                yield StateRequest.of(
                    recorded,
                    state=AssertionState.RETRACTED,
                    reason=reason,
                    expected=self.survey.states.get(recorded.id, recorded.assertion.state),
                )

    def _beside_words(self, candidate: CandidateAssertion, *, always: bool) -> CandidateAssertion:
        """Return a candidate as a revision of the words it was found in, if it equals them: it would be lost."""
        said = candidate.assertion
        words = self.survey.words.get(said.fingerprint)
        if words is None or (words.id in self.survey.left_out and not always):
            return candidate
        return attrs.evolve(candidate, assertion=attrs.evolve(said, revises=words.record_id, revised=words.seq))


def _deleted(decisions: Iterable[Decision]) -> list[CurrentRecord]:
    return list({record.id: record for decision in decisions for record, _ in decision.deletes}.values())


def _things(said: Iterable[Assertion]) -> int:
    """Return the number of things that assertions say: the words of a message count with the facts found in them."""
    facts, statements = list[Assertion](), list[Assertion]()
    for one in said:
        (statements if one.is_statement else facts).append(one)
    held = {item.message for fact in facts for item in fact.details.evidence}
    cited = ({item.message for item in statement.details.evidence} for statement in statements)
    return len(facts) + sum(map(held.isdisjoint, cited))
