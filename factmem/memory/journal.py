"""Journal: submitted words that wait to be read, and the jobs to read them for.

It needs no store of its own. Words are appended as statements in the state PENDING, with their `Job` beside them; so
they are durable, can be listed, recalled and forgotten, and stay within their partition. Reading them is one
transaction that appends the findings and retracts the words, or makes them current. Words that are submitted twice are
kept once, and words that were read are not read again.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import json
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from factmem.abc import DetectionRequest
from factmem.abc.detector import Candidate, Conversation, Message
from factmem.details import FactDetails, MessageKey, MetadataMerge, Treatment
from factmem.errors import CodecError, InvalidDataError
from factmem.facts import Concept, Fact, FactType, MultipleConcept, MultipleFacts, SingleConcept, SingleFact
from factmem.fold import states_of
from factmem.grouping import grouped
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded, StateChange
from factmem.shapes import type_of
from factmem.structuring import explain_structure_error, in_detail
from factmem.validators import changed, check_instance, whole
from factmem.values import Json, decode_value, encode_value

if TYPE_CHECKING:
    from cattrs import Converter

STREAM: Final = "stream:"
"""Prefix of the ids of jobs that belong to a stream of events."""


class JobKind(enum.Enum):
    """Kind of job.

    DETECT: find facts in what was said. KEEP: the words are memories themselves; analyse them, and compare them with
    known records. CONSOLIDATE: facts that are ready; compare them with known records. FORGET: wishes to forget, found
    before, which wait in quarantine to be carried out.
    """

    DETECT = "detect"
    KEEP = "keep"
    CONSOLIDATE = "consolidate"
    FORGET = "forget"


_LONGEST: Final = dt.timedelta(days=36_525)


def _pause(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_instance(value, attribute.name, dt.timedelta, NoneType)
    if isinstance(value, dt.timedelta) and not dt.timedelta(0) <= value <= _LONGEST:
        raise InvalidDataError(
            f"{attribute.name} must be from 0 to a hundred years: correct it, or leave it out",
            path=f"$.{attribute.name}",
        )


@attrs.frozen(kw_only=True)
class Trigger:
    """Condition for reading the events of a stream: the first one that holds; at once without any.

    Attributes:
        count: Number of waiting events.
        idle: Time without a new event.
        interval: Time since the first waiting event.
        overlap: Number of earlier events that a model is shown as context of those that it reads; less than ``count``.

    Raises:
        InvalidDataError: An argument is of another type, negative, or longer than a hundred years; or the overlap is
            not less than the count.
    """

    count: int | None = attrs.field(default=None, validator=attrs.validators.optional(whole(0)))
    idle: dt.timedelta | None = attrs.field(default=None, validator=_pause)
    interval: dt.timedelta | None = attrs.field(default=None, validator=_pause)
    overlap: int = attrs.field(default=0, validator=whole(0))

    def __attrs_post_init__(self) -> None:
        if self.overlap and self.count is not None and self.overlap >= self.count:
            raise InvalidDataError(
                f"overlap={self.overlap} must be less than count={self.count}: lower the overlap, or raise the count",
                path="$.overlap",
            )

    @property
    def immediate(self) -> bool:
        """Whether events are read at once."""
        return self.count is None and self.idle is None and self.interval is None


@attrs.frozen(kw_only=True)
class Job:
    """Instructions for reading submitted words.

    Attributes:
        id: Words with the same id are read together.
        kind: Kind of job.
        consolidate: Compare findings with known records.
        infer: Details to infer, of `factmem.memory.model_reader.INFERRED`.
        request: Facts to look for.
        merge: Treatment of the metadata of a record that is updated.
        trigger: Condition for reading, of a stream.
        treatment: Treatment of the words that it is stored with; by the reader's policy if None.
        expiry_given: Whether the expiry of the words is the caller's, and that of findings in them, too; otherwise the
            policy gave it to the words.
        wishes: What the words ask to forget, if they wait for that.
    """

    id: str
    kind: JobKind
    consolidate: bool = True
    infer: tuple[str, ...] = ()
    request: DetectionRequest = attrs.field(factory=DetectionRequest)
    merge: MetadataMerge = MetadataMerge.MERGE
    trigger: Trigger | None = None
    treatment: Treatment | None = None
    expiry_given: bool = True
    wishes: tuple[Candidate, ...] = ()

    @property
    def streamed(self) -> bool:
        """Whether the job belongs to a stream of events."""
        return self.id.startswith(STREAM)


def job_json(job: Job) -> Mapping[str, Json]:
    """Return a job as JSON. Concepts in use are left out: they are looked up when the words are read."""
    lasting = attrs.evolve(job, request=attrs.evolve(job.request, in_use=()))
    written: Mapping[str, Json] = _converter(detailed=False).unstructure(lasting)
    return written


def job_from(document: Mapping[str, Any], concepts: Mapping[str, Concept[Any, Any]]) -> Job:
    """Return a job from JSON.

    Args:
        document: The JSON that `job_json` returned.
        concepts: The declared concepts by keyword; others are read by their shape.

    Raises:
        CodecError: It is malformed, for example because another program wrote it.
    """
    try:
        job = _converter(detailed=False).structure(document, Job)
    except Exception as error:  # validators raise errors of factmem, and cattrs any error
        detailed = in_detail(error, document, lambda: _converter(detailed=True).structure(document, Job))
        path, reason = explain_structure_error(detailed)
        raise CodecError(f"the job is malformed: {reason}", path=path) from None
    declared = tuple(concepts.get(concept.keyword, concept) for concept in job.request.concepts)
    return attrs.evolve(job, request=attrs.evolve(job.request, concepts=declared))


def _written_concept(concept: Concept[Any, Any]) -> dict[str, Any]:
    return {
        "keyword": concept.keyword,
        "description": concept.description,
        "fact_type": concept.fact_type.value,
        "shape": concept.shape,
        "examples": [[said, encode_value(value, concept.value_type)] for said, value in concept.examples],
    }


def _read_concept(document: Any, _: Any) -> Concept[Any, Any]:
    match document:
        case {"keyword": str() as keyword, "description": str() as description, "fact_type": kind, "shape": shape}:
            made = SingleConcept if FactType(kind) is FactType.SINGLE else MultipleConcept
            typ = type_of(shape)
            examples = [(said, decode_value(value, typ)) for said, value in document.get("examples", ())]
            return made(keyword, description, value_type=typ, examples=examples)
        case _:
            raise CodecError("expected a concept")


def _written_fact(fact: Fact[Any]) -> dict[str, Any]:
    return {
        "concept": _written_concept(fact.concept),
        "values": [encode_value(value, fact.concept.value_type) for value in fact.values],
        "timestamp": fact.timestamp.isoformat(),
    }


def _read_fact(document: Any, _: Any) -> Fact[Any]:
    match document:
        case {"concept": concept, "values": list() as written, "timestamp": str() as timestamp}:
            of = _read_concept(concept, None)
            values = [decode_value(value, of.value_type) for value in written]
            fact: Fact[Any] = of.fact(values, timestamp=dt.datetime.fromisoformat(timestamp))
            return fact
        case _:
            raise CodecError("expected a fact")


_FACTS: Final = frozenset({SingleFact, MultipleFacts})


def _is_fact(cls: Any) -> bool:
    options = typing.get_args(cls) if typing.get_origin(cls) is typing.Union else (cls,)
    return all((typing.get_origin(option) or option) in _FACTS for option in options)


def _is_concept(cls: Any) -> bool:
    plain = typing.get_origin(cls) or cls
    return isinstance(plain, type) and issubclass(plain, Concept)


def _with_lawful_overlap(document: Any) -> Any:
    """Return a trigger with an overlap that its count allows; earlier versions accepted longer ones."""
    match document:
        case {"count": int() as count, "overlap": int() as overlap}:
            return {**document, "overlap": min(overlap, max(count - 1, 0))}
        case _:
            return document


@functools.cache
def _converter(*, detailed: bool) -> Converter:
    from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn
    from cattrs.preconf.json import make_converter

    conv = make_converter(detailed_validation=detailed, forbid_extra_keys=True, omit_if_default=True)
    conv.register_unstructure_hook_func(_is_concept, _written_concept)
    conv.register_structure_hook_func(_is_concept, _read_concept)
    conv.register_unstructure_hook_func(_is_fact, _written_fact)
    conv.register_structure_hook_func(_is_fact, _read_fact)
    conv.register_unstructure_hook(dt.timedelta, dt.timedelta.total_seconds)
    longest = _LONGEST.total_seconds()  # earlier versions accepted longer ones
    conv.register_structure_hook(dt.timedelta, lambda seconds, _: dt.timedelta(seconds=min(seconds, longest)))
    trigger = make_dict_structure_fn(Trigger, conv)
    conv.register_structure_hook(Trigger, lambda document, _: trigger(_with_lawful_overlap(document), Trigger))
    conv.register_unstructure_hook(Job, make_dict_unstructure_fn(Job, conv, _cattrs_omit_if_default=True))
    return conv


@attrs.frozen(kw_only=True)
class Unit:
    """Words that are read together.

    Attributes:
        job: Job that they wait for.
        words: Assertions that wait, in the order of the conversation.
        context: Earlier words that a model is shown as context.
        waiting: Whether the words wait to be read; otherwise their states do not change.
        target: Place of the findings; that of the words if None.
        reason: Reason of a person who lets a wish to forget be carried out; None if nobody does.
        before: State of the words of a wish to forget that waits, or was rejected.
        caller: Details of the caller of a further reading, in place of those that the words were submitted with: owner,
            metadata, labels and expiries. None if nothing takes their place.
    """

    job: Job
    words: tuple[Recorded, ...]
    context: tuple[Recorded, ...] = ()
    waiting: bool = True
    target: Place | None = None
    reason: str | None = None
    before: AssertionState = AssertionState.QUARANTINED
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
        """Return the details of the caller for findings in some of the words: without evidence, topics and flags."""
        given = attrs.evolve(words, evidence=(), topics=(), flags=())
        if not self.job.expiry_given:
            given = attrs.evolve(given, expires_at=None)
        if self.caller is None:
            return given
        return attrs.evolve(self.caller, importance=given.importance, categories=given.categories, source=given.source)

    @property
    def details(self) -> dict[MessageKey | None, FactDetails]:
        """Details of the words of each message, without those that are only shown."""
        words = (item.assertion for item in self.words if not item.assertion.only_shown)
        return {message_of(said.details): said.details for said in words}

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the waiting assertions."""
        return frozenset(recorded.id for recorded in self.words)


