"""Moving in twice, moving in much, and moving in where the memory says no."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import Concept, Memory, MemoryScope, MemorySubject, NoMemory, SingleFact
from factmem.details import Origin
from factmem.errors import CapabilityError, FactMemError, FileFormatError
from factmem.importers import ImportOptions, move_in, moving, read_system
from factmem.importers.contract import Entry, Found
from factmem.importers.moving import preview
from factmem.importers.rows import Fields, Row
from factmem.importers.systems import SYSTEMS
from factmem.testing import HashEmbedder
from tests.importers.conftest import DATED, FIXTURES, NOW, Mover, lines, rows

Fixture = Callable[[str], Path]


@pytest.fixture
def sources(fixture: Fixture) -> dict[str, Path]:
    """A source of every system."""
    return {
        "mem0": fixture("mem0"),
        "crewai": fixture("crewai") / "memories.jsonl",
        "graphiti": fixture("graphiti"),
        "letta": fixture("letta") / "sam.af",
        "langgraph": fixture("langgraph") / "store.db",
        "koog": fixture("koog"),
        "memory-bank": fixture("memory_bank"),
        "mcp-memory": fixture("mcp_memory") / "memory.jsonl",
        "memory-folder": fixture("memory_folder"),
        "chatgpt": fixture("chatgpt"),
        "claude": fixture("claude"),
        "langchain": fixture("langchain") / "history.json",
        "openai-agents": fixture("openai_agents") / "sessions.db",
        "pydantic-ai": fixture("pydantic_ai") / "messages.json",
        "table": FIXTURES / "table.csv",
    }


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("trust", [False, True])
async def test_twice_adds_nothing(mover: Mover, sources: dict[str, Path], system: str, trust: bool) -> None:
    first = await mover.move(system, sources[system], trust=trust)
    assert first.imported > 0
    assert (first.errors, first.known) == (0, 0), first.problems
    before = await mover.everything()
    second = await mover.move(system, sources[system], trust=trust)
    assert (second.imported, second.known, second.accepted) == (0, first.imported, 0)
    assert second.quarantined == first.quarantined
    assert await mover.everything() == before


@pytest.mark.parametrize("system", SYSTEMS)
async def test_without_trust_only_what_somebody_said_is_believed(
    mover: Mover, sources: dict[str, Path], system: str
) -> None:
    report = await mover.move(system, sources[system])
    origins = {record.details.origin for record in await mover.memory.list_records()}
    assert origins <= {Origin.USER, Origin.ASSISTANT}
    assert len(await mover.waiting()) <= report.quarantined
    assert {record.details.source for record in await mover.memory.list_records()} <= {system, "wiki"}


@pytest.mark.parametrize("system", SYSTEMS)
async def test_a_preview_finds_as_much_and_writes_nothing(mover: Mover, sources: dict[str, Path], system: str) -> None:
    reading = read_system(system, sources[system], ImportOptions(now=NOW))
    shares: list[float] = []
    found = await preview(reading, progress=shares.append)
    moved = await move_in(mover.memory, reading, trust=True)
    assert (found.errors, found.lost, found.conversations) == (moved.errors, found.lost, moved.conversations)
    assert found.imported + found.conversations > 0
    assert all(0 <= share <= 1 for share in shares)
    assert isinstance(found.to_json()["problems"], list)


async def test_a_row_that_the_memory_refuses_costs_no_other_one(mover: Mover, tmp_path: Path) -> None:
    """One of a thousand has another type than the place."""
    await mover.memory.save(SingleFact(Concept.single("seats 500", "", int), 5))
    rows = [
        {"value": "x", "keyword": f"seats {number}", "timestamp": "2026-05-01", "origin": "user"}
        for number in range(1000)
    ]
    report = await mover.move("table", lines(tmp_path / "rows.jsonl", rows))
    assert (report.imported, report.errors) == (999, 1)
    assert report.problems[0].where == "line 501"
    assert type(report.problems[0].error).__name__ == "ConceptConflictError"


@pytest.mark.parametrize("owners", [["bob", "alice"], ["alice", "bob"]])
@pytest.mark.parametrize("value", ["32", "old"])
async def test_the_type_of_a_private_place_binds_its_rows_in_any_order(
    mover: Mover, tmp_path: Path, owners: list[str], value: str
) -> None:
    age = Concept.single("age", "", int)
    await mover.memory.view(viewer="alice").save(SingleFact(age, 31, timestamp=DATED.replace(month=4)), private=True)
    rows = [
        {"value": value, "keyword": "age", "owner": owner, "timestamp": "2026-05-01", "origin": "user"}
        for owner in owners
    ]
    report = await mover.move("table", lines(tmp_path / "rows.jsonl", rows), trust=True)
    assert [problem.where for problem in report.problems] == (
        [] if value == "32" else [f"line {owners.index('alice') + 1}"]
    )
    (alice,) = await mover.memory.view(viewer="alice").list_records()
    (bob,) = await mover.memory.view(viewer="bob").list_records()
    assert (alice.value, bob.value) == (32 if value == "32" else 31, value)


async def test_a_retracted_fact_binds_the_type_of_its_place_alone(mover: Mover, tmp_path: Path) -> None:
    (record,) = await mover.memory.save(SingleFact(Concept.single("age", "", int), 31), subject="sam")
    await mover.memory.retract(record.id)
    rows = [
        {"value": value, "keyword": keyword, "subject": subject, "timestamp": "2026-05-01", "origin": "user"}
        for subject, keyword, value in [
            ("sam", "age", "old"),
            ("sam", "Age", "old"),
            ("sam", "age", "32"),
            ("kim", "age", "old"),
            ("lee", "age", "33"),
        ]
    ]
    report = await mover.move("table", lines(tmp_path / "rows.jsonl", rows), trust=True)
    assert [problem.where for problem in report.problems] == ["line 1", "line 2"]
    assert {record.value for record in await mover.memory.list_records()} == {32, "old", 33}


async def test_only_the_first_hundred_problems_are_kept(mover: Mover, tmp_path: Path) -> None:
    report = await mover.move("table", lines(tmp_path / "rows.jsonl", [{"value": "x", "scope": "//"}] * 150))
    assert (report.errors, len(report.problems)) == (150, 100)


async def test_two_rows_of_one_id_are_both_kept(mover: Mover, tmp_path: Path) -> None:
    row = {"id": "1", "timestamp": "2026-05-01", "origin": "user"}
    report = await mover.move("table", lines(tmp_path / "rows.jsonl", [row | {"value": "a"}, row | {"value": "b"}]))
    assert report.imported == 2
    assert set(await mover.facts()) == {"a", "b"}


def revisions(records: int, each: int) -> Iterator[Found]:
    """Return records with revisions that follow each other."""
    fields, options = Fields({"value": "text", "said": "at"}, Origin.USER), ImportOptions(now=NOW)
    for record in range(records):
        for number in range(each):
            at = DATED.replace(second=number % 60, microsecond=number)
            row = Row(f"{record}/{number}", {"text": f"Text {number} of {record}.", "at": at})
            yield from fields.found(row, options, key=f"{record}@{number}", record=str(record), revises=number > 0)


async def test_a_history_is_never_parted_by_a_batch(mover: Mover) -> None:
    report = await move_in(mover.memory, revisions(101, 7))
    assert report.imported == 707
    records = await mover.memory.list_records()
    assert len(records) == 101
    assert len(await mover.memory.history(records[50].id)) == 7
    assert (await move_in(mover.memory, revisions(101, 7))).known == 707


async def test_a_history_without_end_is_refused(mover: Mover, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "_LONGEST_HISTORY", 1_000)
    report = await move_in(mover.memory, revisions(1, 2_000))
    assert (report.imported, report.errors) == (1_000, 1)
    assert "revisions" in str(report.problems[0].error)


async def test_what_stands_before_the_damage_is_kept(mover: Mover, tmp_path: Path) -> None:
    """The report names the damage; a source that is damaged at its beginning is refused."""
    path = tmp_path / "memories.json"
    rows = [{"id": str(number), "memory": f"Guest {number}", "created_at": 1777593600} for number in range(700)]
    path.write_text(json.dumps(rows)[:-500], "utf-8")
    report = await mover.move("mem0", path)
    assert (report.errors, report.problems[0].where) == (1, "the rest of it")
    assert 680 < report.imported < 700
    path.write_text("[{torn", "utf-8")
    with pytest.raises(FileFormatError):
        await mover.move("mem0", path)


async def test_a_store_without_history_says_so() -> None:
    async with Memory(NoMemory(), embedder=HashEmbedder()) as memory:
        with pytest.raises(CapabilityError):
            await move_in(memory, revisions(1, 1))


async def test_everything_lies_where_the_options_say(mover: Mover, sources: dict[str, Path]) -> None:
    options: dict[str, Any] = {"subject": MemorySubject("team"), "scope": MemoryScope.product("alpha"), "source": "old"}
    await mover.move("mcp-memory", sources["mcp-memory"], **options)
    await mover.move("openai-agents", sources["openai-agents"], **options)
    records = {record.value: record for record in await mover.memory.list_records()}
    assert str(records["likes tea"].subject) == "person:Jörg"
    assert str(records["I recommend the fish."].subject) == "team"
    assert {str(record.scope) for record in records.values()} == {"/product/alpha"}
    assert {record.details.source for record in records.values()} == {"old"}


LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 1e999, "", "x", "2026-05-01", [], {}, [None], {"x": None}, [[]], "\ud800"]
)


@given(data=st.data())
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_damaged_row_is_a_typed_error(
    system: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any field of a sound source may be of any kind."""
    value = data.draw(st.sampled_from(SOUND.get(system, [{"value": "x", "timestamp": "2026-05-01"}])))
    damaged = json.loads(json.dumps(value))
    at, key = data.draw(st.sampled_from([*_places(damaged)]))
    at[key] = data.draw(LEAVES)
    folder = tmp_path_factory.mktemp("damaged") / "agent" / "a" / "subject"
    folder.mkdir(parents=True)
    path = folder / ("conversations.json" if system in ("chatgpt", "claude") else "memories.json")
    path.write_text(json.dumps(damaged), "utf-8")
    try:
        for item in read_system(system, folder.parents[2] if system == "koog" else path, ImportOptions(now=NOW)):
            if isinstance(item, Entry):
                assert item.recorded.assertion.fingerprint
    except FactMemError:
        pass


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, item in list(items):
        yield value, key
        yield from _places(item)


