"""Conversations on the command line: what is remembered at once, and what waits for a model."""

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
import json
import signal
import time
from collections.abc import Callable, Iterator

from factmem.browse.texts import short_id
from factmem.testing.chat_answers import chat_answer
from factmem.testing.openai_server import Answer

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine, Talk
    from tests.fork_server import ForkServer


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
    assert "is its address right? The words are kept" in done.err
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
    seats: int | None = pydantic.Field(None, le=100)
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


def test_a_json_schema_is_filled_with_what_is_known(cli: CommandLine, tmp_path: Path) -> None:
    cli.data("save", "born", "1990-02-03", "--type", "date")
    cli.data("save", "trips", "2026-01-01T09:00:00+01:00", "--type", "datetime", "--multiple")
    trips = {"type": "array", "items": {"type": "string", "format": "date-time"}}
    properties = {"born": {"type": "string", "format": "date"}, "trips": trips}
    (tmp_path / "person.json").write_text(json.dumps({"title": "Person", "properties": properties}))
    output = cli.data("profile", str(tmp_path / "person.json"))
    assert output["known"] == {"born": "1990-02-03", "trips": ["2026-01-01T08:00:00+00:00"]}


def test_a_pydantic_model_is_a_profile_too(cli: CommandLine, classes: str) -> None:
    output = cli.data("profile", f"{classes}:Guest")
    assert (output["complete"], output["known"], output["unknown"]) == (True, {}, ["pet", "seats"])


def test_a_stored_value_that_a_class_refuses_is_named(cli: CommandLine, classes: str) -> None:
    cli.data("save", "seats", "120", "--type", "int")
    cli.data("save", "pet", "cat")
    output = cli.data("profile", f"{classes}:Guest")
    assert (output["known"], output["refused"]) == ({"pet": "cat"}, ["seats"])
    page = cli.run("profile", f"{classes}:Guest").out
    assert page.splitlines() == ["pet    cat", "seats  stored, but the profile does not accept it"]


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


# Words that are not facts yet: pending, unreadable, or quarantined.


SEATS = {"seats": [{"quote": "120 seats", "message": 1, "value": 120}]}


def test_words_that_nobody_could_read_are_kept_and_read_once_the_model_is_up(
    cli: CommandLine, talk: Talk, concepts: Path, nobody: str
) -> None:
    words = ("--json", "--model", nobody, "ingest", str(talk(SAID)), "--concepts", str(concepts))
    done = cli.run(*words)
    assert (done.code, json.loads(done.out)["dead_letters"]) == (1, 1)
    error = json.loads(done.err)["error"]
    assert error["type"] == "ModelUnavailableError"
    assert "dead-letters retry" in error["message"]
    assert [match["record"]["value"] for match in cli.matches("venue")] == [SAID]
    (letter,) = cli.data("dead-letters", "list")
    assert (letter["failure"], letter["records"][0]["value"]) == ("ModelUnavailableError", SAID)
    assert cli.data("info")["dead_letters"] == 1
    assert cli.error("dead-letters", "retry")["type"] == "CapabilityError"
    failed = cli.run("--model", nobody, "dead-letters", "retry")
    assert failed.code == 1
    assert failed.out == "1 dead letter tried: 0 facts created, 0 updated, 0 deleted, 0 quarantined\n"
    with LoopbackOpenAIServer(answering(SEATS)) as server:
        retried = cli.data("--model", at(server), "dead-letters", "retry", letter["id"][12:18])
    assert (retried["retried"], retried["created"], retried["dead_letters"]) == (1, 2, 0)
    assert cli.data("load", "seats")["value"] == 120
    assert cli.data("dead-letters", "list") == []


def test_taking_in_again_what_could_not_be_read_tries_again(cli: CommandLine, talk: Talk, concepts: Path) -> None:
    with LoopbackOpenAIServer(answering(chat_answer(None, refusal="No."), SEATS)) as server:
        words = ("--model", at(server), "ingest", str(talk(SAID)), "--concepts", str(concepts))
        assert cli.run(*words).code == 1
        assert cli.data(*words)["created"] == 2


