"""Undoing the changes of remember."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from factmem import AgentMemoryProvider, Change, ChangeKind, Concept, Memory, Message, Origin, SingleFact
from factmem.abc import DetectionRequest, Prompt
from factmem.abc.capabilities import KeepsLog, Receipt, Statement
from factmem.abc.consolidator import Action
from factmem.errors import (
    BudgetSpentError,
    InvalidDataError,
    ModelError,
    ModelRefusedError,
    RecordNotFoundError,
    StateConflictError,
)
from factmem.fold import deciding_order
from factmem.records import Recorded
from factmem.testing import FakeClock, HashEmbedder, ScriptedModel
from tests.memory.telling import CITY, PETS, Deciding, log_of, said, talk, well
from tests.memory.telling import opened as with_model
from tests.narrowing import not_none

SEATS = Concept.single("seats", "how many fit in", value_type=int)


def opened(provider: AgentMemoryProvider, clock: FakeClock, judge: Deciding | None = None) -> Memory:
    return Memory(provider, concepts=[SEATS], embedder=HashEmbedder(), clock=clock, consolidator=judge)


ALPHA = "/product/alpha"


async def seats_of(memory: Memory) -> dict[str, Any]:
    """Return the seats of each month, and the states of all revisions."""
    months = {f"{month}": memory.view(as_of=dt.datetime(2023, month, 9, tzinfo=dt.UTC)) for month in (2, 4, 6)}
    shown = {name: [record.value for record in await view.list_records()] for name, view in months.items()}
    history = [(record.value, record.state, record.scope) for record in await memory.history(SEATS)]
    return {**shown, "now": [record.value for record in await memory.list_records()], "history": history}


async def _nothing(memory: Memory, id: str) -> None:
    pass


async def _retracted(memory: Memory, id: str) -> None:
    await memory.retract(id)


async def _retract(memory: Memory, id: str) -> Sequence[Change]:
    return await memory.retract(id)


async def _restore(memory: Memory, id: str) -> Sequence[Change]:
    return await memory.restore(id)


async def _roll_back(memory: Memory, id: str) -> Sequence[Change]:
    return [await memory.rollback((await memory.history(id))[0])]


async def _update(memory: Memory, id: str) -> Sequence[Change]:
    return [await memory.update(id, value=4), await memory.update(id, importance=0.9)]


async def _move(memory: Memory, id: str) -> Sequence[Change]:
    return [await memory.update(id, scope="/product/beta")]


@pytest.mark.parametrize(
    ("before", "change"),
    [
        (_nothing, _retract),
        (_nothing, _roll_back),
        (_nothing, _update),
        (_nothing, _move),
        (_retracted, _restore),
        (_retracted, _roll_back),
    ],
)
async def test_an_undo_and_its_undo_bring_every_revision_back(
    provider: AgentMemoryProvider,
    clock: FakeClock,
    before: Callable[[Memory, str], Awaitable[None]],
    change: Callable[[Memory, str], Awaitable[Sequence[Change]]],
) -> None:
    """Both what holds now and what held in every month are as they were."""
    async with opened(provider, clock) as memory:
        for month, seats in ((1, 12), (3, 14), (5, 16)):
            said_at = dt.datetime(2023, month, 9, tzinfo=dt.UTC)
            (record,) = await memory.save(SingleFact(SEATS, seats, timestamp=said_at), scope=ALPHA)
        await before(memory, record.id)
        first = await seats_of(memory)
        done = await change(memory, record.id)
        second = await seats_of(memory)
        assert second != first
        for expected in (first, second, first):
            done = await memory.undo(done)
            seen = await seats_of(memory)
            if expected is first:
                assert [entry for entry in seen["history"] if entry in first["history"]] == first["history"]
                seen["history"] = first["history"]  # beside it stands what was undone, retracted
            assert seen == expected


@pytest.mark.parametrize("given", [["old"], ["new"], ["old", "new"]])
async def test_a_move_is_undone_and_made_again_by_either_id(
    provider: AgentMemoryProvider, clock: FakeClock, given: list[str]
) -> None:
    async with opened(provider, clock) as memory:
        for seats in (12, 14):
            (record,) = await memory.save(SingleFact(SEATS, seats), scope=ALPHA)
        moved = (await memory.update(record.id, scope="/product/beta")).record
        ids = {"old": record.id, "new": moved.id}
        for scope in (ALPHA, "/product/beta", ALPHA):
            (change,) = await memory.undo([ids[name] for name in given])
            assert (change.kind, str(change.record.scope)) == (ChangeKind.UPDATED, scope)
            assert [(item.value, str(item.scope)) for item in await memory.list_records()] == [(14, scope)]


async def test_a_change_after_a_move_is_undone_without_the_move(
    provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 12), scope=ALPHA)
        moved = (await memory.update(record.id, scope="/product/beta")).record
        await memory.update(moved.id, value=14)
        await memory.undo([moved.id])
        assert [(item.value, str(item.scope)) for item in await memory.list_records()] == [(12, "/product/beta")]
        back = (await memory.update(moved.id, scope=ALPHA)).record
        assert back.id == record.id
        await memory.undo([back.id])
        assert [str(item.scope) for item in await memory.list_records()] == ["/product/beta"]


async def test_an_undo_by_id_is_undone_by_the_next_one(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    async with opened(provider, clock) as memory:
        for seats in (12, 14, 16):
            (record,) = await memory.save(SingleFact(SEATS, seats))
        for seats in (14, 16, 14):
            (change,) = await memory.undo([record.id])
            assert change.record.value == not_none(await memory.load(SEATS)).value == seats


async def test_an_old_id_does_not_bring_back_what_was_changed_at_its_new_place(
    provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 12), scope=ALPHA)
        moved = (await memory.update(record.id, scope="/product/beta")).record
        updated = await memory.update(moved.id, value=14)
        with pytest.raises(StateConflictError, match=f"changed since, as {moved.id}"):
            await memory.undo([record.id])
        await memory.undo([updated])
        with pytest.raises(StateConflictError, match=f"changed since, as {moved.id}"):
            await memory.undo([record.id])
        assert [(item.value, str(item.scope)) for item in await memory.list_records()] == [(12, "/product/beta")]


async def test_a_move_is_undone_only_where_both_scopes_are_shown(
    provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 12), scope=ALPHA)
        change = await memory.update(record.id, scope="/product/beta")
        for scope, id in ((ALPHA, record.id), ("/product/beta", change.record.id)):
            for undone in ([id], [change]):
                with pytest.raises(RecordNotFoundError, match=r"both scopes|not visible here"):
                    await memory.scope(scope).undo(undone)
        await memory.forget(record.id)
        with pytest.raises(RecordNotFoundError, match="was erased"):
            await memory.undo([change.record.id])
        assert [(item.value, str(item.scope)) for item in await memory.list_records()] == [(12, "/product/beta")]


async def test_several_ids_are_undone_together_or_not_at_all(
    provider: AgentMemoryProvider, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(provider, clock) as memory:
        kept = [(await memory.remember(f"Box {number} is in the hall."))[0].id for number in range(3)]
        with pytest.raises(RecordNotFoundError):
            await memory.undo([*kept, "nothing"])
        assert len(await statements(memory)) == 3
        assert isinstance(provider, KeepsLog)
        written, append = list[int](), provider.append

        async def counted(statements: Sequence[Statement]) -> Sequence[Receipt]:
            written.append(len(statements))
            return await append(statements)

        monkeypatch.setattr(provider, "append", counted)
        assert len(await memory.undo([*kept, kept[0]])) == 3
        assert (await statements(memory), written) == ([], [3])


async def test_what_a_model_has_read_is_undone_by_its_id_and_does_not_wait_again(
    provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    model = ScriptedModel(lambda prompt, answer: {name: [] for name in answer.model_fields})
    async with Memory(provider, model=model, embedder=HashEmbedder(), clock=clock) as memory:
        (kept,) = await memory.remember(Message(content="The ferry to Faro leaves at nine."))
        asked = len(model.prompts)
        for left in ([], ["The ferry to Faro leaves at nine."], []):
            await memory.undo([kept.id])
            await memory.inbox.flush()
            assert (await statements(memory), len(model.prompts)) == (left, asked)


async def test_an_acceptance_is_undone_by_the_id_of_its_record(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    async with opened(provider, clock) as memory:
        await memory.remember(Message(role="tool", content="The mill seats 80."))
        (waiting,) = await memory.inbox.quarantine.list()
        await memory.inbox.quarantine.accept(waiting.id)
        (record,) = await memory.list_records()
        await memory.undo([record.id])
        assert (await statements(memory), len(await memory.inbox.quarantine.list())) == ([], 1)


async def test_an_undo_takes_changes_or_ids(memory: Memory) -> None:
    kept = await memory.remember("The venue has 80 seats.")
    with pytest.raises(InvalidDataError, match="changes or ids of records, not both"):
        await memory.undo([*kept.changes, kept[0].id])
    (change,) = await memory.undo([kept[0].id])
    assert change.kind is ChangeKind.DELETED


async def test_an_undone_retraction_leaves_the_value_that_was_said_since(
    provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 12, timestamp=clock()))
        gone = await memory.retract(record.id)
        clock.advance(dt.timedelta(days=1))
        await memory.save(SingleFact(SEATS, 14, timestamp=clock()))
        (change,) = await memory.undo(gone)
        assert (change.kind, change.record.value, not_none(change.previous).value) == (ChangeKind.UNCHANGED, 12, 14)
        assert not_none(await memory.load(SEATS)).value == 14


async def test_undoing_a_new_record_takes_its_later_updates_with_it(
    provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    async with opened(provider, clock) as memory:
        kept = await memory.remember("The mill seats 12.")
        updates = [await memory.update(kept[0].id, value=f"The mill seats {seats}.") for seats in (14, 16)]
        undone = await memory.undo(kept.changes)
        assert await statements(memory) == []
        with pytest.raises(RecordNotFoundError):
            await memory.undo(updates)
        await memory.undo(undone)
        assert await statements(memory) == ["The mill seats 16."]
        await memory.undo([*kept.changes, *updates])
        assert await statements(memory) == []


async def test_a_rollback_that_changed_nothing_leaves_nothing_to_undo(
    provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 12, timestamp=clock()))
        assert await memory.undo([await memory.rollback(record.revision)]) == ()
        assert not_none(await memory.load(SEATS)).value == 12


async def test_a_change_of_another_store_is_not_undone(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    """Revisions of two stores have the same numbers."""
    async with opened(provider, clock) as memory, Memory("memory:", clock=clock) as other:
        await memory.remember("The mill is old.")
        kept = await other.remember("The barn is new.")
        with pytest.raises(RecordNotFoundError):
            await memory.undo(kept.changes)
        assert await statements(memory) == ["The mill is old."]


async def statements(memory: Memory) -> list[Any]:
    return sorted(record.value for record in await memory.list_records(concepts=["statement"]))


@pytest.mark.parametrize("action", [Action.UPDATE, Action.DELETE])
async def test_what_a_model_changed_can_be_undone_and_done_again(
    provider: AgentMemoryProvider, clock: FakeClock, action: Action
) -> None:
    memory = opened(provider, clock, Deciding(action, insert=action is not Action.UPDATE))
    options: dict[str, Any] = {"scope": "/product/alpha", "importance": 0.5, "categories": ["venue"]}
    await memory.remember("The venue is the old mill by the river.", **options)
    changed = await memory.remember("The venue is the old barn by the river.", **options)
    after = await statements(memory)
    assert after == ["The venue is the old barn by the river."]
    undone = await memory.undo(changed.changes, reason="it was a joke")
    assert await statements(memory) == ["The venue is the old mill by the river."]
    await memory.undo(undone)
    assert await statements(memory) == after


async def test_undoing_words_that_are_said_again_leaves_what_was_known(
    provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    text = "I am allergic to nuts."
    async with opened(provider, clock) as memory:
        await memory.remember(text, source="monday")
        clock.advance(dt.timedelta(days=7))
        again = await memory.remember(text, source="friday")
        await memory.undo(again.changes)
        assert [(record.value, record.details.source) for record in await memory.list_records()] == [(text, "monday")]


@pytest.mark.parametrize("found", [[], [{"quote": "Faro", "message": 1, "value": "Lund"}]], ids=["nothing", "dropped"])
async def test_the_words_that_a_model_finds_nothing_in_are_a_change_that_can_be_undone(
    provider: AgentMemoryProvider, clock: FakeClock, found: list[dict[str, Any]]
) -> None:
    model = ScriptedModel(
        lambda prompt, answer: {name: found if name == "city" else [] for name in answer.model_fields}
    )
    async with Memory(provider, model=model, concepts=[CITY], embedder=HashEmbedder(), clock=clock) as memory:
        kept = await memory.remember(
            Message(content="The ferry to Faro leaves at nine."), looking_for=DetectionRequest(concepts=[CITY])
        )
        assert [change.record.id for change in kept.changes] == [record.id for record in kept]
        await memory.undo(kept.changes)
        assert len(await memory.list_records()) == 0


@pytest.mark.parametrize("error", [ModelRefusedError("no"), BudgetSpentError("spent")], ids=repr)
async def test_words_that_could_not_be_read_are_a_change_that_can_be_undone(
    provider: AgentMemoryProvider, clock: FakeClock, error: ModelError
) -> None:
    model = ScriptedModel(lambda prompt, answer: error)
    async with Memory(provider, model=model, embedder=HashEmbedder(), clock=clock) as memory:
        kept = await memory.remember(Message(content="The ferry leaves at nine."))
        assert kept.failure == type(error).__name__
        assert [change.kind for change in kept.changes] == [ChangeKind.CREATED]
        await memory.undo(kept.changes)
        assert await memory.list_records() == []


async def test_undoing_words_that_could_not_be_read_leaves_what_was_said_before(
    provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    words = [Message(content="The ferry leaves at nine.", id=f"m{number}") for number in range(2)]
    async with Memory(provider, embedder=HashEmbedder(), clock=clock) as memory:
        (first,) = await memory.remember(words[0])
    model = ScriptedModel(lambda prompt, answer: ModelRefusedError("no"))
    async with Memory(provider, model=model, embedder=HashEmbedder(), clock=clock) as memory:
        kept = await memory.remember(words[1])
        (change,) = kept.changes
        assert (change.kind, change.previous and change.previous.revision) == (ChangeKind.UPDATED, first.revision)
        await memory.undo(kept.changes)
        (left,) = await memory.list_records()
        assert left.evidence == first.evidence


async def test_many_changes_are_undone_together(
    provider: AgentMemoryProvider, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adjacent changes of one kind share a transaction, the last one first; redoing works alike."""
    memory = opened(provider, clock)
    boxes = [f"Box {number} is in the hall." for number in range(3)]
    changed = [change for box in boxes for change in (await memory.remember(box)).changes]
    assert isinstance(provider, KeepsLog)
    written, append = list[int](), provider.append

    async def counted(statements: Sequence[Statement]) -> Sequence[Receipt]:
        written.append(len(statements))
        return await append(statements)

    monkeypatch.setattr(provider, "append", counted)
    undone = await memory.undo(changed)
    assert [change.record.value for change in undone] == boxes[::-1]
    assert await statements(memory) == []
    again = await memory.undo(undone)
    assert [change.record.value for change in again] == boxes
    assert written == [3, 3]


