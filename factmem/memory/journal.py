"""Journal: submitted words that wait to be read.

It needs no store of its own. Words are appended as statements in the state PENDING, with their `Job` beside them; so
they are durable, can be listed, recalled and forgotten, and stay within their partition. Reading them is one
transaction that appends the findings and retracts the words, or makes them current. Words that are submitted twice are
kept once, and words that were read are not read again.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import attrs

from factmem.abc import Candidate, Conversation, Message, StateRequest
from factmem.details import Treatment
from factmem.errors import CodecError
from factmem.facts import STATEMENT, Concept
from factmem.fold import states_of
from factmem.memory.jobs import Job, JobKind, job_from, job_json
from factmem.records import (
    Assertion,
    AssertionState,
    FactDetails,
    LogEntry,
    Place,
    Recorded,
    StateChange,
    Tombstone,
    assertions_of,
)

__all__ = [
    "Unit",
    "aims_of",
    "detailed",
    "given_with",
    "in_order",
    "is_read_again",
    "is_words",
    "job_id",
    "read_again",
    "rebuilt",
    "settled_state",
    "to_pending",
    "treatment_of",
    "units_in",
    "words_behind",
    "words_to_keep",
]


@attrs.frozen(kw_only=True)
class Unit:
    """Words that are read together.

    Attributes:
        job: Job that they wait for.
        words: Assertions that wait, in the order of the conversation.
        context: Earlier words that a model is shown as context.
        waiting: Whether the words wait to be read; otherwise their states do not change.
        target: Place of the findings; that of the words if None.
        caller: Details of the caller of a further reading, in place of those that the words were submitted with: owner,
            metadata, labels and expiries. None if nothing takes their place.
    """

    job: Job
    words: tuple[Recorded, ...]
    context: tuple[Recorded, ...] = ()
    waiting: bool = True
    target: Place | None = None
    caller: FactDetails | None = None

    @property
    def place(self) -> Place:
        """The place of the findings."""
        return self.words[0].assertion.place if self.target is None else self.target

    @property
    def given(self) -> FactDetails:
        """Details of the caller for findings, as submitted with the first words."""
        return self.given_for(self.words[0].assertion.details)

    def given_for(self, words: FactDetails) -> FactDetails:
        """Return the details of the caller for findings in some of the words."""
        given = given_with(words)
        if self.caller is None:
            return given
        return attrs.evolve(self.caller, importance=given.importance, categories=given.categories, source=given.source)

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the waiting assertions."""
        return frozenset(recorded.id for recorded in self.words)


def given_with(words: FactDetails) -> FactDetails:
    """Return the details of the caller in the details of submitted words: without evidence, topics and flags."""
    return attrs.evolve(words, evidence=(), topics=(), flags=())


def words_to_keep(
    candidates: Iterable[Candidate],
    place: Place,
    job: Job | None,
    treatments: Sequence[Treatment | None] = (),
) -> list[Assertion]:
    """Return the assertions that keep words, until they are read or for good.

    Args:
        candidates: Words, as `VerbatimDetector` finds them, or facts that are ready, with the caller's details.
        place: Place of the words.
        job: Job that they wait for, if any.
        treatments: Treatment of each message of the conversation by its position, if it is to be kept.
    """
    said = [
        assertion for candidate in candidates for assertion in assertions_of(candidate.fact, place, candidate.details)
    ]
    if job is None:
        return said
    waiting = {treatment: job_json(attrs.evolve(job, treatment=treatment)) for treatment in {None, *treatments}}
    return [
        attrs.evolve(assertion, job=waiting[_treatment_in(treatments, assertion)], state=AssertionState.PENDING)
        for assertion in said
    ]


def _treatment_in(treatments: Sequence[Treatment | None], said: Assertion) -> Treatment | None:
    position = said.details.evidence[0].position if treatments and said.details.evidence else None
    return None if position is None else treatments[position]


def treatment_of(recorded: Recorded) -> Treatment | None:
    """Return the treatment stored with submitted words, if any; None for one of a newer factmem."""
    job = recorded.assertion.job or {}
    return next((treatment for treatment in Treatment if treatment.value == job.get("treatment")), None)