def test_the_reason_of_a_dead_letter_is_in_the_terms_of_the_command_line(cli: CommandLine) -> None:
    with LoopbackOpenAIServer(answering("not JSON")) as server:
        cli.run("--model", at(server), "remember", SAID)
    shown = cli.run("dead-letters", "list").out
    assert "ask a larger model" in shown
    assert "tries=" not in shown
    (letter,) = cli.data("dead-letters", "list")
    assert letter["reason"].endswith("ask a larger model")


def test_a_dead_letter_may_be_let_stand(cli: CommandLine, talk: Talk) -> None:
    with LoopbackOpenAIServer(answering(chat_answer(None, refusal="No."))) as server:
        done = cli.run("--model", at(server), "ingest", str(talk(SAID)))
    assert (done.code, "dead-letters retry" in done.err) == (1, True)
    assert "1 conversation could not be read: the language model refused to answer" in done.err
    (letter,) = cli.data("dead-letters", "list")
    assert f"id {short_id(letter['id'])}" in cli.run("dead-letters", "list").out
    assert cli.data("dead-letters", "dismiss", letter["id"]) == {"dismissed": 1}
    assert cli.run("dead-letters", "list", "--all-users").out == "There are no dead letters.\n"
    assert cli.error("dead-letters", "dismiss", letter["id"])["type"] == "RecordNotFoundError"
    assert [match["record"]["value"] for match in cli.matches("venue")] == [SAID]


