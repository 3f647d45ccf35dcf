"""Pipeline: submitted words are read by models, compared with known records, and applied in one transaction."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

import attrs
from anyio import to_thread

from factmem.abc import Candidate, Verifier
from factmem.abc.analyst import Analysis, AnalysisRequest
from factmem.abc.capabilities import Append, Receipt, Statement, StateRequest
from factmem.abc.detector import Conversation, DropReason, Message
from factmem.abc.observer import Operation
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS
from factmem.abc.verifier import Claim, Confirmation
from factmem.changes import Change, ChangeKind, changes_between
from factmem.consolidation.candidates import CandidateAssertion
from factmem.consolidation.duplicates import without_duplicates
from factmem.consolidation.planning import ASKED_TO_BE_FORGOTTEN, Plan, plan
from factmem.details import Treatment
from factmem.detection.standing_instructions import instructions_in
from factmem.detection.utterances import covers
from factmem.errors import (
    BudgetSpentError,
    ConceptConflictError,
    EmbedderError,
    FactMemError,
    InvalidDataError,
    ModelAwayError,
    ModelError,
    RecordNotFoundError,
    StateConflictError,
)
from factmem.facts import STATEMENT, Concept, FactType, MultipleFacts, SingleFact
from factmem.fold import Current, Moment, fold, never_accepted, states_of
from factmem.llm.asking import bounded_gather, metered
from factmem.memory.background import Remembered, Unrepresented
from factmem.memory.journal import (
    Job,
    JobKind,
    Unit,
    cited_message,
    detailed,
    in_order,
    is_read_again,
    is_words,
    message_of,
    rebuilt,
    settled_state,
    treatment_of,
    units_in,
)
from factmem.memory.operations import operation
from factmem.memory.reader import Reader
from factmem.memory.scope_tree import ScopeInfo
from factmem.memory.taint import REPEATS
from factmem.memory.ttl import TtlOperation, expires_at
from factmem.memory.writer import WritingPart
from factmem.observing import current_call, nested
from factmem.recall import RecallFilter
from factmem.recall.index.corpus import Corpus
from factmem.recall.index.selection import LogPart, selected
from factmem.recall.index.source import outside_log
from factmem.recall.results import hydrate
from factmem.recall.text.analysis import indexed_text
from factmem.records import (
    Assertion,
    AssertionState,
    Evidence,
    FactDetails,
    FactRecord,
    LogEntry,
    MetadataMerge,
    Origin,
    Place,
    Recorded,
    assertions_of,
)
from factmem.scopes import MemoryScope
from factmem.shown_records import as_kept_apart, shown_record
from factmem.values import canonical_bytes, encode_value
from factmem.views import Sight

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["INFERRED", "Pipeline", "PipelinePart", "ReadUnit"]

INFERRED: Final = ("scope", "categories", "importance")
"""Details that an analyst infers where the caller gives none."""


@attrs.frozen(kw_only=True)
class ReadUnit:
    """A unit of words that was read, before anything of it is applied.

    Attributes:
        unit: The words.
        candidates: Assertions that were found, without their embeddings.
        dropped: Number of findings that are not used, by reason.
    """

    unit: Unit
    candidates: tuple[CandidateAssertion, ...]
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)


def _transaction(planned: Plan, words: Mapping[str, Recorded], *, keep: Collection[str]) -> list[Statement]:
    """Add the changes of the words to a plan: they become current if they are kept, and are retracted otherwise.

    Args:
        planned: Plan of the findings.
        words: Waiting words by id.
        keep: Ids of the words to keep beside the facts found in them.
    """
    waiting = {recorded.assertion.fingerprint: recorded for recorded in words.values()}
    statements: list[Statement] = []
    stand: dict[str, AssertionState] = {}
    for statement in planned.statements:
        match statement:
            case Append(assertion=said) if (recorded := waiting.get(said.fingerprint)) is not None:
                stand[recorded.id] = said.state
                if said.details != recorded.assertion.details:
                    revised = attrs.evolve(said, revises=recorded.record_id, revised=recorded.seq)
                    statements.append(attrs.evolve(statement, assertion=revised))
            case _:
                statements.append(statement)
    closing = [
        StateRequest.of(
            recorded,
            state=stand.get(recorded.id, settled_state(recorded) if recorded.id in keep else AssertionState.RETRACTED),
            expected=AssertionState.PENDING,
        )
        for recorded in words.values()
    ]
    return [*closing, *statements]


def _forgotten_messages(found: Sequence[ReadUnit], planned: Plan) -> set[tuple[str | None, str | None] | None]:
    """Return the messages that ask to forget something, and earlier ones of the batch with the words they mean."""
    candidates = [candidate for item in found for candidate in item.candidates]
    wishes = [item.assertion for item in candidates if item.forgets]
    of_slots: dict[tuple[object, ...], list[Assertion]] = defaultdict(list)
    for wish in wishes:
        of_slots[_slot(wish)].append(wish)
    others = [item.assertion for item in candidates if not item.forgets]
    meant = [said for said in others if _taken_by(of_slots.get(_slot(said), ()), said)]
    words = {None, *(recorded.record_id for item in found for recorded in item.unit.words)}
    aside = [
        item.assertion
        for item in planned.statements
        if isinstance(item, Append)
        and item.assertion.state is AssertionState.RETRACTED
        and item.assertion.revises in words  # words merged into another record are a revision of it
    ]
    return {message_of(said.details) for said in (*wishes, *meant, *aside)}


def _taken_by(wishes: Iterable[Assertion], said: Assertion) -> bool:
    """Return whether one of some wishes about the same record takes an assertion back."""
    return any(said.timestamp <= wish.timestamp and said.trust <= wish.trust for wish in wishes)


def _words_taken_back(
    statements: Sequence[Statement], log: Sequence[LogEntry], moment: Moment, waiting: Collection[str]
) -> list[StateRequest]:
    """Return the requests that retract words with the facts found in them, so that no later reading restores them.

    Words that the user asks to forget are retracted entirely. If a fact was replaced or merged, its words are retracted
    only if its quotes cover them: the rest of the words is stored nowhere else.

    Args:
        statements: Statements of a plan.
        log: Log of the places concerned, as the viewer sees it.
        moment: The present.
        waiting: Ids of the waiting words, which are settled separately.
    """
    states = states_of(log)
    settled = {*waiting, *(item.assertion_id for item in statements if isinstance(item, StateRequest))}
    recorded = {entry.id: entry for entry in log if isinstance(entry, Recorded)}
    removals = [item.assertion for item in statements if isinstance(item, Append) and item.assertion.removed]
    removed: dict[tuple[object, ...], int] = {}
    for said in removals:
        removed[_slot(said)] = max(said.trust, removed.get(_slot(said), 0))
    wished: set[_Source] = set()
    replaced: dict[_Source, list[Evidence]] = defaultdict(list)
    for row in fold(log, moment) if removals else ():
        said = row.recorded.assertion
        if said.trust <= removed.get(_slot(said), -1):
            wished.update(_sources(row.details, said.details.owner))
    for item in statements:
        if isinstance(item, StateRequest) and item.state is AssertionState.RETRACTED and item.assertion_id in recorded:
            details = recorded[item.assertion_id].assertion.details
            if (item.reason or "").startswith(ASKED_TO_BE_FORGOTTEN):
                wished.update(_sources(details, details.owner))
            for evidence in details.evidence:
                replaced[details.owner, *cited_message(evidence)].append(evidence)
    return [
        StateRequest.of(
            entry,
            state=AssertionState.RETRACTED,
            reason="taken back with what was found in it",
            expected=AssertionState.ACTIVE,
        )
        for entry in recorded.values()
        if entry.id not in settled
        and states.get(entry.id) is AssertionState.ACTIVE
        and is_words(entry.assertion)
        and any(
            source in wished or covers(replaced.get(source, ()), entry.assertion.details.evidence[0])
            for source in _sources(entry.assertion.details, entry.assertion.details.owner)
        )
    ]


_Source: TypeAlias = tuple[str | None, str | None, str | None]
"""Owner, conversation and message of words."""


def _sources(details: FactDetails, owner: str | None) -> set[_Source]:
    return {(owner, *cited_message(item)) for item in details.evidence}


def _quarantined_by(
    statements: Sequence[Statement], receipts: Sequence[Receipt], words: Mapping[str, Recorded]
) -> list[Recorded]:
    """Return the assertions that a transaction quarantined: appended ones, and the words themselves."""
    requests = (statement for statement in statements if isinstance(statement, StateRequest))
    stand = (request.assertion_id for request in requests if request.state is AssertionState.QUARANTINED)
    appended = (receipt.recorded for receipt in receipts)
    new = (recorded for recorded in appended if recorded.assertion.state is AssertionState.QUARANTINED)
    return [*(words[id] for id in stand if id in words), *new]


def _outcomes_of(
    findings: Sequence[ReadUnit],
    after: Sequence[Current],
    apart: Sequence[Recorded],
    changed: Sequence[Change],
    concepts: Mapping[str, Concept[Any, Any]],
) -> dict[str, Remembered]:
    """Return the outcome of each job: by the messages that records cite, or else by their values.

    A deleted record need not cite any words of the batch: it is reported with the first finding.

    Args:
        findings: The findings, job by job.
        after: The current records at the places concerned.
        apart: The quarantined assertions.
        changed: The changes of records.
        concepts: The declared concepts by keyword.
    """
    messages: dict[tuple[str | None, str | None], set[int]] = defaultdict(set)
    slots: dict[tuple[object, ...], set[int]] = defaultdict(set)
    for number, item in enumerate(findings):
        for recorded in item.unit.words:
            if (message := message_of(recorded.assertion.details)) is not None:
                messages[message].add(number)
        for candidate in item.candidates:
            slots[_slot(candidate.assertion)].add(number)

    def citing(details: FactDetails) -> set[int]:
        return set[int]().union(*(messages.get(cited_message(item), ()) for item in details.evidence))

    records: list[dict[str, FactRecord[Any]]] = [{} for _ in findings]
    changes: list[list[Change]] = [[] for _ in findings]
    reported: dict[str, set[int]] = {}
    for row in after:
        if numbers := citing(row.details).union(slots.get(_slot(row.recorded.assertion), ())):
            reported[row.recorded.record_id] = numbers
            record = hydrate(row, concepts)
            for number in numbers:
                records[number][record.id] = record
    for recorded in apart:
        for number in citing(recorded.assertion.details):
            records[number][recorded.id] = as_kept_apart(recorded, AssertionState.QUARANTINED, concepts)
    for change in changed:
        numbers = reported.get(change.record.id) or citing(change.record.details) or {0}
        for number in numbers:
            changes[number].append(change)
    return {
        item.unit.job.id: Remembered(
            records=tuple(records[number].values()), changes=tuple(changes[number]), dropped=item.dropped
        )
        for number, item in enumerate(findings)
    }


def _slot(said: Assertion) -> tuple[object, ...]:
    return (*said.track, said.slot)


_log = logging.getLogger("factmem")

_DEEPEST_PROPOSAL: Final = 32
"""Maximum depth of a scope that a model proposes."""
_AROUND: Final = 300
"""Number of characters that a verifier is shown before and after a quote."""
_MOST_ANSWERS: Final = 4_096
"""Maximum number of a verifier's answers that a memory holds."""


