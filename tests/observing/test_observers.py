"""Events sent to observers, their order, and the handling of observers that fail."""

from __future__ import annotations

import ast
import datetime as dt
import inspect
import io
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel
import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

import factmem
from factmem import (
    BlockingMemory,
    Concept,
    Conversation,
    FactMemError,
    InMemoryProvider,
    Memory,
    MemoryScope,
    Message,
    SingleFact,
    Submission,
)
from factmem.abc import OperationCompleted, OperationEvent, OperationFailed, OperationStarted, Prompt
from factmem.abc.capabilities import EmbedderIdentity
from factmem.abc.detector import DropReason
from factmem.abc.observer import Effect, Operation
from factmem.agent.config import AgentMemoryConfig
from factmem.agent.plugin import AgentMemory
from factmem.details import FactDetails, Origin
from factmem.memory.admin import Admin
from factmem.memory.dead_letters import DeadLetters
from factmem.memory.filters import RecordOrder
from factmem.memory.inbox import Inbox
from factmem.memory.quarantine import Quarantine
from factmem.observing import current_call
from factmem.testing import HashEmbedder, ScriptedModel
from tests.memory.scripted_analyst import deeply
from tests.memory.telling import CITY, SEATS, USER, Gated, opened, talk, until, well
from tests.observing.watching import Watcher
from tests.walls.leaves import text_of


@pytest.fixture
def watcher() -> Watcher:
    """An observer that has received no event."""
    return Watcher()


def watched(watcher: Watcher, **options: Any) -> Memory:
    """A memory with an observer."""
    return opened(InMemoryProvider(), observers=[watcher], **options)


async def test_operations_that_run_side_by_side_keep_their_own_parts(watcher: Watcher) -> None:
    """The tree follows the tasks, not the clock."""
    async with watched(watcher) as memory, anyio.create_task_group() as tasks:
        for value in range(5):
            tasks.start_soon(memory.save, SingleFact(SEATS, value))
    saves = watcher.started(Operation.SAVE)
    assert len({save.id for save in saves}) == 5
    assert all(watcher.within(save) == [Operation.EMBED, Operation.COMMIT] for save in saves)


async def test_events_have_the_place_and_counts(watcher: Watcher) -> None:
    """Events have the organization, the scope as a path, and counts at the start and the end."""
    provider = InMemoryProvider()
    async with opened(provider, observers=[watcher], organization="acme") as memory:
        await memory.save(SingleFact(SEATS, 5), scope="/product/alpha")
        await memory.scope("/product/alpha").list_records(order_by=RecordOrder.SAID)
        await memory.admin.info(MemoryScope.product("alpha"))
    (saved,) = watcher.completed(Operation.SAVE)
    assert (saved.tenant, saved.scope, saved.records_in, saved.records_out) == ("acme", "/product/alpha", 1, 1)
    (listed,) = watcher.completed(Operation.LIST_RECORDS)
    assert (listed.scope, listed.records_in, listed.records_out) == ("/product/alpha", None, 1)
    (asked,) = watcher.completed(Operation.INFO)
    assert (asked.scope, asked.records_out) == ("/product/alpha", 1)


async def test_ids_are_not_a_scope(watcher: Watcher) -> None:
    """The event of an operation on ids has the scope that was passed, if any."""
    async with watched(watcher) as memory:
        ids = [(await memory.save(SingleFact(CITY, name), scope="/product/alpha"))[0].id for name in ("Rome", "Oslo")]
        await memory.forget(*ids, dry_run=True)
        await memory.forget(*ids, scope="/product/alpha")
    would, forgot = watcher.completed(Operation.FORGET)
    assert (would.scope, would.records_in, forgot.scope, forgot.records_in) == (None, 2, "/product/alpha", 2)


async def test_a_view_and_another_moment_are_observed_as_well(watcher: Watcher) -> None:
    """Every memory derived from another one notifies the same observers."""
    async with watched(watcher) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 5))
        await memory.view(as_of=record.timestamp).load(SEATS)
        await memory.view(scopes=["/product/alpha", "/product/beta"], read_only=True).load(SEATS)
        await memory.view(viewer="bob").load(SEATS)
        await memory.view(actor="bot").load(SEATS)
    assert [event.records_out for event in watcher.completed(Operation.LOAD)] == [1, None, 1, 1]


async def test_what_is_cancelled_has_failed(watcher: Watcher) -> None:
    """The name is the same on every event loop."""

    class Slow(HashEmbedder):
        async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
            raise AssertionError

    async with watched(watcher, embedder=Slow()) as memory:
        with anyio.CancelScope() as scope:
            await memory.recall("seats")
    assert [event.error for event in watcher.failed(Operation.RECALL)] == ["Cancelled"]
    assert [event.error for event in watcher.failed(Operation.EMBED)] == ["Cancelled"]


