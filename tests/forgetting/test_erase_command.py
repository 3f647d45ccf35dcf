"""``factmem forget --verify``: it erases, finishes pending erasures, and verifies the result."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from anyio import to_thread
from typer.testing import CliRunner

from factmem import Memory, Message, open_provider
from factmem.abc.capabilities import Append, KeepsLog
from factmem.cli.app import app
from factmem.details import Evidence
from factmem.records import Recorded
from tests.forgetting.stores import DenseEmbedder, word
from tests.forgetting.test_pending import a_reader

Run = Callable[..., tuple[int, Any]]


@pytest.fixture(params=["sqlite-vec", "file"])
def address(request: pytest.FixtureRequest, folder: Path) -> str:
    return f"{request.param}:{folder / 'facts.db'}"


@pytest.fixture
def run(address: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command, and return its exit code and its JSON output."""
    monkeypatch.setattr("factmem.memory.facade.default_embedder", DenseEmbedder)

    def run(*words: str, input: str | None = None) -> tuple[int, Any]:
        done = CliRunner().invoke(app, ["--store", address, "--json", *words], input=input)
        return done.exit_code, json.loads(done.stdout or "null")

    return run


def test_it_erases_and_proves_it(run: Run, folder: Path) -> None:
    _, (record,) = run("save", "pin", word("pin"), "--scope", f"/product/{word('place')}")
    code, said = run("forget", record["id"], "--verify", "--yes")
    assert (code, said["records"], said["erased"], said["pending"]) == (0, 1, 1, False)
    verified = said["verified"]
    assert (verified["clean"], verified["said_by"]) == (True, [])
    assert verified["searched"] > 5
    assert all(file["words"] == file["names"] == file["vectors"] == 0 for file in verified["files"])
    assert {Path(file["path"]) for file in verified["files"]} >= {path for path in folder.rglob("*") if path.is_file()}


def test_all_that_is_a_users_is_erased_and_nothing_else(run: Run) -> None:
    nora = ("--user", "nora")
    run("remember", f"The office is {word('shared')}.")
    run(*nora, "remember", f"I love {word('hers')}.")
    run(*nora, "save", "city", word("about"), "--subject", "boss", "--private")
    code, said = run(*nora, "forget", "--all", "--dry-run")
    assert (code, said["count"]) == (0, 2)
    code, said = run(*nora, "forget", "--all", "--verify", "--yes")
    assert (code, said["records"], said["verified"]["clean"]) == (0, 2, True)
    assert [record["value"] for record in run(*nora, "list")[1]["records"]] == [f"The office is {word('shared')}."]
    assert run("forget", "--all", "--scope", "/product", "--yes")[0] == 1
    run("--user", "bo", "remember", f"I keep {word('kept')}.")
    code, said = run("forget", "--all", "--verify", "--yes")
    assert (code, said["records"], said["verified"]["clean"]) == (0, 2, True)
    assert run("--user", "bo", "list")[1]["records"] == []


async def test_of_a_speaker_is_erased_and_verified_what_others_did_not_say(run: Run, address: str) -> None:
    """The words of another speaker in the same record stay, and are not searched for."""
    async with open_provider(address) as store, Memory(store, embedder=DenseEmbedder()) as memory:
        (said,) = await memory.remember(Message(name="Ana", content=f"The oven is {word('old')}."))
        assert isinstance(store, KeepsLog)
        (first,) = [it for it in await store.changes(None) if isinstance(it, Recorded)]
        text = f"The oven is {word('new')}."
        details = attrs.evolve(first.assertion.details, evidence=(Evidence(quote=text, speaker="Tom", role="user"),))
        newer = attrs.evolve(first.assertion, data=text, details=details, revises=said.id, revised=first.seq)
        await store.append([Append(assertion=newer)])
    code, erased = await to_thread.run_sync(run, "forget", "--speaker", "Tom", "--verify", "--yes")
    assert (code, erased["records"], erased["erased"], erased["verified"]["clean"]) == (0, 1, 1, True)
    _, listed = await to_thread.run_sync(run, "list")
    assert [record["value"] for record in listed["records"]] == [f"The oven is {word('old')}."]