class Pipeline(WritingPart):
    """Reads words that wait. Each batch is applied in one transaction; words that fail are kept as they were said."""

    async def waiting(self, state: AssertionState, *, of_all: bool = False) -> list[Unit]:
        """Return the units that are in one state, in the order submitted.

        Args:
            state: The state.
            of_all: Whether those of all owners are returned, not only public ones and the viewer's own.
        """
        log = await self._backend.mirror.log(LogPart(jobs=True, states=(state,)))

        def select() -> list[Unit]:
            recorded = [entry for entry in log if isinstance(entry, Recorded)]
            return units_in(recorded, states_of(log), self._context.concepts, state=state)

        units, visible = await to_thread.run_sync(select), self._context.visible_owners
        mine = [unit for unit in units if of_all or unit.given.owner in visible]
        return [unit for unit in mine if self._context.view.holds(unit.place)]

    async def readable(self, *, of_all: bool = False) -> list[Unit]:
        """Return the pending units that can be read here; see `waiting` and `can_read`."""
        return list(filter(self.can_read, await self.waiting(AssertionState.PENDING, of_all=of_all)))

    def can_read(self, unit: Unit) -> bool:
        """Return whether the view is about all subjects of what may be found in a unit."""
        found = unit.job.request.subjects if unit.job.kind is JobKind.DETECT else ()
        return all(self._context.view.is_about(subject.key) for subject in found)

    async def read_now(self, units: Sequence[Unit]) -> list[Remembered]:
        """Read units of one owner and wait for it; the background worker leaves them alone meanwhile."""
        if not units:
            return []
        with self._backend.worker.holding(units):
            results = await self.process(units)
            return [
                result if isinstance(result, Remembered) else await self.give_up(unit, result)
                for unit, result in zip(units, results, strict=True)
            ]

    async def process(self, units: Sequence[Unit]) -> list[Remembered | FactMemError]:
        """Read waiting words, all of one owner; return the outcome or the error of each unit.

        They are read with their owner's view: neither a question nor an answer about public words involves private
        facts. Nothing is written for a unit that could not be read: it keeps waiting.
        """
        owner = units[0].given.owner
        if owner != self._context.viewer:
            return await Pipeline(attrs.evolve(self._context, viewer=owner), self._backend).process(units)
        return await self._read_all(units)

    @operation(Operation.READ)
    async def _read_all(self, units: Sequence[Unit]) -> list[Remembered | FactMemError]:
        with metered(self._backend.worker.spent):
            found = await self._found(units)
            if self._backend.four_verbs_only:
                return [
                    await (self._kept(item) if isinstance(item, ReadUnit) else self.give_up(unit, item))
                    for unit, item in zip(units, found, strict=True)
                ]
            readable = [item for item in found if isinstance(item, ReadUnit)]
            results: dict[str, Remembered | FactMemError] = {}
            for manner in dict.fromkeys(_manner_of(item) for item in readable):
                results |= await self._applied_or_single([item for item in readable if _manner_of(item) == manner])
        current_call().record_dropped(item.dropped for item in results.values() if isinstance(item, Remembered))
        return [
            item if isinstance(item, FactMemError) else results[unit.job.id]
            for unit, item in zip(units, found, strict=True)
        ]

    async def _kept(self, found: ReadUnit) -> Remembered:
        """Keep findings, and the words that stay beside them, in a provider with the four verbs only."""
        keep = self._kept_words([found], Plan())
        words = [_read_words(item) for item in found.unit.words if item.id in keep]
        return await self._saved([*words, *found.candidates], found.unit.job, dropped=found.dropped)

    async def _saved(
        self,
        found: Iterable[CandidateAssertion],
        job: Job,
        *,
        dropped: Mapping[DropReason, int] | None = None,
        failure: str | None = None,
    ) -> Remembered:
        """Save findings one by one in a provider with the four verbs only; one that fails does not prevent the others.

        Args:
            found: Findings, and words to keep beside them.
            job: Job that they were found for.
            dropped: Number of findings that are not used, by reason.
            failure: Name of the error that kept the words from being read, if any.
        """
        screening = await self._writer.screening()
        lost: Counter[Unrepresented] = Counter()
        kept: dict[bytes, Assertion] = {}
        for item in found:
            screened = screening.screened(item.assertion)
            if item.forgets:
                lost[Unrepresented.REMOVAL] += 1
            elif screened.state is AssertionState.QUARANTINED:
                lost[Unrepresented.QUARANTINE] += 1
            elif screened.details.origin is not Origin.USER:
                lost[Unrepresented.ORIGIN] += 1
            elif screened.state is not AssertionState.RETRACTED:
                kept[item.assertion.fingerprint] = screened
        for said in kept.values():
            lost[Unrepresented.EVIDENCE] += bool(said.details.evidence)
            lost[Unrepresented.DETAILS] += attrs.evolve(said.details, evidence=()) != FactDetails()
        concepts = {**{concept.keyword: concept for concept in job.request.concepts}, **self._context.concepts}
        places = list({said.place.key: said.place for said in kept.values()}.values())
        before = await self._current_at(places)
        slots = set()
        for said in kept.values():
            fact = shown_record(outside_log(said), concepts).fact
            try:
                await self._backend.provider.save(self._writer.dated(fact), said.place.subject, said.place.scope)
            except FactMemError as error:
                failure = type(error).__name__
            else:
                slots.add(_slot(said))
                compared = job.consolidate and self._backend.consolidator is not None
                lost[Unrepresented.COMPARISON] += compared and said.keyword == STATEMENT.keyword
        after = await self._current_at(places)
        return Remembered(
            records=tuple(
                hydrate(row, self._context.concepts) for row in after if _slot(row.recorded.assertion) in slots
            ),
            changes=tuple(await to_thread.run_sync(changes_between, before, after, self._context.concepts)),
            dropped=dropped or {},
            unrepresented=+lost,
            failure=failure,
        )

    async def _current_at(self, places: Iterable[Place]) -> list[Current]:
        wanted = [RecallFilter(subject=place.subject, scope=place.scope, exact=True) for place in places]
        return [row for each in wanted for row in await self._reader.visible(each)]

    async def give_up(self, unit: Unit, error: FactMemError) -> Remembered:
        """Keep words as they were said, marked as unread, with the reason."""
        failure = type(error).__name__
        if self._backend.four_verbs_only:
            return await self._saved(map(_read_words, unit.words), unit.job, failure=failure)
        stays_pending = isinstance(error, BudgetSpentError | ModelAwayError)
        left: Sequence[Recorded] = unit.words if unit.waiting else ()
        while left and not stays_pending:
            requests = [
                StateRequest.of(
                    recorded,
                    state=AssertionState.FAILED,
                    reason=f"{failure}: {error}" if isinstance(error, ModelError) else failure,
                    expected=AssertionState.PENDING,
                )
                for recorded in left
            ]
            try:
                await self._writer.commit(requests)
                break
            except (StateConflictError, RecordNotFoundError):  # read or forgotten by another process meanwhile
                left = await self._left_of(unit)
        outcome = await self.present_outcome(unit.words)
        if unit.waiting and not left:
            return outcome
        changes = await self._changes_by(left)
        if stays_pending:  # no record is rolled back from words that wait
            changes = tuple(change for change in changes if change.kind is ChangeKind.CREATED)
        return attrs.evolve(outcome, changes=changes, failure=failure)

    async def _changes_by(self, words: Collection[Recorded]) -> tuple[Change, ...]:
        """Return the changes of records that words make by being kept as they were said."""
        records, ids = {recorded.record_id for recorded in words}, {recorded.id for recorded in words}
        before = await self._rows(set(), records, without=ids)
        after = await self._rows(set(), records)
        return tuple(await to_thread.run_sync(changes_between, before, after, self._context.concepts))

    async def present_outcome(self, words: Sequence[Recorded]) -> Remembered:
        """Return the present outcome of words that any process may have read."""
        messages = {message_of(recorded.assertion.details) for recorded in words} - {None}
        conversations = [message[0] for message in messages if message is not None and message[0] is not None]
        named = len(conversations) == len(messages)
        log = await self._of_everybody.log(LogPart(conversations=conversations, related=True) if named else None)
        ready = {recorded.record_id for recorded in words if message_of(recorded.assertion.details) is None}
        if ready and named:
            log = [*log, *await self._of_everybody.log(LogPart(record_ids=ready, related=True))]
        visible = await to_thread.run_sync(fold, log, self._context.moment)
        rows = [
            row
            for row in visible
            if row.recorded.record_id in ready or any(cited_message(item) in messages for item in row.details.evidence)
        ]
        return Remembered(records=tuple(hydrate(row, self._context.concepts) for row in rows))

    async def _found(self, units: Sequence[Unit]) -> list[ReadUnit | FactMemError]:
        in_use = await Reader(self._context, self._backend).info() if any(unit.job.infer for unit in units) else None

        async def read(unit: Unit) -> ReadUnit | FactMemError:
            try:
                self._backend.worker.spent.check()
                return await self._read(unit, in_use)
            except FactMemError as error:
                return error
            except Exception as error:  # a custom detector may raise any error
                return ModelError(f"the detector or analyst failed: {type(error).__name__}")

        return await bounded_gather([partial(read, unit) for unit in units], self._backend.concurrency)

    async def _read(self, unit: Unit, in_use: ScopeInfo | None) -> ReadUnit:
        match unit.job.kind:
            case JobKind.DETECT:
                return await self._detected(unit)
            case JobKind.KEEP:
                return await self._analysed(unit, in_use)
            case JobKind.CONSOLIDATE:
                return ReadUnit(unit=unit, candidates=tuple(map(_read_words, unit.words)))

    async def _detected(self, unit: Unit) -> ReadUnit:
        conversation = await to_thread.run_sync(rebuilt, in_order((*unit.context, *unit.words)), self._treated(unit))
        reviewed = Reader(attrs.evolve(self._context.everybody, reviewed=True), self._backend)
        here = await reviewed.visible(RecallFilter(scope=unit.place.scope, exact=True))
        request = attrs.evolve(unit.job.request, in_use=self._in_use(unit, here))
        with nested(Operation.DETECT, records_in=len(conversation.messages)) as call:
            detection = await self._backend.detector.detect(conversation, request)
            call.record_result(len(detection.candidates))
        positions = {
            message_of(item.assertion.details): item.assertion.details
            for item in unit.words
            if not item.assertion.only_shown
        }
        shown = {message_of(item.assertion.details) for item in (*unit.context, *unit.words)}
        dropped = Counter(detection.dropped)
        cited = [message_of(candidate.details) for candidate in detection.candidates]
        dropped[DropReason.QUOTE_NOT_FOUND] += sum(message not in shown for message in cited)
        found = [item for item, message in zip(detection.candidates, cited, strict=True) if message in positions]

        def asserted(candidate: Candidate) -> tuple[Assertion, ...]:
            return self._asserted(candidate, unit, positions[message_of(candidate.details)], here)

        doubtful = [item for item in found if _is_doubted(item) and not _repeats(positions[message_of(item.details)])]
        left, unconfirmed = await self._verified(doubtful, asserted, conversation)
        certain = [item for item in found if item not in doubtful]
        said = [CandidateAssertion(it, removal=item.removed) for item in (*certain, *left) for it in asserted(item)]
        if not self._context.policies.keep_words:
            kept = [item.assertion.details for item in said if _instructs(item.assertion.details)]
            quotes = [quote for details in kept for quote in details.evidence]
            standing = (it for it in self._standing(unit) if not covers(quotes, it.details.evidence[0]))
            said += map(CandidateAssertion, standing)
        return ReadUnit(unit=unit, candidates=tuple(said), dropped=dict(+(dropped + unconfirmed)))

    async def _verified(
        self,
        doubted: Sequence[Candidate],
        asserted: Callable[[Candidate], Sequence[Assertion]],
        conversation: Conversation,
    ) -> tuple[list[Candidate], Counter[DropReason]]:
        """Return what is left of doubted values, without their doubt if they are believed, and counts of the others.

        A value that somebody accepted or refused in the inbox is not asked about again. The others are asked in one
        question. Without a verifier, if it fails, or once the budget is spent, they wait.

        Args:
            doubted: Candidates with a doubt; see `_is_doubted`.
            asserted: Returns the assertions of a candidate.
            conversation: The words that they were found in.
        """
        dropped: Counter[DropReason] = Counter()
        left: list[Candidate] = []
        asked: list[Candidate] = []
        single = [value for candidate in doubted for value in _one_by_one(candidate)]
        decided = _decisions_in(await self._of_everybody.log(LogPart(apart=True))) if single else {}
        for item, said in [(value, said) for value in single for said in asserted(value)]:
            match decided.get(_value_of(said)):
                case None:
                    asked.append(item)
                case AssertionState.QUARANTINED:
                    dropped[DropReason.WAITING_ALREADY] += 1
                case AssertionState.RETRACTED:
                    dropped[DropReason.REFUSED_BEFORE] += 1
                case _:
                    left.append(attrs.evolve(item, doubt=None))
        askable = [item for item in asked if item.doubt is not None and item.doubt.askable]
        left += [item for item in asked if item not in askable]
        messages = _by_name(conversation)
        answers = await self._answers([_claim_of(item, messages) for item in askable])
        for candidate, answer in zip(askable, answers, strict=True):
            match answer:
                case Confirmation.YES:
                    left.append(attrs.evolve(candidate, doubt=None))
                case Confirmation.NO:
                    dropped[DropReason.NOT_CONFIRMED] += 1
                case Confirmation.UNCLEAR:
                    left.append(candidate)
                case _:
                    assert_never(answer)
        return left, dropped

    async def _answers(self, claims: Sequence[Claim]) -> list[Confirmation]:
        """Return the answers to claims: those known already, and those of one question about the others."""
        unclear, known, verifier = Confirmation.UNCLEAR, self._backend.confirmations, self._backend.verifier
        keys = [(self._context.viewer, _digest(claim)) for claim in claims]
        new = {key: claim for key, claim in zip(keys, claims, strict=True) if key not in known}
        if new and verifier is not None:
            found = await self._asked(verifier, list(new.values()))
            known.update(zip(new, found, strict=False))
            while len(known) > _MOST_ANSWERS:
                known.pop(next(iter(known)))
        return [known.get(key, unclear) for key in keys]

    async def _asked(self, verifier: Verifier, claims: Sequence[Claim]) -> Sequence[Confirmation]:
        """Return a verifier's answers; none if it fails."""
        try:
            self._backend.worker.spent.check()
            with nested(Operation.VERIFY, records_in=len(claims)) as call:
                answers = await verifier.verify(claims)
                call.record_result(len(answers))
        except BudgetSpentError:
            return ()
        except Exception as error:  # a custom verifier may raise any error
            kind = error if isinstance(error, FactMemError) else type(error).__name__
            _log.warning("%d findings could not be verified and wait in quarantine: %s", len(claims), kind)
            return ()
        right = len(answers) == len(claims) and all(isinstance(item, Confirmation) for item in answers)
        return answers if right else ()

    def _standing(self, unit: Unit) -> Iterator[Assertion]:
        """Yield the user's standing instructions in the words of a unit, which outlast the words."""
        for item in unit.words:
            said, details = item.assertion, item.assertion.details
            if not (self._holds_facts(item) and _instructs(details)):
                continue
            (words,) = details.evidence
            for start, end in instructions_in(words.quote):
                at = words.start or 0
                quote = attrs.evolve(words, quote=words.quote[start:end], start=at + start, end=at + end)
                fact = STATEMENT.fact([quote.quote], timestamp=said.timestamp)
                for standing in assertions_of(fact, said.place, attrs.evolve(details, evidence=(quote,))):
                    yield attrs.evolve(standing, state=settled_state(item), actor=said.actor)

    def _holds_facts(self, recorded: Recorded) -> bool:
        """Return whether words are the user's, and are read for facts."""
        treatment = treatment_of(recorded) or self._context.policies.origins.user
        return recorded.assertion.details.origin is Origin.USER and treatment is Treatment.FACTS

    def _treated(self, unit: Unit) -> Callable[[Recorded], Treatment | None]:
        """Return the treatment of a unit's words as a function; earlier ones are context, if a model may see them."""
        origins = self._context.policies.origins

        def treated(recorded: Recorded) -> Treatment | None:
            own, origin = treatment_of(recorded), recorded.assertion.details.origin
            if _repeats(recorded.assertion.details):
                return _doubted(own or origins.of(origin)) if recorded.id in unit.ids else Treatment.IGNORE
            if recorded.id in unit.ids:
                return own
            return Treatment.CONTEXT if origins.shows(own or origins.of(origin), origin) else Treatment.IGNORE

        return treated

    def _asserted(
        self, candidate: Candidate, unit: Unit, words: FactDetails, here: Sequence[Current]
    ) -> tuple[Assertion, ...]:
        place = Place(candidate.subject or unit.place.subject, unit.place.scope)
        position = words.evidence[0].position
        evidence = tuple(attrs.evolve(item, position=position) for item in candidate.details.evidence)
        repeated = _repeats(words)  # flags of words that are not believed are those of the facts found in them
        flags = (*candidate.details.flags, *words.flags) if repeated else candidate.details.flags
        found = attrs.evolve(candidate.details, evidence=evidence, flags=flags)
        doubt = None if candidate.doubt is None else candidate.doubt.reason
        details = attrs.evolve(detailed(unit.given_for(words), found), doubt=doubt)
        fact = self._writer.dated(candidate.fact)
        quarantined = candidate.quarantined or repeated or candidate.doubt is not None
        if (
            candidate.cleared is not None
            and not quarantined
            and (gone := _removals(candidate.cleared, place, details, fact.timestamp, here))
        ):
            return gone
        # The words of a request to forget are not themselves removed.
        removed = candidate.removed and fact.concept.keyword != STATEMENT.keyword
        state = AssertionState.QUARANTINED if quarantined else AssertionState.ACTIVE
        return tuple(
            attrs.evolve(said, state=state, actor=unit.words[0].assertion.actor)
            for said in assertions_of(fact, place, details, removed=removed)
        )

    async def _analysed(self, unit: Unit, in_use: ScopeInfo | None) -> ReadUnit:
        analysis = await self._analysis(unit, in_use)
        place = Place(unit.place.subject, self._proposed(analysis.scope, unit.place.scope))
        said = [
            attrs.evolve(item.assertion, place=place, details=_analysed_details(analysis, item.assertion.details))
            for item in map(_read_words, unit.words)
        ]
        return ReadUnit(unit=unit, candidates=tuple(map(CandidateAssertion, said)))

    async def _analysis(self, unit: Unit, in_use: ScopeInfo | None) -> Analysis:
        """Return the parts of an analysis of a unit's words that its job asks for, and no others."""
        analyst, infer = self._backend.analyst, unit.job.infer
        if not infer or analyst is None or in_use is None:
            return Analysis()
        text = "\n\n".join(item.assertion.details.evidence[0].quote for item in unit.words)
        asked = {name: name in infer for name in INFERRED}
        request = AnalysisRequest(
            **asked, scopes_in_use=tuple(map(str, in_use.scopes)), categories_in_use=tuple(in_use.categories)
        )
        with nested(Operation.ANALYSE, records_in=1):
            analysis = await analyst.analyse(text, request)
        nothing = Analysis()
        return attrs.evolve(analysis, **{name: getattr(nothing, name) for name in INFERRED if not asked[name]})

    def _proposed(self, path: str | None, otherwise: MemoryScope) -> MemoryScope:
        """Return the scope that a model proposes; the given one if the proposed path is illegal or too deep."""
        if not path or ".." in path.split("/") or path.count("/") > _DEEPEST_PROPOSAL:
            return otherwise
        try:
            return self._context.target(path)
        except InvalidDataError:
            return otherwise

    def _in_use(self, unit: Unit, here: Sequence[Current]) -> tuple[Concept[Any, Any], ...]:
        """Return the declared concepts, and those of records about a unit's subjects, which a detector is shown."""
        subjects = {subject.key for subject in (*unit.job.request.subjects, unit.place.subject)}
        said = ((row, row.recorded.assertion) for row in here)
        newest = {it.keyword: row for row, it in said if it.place.subject.key in subjects}
        newest.pop(STATEMENT.keyword, None)
        declared = self._context.concepts
        found = {keyword: hydrate(row, declared).concept for keyword, row in newest.items()}
        return tuple((dict(declared) | found).values())

    async def _applied_or_single(
        self, found: Sequence[ReadUnit], *, tries: int = 5
    ) -> dict[str, Remembered | FactMemError]:
        """Apply findings in one transaction; if it fails, bisect down to the failing ones."""
        try:
            return dict(await self._applied(found))
        except (StateConflictError, RecordNotFoundError, ConceptConflictError, EmbedderError, ModelError) as error:
            if len(found) > 1:
                middle = len(found) // 2
                first = await self._applied_or_single(found[:middle])
                return first | await self._applied_or_single(found[middle:])
            (unit,) = (item.unit for item in found)
            if not isinstance(error, StateConflictError | RecordNotFoundError):
                return {unit.job.id: error}
            left = await self._left_of(unit)
            if left != unit.words:
                return {unit.job.id: await self._read_left(unit, left)}
            if tries > 1:  # a compared record has changed meanwhile
                return await self._applied_or_single(found, tries=tries - 1)
            return {unit.job.id: error}

    async def _left_of(self, unit: Unit) -> tuple[Recorded, ...]:
        """Return the words of a unit that nobody has read or forgotten yet."""
        if not unit.waiting:
            return await self._not_forgotten(unit.words)
        waiting = {recorded.id for recorded in await self._of_everybody.recorded_in((AssertionState.PENDING,))}
        return tuple(recorded for recorded in unit.words if recorded.id in waiting)

    async def _not_forgotten(self, words: Iterable[Recorded]) -> tuple[Recorded, ...]:
        wanted = {recorded.id: recorded for recorded in words}
        there = {entry.id for entry in await self._of_everybody.recorded(LogPart(ids=wanted))}
        return tuple(recorded for id, recorded in wanted.items() if id in there)

    async def _read_left(self, unit: Unit, left: tuple[Recorded, ...]) -> Remembered | FactMemError:
        """Read the rest of a unit of which another process has read a part.

        That part is context, if it is still stored.
        """
        if not left:
            return await self.present_outcome(unit.words)
        read = [recorded for recorded in unit.words if recorded not in left]
        context = in_order(await self._not_forgotten((*unit.context, *read)))
        (result,) = await self.process([attrs.evolve(unit, words=left, context=context)])
        if isinstance(result, FactMemError):
            return result
        return attrs.evolve(result, records=(await self.present_outcome(unit.words)).records)

    async def _applied(self, found: Sequence[ReadUnit]) -> dict[str, Remembered]:
        words = {recorded.id: recorded for item in found if item.unit.waiting for recorded in item.unit.words}
        await self._check_not_forgotten(found)
        candidates = await self._candidates(found)
        places = {item.assertion.place.key for item in candidates}
        planned = await self._planned(candidates, places, words.keys(), found[0].unit.job)
        if takes_back := any(isinstance(it, StateRequest) or it.assertion.removed for it in planned.statements):
            places |= {recorded.assertion.place.key for item in found for recorded in item.unit.words}
            places |= {item.unit.place.key for item in found}
        beside = {it.record_id for it in words.values() if it.assertion.place.key not in places}
        before = await self._rows(places, beside, without=words.keys())
        # Before the state of the words is decided: words that expire need a revision of their own.
        lasting = attrs.evolve(planned, statements=tuple(map(self._lasting_as_generated, planned.statements)))
        statements = [
            *_transaction(lasting, words, keep=self._kept_words(found, planned)),
            *(await self._taken_back(planned, places, words.keys()) if takes_back else ()),
        ]
        receipts = await self._writer.commit(statements)
        after = await self._rows(places, beside)
        changed = await to_thread.run_sync(changes_between, before, after, self._context.concepts)
        apart = _quarantined_by(statements, receipts, words)
        if apart:
            _log.info("%d records wait in quarantine: see quarantine.list() or `factmem quarantine list`", len(apart))
        return await to_thread.run_sync(_outcomes_of, found, after, apart, changed, self._context.concepts)

    def _kept_words(self, found: Sequence[ReadUnit], planned: Plan) -> frozenset[str]:
        """Return the ids of the words that stay as statements beside the facts found in them.

        These are words of the user that were read for facts, except requests to forget and the words that these mean.
        """
        if not self._context.policies.keep_words:
            return frozenset()
        forgotten = _forgotten_messages(found, planned)
        return frozenset(
            recorded.id
            for item in found
            if item.unit.job.kind is JobKind.DETECT
            for recorded in item.unit.words
            if not is_read_again(recorded)  # the words themselves stay as their first reading left them
            and self._holds_facts(recorded)
            and message_of(recorded.assertion.details) not in forgotten
        )

    async def _taken_back(
        self, planned: Plan, places: set[tuple[Any, ...]], waiting: Collection[str]
    ) -> list[StateRequest]:
        """Return the requests that retract earlier words together with the facts found in them."""
        log = await self._log_of(places)
        return await to_thread.run_sync(_words_taken_back, planned.statements, log, self._context.moment, waiting)

    async def _check_not_forgotten(self, found: Sequence[ReadUnit]) -> None:
        """Raise if words were forgotten meanwhile: findings must not outlive them.

        The transaction itself checks words that wait.
        """
        read = [recorded for item in found if not item.unit.waiting for recorded in item.unit.words]
        if len(await self._not_forgotten(read)) < len(read):
            raise RecordNotFoundError("words were forgotten while they were read")

    async def _candidates(self, found: Sequence[ReadUnit]) -> list[CandidateAssertion]:
        screening = await self._writer.screening()
        candidates = [candidate for item in found for candidate in item.candidates]
        said = [screening.screened(candidate.assertion) for candidate in candidates]
        vectors = await self._vectors_beside(said, found)
        lasts = self._context.policies.ttl.of(TtlOperation.GENERATE_CREATED) is None
        return [
            attrs.evolve(candidate, assertion=assertion, vector=vector, lasts=lasts)
            for candidate, assertion, vector in zip(candidates, said, vectors, strict=True)
        ]

    async def _vectors_beside(self, assertions: Sequence[Assertion], found: Sequence[ReadUnit]) -> list[Any]:
        """Embed the findings whose text differs from words that were embedded at submission."""
        await self._of_everybody.corpus(embedded=found[0].unit.job.consolidate)
        words = [recorded for item in found for recorded in item.unit.words]
        vectors = {indexed_text(recorded.assertion): self._backend.mirror.vector(recorded.id) for recorded in words}
        texts = [indexed_text(assertion) for assertion in assertions]
        new = {text: said for text, said in zip(texts, assertions, strict=True) if vectors.get(text) is None}
        vectors |= dict(zip(new, await self._writer.vectors(list(new.values())), strict=True))
        return [vectors[text] for text in texts]

    async def _planned(
        self,
        candidates: Sequence[CandidateAssertion],
        places: Iterable[tuple[Any, ...]],
        words: Iterable[str],
        job: Job,
    ) -> Plan:
        corpus = await self._of_everybody.corpus(embedded=job.consolidate)
        wanted = set(places)
        known = await to_thread.run_sync(_known_at, corpus, self._context.viewer, wanted)
        policy = attrs.evolve(self._context.policies.consolidation, metadata=job.merge)
        if job.consolidate:
            candidates = await to_thread.run_sync(without_duplicates, candidates, policy)
        consolidator = self._backend.consolidator if job.consolidate else None
        log = await self._log_of(wanted)
        with nested(Operation.CONSOLIDATE, records_in=len(candidates)) as call:
            planned = await plan(candidates, known, consolidator, policy, log=log, leave_out=frozenset(words))
            call.record_result(len(planned.statements))
        for error in planned.failures:
            _log.warning("similar statements were not compared (%s); they stand side by side", type(error).__name__)
        return planned

    async def _log_of(self, places: set[tuple[Any, ...]]) -> list[LogEntry]:
        """Return the visible log of some places."""
        if not places:
            return []
        log = await self._backend.mirror.log(LogPart(kept=RecallFilter(places=places)))
        return await to_thread.run_sync(_log_of, log, self._context.viewer, places)

    def _lasting_as_generated(self, statement: Statement) -> Statement:
        """Set the expiry of a revision made by a model's reading, by the policy."""
        if not isinstance(statement, Append) or statement.assertion.removed:
            return statement  # a removal that expired would restore the removed value
        said, now, policy = statement.assertion, self._context.clock(), self._context.policies.ttl
        inherited = said.details.expires_at
        if said.revises is None:
            expiry = expires_at(policy, TtlOperation.GENERATE_CREATED, now, inherited)
        else:
            expiry = expires_at(policy, TtlOperation.GENERATE_UPDATED, now) or inherited
        details = attrs.evolve(said.details, expires_at=expiry)
        return attrs.evolve(statement, assertion=attrs.evolve(said, details=details))

    async def _rows(
        self, places: set[tuple[Any, ...]], records: Collection[str], *, without: Collection[str] = ()
    ) -> list[Current]:
        """Return the current, visible records of some places, and some records elsewhere."""
        log = await self._log_of(places)
        if records:
            log += await self._of_everybody.log(LogPart(record_ids=records, related=True))
        kept = [entry for entry in log if not isinstance(entry, Recorded) or entry.id not in without]
        return await to_thread.run_sync(fold, kept, self._context.moment)


