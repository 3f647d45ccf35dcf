"""Every path on which facts can be read is listed, and none of them shows a caller a fact behind a wall."""

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
from tests.stores import STORES
from tests.walls.commands import COMMANDS
from tests.walls.leak_search import LeakReport, Tables, call_reads, call_writes
from tests.walls.protocol import PROMPTS, RESOURCES, TEMPLATES, TOOLS
from tests.walls.stores import DURABLE, IN_MIRROR, planted
from tests.walls.surface import CLASSES, classes, commands, paths_of, unlisted_classes
from tests.walls.ways import EMBEDDER, Door
from tests.walls.worlds import NOW, callers, world

CALLERS: Final = (2, 3)
"""Number of callers in each world, without and with `--big`; the last one also writes, after all have read."""

WORLDS: Final = {"memory": 80, **dict.fromkeys(DURABLE, 40)}
"""Number of worlds for each store with `--big`, in which over 30,000 answers are searched; one without it."""

ENOUGH: Final = 4
"""Number of worlds with which every path shows some fact."""

SHOWN_BY_NOTHING: Final = {"FactMemStore.abatch", "Lessons.recall", "FactMemBackend.als", "FactMemBackend.aglob"}
"""Paths that have nothing to show here: a store has no items, nobody taught a lesson, names of files are not facts."""


def test_every_public_path_is_listed() -> None:
    """A new path must be added to a list, with the ways to call it, or the reason that it neither reads nor writes."""
    assert unlisted_classes() == [], "add these classes to CLASSES of tests/walls/surface.py"
    unlisted = [
        f"{cls.__name__}.{name}"
        for cls in classes()
        if cls.__name__ in CLASSES
        for name in paths_of(cls)
        if name not in CLASSES[cls.__name__]
    ]
    assert unlisted == [], "add these paths to the list of their class"


def test_every_listed_path_exists() -> None:
    """Renamed and removed paths leave no stale entry in the lists."""
    found: dict[int, set[str]] = {}
    for cls in classes():
        if (listed := CLASSES.get(cls.__name__)) is not None:
            found.setdefault(id(listed), set()).update(paths_of(cls))
    alike = {name for names in found.values() for name in names}
    assert sorted({name for listed in CLASSES.values() for name in listed} - alike) == []


def test_every_command_is_listed() -> None:
    assert commands() == sorted(COMMANDS)


async def test_everything_that_a_server_offers_is_listed() -> None:
    """The lists are those that the server gives its clients."""
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
@pytest.mark.parametrize("store", IN_MIRROR)
async def test_no_path_shows_facts_behind_a_wall(
    store: str, tmp_path: Path, big: bool, promise: Callable[[str, str], None]
) -> None:
    """Search the answers of each path for the tokens of random worlds, which are in every planted text.

    Facts that a caller may see must be in the answers too, so that empty answers do not pass.
    """
    notes, count = LeakReport(), WORLDS[store] if big else 1
    async with Tables.laid() as tables:
        for seed in range(count):
            await _tried(store, tmp_path / str(seed), seed, CALLERS[big], tables, notes)
            assert notes.leaks == []
    blind = {path for path in _reading_paths(CLASSES) & notes.shown.keys() if not notes.shown[path]}
    assert blind <= SHOWN_BY_NOTHING or count < ENOUGH
    promise(
        "tenancy, private facts",
        f"{store}: {notes.answers:,} answers of every read path, "
        f"from {count * CALLERS[big]} callers in {count} worlds: 0 leaks",
    )


async def _tried(store: str, folder: Path, seed: int, number: int, tables: Tables, notes: LeakReport) -> None:
    """Make a world, and read and write it as several callers."""
    await anyio.Path(folder).mkdir()
    chance, clock = random.Random(f"{store} {seed}"), FakeClock(NOW)
    async with STORES[store](folder, clock) as provider:
        filled = await planted(world(chance), provider, clock)
        chosen = callers(chance, filled.world, number)
        for caller in chosen:
            await call_reads(filled, caller, chance, tables, notes)
        await call_writes(filled, chosen[-1], chance, tables, notes)


def _reading_paths(tables: Mapping[str, Mapping[str, Door]]) -> set[str]:
    return {f"{name}.{path}" for name, doors in tables.items() for path, door in doors.items() if _reads(door)}


def _reads(door: Door) -> bool:
    return type(door).__name__ == "Reads"
