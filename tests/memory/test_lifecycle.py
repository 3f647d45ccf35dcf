"""Updates, rollbacks and history; times to live, expiry and purges."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import (
    AgentMemoryProvider,
    ChangeKind,
    Concept,
    Conversation,
    FactDetails,
    FactRecord,
    Memory,
    MemorySubject,
    Message,
    MultipleFacts,
    SingleFact,
)
from factmem.abc.capabilities import KeepsFiles
from factmem.details import Evidence, MetadataMerge, Origin
from factmem.errors import InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.facts import FactType
from factmem.fold import Moment, fold
from factmem.memory.context import Policies
from factmem.memory.ttl import TtlOperation, TtlPolicy, after, expires_at, outlived
from factmem.memory.writer import Updates
from factmem.recall import MetadataCondition, MetadataOperator
from factmem.records import Assertion, LogEntry, Place, Recorded
from factmem.records import AssertionState as State
from factmem.scopes import MemoryScope
from factmem.testing import FakeClock, HashEmbedder, ScriptedModel
from factmem.values import Json
from tests.memory.telling import CONCEPTS, well
from tests.narrowing import not_none
from tests.tables import each_case

CITY = Concept.single("city", "Where the user lives")
NOTE = Concept.multiple("note", "A note")
USER = MemorySubject("user", priority_level=1)
DAY, MINUTE = dt.timedelta(days=1), dt.timedelta(minutes=1)
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
Opened = Callable[[TtlPolicy], Memory]


@pytest.fixture
def opened(provider: AgentMemoryProvider, clock: FakeClock) -> Opened:
    """Open a memory with a policy and alice as its viewer."""
    return lambda policy: Memory(
        provider, viewer="alice", embedder=HashEmbedder(), clock=clock, policies=Policies(ttl=policy)
    )


async def city(memory: Memory) -> str | None:
    fact = await memory.load(CITY, subject=USER)
    return fact.value if fact else None


@pytest.mark.parametrize(
    ("policy", "days"),
    [
        (TtlPolicy(), {}),
        (TtlPolicy(revisions=DAY), {}),
        (TtlPolicy(default=3 * DAY), dict.fromkeys(TtlOperation, 3)),
        (TtlPolicy(create=DAY), {TtlOperation.CREATE: 1}),
        (
            TtlPolicy(default=9 * DAY, generate_created=DAY, generate_updated=2 * DAY),
            {
                TtlOperation.CREATE: 9,
                TtlOperation.UPDATE: 9,
                TtlOperation.GENERATE_CREATED: 1,
                TtlOperation.GENERATE_UPDATED: 2,
            },
        ),
    ],
)
def test_an_operation_goes_by_its_own_time_or_the_default_or_leaves_the_expiry(
    policy: TtlPolicy, days: dict[TtlOperation, int]
) -> None:
    for operation in TtlOperation:
        expected = NOW + days[operation] * DAY if operation in days else None
        assert expires_at(policy, operation, NOW) == expected
        assert expires_at(policy, operation, NOW, NOW + 77 * DAY) == NOW + 77 * DAY


def test_a_time_to_live_is_a_positive_time() -> None:
    for wrong in (dt.timedelta(0), -DAY, 5):
        with pytest.raises(InvalidDataError, match="default"):
            TtlPolicy(default=wrong)  # type: ignore[arg-type]
    for too_much in (dt.timedelta(0), dt.timedelta.max):
        with pytest.raises(InvalidDataError, match="ttl"):
            after(NOW, too_much)


@pytest.mark.parametrize("reads", [False, True], ids=["kept", "read"])
async def test_words_are_remembered_for_a_while(provider: AgentMemoryProvider, clock: FakeClock, reads: bool) -> None:
    """So are the facts that a model finds in them."""
    model = ScriptedModel(well) if reads else None
    whose: dict[str, Any] = {"embedder": HashEmbedder(), "clock": clock, "model": model, "concepts": CONCEPTS}
    async with Memory(provider, **whose) as memory:
        await memory.remember(Message(content="I live in Porto."), subject=USER, ttl=DAY)
        await (await memory.remember_many([Message(content="I have a cat.")], ttl=2 * DAY)).wait()
        for expired in ("Porto", "cat"):
            assert any(expired in str(record.value) for record in await memory.list_records())
            clock.advance(DAY + MINUTE)
            assert not any(expired in str(record.value) for record in await memory.list_records())
        wrong: dict[str, Any]
        for wrong in ({"ttl": dt.timedelta(0)}, {"ttl": DAY, "expires_at": clock() + DAY}):
            with pytest.raises(InvalidDataError, match="ttl"):
                await memory.remember("I live in Porto.", **wrong)


async def test_words_that_a_model_reads_have_the_time_of_what_is_saved_and_findings_one_of_their_own(
    provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    ttl = TtlPolicy(create=2 * DAY, generate_created=5 * DAY)
    model, policies = ScriptedModel(well), Policies(ttl=ttl)
    async with Memory(provider, concepts=CONCEPTS, model=model, clock=clock, policies=policies) as memory:
        await memory.remember(Message(content="I live in Porto."), subject=USER)
        await (await memory.inbox.ingest_events("chat", [Message(content="I have a cat.")], subject=USER)).wait()
        said = {"I live in Porto.", "I have a cat."}
        found: dict[bool, set[int | None]] = {True: set(), False: set()}
        for record in await memory.list_records():
            ends = record.details.expires_at
            found[record.value in said].add(None if ends is None else (ends - clock() + MINUTE).days)
        assert found == {True: {2}, False: {5}}


async def test_the_policy_gives_what_is_saved_and_updated_its_time(opened: Opened, clock: FakeClock) -> None:
    memory = opened(TtlPolicy(default=10 * DAY))
    (record,) = await memory.save(SingleFact(CITY, "Porto", timestamp=clock()), subject=USER)
    clock.advance(8 * DAY)
    await memory.update(record.id, importance=0.9)
    clock.advance(8 * DAY)
    assert await city(memory) == "Porto"
    clock.advance(3 * DAY)
    assert await city(memory) is None


async def test_what_the_caller_gives_stands(opened: Opened, clock: FakeClock) -> None:
    memory, soon = opened(TtlPolicy(default=10 * DAY)), clock() + DAY
    fact = SingleFact(CITY, "Porto", timestamp=clock())
    (record,) = await memory.save(fact, details=FactDetails(expires_at=soon), subject=USER)
    assert record.details.expires_at == soon
    assert (await memory.update(record.id, expires_at=None)).record.details.expires_at is None
    assert not_none((await memory.update(record.id, ttl=20 * DAY)).record.details.expires_at) > clock() + 19 * DAY
    with pytest.raises(InvalidDataError, match="not both"):
        await memory.update(record.id, ttl=DAY, expires_at=soon)
    with pytest.raises(InvalidDataError, match="not both"):
        await memory.save(fact, details=FactDetails(expires_at=soon), ttl=DAY)


async def test_an_update_that_expires_does_not_bring_back_what_it_updated(memory: Memory, clock: FakeClock) -> None:
    (record,) = await memory.save(SingleFact(CITY, "Porto", timestamp=clock()), subject=USER)
    (note,) = await memory.save(MultipleFacts(NOTE, ("draft",), timestamp=clock()))
    await memory.update(record.id, value="Faro", ttl=DAY)
    await memory.update(note.id, value="final", ttl=DAY)
    clock.advance(2 * DAY)
    assert await memory.list_records() == []
    assert (await memory.admin.expire()).expired == 4
    assert await memory.history(CITY) == await memory.history(NOTE) == []
    await memory.save(SingleFact(CITY, "Lisbon", timestamp=clock()), subject=USER)
    assert await city(memory) == "Lisbon"


async def test_expire_erases_what_has_expired_and_nothing_else(
    memory: Memory, provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    await memory.save(SingleFact(CITY, "Porto", timestamp=clock()), subject=USER)
    await memory.save(SingleFact(CITY, "Faro", timestamp=clock()), subject=USER, ttl=DAY)
    await memory.save(MultipleFacts(NOTE, ("short",), timestamp=clock()), ttl=DAY)
    await memory.save(MultipleFacts(NOTE, ("long",), timestamp=clock()), ttl=9 * DAY)
    clock.advance(2 * DAY)
    assert (await memory.admin.expire(dry_run=True)).expired == 2
    assert len(await memory.history(CITY)) == 2
    receipt = await memory.admin.expire()
    assert (receipt.expired, receipt.superseded) == (2, 0)
    assert not (receipt.pending and isinstance(provider, KeepsFiles))  # a server writes over its log later
    assert [item.value for item in await memory.history(CITY)] == ["Porto"]
    assert {item.value for item in await memory.list_records()} == {"Porto", "long"}
    assert (await memory.admin.expire()).expired == 0


async def test_old_revisions_are_erased_and_the_present_one_is_not(opened: Opened, clock: FakeClock) -> None:
    memory = opened(TtlPolicy(revisions=5 * DAY))
    for name in ("Porto", "Lisbon", "Faro"):
        await memory.save(SingleFact(CITY, name, timestamp=clock()), subject=USER)
        clock.advance(3 * DAY)
    assert (await memory.admin.expire()).superseded == 2
    assert [item.value for item in await memory.history(CITY)] == ["Faro"]
    assert await city(memory) == "Faro"
    assert (await memory.admin.expire(revisions=dt.timedelta(seconds=1))).superseded == 0


async def test_old_revisions_of_the_present_value_are_erased_but_the_first_and_what_was_said(
    memory: Memory, clock: FakeClock
) -> None:
    """As of a sensor that repeats itself."""
    for reading in range(6):
        quotes = [Evidence(quote="We live in Faro.", message_id="m1")] if reading == 3 else []
        await memory.save(SingleFact(CITY, "Faro", timestamp=clock()), details=FactDetails(evidence=quotes))
        clock.advance(DAY)
    before = await memory.history(CITY)
    assert (await memory.admin.expire(revisions=MINUTE)).superseded == 3
    assert await memory.history(CITY) == [before[0], before[3], before[5]]
    (record,) = await memory.list_records()
    assert (record.value, [item.quote for item in record.evidence]) == ("Faro", ["We live in Faro."])


@pytest.mark.parametrize("address", ["memory:", "sqlite-vec:{}/facts.db", "file:{}/facts"])
async def test_a_store_that_the_memory_opens_records_by_its_clock(address: str, tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    policies = Policies(ttl=TtlPolicy(revisions=5 * DAY))
    async with Memory(address.format(tmp_path), embedder=HashEmbedder(), clock=clock, policies=policies) as memory:
        (record,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=clock()))
        assert record.recorded_at - NOW < MINUTE
        clock.advance(DAY)
        await memory.save(SingleFact(CITY, "Lisbon", timestamp=clock()))
        clock.advance(6 * DAY)
        assert (await memory.admin.expire()).superseded == 1


@pytest.mark.parametrize(("first", "second", "left"), [(365, 365, ["Lisbon"]), (365, 100, ["Oslo", "Lisbon"])])
async def test_old_revisions_that_end_before_a_later_one_are_erased(
    memory: Memory, clock: FakeClock, first: int, second: int, left: list[str]
) -> None:
    """One that outlives all later ones is current again when they end."""
    await memory.save(SingleFact(CITY, "Oslo", timestamp=clock()), ttl=first * DAY)
    clock.advance(DAY)
    await memory.save(SingleFact(CITY, "Lisbon", timestamp=clock()), ttl=second * DAY)
    clock.advance(40 * DAY)
    assert (await memory.admin.expire(revisions=10 * DAY)).superseded == 2 - len(left)
    assert [item.value for item in await memory.history(CITY)] == left


async def test_a_dry_run_reports_and_forget_erases_exactly_that(memory: Memory, clock: FakeClock) -> None:
    for number in range(4):
        await memory.save(
            MultipleFacts(NOTE, (f"note {number}",), timestamp=clock()), details=FactDetails(metadata={"n": number})
        )
    wanted = [[MetadataCondition("n", 1)], [MetadataCondition("n", 2, operator=MetadataOperator.GREATER_THAN)]]
    preview = await memory.forget(where=wanted, dry_run=True)
    assert (len(preview), preview.dry_run, preview.erased) == (2, True, 0)
    assert [record.value for record in preview.records] == ["note 1", "note 3"]
    assert len(await memory.list_records()) == 4
    done = await memory.forget(where=wanted)
    assert (done.records, done.dry_run, done.erased) == (preview.records, False, 2)
    assert {record.value for record in await memory.list_records()} == {"note 0", "note 2"}
    assert await memory.recall("note 1", limit=9, where=wanted) == []
    assert len(await memory.forget(where=wanted, dry_run=True)) == 0


async def test_filters_test_a_record_as_it_is_now_or_else_was_last(memory: Memory, clock: FakeClock) -> None:
    changed, hidden, gone = await memory.save(
        MultipleFacts(NOTE, ("changed", "hidden", "gone"), timestamp=clock()), details=FactDetails(topics=("old",))
    )
    await memory.update(changed.id, topics=["new"])
    await memory.update(hidden.id, value="hidden", topics=["new"])
    await memory.rollback(hidden)
    await memory.retract(gone.id)
    assert {record.id for record in (await memory.forget(topics=["old"], dry_run=True)).records} == {hidden.id, gone.id}
    assert {record.id for record in (await memory.forget(topics=["new"], dry_run=True)).records} == {changed.id}


async def test_an_empty_filter_forgets_nothing(memory: Memory) -> None:
    await memory.save(MultipleFacts(NOTE, ("kept",)))
    for call in (
        memory.forget(),
        memory.forget(exact=True),
        memory.forget(scope=None),
        memory.forget(topics=[], concepts=[NOTE]),
        memory.forget(metadata={}, concepts=[NOTE]),
    ):
        with pytest.raises(InvalidDataError, match="empty"):
            await call
    assert len(await memory.list_records()) == 1


async def test_forgetting_by_filters_stays_behind_the_walls(
    provider: AgentMemoryProvider, memory: Memory, clock: FakeClock
) -> None:
    other = Memory(provider, organization="acme", viewer="alice", embedder=HashEmbedder(), clock=clock)
    bob = memory.view(viewer="bob")
    await bob.save(MultipleFacts(NOTE, ("bob's",)), private=True)
    await other.save(MultipleFacts(NOTE, ("acme's",)))
    await memory.save(MultipleFacts(NOTE, ("mine",)), scope="/product/a")
    await memory.save(MultipleFacts(NOTE, ("near",)), scope="/product/ab")
    assert len(await memory.forget(scope="/product/a")) == 1
    assert len(await memory.forget(concepts=[NOTE])) == 1
    assert len(await bob.list_records()) == len(await other.list_records()) == 1


def _assertion(
    single: bool, value: str, minute: int, expiry: int | None, removed: bool, revises: str | None, state: State
) -> Assertion:
    concept = CITY if single else NOTE
    return Assertion(
        place=Place(USER, MemoryScope.CROSS_PRODUCT),
        keyword=concept.keyword,
        description="",
        fact_type=FactType.SINGLE if single else FactType.MULTIPLE,
        shape="str",
        data=value,
        timestamp=NOW + minute * DAY,
        removed=removed,
        details=FactDetails(expires_at=None if expiry is None or removed else NOW + expiry * DAY),
        revises=None if removed else revises,
        state=state,
    )


assertions = st.builds(
    _assertion,
    st.booleans(),
    st.sampled_from("ab"),
    st.integers(0, 9),
    st.none() | st.integers(5, 30),
    st.booleans(),
    st.none() | st.just("1"),
    st.sampled_from([State.ACTIVE, State.ACTIVE, State.ACTIVE, State.RETRACTED]),
)


@given(st.lists(assertions, max_size=8), st.integers(0, 35), st.integers(0, 9), st.integers(0, 40))
def test_erasing_what_has_outlived_its_time_changes_nothing_that_is_or_will_be_current(
    said: list[Assertion], now: int, age: int, later: int
) -> None:
    log: list[LogEntry] = [
        Recorded(
            assertion=item,
            id=f"a{seq}",
            record_id="0" if item.fact_type is FactType.SINGLE else str(ord(str(item.data)) - ord("a")),
            seq=seq,
            recorded_at=item.timestamp,
        )
        for seq, item in enumerate(said, start=1)
    ]
    found = outlived(log, NOW + now * DAY, age * DAY)
    erased = {item.id for item in (*found.expired, *found.superseded)}
    left = [entry for entry in log if not isinstance(entry, Recorded) or entry.id not in erased]
    for when in (now, now + later):
        moment = Moment(now=NOW + when * DAY)
        assert _values(left, moment) == _values(log, moment)


def _values(log: list[LogEntry], moment: Moment) -> set[tuple[str, str]]:
    return {(row.recorded.assertion.keyword, str(row.recorded.assertion.data)) for row in fold(log, moment)}


# Updates, rollbacks and history: metadata, labels, revisions, earlier moments, retractions and erasures.


async def saved(memory: Memory, city: str, clock: FakeClock, *, private: bool = False) -> FactRecord[str]:
    (record,) = await memory.save(SingleFact(CITY, city, timestamp=clock()), subject=USER, private=private)
    return record


@each_case("merge", "expected")
async def test_metadata_is_merged_overwritten_or_required(
    memory: Memory, clock: FakeClock, merge: str, expected: Mapping[str, Json] | None
) -> None:
    fact = SingleFact(CITY, "Porto", timestamp=clock())
    (record,) = await memory.save(fact, details=FactDetails(metadata={"a": 1, "b": 2}))
    if expected is None:
        with pytest.raises(StateConflictError, match="metadata"):
            await memory.update(record.id, metadata={"b": 3, "c": 4}, merge=MetadataMerge[merge])
        assert (await memory.get(record.id)).details.metadata == {"a": 1, "b": 2}
        expected = {"b": 2, "a": 1}
    change = await memory.update(record.id, metadata=expected, merge=MetadataMerge[merge])
    assert change.record.details.metadata == (await memory.get(record.id)).details.metadata == expected


async def test_metadata_that_nobody_names_stays(memory: Memory, clock: FakeClock) -> None:
    (record,) = await memory.save(SingleFact(CITY, "Porto", timestamp=clock()), details=FactDetails(metadata={"a": 1}))
    await memory.update(record.id, value="Faro", merge=MetadataMerge.OVERWRITE)
    assert (await memory.get(record.id)).details.metadata == {"a": 1}


async def test_a_record_whose_time_lies_ahead_is_updated_none_the_less(memory: Memory, clock: FakeClock) -> None:
    """Another machine's clock may be ahead by as much as the skew that a memory allows."""
    fact = SingleFact(CITY, "Porto", timestamp=clock() + dt.timedelta(minutes=2))
    (record,) = await memory.save(fact, subject=USER)
    change = await memory.update(record.id, value="Faro")
    assert (change.record.value, await city(memory)) == ("Faro", "Faro")