async def test_each_update_of_a_record_costs_its_undo_the_same(
    provider: AgentMemoryProvider, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0

    def counted(entry: Recorded) -> tuple[int, dt.datetime, int]:
        nonlocal compared
        compared += 1
        return deciding_order(entry)

    monkeypatch.setattr("factmem.memory.reversals.deciding_order", counted)
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 0, timestamp=clock()))
        changes = [await memory.update(record.id, value=number) for number in range(1, 101)]
        await memory.undo(changes)
        assert [record.value for record in await memory.list_records()] == [0]
        assert 100 <= compared < 1_000


async def test_what_cannot_be_undone_leaves_its_neighbours_of_the_same_kind(
    provider: AgentMemoryProvider, clock: FakeClock
) -> None:
    memory = opened(provider, clock)
    kept = (await memory.remember("The mill is old.")).changes
    gone = (await memory.remember("The barn is new.")).changes
    await memory.undo(gone)
    with pytest.raises(RecordNotFoundError):
        await memory.undo([*gone, *kept])
    assert await statements(memory) == ["The mill is old."]
    assert await memory.undo([]) == ()


async def remember_each(memory: Memory, *sentences: str) -> list[Any]:
    """Remember sentences, a conversation each, and return the changes of the last."""
    changed: list[Any] = []
    for number, sentence in enumerate(sentences):
        start = dt.datetime(2024, 5, 8, 12 + number, tzinfo=dt.UTC)
        changed = list((await memory.remember(talk(sentence, id=f"{number}", start=start))).changes)
    return changed


