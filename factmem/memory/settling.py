"""Settling what was found in words: what becomes of them, and what is told of it. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from factmem.abc import Analysis, Append, DropReason, Receipt, Statement, StateRequest
from factmem.consolidation import Plan
from factmem.facts import Concept, FactType
from factmem.fold import Current
from factmem.memory.journal import Unit, settled_state
from factmem.memory.outcomes import Remembered
from factmem.recall import hydrate
from factmem.records import (
    Assertion,
    AssertionState,
    Change,
    Evidence,
    FactDetails,
    FactRecord,
    MetadataMerge,
    Place,
    Recorded,
    record_of,
)

__all__ = [
    "Finding",
    "analysed_details",
    "cited_message",
    "kept_apart",
    "manner_of",
    "message_of",
    "read_words",
    "removals",
    "told",
    "transaction",
    "with_the_rest",
]


@attrs.frozen(kw_only=True)
class Finding:
    """What was found in words, before anything is done with it."""

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
            state=AssertionState.ACTIVE,
        )
        for said in known
        if (said.place.key, said.details.owner) == (place.key, details.owner)
    )


def transaction(planned: Plan, words: Mapping[str, Recorded], *, keep_words: bool) -> list[Statement]:
    """Add to a plan what becomes of the words: they stand where they are themselves what was found."""
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
            state=stand.get(recorded.id, settled_state(recorded) if keep_words else AssertionState.RETRACTED),
            expected=AssertionState.PENDING,
        )
        for recorded in words.values()
    ]
    return [*closing, *statements]


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
    item: Finding,
    after: Sequence[Current],
    apart: Sequence[Recorded],
    changed: Sequence[Change],
    concepts: Mapping[str, Concept[Any, Any]],
) -> Remembered:
    """Say of one unit what came of it: by the messages that records come from, or else by what they say."""
    messages = {message_of(recorded.assertion.details) for recorded in item.unit.words} - {None}
    slots = {(*said.track, said.slot) for said, _ in item.newcomers}

    def belongs(details: FactDetails) -> bool:
        return any(cited_message(item) in messages for item in details.evidence)

    rows = [row for row in after if belongs(row.details) or _slot(row.recorded) in slots]
    ids = {row.recorded.record_id for row in rows}
    quarantined: dict[str, FactRecord[Any]] = {
        recorded.id: record_of(recorded, state=AssertionState.QUARANTINED)
        for recorded in apart
        if belongs(recorded.assertion.details) and recorded.record_id not in ids
    }
    return Remembered(
        records=(*(hydrate(row, concepts) for row in rows), *quarantined.values()),
        changes=tuple(change for change in changed if change.record.id in ids or belongs(change.record.details)),
        dropped=item.dropped,
    )


def with_the_rest(told: dict[str, Remembered], changed: Sequence[Change]) -> dict[str, Remembered]:
    """What was deleted shows no words of those who brought it about: it is told with the first."""
    said = {change.record.id for remembered in told.values() for change in remembered.changes}
    rest = tuple(change for change in changed if change.record.id not in said)
    first = next(iter(told))
    return told | {first: attrs.evolve(told[first], changes=(*told[first].changes, *rest))}


def _slot(recorded: Recorded) -> tuple[object, ...]:
    return (*recorded.assertion.track, recorded.assertion.slot)
