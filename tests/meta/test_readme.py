"""Every fence of the README runs.

The fences of one section (down to the next heading) run in order, in one empty folder: Python
ones as scripts, shell ones line by line in a shell that stops at the first failure. Those that need a
model find one on this machine under FACTMEM_MODEL, which understands the README's few sentences. The two
fences that install are run by `.ci/run` itself, on a fresh environment.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from factmem.testing.chat_answers import chat_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.packages import QUIET, need_packages_of

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,3} ", re.MULTILINE)
INSTALLS = re.compile(r"pip install|\.ci/run|benchmarks/(locomo|longmemeval)")
RUNS_ELSEWHERE = re.compile(r"^from crewai ", re.MULTILINE)
SHOWN = {"", "text", "json", "toml"}
OLD_BREWERY = {"quote": "The old brewery seats 120", "message": 1, "value": 120}
ANSWERS: dict[str, dict[str, Any]] = {
    "Analysis": {"scope": None, "categories": ["plans"], "importance": 0.8, "entities": [], "dates": [], "topics": []},
    "ConsolidationAnswer": {
        "known": [{"number": 0, "action": "update", "text": "The launch is on 10 May."}],
        "insert": False,
    },
    "QuestionAnswer": {"questions": ["Who tunes the organ?"], "complexity": "complex"},
    "GapsAnswer": {"gaps": [{"missing": "who tunes the organ", "question": "Who is the organ's tuner?"}]},
}
SAYS = {
    "Facts find themselves": ["created 120 for Ada said The old brewery seats 120", "{}"],
    "Updates, and taking them back": ["updated The launch is on 3 May. -> The launch is on 10 May."],
    "In the background": ["['The cellar floods in March.']", "['The roof was mended.']"],
    "With a model": ["120"],
    "Deep recall": ["['who tunes the organ']", "None"],
}
"""Output of the fences of a section that proves the model's answers were understood."""


@attrs.frozen
class Section:
    """A heading, the fences below it (language and text), and whether its text mentions a model."""

    title: str
    fences: tuple[tuple[str, str], ...]
    asks: bool


def _sections() -> list[Section]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    # A comment in a fence looks like a heading, so the text is split outside of fences only.
    masked = FENCE.sub(lambda fence: re.sub(r"[^\n]", ".", fence[0]), text)
    starts = [heading.start() for heading in HEADING.finditer(masked)]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return [
        Section(part.splitlines()[0].lstrip("# "), tuple(FENCE.findall(part)), "FACTMEM_MODEL" in part)
        for part in parts
    ]


def _runnable(section: Section) -> tuple[tuple[str, str], ...]:
    return tuple(
        (language, code) for language, code in section.fences if language not in SHOWN and not INSTALLS.search(code)
    )


SECTIONS = [section for section in _sections() if _runnable(section)]


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """The address of a model that finds the number of seats, and moves the launch."""

    def respond(path: str, request: dict[str, Any]) -> Answer:
        schema = request["response_format"]["json_schema"]
        said = OLD_BREWERY["quote"] in request["messages"][-1]["content"]
        found = {field: [OLD_BREWERY] if said and field == "seats" else [] for field in schema["schema"]["properties"]}
        return chat_answer(ANSWERS.get(schema["name"], found))

    with LoopbackOpenAIServer(respond) as server:
        yield f"{server.base_url}#stand-in"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_the_fences_of_a_section_run(section: Section, tmp_path: Path, model: str) -> None:
    """A reader who copies the fences gets the described result, with warnings as errors and without a network."""
    shell = _shell_environment(tmp_path) | ({"FACTMEM_MODEL": model} if section.asks else {})
    said: list[str] = []
    work = tmp_path / "work"
    work.mkdir()
    (work / "benchmarks").symlink_to(ROOT / "benchmarks")
    for number, (language, code) in enumerate(_runnable(section)):
        script = tmp_path / f"fence_{number}.{language}"
        script.write_text(code, encoding="utf-8")
        if language == "python":
            need_packages_of(script)
        warnings = "ignore" if RUNS_ELSEWHERE.search(code) else "error"  # CrewAI emits warnings
        runner = {"python": [sys.executable, "-W", warnings], "bash": ["bash", "-euo", "pipefail"]}[language]
        done = subprocess.run(
            [*runner, str(script)], cwd=work, env=shell, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), code
        said += done.stdout.splitlines()
    assert [line for line in SAYS.get(section.title, ()) if line not in said] == []


def test_the_python_fences_pass_a_type_checker(pyright: str, tmp_path: Path) -> None:
    """The examples are typed correctly: a load that may return None is handled as one."""
    for section in SECTIONS:
        for number, (language, code) in enumerate(_runnable(section)):
            if language == "python" and not RUNS_ELSEWHERE.search(code):
                name = re.sub(r"\W+", "_", section.title.lower())
                (tmp_path / f"{name}_{number}.py").write_text(code, encoding="utf-8")
    # A class shown without annotations, for brevity, cannot match the contract's type variables.
    settings = {"reportIncompatibleMethodOverride": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [pyright, "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout


def test_the_readme_starts_with_the_two_commands() -> None:
    """One installs and runs the main task, one installs and runs the tests; `.ci/run` runs the first unchanged."""
    first = _sections()[0]
    commands = [code for language, code in first.fences if language == "bash"]
    assert len(commands) == 2
    assert "pip install" in commands[0]
    assert "factmem demo" in commands[0]
    assert ".ci/run" in commands[1]
    assert "README.md" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_the_files_that_the_readme_names_are_there() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", text))
    named |= set(re.findall(r"`((?:examples|benchmarks|providers|\.ci|\.github)/[\w./-]*\w)`", text))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def _shell_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which `python` and `factmem` are the ones under test."""
    commands = folder / "bin"
    commands.mkdir()
    for name, arguments in (("python", ""), ("factmem", "-m factmem ")):
        command = commands / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n', encoding="utf-8")
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    here = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
    own = {name: value for name, value in os.environ.items() if name != "FACTMEM_MODEL"}
    return own | QUIET | offline | here | {"PATH": os.pathsep.join([str(commands), os.environ["PATH"]])}