def is_read_again(recorded: Recorded) -> bool:
    """Return whether waiting words were submitted before, and are read once more for something else."""
    return recorded.assertion.job is not None and recorded.assertion.revises is not None


def aims_of(recorded: Recorded) -> frozenset[str] | None:
    """Return the `DetectionRequest.aims` that words were submitted with; None if a newer factmem wrote their job."""
    return _aims_in(json.dumps(recorded.assertion.job, sort_keys=True))


@functools.lru_cache(maxsize=1_000)
def _aims_in(job: str) -> frozenset[str] | None:
    try:
        return job_from(json.loads(job), {}).request.aims
    except CodecError:
        return None


def read_again(recorded: Recorded, job: Job, log: Iterable[LogEntry]) -> Assertion | None:
    """Return words as a waiting revision that is read for another job; None if nothing is left to look for.

    Words that were retracted after they were read stay so: what the user took back is not read again.

    Args:
        recorded: The words, as they were submitted first.
        job: The job.
        log: The log of their record.
    """
    entries = sorted((entry for entry in log if not isinstance(entry, Tombstone)), key=lambda entry: entry.seq)
    words = [
        entry
        for entry in entries
        if isinstance(entry, Recorded) and entry.assertion.job and _source(entry) == _source(recorded)
    ]
    looked_for = [aims_of(entry) for entry in words]
    if any(done is None or job.request.aims <= done for done in looked_for):
        return None
    states = [
        recorded.assertion.state,
        *(entry.state for entry in entries if isinstance(entry, StateChange) and entry.assertion_id == recorded.id),
    ]
    if states[-1] is AssertionState.RETRACTED and states[-2] is not AssertionState.PENDING:
        return None
    return attrs.evolve(
        recorded.assertion,
        job=job_json(attrs.evolve(job, treatment=treatment_of(recorded))),
        state=AssertionState.PENDING,
        revises=recorded.record_id,
        revised=words[-1].seq,
    )


def _source(recorded: Recorded) -> tuple[str | None, str | None, int | None]:
    evidence = recorded.assertion.details.evidence[0]
    return evidence.conversation_id, evidence.message_id, evidence.start


def detailed(given: FactDetails, found: FactDetails) -> FactDetails:
    """Return the caller's details with the evidence, origin, flags and topics of the detector."""
    topics = found.topics or given.topics
    return attrs.evolve(given, evidence=found.evidence, origin=found.origin, flags=found.flags, topics=topics)


def units_in(
    log: Iterable[Recorded],
    states: Mapping[str, AssertionState],
    concepts: Mapping[str, Concept[Any, Any]],
    *,
    state: AssertionState = AssertionState.PENDING,
) -> list[Unit]:
    """Return the units of words in a state, in the order submitted.

    Words whose job cannot be decoded, because a newer factmem wrote it, are skipped; so are imported words without
    evidence.

    Args:
        log: Recorded assertions, in any order.
        states: State of each assertion.
        concepts: Declared concepts by keyword.
        state: PENDING for words that wait, FAILED for words that could not be read.
    """
    waiting: dict[tuple[object, ...], list[Recorded]] = {}
    for recorded in sorted(log, key=lambda item: item.seq):
        if states.get(recorded.id) is state and (id := job_id(recorded)) is not None:
            # An import may bring any id: words of different partitions never form one unit.
            walls = (recorded.assertion.place.key, recorded.assertion.details.owner)
            waiting.setdefault((id, *walls), []).append(recorded)
    return [unit for words in waiting.values() if (unit := _unit(words, concepts)) is not None]


def _unit(words: Sequence[Recorded], concepts: Mapping[str, Concept[Any, Any]]) -> Unit | None:
    """Return the words of one job as a unit, with the latest version of the job."""
    newest = words[-1].assertion.job
    assert newest is not None
    try:
        job = job_from(newest, concepts)
    except CodecError:
        return None
    if job.kind is not JobKind.CONSOLIDATE and not all(item.assertion.details.evidence for item in words):
        return None
    return Unit(job=job, words=in_order(words))


