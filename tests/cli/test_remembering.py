"""Commands that save a single text, split one into statements, and fill a class with known facts."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from factmem.testing.chat_answers import Said, answering
from factmem.testing.openai_server import LoopbackOpenAIServer

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

SAID = "The venue has 120 seats."
ANALYSIS: Said = {
    "scope": "/product/fair",
    "categories": ["venue"],
    "importance": 0.75,
    "entities": [],
    "dates": [],
    "topics": [],
}


def at(server: LoopbackOpenAIServer) -> str:
    return f"{server.base_url}#m"


def test_what_is_remembered_is_shown_without_a_hash_of_its_content(cli: CommandLine) -> None:
    (record,) = cli.data("remember", "The venue has a bar.")["records"]
    derived = record["evidence"][0]["conversation_id"]
    assert derived.startswith("content:")
    for words in (["remember", SAID], ["list"], ["show", record["id"]]):
        out = cli.run(*words).out
        assert "content:" not in out
        assert "conversation" not in out
        assert "— user" in out


def test_a_text_is_kept_as_it_is_said(cli: CommandLine) -> None:
    words = ("--subject", "user:maya", "--scope", "/product/fair", "--category", "venue", "--importance", "0.9")
    more = ("--source", "mail", "--metadata", "tier=gold", "--metadata", "score=7", "--ttl", "2d")
    output = cli.data("remember", SAID, *words, *more)
    (change,), (record,) = output["changes"], output["records"]
    assert (change["kind"], change["record"]["id"], output["failure"]) == ("created", record["id"], None)
    assert (record["value"], record["subject"], record["scope"]) == (SAID, "user:maya", "/product/fair")
    assert (record["categories"], record["importance"], record["source"]) == (["venue"], 0.9, "mail")
    assert record["metadata"] == {"tier": "gold", "score": 7}
    left = dt.datetime.fromisoformat(record["expires_at"]) - dt.datetime.now(dt.UTC)
    assert dt.timedelta(days=1, hours=23) < left <= dt.timedelta(days=2)


def test_what_is_said_again_was_known(cli: CommandLine) -> None:
    """A statement that was retracted meanwhile is new."""
    (first,) = cli.data("remember", SAID)["records"]
    (change,) = cli.data("remember", SAID)["changes"]
    assert (change["kind"], change["record"]["id"]) == ("updated", first["id"])
    assert change["previous"]["timestamp"] == first["timestamp"]
    assert f"updated  {SAID}" in cli.run("remember", SAID).out
    cli.data("retract", first["id"])
    assert cli.data("remember", SAID)["changes"][0]["kind"] == "created"


def test_what_is_left_out_is_said_with_the_reason(cli: CommandLine) -> None:
    done = cli.run("remember", "AKIAIOSFODNN7EXAMPLE")
    assert (done.code, done.err) == (0, "")
    assert "1 finding dropped: its words are nothing but secrets" in " ".join(done.out.split())
    assert "dropped" not in cli.run("remember", SAID).out


def test_a_text_may_come_from_stdin(cli: CommandLine) -> None:
    assert f"created  {SAID}" in cli.run("remember", "-", input=f"{SAID}\n").out
    assert cli.error("remember", " ")["type"] == "InvalidDataError"


def test_a_model_finds_out_what_was_not_said(cli: CommandLine) -> None:
    with LoopbackOpenAIServer(answering(ANALYSIS)) as server:
        record = cli.data("--model", at(server), "remember", SAID, "--importance", "0.25")["records"][0]
        assert (record["scope"], record["categories"], record["importance"]) == ("/product/fair", ["venue"], 0.25)
        assert len(server.requests) == 1
        given = ("--scope", "/product/fair", "--importance", "0.25", "--category", "x")
        cli.data("--model", at(server), "remember", "Doors open at ten.", *given)
        assert len(server.requests) == 1, "with every property given, no model is called"


def test_a_text_that_nobody_could_read_is_kept_all_the_same(cli: CommandLine, nobody: str) -> None:
    done = cli.run("--model", nobody, "remember", SAID)
    assert (done.code, f"created  {SAID}" in done.out) == (1, True)
    assert "1 text could not be read: the language model cannot be reached" in done.err
    assert f"factmem --store {cli.store} --model '{nobody}' dead-letters retry" in done.err
    assert len(cli.matches("venue")) == 1


def test_a_model_without_a_key_is_an_error_with_the_variable_to_set(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = cli.run("--model", "openai/gpt-5-mini", "remember", SAID)
    assert (done.code, "OPENAI_API_KEY" in done.err) == (1, True)


def test_a_text_is_taken_apart_and_nothing_is_stored(cli: CommandLine) -> None:
    statements = ["The venue has 120 seats.", "The venue is old."]
    with LoopbackOpenAIServer(answering({"statements": statements})) as server:
        assert cli.data("--model", at(server), "extract", "The old venue has 120 seats.") == statements
        output = cli.run("--model", at(server), "extract", input="The old venue has 120 seats.")
        assert output.out.splitlines() == statements
        assert cli.data("--model", at(server), "extract", " ") == []
        assert len(server.requests) == 2
    assert not cli.store.exists()


def test_taking_a_text_apart_needs_a_model_that_answers(cli: CommandLine, nobody: str) -> None:
    assert "FACTMEM_MODEL" in cli.error("extract", SAID)["message"]
    assert cli.error("--model", nobody, "extract", SAID)["type"] == "ModelUnavailableError"


def test_a_fact_may_be_saved_for_a_while(cli: CommandLine) -> None:
    (record,) = cli.data("save", "seats", "120", "--ttl", "90m")
    left = dt.datetime.fromisoformat(record["expires_at"]) - dt.datetime.now(dt.UTC)
    assert dt.timedelta(minutes=80) < left <= dt.timedelta(minutes=90)


@pytest.mark.parametrize("ttl", ["soon", "0d", "-1d", "30", "99999999w", "9" * 400 + "d"])
def test_an_impossible_time_to_live_is_wrong_usage(cli: CommandLine, ttl: str) -> None:
    assert cli.run("save", "seats", "120", f"--ttl={ttl}").code == 2


PROFILES = """
import attrs, pydantic

