"""Settling what was found in words: what becomes of them, and what is told of it. Pure."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from factmem.abc import Analysis, Append, DropReason, Receipt, Statement, StateRequest
from factmem.consolidation import ASKED_TO_BE_FORGOTTEN, Plan
from factmem.detection import covers
from factmem.facts import Concept, FactType
from factmem.fold import Current, Moment, fold, states_of
from factmem.memory.journal import Unit, is_words, settled_state
from factmem.memory.outcomes import Remembered
from factmem.recall import Corpus, RecallFilter, hydrate, selected
from factmem.records import (
    Assertion,
    AssertionState,
    Change,
    Evidence,
    FactDetails,
    FactRecord,
    LogEntry,
    MetadataMerge,
    Place,
    Recorded,
    record_of,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Finding",
    "analysed_details",
    "cited_message",
    "forgotten_messages",
    "kept_apart",
    "known_at",
    "log_of",
    "manner_of",
    "message_of",
    "read_words",
    "removals",
    "told",
    "transaction",
    "words_taken_back",
]


@attrs.frozen(kw_only=True)
class Finding:
    """The findings in a unit of words, before they are applied."""

    unit: Unit
    newcomers: tuple[tuple[Assertion, bool], ...]
    """What was said, and whether it asks to forget that."""
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)


def manner_of(found: Finding) -> tuple[bool, MetadataMerge]:
    """What is applied in the same manner may go into one transaction."""
    return (found.unit.errand.consolidate, found.unit.errand.merge)


def read_words(recorded: Recorded) -> Assertion:
    """The assertion that words make once nothing is waited for."""
    return attrs.evolve(recorded.assertion, errand=None, state=settled_state(recorded))


def analysed_details(analysis: Analysis, given: FactDetails) -> FactDetails:
    """What the caller gave stands, also key by key of the metadata."""
    told = {"entities": analysis.entities, "dates": analysis.dates}
    metadata = {name: list(items) for name, items in told.items() if items} | dict(given.metadata)
    return attrs.evolve(
        given,
        categories=given.categories or analysis.categories,
        topics=given.topics or analysis.topics,
        importance=given.importance if analysis.importance is None else analysis.importance,
        metadata=metadata,
    )


def message_of(details: FactDetails) -> tuple[str | None, str | None] | None:
    """Return the conversation and message that something was found in first, if any."""
    return cited_message(details.evidence[0]) if details.evidence else None


def cited_message(evidence: Evidence) -> tuple[str | None, str | None]:
    """Return the conversation and message of some words."""
    return (evidence.conversation_id, evidence.message_id)


def log_of(log: Sequence[LogEntry], viewer: str | None, places: Collection[tuple[Any, ...]]) -> list[LogEntry]:
    """Return what somebody may see of the log of some places, by their keys; changes of state name no place."""
    return [
        entry
        for entry in log
        if not isinstance(entry, Recorded)
        or (entry.assertion.place.key in places and entry.assertion.details.owner in (None, viewer))
    ]


def known_at(
    corpus: Corpus, viewer: str | None, places: Collection[tuple[Any, ...]]
) -> list[tuple[Current, NDArray[np.float32] | None]]:
    """Return the current records of some places that a viewer may see and a prompt may show, with embeddings."""
    if not places:
        return []
    found = selected(corpus, viewer, RecallFilter(places=places, reviewed=True))
    pairs = zip(corpus.currents(found), corpus.embeddings(found), strict=True)
    return [(row, vector) for row, vector in pairs if row is not None]


def removals(
    cleared: Concept[Any, Any], place: Place, details: FactDetails, said_at: dt.datetime, here: Sequence[Current]
) -> tuple[Assertion, ...]:
    """Return the removals of everything that is known of a concept at a place, of one owner.

    Args:
        cleared: the concept whose values go.
        place: where.
        details: of the removals; their owner is whose facts go.
        said_at: when that was said.
        here: what is current at that place, and elsewhere.
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
            errand=None,
            actor=None,
            state=AssertionState.ACTIVE,
        )
        for said in known
        if (said.place.key, said.details.owner) == (place.key, details.owner)
    )