@pytest.mark.parametrize(
    ("given", "speaker"), [({}, "Ann"), ({"origin": Origin.USER}, "Ann"), ({"origin": Origin.ASSISTANT}, None)]
)
async def test_an_updated_answer_has_the_speaker_unless_somebody_else_gives_it(
    clock: FakeClock, given: Updates, speaker: str | None
) -> None:
    said = [
        Message(role="assistant", content="Which plan do you have?", id="question", timestamp=clock()),
        Message(content="Fibre 250.", id="answer", name="Ann", timestamp=clock()),
    ]
    async with Memory("memory:", clock=clock) as memory:
        records = await memory.remember(Conversation(id="chat", messages=said))
        (plan,) = [record for record in records if record.value == "Fibre 250."]
        new: Updates = {"value": "Fibre 500.", **given}
        (evidence,) = (await memory.update(plan.id, **new)).record.evidence
        assert (evidence.speaker, evidence.answers) == (speaker, "Which plan do you have?")


async def test_an_updated_answer_keeps_its_question(clock: FakeClock) -> None:
    said = [
        Message(role=role, content=text, id=str(number), timestamp=clock() + dt.timedelta(seconds=number))
        for number, (role, text) in enumerate(
            [
                ("assistant", "Which plan do you have?"),
                ("user", "Fibre 250."),
                ("user", "I pay by direct debit from my Sparkasse account."),
                ("assistant", "Where is your router?"),
                ("user", "In the cellar."),
            ]
        )
    ]
    async with Memory("memory:", clock=clock) as memory:
        records = {record.value: record for record in await memory.remember(Conversation(id="chat", messages=said))}
        clock.advance(DAY)
        plan = (await memory.update(records["Fibre 250."].id, value="Fibre 500.")).record
        await memory.update(records["In the cellar."].id, value="In the hall.")
        (evidence,) = plan.evidence
        assert (evidence.quote, evidence.answers, evidence.message_id) == (
            "",
            "Which plan do you have?",
            None,
        )
        (first, *_) = await memory.recall("Which plan does the customer have?")
        assert first.record.value == "Fibre 500."
        await memory.forget(plan.id)
        assert "In the hall." in {record.value for record in await memory.list_records()}