async def test_an_observer_that_raises_is_logged_once_and_breaks_nothing(
    watcher: Watcher, caplog: pytest.LogCaptureFixture
) -> None:
    """Other observers are still notified."""

    def broken(event: OperationEvent, /) -> None:
        raise RuntimeError("the words of a fact")

    with caplog.at_level(logging.WARNING, logger="factmem"):
        async with opened(InMemoryProvider(), observers=[broken, watcher]) as memory:
            await memory.save(SingleFact(SEATS, 5))
            assert (await memory.load(SEATS)) is not None
    assert len(caplog.records) == 1
    assert "RuntimeError" in caplog.text
    assert "the words of a fact" not in caplog.text
    assert watcher.completed(Operation.LOAD)


async def test_events_contain_no_content(watcher: Watcher) -> None:
    """This covers words, queries and ids of people, in every representation of an event."""
    async with opened(InMemoryProvider(), ScriptedModel(well), observers=[watcher]) as memory:
        await memory.remember(talk("I live in Samarkand", "I have a parrot"), subject=USER.individual("ana"))
        await memory.recall("Samarkand")
        await memory.forget(*[record.id for record in await memory.list_records()])
    sent = repr([attrs.asdict(event) for event in watcher.events])
    assert [word for word in ("Samarkand", "parrot", "ana'") if word in sent] == []


async def test_content_is_included_on_request(watcher: Watcher) -> None:
    """The arguments are in the start event and the result in the end event of the memory's own methods."""
    async with watched(watcher, observed_content=True) as memory:
        await memory.save(SingleFact(CITY, "Lima"))
        found = await memory.recall("Lima", limit=3)
    (began,), (ended,) = watcher.started(Operation.RECALL), watcher.completed(Operation.RECALL)
    assert began.arguments == {"query": "Lima", "limit": 3}
    assert ended.result is found
    assert "Lima" not in repr(watcher.events)


async def test_content_of_another_viewer_is_never_included(watcher: Watcher) -> None:
    """The next memory to open the store reads all pending messages, and its observers get no word of them."""
    provider = InMemoryProvider()
    with anyio.CancelScope() as killed:
        async with opened(provider, Gated()) as alices:
            await alices.save(SingleFact(SEATS, 5), details=FactDetails(categories=["parrots"]), private=True)
            said: list[str | Conversation] = [talk("I live in Samarkand"), "There is a cellar."]
            await alices.remember_many(said, subject=USER, private=True)
            killed.cancel()
            await anyio.lowlevel.checkpoint()
    async with opened(
        provider, ScriptedModel(well), viewer="bob", observers=[watcher], observed_content=True
    ) as memory:
        await until(lambda: bool(watcher.completed(Operation.READ)))
        await memory.recall("anything at all")
    content = [*(event.arguments for event in watcher.events if isinstance(event, OperationStarted))]
    content += [{"result": event.result} for event in watcher.events if isinstance(event, OperationCompleted)]
    sent = text_of(content)
    assert "anything at all" in sent
    assert [word for word in ("Samarkand", "cellar", "parrots") if word in sent] == []
    async with opened(provider, viewer="alice") as memory:
        assert await memory.load(CITY) is not None


async def test_a_commit_names_its_effects_and_a_reading_what_it_dropped(watcher: Watcher) -> None:
    """Words wait, are read, and leave findings; a page's words are held back; the same again is nothing."""

    def script(prompt: Prompt, answer: type[Any]) -> dict[str, Any]:
        found = well(prompt, answer)
        if "city" in found:
            found["city"].append({"quote": "nobody said so", "message": 1, "value": "Rome"})
        return found

    async with opened(InMemoryProvider(), ScriptedModel(script), observers=[watcher]) as memory:
        await memory.remember(talk("I live in Lima"), subject=USER)
        effects = sum((Counter(event.effects) for event in watcher.completed(Operation.COMMIT)), Counter[Effect]())
        assert effects == {Effect.WAITING: 1, Effect.READ: 1, Effect.LEARNT: 1}
        (read,) = watcher.completed(Operation.READ)
        assert read.dropped == {DropReason.QUOTE_NOT_FOUND: 1}
        watcher.events.clear()
        fact = SingleFact(SEATS, 5)
        for _ in range(2):
            await memory.save(fact, details=FactDetails(origin=Origin.DOCUMENT))
        assert [event.effects for event in watcher.completed(Operation.COMMIT)] == [{Effect.QUARANTINED: 1}, {}]
        (listed,) = await memory.inbox.quarantine.list()
        await memory.inbox.quarantine.accept(listed.id)
        await memory.retract((await memory.list_records(concepts=[SEATS]))[0].id)
        assert [event.effects for event in watcher.completed(Operation.COMMIT)][2:] == [
            {Effect.ACCEPTED: 1},
            {Effect.RETRACTED: 1},
        ]


