"""Memories of other systems become facts, with the dates, places, owners and history that they had."""

# pyright: reportMissingImports=false

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from factmem import MemoryScope, MemorySubject, Origin
from factmem.errors import FileFormatError, KeyUnavailableError, MissingPackageError, WrongKeyError
from factmem.importers.contract import Entry, Lost, Problem, Skipped
from factmem.importers.koog import write_koog
from tests.importers.conftest import DATED, FIXTURES, Mover, document, found_in, lines, rows

Fixture = Callable[[str], Path]


# -- mem0, by mem0 itself -------------------------------------------------------------------------------------------


async def test_mem0_with_its_history(mover: Mover, fixture: Fixture) -> None:
    """Earlier texts stay as revisions; what was deleted is left out, and the report says so."""
    report = await mover.move("mem0", fixture("mem0"))
    assert await mover.facts() == {
        "I am allergic to peanuts.": "user:alice in /cross-product",
        "I live in Braga.": "user:alice in /cross-product",
        "I recommend the fish.": "user:alice in /agent/waiter",
        "Ich heiße Jörg 🎉": "user:jörg in /cross-product",
    }
    assert (report.imported, report.quarantined, report.errors) == (6, 0, 0)
    assert [*report.skipped.values()] == [1]
    records = {record.value: record for record in await mover.memory.list_records()}
    home = records["I live in Braga."]
    history = await mover.memory.history(home.id)
    assert [record.value for record in history] == ["I live in Lisbon.", "I live in Porto.", "I live in Braga."]
    assert history[0].timestamp < history[1].timestamp < history[2].timestamp
    allergy = records["I am allergic to peanuts."]
    (evidence,) = allergy.evidence
    assert (evidence.quote, evidence.role, evidence.conversation_id) == (allergy.value, "user", "lunch")
    assert allergy.details.metadata.items() >= {"tier": "gold"}.items()
    assert allergy.details.source == "mem0"
    assert records["I recommend the fish."].details.origin is Origin.ASSISTANT


async def test_mem0_without_its_history_and_without_its_answer(mover: Mover, fixture: Fixture) -> None:
    folder = fixture("mem0")
    report = await mover.move("mem0", folder / "get_all.json")
    assert report.imported == 4
    assert any("earlier texts" in what for what in report.lost)
    found = found_in("mem0", folder / "history.db", with_deleted=True)
    texts = [item.recorded.assertion for item in found if isinstance(item, Entry)]
    assert [said.data for said in texts if said.state.value == "retracted"] == ["The secret was told."]
    assert len(texts) == 7


async def test_mem0_with_words_of_nobody_knows_whom(mover: Mover, tmp_path: Path) -> None:
    row = {"id": "1", "memory": "Likes tea", "user_id": "alice", "created_at": "2026-05-01T10:00:00", "run_id": "r"}
    path = document(
        tmp_path / "get_all.json", {"results": [row, {"id": "2", "memory": " "}, {"id": "3", "memory": "x"}]}
    )
    report = await mover.move("mem0", path)
    assert (report.imported, report.quarantined, report.errors) == (1, 1, 1)
    assert report.problems[0].where == "$.results[2]"
    assert await mover.waiting() == {"Likes tea"}
    again = await mover.move("mem0", path, trust=True)
    assert (again.imported, again.known, again.accepted, again.quarantined) == (0, 1, 1, 0)
    assert await mover.facts() == {"Likes tea": "user:alice in /cross-product"}


async def test_secrets_in_statements_are_redacted(mover: Mover, tmp_path: Path) -> None:
    row = {"id": "1", "memory": "My key is AKIAIOSFODNN7EXAMPLE", "user_id": "bob", "role": "user"}
    path = document(tmp_path / "mem0.json", {"results": [row | {"created_at": "2026-03-02T09:01:00Z"}]})
    await mover.move("mem0", path)
    (record,) = await mover.memory.list_records()
    assert record.value == "My key is [redacted: aws key]"
    assert not any("AKIA" in item.quote for item in record.evidence)