def _seats_forgotten(prompt: Prompt, answer: type[Any]) -> Any:
    found = dict(well(prompt, answer))
    if "forget" in found:
        number = {"keyword": "seats", "value": None}
        found["forget"] = [item | number for item in found["forget"]]
    return found


async def test_a_single_value_comes_back_with_its_history(provider: AgentMemoryProvider) -> None:
    memory = with_model(provider, ScriptedModel(_seats_forgotten))
    told_of = ["We booked 12 seats.", "We booked 14 seats.", "Forget that we need seats."]
    forgotten = await remember_each(memory, *told_of)
    assert await memory.load(SEATS) is None
    (change,) = await memory.undo(forgotten)
    assert (not_none(await memory.load(SEATS)).value, change.record.value) == (14, 14)
    assert [revision.value for revision in await memory.history(SEATS)] == [12, 14]
    with pytest.raises(RecordNotFoundError):
        await memory.restore(change.record.id)


@pytest.mark.parametrize("step", [0, 1])
async def test_a_restored_record_does_not_bring_back_what_was_undone_before(
    provider: AgentMemoryProvider, clock: FakeClock, step: int
) -> None:
    """Each retraction is its own, while the clock stands still as well."""
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 80))
        for value in (120, 90):
            clock.advance(dt.timedelta(seconds=step))
            change = await memory.update(record.id, value=value)
            await memory.undo([change])
            clock.advance(dt.timedelta(seconds=step))
            await memory.retract(record.id)
            (change,) = await memory.restore(record.id)
            assert change.record.value == 80
            assert not_none(await memory.load(SEATS)).value == 80