class PipelinePart(WritingPart):
    """A part that reads, writes, and lets models read."""

    @functools.cached_property
    def _pipeline(self) -> Pipeline:
        return Pipeline(self._context, self._backend)


def _is_doubted(candidate: Candidate) -> bool:
    """Return whether a candidate would be believed but for its doubt: no answer lifts another quarantine."""
    return candidate.doubt is not None and not candidate.quarantined and candidate.details.origin.trusted


def _one_by_one(candidate: Candidate) -> Iterator[Candidate]:
    """Yield a candidate for each of its values, which are doubted one by one."""
    match candidate.fact:
        case SingleFact():
            yield candidate
        case MultipleFacts() as fact:
            for value in fact.values:
                yield attrs.evolve(candidate, fact=attrs.evolve(fact, values=(value,)))


def _decisions_in(log: Sequence[LogEntry]) -> dict[tuple[object, ...], AssertionState]:
    """Return the state of the newest assertion of each value that waited in quarantine before."""
    states, apart = states_of(log), never_accepted(log)
    decided: dict[tuple[object, ...], AssertionState] = {}
    for entry in log:
        if not isinstance(entry, Recorded) or entry.id not in states:
            continue
        said, state = entry.assertion, states[entry.id]
        waited = said.state is AssertionState.QUARANTINED and said.details.origin is Origin.USER
        if waited and (state is not AssertionState.RETRACTED or entry.id in apart):
            decided[_value_of(said)] = state
    return decided