async def test_private_facts_belong_to_the_individual_that_they_are_about(mover: Mover, fixture: Fixture) -> None:
    await mover.move("mem0", fixture("mem0"), private=True)
    assert await mover.facts() == {}
    assert len(await mover.memory.view(viewer="alice").list_records()) == 3
    assert len(await mover.memory.view(viewer="jörg").list_records()) == 1


def test_mem0s_pickles_are_named_and_never_read(tmp_path: Path) -> None:
    (tmp_path / "collection").mkdir()
    with pytest.raises(FileFormatError, match="pickles, which are not read"):
        found_in("mem0", tmp_path)


def test_what_an_answer_holds_beside_its_memories_is_counted(tmp_path: Path) -> None:
    """A graph's relations, and the pages that are not there; an answer of nothing is a problem, too."""
    memory = {"id": "1", "memory": "Likes tea", "user_id": "ada", "created_at": "2026-03-02T09:00:00Z"}
    answer = {"count": 300, "next": "https://api/?page=2", "relations": [{"source": "ada"}] * 3, "results": [memory]}
    entry, *rest = found_in("mem0", document(tmp_path / "all.json", answer))
    assert isinstance(entry, Entry)
    page, relations = rest
    assert isinstance(page, Problem)
    assert "page" in str(page.error)
    assert relations == Skipped("they stand under relations, which is not read", 3)
    missing, *_ = found_in("mem0", document(tmp_path / "all.json", {"total": 2, "results": [memory]}))[1:]
    assert isinstance(missing, Problem)
    whole = {"count": 1, "next": None, "nextPageToken": "", "relations": [], "results": [memory]}
    assert len(found_in("mem0", document(tmp_path / "all.json", whole))) == 1


@pytest.mark.parametrize(("system", "answer"), [("mem0", {"results": []}), ("chatgpt", []), ("letta", {"agents": []})])
def test_a_file_that_holds_nothing_is_a_problem(tmp_path: Path, system: str, answer: Any) -> None:
    (problem,) = found_in(system, document(tmp_path / "conversations.json", answer))
    assert isinstance(problem, Problem)
    assert system in str(problem.error)


def test_lettas_blocks_that_no_agent_lists_are_counted(tmp_path: Path) -> None:
    agent = {"name": "sam", "block_ids": ["b"]}
    blocks = [{"id": "b", "label": "x", "value": "y"}, {"id": "c", "label": "z", "value": "w"}]
    found = found_in("letta", document(tmp_path / "a.af", {"agents": [agent], "blocks": blocks}))
    assert Skipped("they are blocks that no agent lists") in found


def test_an_agent_of_letta_whose_list_of_blocks_is_damaged_is_a_problem_of_its_own(tmp_path: Path) -> None:
    agents = [
        {"name": "sam", "block_ids": True},
        {"name": "kim", "core_memory": [{"label": "x", "value": "Likes tea."}]},
    ]
    found = found_in("letta", document(tmp_path / "a.af", {"agents": agents}))
    assert sum(isinstance(item, Problem) for item in found) == 1
    assert [item for item in found if isinstance(item, Entry)]


# -- CrewAI, by CrewAI itself ---------------------------------------------------------------------------------------


async def test_crewai(mover: Mover, fixture: Fixture) -> None:
    report = await mover.move("crewai", fixture("crewai") / "memories.jsonl", trust=True)
    assert report.imported == 3
    assert await mover.facts() == {
        "The barn seats 120.": "everything in /product/alpha",
        "Invoices go out on Fridays.": "everything in /cross-product",
    }
    (mine,) = [record for record in await mover.memory.view(viewer="jörg").list_records() if record.private]
    assert (mine.value, str(mine.scope)) == ("Ich heiße Jörg 🎉", "/customer/acme")
    records = {record.value: record for record in await mover.memory.list_records()}
    assert records["The barn seats 120."].importance == 0.8
    assert records["The barn seats 120."].details.categories == ("venue",)
    assert records["Invoices go out on Fridays."].details.metadata.items() >= {"team": "office"}.items()
    assert records["Invoices go out on Fridays."].details.source == "wiki"