async def test_a_removal_that_was_taken_back_is_not_met_again(provider: AgentMemoryProvider) -> None:
    """Reading the same conversation again must not retract the restored record."""
    memory = with_model(provider, ScriptedModel(well))
    await memory.undo(await remember_each(memory, "I have a cat.", "Forget that I have a cat."))
    before = len((await log_of(provider))[0])
    await remember_each(memory, "I have a cat.", "Forget that I have a cat.")
    assert said(await memory.list_records(concepts=[PETS])) == ["cat"]
    assert len((await log_of(provider))[0]) == before


@pytest.mark.parametrize("decision", ["accept", "reject"])
async def test_a_decision_about_the_quarantine_can_be_undone_and_made_again(
    provider: AgentMemoryProvider, clock: FakeClock, decision: str
) -> None:
    memory = opened(provider, clock)
    await memory.remember([Message(content=f"The door is {colour}.", role="tool") for colour in ("red", "blue")])
    quarantine = memory.inbox.quarantine

    async def seen() -> list[list[Any]]:
        everywhere = (await quarantine.list(), await quarantine.list(rejected=True), await memory.list_records())
        return [sorted((record.id, record.value) for record in records) for records in everywhere]

    before = await seen()
    decided = await getattr(quarantine, decision)(*(record.id for record in await quarantine.list()))
    after = await seen()
    assert (len(before[0]), len(after[0])) == (2, 0)
    undone = await memory.undo(decided, reason="the wrong page")
    assert (await seen(), await quarantine.count()) == (before, 2)
    with pytest.raises(RecordNotFoundError):
        await memory.undo(decided)
    await memory.undo(undone)
    assert await seen() == after
    if decision == "reject":
        await memory.undo(await quarantine.accept(*(id for id, _ in after[1])))
    else:
        await memory.undo(decided)
    assert await seen() == before  # also what was rejected before it was accepted
    await quarantine.reject(*(id for id, _ in before[0]))
    assert [len(shown) for shown in await seen()] == [0, 2, 0]


