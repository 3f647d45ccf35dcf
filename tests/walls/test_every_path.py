"""Every path that facts can be read on is known, and none of them tells anybody what is behind a wall."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import anyio
import pytest
from mcp import Client

from factmem import InMemoryProvider, Memory
from factmem.mcp import make_server
from factmem.testing import FakeClock
from tests.walls.commands import COMMANDS
from tests.walls.protocol import PROMPTS, RESOURCES, TEMPLATES, TOOLS
from tests.walls.stores import STORES, planted
from tests.walls.surface import CLASSES, classes, commands, paths_of, unlisted_classes
from tests.walls.touring import Notes, Tables, looked_around, worked
from tests.walls.ways import EMBEDDER, Door
from tests.walls.worlds import NOW, seats, world

SEATS: Final = 3
"""In each world; the last of them writes as well, when all have looked."""

WORLDS: Final = {
    "memory": (4, 80),
    "sqlite-vec": (1, 40),
    "file": (1, 40),
    "encrypted": (1, 40),
    "encrypted-sqlite": (1, 40),
    "postgres": (1, 40),
}
"""How many worlds a store is filled with, and how many if the numbers are big: over 30,000 answers are searched."""

ENOUGH: Final = 4
"""So many worlds have something to see on every path."""

SHOWN_BY_NOTHING: Final = {"FactMemStore.abatch", "FactMemBackend.als", "FactMemBackend.aglob"}
"""Paths that read and have nothing to show here: a store of items has none, and names of files are no facts."""


def test_every_public_path_is_listed() -> None:
    """A path that is added must be put into a list: how it is walked if it reads or writes, or why it does neither."""
    assert unlisted_classes() == [], "say how these are read, in CLASSES of tests/walls/surface.py"
    unlisted = [
        f"{cls.__name__}.{name}"
        for cls in classes()
        if cls.__name__ in CLASSES
        for name in paths_of(cls)
        if name not in CLASSES[cls.__name__]
    ]
    assert unlisted == [], "say how these are walked, in the list of their class"


def test_every_path_that_is_listed_is_there() -> None:
    """Renamed or removed paths leave no stale entry in the lists."""
    found: dict[int, set[str]] = {}
    for cls in classes():
        if (listed := CLASSES.get(cls.__name__)) is not None:
            found.setdefault(id(listed), set()).update(paths_of(cls))
    alike = {name for names in found.values() for name in names}
    assert sorted({name for listed in CLASSES.values() for name in listed} - alike) == []


def test_every_command_is_listed() -> None:
    assert commands() == sorted(COMMANDS)


async def test_everything_that_a_server_offers_is_listed() -> None:
    """By the lists that it gives its clients."""
    memory = Memory(InMemoryProvider(), embedder=EMBEDDER)
    async with Client(make_server(memory, trust=True, allow_erase=True)) as client:
        tools, resources = (await client.list_tools()).tools, (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        prompts = (await client.list_prompts()).prompts
    assert {tool.name for tool in tools} == set(TOOLS)
    assert {str(item.uri) for item in resources} == set(RESOURCES) - {"of scopes"}
    assert {item.uri_template for item in templates} == set(TEMPLATES)
    assert {prompt.name for prompt in prompts} == set(PROMPTS)


@pytest.mark.timeout(0)
@pytest.mark.usefixtures("without_threads")
@pytest.mark.parametrize("store", STORES)
async def test_no_path_tells_what_is_behind_a_wall(
    store: str, tmp_path: Path, big: bool, promise: Callable[[str, str], None]
) -> None:
    """Random worlds with a token in everything that was ever said; what each path tells is searched for them.

    What a seat may see must be there as well, so that nothing passes by telling nothing.
    """
    notes, count = Notes(), WORLDS[store][big]
    async with Tables.laid() as tables:
        for seed in range(count):
            await _tried(store, tmp_path / str(seed), seed, tables, notes)
            assert notes.leaks == []
    blind = {path for path in _reading_paths(CLASSES) & notes.shown.keys() if not notes.shown[path]}
    assert blind <= SHOWN_BY_NOTHING or count < ENOUGH
    promise(
        "tenancy, private facts",
        f"{store}: {notes.answers:,} answers of every read path, from {count * SEATS} seats in {count} random worlds: "
        "0 leaks",
    )


async def _tried(store: str, folder: Path, seed: int, tables: Tables, notes: Notes) -> None:
    """Make a world, and have it looked at and worked on from several seats."""
    await anyio.Path(folder).mkdir()
    chance, clock = random.Random(f"{store} {seed}"), FakeClock(NOW)
    async with STORES[store](folder, clock) as provider:
        grown = await planted(world(chance), provider, clock)
        chosen = seats(chance, grown.world, SEATS)
        for seat in chosen:
            await looked_around(grown, seat, chance, tables, notes)
        await worked(grown, chosen[-1], chance, tables, notes)


def _reading_paths(tables: Mapping[str, Mapping[str, Door]]) -> set[str]:
    return {f"{name}.{path}" for name, doors in tables.items() for path, door in doors.items() if _reads(door)}


def _reads(door: Door) -> bool:
    return type(door).__name__ == "Reads"
