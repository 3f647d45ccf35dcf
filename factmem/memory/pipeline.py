"""Pipeline: submitted words are read by models, compared with known records, and applied in one transaction."""

from __future__ import annotations

import functools
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from anyio import to_thread
from anyio.lowlevel import checkpoint

from factmem.abc.capabilities import Append, Receipt, Statement, StateRequest
from factmem.abc.detector import DropReason
from factmem.abc.observer import Operation
from factmem.changes import Change, ChangeKind, changed_states, changes_between
from factmem.consolidation.candidates import CandidateAssertion, without_duplicates
from factmem.consolidation.planning import Plan, plan
from factmem.consolidation.policy import Approve, Proposal
from factmem.consolidation.survey import ASKED_TO_BE_FORGOTTEN, wish_met
from factmem.details import Evidence, FactDetails, Origin
from factmem.detection.flags import flags_in
from factmem.detection.quotes import covers
from factmem.errors import (
    BudgetSpentError,
    ConceptConflictError,
    EmbedderError,
    FactMemError,
    ModelAwayError,
    ModelError,
    RecordNotFoundError,
    StateConflictError,
)
from factmem.facts import Concept
from factmem.fold import Current, Moment, fold, record_key, states_of
from factmem.grouping import grouped
from factmem.llm.asking import metered
from factmem.llm.local_models import called
from factmem.memory.background import Remembered, Unrepresented
from factmem.memory.journal import (
    Job,
    JobKind,
    Source,
    Unit,
    in_order,
    is_read_again,
    is_words,
    message_of,
    quotes,
    settled_state,
    sources_of,
    taken_by,
    units_in,
    wish_in,
    wishing,
)
from factmem.memory.model_reader import ModelReader, ReadUnit, holds_facts, read_words
from factmem.memory.operations import operation
from factmem.memory.reader import in_time
from factmem.memory.reversals import state_requests
from factmem.memory.screening import Screening
from factmem.memory.ttl import TtlOperation, expires_at
from factmem.memory.writer import WritingPart
from factmem.observing import current_call, nested
from factmem.recall import RecallFilter
from factmem.recall.index.corpus import Corpus
from factmem.recall.index.selection import LogPart, selected
from factmem.recall.index.source import outside_log
from factmem.recall.results import hydrate, hydrated
from factmem.recall.text.analysis import indexed_text
from factmem.records import (
    Assertion,
    AssertionState,
    FactRecord,
    LogEntry,
    Place,
    Recorded,
    StateChange,
    as_kept_apart,
    shown_record,
)
from factmem.views import Sight

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger("factmem")


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
                if said.details.doubt is not None:
                    continue  # it is no doubt about the words
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
    """Return the messages that ask to forget something, and earlier ones of the batch with the words they mean.

    There are none if the wishes were refused.
    """
    candidates = [candidate for item in found for candidate in item.candidates]
    wishes = [item.assertion for item in candidates if item.removal and item.counts and not planned.refuses_wishes]
    of_slots = grouped(wishes, lambda wish: wish.key)
    others = [item.assertion for item in candidates if not item.removal]
    meant = [said for said in others if taken_by(of_slots.get(said.key, ()), said)]
    words = {None, *(recorded.record_id for item in found for recorded in item.unit.words)}
    aside = [
        item.assertion
        for item in planned.statements
        if isinstance(item, Append)
        and item.assertion.state is AssertionState.RETRACTED
        and item.assertion.revises in words  # words merged into another record are a revision of it
    ]
    return {message_of(said.details) for said in (*wishes, *meant, *aside)}