BETA = "/product/beta"


class Steps:
    """Steps that change one record, each in one transaction, wherever it lies by then."""

    def __init__(self, memory: Memory, id: str) -> None:
        self.memory, self.id = memory, id
        self.done: Sequence[Change] = ()

    async def do(self, step: str) -> None:
        memory = self.memory
        now = [record.id for record in await memory.list_records()]
        (self.id,) = now or [self.id]
        match step.split():
            case ["save", seats]:
                (record,) = await memory.list_records()
                await memory.save(SingleFact(SEATS, int(seats)), scope=record.scope)
            case ["save_earlier", seats]:
                early = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
                (record,) = await memory.list_records()
                await memory.save(SingleFact(SEATS, int(seats), timestamp=early), scope=record.scope)
            case ["update", seats]:
                self.done = [await memory.update(self.id, value=int(seats))]
            case ["weigh", importance]:
                self.done = [await memory.update(self.id, importance=float(importance))]
            case ["move", scope]:
                self.done = [await memory.update(self.id, scope=scope)]
            case ["retract"]:
                self.done = await memory.retract(self.id)
            case ["restore"]:
                self.done = await memory.restore(self.id)
            case ["rollback", number]:
                self.done = [await memory.rollback((await memory.history(self.id))[int(number)])]
            case ["undo"]:
                self.done = await memory.undo(self.done)
            case ["tell"]:
                await memory.update(self.id, value=8, origin=Origin.TOOL)
            case ["accept"]:
                waiting = await memory.inbox.quarantine.list()
                self.done = await memory.inbox.quarantine.accept(*(record.id for record in waiting))

    async def seen(self) -> list[tuple[Any, float, str]]:
        return [(it.value, it.details.importance, str(it.scope)) for it in await self.memory.list_records()]


