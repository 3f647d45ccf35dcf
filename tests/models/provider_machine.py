"""A provider and its plain model, driven by the same steps."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
from anyio.from_thread import BlockingPortal
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from factmem.abc.capabilities import Append, EraseReceipt, Receipt, Statement, StateRequest
from factmem.details import Evidence, FactDetails, Origin
from factmem.errors import FactMemError
from factmem.facts import Concept
from factmem.records import AssertionState, Place, Recorded, assertions_of
from factmem.testing import FakeClock
from tests.models.comparable import PlainFact, comparable, expected_entry, fact_of, seen, tenant_of
from tests.models.hostile import BASE, OWNERS, TENANTS, World, at, times, values, worlds
from tests.models.plain_store import Moved, PlainStore, Said, Standing, Words, plain_text, readable
from tests.models.plain_values import TYPES, as_json, exact
from tests.models.stores import FullProvider, Store

_STATES = [state for state in AssertionState if state is not AssertionState.SUPERSEDED]
_DESCRIPTIONS = ("Where the person lives", "where The PERSON ﬂies", "Ünrelated", "")
_QUERIES = ("person", " LIVES", "flies", "ünrelated", "city", "e", "café", "%", "ss", " ")
_ids = st.integers(0, 40)


class ProviderMachine(RuleBasedStateMachine):
    """The steps, with the comparisons after each of them; subclassed with a store and a portal."""

    store: ClassVar[Store]
    portal: ClassVar[BlockingPortal]
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = FakeClock(BASE)
        self.model = PlainStore(self.clock)
        self.open = [self._opened() for _ in range(2 if self.store.durable else 1)]
        self.turn = 0

    def _opened(self) -> FullProvider:
        return self.store.open(Path(self.folder.name), self.clock)

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                for _ in self.open:
                    self._compare_everything()
        finally:
            for provider in self.open:
                self._run(provider.aclose)
            self.folder.cleanup()

    def _run(self, work: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        return self.portal.call(work, *arguments)

    @property
    def provider(self) -> FullProvider:
        return self.open[self.turn % len(self.open)]

    def _step(self, handle: int = 0) -> None:
        type(self).steps += 1
        self.turn += handle

    @initialize(world=worlds())
    def begin(self, world: World) -> None:
        self.world = world

    @rule(data=st.data(), handle=st.integers(0, 1))
    def save(self, data: st.DataObject, handle: int) -> None:
        self._step(handle)
        concept, kind = self._concept(data)
        many = data.draw(st.lists(values(kind), min_size=1, max_size=3 if concept.fact_type.value == "multiple" else 1))
        fact = concept.fact(many, timestamp=data.draw(times()))
        place = self._place(data)
        said = assertions_of(fact, place)
        words = [Words(one, kind, value) for one, value in zip(said, fact.values, strict=True)]
        _, error = self._tried(lambda model: [model.append(item) for item in words])
        assert error is self._raised(self.provider.save, fact, place.subject, place.scope)
        self._learn_ids()
        self._compare_place(place)

    @rule(data=st.data(), handle=st.integers(0, 1), several=st.integers(1, 3))
    def append(self, data: st.DataObject, handle: int, several: int) -> None:
        self._step(handle)
        drafts: list[Words | StateRequest] = []
        for _ in range(several):
            known = self.model.said()
            move = known and data.draw(st.integers(0, 3)) == 0
            drafts.append(self._move(data, known) if move else self._words(data))
        self._hand_in(drafts)

    @rule(which=_ids, handle=st.integers(0, 1))
    def say_again(self, which: int, handle: int) -> None:
        self._step(handle)
        if known := self.model.said():
            self._hand_in([known[which % len(known)].words])

    @rule(data=st.data(), handle=st.integers(0, 1), other=st.sampled_from(sorted(TYPES)))
    def accepted(self, data: st.DataObject, handle: int, other: str) -> None:
        """Accept an assertion, which sets or must match the type of its track; then append one of another type."""
        self._step(handle)
        apart = [said for said in self.model.said() if said.state is AssertionState.QUARANTINED]
        if not apart:
            return
        said = apart[-1]
        self._hand_in(
            [StateRequest(assertion_id=said.id, tenant=said.it.place.scope.tenant, state=AssertionState.ACTIVE)]
        )
        concept = TYPES[other].concept(said.it.keyword, "", data.draw(st.booleans()))
        fact = concept.fact([data.draw(values(other))], timestamp=data.draw(times()))
        (new,) = assertions_of(fact, said.it.place, FactDetails(owner=said.owner))
        self._hand_in([Words(new, other, fact.values[0])])

    @rule(data=st.data(), handle=st.integers(0, 1))
    def move(self, data: st.DataObject, handle: int) -> None:
        self._step(handle)
        if known := self.model.said():
            self._hand_in([self._move(data, known)])

    @rule(
        records=st.lists(_ids, max_size=2),
        single=st.lists(_ids, max_size=2),
        tenant=st.sampled_from(TENANTS),
        handle=st.integers(0, 1),
    )
    def erase(self, records: list[int], single: list[int], tenant: str | None, handle: int) -> None:
        self._step(handle)
        known = self.model.said()
        if not known:
            return
        record_ids = [known[which % len(known)].record for which in records]
        ids = [known[which % len(known)].id for which in single]
        gone = self.model.erase(record_ids, ids, tenant)
        provider = self.provider
        receipt: EraseReceipt = self.portal.call(
            lambda: provider.erase([*record_ids, "no such id"], tenant=tenant, assertion_ids=[*ids, "nor this"])
        )
        assert receipt.erased == len(gone)
        self._compare_everything()

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self._step()
        if self.store.durable:
            which %= len(self.open)
            self._run(self.open[which].aclose)
            self.open[which] = self._opened()

    @rule(minutes=st.sampled_from([1, 2, 60]))
    def let_time_pass(self, minutes: int) -> None:
        self._step()
        self.clock.advance(dt.timedelta(minutes=minutes))

    @rule(since=st.integers(0, 30), tenant=st.sampled_from(TENANTS), handle=st.integers(0, 1))
    def follow(self, since: int, tenant: str | None, handle: int) -> None:
        self._step(handle)
        self._compare_feed(tenant, since)

    @rule(data=st.data(), handle=st.integers(0, 1))
    def load_as(self, data: st.DataObject, handle: int) -> None:
        """Load a concept with a type that it may not have."""
        self._step(handle)
        concept, kind = self._concept(data)
        self._compare_load(concept, kind, self._place(data))

    @rule(data=st.data(), text=st.sampled_from(_QUERIES), handle=st.integers(0, 1))
    def look_up(self, data: st.DataObject, text: str, handle: int) -> None:
        self._step(handle)
        place = self._place(data)
        if not text.strip():
            assert self._raised(self.provider.load_by_description, text, place.subject, place.scope) is not None
            return
        found = self._run(self.provider.load_by_description, text, place.subject, place.scope)
        wanted = plain_text(text)
        fits = [
            fact
            for fact in self._facts(place)
            if wanted in plain_text(fact.description) or wanted in plain_text(fact.keyword)
        ]
        assert list(map(seen, found)) == fits

    def _place(self, data: st.DataObject) -> Place:
        place = data.draw(st.sampled_from(self.world.places))
        return Place(place.subject, place.scope.within(data.draw(st.sampled_from([None, None, "acme"]))))

    def _concept(self, data: st.DataObject) -> tuple[Concept[Any, Any], str]:
        keyword, kind, many = data.draw(st.sampled_from(self.world.keywords))
        match data.draw(st.integers(0, 7)):
            case 0:
                kind = data.draw(st.sampled_from(sorted(TYPES)))
            case 1:
                many = not many
            case _:
                pass
        return TYPES[kind].concept(keyword, data.draw(st.sampled_from(_DESCRIPTIONS)), many), kind

    def _words(self, data: st.DataObject) -> Words:
        concept, kind = self._concept(data)
        fact = concept.fact([data.draw(values(kind))], timestamp=data.draw(times()))
        message = data.draw(st.sampled_from([None, None, "m1"]))
        details = FactDetails(
            owner=data.draw(st.sampled_from(OWNERS)),
            origin=data.draw(st.sampled_from([Origin.USER, Origin.USER, Origin.ASSISTANT, Origin.TOOL])),
            evidence=() if message is None else (Evidence(quote="so", message_id=message),),
            expires_at=data.draw(st.sampled_from([None, None, None, at(1), at(3)])),
            metadata=data.draw(st.sampled_from([{}, {"a": [1, None]}])),
        )
        (said,) = assertions_of(fact, self._place(data), details, removed=data.draw(st.integers(0, 5)) == 0)
        match data.draw(st.integers(0, 7)):
            case 0:
                said = attrs.evolve(said, job={"é": [1]}, state=AssertionState.PENDING)
            case 1:
                said = attrs.evolve(said, state=data.draw(st.sampled_from(_STATES)))
            case 2 | 3 if known := [item for item in self.model.said() if item.it.track == said.track]:
                revised = known[-1 - data.draw(_ids) % min(6, len(known))]
                said = attrs.evolve(said, revises=revised.record, revised=revised.seq)
            case _:
                pass
        return Words(said, kind, fact.values[0])

    def _move(self, data: st.DataObject, known: Sequence[Said]) -> StateRequest:
        said = known[-1 - data.draw(_ids) % min(6, len(known))]
        return StateRequest(
            assertion_id=data.draw(st.sampled_from([said.id] * 8 + ["no such id"])),
            tenant=said.it.place.scope.tenant,
            state=data.draw(st.sampled_from(_STATES)),
            expected=data.draw(st.sampled_from([None, None, said.state, said.state, AssertionState.RETRACTED])),
            reason=data.draw(st.sampled_from([None, "", "so\x00é"])),
        )

    def _hand_in(self, drafts: Sequence[Words | StateRequest]) -> None:
        expected, error = self._tried(lambda model: [_done(model, draft) for draft in drafts])
        statements: list[Statement] = [
            Append(assertion=draft.assertion) if isinstance(draft, Words) else draft for draft in drafts
        ]
        if error is not None:
            assert self._raised(self.provider.append, statements) is error
        else:
            receipts: Sequence[Receipt] = self._run(self.provider.append, statements)
            taken = [item for item in expected or () if item is not None]
            assert [receipt.new for receipt in receipts] == [new for _, new in taken]
            self._learn_ids()
            for receipt, (said, _) in zip(receipts, taken, strict=True):
                assert comparable(receipt.recorded) == expected_entry(said)
        for draft in drafts:
            if isinstance(draft, Words):
                self._compare_place(draft.assertion.place)
        self._compare_feed(None, max(0, self.model.versions[None] - 3))

    def _tried(
        self, work: Callable[[PlainStore], list[tuple[Said, bool] | None]]
    ) -> tuple[list[tuple[Said, bool] | None] | None, type[FactMemError] | None]:
        """Apply a change to the model, all of it or nothing."""
        trial = self.model.copy()
        try:
            done = work(trial)
        except FactMemError as error:
            return None, type(error)
        self.model = trial
        return done, None

    def _raised(self, work: Callable[..., Awaitable[Any]], *arguments: Any) -> type[BaseException] | None:
        try:
            self._run(work, *arguments)
        except FactMemError as error:
            return type(error)
        return None

    def _learn_ids(self) -> None:
        """Read the ids that the store assigned from its log, where the model has none yet."""
        unnamed = [said for said in self.model.said() if said.id.startswith("?")]
        nameless = {(said.it.place.scope.tenant, said.seq): said for said in unnamed}
        records: dict[str, str] = {}
        for tenant in {tenant for tenant, _ in nameless}:
            first = min(seq for other, seq in nameless if other == tenant)
            for entry in self._run(self.provider.changes, tenant, first - 1):
                if isinstance(entry, Recorded) and (said := nameless.get((tenant, entry.seq))) is not None:
                    taken = {name for item in self.model.said() for name in (item.id, item.record)}
                    assert entry.id not in taken
                    assert said.record != said.id or entry.record_id not in taken
                    if said.record == said.id:
                        records[said.record] = entry.record_id
                    said.id = entry.id
        for said in self.model.said():
            said.record = records.get(said.record, said.record)
        assert not any(said.id.startswith("?") for said in self.model.said())

    def _compare_everything(self) -> None:
        self.turn += 1
        for tenant in TENANTS:
            self._compare_feed(tenant, 0)
        for place in {place.key: place for said in self.model.said() for place in [said.it.place]}.values():
            self._compare_place(place)

    def _compare_feed(self, tenant: str | None, since: int) -> None:
        assert self._run(self.provider.version, tenant) == self.model.versions[tenant]
        found = self._run(self.provider.changes, tenant, since)
        expected = [entry for entry in self.model.log if tenant_of(entry) == tenant and entry.seq > since]
        assert sorted(map(comparable, found), key=repr) == sorted(map(expected_entry, expected), key=repr)
        assert [entry.seq for entry in found] == sorted(entry.seq for entry in expected)

    def _compare_place(self, place: Place) -> None:
        said = [said for said in self.model.said() if said.it.place.key == place.key]
        for keyword in (None, *dict.fromkeys(item.it.keyword for item in said)):
            meant = [item for item in said if keyword in (None, item.it.keyword)]
            log = [
                entry
                for entry in self.model.log
                if entry in meant or (isinstance(entry, Moved) and entry.said in meant)
            ]
            assert list(map(comparable, self._run(self.provider.entries, place, keyword))) == list(
                map(expected_entry, log)
            )
        found = self._run(self.provider.load_all, place.subject, place.scope)
        assert list(map(seen, found)) == self._facts(place)
        for item in {(item.it.keyword, item.words.kind, item.many): item for item in said}.values():
            concept = TYPES[item.words.kind].concept(item.it.keyword, "", item.many)
            self._compare_load(concept, item.words.kind, place)

    def _compare_load(self, concept: Concept[Any, Any], kind: str, place: Place) -> None:
        current = [item for item in self._public(place) if item.said.it.keyword == concept.keyword]
        many = concept.fact_type.value == "multiple"
        if current and not readable(current, kind, many):
            assert self._raised(self.provider.load, concept, place.subject, place.scope) is not None
            return
        fact = self._run(self.provider.load, concept, place.subject, place.scope)
        if not current:
            assert fact is None
            return
        stated = [item.said.words.value for item in current]
        undeclared = kind == "json"
        expected = [item.said.it.data if undeclared else as_json(item.said.words.value) for item in current]
        assert [exact(as_json(value)) for value in fact.values] == list(map(exact, expected))
        if not undeclared:
            assert [type(value) for value in fact.values] == [_read_as(value, kind) for value in stated]
        assert fact.timestamp == max(item.said.it.timestamp for item in current)
        assert fact.concept == concept

    def _public(self, place: Place) -> list[Standing]:
        return self.model.standing(lambda said: said.it.place.key == place.key and said.owner is None)

    def _facts(self, place: Place) -> list[PlainFact]:
        current = self._public(place)
        keywords = dict.fromkeys(item.said.it.keyword for item in current)
        return [fact_of([item for item in current if item.said.it.keyword == keyword]) for keyword in keywords]


def _read_as(value: Any, kind: str) -> type:
    return type(value) if kind != "more moods" else TYPES[kind].type


def _done(model: PlainStore, draft: Words | StateRequest) -> tuple[Said, bool] | None:
    if isinstance(draft, Words):
        return model.append(draft)
    model.move(draft.assertion_id, draft.state, reason=draft.reason, expected=draft.expected)
    return None
