"""Commands that read: recall, load, history."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from factmem import BlockingMemory, Memory
from factmem.testing import HashEmbedder
from factmem.testing.chat_answers import chat_answer, error_answer, unreachable_base_url
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.tables import each_case

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine, Talk


def test_recall_prints_value_place_date_and_speaker(cli: CommandLine, talk: Talk) -> None:
    cli.run("ingest", str(talk("The venue has 120 seats.")), "--scope", "/product/fair")
    done = cli.run("recall", "venue seats")
    assert done.code == 0
    for part in (
        "The venue has 120 seats.",
        "2026-03-02",
        "Maya (user)",
        "conversation talk",
        "/product/fair",
        "lexical",
    ):
        assert part in done.out


def test_recall_gives_score_parts_reasons_and_record(cli: CommandLine) -> None:
    cli.run("save", "seats", "120", "--type", "int", "--description", "Seats at the venue")
    (match,) = cli.matches("seats", "--limit", "3")
    assert set(match) == {"score", "parts", "reasons", "record", "path", "newer", "retracted", "earlier"}
    assert match["earlier"] == []
    assert 0 < match["score"] <= 1
    assert "lexical" in match["reasons"]
    assert set(match["record"]) == {
        *("id", "keyword", "value", "subject", "scope", "timestamp", "revision", "state", "importance"),
        *("ended_at", "end_reason"),
        *("categories", "topics", "metadata", "labels", "expires_at", "revision_expires_at", "source", "private"),
        *("origin", "flags", "quarantine_reason", "evidence"),
    }
    assert match["record"]["value"] == 120


def test_recall_says_that_nothing_answers_and_shows_the_nearest_in_short(cli: CommandLine) -> None:
    cli.run("save", "seats", "120", "--description", "Seats at the venue")
    cli.run("save", "pet", "cat", "--description", "An animal at home")
    nothing = cli.run("recall", "zxqv blorp").out.splitlines()
    assert nothing[0] == "Nothing answers this. Nearest:"
    assert len(nothing) == 3
    some = cli.run("recall", "seats at the venue").out.splitlines()
    assert "seats = 120" in some[0]
    assert len(cli.matches("zxqv blorp")) == 2


def test_recall_shows_what_a_fact_was_before_if_asked(cli: CommandLine) -> None:
    for seats in ("100", "120"):
        cli.run("save", "seats", seats, "--type", "int")
    (match,) = cli.matches("seats", "--earlier")
    assert (match["record"]["value"], [record["value"] for record in match["earlier"]]) == (120, [100])
    assert "superseded: 100" in cli.run("recall", "seats", "--earlier").out


def test_recall_shows_the_newer_statement_in_a_word(cli: CommandLine) -> None:
    for text in ("I live in Oslo.", "I moved to Lisbon."):
        cli.run("remember", text)
    found = {match["record"]["value"]: match for match in cli.matches("Where do I live?")}
    assert found["I live in Oslo."]["newer"] == found["I moved to Lisbon."]["record"]
    assert (found["I moved to Lisbon."]["newer"], found["I live in Oslo."]["retracted"]) == (None, False)
    assert "newer: I moved to Lisbon. (2" in cli.run("recall", "Where do I live?").out


def test_explain_shows_what_a_score_is_made_of(cli: CommandLine) -> None:
    cli.run("save", "seats", "120")
    assert "similarity" not in cli.run("recall", "seats").out
    assert "similarity 1.000" in cli.run("recall", "seats", "--explain").out


@each_case("option", "found")
def test_recall_filters(cli: CommandLine, option: list[str], found: list[str]) -> None:
    day = "--timestamp"
    cli.run("save", "hall", "size big", "--scope", "/product/fair", day, "2026-01-01")
    cli.run("save", "stage", "size big", "--scope", "/product/fair/tech", "--category", "tech", day, "2026-02-01T12:00")
    cli.run("save", "tent", "size big", "--subject", "user:maya", "--source", "mail", day, "2026-03-01")
    matches = cli.matches("size big", *option)
    assert sorted(match["record"]["keyword"] for match in matches) == found


@each_case("type", "text", "value")
def test_load_reads_what_was_saved_whatever_its_type(cli: CommandLine, type: str, text: str, value: object) -> None:
    cli.data("save", "thing", text, "--type", type)
    loaded = cli.data("load", "thing")
    assert (loaded["value"], loaded["type"]) == (value, type)


def test_load_prints_the_bare_value_for_scripts(cli: CommandLine) -> None:
    cli.run("save", "seats", "120", "--type", "int")
    assert cli.run("load", "seats").out == "120\n"


def test_load_prints_the_values_of_a_set_one_a_line(cli: CommandLine) -> None:
    cli.run("save", "diet", "no nuts", "--multiple")
    cli.run("save", "diet", "no meat")
    assert cli.run("load", "diet").out == "no nuts\nno meat\n"
    assert cli.data("load", "diet")["values"] == ["no nuts", "no meat"]


def test_load_as_of_a_day_counts_the_whole_day(cli: CommandLine) -> None:
    cli.run("save", "seats", "80", "--type", "int", "--timestamp", "2026-01-01T10:00")
    cli.run("save", "seats", "120", "--timestamp", "2026-01-02T18:00")
    assert cli.data("load", "seats", "--as-of", "2026-01-01")["value"] == 80
    assert cli.data("load", "seats", "--as-of", "2026-01-02")["value"] == 120


def test_load_reads_a_keyword_that_has_another_type_elsewhere(cli: CommandLine) -> None:
    cli.run("save", "seats", "many", "--scope", "/product/a", "--timestamp", "2026-01-01")
    cli.run("save", "seats", "7", "--type", "int", "--scope", "/agent/b", "--timestamp", "2026-01-01")
    assert cli.data("load", "seats", "--scope", "/product/a")["value"] == "many"
    assert cli.data("load", "seats")["value"] == 7


def test_load_of_what_is_nowhere_suggests_what_is_similar(cli: CommandLine) -> None:
    cli.run("save", "seats", "120")
    error = cli.error("load", "seat")
    assert error["type"] == "RecordNotFoundError"
    assert "seats" in error["message"]
    assert f"factmem --store {cli.store} info" in cli.error("load", "zzz")["message"]


@pytest.mark.parametrize("command", ["load", "history"])
def test_facts_of_other_places_are_reported_with_their_places(cli: CommandLine, command: str) -> None:
    cli.run("save", "seats", "120", "--scope", "/product/a")
    cli.run("save", "seats", "7", "--scope", "/product/b", "--subject", "user:maya")
    message = cli.error(command, "seats", "--scope", "/product/a/sub")["message"]
    assert "similar" not in message
    assert "in /product/a" in message
    assert "in /product/b about user:maya" in message


def test_load_prints_the_place_with_json(cli: CommandLine) -> None:
    cli.run("save", "seats", "120", "--scope", "/product/a", "--timestamp", "2026-01-01")
    cli.run("save", "seats", "7", "--scope", "/product/a/sub", "--timestamp", "2026-01-01")
    cli.run("save", "seats", "9", "--scope", "/product/a/sub", "--subject", "user:maya", "--timestamp", "2025-01-01")
    everywhere = cli.data("load", "seats")
    assert (everywhere["value"], everywhere["scope"], everywhere["subject"]) == ("9", "/product/a/sub", "user:maya")
    there = cli.data("load", "seats", "--scope", "/product/a")
    assert (there["value"], there["scope"], there["subject"]) == ("120", "/product/a", "everything")
    shared = cli.data("load", "seats", "--subject", "everything")
    assert (shared["value"], shared["scope"]) == ("7", "/product/a/sub")


def test_history_shows_every_revision_and_what_became_of_it(cli: CommandLine) -> None:
    cli.run("save", "seats", "80", "--type", "int")
    cli.run("save", "seats", "120")
    records = cli.data("history", "seats")
    assert [record["end_reason"] for record in records] == ["superseded", None]
    assert [record["ended_at"] for record in records] == [records[1]["timestamp"], None]
    assert [(record["value"], record["state"]) for record in records] == [(80, "superseded"), (120, "active")]
    shown = cli.run("history", "seats").out
    assert shown.index("80") < shown.index("120")
    assert "superseded" in shown


def test_history_of_what_is_nowhere_is_an_error(cli: CommandLine) -> None:
    assert cli.error("history", "seats")["type"] == "RecordNotFoundError"


def test_values_cannot_command_the_terminal(cli: CommandLine) -> None:
    cli.run("save", "note", "red \x1b[31malert\u202e")
    out = cli.run("recall", "alert").out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert cli.data("load", "note")["value"] == "red \x1b[31malert\u202e"


def test_a_long_value_is_cut_on_a_terminal_only(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "seats " * 9_000
    cli.run("save", "plan", text)
    assert text.strip() in cli.run("recall", "seats").out
    assert cli.matches("seats")[0]["record"]["value"] == text
    (record,) = cli.data("save", "plan", text)
    assert record["value"] == text
    monkeypatch.setattr("factmem.browse.record_lines._on_a_terminal", lambda: True)
    shown = cli.run("recall", "seats").out
    assert "54,000 characters; --json shows all" in shown
    assert len(shown) < 3_000


def test_recall_without_its_embedder_goes_by_words_and_says_so_in_one_line(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", unreachable_base_url())
    away = ("--embedder", "openai:any@4")
    saved = cli.run(*away, "save", "seats", "120", "--type", "int")
    assert (saved.code, len(saved.err.splitlines())) == (0, 1)
    loaded = cli.run(*away, "load", "seats")
    assert (loaded.out.strip(), loaded.err) == ("120", "")
    found = cli.run(*away, "recall", "seats")
    assert (found.code, len(found.err.splitlines())) == (0, 1)
    assert "120" in found.out
    assert "words alone" in found.err
    found = cli.run("--json", *away, "recall", "seats")
    assert json.loads(found.out)["matches"][0]["record"]["value"] == 120
    assert "words alone" in json.loads(found.err)["warning"]


def test_a_value_of_several_people_is_refused_with_the_option_that_names_one(cli: CommandLine) -> None:
    for name in ("carl", "dora"):
        cli.run("save", "city", f"city of {name}", "--subject", f"user:{name}")
    message = cli.error("load", "city")["message"]
    assert "user:carl, user:dora" in message
    assert "--subject" in message
    assert "subject=" not in message
    assert "for_user" not in message


# Deep recall on the command line, with a model behind a socket.

QUERY = "Who bakes and who brews in the village, and since when have the two of them been at it?"
LONG = f"{QUERY} {'I would like to know that in full, please.' * 4}"


def _respond(path: str, request: dict[str, Any]) -> Answer:
    if request["response_format"]["json_schema"]["name"] == "GapsAnswer":
        return chat_answer({"gaps": [{"missing": "the price", "question": "What does the bread cost?"}]})
    return chat_answer({"questions": ["Who bakes bread?"], "scopes": ["/product/fair"], "complexity": "complex"})


def _filled(cli: CommandLine) -> None:
    for name in ("Ann", "Bo", "Cleo", "Eva", "Finn", "Gus", "Hal"):  # enough names that none of them is distinctive
        cli.data("remember", f"{name} bakes bread.", "--scope", "/product/fair", "--no-consolidate")


def test_deep_recall_reports_its_steps(cli: CommandLine) -> None:
    _filled(cli)
    with LoopbackOpenAIServer(_respond) as server:
        found = cli.data("recall", LONG, "--depth", "deep", "--model", f"{server.base_url}#m", "--explain")
        done = cli.run("--model", f"{server.base_url}#m", "recall", LONG, "--depth", "deep")
    assert found["matches"][0]["record"]["value"].endswith("bakes bread.")
    assert found["questions"] == [LONG, "Who bakes bread?", "What does the bread cost?"]
    assert (found["scopes"], found["complexity"], found["rounds"]) == (["/product/fair"], "complex", 1)
    assert found["gaps"] == [{"missing": "the price", "question": "What does the bread cost?"}]
    assert (found["calls"], found["tokens"], found["failure"], found["times"]) == (2, 4, None, [])
    assert 0 <= found["confidence"] < 0.05
    for line in ("asked as well: Who bakes bread?", "looked in /product/fair", "still missing: the price"):
        assert line in done.out


def test_deep_recall_without_a_model_says_how_to_name_one(cli: CommandLine) -> None:
    error = cli.error("recall", "bread", "--depth", "deep")
    assert error["type"] == "CapabilityError"
    assert "FACTMEM_MODEL" in error["message"]


def test_an_unavailable_model_is_reported_beside_plain_recall(cli: CommandLine) -> None:
    cli.data("remember", "Dora bakes bread.")
    with LoopbackOpenAIServer(lambda path, request: error_answer(401)) as server:
        done = cli.run("--model", f"{server.base_url}#m", "recall", LONG, "--depth", "deep")
    assert (done.code, "Dora bakes bread." in done.out) == (0, True)
    assert done.err.count("goes on without the model") == done.err.count("HTTP 401") == 1


def test_no_other_depth_is_known(cli: CommandLine) -> None:
    assert cli.run("recall", "bread", "--depth", "deeper").code == 2


# JSON on a terminal: nothing in a fact reaches the terminal as a command or out of sight


pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals, so that NOTHING was tried")

HOSTILE = "Tea\x1b[2J\x9b31m\u202egnp.exe\u200b and\x7f \u2066milk\u2069"


@pytest.mark.processes
@pytest.mark.parametrize("words", [["--json", "list"], ["export", "-"]], ids=["list", "export"])
def test_json_on_a_terminal_escapes_what_it_would_obey(words: list[str], tmp_path: Path) -> None:
    store = tmp_path / "facts.db"
    with BlockingMemory(Memory(store, embedder=HashEmbedder())) as memory:
        memory.remember(HOSTILE)
        (record,) = memory.list_records()
    seen = on_a_terminal([sys.executable, "-m", "factmem", "--store", str(store), *words])
    assert not set(seen) & set("\x1b\x7f\x9b\u202e\u200b\u2066\u2069")
    read = json.loads(seen) if words[0] == "--json" else [json.loads(line) for line in seen.splitlines()]
    assert record.value in texts_in(read)


def texts_in(data: object) -> list[object]:
    """Return every text in JSON."""
    if isinstance(data, dict | list):
        items = data.values() if isinstance(data, dict) else data
        return [text for item in items for text in texts_in(item)]
    return [data]


def on_a_terminal(command: list[str]) -> str:
    """Return what a command writes to a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": "1000", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=env) as run:
        os.close(theirs)
        read = bytearray()
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the terminal is closed
                break
            if not part:
                break
            read += part
        os.close(ours)
    assert run.returncode == 0
    return read.decode().replace("\r\n", "\n")
