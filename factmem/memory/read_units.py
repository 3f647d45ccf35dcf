"""Units of words that were read: the changes that follow for the words, and the outcome of each job. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from factmem.abc import Append, DropReason, Receipt, Statement, StateRequest
from factmem.changes import Change
from factmem.consolidation import ASKED_TO_BE_FORGOTTEN, Plan
from factmem.detection import covers
from factmem.facts import Concept
from factmem.fold import Current, Moment, fold, states_of
from factmem.memory.background import Remembered
from factmem.memory.journal import Unit, is_words, settled_state
from factmem.recall import hydrate
from factmem.records import Assertion, AssertionState, Evidence, FactDetails, FactRecord, LogEntry, Recorded
from factmem.showing import as_kept_apart

__all__ = [
    "ReadUnit",
    "cited_message",
    "forgotten_messages",
    "message_of",
    "outcomes_of",
    "quarantined_by",
    "transaction",
    "words_taken_back",
]


@attrs.frozen(kw_only=True)
class ReadUnit:
    """A unit of words that was read, before anything of it is applied.

    Attributes:
        unit: The words.
        candidates: Assertions that were found, each with whether it is a request to forget.
        dropped: Number of findings that are not used, by reason.
    """

    unit: Unit
    candidates: tuple[tuple[Assertion, bool], ...]
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)


def message_of(details: FactDetails) -> tuple[str | None, str | None] | None:
    """Return the conversation and message that something was found in first, if any."""
    return cited_message(details.evidence[0]) if details.evidence else None


def cited_message(evidence: Evidence) -> tuple[str | None, str | None]:
    """Return the conversation and message that evidence cites."""
    return (evidence.conversation_id, evidence.message_id)


def transaction(planned: Plan, words: Mapping[str, Recorded], *, keep: Collection[str]) -> list[Statement]:
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


def forgotten_messages(found: Sequence[ReadUnit], planned: Plan) -> set[tuple[str | None, str | None] | None]:
    """Return the messages that ask to forget something, and earlier ones of the batch with the words they mean."""
    candidates = [(said, removal or said.removed) for item in found for said, removal in item.candidates]
    wishes = [said for said, removal in candidates if removal]
    of_slots: dict[tuple[object, ...], list[Assertion]] = defaultdict(list)
    for wish in wishes:
        of_slots[_slot(wish)].append(wish)
    meant = [said for said, removal in candidates if not removal and _taken_by(of_slots.get(_slot(said), ()), said)]
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


def words_taken_back(
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


def quarantined_by(
    statements: Sequence[Statement], receipts: Sequence[Receipt], words: Mapping[str, Recorded]
) -> list[Recorded]:
    """Return the assertions that a transaction quarantined: appended ones, and the words themselves."""
    requests = (statement for statement in statements if isinstance(statement, StateRequest))
    stand = (request.assertion_id for request in requests if request.state is AssertionState.QUARANTINED)
    appended = (receipt.recorded for receipt in receipts)
    new = (recorded for recorded in appended if recorded.assertion.state is AssertionState.QUARANTINED)
    return [*(words[id] for id in stand if id in words), *new]


def outcomes_of(
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
    sources = _Sources.of(findings)
    records: list[dict[str, FactRecord[Any]]] = [{} for _ in findings]
    changes: list[list[Change]] = [[] for _ in findings]
    reported: dict[str, set[int]] = {}
    for row in after:
        if numbers := sources.numbers(row.details, row.recorded):
            reported[row.recorded.record_id] = numbers
            record = hydrate(row, concepts)
            for number in numbers:
                records[number][record.id] = record
    for recorded in apart:
        for number in sources.numbers(recorded.assertion.details):
            records[number][recorded.id] = as_kept_apart(recorded, AssertionState.QUARANTINED, concepts)
    for change in changed:
        numbers = reported.get(change.record.id) or sources.numbers(change.record.details) or {0}
        for number in numbers:
            changes[number].append(change)
    return {
        item.unit.job.id: Remembered(
            records=tuple(records[number].values()), changes=tuple(changes[number]), dropped=item.dropped
        )
        for number, item in enumerate(findings)
    }


@attrs.frozen
class _Sources:
    """Index of findings by message and by slot."""

    messages: Mapping[tuple[str | None, str | None], set[int]]
    slots: Mapping[tuple[object, ...], set[int]]

    @classmethod
    def of(cls, findings: Sequence[ReadUnit]) -> _Sources:
        messages: dict[tuple[str | None, str | None], set[int]] = defaultdict(set)
        slots: dict[tuple[object, ...], set[int]] = defaultdict(set)
        for number, item in enumerate(findings):
            for recorded in item.unit.words:
                if (message := message_of(recorded.assertion.details)) is not None:
                    messages[message].add(number)
            for said, _ in item.candidates:
                slots[_slot(said)].add(number)
        return cls(messages, slots)

    def numbers(self, details: FactDetails, recorded: Recorded | None = None) -> set[int]:
        found = set[int]().union(*(self.messages.get(cited_message(item), ()) for item in details.evidence))
        return found if recorded is None else found.union(self.slots.get(_slot(recorded.assertion), ()))


def _slot(said: Assertion) -> tuple[object, ...]:
    return (*said.track, said.slot)