STEPS = (
    "save 4",
    "save_earlier 5",
    "update 6",
    "weigh 0.9",
    f"move {BETA}",
    "retract",
    "rollback 0",
    "rollback 1",
    "rollback 1, rollback 0",
    "retract, restore",
    "update 7, undo",
    "weigh 0.9, undo, weigh 0.9",
    "tell, accept",
    "tell, accept, undo",
    f"move {BETA}, undo",
    f"move {BETA}, undo, undo",
    f"move {BETA}, undo, move {BETA}",
    f"move {BETA}, move {ALPHA}",
    f"move {BETA}, update 7",
)

MOVED = (f"move {BETA}", f"move {BETA}, update 7")
BEFORE = (
    "tell",
    "save_earlier 14",
    "save 14",
    "rollback 1",
    "rollback 0",
    "retract, restore",
    "update 7, undo",
    "tell, accept",
    f"move {BETA}, undo",
    *MOVED,
)


@pytest.mark.parametrize("seconds", [0, 1])
@pytest.mark.parametrize("change", STEPS)
async def test_by_its_id_the_last_change_of_a_record_is_undone_and_made_again(change: str, seconds: int) -> None:
    """So it is after any other change before it, with a clock that stands still as well."""
    for before in BEFORE:
        clock = FakeClock(step=dt.timedelta(seconds=seconds))
        async with Memory("memory:", concepts=[SEATS], embedder=HashEmbedder(), clock=clock) as memory:
            for number in (1, 2, 3):
                (record,) = await memory.save(SingleFact(SEATS, number), scope=ALPHA)
            steps = Steps(memory, record.id)
            for step in before.split(", "):
                await steps.do(step)
            if before == change or (before in MOVED and ("move" in change or "rollback" in change)):
                continue  # it would change nothing
            *first, last = change.split(", ")
            for step in first:
                await steps.do(step)
            seen = [await steps.seen()]
            await steps.do(last)
            seen.append(await steps.seen())
            for expected in (seen[0], seen[1], seen[0]):
                await memory.undo([steps.id])
                assert await steps.seen() == expected, (before, change)


@pytest.mark.parametrize("given", ["old", "new"])
async def test_a_move_is_not_undone_over_a_later_change_of_the_other_record(
    provider: AgentMemoryProvider, clock: FakeClock, given: str
) -> None:
    """It would stand in both scopes, or lose what was said since."""
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 12), scope=ALPHA)
        moved = (await memory.update(record.id, scope=BETA)).record
        if given == "old":
            await memory.update(moved.id, value=14)
        else:
            await memory.save(SingleFact(SEATS, 80), scope=ALPHA)
        before = await memory.list_records()
        id, other = (record.id, moved.id) if given == "old" else (moved.id, record.id)
        with pytest.raises(StateConflictError, match=other):
            await memory.undo([id])
        assert await memory.list_records() == before
        assert len(await memory.undo([other])) == 1


@pytest.mark.parametrize("by", ["id", "change"])
@pytest.mark.parametrize("half", ["old", "new"])
@pytest.mark.parametrize("lost", ["unseen", "erased"])
@pytest.mark.parametrize("undone", [False, True])
async def test_half_a_move_is_not_undone(
    provider: AgentMemoryProvider, clock: FakeClock, by: str, half: str, lost: str, undone: bool
) -> None:
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 12), scope=ALPHA)
        change = await memory.update(record.id, scope=BETA)
        moved = change.record
        if undone:
            (change,) = await memory.undo([change])
        kept, other, scope = (record, moved, ALPHA) if half == "old" else (moved, record, BETA)
        if lost == "erased":
            assert isinstance(provider, KeepsLog)
            await provider.erase([other.id], tenant=None)
        view = memory.scope(scope) if lost == "unseen" else memory
        before = await memory.list_records()
        with pytest.raises(RecordNotFoundError, match="was moved"):
            await view.undo([kept.id] if by == "id" else [change])
        assert await memory.list_records() == before


