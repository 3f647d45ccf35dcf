"""Commands that show the contents of a store, list the stores, and move a memory."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from factmem.cli.session import in_words
from factmem.entry_points import installed_entry_points
from factmem.memory.audit import AuditAction
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.tables import each_case

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine, Talk


def test_tree_counts_the_records_of_each_scope(cli: CommandLine) -> None:
    cli.data("save", "seats", "120", "--scope", "/product/fair")
    cli.data("save", "stage", "big", "--scope", "/product/fair/tech")
    root = cli.data("tree")
    (product,) = root["children"]
    (fair,) = product["children"]
    assert (root["records"], product["name"], fair["scope"], fair["records"]) == (2, "product", "/product/fair", 2)
    assert [child["scope"] for child in fair["children"]] == ["/product/fair/tech"]
    assert "fair  2" in cli.run("tree").out


def test_info_sums_up_a_scope_with_what_lies_below(cli: CommandLine) -> None:
    cli.data("save", "seats", "120", "--scope", "/product/fair", "--timestamp", "2026-01-01")
    cli.data("save", "stage", "big", "--scope", "/product/fair/tech", "--subject", "user:maya", "--category", "tech")
    cli.data("save", "pet", "cat")
    info = cli.data("info", "/product/fair")
    assert (info["scope"], info["records"], info["keywords"]) == ("/product/fair", 2, ["seats", "stage"])
    assert (info["subjects"], info["categories"]) == (["everything", "user:maya"], ["tech"])
    assert (info["oldest"], info["scopes"]) == ("2026-01-01T00:00:00+00:00", ["/product/fair/tech"])
    assert cli.data("info", "/product/fair", "--exact")["records"] == 1
    assert cli.data("info")["records"] == 3
    assert str(cli.store) in cli.run("info").out


def test_a_slash_is_the_whole_tree_and_a_kind_a_branch_of_it(cli: CommandLine) -> None:
    cli.data("save", "seats", "120", "--scope", "/product/fair")
    cli.data("save", "seats", "80", "--scope", "/agent/planner")
    cli.data("save", "pet", "cat")
    assert (cli.data("info", "/")["records"], cli.data("info", "/product")["records"]) == (3, 1)
    assert (cli.data("tree", "/")["records"], cli.data("tree", "/agent")["scope"]) == (3, "/agent")
    for command in (["recall", "seats"], ["list"]):
        counts = []
        for scope in ("/", "/product", "/feature"):
            found = cli.data(*command, "--scope", scope)
            counts.append(len(found["matches" if command[0] == "recall" else "records"]))
        assert counts == [3, 1, 0]
    assert cli.data("forget", "--scope", "/agent", "--yes")["records"] == 1
    assert cli.error("forget", "--scope", "/", "--yes")["type"] == "InvalidDataError"
    assert cli.error("save", "seats", "1", "--scope", "/product")["type"] == "InvalidNameError"


def test_a_script_is_told_whether_anything_answers(cli: CommandLine) -> None:
    cli.data("remember", "The offsite is in Lisbon.")
    found, nothing = cli.data("recall", "Where is the offsite?"), cli.data("recall", "zxqv blorp")
    assert (found["answers"], nothing["answers"]) == (True, False)
    assert 0 <= nothing["confidence"] < found["confidence"] <= 1
    assert [len(answer["matches"]) for answer in (found, nothing)] == [1, 1]


def test_results_that_score_nothing_are_not_printed_beside_others(cli: CommandLine) -> None:
    for text in ("The offsite is in Lisbon.", "I am allergic to peanuts."):
        cli.data("remember", text)
    assert [round(match["score"], 2) for match in cli.matches("Lisbon")][1:] == [0]
    assert "peanuts" not in cli.run("recall", "Lisbon").out
    assert "Nothing answers this" in cli.run("recall", "zxqv blorp").out


def test_a_store_that_is_missing_is_named_with_a_command_that_makes_it(cli: CommandLine, tmp_path: Path) -> None:
    """A list of it is empty, and its figures are an error, so that a lost volume does not look like an empty store."""
    for address in (str(cli.store), f"file:{tmp_path / 'files'}"):
        for done in (cli.run("--store", address, "info"), cli.run("--store", address, "list")):
            assert f"there is no store at {address}" in done.err
            assert f"factmem --store {address} ingest FILE" in done.err
        assert cli.error("--store", address, "info")["type"] == "StoreUnavailableError"
        assert cli.data("--store", address, "list")["records"] == []


def test_a_path_that_cannot_be_reached_is_named_whole(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    path = tmp_path / "file" / "facts.db"
    assert str(path) in cli.error("--store", str(path), "save", "city", "Oslo")["message"]


def test_an_empty_store_is_named_with_a_command_that_fills_it(cli: CommandLine) -> None:
    cli.data("upgrade", "--create")
    err = cli.run("info").err
    assert "holds nothing" in err
    assert "--organization NAME" in err
    assert f"factmem --store {cli.store} ingest FILE" in err


def test_facts_of_one_user_are_not_said_to_be_nothing(cli: CommandLine) -> None:
    cli.data("--user", "nora", "remember", "I like tea.")
    assert "holds nothing that is public" in (err := cli.run("recall", "tea").err)
    assert "--user NAME" in err
    err = cli.run("--user", "bob", "recall", "tea").err
    assert "holds nothing that bob may see: see what is of an organization with --organization NAME, name" in err
    bob = ("--user", "bob", "--organization", "acme")
    assert "that bob may see: name another store" in cli.run(*bob, "recall", "tea").err


def test_a_store_with_a_quarantine_is_not_called_empty(cli: CommandLine, talk: Talk) -> None:
    cli.data("ingest", str(talk("The venue moved.", roles=["tool"])))
    err = cli.run("recall", "venue").err
    assert "holds nothing" not in err
    assert f"1 in quarantine: see  factmem --store {cli.store} quarantine list" in err


def test_a_store_whose_facts_are_gone_points_to_its_trail(cli: CommandLine) -> None:
    (record,) = cli.data("save", "seats", "120")
    cli.data("retract", record["id"])
    err = cli.run("info").err
    assert "holds nothing" not in err
    assert f"factmem --store {cli.store} audit" in err
    assert cli.run("audit").err == ""


def test_an_erasure_stays_in_the_trail(cli: CommandLine) -> None:
    record = cli.data("save", "seats", "120")[0]
    cli.data("forget", record["id"], "--yes")
    for options in ((), ("--action", "erased")):
        assert [entry["action"] for entry in cli.data("audit", *options)["entries"]] == ["erased"]


def test_the_trail_can_be_narrowed_to_each_action(cli: CommandLine) -> None:
    cli.data("save", "seats", "120")
    every = [option for action in AuditAction for option in ("--action", action.value.replace(" ", "-"))]
    assert [entry["action"] for entry in cli.data("audit", *every)["entries"]] == ["recorded"]


def test_a_store_that_keeps_nothing_says_so(cli: CommandLine) -> None:
    err = cli.run("info", "--store", "none:").err
    assert "ingest" not in err
    assert "none: keeps nothing" in err


def test_providers_lists_the_capabilities_of_each(cli: CommandLine) -> None:
    found = {provider["name"]: provider for provider in cli.data("providers")}
    assert {"file", "memory", "none", "sqlite-vec"} <= set(found)
    assert all(provider["importable"] and provider["package"] == "factmem" for provider in found.values())
    assert "KeepsLog" in found["sqlite-vec"]["capabilities"]
    assert found["none"]["capabilities"] == []
    shown = cli.run("providers").out
    assert "KeepsLog" in shown
    assert "the four verbs" in shown
    assert [name for name in found if not any(line.startswith(f"{name}  ") for line in shown.splitlines())] == []


def test_a_provider_that_cannot_be_imported_says_what_to_install(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {
        name: EntryPoint(name, value, "factmem.providers")
        for name, value in {
            "away": "factmem_away:Away",
            "spare": "factmem_away:Away [away]",
            "broken": "json:NoSuchClass",
        }.items()
    }
    monkeypatch.setattr("factmem.providers.registry.provider_entry_points", lambda: points)
    away, spare, broken = cli.data("providers")
    assert not away["importable"]
    assert away["problem"].endswith("pip install factmem_away")
    assert spare["problem"].endswith("pip install 'factmem[away]'")
    assert "AttributeError" in broken["problem"]
    assert "pip install" in cli.run("providers").out


def test_an_export_can_be_imported_elsewhere(cli: CommandLine, tmp_path: Path) -> None:
    cli.data("save", "seats", "80", "--type", "int")
    cli.data("save", "seats", "120")
    file, other = tmp_path / "facts.jsonl", str(tmp_path / "other.db")
    assert cli.data("export", str(file)) == {"exported": 2, "file": str(file)}
    assert cli.data("import", str(file), "--trust", "--store", other)["imported"] == 2
    assert cli.data("import", "--from", "factmem", str(file), "--store", other)["imported"] == 0
    assert [record["value"] for record in cli.data("history", "seats", "--store", other)] == [80, 120]


def test_an_export_of_all_users_has_the_private_facts_of_each(cli: CommandLine, tmp_path: Path) -> None:
    for name in ("ann", "bo"):
        cli.data("save", "seats", "80", "--user", name, "--private")
    file, everybody, other = (str(tmp_path / name) for name in ("facts.jsonl", "everybody.jsonl", "other.db"))
    assert cli.data("export", file)["exported"] == 0
    assert cli.data("export", everybody, "--all-users")["exported"] == 2
    assert cli.error("export", everybody, "--all-users", "--force", "--user", "ann")["type"] == "InvalidDataError"
    assert "--all-users" in cli.error("export", str(tmp_path / "koog"), "--to", "koog", "--all-users")["message"]
    cli.data("import", everybody, "--trust", "--store", other)
    assert [record["value"] for record in cli.data("history", "seats", "--store", other, "--user", "bo")] == ["80"]


def test_an_import_reports_quarantined_facts_with_the_next_step(cli: CommandLine, tmp_path: Path) -> None:
    cli.data("save", "seats", "80", "--type", "int")
    file, other = tmp_path / "facts.jsonl", str(tmp_path / "other.db")
    cli.data("export", str(file))
    taken = cli.run("import", str(file), "--store", other)
    assert "1 new assertion in" in taken.out
    assert "1 waiting in quarantine" in taken.out
    assert "import the file again with --trust if" in taken.err
    assert "trust=True" not in taken.err
    assert "quarantine list" in taken.err
    trusted = cli.data("import", str(file), "--trust", "--store", other)
    assert (trusted["imported"], trusted["quarantined"], trusted["accepted"]) == (0, 0, 1)


def test_an_export_replaces_a_file_on_request_only(cli: CommandLine) -> None:
    cli.data("save", "seats", "120")
    before = cli.store.read_bytes()
    assert "--force" in cli.error("export", str(cli.store))["message"]
    assert cli.store.read_bytes() == before


def test_an_export_may_go_through_a_pipe(cli: CommandLine, tmp_path: Path) -> None:
    cli.data("save", "seats", "120")
    exported = cli.run("export", "-", "--json")
    assert json.loads(exported.out.splitlines()[0])["kind"] == "factmem-export"
    taken = cli.run("import", "-", "--store", str(tmp_path / "other.db"), "--json", input=exported.out)
    assert json.loads(taken.out)["imported"] == 1


def test_importing_something_else_is_an_error(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "no.jsonl"
    file.write_text("[]\n")
    assert cli.error("import", str(file))["type"] == "CodecError"
    assert cli.error("import", str(tmp_path / "missing"))["type"] == "StoreUnavailableError"


def test_reembed_reports_the_number_of_visible_records(cli: CommandLine) -> None:
    cli.data("save", "seats", "120")
    cli.data("--user", "ada", "remember", "I live in Oslo.")
    assert cli.data("reembed") == {"reembedded": 1}
    assert "embedded all records again, 1 of them visible here" in cli.run("reembed").out


@pytest.mark.parametrize("name", ["wordllama", "minilm", "multilingual"])
def test_an_error_about_embedders_names_them_as_the_option_does(name: str) -> None:
    embedder = installed_entry_points("factmem.embedders")[name].load()
    assert in_words(f"from {embedder.IDENTITY}:") == f"from {name}:"


def test_a_store_of_another_embedder_is_an_error_until_reembedded(cli: CommandLine) -> None:
    def embeddings(path: str, request: dict[str, Any]) -> Answer:
        data = [{"index": row, "embedding": [1.0, 2.0, len(text)]} for row, text in enumerate(request["input"])]
        return Answer({"object": "list", "model": request["model"], "data": data})

    cli.data("save", "seats", "120")
    with LoopbackOpenAIServer(embeddings) as server, pytest.MonkeyPatch.context() as environment:
        environment.setenv("OPENAI_BASE_URL", server.base_url)
        environment.setenv("OPENAI_API_KEY", "none")
        other = ("--embedder", "openai:tiny@3")
        error = cli.error("recall", "seats", *other)
        assert error["type"] == "EmbedderMismatchError"
        assert "factmem reembed" in error["message"]
        cli.data("reembed", *other)
        assert len(cli.matches("seats", *other)) == 1


def test_an_embedder_that_nobody_knows_is_an_error_that_names_those_there_are(cli: CommandLine) -> None:
    error = cli.error("recall", "seats", "--embedder", "magic")
    assert error["type"] == "InvalidDataError"
    assert "minilm, multilingual, wordllama, and vendors openai," in error["message"]


@each_case("name", "advice")
def test_an_embedder_that_cannot_be_had_is_an_error_that_says_what_to_do(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, name: str, advice: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    error = cli.error("recall", "seats", "--embedder", name)
    assert error["type"] == "InvalidDataError"
    assert advice in error["message"]