def test_crewais_private_record_without_a_source_needs_an_owner(tmp_path: Path) -> None:
    row = {"id": "1", "content": "Secret", "private": True, "created_at": "2026-05-01T00:00:00"}
    path = lines(tmp_path / "memories.jsonl", [row])
    (problem,) = found_in("crewai", path)
    assert isinstance(problem, Problem)
    (entry,) = found_in("crewai", path, owner="ada")
    assert isinstance(entry, Entry)
    assert entry.recorded.assertion.details.owner == "ada"


def test_crewais_table_needs_its_package_or_is_read(tmp_path: Path) -> None:
    """With lancedb, the table that CrewAI itself would write is read in batches and without its vectors."""
    try:
        import lancedb
    except ModuleNotFoundError:
        with pytest.raises(MissingPackageError, match="import-crewai"):
            found_in("crewai", tmp_path)
        return
    row = {
        "id": "1",
        "content": "The barn seats 120.",
        "scope": "/product/alpha",
        "categories_str": '["venue"]',
        "metadata_str": '{"tier": 1}',
        "importance": 0.8,
        "created_at": "2026-05-01T00:00:00",
        "last_accessed": "2026-05-02T00:00:00",
        "source": "",
        "private": False,
        "vector": [0.1] * 8,
    }
    lancedb.connect(str(tmp_path)).create_table("memories", [row | {"id": str(number)} for number in range(1200)])
    found = found_in("crewai", tmp_path)
    entries = [item.recorded.assertion for item in found if isinstance(item, Entry)]
    assert (len(entries), entries[0].details.categories, entries[0].details.metadata) == (1200, ("venue",), {"tier": 1})


# -- LangGraph, by LangGraph itself ---------------------------------------------------------------------------------


async def test_langgraphs_table_and_its_items_are_the_same(mover: Mover, fixture: Fixture) -> None:
    """A template says what the segments of a namespace mean; without one, they are a scope."""
    folder = fixture("langgraph")
    report = await mover.move("langgraph", folder / "store.db", namespace="memories,{user}", trust=True)
    assert (report.imported, report.errors, report.skipped) == (2, 1, {"they had expired there": 1})
    assert await mover.facts() == {
        "Alice is allergic to peanuts.": "user:alice in /cross-product",
        "Alice lives in Porto.": "user:alice in /cross-product",
    }
    assert report.problems[0].where == "row 4 of store"
    items = [item for item in found_in("langgraph", folder / "items.json") if isinstance(item, Entry)]
    assert {str(item.recorded.assertion.place.scope) for item in items} == {
        "/memories/alice",
        "/memories/jörg",
        "/settings",
    }
    theme = items[-1].recorded.assertion
    assert (theme.keyword, theme.data, theme.fact_type.name) == ("theme", {"dark": True, "size": 12}, "SINGLE")


def test_a_name_with_a_dot_can_be_told_by_a_template_with_one_name(tmp_path: Path) -> None:
    dump = (
        "--\n-- PostgreSQL database dump\n--\n"
        "COPY public.store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes) FROM stdin;\n"
        'memories.alice@example.com\tk\t{"content": "Tabs\\\\tand lines\\\\n"}\t'
        "2026-05-01 10:00:00+00\t2026-05-01 10:00:00+00\t\\N\t\\N\n"
        "torn\trow\n\\.\nSELECT 1;\n"
    )
    path = tmp_path / "store.sql"
    path.write_text(dump)
    entry, torn = found_in("langgraph", path, namespace="memories,{user}")
    assert isinstance(entry, Entry)
    assert str(entry.recorded.assertion.place.subject) == "user:alice@example.com"
    assert entry.recorded.assertion.data == "Tabs\tand lines\n"
    assert isinstance(torn, Problem)
    apart, _ = found_in("langgraph", path)
    assert isinstance(apart, Entry)
    assert str(apart.recorded.assertion.place.scope) == "/memories/alice@example/com"
    ambiguous, _ = found_in("langgraph", path, namespace="memories,{user},{kind}")
    assert isinstance(ambiguous, Entry)