def slow_at(first: int) -> Callable[[str, dict[str, Any]], Answer]:
    """Answer at once, except for a number of first questions, which wait without end."""
    asked = iter(range(first))
    ready = answering(SEATS)

    def respond(path: str, request: dict[str, Any]) -> Answer:
        answer = ready(path, request)
        return answer if next(asked, None) is None else Answer(answer.body, delay=60)

    return respond


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let new processes receive an interrupt, even if the shell that started the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif("sys.platform == 'win32'", reason="there are no such signals")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_broken_off_is_finished_by_resuming(
    processes: CommandLine, talk: Talk, concepts: Path, end: signal.Signals, fork_server: ForkServer, tmp_path: Path
) -> None:
    files = [str(talk(SAID, id=f"talk-{number}", name=f"{number}.json")) for number in range(3)]
    with LoopbackOpenAIServer(slow_at(3)) as server:
        words = ["--model", at(server), "ingest", *files, "--concepts", str(concepts)]
        command = [sys.executable, "-m", "factmem", "--store", str(processes.store), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            while len(server.requests) < 3:
                assert running.poll() is None
                time.sleep(0.02)
            running.send_signal(end)
            _, err = running.communicate()
        assert running.returncode == (130 if end is signal.SIGINT else -signal.SIGKILL)
        if end is signal.SIGINT:
            assert "3 of 3 are not read yet" in err
            assert f"factmem --store {processes.store} --model '{at(server)}' resume\n" in err
            assert "Traceback" not in err
        assert len(processes.matches("venue seats")) == 1, "pending words can be recalled"
        words = ["-m", "factmem", "--store", str(processes.store), "--json", "--model", at(server), "resume"]
        done = fork_server.run(*words, cwd=Path.cwd(), env=os.environ, timeout=100, outputs=tmp_path)
        resumed = json.loads(done.stdout)
    assert (resumed["resumed"], resumed["created"], resumed["dead_letters"]) == (3, 2, 0)
    assert len(server.requests) == 6
    assert processes.data("load", "seats")["value"] == 120
    assert processes.data("info")["records"] == 2


def test_resuming_where_nothing_waits_says_so(cli: CommandLine, nobody: str) -> None:
    cli.data("save", "seats", "120")
    assert cli.run("--model", nobody, "resume").out == "Nothing waits.\n"
    assert cli.data("--model", nobody, "resume")["resumed"] == 0
    assert "FACTMEM_MODEL" in cli.error("resume")["message"]


def test_the_quarantined_is_accepted_or_rejected(cli: CommandLine, talk: Talk) -> None:
    said = ["The venue moved to the palace.", "The venue burnt down."]
    cli.data("ingest", str(talk("What does the page say?", *said, roles=["user", "tool", "tool"])))
    assert cli.data("info")["quarantined"] == 2
    moved, burnt = cli.data("quarantine", "list")["records"]
    assert [moved["origin"], moved["value"], burnt["value"]] == ["tool", *said]
    assert "tool  The venue moved to the palace." in cli.run("quarantine", "list").out
    (change,) = cli.data("quarantine", "accept", moved["id"], "--reason", "I looked")
    assert (change["kind"], change["record"]["value"]) == ("created", said[0])
    assert "rejected  The venue burnt down." in cli.run("quarantine", "reject", burnt["id"]).out
    assert cli.run("quarantine", "list").out == "Nothing is quarantined.\n"
    assert said[0] in [match["record"]["value"] for match in cli.matches("venue")]
    assert cli.error("quarantine", "accept", "nothing")["type"] == "RecordNotFoundError"


def test_many_quarantined_are_decided_at_once_by_filters(cli: CommandLine, talk: Talk) -> None:
    said = [*(f"Hall {number} has a stage." for number in range(3)), "The venue burnt down."]
    done = cli.run("ingest", str(talk("What does it say?", *said, roles=["user", *["tool"] * 4])))
    assert "quarantine list" in done.err
    halls = ("--pattern", "^Hall")
    assert [waiting["value"] for waiting in cli.data("quarantine", "list", *halls)["records"]] == said[:3]
    first = cli.data("quarantine", "list", "--limit", "3")
    rest = cli.data("quarantine", "list", "--limit", "3", "--page", first["next_page"])
    assert ([waiting["value"] for waiting in rest["records"]], rest["next_page"]) == (said[3:], None)
    assert f"There is more: --page {first['next_page']}" in cli.run("quarantine", "list", "--limit", "3").out
    assert {waiting["quarantine_reason"] for waiting in first["records"]} == {"from a tool"}
    assert cli.data("info")["reasons"] == {"from a tool": 4}
    assert "waits: from a tool" in cli.run("quarantine", "list").out
    assert "add --all" in cli.error("quarantine", "accept", *halls)["message"]
    one = first["records"][0]["id"]
    assert "not both" in cli.error("quarantine", "accept", one, "--all")["message"]
    accepted = cli.data("quarantine", "accept", "--all", *halls)
    assert [change["record"]["value"] for change in accepted] == said[:3]
    assert len(cli.data("quarantine", "reject", "--all", "--reason", "rumours")) == 1
    assert cli.data("quarantine", "list")["records"] == []
    assert cli.data("quarantine", "reject", "--all") == []


def test_info_reads_the_reasons_of_the_newest_of_many_waiting_records(
    cli: CommandLine, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("factmem.cli.store._REASONS_READ", 3)
    cli.data("ingest", str(talk("Hi", *(f"Hall {at} has a stage." for at in range(5)), roles=["user", *["tool"] * 5])))
    cli.data("ingest", str(talk("Hi", "The roof leaks.", roles=["user", "tool"])), "--scope", "/product/fair")
    found = cli.data("info")
    assert (found["quarantined"], found["reasons"], found["reasons_of"]) == (6, {"from a tool": 3}, 3)
    found = cli.data("info", "/product/fair")
    assert (found["quarantined"], found["reasons"], "reasons_of" in found) == (1, {"from a tool": 1}, False)
    monkeypatch.setattr("factmem.cli.store._REASONS_SHOWN", 0)
    assert cli.data("info")["reasons"] == {"other reasons": 3}
    assert "quarantine list" in cli.run("info").err


def test_a_record_that_waits_says_how_to_review_it(cli: CommandLine, talk: Talk) -> None:
    cli.data("save", "seats", "120")
    assert cli.data("remember", "The venue is open.")["waiting"] == 0
    cli.run("ingest", str(talk("What does it say?", "The venue burnt down.", roles=["user", "tool"])))
    done = cli.run("info")
    assert "from a tool: 1" in done.out
    assert f"factmem --store {cli.store} quarantine list" in done.err


def test_without_a_model_no_client_is_loaded(processes: CommandLine, talk: Talk) -> None:
    code = (
        "import sys; from factmem.cli.app import app\n"
        "try: app(sys.argv[1:])\n"
        "finally: print([name for name in ('openai', 'instructor') if name in sys.modules], file=sys.stderr)"
    )
    words = [sys.executable, "-c", code, "--store", str(processes.store), "ingest", str(talk(SAID))]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | {"FACTMEM_MODEL": ""})
    assert done.stderr == "[]\n"
