"""The durable providers, and the contents of their stores."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import attrs
import pytest
from factmem_postgres import PostgresMemoryProvider

from factmem.facts import Concept
from factmem.providers.registry import open_provider, provider_entry_points
from factmem.records import LogEntry
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from tests.postgres import postgres_address

CITY: Final = Concept.single("city", "Where the person lives")
NUMBERS: Final = Concept.multiple("numbers", "Two values a save, so that half a save would show")
USER: Final = MemorySubject("user")
NOON: Final = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
PLANNER: Final = MemoryScope.agent("planner")


@attrs.frozen
class DurableStore:
    """A provider that promises to keep acknowledged saves.

    Attributes:
        name: its name in the promises.
        template: template of an address; empty for a store on a server, which has no files to look into.
        environment: environment variables needed to open a store.
        ignores_folders: whether a failed flush of a folder is ignored, as SQLite does for a new file's name.
    """

    name: str
    template: str
    environment: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)
    ignores_folders: bool = attrs.field(default=False, kw_only=True)

    def __str__(self) -> str:
        return self.name

    def address(self, path: Path) -> str:
        """Return the address of a store at a path, or on the server of the tests."""
        return self.template.format(path=path) if self.template else postgres_address(path)

    def open(self, path: Path, **options: Any) -> Any:
        """Return the provider, with all its capabilities."""
        if not options:
            return open_provider(self.address(path))
        if not self.template:
            return PostgresMemoryProvider(self.address(path), **options)
        name, _, settings = self.template.partition(":{path}")
        provider = provider_entry_points()[name].load()
        return provider(path, **dict(parse_qsl(settings.lstrip("?"))), **options)


_KEY: Final = {"FACTMEM_TEST_KEY": "5a" * 32}

STORES: Final = (
    DurableStore("sqlite-vec", "sqlite-vec:{path}", ignores_folders=True),
    DurableStore("file", "file:{path}"),
    DurableStore("encrypted", "encrypted:{path}?key_env=FACTMEM_TEST_KEY", environment=_KEY),
    DurableStore(
        "encrypted-sqlite", "encrypted-sqlite:{path}?key_env=FACTMEM_TEST_KEY", environment=_KEY, ignores_folders=True
    ),
)

durable_stores = pytest.mark.parametrize("store", STORES, ids=str)
"""Every store in files."""

EVERY_STORE: Final = (*STORES, DurableStore("postgres", ""))
"""Those, and the one on a server."""

every_store = pytest.mark.parametrize("store", EVERY_STORE, ids=str)


async def numbers_in(store: DurableStore, path: Path) -> set[int]:
    """Return the numbers in a store, after checking that each is complete, unique and has the right vectors."""
    found: list[str] = []
    async with store.open(path) as provider:
        for agent in ("0", "1"):
            fact = await provider.load(NUMBERS, USER, MemoryScope.agent(agent))
            found.extend(fact.values if fact else ())
        changes: list[LogEntry] = await provider.changes(None)
        seqs, rows = await provider.vectors(None)
    halves = [{int(value.split()[0]) for value in found if value.endswith(end)} for end in ("a", "b")]
    assert halves[0] == halves[1]
    assert len(found) == 2 * len(halves[0])
    numbered = [entry.seq for entry in changes]
    assert numbered == sorted(set(numbered))
    assert set(seqs) <= set(numbered)
    assert len(rows) == len(seqs)
    return halves[0]


async def loaded_city(store: DurableStore, path: Path) -> str | None:
    """Return the city in a store."""
    async with store.open(path) as provider:
        fact = await provider.load(CITY, USER, PLANNER)
    return fact.values[0] if fact else None