def waiting_for(job: Job, said: Iterable[Assertion], treatments: Sequence[Treatment | None] = ()) -> list[Assertion]:
    """Return assertions that keep words, or facts that are ready, until their job is done.

    Args:
        job: The job.
        said: The assertions.
        treatments: Treatment of each message of the conversation by its position, if it is to be kept.
    """
    waiting = {treatment: job_json(attrs.evolve(job, treatment=treatment)) for treatment in {None, *treatments}}
    return [
        attrs.evolve(assertion, job=waiting[_treatment_in(treatments, assertion)], state=AssertionState.PENDING)
        for assertion in said
    ]


def wishing(job: Job, wishes: Iterable[Candidate]) -> Mapping[str, Json]:
    """Return the job, as JSON, of wishes to forget that wait, of the job that their words were read for."""
    plain = tuple(attrs.evolve(wish, doubt=None, quarantined=False) for wish in wishes)
    kind = JobKind.FORGET
    return job_json(attrs.evolve(job, id=kind.value, kind=kind, trigger=None, treatment=None, wishes=plain))


def wish_in(recorded: Recorded, concepts: Mapping[str, Concept[Any, Any]]) -> Unit | None:
    """Return a wish to forget that is not carried out yet as a unit to be read; None for anything else."""
    job = recorded.assertion.job or {}
    unit = _unit([recorded], concepts) if job.get("kind") == JobKind.FORGET.value else None
    return unit and attrs.evolve(unit, job=attrs.evolve(unit.job, id=recorded.id), waiting=False)


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