@pytest.mark.parametrize("address", ["file"], indirect=True)
def test_traces_are_found_and_reported_by_file(run: Run, folder: Path) -> None:
    _, (record,) = run("save", "pin", word("pin"))
    left = folder / "facts.db" / "copy"
    left.write_text(f"what was {word('pin')} before and {word('pin')} after")
    code, said = run("forget", record["id"], "--verify", "--yes")
    assert code == 1
    (found,) = [file for file in said["verified"]["files"] if file["words"]]
    assert (Path(found["path"]), found["bytes"]) == (left, left.stat().st_size)
    assert word("pin") not in json.dumps(said)


def test_words_can_be_looked_for_without_erasing_anything(run: Run) -> None:
    _, (record,) = run("save", "pin", word("pin"))
    code, said = run("forget", "--verify", "--text", "-", input=word("pin"))
    assert (code, said["verified"]["said_by"]) == (1, [record["id"]])
    assert run("forget", "--verify", "--text", word("other"))[0] == 0
    assert run("load", "pin")[1]["value"] == word("pin")


def test_a_short_word_to_look_for_proves_nothing(run: Run) -> None:
    run("save", "city", "Oslo")
    code, said = run("forget", "--verify", "--text", "Rome")
    assert (code, said["verified"]["clean"], said["verified"]["unsearched"]) == (1, False, 1)
    code, said = run("forget", "--verify", "--text", "Oslo")
    assert (code, len(said["verified"]["said_by"])) == (1, 1)


@pytest.mark.parametrize("words", [(), ("--expired",)])
def test_verify_with_nothing_to_search_for_is_refused(run: Run, words: tuple[str, ...]) -> None:
    assert run("forget", "--verify", *words)[0] == 1


@pytest.mark.parametrize("address", ["sqlite-vec"], indirect=True)
def test_verify_on_a_store_without_files_erases_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("save", "pin", word("pin"))
    with monkeypatch.context() as patch:
        patch.setattr("factmem.abc.capabilities.KeepsFiles", Path)
        assert run("forget", "--concept", "pin", "--verify", "--yes")[0] == 1
    assert run("load", "pin")[1]["value"] == word("pin")


def test_where_no_record_matches_nothing_is_verified(run: Run) -> None:
    code, said = run("forget", "--concept", "pin", "--verify", "--yes")
    assert (code, said["records"], "verified" in said) == (0, 0, False)


def test_words_to_look_for_need_verify(run: Run) -> None:
    assert run("forget", "--text", word("pin"))[0] == 1


def test_a_refusal_is_an_error_as_json(run: Run, address: str) -> None:
    run("save", "pin", word("pin"))
    done = CliRunner().invoke(app, ["--store", address, "--json", "forget", "--concept", "pin"], input="")
    assert (done.exit_code, done.stdout) == (1, "")
    assert json.loads(done.stderr.splitlines()[-1])["error"]["type"] == "StateConflictError"


def test_with_nothing_named_it_finishes_what_is_pending(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The output gives the state and the next step."""
    monkeypatch.setattr("factmem.memory.facade.default_embedder", DenseEmbedder)
    store = f"sqlite-vec:{folder / 'facts.db'}?busy_timeout=0.1"

    def run(*words: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(app, ["--store", store, *words])
        return done.exit_code, done.stdout, done.stderr

    run("save", "pin", word("pin"))
    with a_reader(folder) as end:
        code, out, err = run("forget", "--concept", "pin", "--yes")
        assert (code, out) == (0, "Erased 1 record, 1 revision.\n")
        assert f"factmem --store '{store}' forget --expired\n" in err
        code, out, err = run("forget", "--verify", "--text", word("pin"))
        assert code == 1
        assert "of words" in out
        assert f"factmem --store '{store}' forget --expired\n" in err
        end()
    assert run("forget", "--verify", "--text", word("pin"))[0] == 0
    code, out, err = run("forget", "--expired")
    assert (code, out, err) == (0, "Erased 0 expired and 0 superseded revisions.\n", "")