def _by_name(conversation: Conversation) -> Mapping[tuple[str | None, str | None], tuple[Message, str]]:
    """Return each message, by conversation and id, with the text of the one before it, if that may be believed."""
    found: dict[tuple[str | None, str | None], tuple[Message, str]] = {}
    before = ""
    for message in conversation.messages:
        found.setdefault((conversation.id, message.id), (message, before))
        before = message.content if message.origin.trusted else ""
    return found


def _claim_of(candidate: Candidate, messages: Mapping[tuple[str | None, str | None], tuple[Message, str]]) -> Claim:
    """Return the claim of a candidate with one value."""
    concept, (value,) = candidate.fact.concept, candidate.fact.values
    evidence = candidate.details.evidence[0]
    message, before = messages.get(cited_message(evidence), (None, ""))
    data = encode_value(value, concept.value_type)
    return Claim(
        passage=evidence.quote if message is None else _passage(message.content, evidence),
        answered=before[-_AROUND:],
        speaker=evidence.speaker or evidence.role or "user",
        said_at=candidate.fact.timestamp,
        about="" if candidate.subject is None else candidate.subject.prompt_description,
        concept="" if concept.keyword == STATEMENT.keyword else concept.description or concept.keyword,
        value=data if isinstance(data, str) else json.dumps(data, ensure_ascii=False),
        removal=candidate.removed,
    )