# -- Graphiti, from its sources -------------------------------------------------------------------------------------

(EDGE,), NODES, (EPISODE,) = (rows(f"graphiti/{part}.jsonl") for part in ("edges", "nodes", "episodes"))


async def test_graphiti(mover: Mover, fixture: Fixture) -> None:
    """Valid times, the words in an episode and the end of a fact come along; what the graph alone can say is lost."""
    ended = EDGE | {"uuid": "e2", "fact": "Alice lives in Porto", "expired_at": "2026-05-01T10:00:00Z", "episodes": []}
    folder = fixture("graphiti")
    lines(folder / "edges.jsonl", [EDGE, ended])
    report = await mover.move("graphiti", folder, trust=True)
    assert (report.imported, report.errors) == (2, 0)
    (record,) = await mover.memory.list_records()
    assert (record.value, str(record.subject), str(record.scope)) == (EDGE["fact"], "person:Alice", "/customer/acme")
    assert (record.concept.keyword, record.timestamp) == ("lives_in", dt.datetime(2026, 5, 1, 10, tzinfo=dt.UTC))
    assert record.fact.valid_from == dt.datetime(2026, 4, 1, tzinfo=dt.UTC)
    assert record.details.metadata == {"sure": True, "target": "Lisbon", "source_id": "graphiti/e1"}
    (evidence,) = record.evidence
    assert (evidence.quote, evidence.message_id, evidence.start) == (EDGE["fact"], "p1", 4)
    assert set(report.lost) == {
        "episodes as such (the words of a fact that stand in one are its evidence)",
        "summaries of nodes",
    }


def test_graphitis_one_file_reads_like_its_folder(tmp_path: Path) -> None:
    path = document(tmp_path / "graph.json", {"edges": [EDGE], "nodes": NODES, "episodes": [EPISODE]})
    entry = found_in("graphiti", path)[0]
    assert isinstance(entry, Entry)
    assert str(entry.recorded.assertion.place.subject) == "person:Alice"
    assert entry.recorded.assertion.details.evidence


async def test_graphitis_edge_whose_node_is_unknown_is_about_nobody_else(mover: Mover, tmp_path: Path) -> None:
    """It names a subject: it is neither about everything nor about the subject of rows that name none."""
    path = lines(tmp_path / "graph.jsonl", [EDGE])
    report = await mover.move("graphiti", path, trust=True, subject=MemorySubject("user").individual("bob"))
    (record,) = await mover.memory.list_records()
    assert str(record.subject) == "entity:n1"
    assert any("nodes.jsonl" in what for what in report.lost)


@pytest.mark.parametrize("named", ["edges.jsonl", "nodes.jsonl", "."])
def test_graphitis_files_are_read_together(fixture: Fixture, named: str) -> None:
    (entry,) = [item for item in found_in("graphiti", fixture("graphiti") / named) if isinstance(item, Entry)]
    assert str(entry.recorded.assertion.place.subject) == "person:Alice"
    assert entry.recorded.assertion.details.evidence


# -- Letta, from its sources ----------------------------------------------------------------------------------------


async def test_letta(mover: Mover, fixture: Fixture, tmp_path: Path) -> None:
    """Blocks are the agent's words; messages are a conversation, without its thoughts and its events."""
    report = await mover.move("letta", fixture("letta") / "sam.af", dated=DATED)
    assert (report.conversations, report.errors) == (1, 0)
    assert await mover.facts() == {
        "Name: Jörg": "user in /agent/sam",
        "Likes tea": "user in /agent/sam",
        "I am Sam.": "agent:sam in /agent/sam",
        "I am Jörg.": "everything in /agent/sam",
        "Hello Jörg!": "everything in /agent/sam",
    }
    assert report.lost["tools"] == 2
    assert any("archival" in what for what in report.lost)
    with pytest.raises(FileFormatError):
        found_in("letta", document(tmp_path / "no.af", {"name": "x"}))


