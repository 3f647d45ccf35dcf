"""A store as a plain list in memory: factmem's contracts, implemented without its fold and its indexes.

Nothing is indexed or cached: every read scans the whole list.
"""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from factmem.details import Origin
from factmem.errors import ConceptConflictError, RecordNotFoundError, StateConflictError
from factmem.facts import FactType
from factmem.records import Assertion, AssertionState
from tests.models.plain_values import joins, reads, same

_TRUSTED = (Origin.USER, Origin.ASSISTANT)


@attrs.frozen
class Words:
    """An assertion as passed to a store, with its value before encoding."""

    assertion: Assertion
    kind: str
    value: Any


@attrs.define(eq=False)
class Said:
    """An assertion in a store. Ids are assigned by the store, and begin with a ``?`` until then."""

    words: Words
    seq: int
    at: dt.datetime
    state: AssertionState
    states: list[tuple[dt.datetime, AssertionState]]
    joined: bool
    id: str = ""
    record: str = ""

    @property
    def it(self) -> Assertion:
        return self.words.assertion

    @property
    def track(self) -> tuple[object, ...]:
        place = self.it.place
        return (place.scope.tenant, place.scope.kind, place.scope.path, place.subject.key, self.owner, self.it.keyword)

    @property
    def owner(self) -> str | None:
        return self.it.details.owner

    @property
    def many(self) -> bool:
        return self.it.fact_type is FactType.MULTIPLE

    @property
    def when(self) -> tuple[dt.datetime, int]:
        return (self.it.timestamp, self.seq)

    @property
    def weight(self) -> tuple[int, dt.datetime, int]:
        """Order of trust: the user and accepted assertions, the assistant, unreviewed ones; then the newest."""
        origin, accepted = self.it.details.origin, self.it.state is not AssertionState.ACTIVE
        if origin is Origin.ASSISTANT:
            return (1, *self.when)
        return (2 if origin is Origin.USER or accepted or self.it.revises is not None else 0, *self.when)

    def slot(self) -> object:
        return same(self.words.value) if self.many else None

    def is_heard(self, state: AssertionState) -> bool:
        if state in (AssertionState.PENDING, AssertionState.FAILED):
            return self.it.details.origin in _TRUSTED
        return state is AssertionState.ACTIVE

    def has_ended(self, now: dt.datetime) -> bool:
        expiry = self.it.details.expires_at
        return expiry is not None and expiry <= now


@attrs.frozen(eq=False)
class Moved:
    """A change of state in a store."""

    said: Said
    state: AssertionState
    seq: int
    at: dt.datetime
    reason: str | None


@attrs.frozen(eq=False)
class Gone:
    """The remains of an erased assertion."""

    id: str
    seq: int
    tenant: str | None


@attrs.frozen
class Standing:
    """A current record: the assertion that decides it, and all that support it, oldest first."""

    said: Said
    alike: tuple[Said, ...]