def job_id(recorded: Recorded) -> str | None:
    """Return the id of the job that an assertion was submitted with, if any."""
    job = recorded.assertion.job
    return None if job is None or not isinstance(job.get("id"), str) else str(job["id"])


def is_words(said: Assertion) -> bool:
    """Return whether a statement holds words verbatim."""
    evidence = said.details.evidence
    return said.keyword == STATEMENT.keyword and bool(evidence) and evidence[0].quote == said.data


def settled_state(recorded: Recorded) -> AssertionState:
    """Return the state of words after their job: current, or quarantined."""
    if recorded.assertion.only_shown:
        return AssertionState.RETRACTED
    return AssertionState.ACTIVE if recorded.assertion.details.believed else AssertionState.QUARANTINED


def words_behind(log: Iterable[LogEntry], record_ids: Collection[str]) -> list[Recorded]:
    """Return the words that records were found in: those kept for reading only, and those that are statements.

    Args:
        log: Log that the viewer may see.
        record_ids: Records, with all their revisions.
    """
    entries = list(log)
    states = states_of(entries)
    recorded = [entry for entry in entries if isinstance(entry, Recorded)]
    doomed = [entry.assertion for entry in recorded if entry.record_id in record_ids]
    messages = {
        AssertionState.RETRACTED: {message for said in doomed for message in _messages_of(said)},
        # Statements of words go with the facts found in them, and not with other words.
        AssertionState.ACTIVE: {message for said in doomed if not is_words(said) for message in _messages_of(said)},
    }
    return [
        entry
        for entry in recorded
        if entry.assertion.job is not None
        and (state := states.get(entry.id)) in messages
        and (state is AssertionState.RETRACTED or is_words(entry.assertion))
        and not messages[state].isdisjoint(_messages_of(entry.assertion))
    ]


def _messages_of(said: Assertion) -> list[tuple[str | None, str | None, str | None]]:
    """Return the messages that an assertion was found in, each with the owner of the words."""
    return [(said.details.owner, item.conversation_id, item.message_id) for item in said.details.evidence]


def in_order(words: Iterable[Recorded]) -> tuple[Recorded, ...]:
    """Return words in the order they were said."""
    return tuple(sorted(words, key=_said_order))


def _said_order(recorded: Recorded) -> tuple[dt.datetime, int, int, int]:
    evidence = recorded.assertion.details.evidence
    position = evidence[0].position if evidence else None
    return (recorded.assertion.timestamp, position or 0, _start(recorded), recorded.seq)


def rebuilt(words: Sequence[Recorded], treated: Callable[[Recorded], Treatment | None] = treatment_of) -> Conversation:
    """Return the conversation that words come from; messages that were not kept are left out.

    Args:
        words: Statements of one conversation, with evidence, in order.
        treated: Returns the treatment of words; None for that of their origin.
    """
    messages: dict[str | None, list[Recorded]] = {}
    for recorded in words:
        messages.setdefault(recorded.assertion.details.evidence[0].message_id, []).append(recorded)
    first = words[0].assertion.details.evidence[0]
    return Conversation(
        messages=[attrs.evolve(_message(pieces), treatment=treated(pieces[0])) for pieces in messages.values()],
        id=first.conversation_id,
    )


def _message(pieces: Sequence[Recorded]) -> Message:
    """Join the pieces of a message at their offsets; duplicates are used once."""
    said = pieces[0].assertion
    evidence = said.details.evidence[0]
    text = ""
    for piece in sorted(pieces, key=_start):
        if _start(piece) >= len(text):
            text = text.ljust(_start(piece)) + piece.assertion.details.evidence[0].quote
    return Message(
        content=text,
        role=evidence.role or "user",
        name=evidence.speaker,
        id=evidence.message_id,
        timestamp=said.timestamp,
        medium=evidence.medium,
    )


def _start(recorded: Recorded) -> int:
    evidence = recorded.assertion.details.evidence
    return (evidence[0].start or 0) if evidence else 0


def to_pending(recorded: Recorded) -> StateRequest:
    """Return the request that lets failed words wait again."""
    return StateRequest.of(
        recorded,
        state=AssertionState.PENDING,
        reason="to be read again",
        expected=AssertionState.FAILED,
    )