# -- Koog, from its sources, and back -------------------------------------------------------------------------------


KOOG = rows("koog/agent/a/subject/user")
KEY = base64.b64encode(bytes(range(32))).decode()


def koog_sealed(text: str) -> str:
    return base64.b64encode(bytes(12) + AESGCM(bytes(range(32))).encrypt(bytes(12), text.encode(), None)).decode()


@pytest.mark.parametrize("encrypted", [False, True])
async def test_koog(mover: Mover, tmp_path: Path, encrypted: bool) -> None:
    """Of a SINGLE concept the newest fact counts; Koog itself loads the oldest one."""
    text = json.dumps(KOOG)
    for place in ("memory/product/alpha/subject/user", "organization/subject/user:jörg"):
        path = tmp_path / place
        path.parent.mkdir(parents=True)
        path.write_text(koog_sealed(text) if encrypted else text, "utf-8")
    report = await mover.move("koog", tmp_path, trust=True, key=KEY if encrypted else None)
    assert (report.imported, report.errors) == (8, 0)
    seats = [record for record in await mover.memory.list_records() if record.concept.keyword == "seats"]
    assert {(record.value, str(record.subject), str(record.scope)) for record in seats} == {
        ("7", "user", "/product/alpha"),
        ("7", "user:jörg", "/cross-product"),
    }
    assert seats[0].timestamp == dt.datetime.fromtimestamp(1_700_000_001, dt.UTC)


def test_koogs_encrypted_files_need_their_key(tmp_path: Path) -> None:
    path = tmp_path / "agent" / "a" / "subject" / "user"
    path.parent.mkdir(parents=True)
    path.write_text(koog_sealed("{}"))
    with pytest.raises(KeyUnavailableError):
        found_in("koog", tmp_path)
    with pytest.raises(WrongKeyError):
        found_in("koog", tmp_path, key=base64.b64encode(bytes(32)).decode())
    path.write_text("{torn")
    (problem,) = found_in("koog", tmp_path)
    assert isinstance(problem, Problem)


@pytest.mark.parametrize("key", [None, KEY])
async def test_what_is_written_for_koog_reads_back(mover: Mover, tmp_path: Path, key: str | None) -> None:
    """Places, concepts, values and times survive; what Koog has no place for is counted."""
    await mover.move("table", FIXTURES / "table.csv", trust=True)
    records = [*await mover.memory.list_records()]
    written, lost = write_koog(records, tmp_path / "koog", key)
    assert (written, [*lost.values()]) == (4, [1, 1])
    if key is None:
        facts = json.loads((tmp_path / "koog" / "product" / "alpha" / "subject" / "user:jörg").read_text("utf-8"))
        assert set(facts["seats"][0]) == {"type", "concept", "timestamp", "value"}
        assert facts["seats"][0]["type"] == "ai.koog.agents.memory.model.SingleFact"
    found = [
        item.recorded.assertion for item in found_in("koog", tmp_path / "koog", key=key) if isinstance(item, Entry)
    ]
    kept = [record for record in records if len(record.scope.path) <= 1 and str(record.scope) != "/customer/acme"]
    assert {(said.keyword, said.data, str(said.place), said.timestamp) for said in found} == {
        (record.concept.keyword, str(record.value), f"{record.subject} in {record.scope}", record.timestamp)
        for record in kept
    }


# -- Memory Bank, from its documentation ----------------------------------------------------------------------------

BANK = "projects/p/locations/l/reasoningEngines/1/memories/m1"