@attrs.frozen
class Venue:
    seats: int
    stages: list[str]
    owner: str

class Guest(pydantic.BaseModel):
    pet: str | None = None
"""


@pytest.fixture
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with profiles in the working folder."""
    (tmp_path / "profiles_of_a_fair.py").write_text(PROFILES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return "profiles_of_a_fair"


def test_a_class_is_filled_with_what_is_known(cli: CommandLine, classes: str) -> None:
    cli.data("save", "seats", "120", "--type", "int")
    cli.data("save", "stages", "main", "--multiple")
    output: dict[str, Any] = cli.data("profile", f"{classes}:Venue")
    assert output["known"] == {"seats": 120, "stages": ["main"]}
    assert (output["complete"], output["unknown"], output["missing"]) == (False, ["owner"], ["owner"])
    page = cli.run("profile", f"{classes}:Venue").out
    assert page.splitlines() == ["seats   120", 'stages  ["main"]', "owner   missing: the profile requires it"]


def test_a_pydantic_model_is_a_profile_too(cli: CommandLine, classes: str) -> None:
    output = cli.data("profile", f"{classes}:Guest")
    assert (output["complete"], output["known"], output["unknown"]) == (True, {}, ["pet"])


@pytest.mark.parametrize("reference", ["Venue", "{}:Nobody", "no_such_module:Venue", "sys:version", "datetime:date"])
def test_a_class_that_is_not_a_profile_is_an_error(cli: CommandLine, classes: str, reference: str) -> None:
    assert cli.error("profile", reference.format(classes))["type"] == "InvalidDataError"


@pytest.mark.parametrize("path", ["./profiles_of_a_fair.py:Venue", "profiles_of_a_fair/x:Venue"])
def test_a_file_in_the_place_of_a_module_is_an_error_with_the_right_form(
    cli: CommandLine, classes: str, path: str
) -> None:
    output = cli.error("profile", path)["message"]
    assert "is not a module: write" in output
    if path.endswith(".py:Venue"):
        assert "write profiles_of_a_fair:Venue" in output


@pytest.mark.skipif("sys.platform == 'win32'", reason="consoles have other encodings there")
def test_invalid_utf_8_is_refused_and_nothing_is_kept(cli: CommandLine) -> None:
    command = [sys.executable, "-m", "factmem", "--store", str(cli.store), "remember", "-"]
    done = subprocess.run(
        command, input=b"\xff\xfe", capture_output=True, check=False, env=os.environ | {"PYTHONUTF8": "1"}
    )
    assert done.returncode == 2
    assert b"UTF-8" in done.stderr
    assert not cli.store.exists()


def test_an_argument_of_invalid_utf_8_is_refused(cli: CommandLine) -> None:
    assert cli.run("remember", "ab\udcff").code == 2