async def test_what_deep_recall_finds_is_counted(watcher: Watcher) -> None:
    """It counts like any recall; its questions to the model are its children."""
    async with opened(InMemoryProvider(), ScriptedModel(well), observers=[watcher]) as memory:
        await memory.save(SingleFact(CITY, "Lima"))
        found = await deeply(memory, "Which city does somebody live in, and since when do they live there now?")
    (recalled,) = watcher.completed(Operation.RECALL)
    assert recalled.records_out == len(found.matches) == 1


async def test_what_an_agent_loads_is_one_recall_of_facts_and_statements(watcher: Watcher) -> None:
    async with watched(watcher) as memory:
        await memory.save(SingleFact(CITY, "Lima"), subject=USER)
        await memory.remember("Lima is foggy.", subject=USER)
        async with AgentMemory(AgentMemoryConfig(store=memory, users="shared")) as plugin:
            with plugin.run() as run:
                await run.load([Message(content="What about Lima?")])
    (recalled,) = watcher.completed(Operation.RECALL)
    assert recalled.records_out == 2


async def test_an_embedding_has_its_embedder(watcher: Watcher) -> None:
    """The event has the number of embedded texts."""
    embedder = HashEmbedder()
    async with watched(watcher, embedder=embedder) as memory:
        await memory.recall("Lima")
    (made,) = watcher.completed(Operation.EMBED)
    assert (made.model, made.records_in, made.records_out) == ((await embedder.identity()).name, 1, 1)


async def test_where_nobody_observes_nothing_is_under_way() -> None:
    """Events are not even built without observers."""
    seen: list[object] = []

    class Looking(HashEmbedder):
        async def identity(self) -> EmbedderIdentity:
            seen.append(current_call())
            return await super().identity()

    async with opened(InMemoryProvider(), embedder=Looking()) as memory:
        await memory.recall("Lima")
    assert len(set(map(id, seen))) == 1
    assert type(seen[0]).__name__ == "Call"


# Observers are notified of every async method of a memory, including future ones.

NOW: Final = dt.datetime.now(dt.UTC)
NO_OPERATIONS: Final = {Submission: "is waited for, and does nothing itself"}


@attrs.frozen
class Booking:
    """A profile."""

    seats: int | None = None


Call = Callable[[Memory, str], Awaitable[object]]