def _passage(text: str, evidence: Evidence) -> str:
    """Return the words around a quote, from one blank to another; a short text as a whole."""
    start = text.find(evidence.quote) if evidence.start is None else evidence.start
    end = max(start, 0) + len(evidence.quote) if evidence.end is None else evidence.end
    first, last = max(start - _AROUND, 0), end + _AROUND
    before = text[first:start] if first == 0 else text[first:start].partition(" ")[2]
    after = text[end:last] if last >= len(text) else text[end:last].rpartition(" ")[0]
    return f"{before}{text[max(start, 0) : end]}{after}"


def _value_of(said: Assertion) -> tuple[object, ...]:
    return (*said.track, canonical_bytes(said.data), said.removed)


def _digest(claim: Claim) -> bytes:
    return hashlib.sha256(repr(attrs.astuple(claim)).encode(errors="surrogatepass")).digest()


def _instructs(details: FactDetails) -> bool:
    """Return whether words hold a standing instruction."""
    return EXPLICIT_INSTRUCTIONS.label in details.topics


def _manner_of(found: ReadUnit) -> tuple[bool, MetadataMerge]:
    """Return the settings that the findings of one transaction share."""
    return (found.unit.job.consolidate, found.unit.job.merge)


def _read_words(recorded: Recorded) -> CandidateAssertion:
    """Return words that do not wait any more."""
    return CandidateAssertion(attrs.evolve(recorded.assertion, job=None, state=settled_state(recorded)))


