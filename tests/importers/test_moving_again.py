"""Moving in a second time, from a source that has changed since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from factmem import MemorySubject
from tests.importers.conftest import Mover, document, lines
from tests.importers.test_memories import BANK, EDGE, NODES


def mem0(folder: Path, *rows: tuple[str, str | None], user: str = "alice") -> Path:
    """Write an answer of get_all() with memories, each with the time of its change."""
    made: dict[str, Any] = {"user_id": user, "role": "user", "created_at": "2026-03-02T09:00:00Z"}
    memories = [
        made | {"id": str(number), "memory": text, "updated_at": updated}
        for number, (text, updated) in enumerate(rows, 1)
    ]
    return document(folder / "get_all.json", {"results": memories})


def banked(text: str, when: str) -> Any:
    return {"memories": [{"name": BANK, "fact": text, "updateTime": when, "scope": {"user_id": "alice"}}]}


def item(text: str, when: str) -> Any:
    return [{"namespace": ["notes"], "key": "k", "value": {"text": text}, "created_at": when, "updated_at": when}]


def crewed(text: str, when: str) -> Any:
    return [{"id": "c", "content": text, "created_at": "2026-03-01T00:00:00"}]


def tabled(text: str, when: str) -> Any:
    return [{"id": "7", "value": text, "timestamp": when}]


SYSTEMS = {"memory-bank": banked, "langgraph": item, "crewai": crewed, "table": tabled}


@pytest.mark.parametrize("trust", [True, False])
@pytest.mark.parametrize("system", SYSTEMS)
async def test_a_changed_row_is_a_revision_of_its_record(
    mover: Mover, tmp_path: Path, system: str, trust: bool
) -> None:
    """Also once it is imported a third time, and without trust as far as it waits in quarantine."""
    for text, when in (("Porto", "2026-03-01T00:00:00Z"), ("Faro", "2026-04-01T00:00:00Z")):
        path = document(tmp_path / "memories.json", SYSTEMS[system](text, when))
        report = await mover.move(system, path, trust=trust)
        assert (report.imported, report.errors) == (1, 0), report.problems
    assert report.updated == 1
    again = await mover.move(system, path, trust=True)
    assert (again.imported, again.updated, again.known) == (0, 0, 1)
    (record,) = await mover.memory.list_records()
    assert record.value == "Faro"
    if trust:
        assert [one.value for one in await mover.memory.history(record.id)] == ["Porto", "Faro"]


async def test_rows_beside_a_changed_one_are_known(mover: Mover, tmp_path: Path) -> None:
    await mover.move("mem0", mem0(tmp_path, ("Porto", None), ("Tea", None)))
    report = await mover.move("mem0", mem0(tmp_path, ("Faro", "2026-05-02T09:00:00Z"), ("Tea", None), ("Chess", None)))
    assert (report.imported, report.known, report.updated) == (2, 1, 1)
    assert {*await mover.facts()} == {"Faro", "Tea", "Chess"}


async def test_a_fact_that_ended_there_is_retracted(mover: Mover, tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    await mover.move("graphiti", lines(path, [EDGE, *NODES]), trust=True)
    ended = EDGE | {"expired_at": "2026-06-01T00:00:00Z"}
    report = await mover.move("graphiti", lines(path, [ended, *NODES]), trust=True)
    assert (report.imported, report.retracted, await mover.facts()) == (0, 1, {})
    again = await mover.move("graphiti", lines(path, [ended, *NODES]), trust=True)
    assert (again.imported, again.retracted) == (0, 0)


async def test_a_file_that_nobody_trusts_ends_no_fact_that_is_believed(mover: Mover, tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    await mover.move("graphiti", lines(path, [EDGE, *NODES]), trust=True)
    ended = lines(path, [EDGE | {"expired_at": "2026-06-01T00:00:00Z"}, *NODES])
    report = await mover.move("graphiti", ended)
    assert (report.retracted, sum(report.skipped.values()), len(await mover.facts())) == (0, 1, 1)
    assert (await mover.move("graphiti", ended, trust=True)).retracted == 1


async def test_what_waits_may_end_without_trust(mover: Mover, tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    await mover.move("graphiti", lines(path, [EDGE, *NODES]))
    assert await mover.waiting() == {EDGE["fact"]}
    ended = lines(path, [EDGE | {"expired_at": "2026-06-01T00:00:00Z"}, *NODES])
    assert (await mover.move("graphiti", ended)).retracted == 1
    assert await mover.waiting() == set()


async def test_a_fact_of_another_place_leaves_the_old_one(mover: Mover, tmp_path: Path) -> None:
    """Edges imported without their nodes become facts about the right person once the nodes are there."""
    path = tmp_path / "graph.jsonl"
    await mover.move("graphiti", lines(path, [EDGE]), trust=True)
    report = await mover.move("graphiti", lines(path, [EDGE, *NODES]), trust=True)
    assert (report.imported, report.updated) == (1, 1)
    assert {*(await mover.facts()).values()} == {"person:Alice in /customer/acme"}
    ended = EDGE | {"expired_at": "2026-06-01T00:00:00Z"}
    await mover.move("graphiti", lines(path, [ended, *NODES]), trust=True)
    assert await mover.facts() == {}


@pytest.mark.parametrize("change", ["update", "retract"])
async def test_what_was_changed_here_stays(mover: Mover, tmp_path: Path, change: str) -> None:
    await mover.move("mem0", mem0(tmp_path, ("Lives in Porto", None)))
    (record,) = await mover.memory.list_records()
    if change == "update":
        await mover.memory.update(record.id, value="Lives in Braga")
    else:
        await mover.memory.retract(record.id)
    before = {*await mover.facts()}
    report = await mover.move("mem0", mem0(tmp_path, ("Lives in Faro", "2026-05-02T09:00:00Z")))
    assert (report.imported, report.updated) == (0, 0)
    assert report.skipped == {"their records were changed here after an earlier import": 1}
    assert {*await mover.facts()} == before


async def test_private_rows_follow_their_own_records(mover: Mover, tmp_path: Path) -> None:
    await mover.move("mem0", mem0(tmp_path, ("Lives in Porto", None)), private=True)
    changed = mem0(tmp_path, ("Lives in Faro", "2026-05-02T09:00:00Z"))
    assert (await mover.move("mem0", changed, private=True)).updated == 1
    (mine,) = await mover.memory.view(viewer="alice").list_records()
    assert (mine.value, mine.private) == ("Lives in Faro", True)


async def test_ids_of_a_table_are_those_of_its_file(mover: Mover, tmp_path: Path) -> None:
    """Row 1 of the rooms does not change row 1 of the guests."""
    row = {"id": "1", "timestamp": "2026-05-01", "origin": "user"}
    await mover.move("table", lines(tmp_path / "guests.jsonl", [row | {"value": "Eva"}]))
    report = await mover.move("table", lines(tmp_path / "rooms.jsonl", [row | {"value": "The barn"}]))
    assert (report.imported, report.updated) == (1, 0)
    assert {*await mover.facts()} == {"Eva", "The barn"}


async def test_a_subject_that_has_changed_there_is_changed_here(mover: Mover, tmp_path: Path) -> None:
    await mover.move("mem0", mem0(tmp_path, ("Likes tea", None)))
    await mover.move("mem0", mem0(tmp_path, ("Likes tea", None), user="bob"))
    (record,) = await mover.memory.list_records()
    assert record.subject == MemorySubject("user").individual("bob")
