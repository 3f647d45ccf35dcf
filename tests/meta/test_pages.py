"""Every fence of the README and of the pages in docs/ runs.

The fences of a page run in order, in one folder that is empty at first, as a reader copies them. Those of a section
(down to the next heading) print the output that it shows, and what they import comes with the extras that the page has
named by then. Those that need a model find one on this machine under FACTMEM_MODEL, which understands the few sentences
of the pages. The two fences that install are run by `.ci/run` itself, on a fresh environment.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from factmem import AgentMemory, Memory
from factmem.testing.chat_answers import chat_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.fork_server import ForkServer
from tests.packages import QUIET, imports_of, need_packages_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "pages"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTS = re.compile(r"prints[^:\n]*:\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXTRA = re.compile(r"extra\s+`([\w-]+)`|factmem\[([\w,-]+)\]")
HEADING = re.compile(r"^#{1,3} ", re.MULTILINE)
INSTALLS = re.compile(r"pip install|\.ci/run|benchmarks/(locomo|longmemeval)")
RUNS_ELSEWHERE = re.compile(r"^from crewai ", re.MULTILINE)
SHOWN = {"", "console", "text", "json", "sql", "toml"}
BREWERY = {"quote": "The brewery has 120 seats", "message": 1, "value": 120}
ANSWERS: dict[str, dict[str, Any]] = {
    "Analysis": {"scope": None, "categories": ["plans"], "importance": 0.8, "entities": [], "dates": [], "topics": []},
    "ConsolidationAnswer": {
        "known": [{"number": 0, "action": "update", "text": "The launch is on 10 May."}],
        "insert": False,
    },
    "QuestionAnswer": {"questions": ["Who tunes the organ?"], "complexity": "complex"},
    "GapsAnswer": {"gaps": [{"missing": "who tunes the organ", "question": "Who is the organ's tuner?"}]},
}


@attrs.frozen
class Section:
    """The fences below a heading (language and text), the lines that they print, and whether a model is mentioned."""

    fences: tuple[tuple[str, str], ...]
    prints: tuple[str, ...]
    asks: bool

    @property
    def runnable(self) -> tuple[tuple[str, str], ...]:
        """The fences that are run here."""
        return tuple(
            (language, code) for language, code in self.fences if language not in SHOWN and not INSTALLS.search(code)
        )


@attrs.frozen
class Page:
    """A file of sections; its name is its path within docs/pages, without the suffix."""

    name: str
    text: str
    sections: tuple[Section, ...]


def _page(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    # A comment in a fence looks like a heading, so the text is split outside of fences only.
    masked = FENCE.sub(lambda fence: re.sub(r"[^\n]", ".", fence[0]), text)
    starts = [heading.start() for heading in HEADING.finditer(masked)]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    sections = tuple(
        Section(
            tuple(FENCE.findall(part)),
            tuple(line for shown in PRINTS.findall(part) for line in shown.splitlines()),
            "FACTMEM_MODEL" in part,
        )
        for part in parts
    )
    name = path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).with_suffix("").as_posix()
    return Page(name, text, sections)


PAGES = [_page(path) for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))]
NEXT_STEP = "Review what waits in quarantine with"
"""A note of the terminal for people, which is printed to stderr."""

RUN = [page for page in PAGES if any(section.runnable for section in page.sections)]


def python_fences() -> Mapping[str, str]:
    """Return the Python fences that are run here, each by the name of a module; `tests/typing` checks their types."""
    return {
        re.sub(r"\W+", "_", f"page_{page.name}_{number}_{place}"): code
        for page in RUN
        for number, section in enumerate(page.sections)
        for place, (language, code) in enumerate(section.runnable)
        if language == "python" and not RUNS_ELSEWHERE.search(code)
    }


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """The address of a model that finds the number of seats, and moves the launch."""

    def respond(path: str, request: dict[str, Any]) -> Answer:
        schema = request["response_format"]["json_schema"]
        said = BREWERY["quote"] in request["messages"][-1]["content"]
        found = {field: [BREWERY] if said and field == "seats" else [] for field in schema["schema"]["properties"]}
        return chat_answer(ANSWERS.get(schema["name"], found))

    with LoopbackOpenAIServer(respond) as server:
        yield f"{server.base_url}#stand-in"


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_fences_of_a_page_run(page: Page, tmp_path: Path, model: str, fork_server: ForkServer) -> None:
    """A reader who copies the fences gets the described result, with warnings as errors and without a network."""
    shell = _shell_environment(tmp_path)
    fences: list[tuple[str, str, str | None]] = []
    work = tmp_path / "page"
    work.mkdir()
    (work / "benchmarks").symlink_to(ROOT / "benchmarks")
    for section in page.sections:
        for language, code in section.runnable:
            script = tmp_path / f"fence_{len(fences)}.{ {'python': 'py', 'bash': 'sh'}[language] }"
            script.write_text(code, encoding="utf-8")
            fences.append((str(work), str(script), model if section.asks else None))
            if language == "python":
                need_packages_of(script)
    listed = tmp_path / "fences.json"
    listed.write_text(json.dumps(fences), encoding="utf-8")
    runner, here = str(Path(__file__).with_name("run_fences.py")), tmp_path
    if RUNS_ELSEWHERE.search(page.text):  # CrewAI emits warnings
        command = [sys.executable, "-W", "ignore", runner, str(listed)]
        done = subprocess.run(command, cwd=here, env=shell, capture_output=True, text=True, timeout=170, check=False)
    else:
        done = fork_server.run(runner, str(listed), cwd=here, env=shell, timeout=170, outputs=here)
    warned = [line for line in done.stderr.splitlines() if not line.startswith(NEXT_STEP)]
    assert (done.returncode, warned) == (0, []), done.stdout
    outputs = iter(done.stdout.split("\f\n")[1:])
    for section in page.sections:
        printed = [line for output in itertools.islice(outputs, len(section.runnable)) for line in output.splitlines()]
        rest = iter(printed)
        assert [line for line in section.prints if line not in rest] == [], printed


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_a_page_names_the_extras_of_a_fence_before_it(page: Page, tmp_path: Path) -> None:
    """Packages that a fence imports, itself or through a module of factmem, are installed by then."""
    homes = _homes()
    for fence in FENCE.finditer(page.text):
        language, code = fence.groups()
        if language != "python" or INSTALLS.search(code):
            continue
        extras = {name for found in EXTRA.findall(page.text[: fence.start()]) for name in ",".join(found).split(",")}
        installed = _required("factmem", frozenset(extras))
        script = tmp_path / "fence.py"
        script.write_text(code, encoding="utf-8")
        imported = imports_of(script) | {
            name
            for module in imports_of(script, of="factmem")
            if (spec := find_spec(module)) is not None and spec.origin is not None
            for name in imports_of(Path(spec.origin))
        }
        needed = {name: homes[top] for name in imported if (top := name.partition(".")[0]) in homes}
        missing = [name for name, found in needed.items() if not installed.intersection(map(canonicalize_name, found))]
        assert missing == [], f"{extras} do not install them"


@functools.cache
def _homes() -> Mapping[str, list[str]]:
    """Return the distributions of each top-level package; finding them reads the metadata of all."""
    return metadata.packages_distributions()


@functools.cache
def _required(distribution: str, extras: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the distributions that one installs with some of its extras, itself included."""
    found, waiting = set[str](), [(distribution, extras)]
    seen = set(waiting)
    while waiting:
        name, chosen = waiting.pop()
        found.add(canonicalize_name(name))
        try:
            requirements = [Requirement(text) for text in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:
            continue
        for item in requirements:
            marker = item.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*chosen, "")):
                further = (item.name, frozenset(item.extras))
                waiting += [further] if further not in seen else []
                seen.add(further)
    return frozenset(found)