def _words_taken_back(
    statements: Sequence[Statement], log: Sequence[LogEntry], moment: Moment, waiting: Collection[str]
) -> list[StateRequest]:
    """Return the requests that retract words with the facts found in them, so that no later reading restores them.

    Words that the user asks to forget are retracted entirely. If a fact was replaced or merged, its words are retracted
    only if its quotes cover them: the rest of the words is stored nowhere else.

    Args:
        statements: Statements of a plan, without the ends of values, whose words stay.
        log: Log of the places concerned, as the viewer sees it.
        moment: The present.
        waiting: Ids of the waiting words, which are settled separately.
    """
    states = states_of(log)
    recorded = {entry.id: entry for entry in log if isinstance(entry, Recorded)}
    requests = [item for item in statements if isinstance(item, StateRequest)]
    changed = [(item, recorded[item.assertion_id].assertion) for item in requests if item.assertion_id in recorded]
    settled = {*waiting, *(item.assertion_id for item in requests)}
    stated = [(item.assertion.state, item.assertion) for item in statements if isinstance(item, Append)]
    stated += [(item.state, said) for item, said in changed]
    gone = (said for state, said in stated if said.removed and state is AssertionState.ACTIVE)
    removals = grouped(gone, lambda said: said.key)
    current = [row.recorded for row in fold(log, moment)] if removals else []
    of_records = {record_key(entry): removals.get(entry.assertion.key, ()) for entry in current}
    wished: set[Source] = set()
    replaced: dict[Source, list[Evidence]] = defaultdict(list)
    for entry in recorded.values():  # superseded values of a record, too
        said, was = entry.assertion, states.get(entry.id)
        if was and said.counts(was) and taken_by(of_records.get(record_key(entry), ()), said):
            wished.update(sources_of(said))
    for item, said in changed:
        if item.state is AssertionState.RETRACTED:
            if (item.reason or "").startswith(ASKED_TO_BE_FORGOTTEN):
                wished.update(sources_of(said))
            for evidence in said.details.evidence:
                replaced[said.details.owner, *evidence.message].append(evidence)
    words = [entry for entry in recorded.values() if is_words(entry.assertion)]
    sources = {entry.id: sources_of(entry.assertion) for entry in words}
    forgotten = [entry.assertion for entry in words if not wished.isdisjoint(sources[entry.id])]
    taken = [
        entry
        for entry in words
        if entry.id not in settled
        and states.get(entry.id) is AssertionState.ACTIVE
        and (
            not wished.isdisjoint(sources[entry.id])
            or quotes(entry.assertion, forgotten)
            or any(covers(replaced.get(it, ()), entry.assertion.details.evidence[0]) for it in sources[entry.id])
        )
    ]
    reason = "taken back with what was found in it"
    return state_requests(taken, AssertionState.ACTIVE, AssertionState.RETRACTED, reason)


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
        concepts: The declared concepts, and those asked for, by keyword.
    """
    messages: dict[tuple[str | None, str | None], set[int]] = defaultdict(set)
    slots: dict[tuple[object, ...], set[int]] = defaultdict(set)
    for number, item in enumerate(findings):
        for recorded in item.unit.words:
            if (message := message_of(recorded.assertion.details)) is not None:
                messages[message].add(number)
        for candidate in item.candidates:
            if candidate.counts:
                slots[candidate.assertion.key].add(number)

    def citing(details: FactDetails) -> set[int]:
        return set[int]().union(*(messages.get(item.message, ()) for item in details.evidence))

    records: list[dict[str, FactRecord[Any]]] = [{} for _ in findings]
    changes: list[list[Change]] = [[] for _ in findings]
    reported: dict[str, set[int]] = {}
    for row in after:
        if numbers := citing(row.details).union(slots.get(row.recorded.assertion.key, ())):
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


def _without(read: ReadUnit, keyword: str) -> ReadUnit:
    """Return a unit without the findings of a keyword, which are counted as dropped; the same one if it has none."""
    kept = tuple(item for item in read.candidates if item.assertion.keyword != keyword)
    lost = len(read.candidates) - len(kept)
    return attrs.evolve(_counted(read, DropReason.OTHER_TYPE, lost), candidates=kept) if lost else read


def _without_vain_ends(found: Sequence[ReadUnit], current: Iterable[Current]) -> list[ReadUnit]:
    """Return units without ends of values that did not hold when they ended, which are counted as dropped."""
    known = [CandidateAssertion(row.recorded.assertion) for row in current]
    candidates = [candidate for read in found for candidate in read.candidates]
    holding: dict[tuple[object, ...], object] = {}
    vain: set[int] = set()
    for item in sorted([*known, *candidates], key=lambda item: item.assertion.timestamp):
        slot = item.assertion.key
        if item.ends and holding.get(slot) != item.assertion.data:
            vain.add(id(item))
        elif item.counts and item.assertion.removed:
            holding.pop(slot, None)
        elif item.counts:
            holding[slot] = item.assertion.data
    kept = [tuple(item for item in read.candidates if id(item) not in vain) for read in found]
    return [
        _counted(attrs.evolve(read, candidates=rest), DropReason.NOT_CURRENT, len(read.candidates) - len(rest))
        for read, rest in zip(found, kept, strict=True)
    ]


def _vain_in(read: ReadUnit, planned: Plan) -> set[tuple[Evidence, ...]]:
    """Return the evidence of the wishes of a unit that take nothing back: neither what is known nor what waits."""
    wishes = {item.assertion.details.evidence for item in read.candidates if item.removal and item.counts}
    return set() if read.rejected else wishes & planned.vain


def _wish_of(item: CandidateAssertion) -> bytes:
    """Return the fingerprint of a wish to forget as it is planned."""
    return attrs.evolve(item.assertion, removed=True).fingerprint


def _again(read: ReadUnit, log: Sequence[LogEntry]) -> list[StateRequest]:
    """Return the requests that repeat what a wish to forget did before that was undone, if a person accepts it."""
    if read.unit.job.kind is not JobKind.FORGET or read.unit.reason is None:
        return []
    wishes = {_wish_of(item) for item in read.candidates if item.removal}
    states = states_of(log)
    active, retracted = AssertionState.ACTIVE, AssertionState.RETRACTED
    removals, taken = list[Recorded](), dict[str, str]()
    for entry in log:
        if isinstance(entry, Recorded):
            said = attrs.evolve(entry.assertion, revises=None, revised=None)
            undone = said.removed and not said.is_statement and states.get(entry.id) is retracted
            if undone and said.fingerprint in wishes:
                removals.append(entry)
        elif isinstance(entry, StateChange) and wish_met(entry.reason) in wishes:
            taken[entry.assertion_id] = entry.reason or ""
    back = [it for it in log if isinstance(it, Recorded) and it.id in taken and states.get(it.id) is active]
    return [
        *state_requests(removals, retracted, active, read.unit.reason),
        *(request for it in back for request in state_requests([it], active, retracted, taken[it.id])),
    ]


def _carried_out(
    found: Sequence[ReadUnit], planned: Plan, again: Mapping[str, Sequence[StateRequest]]
) -> Iterator[StateRequest]:
    """Yield the requests that accept wishes to forget that waited, and take something back now.

    Args:
        found: The units.
        planned: Plan of their findings.
        again: What is repeated of what was undone, by job id.
    """
    told = [item.assertion for read in found for item in read.candidates if not item.removal]
    for read in found:
        if read.unit.job.kind is not JobKind.FORGET:
            continue
        vain = _vain_in(read, planned)
        wishes = [item for item in read.candidates if item.removal and item.assertion.details.evidence not in vain]
        new = [item for item in wishes if _wish_of(item) not in planned.heard]
        takes = any(said.key == it.assertion.key and taken_by([it.assertion], said) for it in wishes for said in told)
        if new or takes or again[read.unit.job.id] or read.rejected:
            yield from state_requests(
                read.unit.words, read.unit.before, AssertionState.ACTIVE, read.unit.reason or "carried out"
            )


def _waiting_wishes(found: Iterable[ReadUnit], planned: Plan, *, keep_words: bool) -> Iterator[Append]:
    """Yield words whose wishes to forget take nothing back, to wait for that: they are kept nowhere else.

    Several wishes of a message wait one by one. Where no words are kept, only the quotes of the wishes wait.
    """
    for read in found:
        vain = _vain_in(read, planned)
        wishes = [item.assertion.details for item in read.candidates if item.removal and item.counts]
        quotes = list(dict.fromkeys(wish.evidence[0] for wish in wishes))
        met = {message_of(wish) for wish in wishes if wish.evidence not in vain}
        for recorded in read.unit.words if read.unit.waiting else ():
            said = recorded.assertion
            message = message_of(said.details)
            if message not in {quote.message for quote in quotes} - met or is_read_again(recorded):
                continue
            whole = said.details.evidence[0]
            within = [it for it in quotes if it.message == message and covers([whole], it)]
            for quote in within if len(within) > 1 or not keep_words else [whole]:
                own = quote.quote == whole.quote
                cited = ((it, it.details.evidence[0]) for it in read.wishes if it.details.evidence in vain)
                inside = [it for it, words in cited if words.message == message and covers([quote], words)]
                yield Append(
                    assertion=attrs.evolve(
                        said,
                        data=said.data if own else quote.quote,
                        details=attrs.evolve(said.details, evidence=(quote,), doubt=DropReason.NOT_CURRENT.value),
                        state=AssertionState.QUARANTINED,
                        removed=bool(inside),
                        job=wishing(read.unit.job, inside) if inside else None,
                        revises=recorded.record_id if own else None,
                        revised=recorded.seq,
                    )
                )


def _without_wishes(read: ReadUnit) -> ReadUnit:
    """Return a unit with its wishes to forget counted as dropped."""
    wishes = sum(item.removal and item.counts for item in read.candidates)
    return attrs.evolve(_counted(read, DropReason.NOT_APPROVED, wishes), rejected=())


def _counted(read: ReadUnit, reason: DropReason, number: int) -> ReadUnit:
    return attrs.evolve(read, dropped=dict(Counter(read.dropped) + Counter({reason: number})))


def _representable(
    found: Iterable[CandidateAssertion], screening: Screening
) -> tuple[Sequence[Assertion], Counter[Unrepresented]]:
    """Return what a provider with the four verbs only keeps of findings, and the numbers of what it cannot keep."""
    lost: Counter[Unrepresented] = Counter()
    kept: dict[bytes, Assertion] = {}
    for item in found:
        screened = screening.screened(item.assertion)
        if item.removal or item.ends:
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
    return list(kept.values()), lost


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

        units, visible = await to_thread.run_sync(select), self._context.sight.owners
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
        with self._backend.worker.in_turn({(unit.place.key, owner) for unit in units}) as earlier:
            return await self._read_all(units, earlier)

    @operation(Operation.READ)
    async def _read_all(
        self, units: Sequence[Unit], earlier: Callable[[], Awaitable[None]] = checkpoint
    ) -> list[Remembered | FactMemError]:
        with metered(self._backend.worker.spent):
            readings = [*units, *await self._wishes_since(units)]
            found = await ModelReader(self._context, self._backend).read_all(readings, earlier)
            if self._backend.four_verbs_only:
                return [
                    await (self._kept(item) if isinstance(item, ReadUnit) else self.give_up(unit, item))
                    for unit, item in zip(units, found, strict=True)
                ]
            readable = [item for item in found if isinstance(item, ReadUnit)]
            results: dict[str, Remembered | FactMemError] = {}
            # The findings of one transaction share these settings.
            for alike in grouped(readable, lambda it: (it.unit.job.consolidate, it.unit.job.merge)).values():
                results |= await self._applied_or_single(alike)
            for unit, item in zip(units, found, strict=False):  # the wishes are last
                if isinstance(item, FactMemError):
                    left = await self._left_of(unit) if isinstance(item, StateConflictError) else unit.words
                    results[unit.job.id] = item if left == unit.words else await self._read_left(unit, left)
        outcomes = [results[unit.job.id] for unit in units]
        carried_out = [results.get(wish.job.id) for wish in readings[len(units) :]]
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, Remembered):  # what the wishes change is told with the first text
                changes = [it for other in carried_out if isinstance(other, Remembered) for it in other.changes]
                new = [change for change in changes if change not in outcome.changes]
                outcomes[at] = attrs.evolve(outcome, changes=(*outcome.changes, *new))
                break
        current_call().record_dropped(item.dropped for item in outcomes if isinstance(item, Remembered))
        return outcomes

    async def _wishes_since(self, units: Sequence[Unit]) -> list[Unit]:
        """Return the wishes to forget that took nothing and were said since the words of some units of one owner."""
        texts = [unit for unit in units if unit.job.kind is not JobKind.FORGET]
        if not texts or self._backend.four_verbs_only:
            return []
        first = [(unit.place.key, min(item.assertion.timestamp for item in unit.words)) for unit in texts]
        part = LogPart(
            states=[AssertionState.QUARANTINED],
            jobs=True,
            kept=RecallFilter(places={place for place, _ in first}, since=min(at for _, at in first)),
        )

        def may_mean(entry: Recorded) -> bool:
            said = entry.assertion
            mine = said.details.owner == self._context.viewer and said.details.doubt == DropReason.NOT_CURRENT.value
            return mine and any(said.place.key == place and at <= said.timestamp for place, at in first)

        waiting = await self._reader.everybody.recorded(part, may_mean)
        wishes = (wish_in(entry, self._context.concepts) for entry in waiting)
        return [wish for wish in wishes if wish is not None]

    async def _kept(self, found: ReadUnit) -> Remembered:
        """Keep findings, and the words that stay beside them, in a provider with the four verbs only."""
        keep = self._kept_words([found], Plan())
        words = [read_words(item) for item in found.unit.words if item.id in keep]
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
        kept, lost = _representable(found, await self._writer.screening())
        concepts = self._concepts_of([job])
        places = list({said.place.key: said.place for said in kept}.values())
        before = await self._current_at(places)
        keys = set()
        for said in kept:
            fact = shown_record(outside_log(said), concepts).fact
            try:
                await self._backend.provider.save(self._writer.dated(fact), said.place.subject, said.place.scope)
            except FactMemError as error:
                failure = type(error).__name__
            else:
                keys.add(attrs.evolve(said, details=attrs.evolve(said.details, evidence=())).key)  # it keeps none
                compared = job.consolidate and self._backend.consolidator is not None
                lost[Unrepresented.COMPARISON] += compared and said.is_statement
        after = await self._current_at(places)
        return Remembered(
            records=tuple(hydrate(row, self._context.concepts) for row in after if row.recorded.assertion.key in keys),
            changes=tuple(await to_thread.run_sync(changes_between, before, after, self._context.concepts)),
            dropped=dropped or {},
            unrepresented=+lost,
            failure=failure,
        )

    def _concepts_of(self, jobs: Iterable[Job]) -> dict[str, Concept[Any, Any]]:
        """Return the concepts that records are read by: the declared ones, and others that jobs look for."""
        asked = {concept.keyword: concept for job in jobs for concept in job.request.concepts}
        return {**asked, **self._context.concepts}

    async def _current_at(self, places: Iterable[Place]) -> list[Current]:
        wanted = [RecallFilter(subject=place.subject, scope=place.scope, exact=True) for place in places]
        return [row for each in wanted for row in await self._reader.visible(each)]

    async def give_up(self, unit: Unit, error: FactMemError) -> Remembered:
        """Keep words as they were said, marked as unread, with the reason."""
        failure = type(error).__name__
        if self._backend.four_verbs_only:
            return await self._saved(map(read_words, unit.words), unit.job, failure=failure)
        stays_pending = isinstance(error, BudgetSpentError | ModelAwayError)
        left: Sequence[Recorded] = unit.words if unit.waiting else ()
        while left and not stays_pending:
            why = f"{failure}: {error}"
            try:
                await self._writer.commit(state_requests(left, AssertionState.PENDING, AssertionState.FAILED, why))
                break
            except (StateConflictError, RecordNotFoundError):  # read or forgotten by another process meanwhile
                left = await self._left_of(unit)
        outcome = await self.present_outcome(unit.words)
        if unit.waiting and not left:
            return outcome
        changes = await self.changes_by(left)
        if stays_pending:  # no record is rolled back from words that wait
            changes = tuple(change for change in changes if change.kind is ChangeKind.CREATED)
        return attrs.evolve(outcome, changes=changes, failure=failure)

    async def await_again(self, words: Sequence[Recorded]) -> None:
        """Let failed words wait once more.

        Raises:
            StateConflictError: Another caller lets them be read meanwhile.
        """
        before, after = AssertionState.FAILED, AssertionState.PENDING
        await self._writer.commit(state_requests(words, before, after, "to be read again"))

    async def changes_by(self, words: Collection[Recorded]) -> tuple[Change, ...]:
        """Return the changes of records that words make by being kept as they were said."""
        records, ids = {recorded.record_id for recorded in words}, {recorded.id for recorded in words}
        log = await self._reader.everybody.log(LogPart(record_ids=records, related=True))
        earlier = [entry for entry in log if not isinstance(entry, Recorded) or entry.id not in ids]

        changed = functools.partial(_changed, earlier, log, self._context.moment, self._context.concepts)
        _, changes = await in_time(changed, len(log))
        return tuple(changes)

    async def present_outcome(self, words: Sequence[Recorded]) -> Remembered:
        """Return the present outcome of words that any process may have read."""
        messages = {message_of(recorded.assertion.details) for recorded in words} - {None}
        conversations = [message[0] for message in messages if message is not None and message[0] is not None]
        named = len(conversations) == len(messages)
        log = await self._reader.everybody.log(LogPart(conversations=conversations, related=True) if named else None)
        ready = {recorded.record_id for recorded in words if message_of(recorded.assertion.details) is None}
        if ready and named:
            log = [*log, *await self._reader.everybody.log(LogPart(record_ids=ready, related=True))]
        visible = await in_time(lambda: fold(log, self._context.moment), len(log))
        rows = [
            row
            for row in visible
            if row.recorded.record_id in ready or any(item.message in messages for item in row.details.evidence)
        ]
        return Remembered(records=tuple(hydrated(rows, self._context.concepts)))

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
            (read,) = found
            unit = read.unit
            if isinstance(error, ConceptConflictError) and (rest := _without(read, error.keyword)) is not read:
                _log.warning(
                    "findings of %r were dropped, for the facts there have another type: see Admin.convert",
                    error.keyword,
                )
                return await self._applied_or_single([rest])
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
        return await self._reader.everybody.left_waiting(unit.words)

    async def _not_forgotten(self, words: Iterable[Recorded]) -> tuple[Recorded, ...]:
        wanted = {recorded.id: recorded for recorded in words}
        there = {entry.id for entry in await self._reader.everybody.recorded(LogPart(ids=wanted))}
        return tuple(recorded for id, recorded in wanted.items() if id in there)

    async def _read_left(self, unit: Unit, left: tuple[Recorded, ...]) -> Remembered | FactMemError:
        """Read the rest of a unit of which another process has read a part.

        That part is context, if it is still stored.
        """
        if not left:
            return await self.present_outcome(unit.words)
        read = [recorded for recorded in unit.words if recorded not in left]
        context = in_order(await self._not_forgotten((*unit.context, *read)))
        (result,) = await self._read_all([attrs.evolve(unit, words=left, context=context)])
        if isinstance(result, FactMemError):
            return result
        return attrs.evolve(result, records=(await self.present_outcome(unit.words)).records)

    async def _applied(self, found: Sequence[ReadUnit]) -> dict[str, Remembered]:
        """Apply findings in one transaction; return the outcome of each job."""
        # Findings must not outlive their words. The transaction itself checks those that wait.
        settled = [recorded for item in found if not item.unit.waiting for recorded in item.unit.words]
        if len(await self._not_forgotten(settled)) < len(settled):
            raise RecordNotFoundError("words were forgotten while they were read")
        words = {recorded.id: recorded for item in found if item.unit.waiting for recorded in item.unit.words}
        places = {item.assertion.place.key for read in found for item in read.candidates}
        found, planned, undone = await self._decided(found, places, words.keys())
        rejections = await self._rejections(found)
        undone += rejections
        log = await self._log_of(places) if any(read.unit.reason is not None for read in found) else []
        repeated = {read.unit.job.id: _again(read, log) for read in found}
        again = [request for requests in repeated.values() for request in requests]
        undone += again
        carried_out = [] if planned.refuses_wishes else list(_carried_out(found, planned, repeated))
        if takes_back := any(isinstance(it, StateRequest) or it.assertion.removed for it in undone):
            places |= {recorded.assertion.place.key for item in found for recorded in item.unit.words}
            places |= {item.unit.place.key for item in found}
        beside = {it.record_id for it in words.values() if it.assertion.place.key not in places}
        log = await self._log_of(places, beside)
        before = [entry for entry in log if not isinstance(entry, Recorded) or entry.id not in words]
        # Before the state of the words is decided: words that expire need a revision of their own.
        lasting = attrs.evolve(planned, statements=tuple(map(self._lasting_as_generated, planned.statements)))
        statements = [
            *_transaction(lasting, words, keep=self._kept_words(found, planned)),
            *_waiting_wishes(found, planned, keep_words=self._context.policies.keep_words),
            *carried_out,
            *again,
            *rejections,
        ]
        if takes_back:  # earlier words with the facts found in them
            statements += await to_thread.run_sync(_words_taken_back, undone, log, self._context.moment, words.keys())
        receipts = await self._writer.commit(statements)
        log = await self._log_of(places, beside)
        concepts = self._concepts_of(item.unit.job for item in found)
        after, changed = await to_thread.run_sync(_changed, before, log, self._context.moment, concepts)
        apart = _quarantined_by(statements, receipts, words)
        if apart:
            _log.info("%d records wait in quarantine: see quarantine.list() or `factmem quarantine list`", len(apart))
        outcomes = await to_thread.run_sync(_outcomes_of, found, after, apart, changed, concepts)
        met = {request.assertion_id for request in carried_out}
        for unit in (read.unit for read in found if not met.isdisjoint(read.unit.ids)):
            own = self._own_change(unit)
            outcome = outcomes[unit.job.id]
            outcomes[unit.job.id] = attrs.evolve(outcome, changes=(own, *outcome.changes))
        return outcomes

    def _own_change(self, wish: Unit) -> Change:
        """Return the change of a wish to forget that was carried out; undone, it waits again."""
        (entry,), concepts = wish.words, self._context.concepts
        return Change(
            kind=ChangeKind.DELETED,
            record=as_kept_apart(entry, AssertionState.ACTIVE, concepts),
            previous=as_kept_apart(entry, wish.before, concepts),
            states_before={entry.seq: AssertionState.QUARANTINED},
        )

    async def _decided(
        self, found: Sequence[ReadUnit], places: set[tuple[Any, ...]], words: Collection[str]
    ) -> tuple[Sequence[ReadUnit], Plan, list[Statement]]:
        """Return units with all that is not used counted, the plan of their findings, and what it does but end values.

        Args:
            found: The units.
            places: Places of their findings.
            words: Ids of the words that wait.
        """
        if any(item.ends for read in found for item in read.candidates):
            log = await self._log_of(places)
            rows = await in_time(lambda: fold(log, self._context.moment), len(log))
            found = _without_vain_ends(found, rows)
        candidates = await self._candidates(found)
        planned = await self._planned(candidates, places, words, found[0].unit.job)
        if planned.refuses_wishes:
            found = list(map(_without_wishes, found))
        found = [_counted(read, DropReason.NOT_CURRENT, len(_vain_in(read, planned))) for read in found]
        ends = {item.assertion.fingerprint for item in candidates if item.ends}
        undone = [
            it for it in planned.statements if isinstance(it, StateRequest) or it.assertion.fingerprint not in ends
        ]
        return found, planned, undone

    async def _rejections(self, found: Iterable[ReadUnit]) -> list[StateRequest]:
        """Return the requests that reject what waits in quarantine still, and is to be forgotten."""
        ids = {recorded.id for item in found for recorded in item.rejected}
        before, after = AssertionState.QUARANTINED, AssertionState.RETRACTED
        part = LogPart(ids=ids, states=[before])
        waiting = await self._reader.everybody.quarantined(part) if ids else ()
        return state_requests((entry for entry, _ in waiting), before, after, ASKED_TO_BE_FORGOTTEN)

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
            and holds_facts(recorded, self._context.policies.origins)
            and message_of(recorded.assertion.details) not in forgotten
        )

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
        await self._reader.everybody.corpus(embedded=found[0].unit.job.consolidate)
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
        corpus = await self._reader.everybody.corpus(embedded=job.consolidate)
        wanted = set(places)
        known = await to_thread.run_sync(_known_at, corpus, self._context.viewer, wanted)
        policy = attrs.evolve(self._context.policies.consolidation, metadata=job.merge)
        if policy.approve is not None:
            policy = attrs.evolve(policy, approve=functools.partial(self._approved, policy.approve))
        if job.consolidate:
            candidates = await to_thread.run_sync(without_duplicates, candidates, policy)
        consolidator = self._backend.consolidator if job.consolidate else None
        log = await self._log_of(wanted)
        with nested(Operation.CONSOLIDATE, records_in=len(candidates)) as call:
            planned = await plan(
                candidates, known, consolidator, policy, log=log, leave_out=frozenset(words), flags=flags_in
            )
            call.record_result(len(planned.statements))
        for proposal in planned.refused:
            _log.warning(
                "%s would retract %d of %d records, and was refused: see ConsolidationPolicy.approve",
                "what is to be forgotten" if proposal.removal else "what is new",
                proposal.deletions,
                proposal.among,
            )
        for error in planned.failures:
            _log.warning("similar statements were not compared (%s); they stand side by side", type(error).__name__)
        return planned

    async def _approved(self, approve: Approve, proposal: Proposal) -> bool:
        """Return whether a proposal is approved; other readings go on, for a human may take hours to decide."""
        self._backend.worker.end_turns()
        return bool(await called(approve, proposal))

    async def _log_of(self, places: set[tuple[Any, ...]], records: Collection[str] = ()) -> list[LogEntry]:
        """Return the visible log of some places, and of some records elsewhere."""
        reader = self._reader.everybody
        log = await reader.log(LogPart(kept=RecallFilter(places=places))) if places else []
        return [*log, *(await reader.log(LogPart(record_ids=records, related=True)) if records else ())]

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


class PipelinePart(WritingPart):
    """A part that reads, writes, and lets models read."""

    @functools.cached_property
    def _pipeline(self) -> Pipeline:
        return Pipeline(self._context, self._backend)


def _changed(
    before: Sequence[LogEntry], log: Sequence[LogEntry], moment: Moment, concepts: Mapping[str, Concept[Any, Any]]
) -> tuple[list[Current], list[Change]]:
    """Return what is current in a log, and the changes since an earlier one."""
    after = fold(log, moment)
    return after, changes_between(fold(before, moment), after, concepts, changed_states(before, log))


def _known_at(
    corpus: Corpus, viewer: str | None, places: Collection[tuple[Any, ...]]
) -> list[tuple[Current, NDArray[np.float32] | None]]:
    """Return the current records of some places that a viewer may see and a prompt may show, with embeddings."""
    if not places:
        return []
    found = selected(corpus, Sight(viewer=viewer, reviewed=True), RecallFilter(places=places))
    pairs = zip(corpus.currents(found), corpus.embeddings(found), strict=True)
    return [(row, vector) for row, vector in pairs if row is not None]
