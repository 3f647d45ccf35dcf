"""CrewAI's own memory over factmem's storage: its flows, views and tools, without a network."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("crewai", reason="crewai is installed in an environment of its own: see .ci/run")
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.unified_memory import Memory

from factmem.agent.plugin import AgentMemory
from factmem.integrations.crewai import FactMemStorage, set_default_storage
from factmem.integrations.crewai.memories import CrewMemory
from tests.integrations.hosts.crewai import Scripted

SAID: dict[str, Any] = {"categories": ["x"], "importance": 0.5}


@pytest.fixture
def crewai(memory: AgentMemory) -> Iterator[Memory]:
    """CrewAI's memory, which does not call its model if every property is given."""
    storage = FactMemStorage(memory)
    made = Memory(storage=storage, embedder=storage.embed, llm=Scripted(model="scripted"), consolidation_threshold=1.0)
    yield made
    made.close()


def recalled(crewai: Any, query: str, **options: Any) -> list[str]:
    return [match.record.content for match in crewai.recall(query, **options)]


@pytest.mark.parametrize("depth", ["shallow", "deep"])
def test_what_is_remembered_is_recalled(crewai: Memory, depth: str) -> None:
    crewai.remember("We chose Postgres for the ledger.", scope="/project", **SAID)
    crewai.remember("Lunch is at noon.", scope="/office", **SAID)
    assert recalled(crewai, "We chose Postgres for the ledger.", limit=1, depth=depth) == [
        "We chose Postgres for the ledger."
    ]
    assert recalled(crewai, "Lunch", scope="/project", depth=depth) == ["We chose Postgres for the ledger."]


def test_many_are_remembered_in_the_background(crewai: Memory) -> None:
    crewai.remember_many([f"Fact number {number}." for number in range(5)], scope="/many", **SAID)
    crewai.drain_writes()
    assert crewai.info("/many").record_count == 5
    assert crewai.list_categories() == {"x": 5}
    assert [record.scope for record in crewai.list_records(limit=2)] == ["/many", "/many"]
    assert crewai.tree() == "/ (5 records)\n  /many (5 records)"


def test_a_view_stays_in_its_scope(crewai: Memory) -> None:
    crewai.remember("In a.", scope="/project/a", **SAID)
    crewai.remember("In ab.", scope="/project/ab", **SAID)
    view = crewai.scope("/project/a")
    view.remember("In a as well.", scope="/", **SAID)
    assert sorted(recalled(view, "In", depth="shallow")) == ["In a as well.", "In a."]
    assert recalled(crewai.slice(["/project/ab"]), "In", depth="shallow") == ["In ab."]
    view.reset()
    assert recalled(crewai, "In", depth="shallow") == ["In ab."]


def test_private_memories_are_their_sources(crewai: Memory) -> None:
    crewai.remember("The offer is 5 million.", scope="/deal", source="ana", private=True, **SAID)
    assert recalled(crewai, "offer", depth="shallow") == []
    assert recalled(crewai, "offer", depth="shallow", source="ben") == []
    assert recalled(crewai, "offer", depth="shallow", source="ana") == ["The offer is 5 million."]


def test_updating_and_forgetting(crewai: Memory) -> None:
    kept = crewai.remember("We chose Postgres.", scope="/project", **SAID)
    crewai.remember("Lunch is at noon.", scope="/office", **SAID)
    assert kept is not None
    crewai.update(kept.id, content="We chose SQLite.", importance=0.9)
    assert recalled(crewai, "We chose", scope="/project", depth="shallow") == ["We chose SQLite."]
    assert crewai.forget(record_ids=[kept.id]) == 1
    assert crewai.forget(scope="/office") == 1
    assert crewai.info().record_count == 0


def test_it_is_the_storage_of_every_memory_if_that_is_wanted(memory: AgentMemory, tmp_path: Any) -> None:
    """It serves memories that name no storage, or factmem; another name keeps its meaning."""
    set_default_storage(memory)
    try:
        for spec in ({}, {"storage": "factmem"}):
            assert isinstance(Memory(**spec)._storage, FactMemStorage)
        assert isinstance(Memory(storage=str(tmp_path / "lance"))._storage, LanceDBStorage)
    finally:
        set_default_storage(None)
    assert not isinstance(Memory(storage=str(tmp_path / "factmem"))._storage, FactMemStorage)


def test_a_crews_memory_returns_a_block_or_filtered_records(memory: AgentMemory) -> None:
    """Without a filter it returns factmem's block; with one, CrewAI's records. CrewAI itself writes nothing to it."""
    crew_memory = CrewMemory.over(memory)
    storage = FactMemStorage(memory)
    writer = Memory(storage=storage, embedder=storage.embed, llm=Scripted(model="scripted"))
    writer.remember("We chose Postgres.", scope="/project", **SAID)
    (seen,) = crew_memory.recall("Was it Postgres that we chose?")
    assert seen.format().startswith("<memory>")
    assert "We chose Postgres." in seen.format()
    assert recalled(crew_memory, "Was it Postgres that we chose?", scope="/project") == ["We chose Postgres."]
    assert crew_memory.remember("Ignore me.", scope="/", **SAID) is None
    assert crew_memory.extract_memories("Task: x") == []
    assert storage.count() == 1
