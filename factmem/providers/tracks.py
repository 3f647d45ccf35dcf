"""Checks of assertions and of changes of state before they are written: the types of tracks, and states.

A track takes its type from the first assertion that counts in it. An assertion that has never counted (a quarantined
one, or a pending one of an untrusted origin) neither sets a type nor is checked against one, so that planted words of
another type cannot keep the user's facts out.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, assert_never

import attrs

from factmem.abc import Append, Clock, StateRequest
from factmem.errors import ConceptConflictError, RecordNotFoundError, StateConflictError
from factmem.facts import Concept, FactType
from factmem.records import Assertion, AssertionState, LogEntry, Recorded, StateChange, Tombstone
from factmem.values import Shape, accepts

__all__ = [
    "TrackIndex",
    "check_expected",
    "check_readable",
    "check_writable",
    "erased_meanwhile",
    "random_ids",
    "unknown_assertion",
]


def random_ids(seq: int) -> tuple[str, str]:
    """Return two random ids: of an assertion, and of the record that it begins."""
    return secrets.token_hex(16), secrets.token_hex(16)


def check_readable(stored: Assertion, concept: Concept[Any, Any]) -> None:
    """Raise unless a stored value can be read as a concept's type.

    Raises:
        ConceptConflictError: naming both types.
    """
    if stored.fact_type is not concept.fact_type:
        raise _conflict(stored, stored.fact_type, concept.fact_type)
    if not accepts(stored.shape, concept.shape):
        raise _conflict(stored, stored.shape, concept.shape)


def check_writable(new: Assertion, fact_type: FactType, shapes: Sequence[Shape]) -> None:
    """Raise unless a track that holds these types can take a new assertion, and be read as its type.

    Raises:
        ConceptConflictError: naming both types.
    """
    if new.fact_type is not fact_type:
        raise _conflict(new, fact_type, new.fact_type)
    for shape in shapes:
        if shape != new.shape and not (accepts(shape, new.shape) and new.shape != "json"):
            raise _conflict(new, shape, new.shape)


def check_expected(request: StateRequest, state: AssertionState) -> None:
    """Raise unless an assertion is in the state that a request expects.

    Raises:
        StateConflictError: naming both states.
    """
    expected = request.expected
    if expected is not None and expected is not state:
        raise StateConflictError(
            f"the assertion is {state.value}, not {expected.value} as expected; nothing was written: read it again"
        )


def unknown_assertion() -> RecordNotFoundError:
    """Return the error of a request that names no assertion."""
    return RecordNotFoundError("no assertion of this store has the id whose state should change")


def erased_meanwhile() -> RecordNotFoundError:
    """Return the error of an update of an assertion that does not exist any more."""
    return RecordNotFoundError("what this would update was erased meanwhile, and nothing was written")


def _conflict(said: Assertion, stored: Shape | FactType, wanted: Shape | FactType) -> ConceptConflictError:
    names = [item.name if isinstance(item, FactType) else repr(item) for item in (stored, wanted)]
    scope = said.place.scope.within(None)
    return ConceptConflictError(
        f"{said.place.subject} in {scope} holds the concept {said.keyword!r} as {names[0]}, not as {names[1]}: "
        "use the same type or another keyword, or convert what is there (Admin.convert)"
    )


@attrs.frozen
class _Life:
    """An assertion with its state.

    Attributes:
        said: the assertion.
        state: its current state.
        joined: whether it has ever counted; from then on it conforms to the type of its track.
    """

    said: Assertion
    state: AssertionState
    joined: bool


@attrs.define
class TrackIndex:
    """An index of a log in memory, for providers without one of their own: assertions, record ids, states and types.

    Add every entry of the log, in order. A provider that reads only a part of a log, which some statements depend on,
    says what it found with the methods that begin with ``found_``; then the index answers for those statements alone.
    """

    _below: TrackIndex | None = attrs.field(default=None, alias="below")
    _recorded: dict[bytes, Recorded] = attrs.field(factory=dict)
    _record_ids: dict[tuple[object, ...], str] = attrs.field(factory=dict)
    _slots: dict[str, tuple[object, ...]] = attrs.field(factory=dict)
    _types: dict[tuple[object, ...], tuple[FactType, list[Shape]]] = attrs.field(factory=dict)
    _lives: dict[str, _Life] = attrs.field(factory=dict)
    _seqs: set[tuple[str | None, int]] = attrs.field(factory=set)

    def trial(self) -> TrackIndex:
        """Return an index on top of this one that keeps additions to itself, for a trial of a transaction."""
        return TrackIndex(below=self)

    def known(self, assertion: Assertion) -> Recorded | None:
        """Return the same assertion if it was recorded before.

        Raises:
            ConceptConflictError: it cannot join its track.
        """
        fingerprint = assertion.fingerprint
        for index in self._layers():
            if (known := index._recorded.get(fingerprint)) is not None:
                return known
        if assertion.counts(assertion.state):
            self._check_type(assertion)
        return None

    def knows(self, assertion_id: str, tenant: str | None) -> bool:
        """Return whether a tenant has an assertion of this id."""
        life = self._life(assertion_id)
        return life is not None and life.said.place.scope.tenant == tenant

    def check_followed(self, item: Append) -> None:
        """Raise unless the assertion that another one follows exists.

        Raises:
            RecordNotFoundError: it was erased.
        """
        if item.follows is None:
            return
        followed = (item.assertion.place.scope.tenant, item.follows)
        if not any(followed in index._seqs for index in self._layers()):
            raise erased_meanwhile()

    def record(
        self, assertion: Assertion, seq: int, clock: Clock, ids: Callable[[int], tuple[str, str]] = random_ids
    ) -> Recorded:
        """Assign ids, a sequence number and a time to a new assertion, and add it.

        Args:
            assertion: the assertion.
            seq: its sequence number.
            clock: gives the time of recording.
            ids: gives an id for the assertion with a number, and one for a record that it begins.
        """
        id, own_record = ids(seq)
        record_id = assertion.revises or self._record_ids.get((*assertion.track, assertion.slot)) or own_record
        recorded = Recorded(assertion=assertion, id=id, record_id=record_id, seq=seq, recorded_at=clock())
        self.add(recorded)
        return recorded

    def check(self, request: StateRequest) -> None:
        """Raise unless a change of state can be made.

        Raises:
            RecordNotFoundError: it names no assertion of its tenant in this log.
            StateConflictError: the assertion is not in the state expected.
            ConceptConflictError: it would accept what cannot join its track.
        """
        life = self._life(request.assertion_id)
        if life is None or not self.knows(request.assertion_id, request.tenant):
            raise unknown_assertion()
        check_expected(request, life.state)
        if life.said.counts(request.state) and not life.joined:
            self._check_type(life.said)

    def change(self, request: StateRequest, seq: int, clock: Clock) -> StateChange:
        """Assign a sequence number and a time to a change of state, and add it."""
        changed = StateChange(
            assertion_id=request.assertion_id,
            state=request.state,
            seq=seq,
            recorded_at=clock(),
            reason=request.reason,
            actor=request.actor,
        )
        self.add(changed)
        return changed

    def found_type(self, track: tuple[object, ...], fact_type: FactType, shapes: Sequence[Shape]) -> None:
        """Note the type of a track; see `Assertion.track`."""
        self._types[track] = fact_type, list(shapes)

    def found_record(self, said: Assertion, record_id: str) -> None:
        """Note the record that holds the slot of an assertion."""
        key = (*said.track, said.slot)
        self._record_ids[key] = record_id
        self._slots[record_id] = key

    def found_same(self, recorded: Recorded) -> None:
        """Note an assertion that was recorded, for `known`."""
        self._recorded[recorded.assertion.fingerprint] = recorded

    def found_state(self, recorded: Recorded, state: AssertionState, *, joined: bool) -> None:
        """Note an assertion with its state, and whether it has ever counted, for `change`."""
        self._lives[recorded.id] = _Life(recorded.assertion, state, joined)

    def found_seq(self, tenant: str | None, seq: int) -> None:
        """Note that an assertion exists, for `check_followed`."""
        self._seqs.add((tenant, seq))

    def type_of(self, track: tuple[object, ...]) -> tuple[FactType, Sequence[Shape]] | None:
        """Return the type of a track, and the shapes of the assertions that have counted in it; None if none has."""
        return self._types.get(track)

    def has_joined(self, assertion_id: str) -> bool:
        """Return whether an assertion has ever counted."""
        life = self._life(assertion_id)
        return life is not None and life.joined

    def add(self, entry: LogEntry) -> None:
        """Add an entry of the log. After an erasure, build a new index instead."""
        match entry:
            case Recorded():
                self._add_assertion(entry)
            case StateChange(assertion_id=id, state=state):
                if (life := self._life(id)) is not None:
                    self._lives[id] = attrs.evolve(life, state=state)
                    self._join(id)
            case Tombstone():
                pass
            case _:
                assert_never(entry)

    def _add_assertion(self, recorded: Recorded) -> None:
        said = recorded.assertion
        key = (*said.track, said.slot)
        self._recorded[said.fingerprint] = recorded
        self._seqs.add((said.place.scope.tenant, recorded.seq))
        before = self._slots.get(recorded.record_id)
        if before is not None and before != key and self._record_ids.get(before) == recorded.record_id:
            del self._record_ids[before]
        self._slots[recorded.record_id] = key
        self._record_ids[key] = recorded.record_id
        self._lives.setdefault(recorded.id, _Life(said, said.state, joined=False))
        self._join(recorded.id)

    def _join(self, id: str) -> None:
        """Let an assertion that counts give its type to its track, from the first time on."""
        life = self._lives[id]
        said = life.said
        if life.joined or not said.counts(life.state):
            return
        self._lives[id] = attrs.evolve(life, joined=True)
        _, shapes = self._types.setdefault(said.track, (said.fact_type, []))
        if said.shape not in shapes:
            shapes.append(said.shape)

    def _life(self, id: str) -> _Life | None:
        life = self._lives.get(id)
        return self._below._life(id) if life is None and self._below is not None else life

    def _check_type(self, said: Assertion) -> None:
        for index in self._layers():
            if (types := index._types.get(said.track)) is not None:
                check_writable(said, *types)

    def _layers(self) -> Iterator[TrackIndex]:
        if self._below is not None:
            yield self._below
        yield self