async def test_a_rollback_makes_the_record_what_it_was(memory: Memory, clock: FakeClock) -> None:
    for name in ("Porto", "Lisbon", "Faro"):
        await saved(memory, name, clock)
    first, *_ = history = await memory.history(CITY)
    change = await memory.rollback(first, reason="a mistake")
    assert (change.kind, change.record.value) == (ChangeKind.UPDATED, "Porto")
    assert change.previous is not None
    assert change.previous.value == "Faro"
    assert await city(memory) == "Porto"
    assert [match.record.value for match in await memory.recall("where does the user live")] == ["Porto"]
    back = await memory.rollback(history[2].revision)
    assert (back.record.value, await city(memory)) == ("Faro", "Faro")


async def test_a_history_says_when_and_why_each_value_ended(memory: Memory, clock: FakeClock) -> None:
    async def ends(view: Memory = memory) -> list[tuple[object, int | None, str | None]]:
        history = await view.history(CITY)
        return [(it.value, (it.ended_at - start).days if it.ended_at else None, it.end_reason) for it in history]

    start = clock()
    for name in ("Porto", "Lisbon", "Lisbon", "Faro"):
        (record,) = await memory.save(
            SingleFact(CITY, name, timestamp=clock()), ttl=9 * DAY if name == "Faro" else None
        )
        clock.advance(DAY)
    _, lisbon, _, _ = await memory.history(CITY)
    replaced = [("Porto", 1, "superseded"), *[("Lisbon", 3, "superseded")] * 2]
    assert await ends() == [*replaced, ("Faro", None, None)]
    assert await ends(memory.view(as_of=lisbon.timestamp)) == [replaced[0], ("Lisbon", None, None)]
    retracted = await memory.retract(record.id, reason="all wrong")
    assert await ends() == [*replaced, ("Faro", 4, "retracted")]  # the reason is for the audit trail
    assert "all wrong" in {entry.reason for entry in (await memory.admin.audit()).entries}
    assert await ends(memory.view(known_at=clock() - DAY)) == [*replaced, ("Faro", None, None)]
    await memory.undo(retracted)
    clock.advance(9 * DAY)
    assert (await ends())[-1] == ("Faro", 12, "expired")