@attrs.define
class PlainStore:
    """The whole store: a list in the order written, and a clock."""

    clock: Callable[[], dt.datetime]
    log: list[Said | Moved | Gone] = attrs.field(factory=list)
    versions: Counter[str | None] = attrs.field(factory=Counter)

    def _next(self, tenant: str | None) -> int:
        """Return the next number of a tenant."""
        self.versions[tenant] += 1
        return self.versions[tenant]

    def said(self) -> list[Said]:
        return [entry for entry in self.log if isinstance(entry, Said)]

    def append(self, words: Words) -> tuple[Said, bool]:
        """Append an assertion, and return it with whether it is new."""
        for before in self.said():
            if _the_very_same(before, words):
                return before, False
        state = words.assertion.state
        tenant = words.assertion.place.scope.tenant
        number = self.versions[tenant] + 1
        new = Said(words, number, self.clock(), state, [(self.clock(), state)], joined=False)
        new.id = f"? {tenant} {number}"
        if new.is_heard(state):
            self._join(new)
        new.record = self._record_of(new) or new.id
        self._next(tenant)
        self.log.append(new)
        return new, True

    def _join(self, new: Said) -> None:
        if new.joined:
            return
        for before in self.said():
            fits = before.many is new.many and joins(before.words.kind, new.words.kind)
            if before.joined and before.track == new.track and not fits:
                raise ConceptConflictError("the model: of another type")
        new.joined = True

    def _record_of(self, new: Said) -> str:
        """Return the record of the last assertion of this value, unless the record has been updated since."""
        if new.it.revises is not None:
            return new.it.revises
        alike = [said for said in self.said() if said.track == new.track and said.slot() == new.slot()]
        alike = [said for said in alike if said.many is new.many]
        if not alike:
            return ""
        last = [said for said in self.said() if said.record == alike[-1].record][-1]
        stays = last.track == new.track and last.slot() == new.slot() and last.many is new.many
        return last.record if stays else ""

    def move(
        self, id: str, state: AssertionState, *, reason: str | None = None, expected: AssertionState | None = None
    ) -> None:
        """Change the state of one assertion."""
        found = [said for said in self.said() if said.id == id]
        if not found:
            raise RecordNotFoundError("the model: there is none")
        if expected not in (None, found[0].state):
            raise StateConflictError("the model: it is in another state")
        if found[0].is_heard(state):
            self._join(found[0])
        found[0].state = state
        found[0].states.append((self.clock(), state))
        number = self._next(found[0].it.place.scope.tenant)
        self.log.append(Moved(found[0], state, number, self.clock(), reason))

    def erase(self, records: Sequence[str], ids: Sequence[str], tenant: str | None) -> list[Said]:
        """Erase assertions, and return their tombstones."""
        gone = [
            said
            for said in self.said()
            if said.it.place.scope.tenant == tenant and (said.record in records or said.id in ids)
        ]
        left = [entry for entry in self.log if entry not in gone]
        self.log = [entry for entry in left if not (isinstance(entry, Moved) and entry.said in gone)]
        for said in gone:
            self.log.append(Gone(said.id, self._next(tenant), tenant))
        return gone

    def copy(self) -> PlainStore:
        """Return an independent copy of the store, to try something in."""
        twins = {id(said): attrs.evolve(said, states=list(said.states)) for said in self.said()}
        log: list[Said | Moved | Gone] = []
        for entry in self.log:
            match entry:
                case Said():
                    log.append(twins[id(entry)])
                case Moved():
                    log.append(attrs.evolve(entry, said=twins[id(entry.said)]))
                case Gone():
                    log.append(entry)
        return PlainStore(self.clock, log, self.versions.copy())

    def standing(
        self, keep: Callable[[Said], bool], *, as_of: dt.datetime | None = None, known_at: dt.datetime | None = None
    ) -> list[Standing]:
        """Return the current records among some assertions, in the order first said."""
        present = as_of or known_at or self.clock()
        records: dict[object, list[Said]] = {}
        for said in self.said():
            if keep(said) and _is_heard_at(said, as_of, known_at, present):
                records.setdefault((said.track, said.record if said.many else None), []).append(said)
        found: list[Standing] = []
        for claims in records.values():
            decisive = max(claims, key=lambda said: said.weight)
            if decisive.it.removed or decisive.has_ended(present):
                continue
            alike = [said for said in claims if same(said.words.value) == same(decisive.words.value)]
            alike = [said for said in alike if not said.it.removed and not said.has_ended(present)]
            found.append(Standing(decisive, tuple(sorted(alike, key=lambda said: said.when))))
        return _without_twins(sorted(found, key=lambda standing: standing.alike[0].when))


def _the_very_same(before: Said, words: Words) -> bool:
    old, new = before.it, words.assertion
    return bool(
        old.place.key == new.place.key
        and (old.keyword, old.details.owner, old.timestamp) == (new.keyword, new.details.owner, new.timestamp)
        and (old.removed, old.details.origin) == (new.removed, new.details.origin)
        and (old.revises, old.revised) == (new.revises, new.revised)
        and _message(old) == _message(new)
        and same(before.words.value) == same(words.value)
    )


def _message(said: Assertion) -> object:
    return [(item.conversation_id, item.message_id) for item in said.details.evidence][:1]


def _is_heard_at(said: Said, as_of: dt.datetime | None, known_at: dt.datetime | None, present: dt.datetime) -> bool:
    states = [state for at, state in said.states if known_at is None or at <= known_at]
    return (
        bool(states)
        and said.is_heard(states[-1])
        and (as_of is None or said.it.timestamp <= as_of)
        and (said.it.revises is not None or not said.has_ended(present))
    )


def _without_twins(found: Iterable[Standing]) -> list[Standing]:
    """Merge records of equal value: the most trusted represents both, and of several the one first said."""
    items = list(found)

    def stands(item: Standing) -> bool:
        twins = [it for it in items if it.said.track == item.said.track and it.said.slot() == item.said.slot()]
        return item is max(twins, key=lambda twin: twin.said.weight[0])  # of several, max returns the first

    return [item for item in items if stands(item)]


def readable(standing: Sequence[Standing], kind: str, many: bool) -> bool:
    """Return whether the current values can be read as a type."""
    return all(item.said.many is many and reads(item.said.words.kind, kind) for item in standing)


def plain_text(text: str) -> str:
    """Return a text in its form for look-ups: case-folded, NFKC, without blanks at its ends."""
    return unicodedata.normalize("NFKC", text).casefold().strip()
