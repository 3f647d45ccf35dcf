"""Ingestion of conversations."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from factmem.testing.chat_answers import answering, error_answer, unreachable_base_url
from factmem.testing.openai_server import LoopbackOpenAIServer

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine, Talk


def test_a_conversation_is_kept_with_speaker_date_and_conversation(cli: CommandLine, talk: Talk) -> None:
    cli.data("ingest", str(talk("The venue has 120 seats.")), "--scope", "/product/fair", "--source", "mail")
    (match,) = cli.matches("venue seats")
    record = match["record"]
    assert (record["value"], record["scope"], record["source"]) == ("The venue has 120 seats.", "/product/fair", "mail")
    assert record["timestamp"] == "2026-03-02T09:00:00+00:00"
    (evidence,) = record["evidence"]
    assert (evidence["speaker"], evidence["role"], evidence["conversation_id"]) == ("Maya", "user", "talk")


def test_a_conversation_ingested_twice_is_stored_once(cli: CommandLine, talk: Talk) -> None:
    file = str(talk("The venue has 120 seats.", "Doors open at ten."))
    assert cli.data("ingest", file)["new"] == 2
    again = cli.data("ingest", file)
    assert (again["statements"], again["new"]) == (2, 0)
    assert cli.data("info")["records"] == 2


def test_a_conversation_without_times_is_stored_once_as_well(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "timeless.json"
    file.write_text(json.dumps([{"role": "user", "content": "The venue has 120 seats."}]))
    assert cli.data("ingest", str(file))["new"] == 1
    assert cli.data("ingest", str(file))["new"] == 0


def test_secrets_are_counted_by_kind_and_kept_nowhere(cli: CommandLine, talk: Talk) -> None:
    summary = cli.data("ingest", str(talk("The password is Rust-4nd-Resin!77", "We meet at noon.")))
    assert summary["redacted"] == {"password": 1}
    assert b"Rust-4nd-Resin" not in b"".join(path.read_bytes() for path in cli.store.parent.glob("facts.db*"))


def test_words_of_a_tool_are_quarantined(cli: CommandLine, talk: Talk) -> None:
    file = talk("What does the page say?", "The venue moved to the palace.", roles=["user", "tool"])
    assert cli.data("ingest", str(file))["quarantined"] == 1
    assert [match["record"]["origin"] for match in cli.matches("venue palace")] == ["user"]


def test_the_subject_may_be_one_individual(cli: CommandLine, talk: Talk) -> None:
    cli.data("ingest", str(talk("I like tea.")), "--subject", "user:maya")
    assert [match["record"]["subject"] for match in cli.matches("tea", "--subject", "user:maya")] == ["user:maya"]
    assert cli.matches("tea", "--subject", "user") == []


def test_private_conversations_are_seen_by_their_viewer_alone(cli: CommandLine, talk: Talk) -> None:
    cli.data("--viewer", "maya", "ingest", str(talk("I like tea.")), "--private")
    assert len(cli.matches("tea", "--viewer", "maya")) == 1
    assert cli.matches("tea") == []
    assert cli.matches("tea", "--viewer", "bob") == []


def test_a_private_conversation_needs_a_viewer(cli: CommandLine, talk: Talk) -> None:
    done = cli.run("ingest", str(talk("I like tea.")), "--private")
    assert done.code == 2
    assert "owner" in done.err


def test_a_bad_file_is_reported_and_the_others_are_ingested(cli: CommandLine, talk: Talk, tmp_path: Path) -> None:
    bad, missing = tmp_path / "bad.json", tmp_path / "missing.json"
    bad.write_text('{"neither": "this nor that"}')
    done = cli.run("--json", "ingest", str(bad), str(missing), str(talk("I like tea.")))
    assert done.code == 1
    summary = json.loads(done.out)
    assert summary["new"] == 1
    assert [file["failed"] for file in summary["files"]] == [True, True, False]
    errors = [json.loads(line)["error"] for line in done.err.splitlines()]
    assert [error["type"] for error in errors] == ["ConversationFormatError"] * 2
    assert "bad.json" in errors[0]["message"]
    assert "missing.json" in errors[1]["message"]


def test_a_conversation_that_breaks_off_leaves_nothing_of_itself(cli: CommandLine, tmp_path: Path) -> None:
    whole = {"id": "whole", "messages": [{"role": "user", "content": "I like tea."}]}
    broken = {
        "id": "broken",
        "messages": [{"role": "user", "content": "I like coffee."}, {"role": "user", "content": 7}],
    }
    file = tmp_path / "half.jsonl"
    file.write_text(f"{json.dumps(whole)}\n{json.dumps(broken)}\n")
    assert cli.run("ingest", str(file)).code == 1
    assert [match["record"]["value"] for match in cli.matches("I like")] == ["I like tea."]


def test_people_get_a_summary_that_names_the_store(cli: CommandLine, talk: Talk) -> None:
    done = cli.run("ingest", str(talk("I like tea.")))
    assert done.code == 0
    assert "1 conversation, 1 statement, 1 new, 0 quarantined, secrets redacted: none" in done.out
    assert str(cli.store) in done.out


@pytest.mark.parametrize("options", [[], ["--model", f"{unreachable_base_url()}#m"]])
def test_a_missing_package_is_reported_with_the_file_that_needed_it(
    cli: CommandLine, talk: Talk, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """This holds with and without a model; the message contains the command that installs it."""
    for module in ("onnxruntime", "tokenizers", "minilm"):
        monkeypatch.setitem(sys.modules, module, None)
    file = talk("The venue has 120 seats.")
    done = cli.run("--json", *options, "--embedder", "minilm", "ingest", str(file))
    assert done.code == 1
    errors = [json.loads(line)["error"] for line in done.err.splitlines()]
    (error,) = [error for error in errors if error["type"] == "MissingPackageError"]
    assert error["message"].startswith(str(file))
    assert "factmem[minilm]" in error["message"]


def test_a_missing_file_is_named_once_and_nothing_is_reported_as_kept(cli: CommandLine, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.json")
    done = cli.run("ingest", missing)
    assert (done.code, done.err.count(missing)) == (1, 1)
    assert "kept in" not in done.out


@pytest.mark.parametrize("lines", [False, True])
def test_conversations_may_come_from_stdin(cli: CommandLine, lines: bool) -> None:
    messages = [{"role": "user", "content": text} for text in ("The venue has 120 seats.", "Doors open at ten.")]
    said = "\n".join(map(json.dumps, messages)) if lines else json.dumps({"id": "talk", "messages": messages})
    done = cli.run("--json", "ingest", "-", input=said)
    assert (done.code, json.loads(done.out)["new"]) == (0, 2)
    assert cli.matches("venue seats", "--limit", "1")[0]["record"]["value"] == "The venue has 120 seats."


def test_invalid_input_on_stdin_is_reported_as_such(cli: CommandLine) -> None:
    done = cli.run("ingest", "-", input="hello")
    assert (done.code, done.err.startswith("factmem: stdin: ")) == (1, True)


@pytest.mark.parametrize("model", [False, True])
def test_images_and_files_are_counted(cli: CommandLine, tmp_path: Path, model: bool) -> None:
    """This holds if the model refuses the request too, because an image is never kept."""
    file = tmp_path / "chat.json"
    parts = [{"type": "text", "text": "The venue has 120 seats."}, {"type": "image_url", "image_url": {"url": "x"}}]
    file.write_text(json.dumps([{"role": "user", "content": parts}]))
    with LoopbackOpenAIServer(answering(error_answer(401))) as server:
        options = ("--model", f"{server.base_url}#m") if model else ()
        summary = cli.run("ingest", str(file), *options)
    assert "1 part dropped: images, audio, files or parts of an unknown type, which are not kept" in summary.out


def test_documents_wait_in_quarantine_and_are_asked_for_by_their_name(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("handbook.md").write_text("# Venue\n\n120 seats, in the north hall.\n", encoding="utf-8")
    Path("notes.txt").write_text("Coffee is served at nine.\n", encoding="utf-8")
    done = cli.run("ingest", "handbook.md", "notes.txt")
    assert done.code == 0, done.err
    assert "handbook.md: 1 passage, 1 new, 1 waiting in quarantine" in done.out
    assert "--trust" in done.out
    assert cli.matches("How many seats?") == []
    (read, _) = cli.data("ingest", "handbook.md", "notes.txt", "--trust")["documents"]
    assert (read["new"], read["accepted"]) == (0, 1)
    found = cli.run("recall", "How many seats?", "--source", "handbook.md").out
    assert "Venue: 120 seats, in the north hall." in found
    assert f"document, {tmp_path}/handbook.md, line 3" in " ".join(found.split())
    assert "Coffee" not in found
    assert "--source books" in cli.run("ingest", "notes.txt", "--trust", "--source", "books").out


def test_documents_and_conversations_are_ingested_together_and_trust_is_for_documents(
    cli: CommandLine, tmp_path: Path, talk: Talk
) -> None:
    document = tmp_path / "notes.txt"
    document.write_text("Coffee is served at nine.\n", encoding="utf-8")
    assert cli.run("ingest", str(talk("I sing.")), "--trust").code == 2
    assert cli.run("ingest", str(tmp_path / "missing.md")).code == 1
    assert not cli.store.exists()
    outcome = cli.data("ingest", str(document), str(talk("I sing.")))
    assert (outcome["conversations"], outcome["documents"][0]["quarantined"]) == (1, 1)


def test_a_folder_is_ingested_with_everything_in_it_that_can_be_read(
    cli: CommandLine, tmp_path: Path, talk: Talk
) -> None:
    folder = tmp_path / "notes"
    files = {
        "coffee.md": "Coffee is served at nine.",
        "below/tea.txt": "Tea is served at four.",
        "below/deep/talk.jsonl": '{"role": "user", "content": "I play the harp."}',
        ".git/hidden.md": "Nobody reads this.",
        ".hidden.md": "Nobody reads this.",
        "picture.png": "no text",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    secret = tmp_path / "secret.md"
    secret.write_text("Nobody reads this.", encoding="utf-8")
    with contextlib.suppress(OSError):  # links need a privilege on some systems
        (folder / "link.md").symlink_to(secret)
    outcome = cli.data("ingest", str(folder), str(folder / "coffee.md"), "--trust")
    assert [Path(item["document"]).name for item in outcome["documents"]] == ["tea.txt", "coffee.md"]
    assert [Path(item["file"]).name for item in outcome["files"]] == ["talk.jsonl"]
    assert sorted(record["value"] for record in cli.data("list")["records"]) == [
        "Coffee is served at nine.",
        "I play the harp.",
        "Tea is served at four.",
    ]
    again = cli.data("ingest", str(folder), "--trust")
    assert (again["new"], [item["new"] for item in again["documents"]]) == (0, [0, 0])


def test_a_folder_without_anything_to_read_is_an_error(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    error = cli.error("ingest", str(tmp_path / "empty"))
    assert error["type"] == "InvalidDataError"
    assert "holds neither conversations" in error["message"]