def _analysed_details(analysis: Analysis, given: FactDetails) -> FactDetails:
    """Return the caller's details, completed by the analysis, also key by key of the metadata."""
    found = {"entities": analysis.entities, "dates": analysis.dates}
    metadata = {name: list(items) for name, items in found.items() if items} | dict(given.metadata)
    return attrs.evolve(
        given,
        categories=given.categories or analysis.categories,
        topics=given.topics or analysis.topics,
        importance=given.importance if analysis.importance is None else analysis.importance,
        metadata=metadata,
    )


def _repeats(details: FactDetails) -> bool:
    """Return whether words only repeat what nobody vouches for."""
    return any(flag in REPEATS.values() for flag in details.flags)


def _doubted(treatment: Treatment) -> Treatment:
    """Return the treatment of words that are not believed: no model is shown them beside others."""
    match treatment:
        case Treatment.FACTS | Treatment.QUARANTINED_FACTS:
            return Treatment.QUARANTINED_FACTS
        case Treatment.STATEMENTS:
            return Treatment.STATEMENTS
        case Treatment.CONTEXT | Treatment.IGNORE:
            return Treatment.IGNORE
        case _:
            assert_never(treatment)


def _log_of(log: Sequence[LogEntry], viewer: str | None, places: Collection[tuple[Any, ...]]) -> list[LogEntry]:
    """Return the visible log of some places, by their keys; changes of state name no place."""
    return [
        entry
        for entry in log
        if not isinstance(entry, Recorded)
        or (entry.assertion.place.key in places and entry.assertion.details.owner in (None, viewer))
    ]


