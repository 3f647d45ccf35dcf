"""Moving in: fixtures of other systems, into a memory that is new."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest

from factmem import InMemoryProvider, Memory
from factmem.importers import ImportOptions, move_in, read_system
from factmem.importers.contract import Found
from factmem.importers.moving import ImportReport
from factmem.importers.sources import Limits
from factmem.testing import HashEmbedder

FIXTURES = Path(__file__).parent / "fixtures"
NOW = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
DATED = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)


@attrs.frozen
class Mover:
    """Moves into a memory."""

    memory: Memory

    async def move(self, system: str, path: Path, *, trust: bool = False, **options: Any) -> ImportReport:
        """Move in from a source."""
        return await move_in(self.memory, read_system(system, path, ImportOptions(now=NOW, **options)), trust=trust)

    async def facts(self) -> dict[str, str]:
        """Return what is believed: where it lies, by its value."""
        records = await self.memory.list_records()
        return {str(record.value): f"{record.subject} in {record.scope}" for record in records}

    async def waiting(self) -> set[str]:
        """Return what waits in quarantine."""
        return {str(record.value) for record in await self.memory.inbox.quarantine.list()}

    async def everything(self) -> tuple[set[tuple[str, str]], int]:
        """Return every record with its place, believed or not, and the number of assertions in the store."""
        records = [*await self.memory.list_records(), *await self.memory.inbox.quarantine.list()]
        return {(str(record.value), str(record.scope)) for record in records}, len((await self._log()).splitlines())

    async def _log(self) -> str:
        file = io.StringIO()
        await self.memory.admin.export(file)
        return file.getvalue()


@pytest.fixture
async def mover() -> AsyncIterator[Mover]:
    """A new memory in this process."""
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        yield Mover(memory)


@pytest.fixture
def fixture(tmp_path: Path) -> Callable[[str], Path]:
    """Return the folder of a system's fixture, with its databases made of their SQL."""

    def folder(system: str) -> Path:
        made = tmp_path / system
        shutil.copytree(FIXTURES / system, made)
        for script in made.glob("*.sql"):
            with contextlib.closing(sqlite3.connect(script.with_suffix(".db"))) as database:
                database.executescript(script.read_text("utf-8"))
            script.unlink()
        return made

    return folder


def found_in(system: str, path: Path, *, limits: Limits | None = None, **options: Any) -> list[Found]:
    """Return what an importer finds."""
    return list(read_system(system, path, ImportOptions(now=NOW, **options), limits=limits))


def rows(name: str) -> Any:
    """Return what a fixture holds: a JSON document, or a list of the documents in JSON Lines."""
    text = (FIXTURES / name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else json.loads(text)


def lines(path: Path, rows: Iterable[Any]) -> Path:
    """Write JSON Lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def document(path: Path, value: Any) -> Path:
    """Write JSON."""
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    return path