CALLS: Final[Mapping[Operation, Call]] = {
    Operation.LOAD: lambda memory, record: memory.load(SEATS),
    Operation.PROFILE: lambda memory, record: memory.profile(Booking),
    Operation.RECALL: lambda memory, record: memory.recall("seats"),
    Operation.GET: lambda memory, record: memory.get(record),
    Operation.HISTORY: lambda memory, record: memory.history(SEATS),
    Operation.LIST_RECORDS: lambda memory, record: memory.list_records(),
    Operation.INFO: lambda memory, record: memory.admin.info(),
    Operation.TREE: lambda memory, record: memory.admin.tree(),
    Operation.ACCESSES: lambda memory, record: memory.admin.accesses(record),
    Operation.AUDIT: lambda memory, record: memory.admin.audit(),
    Operation.SAVE: lambda memory, record: memory.save(SingleFact(SEATS, 6)),
    Operation.SAVE_MANY: lambda memory, record: memory.save_many([SingleFact(SEATS, 6)]),
    Operation.SAVE_PROFILE: lambda memory, record: memory.save_profile(Booking(7)),
    Operation.UPDATE: lambda memory, record: memory.update(record, value=8),
    Operation.RETRACT: lambda memory, record: memory.retract(record),
    Operation.RESTORE: lambda memory, record: memory.restore(record),
    Operation.ROLLBACK: lambda memory, record: memory.rollback(1),
    Operation.UNDO: lambda memory, record: memory.undo([]),
    Operation.REMEMBER: lambda memory, record: memory.remember("There are 9 seats."),
    Operation.REMEMBER_MANY: lambda memory, record: memory.remember_many(["There is a bar."]),
    Operation.GENERATE: lambda memory, record: memory.generate([Message(content="I have a cat", timestamp=NOW)]),
    Operation.INGEST_EVENTS: lambda memory, record: memory.inbox.ingest_events(
        "talk", [Message(content="Yes", timestamp=NOW)]
    ),
    Operation.FLUSH: lambda memory, record: memory.inbox.flush(),
    Operation.RESUME: lambda memory, record: memory.inbox.resume(),
    Operation.EXTRACT: lambda memory, record: memory.inbox.extract("There is a bar, and a stage."),
    Operation.FORGET: lambda memory, record: memory.forget(record),
    Operation.RESET: lambda memory, record: memory.admin.reset(),
    Operation.TRACES: lambda memory, record: memory.admin.traces(record),
    Operation.EXPIRE: lambda memory, record: memory.admin.expire(),
    Operation.EXPORT: lambda memory, record: memory.admin.export(io.StringIO()),
    Operation.IMPORT: lambda memory, record: memory.admin.import_(io.StringIO('{"v": 1, "kind": "factmem-export"}\n')),
    Operation.CONVERT: lambda memory, record: memory.admin.convert("city", Concept.single("town", "Where they live")),
    Operation.MERGE: lambda memory, record: memory.admin.merge("user:annie", into="user:ann"),
    Operation.CALIBRATE: lambda memory, record: memory.admin.calibrate({"Where?": "In the bar."}),
    Operation.REEMBED: lambda memory, record: memory.admin.reembed(),
    Operation.CLOSE: lambda memory, record: memory.aclose(),
    Operation.QUARANTINE_LIST: lambda memory, record: memory.inbox.quarantine.list(),
    Operation.QUARANTINE_COUNT: lambda memory, record: memory.inbox.quarantine.count(),
    Operation.QUARANTINE_ACCEPT: lambda memory, record: memory.inbox.quarantine.accept(),
    Operation.QUARANTINE_REJECT: lambda memory, record: memory.inbox.quarantine.reject(),
    Operation.DEAD_LETTERS_LIST: lambda memory, record: memory.inbox.dead_letters.list(),
    Operation.DEAD_LETTERS_RETRY: lambda memory, record: memory.inbox.dead_letters.retry(),
    Operation.DEAD_LETTERS_DISMISS: lambda memory, record: memory.inbox.dead_letters.dismiss(),
}
"""A call of each operation."""


def test_every_method_that_waits_is_an_operation() -> None:
    """Methods are found by reflection over all objects that the facade returns, so none is missed."""
    found = dict(_waiting())
    assert len(found) > 35
    silent = [name for name, method in found.items() if not isinstance(getattr(method, "operation", None), Operation)]
    assert silent == []


def test_every_method_that_waits_is_called_here() -> None:
    """A method without a call here would not be tested."""
    methods = {method.operation for _, method in _waiting()}
    assert methods == CALLS.keys()


@pytest.mark.slow
def test_questions_to_a_model_all_go_the_same_way() -> None:
    """Code that calls a model directly would notify no observer."""
    package = Path(factmem.__file__).parent
    asking = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "ask" and not isinstance(node.ctx, ast.Store)
    ]
    assert asking == [str(Path("llm/asking.py"))]


@pytest.mark.parametrize("operation", CALLS, ids=str)
async def test_an_operation_notifies_of_its_start_and_end(operation: Operation) -> None:
    """The start comes first, the end last, and both name the same run."""
    watcher = Watcher()
    async with opened(InMemoryProvider(), ScriptedModel(well), observers=[watcher]) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 5))
        watcher.events.clear()
        try:
            await CALLS[operation](memory, record.id)
        except FactMemError:
            assert watcher.failed(operation)
        began = watcher.started(operation)[-1]
        (ended,) = [event for event in watcher.events if event.id == began.id and event is not began]
        assert isinstance(ended, OperationCompleted | OperationFailed)
        assert ended.duration >= 0
        assert began.parent_id is None


def _waiting() -> Iterator[tuple[str, Any]]:
    for cls in (Memory, Inbox, Admin, Quarantine, DeadLetters, Submission):
        for name, method in inspect.getmembers(cls, inspect.iscoroutinefunction):
            if not name.startswith("_") and cls not in NO_OPERATIONS and not issubclass(cls, BlockingMemory):
                yield f"{cls.__name__}.{name}", method


# Observation of an agent's memory.


async def test_the_memory_of_an_agent_notifies_the_observers_of_its_configuration() -> None:
    """The observers of the configuration are notified for any host."""
    watcher = Watcher()
    config = AgentMemoryConfig(
        store="memory:", agent_name="planner", users="shared", embedder=HashEmbedder(), observers=[watcher]
    )
    async with config.make_memory() as memory:
        await memory.remember("There are 120 seats.")
    assert watcher.completed(Operation.REMEMBER)