def _known_at(
    corpus: Corpus, viewer: str | None, places: Collection[tuple[Any, ...]]
) -> list[tuple[Current, NDArray[np.float32] | None]]:
    """Return the current records of some places that a viewer may see and a prompt may show, with embeddings."""
    if not places:
        return []
    found = selected(corpus, Sight(viewer=viewer, reviewed=True), RecallFilter(places=places))
    pairs = zip(corpus.currents(found), corpus.embeddings(found), strict=True)
    return [(row, vector) for row, vector in pairs if row is not None]


def _removals(
    cleared: Concept[Any, Any], place: Place, details: FactDetails, said_at: dt.datetime, here: Sequence[Current]
) -> tuple[Assertion, ...]:
    """Return the removals of all known values of a concept at a place, of one owner.

    Args:
        cleared: Concept whose values are removed.
        place: Place of the values.
        details: Details of the removals; their owner is the owner of the removed facts.
        said_at: Time when the removal was said.
        here: Current records, at that place and elsewhere.
    """
    known = (row.recorded.assertion for row in here if row.recorded.assertion.keyword == cleared.keyword)
    return tuple(
        attrs.evolve(
            said,
            data=None if said.fact_type is FactType.SINGLE else said.data,
            timestamp=said_at,
            removed=True,
            valid_from=None,
            valid_to=None,
            details=details,
            revises=None,
            revised=None,
            job=None,
            actor=None,
            state=AssertionState.ACTIVE,
        )
        for said in known
        if (said.place.key, said.details.owner) == (place.key, details.owner)
    )
