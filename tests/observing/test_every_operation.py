"""Observers are notified of every async method of a memory, including future ones."""

from __future__ import annotations

import ast
import datetime as dt
import inspect
import io
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

import factmem.memory
from factmem import (
    BlockingMemory,
    FactMemError,
    InMemoryProvider,
    Memory,
    Message,
    SingleFact,
    Submission,
)
from factmem.abc import Operation, OperationCompleted, OperationFailed
from factmem.testing import ScriptedModel
from tests.memory.telling import SEATS, opened, well
from tests.observing.watching import Watcher

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
    Operation.INFO: lambda memory, record: memory.info(),
    Operation.TREE: lambda memory, record: memory.tree(),
    Operation.ACCESSES: lambda memory, record: memory.accesses(record),
    Operation.AUDIT: lambda memory, record: memory.audit(),
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
    Operation.INGEST_EVENTS: lambda memory, record: memory.ingest_events(
        "talk", [Message(content="Yes", timestamp=NOW)]
    ),
    Operation.FLUSH: lambda memory, record: memory.flush(),
    Operation.RESUME: lambda memory, record: memory.resume(),
    Operation.EXTRACT: lambda memory, record: memory.extract("There is a bar, and a stage."),
    Operation.FORGET: lambda memory, record: memory.forget(record),
    Operation.RESET: lambda memory, record: memory.reset(),
    Operation.TRACES: lambda memory, record: memory.traces(record),
    Operation.EXPIRE: lambda memory, record: memory.expire(),
    Operation.EXPORT: lambda memory, record: memory.export(io.StringIO()),
    Operation.IMPORT: lambda memory, record: memory.import_(io.StringIO('{"v": 1, "kind": "factmem-export"}\n')),
    Operation.REEMBED: lambda memory, record: memory.reembed(),
    Operation.CLOSE: lambda memory, record: memory.aclose(),
    Operation.QUARANTINE_LIST: lambda memory, record: memory.quarantine.list(),
    Operation.QUARANTINE_COUNT: lambda memory, record: memory.quarantine.count(),
    Operation.QUARANTINE_ACCEPT: lambda memory, record: memory.quarantine.accept(),
    Operation.QUARANTINE_REJECT: lambda memory, record: memory.quarantine.reject(),
    Operation.DEAD_LETTERS_LIST: lambda memory, record: memory.dead_letters.list(),
    Operation.DEAD_LETTERS_RETRY: lambda memory, record: memory.dead_letters.retry(),
    Operation.DEAD_LETTERS_DISMISS: lambda memory, record: memory.dead_letters.dismiss(),
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


def test_questions_to_a_model_all_go_the_same_way() -> None:
    """Code that calls a model directly would notify no observer."""
    package = Path(factmem.memory.__file__).parents[1]
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
    public: list[Any] = [getattr(factmem.memory, name) for name in factmem.memory.__all__]
    classes: list[type[Any]] = [*filter(inspect.isclass, public)]
    for cls in classes:
        for name, method in inspect.getmembers(cls, inspect.iscoroutinefunction):
            if not name.startswith("_") and cls not in NO_OPERATIONS and not issubclass(cls, BlockingMemory):
                yield f"{cls.__name__}.{name}", method
