"""The command line and the blocking twins show no more than the memory does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
import pytest
from anyio import to_thread

from factmem import BlockingMemory
from factmem.testing import FakeClock
from tests.stores import STORES
from tests.walls.commands import COMMANDS, Terminal
from tests.walls.facade import READING, WAITING
from tests.walls.leak_search import LeakReport, hidden_log, steps_of
from tests.walls.pending import DEAD_LETTERS, QUARANTINE
from tests.walls.stores import FilledStore, planted
from tests.walls.ways import EMBEDDER, Asked, Reads, Shows, Writes, answer_of, memory_at
from tests.walls.worlds import NOW, Caller, callers, world

_BLIND: Final = {"Command.profile", "Command.tree"}
"""Commands that show little."""


@pytest.fixture(autouse=True)
def _nobodys_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("STORE", "ORGANIZATION", "VIEWER", "EMBEDDER", "MODEL"):
        monkeypatch.delenv(f"FACTMEM_{name}", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("factmem.memory.facade.default_embedder", lambda: EMBEDDER)


async def test_no_command_shows_facts_behind_a_wall(tmp_path: Path, big: bool) -> None:
    notes = LeakReport()
    for seed in range(40 if big else 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        chance, clock = random.Random(f"commands {seed}"), FakeClock(NOW)
        async with STORES["sqlite-vec"](folder, clock) as provider:
            filled = await planted(world(chance), provider, clock)
            for caller in callers(chance, filled.world, 2 if big else 1):
                await _commanded(filled, attrs.evolve(caller, roots=(), exact=(), subjects=()), chance, folder, notes)
        assert notes.leaks == []
    shown = {path for path, count in notes.shown.items() if count}
    reading = {f"Command.{name}" for name, door in COMMANDS.items() if isinstance(door, Reads)}
    assert shown >= (reading - _BLIND if big else {"Command.recall", "Command.info", "Command.export"})


async def _commanded(
    filled: FilledStore, caller: Caller, chance: random.Random, folder: Path, notes: LeakReport
) -> None:
    asked = Asked.of(filled, caller, chance, memory_at(caller, filled))
    asked = attrs.evolve(asked, client=Terminal(folder / "facts.db", caller))
    before = await hidden_log(filled, caller)
    for kind in (Reads, Writes):
        for step in steps_of({"Command": COMMANDS}, asked, kind):
            notes.take(step.path, step.way, step.asked, await answer_of(step.way, step.asked))
    assert await hidden_log(filled, caller) == before


class _Awaited:
    """A blocking twin whose calls are awaited in a thread, so that the same ways apply to it."""

    def __init__(self, blocking: object) -> None:
        self._blocking = blocking

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._blocking, name)
        if not callable(found):
            return _Awaited(found)

        async def call(*args: Any, **kwargs: Any) -> object:
            return await to_thread.run_sync(lambda: found(*args, **kwargs))

        return call


async def test_no_blocking_twin_shows_facts_behind_a_wall(tmp_path: Path) -> None:
    notes = LeakReport()
    for seed in range(2):
        chance, clock = random.Random(f"twins {seed}"), FakeClock(NOW)
        async with STORES["memory"](tmp_path, clock) as provider:
            filled = await planted(world(chance), provider, clock)
            (caller,) = callers(chance, filled.world, 1)
            await to_thread.run_sync(_looked_at_blocking, filled, caller, chance, notes)
        assert notes.leaks == []
    assert notes.shown["Memory.list_records"]


def _looked_at_blocking(filled: FilledStore, caller: Caller, chance: random.Random, notes: LeakReport) -> None:
    with BlockingMemory(memory_at(caller, filled)) as memory:
        asked = Asked.of(filled, caller, chance, memory_at(caller, filled))
        twin: Any = _Awaited(memory)
        now = attrs.evolve(asked, memory=twin, reader=twin)
        tables = {"Memory": {**READING, **WAITING}, "Quarantine": QUARANTINE, "DeadLetters": DEAD_LETTERS}
        for step in steps_of(tables, now, Reads):
            notes.take(step.path, step.way, asked, anyio.run(answer_of, step.way, step.asked))
        moments = (memory.view(as_of=asked.some[0].said), memory.view(known_at=NOW))
        for reader in moments:
            then: Any = _Awaited(reader)
            for step in steps_of({"Reader": READING}, attrs.evolve(asked, reader=then), Reads):
                way = attrs.evolve(step.way, shows=Shows.EVER, whole=False)
                notes.take(step.path, way, asked, anyio.run(answer_of, way, step.asked))
