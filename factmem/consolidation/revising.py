"""What is appended about records: revisions, confirmations, and newcomers that were merged into a record."""

from __future__ import annotations

import attrs

from factmem.abc import Append
from factmem.consolidation.newcomers import Newcomer, evidence_of
from factmem.consolidation.policy import ConsolidationPolicy
from factmem.consolidation.survey import Standing
from factmem.records import Assertion, AssertionState, Evidence, FactDetails, merged_metadata

__all__ = ["aside", "confirmation", "may_merge", "merged_aside", "revision"]


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
