"""A `Memory` and its plain model, driven by the same steps."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import attrs
import pytest
from anyio.from_thread import BlockingPortal
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from factmem import STATEMENT, Concept, Fact, Memory, Policies
from factmem.details import Evidence, FactDetails, Origin
from factmem.errors import FactMemError, SeveralIndividualsError
from factmem.memory.screening import FlaggedPolicy
from factmem.records import AssertionState, Place, Recorded, Tombstone, assertions_of
from factmem.testing import FakeClock, HashEmbedder
from factmem.values import decode_value
from tests.models.hostile import BASE, TENANTS, World, at, times, values, worlds
from tests.models.plain_memory import PlainMemory, individuals_in, shown
from tests.models.plain_seen import below, counts_in, in_order, json_of, seen, sums_of
from tests.models.plain_store import PlainStore, Words, readable
from tests.models.plain_values import TYPES, as_json, exact
from tests.models.stores import FullProvider, Store

T = TypeVar("T")

Who: TypeAlias = tuple[str | None, str | None, int, bool]
"""Organization, viewer, number of the handle, and whether the memory is read as that of the viewer."""

_VIEWERS = (None, "alice", "bob")
_ids = st.integers(0, 40)
_who = st.tuples(st.sampled_from(TENANTS), st.sampled_from(_VIEWERS), st.integers(0, 1), st.booleans())
_reasons = st.sampled_from([None, None, "because"])


class MemoryMachine(RuleBasedStateMachine):
    """The steps, with the comparisons after each of them; subclassed with a store and a portal."""

    store: ClassVar[Store]
    portal: ClassVar[BlockingPortal]
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = FakeClock(BASE)
        self.plain = PlainStore(self.clock)
        self.open = [self._opened() for _ in range(2 if self.store.durable else 1)]
        self.memories = {
            (tenant, handle): self._memory(tenant, handle) for tenant in TENANTS for handle in range(len(self.open))
        }
        self.seen_until = dict.fromkeys(TENANTS, 0)

    def _opened(self) -> FullProvider:
        return self.store.open(Path(self.folder.name), self.clock)

    def _memory(self, tenant: str | None, handle: int) -> Memory:
        return Memory(
            self.open[handle],
            organization=tenant,
            embedder=HashEmbedder(4),
            policies=Policies(flagged=FlaggedPolicy.IGNORE),
            clock=self.clock,
        )

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                for tenant in TENANTS:
                    for viewer in _VIEWERS:
                        self._compare((tenant, viewer, 0, False))
                        self._compare((tenant, viewer, 1, True))
                        self._compare_histories((tenant, viewer, 0, False))
        finally:
            for provider in self.open:
                self.portal.call(provider.aclose)
            self.folder.cleanup()

    @initialize(world=worlds())
    def begin(self, world: World) -> None:
        self.world = world

    def _both(self, who: Who) -> tuple[Memory, PlainMemory]:
        tenant, viewer, handle, for_user = who
        memory = self.memories[tenant, handle % len(self.open)]
        if viewer is None or not for_user:
            return memory.view(viewer=viewer), PlainMemory(self.plain, tenant, viewer)
        return memory.for_user(viewer), PlainMemory(self.plain, tenant, viewer, for_user=True)

    def _step(self) -> None:
        type(self).steps += 1

    def _do(
        self, who: Who, really: Callable[[Memory], Awaitable[Any]], plainly: Callable[[PlainMemory], T]
    ) -> tuple[Any, T | None]:
        """Do a step in both, which must raise the same error or none."""
        self._step()
        memory, plain = self._both(who)
        trial = self.plain.copy()
        done, error = None, None
        try:
            done = plainly(attrs.evolve(plain, store=trial))
        except FactMemError as refusal:
            error = type(refusal)
        result, raised = None, None
        try:
            result = self.portal.call(really, memory)
        except FactMemError as refusal:
            raised = type(refusal)
        assert raised is error
        if error is None:
            self.plain = trial
            self._learn_ids(who[0])
        self._compare(who)
        return result, done

    def _learn_ids(self, tenant: str | None) -> None:
        unnamed = [said for said in self.plain.said() if said.id.startswith("?")]
        nameless = {said.seq: said for said in unnamed if said.it.place.scope.tenant == tenant}
        records = {said.record for said in nameless.values() if said.record == said.id}
        named: dict[str, str] = {}
        for entry in self.portal.call(self.open[0].changes, tenant, min(nameless, default=1) - 1):
            if isinstance(entry, Recorded) and (said := nameless.get(entry.seq)) is not None:
                if said.record in records and said.record == said.id:
                    named[said.record] = entry.record_id
                said.id = entry.id
        for said in self.plain.said():
            said.record = named.get(said.record, said.record)

    @rule(data=st.data(), who=_who, private=st.booleans())
    def save(self, data: st.DataObject, who: Who, private: bool) -> None:
        concept, kind = self._concept(data)
        most = 3 if concept.fact_type.value == "multiple" else 1
        drawn = data.draw(st.lists(values(kind), min_size=1, max_size=most))
        fact = concept.fact(drawn, timestamp=data.draw(times()))
        message = data.draw(st.sampled_from([None, None, "m1", "m2"]))
        details = FactDetails(
            importance=data.draw(st.sampled_from([0.5, 1.0])),
            categories=data.draw(st.sampled_from([(), ("home",)])),
            origin=data.draw(st.sampled_from([Origin.USER, Origin.USER, Origin.ASSISTANT, Origin.DOCUMENT])),
            evidence=() if message is None else (Evidence(quote="so", message_id=message),),
            expires_at=data.draw(st.sampled_from([None, None, None, at(1), at(3)])),
        )
        place = data.draw(st.sampled_from(self.world.places))
        self._save(who, fact, kind, place, details, private=private)

    def _save(self, who: Who, fact: Fact[Any], kind: str, place: Place, details: FactDetails, *, private: bool) -> None:
        owned = attrs.evolve(details, owner=who[1]) if private else details
        said = assertions_of(fact, Place(place.subject, place.scope.within(who[0])), owned)
        words = [Words(one, kind, value) for one, value in zip(said, fact.values, strict=True)]
        result, done = self._do(
            who,
            lambda memory: memory.save(
                fact, subject=place.subject, scope=place.scope, details=details, private=private
            ),
            lambda plain: plain.save(words, private),
        )
        if done is not None:
            assert [seen(record) for record in result] == [shown(it, (it,), it.state) for it, _ in done]

    @rule(which=st.lists(_ids, min_size=1, max_size=2), who=_who, reason=_reasons)
    def retract(self, which: list[int], who: Who, reason: str | None) -> None:
        ids = self._records(which)
        self._do(who, lambda memory: memory.retract(*ids, reason=reason), lambda plain: plain.retract(ids, reason))

    @rule(which=st.lists(_ids, min_size=1, max_size=2), who=_who, reason=_reasons)
    def restore(self, which: list[int], who: Who, reason: str | None) -> None:
        ids = self._records(which)
        self._do(who, lambda memory: memory.restore(*ids, reason=reason), lambda plain: plain.restore(ids, reason))

    @rule(which=_ids, who=_who, again=st.sampled_from([None, "as it was", "now"]))
    def come_and_go(self, which: int, who: Who, again: str | None) -> None:
        """Retract, perhaps say again, retract once more, and restore: only the last retraction is undone.

        What is said again with its own time is the same assertion, and stays retracted.
        """
        (id,) = self._records([which])
        found = [said for said in self.plain.said() if said.record == id]
        self._do(who, lambda memory: memory.retract(id), lambda plain: plain.retract([id], None))
        if found and again is not None:
            it, words = found[-1].it, found[-1].words
            self.clock.advance(dt.timedelta(seconds=1))
            said_at, details = (self.clock(), FactDetails()) if again == "now" else (it.timestamp, it.details)
            value = decode_value(it.data, TYPES[words.kind].type)
            fact = TYPES[words.kind].concept(it.keyword, "", found[-1].many).fact([value], timestamp=said_at)
            place = Place(it.place.subject, it.place.scope.within(None))
            details = attrs.evolve(details, owner=None)
            self._save(who, fact, words.kind, place, details, private=it.details.owner is not None)
        self._do(who, lambda memory: memory.retract(id), lambda plain: plain.retract([id], None))
        self._do(who, lambda memory: memory.restore(id), lambda plain: plain.restore([id], None))

    @rule(which=st.lists(_ids, min_size=1, max_size=2), who=_who)
    def forget(self, which: list[int], who: Who) -> None:
        ids = self._records(which)
        result, gone = self._do(
            who,
            lambda memory: memory.forget(*ids),
            lambda plain: plain.everybody.forget(lambda said: said.record in ids),
        )
        assert gone is not None
        assert result.erased == len(gone)

    @rule(data=st.data(), who=_who)
    def forget_a_place(self, data: st.DataObject, who: Who) -> None:
        place = data.draw(st.sampled_from(self.world.places))
        keyword = data.draw(st.sampled_from(self.world.keywords))[0]
        scope = place.scope.within(who[0])
        self._do(
            who,
            lambda memory: memory.forget(scope=place.scope, concepts=[keyword]),
            lambda plain: plain.forget(lambda said: said.it.keyword == keyword and below(said.it.place.scope, scope)),
        )

    @rule(data=st.data(), which=_ids, who=_who)
    def update(self, data: st.DataObject, which: int, who: Who) -> None:
        (id,) = self._records([which])
        found = [said for said in self.plain.said() if said.record == id]
        given: dict[str, Any] = {
            "importance": data.draw(st.sampled_from([None, 0.25])),
            "origin": data.draw(st.sampled_from([None, None, None, Origin.ASSISTANT, Origin.TOOL])),
        }
        meant = dict(given)
        if data.draw(st.booleans()) and found:
            # A caller that has not declared the class of a value passes it as JSON.
            kind = found[0].words.kind
            others = [said.words.value for said in self.plain.said() if said.words.kind == kind]
            said_before = TYPES[kind].type in (str, object, int, float) and data.draw(st.booleans())
            drawn = others[data.draw(_ids) % len(others)] if said_before else data.draw(values(kind))
            fact = TYPES[kind].concept("k", "", many=False).fact([drawn], timestamp=BASE)
            (value,) = fact.values
            given["value"] = value if kind == "day" else as_json(value)
            meant |= {"value": value.isoformat() if kind == "day" else as_json(value), "kind": kind}
        self._do(who, lambda memory: memory.update(id, **given), lambda plain: plain.update(id, **meant))

    @rule(data=st.data(), which=_ids, who=_who)
    def rollback(self, data: st.DataObject, which: int, who: Who) -> None:
        known = self.plain.said()
        revision = known[which % len(known)].seq if known else 1
        result, target = self._do(who, lambda memory: memory.rollback(revision), lambda plain: plain.rollback(revision))
        if target is not None:
            assert result.record.revision == target.seq
            assert exact(json_of(result.record.value)) == exact(target.it.data)

    @rule(which=st.lists(_ids, min_size=1, max_size=2), who=_who, accepted=st.booleans(), reason=_reasons)
    def decide(self, which: list[int], who: Who, accepted: bool, reason: str | None) -> None:
        _, plain = self._both(who)
        apart = plain.kept_apart() or self.plain.said()
        ids = [apart[number % len(apart)].id for number in which] if apart else ["no such id"]
        self._do(
            who,
            lambda memory: (memory.inbox.quarantine.accept if accepted else memory.inbox.quarantine.reject)(
                *ids, reason=reason
            ),
            lambda plain: plain.decide(ids, accepted=accepted, reason=reason),
        )

    @rule(who=_who)
    def expire(self, who: Who) -> None:
        """Expired assertions are erased, and no current one changes."""
        self._step()
        memory, plain = self._both(who)
        before = [shown(item.said, item.alike) for item in plain.standing()]
        self.portal.call(lambda: memory.admin.expire(revisions=dt.timedelta(minutes=1)))
        gone = [
            entry.assertion_id
            for entry in self.portal.call(self.open[0].changes, who[0], self.plain.versions[who[0]])
            if isinstance(entry, Tombstone)
        ]
        self.plain.erase([], gone, who[0])
        _, plain = self._both(who)
        assert [shown(item.said, item.alike) for item in plain.standing()] == before
        self._compare(who)

    @rule(minutes=st.sampled_from([1, 2, 60]))
    def let_time_pass(self, minutes: int) -> None:
        self._step()
        self.clock.advance(dt.timedelta(minutes=minutes))

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self._step()
        if self.store.durable:
            self.portal.call(self.open[which].aclose)
            self.open[which] = self._opened()
            for tenant in TENANTS:
                self.memories[tenant, which] = self._memory(tenant, which)

    @rule(minutes=st.integers(-1, 8), who=_who, recorded=st.booleans())
    def look_back(self, minutes: int, who: Who, recorded: bool) -> None:
        self._step()
        memory, plain = self._both(who)
        when = at(minutes)
        reader = memory.view(known_at=when) if recorded else memory.view(as_of=when)
        standing = plain.standing(known_at=when) if recorded else plain.standing(as_of=when)
        found = self.portal.call(reader.list_records)
        assert in_order(map(seen, found)) == in_order(shown(item.said, item.alike) for item in standing)

    @rule(data=st.data(), who=_who, everywhere=st.booleans())
    def load(self, data: st.DataObject, who: Who, everywhere: bool) -> None:
        self._step()
        concept, kind = self._concept(data)
        place = data.draw(st.sampled_from(self.world.places))
        scope = place.scope.within(who[0])
        memory, plain = self._both(who)
        chosen = (plain if everywhere else plain.everybody).chosen(
            concept.keyword, lambda said: everywhere or said.place.key == Place(place.subject, scope).key
        )
        asked: dict[str, Any] = {} if everywhere else {"subject": place.subject, "scope": place.scope}
        many = concept.fact_type.value == "multiple"
        if everywhere and concept.keyword != STATEMENT.keyword:
            strongest = self.portal.call(lambda: memory.list_records(concepts=[concept.keyword], strongest=True))
            assert {record.revision for record in strongest} == {item.said.seq for item in chosen}
        mixed = len(individuals_in(chosen)) > 1
        if mixed:
            with pytest.raises(SeveralIndividualsError):
                self.portal.call(lambda: memory.load(concept, **asked))
            return
        try:
            fact = self.portal.call(lambda: memory.load(concept, **asked))
        except FactMemError:
            assert not readable(chosen, kind, many)
            return
        assert (fact is None) is (not chosen)
        if fact is not None:
            assert readable(chosen, kind, many)
            expected = [item.said.it.data for item in chosen]
            assert [exact(json_of(value)) for value in fact.values] == [exact(value) for value in expected]
            assert fact.timestamp == max(item.said.it.timestamp for item in chosen)

    @rule(who=_who)
    def look(self, who: Who) -> None:
        self._step()
        self._compare(who)

    def _compare(self, who: Who) -> None:
        """Compare every read of the current state."""
        memory, plain = self._both(who)
        standing = plain.standing()
        expected = [shown(item.said, item.alike) for item in standing]
        listed = self.portal.call(memory.list_records)
        newest_first = sorted(expected, key=lambda record: (record.timestamp, record.revision), reverse=True)
        assert list(map(seen, listed)) == newest_first
        apart = self.portal.call(memory.inbox.quarantine.list)
        assert [record.id for record in apart] == [
            said.id for said in plain.kept_apart() if said.state is AssertionState.QUARANTINED
        ]
        info = self.portal.call(memory.admin.info)
        scopes = {item.said.it.place.scope.within(None) for item in standing}
        assert info.records == len(expected)
        assert set(info.keywords) == {item.said.it.keyword for item in standing}
        assert set(info.scopes) == scopes
        assert set(info.categories) == {name for item in standing for name in item.said.it.details.categories}
        assert info.oldest == min((record.timestamp for record in expected), default=None)
        assert info.newest == max((record.timestamp for record in expected), default=None)
        tree = self.portal.call(memory.admin.tree)
        counts = Counter(item.said.it.place.scope.segments for item in standing)
        assert dict(counts_in(tree)) == sums_of(counts)

    @rule(who=_who)
    def compare_histories(self, who: Who) -> None:
        self._step()
        self._compare_histories(who)

    def _compare_histories(self, who: Who) -> None:
        memory, plain = self._both(who)
        for keyword, _, _ in self.world.keywords:
            found = self.portal.call(memory.history, keyword)
            assert list(map(seen, found)) == plain.history(keyword)
        for item in plain.standing():
            record = self.portal.call(memory.get, item.said.record)
            assert record.id == item.said.record
        everything = self.portal.call(lambda: memory.recall("Oslo", limit=10_000))
        assert in_order(seen(match.record) for match in everything) == in_order(
            shown(item.said, item.alike) for item in plain.standing()
        )

    def _records(self, which: Sequence[int]) -> list[str]:
        """Choose among the newest records, so that the same ones change often."""
        known = list(dict.fromkeys(said.record for said in reversed(self.plain.said())))[:5]
        return [known[number % len(known)] if known and number < 38 else "no such id" for number in which]

    def _concept(self, data: st.DataObject) -> tuple[Concept[Any, Any], str]:
        keyword, kind, many = data.draw(st.sampled_from(self.world.keywords))
        match data.draw(st.integers(0, 15)):
            case 0:
                kind = data.draw(st.sampled_from(sorted(TYPES)))
            case 1:
                many = not many
            case _:
                pass
        return TYPES[kind].concept(keyword, "", many), kind
