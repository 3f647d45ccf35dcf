"""A model of `Memory` over the plain store: the assertions it adds, and the states it changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from factmem.details import FactDetails, Origin
from factmem.errors import InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.facts import FactType
from factmem.records import Assertion, AssertionState
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject
from tests.models.plain_store import Moved, PlainStore, Said, Standing, Words
from tests.models.plain_values import exact, same

_KINDS = (ScopeKind.AGENT, ScopeKind.FEATURE, ScopeKind.PRODUCT, ScopeKind.CROSS_PRODUCT)
_HEARD = (AssertionState.ACTIVE, AssertionState.PENDING, AssertionState.FAILED)
_TRUSTED = (Origin.USER, Origin.ASSISTANT)


@attrs.frozen
class Shown:
    """A record as shown to a viewer."""

    id: str
    value: object
    timestamp: dt.datetime
    revision: int
    recorded_at: dt.datetime
    owner: str | None
    importance: float
    messages: tuple[str | None, ...]
    state: AssertionState


@attrs.frozen
class PlainMemory:
    """One organization's memory, for one viewer.

    Attributes:
        store: the whole store.
        tenant: the organization.
        viewer: the viewer.
        for_user: whether reads that name nobody show no public fact about another individual than the viewer.
    """

    store: PlainStore
    tenant: str | None
    viewer: str | None
    for_user: bool = False

    @property
    def everybody(self) -> PlainMemory:
        """The memory as it answers to ids and named subjects."""
        return attrs.evolve(self, for_user=False)

    def sees(self, said: Said) -> bool:
        return said.it.place.scope.tenant == self.tenant and said.owner in (None, self.viewer)

    def reads(self, said: Said) -> bool:
        name, individual = said.it.place.subject.key
        others = individual is not None and (name, individual) != ("user", self.viewer)
        return self.sees(said) and not (self.for_user and others and said.owner is None)

    def visible(self) -> list[Said]:
        return [said for said in self.store.said() if self.reads(said)]

    def standing(self, as_of: dt.datetime | None = None, known_at: dt.datetime | None = None) -> list[Standing]:
        return self.store.standing(self.reads, as_of=as_of, known_at=known_at)

    def current(self, id: str) -> Standing:
        found = [standing for standing in self.everybody.standing() if standing.said.record == id]
        if not found:
            raise RecordNotFoundError("the model: not current")
        return found[-1]

    def save(self, words: Sequence[Words], private: bool) -> list[tuple[Said, bool]]:
        """Add an assertion of now or of an earlier time, public or private to the viewer."""
        if private and self.viewer is None:
            raise InvalidDataError("the model: nobody to own it")
        if any(word.assertion.timestamp > self.store.clock() + dt.timedelta(minutes=5) for word in words):
            raise InvalidDataError("the model: from the future")
        return [self.store.append(word) for word in words]

    def retract(self, ids: Sequence[str], reason: str | None) -> None:
        for id in ids:
            self.current(id)
        for said in self.everybody.visible():
            if said.record in ids and said.state in _HEARD:
                self.store.move(said.id, AssertionState.RETRACTED, reason=reason)

    def restore(self, ids: Sequence[str], reason: str | None) -> None:
        """Restore the assertions of each record that were retracted together, at the last retraction."""
        taken = {id: self._taken_last(id) for id in ids}
        if not all(taken.values()):
            raise RecordNotFoundError("the model: nothing is retracted")
        for said in [said for group in taken.values() for said in group]:
            self.store.move(said.id, AssertionState.ACTIVE, reason=reason)
        for id in ids:
            self.current(id)

    def _taken_last(self, id: str) -> list[Said]:
        group: list[Said] = []
        began: object = None
        closed = True
        states: dict[int, AssertionState] = {}
        for entry in self.store.log:
            if isinstance(entry, Said) and self.sees(entry) and entry.record == id:
                states[entry.seq] = entry.it.state
                closed = closed or entry.is_heard(entry.it.state)
            if isinstance(entry, Moved) and self.sees(entry.said) and entry.said.record == id:
                was_heard = entry.said.is_heard(states[entry.said.seq])
                states[entry.said.seq] = entry.state
                if entry.state is AssertionState.RETRACTED and was_heard:
                    now = (entry.at, entry.reason)
                    if closed or now != began or entry.said.seq < group[-1].seq:
                        group = []
                    closed, began = False, now
                    group.append(entry.said)
                elif entry.said.is_heard(entry.state):
                    closed = True
        return [said for said in group if said.state is AssertionState.RETRACTED]

    def forget(self, meant: Callable[[Said], bool]) -> list[Said]:
        """Erase all revisions of the records with a visible assertion among those given."""
        records = {said.record for said in self.visible() if meant(said)}
        return self.store.erase(sorted(records), [], self.tenant)

    def update(
        self,
        id: str,
        *,
        value: Any = ...,
        kind: str = "",
        importance: float | None = None,
        origin: Origin | None = None,
    ) -> tuple[Said, bool]:
        """Add a revision of a record; omitted properties are unchanged."""
        standing = self.current(id)
        before = standing.said
        # After a record was moved, several can share its id: the last shown is meant.
        evidence = tuple(dict.fromkeys(item for said in standing.alike for item in said.it.details.evidence))
        details = attrs.evolve(
            before.it.details,
            evidence=evidence if value is ... else (),
            importance=before.it.details.importance if importance is None else importance,
            origin=before.it.details.origin if origin is None else origin,
        )
        new = attrs.evolve(
            before.it,
            details=details,
            revises=id,
            revised=before.seq,
            job=None,
            state=AssertionState.ACTIVE if origin is None or origin in _TRUSTED else AssertionState.QUARANTINED,
        )
        if value is ...:
            return self.store.append(Words(new, before.words.kind, before.words.value))
        others = [item.said for item in self.everybody.standing() if item.said.track == before.track]
        others = [said for said in others if said.record != id]
        if before.many and any(same(said.words.value) == same(value) for said in others):
            raise StateConflictError("the model: another record has this value")
        timestamp = max(self.store.clock(), before.it.timestamp)
        new = attrs.evolve(new, timestamp=timestamp, data=value, valid_from=None, valid_to=None)
        return self.store.append(Words(new, kind, value))

    def rollback(self, revision: int) -> Said:
        """Make one revision current again, and return it."""
        everything = self.everybody.visible()
        found = [said for said in everything if said.seq == revision and not said.it.removed]
        found = [said for said in found if any(said.is_heard(state) for _, state in said.states)]
        if not found or found[0].has_ended(self.store.clock()):
            raise RecordNotFoundError("the model: no such revision")
        target = found[0]
        later = [said for said in everything if _one_record(said, target) and said.weight > target.weight]
        later = [said for said in later if said.is_heard(said.state)]
        if any(said.state is AssertionState.PENDING for said in later):
            raise StateConflictError("the model: it waits for a model")
        for said in later:
            self.store.move(said.id, AssertionState.RETRACTED, reason="rolled back")
        if not target.is_heard(target.state):
            self.store.move(target.id, AssertionState.ACTIVE, reason="rolled back")
        if not any(_one_record(standing.said, target) for standing in self.everybody.standing()):
            raise RecordNotFoundError("the model: another record has its value")
        return target

    def kept_apart(self) -> list[Said]:
        return [
            said
            for said in self.visible()
            if said.it.state is not AssertionState.RETRACTED
            and not any(said.is_heard(state) for _, state in said.states)
        ]

    def decide(self, ids: Sequence[str], *, accepted: bool, reason: str | None) -> None:
        """Accept or reject a quarantined assertion."""
        apart = {said.id for said in self.everybody.kept_apart()}
        if not apart.issuperset(ids):
            raise RecordNotFoundError("the model: not kept apart")
        for id in dict.fromkeys(ids):
            self.store.move(id, AssertionState.ACTIVE if accepted else AssertionState.RETRACTED, reason=reason)

    def history(self, keyword: str) -> list[Shown]:
        """Return every visible revision, oldest first."""
        apart = {said.id for said in self.kept_apart()}
        standing = {item.said.id for item in self.standing()}
        revisions = [said for said in self.visible() if said.it.keyword == keyword and not said.it.removed]
        return [
            shown(said, (said,), _became(said, said.id in standing))
            for said in sorted(revisions, key=lambda said: said.when)
            if said.id not in apart
        ]

    def chosen(self, keyword: str, fits: Callable[[Assertion], bool]) -> list[Standing]:
        """Return the records an agent sees of a concept that several places may have."""
        items = [item for item in self.standing() if item.said.it.keyword == keyword and fits(item.said.it)]
        items = [item for item in items if self._competes(item.said.it.place.subject)]
        if not items:
            return []
        best = min(items, key=lambda item: self._strength(item, items))
        level = [item for item in items if self._level(item.said.it, items) == self._level(best.said.it, items)]
        people = individuals_in(level)
        chosen = {best.said.it.place.subject.key, *(people if len(people) > 1 else ())}
        return [
            found
            for key in chosen
            for found in self._of_one([it for it in level if it.said.it.place.subject.key == key])
        ]

    def _competes(self, subject: MemorySubject) -> bool:
        """Return whether a user's view chooses among facts of a subject: not of other people, nor of one unknown."""
        if not self.for_user:
            return True
        known = subject.name in ("user", MemorySubject.EVERYTHING.name)
        other = subject.individual_name is not None and subject.key != ("user", self.viewer)
        return not other and (known or subject.priority_level < MemorySubject("unknown").priority_level)

    def _of_one(self, items: Sequence[Standing]) -> list[Standing]:
        """Return the one value, or the values, that one subject has on one level."""
        best = min(items, key=lambda item: self._strength(item, items))
        if best.said.it.fact_type is FactType.SINGLE:
            return [best]
        united: dict[object, Standing] = {}
        for item in items:
            if item.said.many:
                united.setdefault(same(item.said.words.value), item)
        return list(united.values())

    def _strength(self, item: Standing, items: Sequence[Standing]) -> tuple[object, ...]:
        return (self._level(item.said.it, items), -item.said.weight[0], -_seconds(item.said.it.timestamp))

    def _level(self, said: Assertion, items: Sequence[Standing]) -> tuple[bool, int, int, int]:
        """Order by the user, then the stronger subject, then the narrower scope, a child before its parent."""
        alike = [item.said.it.place.subject for item in items]
        priority = min(other.priority_level for other in alike if other.name == said.place.subject.name)
        scope: MemoryScope = said.place.scope
        own = self.for_user and said.place.subject.key == ("user", self.viewer)
        return (not own, priority, _KINDS.index(scope.kind), -len(scope.path))


def individuals_in(items: Sequence[Standing]) -> set[tuple[str, str | None]]:
    """Return the individuals that some records are about."""
    return {item.said.it.place.subject.key for item in items if item.said.it.place.subject.individual_name is not None}


def shown(said: Said, alike: Sequence[Said], state: AssertionState = AssertionState.ACTIVE) -> Shown:
    details: FactDetails = said.it.details
    messages = dict.fromkeys(item for other in alike for item in other.it.details.evidence)
    return Shown(
        said.record,
        exact(said.it.data),
        said.it.timestamp,
        said.seq,
        said.at,
        details.owner,
        details.importance,
        tuple(item.message_id for item in messages),
        state,
    )


def _became(said: Said, is_current: bool) -> AssertionState:
    return AssertionState.SUPERSEDED if said.is_heard(said.state) and not is_current else said.state


def _one_record(one: Said, other: Said) -> bool:
    return one.track == other.track and one.many is other.many and (not one.many or one.record == other.record)


def _seconds(moment: dt.datetime) -> float:
    return (moment - dt.datetime(2000, 1, 1, tzinfo=dt.UTC)).total_seconds()