def transaction(planned: Plan, words: Mapping[str, Recorded], *, keep: Collection[str]) -> list[Statement]:
    """Add to a plan what becomes of the words: they stand where they are to be kept, or are what was found.

    Args:
        planned: the plan.
        words: the words that wait, by id.
        keep: the ids of the words that stay beside what was found in them.
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
        StateRequest(
            assertion_id=recorded.id,
            state=stand.get(recorded.id, settled_state(recorded) if recorded.id in keep else AssertionState.RETRACTED),
            expected=AssertionState.PENDING,
        )
        for recorded in words.values()
    ]
    return [*closing, *statements]


def forgotten_messages(found: Sequence[Finding], planned: Plan) -> set[tuple[str | None, str | None] | None]:
    """Return the messages that ask to forget something, and those of the same batch in which that was said before."""
    newcomers = [(said, removal or said.removed) for item in found for said, removal in item.newcomers]
    wishes = [said for said, removal in newcomers if removal]
    slots: dict[tuple[object, ...], dt.datetime] = {
        (said.track, said.slot): said.timestamp for said in sorted(wishes, key=lambda said: said.timestamp)
    }
    meant = [said for said, removal in newcomers if not removal and _met_by(slots, said)]
    words = {None, *(recorded.record_id for item in found for recorded in item.unit.words)}
    aside = [
        item.assertion
        for item in planned.statements
        if isinstance(item, Append)
        and item.assertion.state is AssertionState.RETRACTED
        and item.assertion.revises in words  # what was merged into another record revises that one
    ]
    return {message_of(said.details) for said in (*wishes, *meant, *aside)}


def _met_by(slots: Mapping[tuple[object, ...], dt.datetime], said: Assertion) -> bool:
    until = slots.get((said.track, said.slot))
    return until is not None and said.timestamp <= until


def words_taken_back(
    statements: Sequence[Statement], log: Sequence[LogEntry], moment: Moment, waiting: Collection[str]
) -> list[StateRequest]:
    """Return the requests that retract words with the facts that were found in them, so that these do not come back.

    Words that the user asks to forget go whatever else they say. Where a fact was replaced or merged, its words go only
    if its quotes cover them: what was not found in them is nowhere else.

    Args:
        statements: what a plan does.
        log: the log of the places concerned, as the viewer sees it.
        moment: the present.
        waiting: the ids of the words that wait, which are settled by themselves.
    """
    states = states_of(log)
    settled = {*waiting, *(item.assertion_id for item in statements if isinstance(item, StateRequest))}
    recorded = {entry.id: entry for entry in log if isinstance(entry, Recorded)}
    removals = [item.assertion for item in statements if isinstance(item, Append) and item.assertion.removed]
    tracks = {said.track for said in removals}
    removed = {(said.track, said.slot) for said in removals}
    wished: set[_Source] = set()
    replaced: dict[_Source, list[Evidence]] = defaultdict(list)
    for row in fold(log, moment) if removals else ():
        if (said := row.recorded.assertion).track in tracks and (said.track, said.slot) in removed:
            wished.update(_sources(row.details, said.details.owner))
    for item in statements:
        if isinstance(item, StateRequest) and item.state is AssertionState.RETRACTED and item.assertion_id in recorded:
            details = recorded[item.assertion_id].assertion.details
            if (item.reason or "").startswith(ASKED_TO_BE_FORGOTTEN):
                wished.update(_sources(details, details.owner))
            for evidence in details.evidence:
                replaced[details.owner, *cited_message(evidence)].append(evidence)
    return [
        StateRequest(
            assertion_id=entry.id,
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


def kept_apart(
    statements: Sequence[Statement], receipts: Sequence[Receipt], words: Mapping[str, Recorded]
) -> list[Recorded]:
    """Return what a transaction has put into quarantine, of what it appended and of the words themselves."""
    requests = (statement for statement in statements if isinstance(statement, StateRequest))
    stand = (request.assertion_id for request in requests if request.state is AssertionState.QUARANTINED)
    appended = (receipt.recorded for receipt in receipts)
    new = (recorded for recorded in appended if recorded.assertion.state is AssertionState.QUARANTINED)
    return [*(words[id] for id in stand if id in words), *new]


def told(
    findings: Sequence[Finding],
    after: Sequence[Current],
    apart: Sequence[Recorded],
    changed: Sequence[Change],
    concepts: Mapping[str, Concept[Any, Any]],
) -> dict[str, Remembered]:
    """Say of each errand what came of it: by the messages that records come from, or else by what they say.

    What was deleted need not show any words of those who brought it about: it is told with the first.

    Args:
        findings: what was found, errand by errand.
        after: what is current now at the places concerned.
        apart: what was put into quarantine.
        changed: what happened to the records.
        concepts: the declared concepts by keyword.
    """
    sources = _Sources.of(findings)
    records: list[dict[str, FactRecord[Any]]] = [{} for _ in findings]
    changes: list[list[Change]] = [[] for _ in findings]
    told_of: dict[str, set[int]] = {}
    for row in after:
        if numbers := sources.numbers(row.details, row.recorded):
            told_of[row.recorded.record_id] = numbers
            record = hydrate(row, concepts)
            for number in numbers:
                records[number][record.id] = record
    for recorded in apart:
        if recorded.record_id not in told_of:
            for number in sources.numbers(recorded.assertion.details):
                records[number][recorded.id] = record_of(recorded, state=AssertionState.QUARANTINED)
    for change in changed:
        numbers = told_of.get(change.record.id) or sources.numbers(change.record.details) or {0}
        for number in numbers:
            changes[number].append(change)
    return {
        item.unit.errand.id: Remembered(
            records=tuple(records[number].values()), changes=tuple(changes[number]), dropped=item.dropped
        )
        for number, item in enumerate(findings)
    }


@attrs.frozen
class _Sources:
    """Which findings have to do with a message, or with a slot."""

    messages: Mapping[tuple[str | None, str | None], set[int]]
    slots: Mapping[tuple[object, ...], set[int]]

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> _Sources:
        messages: dict[tuple[str | None, str | None], set[int]] = defaultdict(set)
        slots: dict[tuple[object, ...], set[int]] = defaultdict(set)
        for number, item in enumerate(findings):
            for recorded in item.unit.words:
                if (message := message_of(recorded.assertion.details)) is not None:
                    messages[message].add(number)
            for said, _ in item.newcomers:
                slots[_slot(said)].add(number)
        return cls(messages, slots)

    def numbers(self, details: FactDetails, recorded: Recorded | None = None) -> set[int]:
        found = set[int]().union(*(self.messages.get(cited_message(item), ()) for item in details.evidence))
        return found if recorded is None else found.union(self.slots.get(_slot(recorded.assertion), ()))


def _slot(said: Assertion) -> tuple[object, ...]:
    return (*said.track, said.slot)
