"""Assertions, the entries of a store's log, and the records that people see.

An `Assertion` states one value of one concept at one place and never changes. A store records it with an id and a
sequence number (`Recorded`), may change its state (`StateChange`) and may erase it (`Tombstone`). These three are the
entries of its log. `factmem.fold` computes the current records from a log.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar, assert_never

import attrs

from factmem.details import Evidence, FactDetails, Origin, Treatment
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT, Concept, Fact, FactType, MultipleConcept, SingleConcept, stored_fact, utc
from factmem.scopes import MemoryScope
from factmem.shapes import Shape, accepts, check_fits, type_of
from factmem.subjects import MemorySubject
from factmem.text_caches import forgettable
from factmem.validators import instance_of, text
from factmem.values import Json, canonical_bytes, decode_value, encode_value

T = TypeVar("T")


class AssertionState(enum.Enum):
    """State of an assertion. A store keeps all but SUPERSEDED, which follows from the fold.

    Attributes:
        ACTIVE: it counts.
        PENDING: its words wait for a model. Meanwhile they count if they are believed and are not mere context.
        FAILED: a model could not read its words. They count as when PENDING.
        QUARANTINED: it does not count until it is accepted.
        RETRACTED: it does not count any more.
        SUPERSEDED: a newer assertion replaced it, or one of a higher origin stands; see `Assertion.trust`.
    """

    ACTIVE = "active"
    PENDING = "pending"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    RETRACTED = "retracted"
    SUPERSEDED = "superseded"


@attrs.frozen(cache_hash=True)
class Place:
    """A subject in a scope: where facts lie.

    Attributes:
        subject: the entity that the facts are about.
        scope: the scope where they hold, anchored at a tenant.

    Raises:
        InvalidDataError: one of them has another type, or the scope is a whole branch.
    """

    subject: MemorySubject = attrs.field(validator=instance_of(MemorySubject))
    scope: MemoryScope = attrs.field(validator=instance_of(MemoryScope))

    def __attrs_post_init__(self) -> None:
        self.scope.checked()

    @functools.cached_property
    def key(self) -> tuple[str | None, tuple[str, ...], tuple[str, str | None]]:
        """The identity of the place: tenant, scope path, subject name and individual."""
        return (self.scope.tenant, self.scope.segments, self.subject.key)

    def __str__(self) -> str:
        return f"{self.subject} in {self.scope}"


def _state_by_origin(assertion: Assertion) -> AssertionState:
    if assertion.job is not None:
        return AssertionState.PENDING
    return AssertionState.ACTIVE if assertion.details.believed else AssertionState.QUARANTINED


@attrs.frozen(kw_only=True)
class Assertion:
    """One value of one concept, said at one place. A store appends assertions and never changes them.

    Attributes:
        place: where it lies.
        keyword: the concept's key.
        description: the concept's description at that time.
        fact_type: whether the concept is SINGLE or MULTIPLE.
        shape: the structural tag of the value's type.
        data: the value as JSON; None in a removal of a SINGLE.
        timestamp: time when it was said, in UTC. It orders assertions of equal trust in the fold.
        removed: this removes the value (any value, of a SINGLE).
        valid_from: time since which it is true.
        valid_to: time until which it is true.
        details: importance, owner, evidence and so on.
        revises: id of the record that this updates, in an update by id.
        revised: revision (sequence number) of that record.
        job: the job that submitted words wait for, as JSON.
        actor: the author and the way in, such as ``cli:ada`` or ``mcp:claude 1.0``, for the audit trail.
        state: ACTIVE, or QUARANTINED if it is not believed; PENDING with a job.
    """

    place: Place
    keyword: str
    description: str
    fact_type: FactType
    shape: Any
    data: Any = attrs.field(repr=False)
    timestamp: dt.datetime = attrs.field(converter=utc)
    removed: bool = False
    valid_from: dt.datetime | None = None
    valid_to: dt.datetime | None = None
    details: FactDetails = attrs.field(factory=FactDetails)
    revises: str | None = None
    revised: int | None = None
    job: Mapping[str, Any] | None = attrs.field(default=None, repr=False)
    actor: str | None = attrs.field(default=None, validator=text)
    state: AssertionState = attrs.Factory(_state_by_origin, takes_self=True)

    def counts(self, state: AssertionState) -> bool:
        """Return whether this counts in a fold while it is in a state."""
        match state:
            case AssertionState.ACTIVE:
                return True
            case AssertionState.PENDING | AssertionState.FAILED:
                return self.details.believed and not self.only_shown
            case AssertionState.QUARANTINED | AssertionState.RETRACTED | AssertionState.SUPERSEDED:
                return False
            case _:
                assert_never(state)

    @property
    def trust(self) -> int:
        """Rank of these words among those that count for a record: trust orders them before time.

        It is the rank of their origin (`Origin.rank`). Words of an untrusted origin begin in quarantine and count only
        after somebody has accepted them: then they rank as the user's, and so does an update of them.
        """
        origin = self.details.origin
        vouched = self.state is not AssertionState.ACTIVE or self.revises is not None
        return Origin.USER.rank if vouched and not origin.trusted else origin.rank

    @property
    def only_shown(self) -> bool:
        """Whether these words are context: shown to the model with the words that it reads, and never counted."""
        return self.job is not None and self.job.get("treatment") == Treatment.CONTEXT.value

    @functools.cached_property
    def track(self) -> tuple[object, ...]:
        """The key of its track: a keyword of one owner at one place, which has one type and one fold.

        `fingerprint` begins with it.
        """
        return (*self.place.key, self.details.owner, self.keyword)

    @functools.cached_property
    def slot(self) -> bytes:
        """The key of its record within the track: the same for all of a SINGLE, one per value of a MULTIPLE.

        A statement is another value for each speaker who has a name, one with "today" for each day, a short answer for
        each question that it answers, and a short correction for what it corrects.
        """
        return b"" if self.fact_type is FactType.SINGLE else _digest(self.canonical_value)

    @property
    def key(self) -> tuple[object, ...]:
        """The key of its record in a tenant, unless it revises another: its track and its slot."""
        return (*self.track, self.slot)

    @property
    def is_statement(self) -> bool:
        """Whether it is a statement in its own words, whose keyword says nothing."""
        return self.keyword == STATEMENT.keyword

    @property
    def canonical_value(self) -> bytes:
        """The canonical bytes of the value, with those of what gives a statement its meaning."""
        meaning = self.meaning
        return canonical_bytes([*meaning, self.data] if meaning else self.data)

    @property
    def speaker(self) -> str | None:
        """The name of the speaker of a statement; None for none, and for facts."""
        evidence = self.details.evidence if self.is_statement else ()
        return evidence[0].speaker or None if evidence else None

    @property
    def meaning(self) -> tuple[str | None, ...]:
        """Context that gives a statement its meaning: the words before it, a speaker it is not about, and its day."""
        if not self.is_statement or not self.details.evidence:
            return ()
        words = self.details.evidence[0]
        given = [words.before or None, other_speaker(self.details.evidence, self.place.subject), words.day]
        while given and given[-1] is None:
            given.pop()
        return tuple(given)

    @functools.cached_property
    def fingerprint(self) -> bytes:
        """Digest that is the same if the same assertion is saved twice: place, owner, value, time, origin, message."""
        evidence = self.details.evidence
        # The slot of a MULTIPLE is the digest of its value, if nothing else gives it its meaning.
        slot = b"" if self.meaning else self.slot
        value = slot or _digest(canonical_bytes(self.data))
        # Names are the same only if they are equal; values are if their canonical bytes are.
        message = f"[[{', '.join(map(_written, evidence[0].message))}]]" if evidence else "[]"
        identity = (
            written_track(self.track),
            f'"{value.hex()}"',
            _written(self.removed),
            f'"{self.timestamp.isoformat()}"',
            f'"{self.details.origin.value}"',
            message,
            _written(self.revises),
            _written(self.revised),
        )
        return _digest(f"[{', '.join(identity)}]".encode())


def other_speaker(evidence: Sequence[Evidence], subject: MemorySubject) -> str | None:
    """Return the name of the first speaker of words, if they have one and it is not the individual they are about."""
    speaker = evidence[0].speaker or None if evidence else None
    return None if speaker == subject.individual_name else speaker


def _written(part: str | int | None) -> str:
    """Return a part of a fingerprint as JSON; a text is written at once, without a new encoder."""
    return _PARTS[part] if part is None or isinstance(part, bool) else json.dumps(part)


_PARTS: Final = {None: "null", False: "false", True: "true"}


@forgettable
@functools.lru_cache(maxsize=1024)
def written_track(track: tuple[object, ...]) -> str:
    """Return the key of a track as a part of a fingerprint."""
    return json.dumps(track)[1:-1]


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


@attrs.frozen(kw_only=True)
class Recorded:
    """An assertion as a store recorded it.

    Attributes:
        assertion: the assertion.
        id: the assertion's id, given by the store.
        record_id: id of its record, stable over the record's revisions.
        seq: its number in the sequence of its tenant, from 1.
        recorded_at: time when the store recorded it, in UTC.
    """

    assertion: Assertion
    id: str
    record_id: str
    seq: int
    recorded_at: dt.datetime

    @property
    def assertion_id(self) -> str:
        """The assertion's id, under its name in the other entries of a log."""
        return self.id

    @functools.cached_property
    def shared_record(self) -> FactRecord[Any] | None:
        """The record of this alone, read by its shape and made once for all callers; None if it can be changed."""
        details = self.assertion.details
        made: FactRecord[Any] | None = None if details.metadata or details.labels else record_of(self)
        return made if made is not None and isinstance(made.value, str | int | float) else None