def read_again(recorded: Recorded, job: Job, log: Sequence[Recorded | StateChange]) -> Assertion | None:
    """Return words as a waiting revision that is read for another job; None if nothing is left to look for.

    Words that were retracted after they were read stay so: what the user took back is not read again.

    Args:
        recorded: The words, as they were submitted first.
        job: The job.
        log: The log of their record, in the order of the numbers.
    """
    words = [
        entry
        for entry in log
        if isinstance(entry, Recorded) and entry.assertion.job and _source(entry) == _source(recorded)
    ]
    looked_for = [aims_of(entry) for entry in words]
    if any(done is None or job.request.aims <= done for done in looked_for):
        return None
    states = [
        recorded.assertion.state,
        *(entry.state for entry in log if isinstance(entry, StateChange) and entry.assertion_id == recorded.id),
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
    return (*evidence.message, evidence.start)


def detailed(given: FactDetails, found: FactDetails) -> FactDetails:
    """Return the caller's details with the evidence, origin, flags and topics of the detector."""
    topics = found.topics or given.topics
    return changed(given, evidence=found.evidence, origin=found.origin, flags=found.flags, topics=topics)


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
    by_number = sorted(log, key=lambda item: item.seq)
    waiting = (item for item in by_number if states.get(item.id) is state and job_id(item) is not None)
    # An import may bring any id: words of different partitions never form one unit.
    jobs = grouped(waiting, lambda item: (job_id(item), item.assertion.place.key, item.assertion.details.owner))
    return [unit for words in jobs.values() if (unit := _unit(words, concepts)) is not None]


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
    return said.is_statement and bool(evidence) and evidence[0].quote == said.data


def settled_state(recorded: Recorded) -> AssertionState:
    """Return the state of words after their job: current, or quarantined."""
    if recorded.assertion.only_shown:
        return AssertionState.RETRACTED
    return AssertionState.ACTIVE if recorded.assertion.details.believed else AssertionState.QUARANTINED


def going_along(log: Iterable[LogEntry], record_ids: Collection[str], ids: Collection[str] = ()) -> list[Recorded]:
    """Return what is erased with records: the words that they were found in, and the facts that quote their own words.

    The words are those kept for reading only, and statements. Short answers and corrections that keep some of the
    records' words go as well.

    Args:
        log: Log that the viewer may see, perhaps with some entries twice.
        record_ids: Records, with all their revisions.
        ids: Single assertions beside them.
    """
    entries = list(log)
    states = states_of(entries)
    recorded = list({entry.id: entry for entry in entries if isinstance(entry, Recorded)}.values())
    doomed = [entry.assertion for entry in recorded if entry.record_id in record_ids or entry.id in ids]
    quoted = [said for said in doomed if is_words(said)]
    facts = _quoting(recorded, quoted, states)
    messages = {
        AssertionState.RETRACTED: {message for said in doomed for message in sources_of(said)},
        # Statements of words go with the facts found in them, and not with other words.
        AssertionState.ACTIVE: {message for said in doomed if not is_words(said) for message in sources_of(said)},
    }
    return [
        entry
        for entry in recorded
        if quotes(entry.assertion, quoted)
        or entry.id in facts
        or (
            entry.assertion.job is not None
            and (state := states.get(entry.id)) in messages
            and (state is AssertionState.RETRACTED or is_words(entry.assertion))
            and not messages[state].isdisjoint(sources_of(entry.assertion))
        )
    ]


def _quoting(
    recorded: Sequence[Recorded], words: Iterable[Assertion], states: Mapping[str, AssertionState]
) -> set[str]:
    """Return the ids of assertions that quote some words, and of those that a removal among them ended."""
    texts = grouped((said for said in words if sources_of(said)), lambda said: sources_of(said)[0])
    found = [
        entry
        for entry in recorded
        for item in entry.assertion.details.evidence
        if item.quote
        and any(item.quote in str(of.data) for of in texts.get((entry.assertion.details.owner, *item.message), ()))
    ]
    removals = (it.assertion for it in found if it.assertion.removed and states.get(it.id) is AssertionState.ACTIVE)
    ends = grouped(removals, lambda end: end.key)
    ended = (entry for entry in recorded if taken_by(ends.get(entry.assertion.key, ()), entry.assertion))
    return {entry.id for entry in (*found, *ended)}


def taken_by(ends: Iterable[Assertion], said: Assertion) -> bool:
    """Return whether one of some removals of the same record, or wishes to forget it, takes an assertion back."""
    return any(said.timestamp <= end.timestamp and said.trust <= end.trust for end in ends)


def quotes(said: Assertion, words: Iterable[Assertion]) -> bool:
    """Return whether a statement keeps some of the same owner's words as what it answers or corrects."""
    before = [item.before.removesuffix("…") for item in said.details.evidence if item.before]
    return bool(before) and any(
        of.details.owner == said.details.owner and any(text in str(of.data) for text in before) for of in words
    )


Source: TypeAlias = tuple[str | None, str | None, str | None]
"""Owner, conversation and message of words."""


def sources_of(said: Assertion) -> list[Source]:
    """Return the messages that an assertion was found in, each with the owner of the words."""
    return [(said.details.owner, *item.message) for item in said.details.evidence if item.message_id is not None]


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
    messages = grouped(words, lambda recorded: recorded.assertion.details.evidence[0].message_id)
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


def message_of(details: FactDetails) -> MessageKey | None:
    """Return the conversation and message that something was found in first, if any."""
    return details.evidence[0].message if details.evidence else None
