"""The command line in processes of its own, as people run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from factmem import BlockingMemory, Memory
from factmem.cli.demo import _QUESTIONS
from factmem.testing import FakeClock

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine, Talk


def test_one_process_ingests_and_another_recalls(processes: CommandLine, talk: Talk) -> None:
    file = talk("The venue is the old tram depot.", "It has room for 120 people.", "I am allergic to hazelnuts.")
    assert processes.fork("ingest", str(file)).code == 0
    done = processes.fork("recall", "What is Maya allergic to?", "--json", "--limit", "1")
    assert done.err == ""
    (match,) = json.loads(done.out)["matches"]
    assert match["record"]["value"] == "I am allergic to hazelnuts."
    assert match["record"]["evidence"][0]["speaker"] == "Maya"


def test_the_demo_is_right_now_and_will_be_in_many_years(processes: CommandLine) -> None:
    """It shows facts with their sources; the answers must not depend on recency."""
    done = processes.fork("demo", "--keep", str(processes.store))
    assert done.code == 0, done.err
    for shown in (
        "2025-09-27 07:36 UTC · about user:Maya",
        "— Maya (user), conversation three-weeks-left",
        "2 quarantined, secrets redacted: 1 password",
        "right facts came first",
        "The password is in no file of the store, and the web page was not believed.",
        "What to type next:",
        f"factmem --store {processes.store} list",
    ):
        assert shown in done.out, done.out
    assert "✗" not in done.out
    clock = FakeClock()
    clock.advance(clock().replace(year=2040) - clock())
    with BlockingMemory(Memory(str(processes.store), clock=clock)) as memory:
        for question, expected in _QUESTIONS:
            (match,) = memory.recall(question, limit=1)
            assert expected in str(match.record.value)


@pytest.mark.big
def test_the_demo_as_json_reports_each_answer_and_keeps_nothing(processes: CommandLine) -> None:
    done = processes.fork("--json", "demo")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert [answer["question"] for answer in report["answers"]] == [question for question, _ in _QUESTIONS]
    assert all(answer["right"] for answer in report["answers"])
    for answer, (_, expected) in zip(report["answers"], _QUESTIONS, strict=True):
        assert expected in answer["text"]
    assert report["leaks"] == []
    assert report["taken_in"]["redacted"] == {"password": 1}
    assert report["taken_in"]["quarantined"] == 2  # the words of the page, and the repetition of them
    assert report["store"] is None


def test_the_demo_overwrites_nothing(processes: CommandLine) -> None:
    processes.store.write_text("mine")
    done = processes.fork("demo", "--keep", str(processes.store))
    assert done.code == 1
    assert "already" in done.err
    assert processes.store.read_text() == "mine"


def test_starting_imports_nothing_heavy(processes: CommandLine) -> None:
    code = (
        "import sys; import factmem.cli, factmem.cli.app; "
        "print([name for name in ('numpy', 'apsw', 'wordllama', 'openai', 'rich.progress') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.skipif("sys.platform == 'win32'", reason="there are no such pipes and signals")
def test_a_reader_that_closes_the_pipe_causes_no_error(processes: CommandLine, talk: Talk) -> None:
    processes.run("ingest", str(talk(*(f"Stall {number} sells tea. {'x' * 900}" for number in range(50)))))
    for words in (["recall", "tea", "--limit", "50"], ["--json", "recall", "tea", "--limit", "50"], ["export", "-"]):
        command = [sys.executable, "-m", "factmem", "--store", str(processes.store), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            running.stdout.close()
            assert b"Traceback" not in running.stderr.read()
            assert running.wait() == 141, words


@pytest.mark.skipif("sys.platform == 'win32'", reason="there are no such pipes and signals")
def test_an_interrupt_is_clean(processes: CommandLine) -> None:
    processes.run("save", "seats", "120")
    command = [sys.executable, "-m", "factmem", "--store", str(processes.store), "forget", "--concept", "seats"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        asked = b""
        while b"[y/N]" not in asked:
            part = os.read(running.stderr.fileno(), 4096)
            assert part, asked
            asked += part
        running.send_signal(signal.SIGINT)
        assert b"Traceback" not in running.stderr.read()
        assert running.wait() == -signal.SIGINT
    assert processes.run("load", "seats").out == "120\n"


@pytest.mark.skipif("sys.platform == 'win32'", reason="needs a POSIX shell")
@pytest.mark.parametrize(("words", "code"), [("list >&-", 0), ("remember - <&-", 1), ("list <&- >&- 2>&-", 0)])
def test_streams_that_the_parent_closed_are_nowhere(processes: CommandLine, words: str, code: int) -> None:
    """Services are started so. The files of the store must not get the numbers of these streams."""
    processes.run("save", "seats", "120")
    command = f"{sys.executable} -m factmem --store {processes.store} {words}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, encoding="utf-8", check=False, timeout=100)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


def test_a_narrow_encoding_breaks_nothing(processes: CommandLine) -> None:
    processes.run("save", "café", "crème brûlée ☕")
    narrow = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert processes.spawn("recall", "café", env=narrow).code == 0
    assert json.loads(processes.spawn("load", "café", "--json", env=narrow).out)["value"] == "crème brûlée ☕"


def test_no_color_is_honoured(processes: CommandLine) -> None:
    processes.run("save", "seats", "120")
    done = processes.fork("recall", "seats", env={"FORCE_COLOR": "1", "NO_COLOR": "1"})
    assert "\x1b[32m" not in done.out
    assert "\x1b[1;32m" not in done.out