@attrs.frozen(kw_only=True)
class StateChange:
    """A change of an assertion's state: retracted, restored, or accepted from quarantine.

    Attributes:
        assertion_id: id of the assertion.
        state: its new state.
        seq: the change's own number in the tenant's sequence.
        recorded_at: time when the store recorded it, in UTC.
        reason: the reason, for the audit trail.
        actor: the author, for the audit trail.
    """

    assertion_id: str
    state: AssertionState
    seq: int
    recorded_at: dt.datetime
    reason: str | None = None
    actor: str | None = None


@attrs.frozen(kw_only=True)
class Tombstone:
    """The remains of an erased assertion: no word of it, only a notice that mirrors must drop it.

    Attributes:
        assertion_id: id of the assertion.
        seq: the erasure's own number in the tenant's sequence.
    """

    assertion_id: str
    seq: int


LogEntry: TypeAlias = Recorded | StateChange | Tombstone
"""One entry of a store's log."""


@attrs.frozen(kw_only=True, repr=False)
class FactRecord(Generic[T]):
    """A fact as people see it: one SINGLE slot, or one value of a MULTIPLE, with a stable id.

    Attributes:
        id: given by the store; stable while the record's value changes, another one after a move to another scope.
        fact: the concept with this one value and its times.
        subject: the entity it is about.
        scope: where it holds.
        details: importance, owner, evidence, origin and so on.
        revision: sequence number of the assertion that this shows.
        recorded_at: time when the store recorded that assertion.
        state: ACTIVE if it is current; in a history, the state of the revision.
        ended_at: in a history, the time when the value ended, in UTC: when what replaced or ended it was said, or when
            it was retracted or expired. None for a current value, and outside of a history.
        end_reason: the reason, such as "superseded", "expired" or "retracted".
    """

    id: str
    fact: Fact[T]
    subject: MemorySubject
    scope: MemoryScope
    details: FactDetails
    revision: int
    recorded_at: dt.datetime
    state: AssertionState = AssertionState.ACTIVE
    ended_at: dt.datetime | None = None
    end_reason: str | None = None

    @property
    def concept(self) -> Concept[T]:
        """The concept of the fact."""
        return self.fact.concept

    @property
    def value(self) -> T:
        """The one value."""
        return self.fact.values[0]

    @property
    def place(self) -> Place:
        """The place where it lies."""
        return Place(self.subject, self.scope)

    @property
    def is_statement(self) -> bool:
        """Whether it is a statement in its own words, whose keyword says nothing."""
        return self.concept.is_statement

    @property
    def timestamp(self) -> dt.datetime:
        """Time when it was said, in UTC."""
        return self.fact.timestamp

    @property
    def importance(self) -> float:
        """Importance, from 0 to 1."""
        return self.details.importance

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The words it comes from."""
        return self.details.evidence

    @property
    def trust(self) -> int:
        """Rank of its words; see `Assertion.trust`. A current record of an untrusted origin was accepted."""
        origin = self.details.origin
        return origin.rank if origin.trusted else Origin.USER.rank

    @property
    def private(self) -> bool:
        """Whether only its owner may see it."""
        return self.details.owner is not None

    @property
    def quarantine_reason(self) -> str:
        """Why it waits in quarantine, in plain words; empty unless it does."""
        if self.state is not AssertionState.QUARANTINED:
            return ""
        origin = self.details.origin
        whence = "an unknown source" if origin is Origin.UNKNOWN else f"a {origin.value}"
        source = None if origin.trusted else f"from {whence}"
        return ", ".join(filter(None, (source, self.details.doubt, *self.details.flags))) or "not confirmed yet"

    def __repr__(self) -> str:
        value = "<private>" if self.private else repr(self.value)
        where = f"{self.subject}, {self.scope}, {self.timestamp:%Y-%m-%d}"
        state = "" if self.state is AssertionState.ACTIVE else f", {self.state.value}"
        return f"FactRecord({self.concept.keyword}={value}, {where}{state}, id={self.id})"


def assertions_of(
    fact: Fact[Any], place: Place, details: FactDetails | None = None, *, removed: bool = False
) -> tuple[Assertion, ...]:
    """Return the assertions of a fact, one for each value.

    Args:
        fact: the fact.
        place: where it lies.
        details: its details.
        removed: remove the values instead of stating them.
    """
    concept, shape, given = fact.concept, fact.concept.shape, details or FactDetails()
    return tuple(
        Assertion(
            place=place,
            keyword=concept.keyword,
            description=concept.description,
            fact_type=concept.fact_type,
            shape=shape,
            data=_fitting(encode_value(value, concept.value_type), shape),
            timestamp=fact.timestamp,
            removed=removed,
            valid_from=fact.valid_from,
            valid_to=fact.valid_to,
            details=_copied(given),
        )
        for value in fact.values
    )


def statement_at(place: Place, details: FactDetails, timestamp: dt.datetime) -> Assertion:
    """Return the assertion of a statement in its own words, the first quote of its evidence.

    A statement is true of the time when it was said: it has no ``valid_from`` and ``valid_to``.

    Args:
        place: where it lies.
        details: its details, with at least one piece of evidence.
        timestamp: time when it was said, in UTC.
    """
    return Assertion(
        place=place,
        keyword=STATEMENT.keyword,
        description=STATEMENT.description,
        fact_type=FactType.MULTIPLE,
        shape="str",
        data=details.evidence[0].quote,
        timestamp=timestamp,
        details=_copied(details),
    )


def _fitting(data: Json, shape: Shape) -> Json:
    if not isinstance(shape, str):
        check_fits(data, shape)
    return data


def record_of(
    recorded: Recorded,
    concept: Concept[T, Any] | None = None,
    *,
    details: FactDetails | None = None,
    state: AssertionState = AssertionState.ACTIVE,
) -> FactRecord[T]:
    """Return a recorded assertion as a record, without its tenant.

    Args:
        recorded: the recorded assertion.
        concept: the declared concept to read it with; None reads it by its shape.
        details: replaces the assertion's own details, for example with more evidence.
        state: the state shown in the record.

    Raises:
        InvalidDataError: the stored value is not of the concept's type.
    """
    said = recorded.assertion
    valueless = said.removed and said.data is None
    as_said: Concept[Any, Any] = _concept_of(said, valueless) if concept is None or valueless else concept
    value = decode_value(said.data, as_said.value_type)
    return FactRecord(
        id=recorded.record_id,
        fact=stored_fact(as_said, value, timestamp=said.timestamp, valid_from=said.valid_from, valid_to=said.valid_to),
        subject=said.place.subject,
        scope=said.place.scope.within(None),
        details=_copied(said.details if details is None else details),
        revision=recorded.seq,
        recorded_at=recorded.recorded_at,
        state=state,
    )


def _copied(details: FactDetails) -> FactDetails:
    """Return a copy of details that can be changed, so that a caller changes only their own."""
    return attrs.evolve(details) if details.metadata or details.labels else details


_STATEMENTS: Final = (STATEMENT.keyword, STATEMENT.description, STATEMENT.shape, STATEMENT.fact_type)


def _concept_of(said: Assertion, valueless: bool) -> Concept[Any, Any]:
    if (said.keyword, said.description, said.shape, said.fact_type) == _STATEMENTS and not valueless:
        return STATEMENT
    kind = SingleConcept if said.fact_type is FactType.SINGLE else MultipleConcept
    return kind(said.keyword, said.description, value_type=object if valueless else type_of(said.shape))


def shown_record(
    recorded: Recorded,
    concepts: Mapping[str, Concept[Any, Any]],
    *,
    details: FactDetails | None = None,
    state: AssertionState = AssertionState.ACTIVE,
) -> FactRecord[Any]:
    """Return a recorded assertion as a record, read as its declared concept if that fits, else by its shape.

    Another place may hold another type under the same keyword, and a class may be stricter than its shape: one value
    that a declared type refuses must not hide all the others.

    Args:
        recorded: the recorded assertion.
        concepts: declared concepts by keyword.
        details: replaces the assertion's own details, for example with more evidence.
        state: the state shown in the record.
    """
    said = recorded.assertion
    declared = concepts.get(said.keyword)
    if declared is not None and declared.fact_type is said.fact_type and accepts(said.shape, declared.shape):
        with contextlib.suppress(InvalidDataError):
            return record_of(recorded, declared, details=details, state=state)
    return record_of(recorded, details=details, state=state)


def as_kept_apart(entry: Recorded, state: AssertionState, concepts: Mapping[str, Concept[Any, Any]]) -> FactRecord[Any]:
    """Return a quarantined assertion as a record, with an id of its own.

    Args:
        entry: The assertion.
        state: Its state.
        concepts: The declared concepts by keyword.
    """
    return attrs.evolve(shown_record(entry, concepts, state=state), id=entry.id)