async def test_memory_bank(mover: Mover, fixture: Fixture) -> None:
    """Revisions are history; a structured profile is a fact for each field."""
    report = await mover.move("memory-bank", fixture("memory_bank"), trust=True)
    assert (report.imported, report.errors) == (4, 0), report.problems
    records = {record.concept.keyword: record for record in await mover.memory.list_records()}
    home = records["statement"]
    assert (home.value, str(home.subject), str(home.scope)) == (
        "I live in Porto.",
        "user:alice",
        "/agent/planner/team/red",
    )
    assert home.details.topics == ("user personal info", "homes")
    assert home.details.metadata == {"tier": "gold", "sure": True, "source_id": f"memory-bank/{BANK}"}
    assert [one.value for one in await mover.memory.history(home.id)] == ["I live in Lisbon.", "I live in Porto."]
    assert (records["name"].value, records["seats"].value) == ("Alice", 5)


def test_memory_banks_fields_may_be_named_as_googles_client_names_them(tmp_path: Path) -> None:
    memory = {
        "name": BANK,
        "fact": "I live in Porto.",
        "scope": {"user_id": "alice"},
        "topics": [{"custom_memory_topic_label": "homes"}],
        "create_time": "2026-05-02T10:00:00Z",
        "update_time": "2026-05-02T10:00:00Z",
    }
    (entry,) = found_in("memory-bank", document(tmp_path / "memories.json", [memory]))
    assert isinstance(entry, Entry)
    said = entry.recorded.assertion
    assert (str(said.place.subject), said.details.topics, said.timestamp.day) == ("user:alice", ("homes",), 2)


async def test_memory_banks_revisions_may_stand_beside_it(mover: Mover, tmp_path: Path) -> None:
    memory = {"name": BANK, "fact": "I live in Porto.", "updateTime": "2026-05-02T10:00:00Z"}
    revision = {"name": f"{BANK}/revisions/1", "fact": "I live in Lisbon.", "createTime": "2026-05-01T10:00:00Z"}
    document(tmp_path / "memories.json", {"memories": [memory]})
    document(tmp_path / "revisions.json", {"memoryRevisions": [revision]})
    await mover.move("memory-bank", tmp_path, trust=True)
    (record,) = await mover.memory.list_records()
    assert [one.value for one in await mover.memory.history(record.id)] == ["I live in Lisbon.", "I live in Porto."]


# -- The MCP server "memory", from its sources ----------------------------------------------------------------------


async def test_mcp_memory(mover: Mover, fixture: Fixture) -> None:
    path = fixture("mcp_memory") / "memory.jsonl"
    path.write_text(path.read_text("utf-8") + "torn {\n", "utf-8")
    report = await mover.move("mcp-memory", path)
    assert (report.imported, report.errors, report.problems[0].where) == (3, 1, "line 4")
    assert await mover.facts() == {
        "likes tea": "person:Jörg in /cross-product",
        "plays chess": "person:Jörg in /cross-product",
        "Club": "person:Jörg in /cross-product",
    }
    assert {record.details.origin for record in await mover.memory.list_records()} == {Origin.ASSISTANT}


# -- Folders of notes -----------------------------------------------------------------------------------------------


async def test_a_folder_of_notes(mover: Mover, fixture: Fixture) -> None:
    folder = fixture("memory_folder")
    (folder / "photo.png").write_bytes(b"\x89PNG")
    (folder / "link.md").symlink_to(folder / "user.md")
    report = await mover.move("memory-folder", folder, dated=DATED)
    assert await mover.facts() == {
        "likes tea": "everything in /cross-product",
        "plays chess, on Sundays": "everything in /cross-product",
        "Lives in Porto, since May.": "everything in /cross-product",
        "first": "everything in /cross-product",
        "gold": "everything in /customer/acme",
        "since: May; until: 2027": "everything in /customer/acme",
        "silver": "everything in /customer/acme",
    }
    assert (report.errors, report.problems[0].where, sum(report.skipped.values())) == (1, "link.md", 1)
    headings = {record.value: record.details.categories for record in await mover.memory.list_records()}
    assert headings["likes tea"] == ("Preferences",)
    assert headings["first"] == ("Home",)
    assert headings["gold"] == ("plan",)