SOUND: dict[str, list[Any]] = {
    "mem0": [rows("mem0/get_all.json")],
    "crewai": [rows("crewai/memories.jsonl")],
    "graphiti": [{part: rows(f"graphiti/{part}.jsonl") for part in ("edges", "nodes", "episodes")}],
    "letta": [rows("letta/sam.af")],
    "langgraph": [rows("langgraph/items.json")],
    "koog": [rows("koog/agent/a/subject/user")],
    "memory-bank": [rows("memory_bank/memories.json")],
    "mcp-memory": rows("mcp_memory/memory.jsonl")[:1],
    "chatgpt": [rows("chatgpt/conversations.json")],
    "claude": [rows("claude/conversations.json")],
    "langchain": [rows("langchain/history.json")],
    "pydantic-ai": [rows("pydantic_ai/messages.json")],
}
"""Sound sources, to be damaged."""


_MUCH = """
import sys
import anyio
from factmem import Memory
from factmem.importers import move_in, read_system

async def main():
    async with Memory(f"sqlite-vec:{sys.argv[2]}") as memory:
        report = await move_in(memory, read_system("mem0", sys.argv[1]))
    status = open("/proc/self/status").read()  # the figure of getrusage is that of the parent as well
    print(report.imported, report.quarantined, int(status.partition("VmHWM:")[2].split()[0]) // 1024)

anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_much_is_imported_in_little_memory(tmp_path: Path, big: bool) -> None:
    """One JSON object of mem0, with the default embedder, which takes 110 MB by itself."""
    number = 100_000 if big else 4_000
    with (tmp_path / "get_all.json").open("w", encoding="utf-8") as file:
        file.write('{"results": [')
        for row in range(number):
            memory = f"The guest {row} likes tea, plays chess on Sundays and comes back in May with {row % 7} friends."
            about = {"user_id": f"guest {row % 50}", "created_at": f"2026-05-{row % 27 + 1:02}T10:00:00Z"}
            data = {"id": str(row), "memory": memory, "metadata": {"tier": "gold"}, "role": "user" if row % 2 else None}
            file.write(("," if row else "") + json.dumps(data | about))
        file.write("]}")
    command = [sys.executable, "-c", _MUCH, str(tmp_path / "get_all.json"), str(tmp_path / "facts.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
    imported, quarantined, megabytes = map(int, done.stdout.split())
    assert (imported, quarantined) == (number, number // 2)
    assert megabytes <= (200 if big else 170), megabytes
