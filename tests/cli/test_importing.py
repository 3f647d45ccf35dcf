"""`import --from SYSTEM` on the command line, and the way to Koog and back."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tables import each_case

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

FIXTURES = Path(__file__).parents[1] / "importers" / "fixtures"
MEM0 = str(FIXTURES / "mem0" / "get_all.json")
TABLE = str(FIXTURES / "table.csv")


def test_a_store_of_another_system_is_moved_over_once(cli: CommandLine) -> None:
    """A person who knows mem0 asks of the new store what they knew before."""
    done = cli.run("import", "--from", "mem0", MEM0)
    assert done.code == 0, done.err
    assert "4 new assertions" in done.out
    assert "lost: 1 row: earlier texts of updated memories" in done.out
    assert "0 new assertions" in cli.run("import", "--from", "mem0", MEM0).out
    (found,) = cli.matches("peanuts", "--limit", "1")
    assert found["record"]["value"] == "I am allergic to peanuts."


def test_the_report_is_json_as_well(cli: CommandLine) -> None:
    report = cli.data("import", "--from", "table", TABLE, "--dry-run")
    assert (report["imported"], report["dry_run"], report["errors"]) == (5, True, 0)
    assert not cli.store.exists()
    report = cli.data("import", "--from", "table", TABLE)
    assert (report["imported"], report["known"], report["quarantined"], report["system"]) == (5, 0, 0, "table")


def test_a_bad_row_is_named_and_fails_the_command_but_not_the_other_rows(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"note": "Likes tea", "when": "2026-05-01"}\ntorn\n')
    columns = ["--column", "value=note", "--column", "timestamp=when"]
    done = cli.run("import", "--from", "table", *columns, str(path))
    assert done.code == 1
    assert "error: not JSON: correct it, or remove it (at line 2)" in done.out.replace("\n", " ")
    assert "1 waiting in quarantine" in done.out.replace("\n", " ")
    assert "quarantine list" in done.err


@pytest.mark.parametrize("dry", [["--dry-run"], []], ids=["dry run", "import"])
@pytest.mark.parametrize("trust", [["--trust"], []], ids=["trusted", "untrusted"])
def test_rows_have_the_type_of_their_concept_in_the_store_or_are_refused(
    cli: CommandLine, tmp_path: Path, dry: list[str], trust: list[str]
) -> None:
    cli.data("save", "weight_kg", "80.5", "--type", "float", "--subject", "user:anna")
    path = tmp_path / "rows.csv"
    path.write_text(
        "keyword,value,type,subject,timestamp\n"
        "weight_kg,82.4,,user:anna,2026-03-01\nweight_kg,79,,user:ben,2026-03-01\n"
        "weight_kg,heavy,,user:anna,2026-03-02\nweight_kg,2026-03-03,date,user:anna,2026-03-03\n"
    )
    done = cli.run("--json", "import", "--from", "table", str(path), *trust, *dry)
    report = json.loads(done.out)
    assert (done.code, report["imported"], report["errors"]) == (1, 2, 2)
    assert [problem["where"] for problem in report["problems"]] == ["line 4", "line 5"]
    assert "column `type`" in report["problems"][1]["message"]
    waiting = [] if dry or trust else [82.4, 79.0]
    assert [it["value"] for it in cli.data("quarantine", "list")["records"]] == waiting
    assert report["quarantined"] == len(waiting)


def test_all_are_accepted_but_those_of_another_type_than_their_place(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("keyword,value,timestamp\nseats,many,2026-03-01\ntown,Bern,2026-03-01\ntown,Genf,2026-03-02\n")
    cli.data("import", "--from", "table", str(path))
    cli.data("save", "seats", "12", "--type", "int")
    done = cli.run("quarantine", "accept", "--all")
    assert (done.code, done.out.count("accepted")) == (1, 2)
    assert "or reject it" in " ".join(done.err.split())
    (left,) = cli.data("quarantine", "list")["records"]
    assert left["value"] == "many"


def test_what_is_private_is_named_with_its_users(cli: CommandLine, tmp_path: Path) -> None:
    row = {"content": "A secret", "private": True, "source": "bo", "created_at": "2026-05-01T00:00:00"}
    path = tmp_path / "memories.jsonl"
    path.write_text(json.dumps(row) + "\n")
    done = cli.run("import", "--from", "crewai", str(path))
    assert "--user bo quarantine list" in done.err.replace("\n", " ")
    done = cli.run("--user", "bo", "quarantine", "list")
    assert "A secret" in done.out
    assert cli.run("--user", "bo", "export", str(tmp_path / "bo.jsonl")).code == 0
    done = cli.run("import", str(tmp_path / "bo.jsonl"), "--trust")
    assert "0 new assertions and 1 private to others" in done.out.replace("\n", " ")


@each_case("words", "error")
def test_a_wrong_import_says_what_to_do(cli: CommandLine, words: list[str], error: str) -> None:
    paths = {"MEM0": MEM0, "FIXTURES": str(FIXTURES)}
    assert error in cli.error("import", *(paths.get(word, word) for word in words))["message"]


def test_private_facts_are_those_of_their_users(cli: CommandLine) -> None:
    cli.data("import", "--from", "mem0", MEM0, "--private")
    assert cli.data("info")["records"] == 0
    assert cli.data("--viewer", "alice", "info")["records"] == 3


def test_what_a_user_moves_in_is_theirs(cli: CommandLine) -> None:
    """`--user` stands for the memory of one user here as well."""
    notes = str(FIXTURES / "langchain" / "history.json")
    cli.data("--user", "ada", "import", "--from", "langchain", notes)
    assert cli.data("info")["records"] == 0
    assert cli.data("--user", "ada", "info")["subjects"] == ["user:ada"]


def test_conversations_are_ingested(cli: CommandLine) -> None:
    path = str(FIXTURES / "pydantic_ai" / "messages.json")
    report = cli.data("import", "--from", "pydantic-ai", path, "--subject", "user:jörg", "--scope", "/agent/waiter")
    assert (report["conversations"], report["imported"], report["quarantined"]) == (1, 5, 1)
    assert cli.data("info", "/agent/waiter")["subjects"] == ["user:jörg"]


@pytest.mark.parametrize("encrypted", [False, True])
def test_to_koog_and_back(cli: CommandLine, tmp_path: Path, encrypted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOOG_KEY", base64.b64encode(bytes(32)).decode())
    key = ["--key-env", "KOOG_KEY"] if encrypted else []
    cli.data("import", "--from", "table", TABLE)
    folder = tmp_path / "koog"
    exported = cli.data("export", "--to", "koog", str(folder), *key)
    assert (exported["exported"], len(exported["lost"])) == (4, 2)
    assert "not empty" in cli.error("export", "--to", "koog", str(folder), *key)["message"]
    text = (folder / "agent" / "planner" / "subject" / "user").read_text("utf-8")
    assert text.startswith("{") is not encrypted
    other = type(cli)(tmp_path / "other.db")
    assert other.data("import", "--from", "koog", str(folder), *key, "--trust")["imported"] == 4
    assert other.data("load", "seats", "--subject", "user:jörg", "--scope", "/product/alpha")["value"] == "5"


def test_a_key_is_for_koog_alone(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOOG_KEY", "x")
    assert "for --to koog" in cli.error("export", str(tmp_path / "x.jsonl"), "--key-env", "KOOG_KEY")["message"]