# -- Tables ---------------------------------------------------------------------------------------------------------


def test_a_table_may_be_separated_by_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text('value;timestamp;note\n"Tea; and chess, too";2026-05-01;x\n', "utf-8")
    (entry,) = found_in("table", path)
    assert isinstance(entry, Entry)
    assert entry.recorded.assertion.data == "Tea; and chess, too"
    path.write_text("text;timestamp\nTea;2026-05-01\n", "utf-8")
    with pytest.raises(
        FileFormatError, match="no column value among its 2, separated by ';': text, timestamp; map one"
    ):
        found_in("table", path)


@pytest.mark.parametrize("name", ["notes.csv", "notes.json", "notes.jsonl"])
@pytest.mark.parametrize(("field", "column"), [("value", "nope"), ("timestamp", "dat"), ("owner", "userid")])
async def test_no_row_of_a_table_that_lacks_a_mapped_column_is_kept(
    mover: Mover, tmp_path: Path, name: str, field: str, column: str
) -> None:
    """A row without its owner would be public."""
    path, row = tmp_path / name, {"note": "Likes tea", "date": "2026-05-01"}
    written = {".csv": "note,date\nLikes tea,2026-05-01\n", ".json": json.dumps([row]), ".jsonl": json.dumps(row)}
    path.write_text(written[path.suffix], "utf-8")
    with pytest.raises(FileFormatError, match=f"no column {column} among its 2.*: note, date; map one with.*{field}="):
        await mover.move("table", path, columns={"value": "note", field: column})
    assert list(await mover.memory.list_records()) == []


def test_a_table_without_a_header_is_not_quoted_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.csv"
    path.write_text("Likes tea,2026-05-01\n", "utf-8")
    with pytest.raises(FileFormatError, match="no column value among its 2, separated by ','; map one"):
        found_in("table", path)


async def test_a_table_with_columns_of_its_own(mover: Mover) -> None:
    """Unmapped columns are metadata; a row that is wrong costs no other one."""
    columns = {
        "value": "text",
        "subject": "who",
        "timestamp": "when",
        "keyword": "concept",
        "type": "kind",
        "origin": "from",
    }
    report = await mover.move("table", FIXTURES / "columns.csv", columns=columns)
    assert (report.imported, report.errors, sum(report.skipped.values())) == (2, 4, 1), report.problems
    assert [problem.where for problem in report.problems] == ["line 4", "line 5", "line 6", "line 7"]
    records = {record.concept.keyword: record for record in await mover.memory.list_records()}
    assert (records["seats"].value, records["statement"].value) == (7, "Likes tea, and chess")
    assert records["statement"].details.metadata == {"stars": "5"}


async def test_a_table_of_json_lines_has_typed_values(mover: Mover, tmp_path: Path) -> None:
    rows = [
        {"value": 7, "keyword": "seats", "type": "int", "timestamp": "2026-05-01", "origin": "user"},
        {"value": ["a", "b"], "keyword": "tags", "type": "json", "timestamp": "2026-05-01", "origin": "user"},
        {"value": True, "keyword": "seats2", "type": "int", "timestamp": "2026-05-01", "origin": "user"},
    ]
    report = await mover.move("table", lines(tmp_path / "rows.jsonl", rows))
    assert (report.imported, [problem.where for problem in report.problems]) == (2, ["line 3"])
    assert {record.concept.keyword: record.value for record in await mover.memory.list_records()} == {
        "seats": 7,
        "tags": ["a", "b"],
    }


def test_a_fact_has_the_subject_and_the_scope_of_the_options(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", [{"value": "x", "timestamp": "2026-05-01"}, {"value": "  "}])
    entry, skipped = found_in("table", path, subject=MemorySubject("team"), scope=MemoryScope.product("alpha"))
    assert isinstance(entry, Entry)
    assert str(entry.recorded.assertion.place) == "team in /product/alpha"
    assert isinstance(skipped, Skipped | Lost | Problem)