async def test_ids_are_undone_all_or_none_each_once(
    provider: AgentMemoryProvider, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ids of one move are one change; the last one given is undone first."""
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 12), scope=ALPHA)
        moved = (await memory.update(record.id, scope=BETA)).record
        mill = (await memory.remember("The mill is old."))[0]
        before = await memory.list_records()
        for unknown in ("0" * 32, "nothing"):
            with pytest.raises(RecordNotFoundError, match="name no visible record"):
                await memory.undo([mill.id, record.id, unknown])
            assert await memory.list_records() == before
        assert isinstance(provider, KeepsLog)
        written, append = list[int](), provider.append

        async def counted(statements: Sequence[Statement]) -> Sequence[Receipt]:
            written.append(len(statements))
            return await append(statements)

        monkeypatch.setattr(provider, "append", counted)
        undone = await memory.undo([moved.id, record.id, mill.id, mill.id])
        assert [(change.kind, change.record.value) for change in undone] == [
            (ChangeKind.DELETED, "The mill is old."),
            (ChangeKind.UPDATED, 12),
        ]
        assert [str(item.scope) for item in await memory.list_records()] == [ALPHA]
        assert written == [3]


async def test_nothing_is_undone_of_what_is_not_visible(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    async with opened(provider, clock) as memory:
        (theirs,) = await memory.for_user("ann").save(SingleFact(SEATS, 12), private=True)
        (public,) = await memory.save(SingleFact(SEATS, 14), scope=ALPHA)
        for view, id in ((memory.for_user("bob"), theirs.id), (memory.scope(BETA), public.id)):
            with pytest.raises(RecordNotFoundError, match="name no visible record"):
                await view.undo([id])
        (change,) = await memory.for_user("ann").undo([theirs.id])
        assert change.kind is ChangeKind.DELETED


async def test_what_waits_in_the_quarantine_is_not_undone(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    async with opened(provider, clock) as memory:
        await memory.remember(Message(content="The door is red.", role="tool"))
        ((entry,), _) = await log_of(provider)
        for id in (entry.id, entry.record_id):
            with pytest.raises(RecordNotFoundError):
                await memory.undo([id])
        assert await memory.inbox.quarantine.count() == 1


async def test_a_change_that_was_undone_is_made_again(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    """It is written anew, though the same was written before; the record was lost, or stayed as it was."""
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 12), scope=ALPHA)
        for importance in (0.5, 0.9):
            for _ in range(3):
                await memory.undo([await memory.update(record.id, importance=0.9)])
                await memory.undo([await memory.update(record.id, scope=BETA, importance=importance)])
            moved = await memory.update(record.id, scope=BETA, importance=importance)
            (shown,) = await memory.list_records()
            assert (shown.id, str(shown.scope), shown.details.importance) == (moved.record.id, BETA, importance)
            for id in (moved.record.id, record.id, moved.record.id):
                await memory.undo([id])
            assert [str(item.scope) for item in await memory.list_records()] == [ALPHA]


async def test_what_a_model_made_of_words_is_undone_by_id(provider: AgentMemoryProvider) -> None:
    """The words do not come back in its place; a removal gives way to the value."""
    memory = with_model(provider, ScriptedModel(well))
    (pet, *_) = [change.record for change in await remember_each(memory, "I have a cat.")]
    await remember_each(memory, "Forget that I have a cat.")
    for shown in (["cat"], [], ["cat"]):
        await memory.undo([pet.id])
        assert said(await memory.list_records(concepts=[PETS])) == shown
    (text,) = await memory.remember("The mill is old.")
    for shown in ([], ["The mill is old."], []):
        await memory.undo([text.id])
        assert await statements(memory) == shown


async def test_an_undo_by_id_stands_in_the_audit(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    async with opened(provider, clock) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 12), scope=ALPHA)
        await memory.update(record.id, scope=BETA)
        await memory.undo([record.id], reason="the wrong product")
        reasons = [entry.reason for entry in (await memory.scope(ALPHA).admin.audit()).entries]
        assert "moved to another scope: the wrong product" in reasons
        assert "beta" not in str(reasons)
