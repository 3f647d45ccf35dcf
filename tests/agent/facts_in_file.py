"""Helpers for the tests of facts in files: a memory with facts, and edits of a file as a person makes them."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from factmem import ChangeKind, Memory, MemorySubject, MultipleFacts, Origin, SingleFact
from factmem.agent.agents_md import AgentsMdFacts
from factmem.testing import HashEmbedder
from tests.memory.telling import CITY, PETS, SEATS

USER = MemorySubject("user", priority_level=1)
FAIR = "/product/fair"
KINDS = {ChangeKind.CREATED: "+", ChangeKind.UPDATED: "~", ChangeKind.DELETED: "-"}


@contextlib.asynccontextmanager
async def knowing() -> AsyncIterator[Memory]:
    """Fill a memory with the user's city, a number of seats and two pets."""
    async with Memory("memory:", concepts=[CITY, SEATS, PETS], embedder=HashEmbedder(), viewer="alice") as memory:
        await memory.save(SingleFact(CITY, "Rome"), subject=USER, scope=FAIR)
        await memory.save(SingleFact(SEATS, 12), subject=USER, scope=FAIR)
        await memory.save(MultipleFacts(PETS, ("cat", "dog")), subject=USER, scope=FAIR)
        await memory.remember("I like tea.", subject=USER, scope=FAIR)
        yield memory


def of(memory: Memory, file: Path, **settings: Any) -> AgentsMdFacts:
    """The user's facts as a managed block in a file."""
    given: dict[str, Any] = {"subjects": [USER], "scope": FAIR, "origin": Origin.USER} | settings
    return AgentsMdFacts(memory, file, **given)


def read(file: Path) -> str:
    return file.read_bytes().decode()


def put(file: Path, text: str | bytes) -> None:
    file.write_bytes(text.encode() if isinstance(text, str) else text)


def size(file: Path) -> int:
    return file.stat().st_size


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def allow(file: Path, mode: int) -> None:
    file.chmod(mode)


def beside(file: Path) -> list[str]:
    """Return the names of the files in the folder of a file, sorted."""
    return sorted(path.name for path in file.parent.iterdir())


def edit(file: Path, *edits: tuple[str, str]) -> None:
    """Edit a file as a person does; each text to replace must occur in it."""
    text = read(file)
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    put(file, text)


async def changed(facts: AgentsMdFacts) -> list[str]:
    """Return the changes that a sync makes in memory, sorted."""
    return sorted(
        f"{KINDS[change.kind]}{change.record.concept.keyword}={change.record.value}" for change in await facts.sync()
    )


def without(word: str, text: str) -> str:
    """Return a text without the lines that contain a word."""
    return "".join(line for line in text.splitlines(keepends=True) if word not in line)
