"""Words that are not facts yet: pending, unreadable, or quarantined."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from factmem.browse.texts import short_id
from factmem.testing.chat_answers import answering, chat_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine, Talk
    from tests.fork_server import ForkServer

SEATS = {"seats": [{"quote": "120 seats", "message": 1, "value": 120}]}
SAID = "The venue has 120 seats."


def at(server: LoopbackOpenAIServer) -> str:
    return f"{server.base_url}#m"


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
    assert cli.run("--model", nobody, "dead-letters", "retry").code == 1
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
        cli.run("--model", at(server), "ingest", str(talk(SAID)))
    (letter,) = cli.data("dead-letters", "list")
    assert f"id {short_id(letter['id'])}" in cli.run("dead-letters", "list").out
    assert cli.data("dead-letters", "dismiss", letter["id"]) == {"dismissed": 1}
    assert cli.run("dead-letters", "list").out == "There are no dead letters.\n"
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
    moved, burnt = cli.data("quarantine", "list")
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
    assert [waiting["value"] for waiting in cli.data("quarantine", "list", *halls)] == said[:3]
    assert {waiting["quarantine_reason"] for waiting in cli.data("quarantine", "list")} == {"from a tool"}
    assert cli.data("info")["reasons"] == {"from a tool": 4}
    assert "waits: from a tool" in cli.run("quarantine", "list").out
    assert "add --all" in cli.error("quarantine", "accept", *halls)["message"]
    one = cli.data("quarantine", "list")[0]["id"]
    assert "not both" in cli.error("quarantine", "accept", one, "--all")["message"]
    accepted = cli.data("quarantine", "accept", "--all", *halls)
    assert [change["record"]["value"] for change in accepted] == said[:3]
    assert len(cli.data("quarantine", "reject", "--all", "--reason", "rumours")) == 1
    assert cli.data("quarantine", "list") == []
    assert cli.data("quarantine", "reject", "--all") == []


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
