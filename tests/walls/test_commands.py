"""The command line, and the twins without an event loop: neither shows more than the memory does."""

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
from tests.walls.commands import COMMANDS, Terminal
from tests.walls.facade import READING, WAITING
from tests.walls.stores import STORES, Grown, planted
from tests.walls.touring import Notes, hidden_log, steps_of
from tests.walls.waiting import DEAD_LETTERS, QUARANTINE
from tests.walls.ways import EMBEDDER, Asked, Reads, Shows, Writes, memory_at, walked
from tests.walls.worlds import NOW, Seat, seats, world

_BLIND: Final = {"Command.profile", "Command.tree"}
"""What has little to show."""


@pytest.fixture(autouse=True)
def _nobodys_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("STORE", "ORGANIZATION", "VIEWER", "EMBEDDER", "MODEL"):
        monkeypatch.delenv(f"FACTMEM_{name}", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("factmem.memory.facade.default_embedder", lambda: EMBEDDER)


async def test_no_command_tells_what_is_behind_a_wall(tmp_path: Path, big: bool) -> None:
    notes = Notes()
    for seed in range(40 if big else 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        chance, clock = random.Random(f"commands {seed}"), FakeClock(NOW)
        async with STORES["sqlite-vec"](folder, clock) as provider:
            grown = await planted(world(chance), provider, clock)
            for seat in seats(chance, grown.world, 2 if big else 1):
                await _commanded(grown, attrs.evolve(seat, roots=(), exact=(), subjects=()), chance, folder, notes)
        assert notes.leaks == []
    shown = {path for path, count in notes.shown.items() if count}
    reading = {f"Command.{name}" for name, door in COMMANDS.items() if isinstance(door, Reads)}
    assert shown >= (reading - _BLIND if big else {"Command.recall", "Command.info", "Command.export"})


async def _commanded(grown: Grown, seat: Seat, chance: random.Random, folder: Path, notes: Notes) -> None:
    asked = Asked.of(grown, seat, chance, memory_at(seat, grown))
    asked = attrs.evolve(asked, client=Terminal(folder / "facts.db", seat))
    before = await hidden_log(grown, seat)
    for kind in (Reads, Writes):
        for step in steps_of({"Command": COMMANDS}, asked, kind):
            notes.take(step.path, step.way, step.asked, await walked(step.way, step.asked))
    assert await hidden_log(grown, seat) == before


class _Awaited:
    """Something without an event loop, awaited in a thread, so that the same ways lead through it."""

    def __init__(self, blocking: object) -> None:
        self._blocking = blocking

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._blocking, name)
        if not callable(found):
            return _Awaited(found)

        async def call(*args: Any, **kwargs: Any) -> object:
            return await to_thread.run_sync(lambda: found(*args, **kwargs))

        return call


async def test_no_blocking_twin_tells_what_is_behind_a_wall(tmp_path: Path) -> None:
    notes = Notes()
    for seed in range(2):
        chance, clock = random.Random(f"twins {seed}"), FakeClock(NOW)
        async with STORES["memory"](tmp_path, clock) as provider:
            grown = await planted(world(chance), provider, clock)
            (seat,) = seats(chance, grown.world, 1)
            await to_thread.run_sync(_looked_at_blocking, grown, seat, chance, notes)
        assert notes.leaks == []
    assert notes.shown["Memory.list_records"]


def _looked_at_blocking(grown: Grown, seat: Seat, chance: random.Random, notes: Notes) -> None:
    with BlockingMemory(memory_at(seat, grown)) as memory:
        asked = Asked.of(grown, seat, chance, memory_at(seat, grown))
        twin: Any = _Awaited(memory)
        now = attrs.evolve(asked, memory=twin, reader=twin)
        tables = {"Memory": {**READING, **WAITING}, "Quarantine": QUARANTINE, "DeadLetters": DEAD_LETTERS}
        for step in steps_of(tables, now, Reads):
            notes.take(step.path, step.way, asked, anyio.run(walked, step.way, step.asked))
        moments = (memory.as_of(asked.some[0].said), memory.known_at(NOW))
        for reader in moments:
            then: Any = _Awaited(reader)
            for step in steps_of({"Reader": READING}, attrs.evolve(asked, reader=then), Reads):
                way = attrs.evolve(step.way, shows=Shows.EVER, whole=False)
                notes.take(step.path, way, asked, anyio.run(walked, way, step.asked))