def test_the_shelf_of_the_page_on_providers_is_the_one_that_passes_the_kit() -> None:
    """`.ci/run` runs the kit on it."""
    (page,) = (page for page in PAGES if page.name == "how-to/provider")
    shelf = ROOT / "examples/third_party_provider/factmem_shelf/provider.py"
    first, *_ = (code for language, code in FENCE.findall(page.text) if language == "python")
    assert first.startswith(shelf.read_text(encoding="utf-8"))


def test_the_readme_starts_with_the_two_commands() -> None:
    """One installs and runs the main task, one installs and runs the tests; `.ci/run` runs the first unchanged."""
    first = PAGES[0].sections[0]
    commands = [code for language, code in first.fences if language == "bash"]
    assert len(commands) == 2
    assert "pip install" in commands[0]
    assert "factmem demo" in commands[0]
    assert ".ci/run" in commands[1]
    assert "README.md" in (ROOT / ".ci/run").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_that_a_page_names_are_there(page: Page) -> None:
    """Links to files of the repository lead somewhere."""
    named = set(re.findall(r"`((?:examples|benchmarks|providers|tests|\.ci|\.github)/[\w./-]*\w)`", page.text))
    if page.name == "README":
        named |= set(re.findall(r"\]\((?!https?:|#)([^)#]+)", page.text))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_a_row_of_a_table_stands_on_one_line() -> None:
    """A row that is wrapped ends the table."""
    rows = ((page.name, line) for page in PAGES for line in page.text.splitlines() if line.startswith("|"))
    assert [(name, line) for name, line in rows if not line.endswith("|")] == []


def _shell_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which `python` and `factmem` are the ones under test."""
    commands = folder / "bin"
    commands.mkdir()
    asking = Path(__file__).with_name("ask_command.py")
    for name, arguments in (("python", ""), ("factmem", f"-IS {asking} ")):
        command = commands / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n', encoding="utf-8")
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    here = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
    own = {name: value for name, value in os.environ.items() if name != "FACTMEM_MODEL"}
    return own | QUIET | offline | here | {"PATH": os.pathsep.join([str(commands), os.environ["PATH"]])}


def test_the_methods_of_a_memory_that_the_pages_name_exist() -> None:
    named = re.compile(r"`memory\.(?!jsonl)(\w+)")
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted(DOCS.rglob("*.md"))
        for name in named.findall(path.read_text(encoding="utf-8"))
        if not any(hasattr(kind, name) for kind in (Memory, AgentMemory))
    ]
    assert missing == []
