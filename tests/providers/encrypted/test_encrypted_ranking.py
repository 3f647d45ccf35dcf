"""Recall over the encrypted store equals that over the others: the same facts, scores, parts and order."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pytest
from factmem_encrypted import EncryptedMemoryProvider
from factmem_file import LocalFileMemoryProvider
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import Memory
from factmem.details import FactDetails
from factmem.recall import RecallMatch
from factmem.testing import FakeClock, HashEmbedder
from tests.providers.encrypted.worlds import KEY, LIKES, NOON

WORDS = [
    "amber",
    "basil",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "harbor",
    "iris",
    "juniper",
    "kelp",
    "lilac",
    "maple",
    "nectar",
    "olive",
]
SCOPES = ("/agent/planner", "/product/alpha", "/product/alpha/decisions")


async def save_facts(memory: Memory, facts: int) -> None:
    chance = random.Random(21)
    for number in range(facts):
        text = f"{' '.join(chance.choices(WORDS, k=chance.randint(2, 6)))} {number}"
        when = NOON - dt.timedelta(days=chance.randint(0, 200))
        owner = chance.choice([None, None, "alice", "bob"])
        details = FactDetails(
            importance=chance.choice([0.1, 0.5, 1.0]), categories=("red", "blue")[: number % 3], owner=owner
        )
        fact = LIKES.fact([text], timestamp=when)
        await memory.view(viewer=owner).save(fact, scope=chance.choice(SCOPES), details=details)


def shown(match: RecallMatch) -> tuple[Any, ...]:
    """Return a match without the ids, which differ between stores."""
    record = match.record
    return (record.value, record.timestamp, str(record.scope), match.score, match.parts, match.reasons)


@pytest.mark.parametrize("reopened", [False, True])
async def test_the_ranking_is_the_same(tmp_path: Path, reopened: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    clock = FakeClock(NOON)
    providers = (
        lambda: EncryptedMemoryProvider(tmp_path / "encrypted", KEY, clock=clock),
        lambda: LocalFileMemoryProvider(tmp_path / "plain", clock=clock),
        lambda: SqliteVecMemoryProvider(tmp_path / "facts.db", clock=clock),
    )
    found: list[list[Any]] = []
    for make in providers:
        provider = make()
        await save_facts(Memory(provider, embedder=HashEmbedder(32), clock=clock), 60)
        if reopened:
            await provider.aclose()
            provider = make()
        chance, answers = random.Random(22), []
        for viewer in (None, "alice"):
            memory = Memory(provider, viewer=viewer, embedder=HashEmbedder(32), clock=clock)
            for lexical, semantic, scope in ((True, True, None), (True, False, None), (False, True, "/product/alpha")):
                query = " ".join(chance.choices(WORDS, k=3))
                matches = await memory.recall(query, limit=25, lexical=lexical, semantic=semantic, scope=scope)
                assert len(matches) > 5
                answers.append([shown(match) for match in matches])
        found.append(answers)
        await provider.aclose()
    assert found[0] == found[1]
    assert found[0] == found[2]