async def test_the_history_of_an_earlier_moment_ends_there(memory: Memory, clock: FakeClock) -> None:
    for name in ("Porto", "Lisbon", "Faro"):
        moment = clock()
        await memory.save(SingleFact(CITY, name, timestamp=moment))
        clock.advance(DAY)
    (rome,) = await memory.save(SingleFact(CITY, "Rome", timestamp=clock()), subject=USER)
    then = memory.view(as_of=moment - DAY)
    history = await then.history(CITY)
    assert [(record.value, record.state.value) for record in history] == [("Porto", "superseded"), ("Lisbon", "active")]
    assert await then.history(history[0].id) == history
    with pytest.raises(RecordNotFoundError):
        await then.history(rome.id)


async def test_an_expired_revision_cannot_hold_again(memory: Memory, clock: FakeClock) -> None:
    (record,) = await memory.save(SingleFact(CITY, "Porto", timestamp=clock()), subject=USER, ttl=DAY)
    await memory.update(record.id, value="Faro", expires_at=None)
    clock.advance(2 * DAY)
    with pytest.raises(RecordNotFoundError, match="expired"):
        await memory.rollback(record)
    assert await city(memory) == "Faro"


# History: as-of, known-at, retract and restore, forget.


async def test_a_time_without_a_zone_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="zone"):
        memory.view(as_of=dt.datetime(2025, 1, 1))
    with pytest.raises(InvalidDataError, match="zone"):
        await memory.recall("x", since=dt.datetime(2025, 1, 1))
