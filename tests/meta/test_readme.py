"""Every fence of the README runs.

The fences of one section (down to the next heading) run in their order, in one empty folder: Python
ones as scripts, shell ones line by line in a shell that stops at the first failure. The two fences
that install are run by `.ci/run` itself, on a fresh environment.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,3} ", re.MULTILINE)
INSTALLS = re.compile(r"pip install|\.ci/run|benchmarks/(locomo|longmemeval)")
SHOWN = {"", "text", "json", "toml"}


@attrs.frozen
class Section:
    """A heading and the fences below it: language and text."""

    title: str
    fences: tuple[tuple[str, str], ...]


def _sections() -> list[Section]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    # A comment in a fence looks like a heading: cut outside of fences only.
    masked = FENCE.sub(lambda fence: re.sub(r"[^\n]", ".", fence[0]), text)
    starts = [heading.start() for heading in HEADING.finditer(masked)]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return [Section(part.splitlines()[0].lstrip("# "), tuple(FENCE.findall(part))) for part in parts]


def _runnable(section: Section) -> tuple[tuple[str, str], ...]:
    return tuple(
        (language, code) for language, code in section.fences if language not in SHOWN and not INSTALLS.search(code)
    )


SECTIONS = [section for section in _sections() if _runnable(section)]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_the_fences_of_a_section_run(section: Section, tmp_path: Path) -> None:
    """Whoever copies them gets what the text says, with warnings as errors and without a network."""
    shell = _shell_environment(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    (work / "benchmarks").symlink_to(ROOT / "benchmarks")
    for number, (language, code) in enumerate(_runnable(section)):
        script = tmp_path / f"fence_{number}.{language}"
        script.write_text(code, encoding="utf-8")
        runner = {"python": [sys.executable, "-W", "error"], "bash": ["bash", "-euo", "pipefail"]}[language]
        done = subprocess.run(
            [*runner, str(script)], cwd=work, env=shell, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), code


def test_the_python_fences_pass_a_type_checker(pyright: str, tmp_path: Path) -> None:
    """What is shown is typed as it is used: a load that may give None is treated as one."""
    for section in SECTIONS:
        for number, (language, code) in enumerate(_runnable(section)):
            if language == "python":
                name = re.sub(r"\W+", "_", section.title.lower())
                (tmp_path / f"{name}_{number}.py").write_text(code, encoding="utf-8")
    # A class that is shown without annotations, for brevity, cannot match the contract's type variables.
    settings = {"reportIncompatibleMethodOverride": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [pyright, "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout


def test_the_readme_starts_with_the_two_commands() -> None:
    """One installs and runs the main job, one installs and runs the tests; `.ci/run` runs the first as it stands."""
    first = _sections()[0]
    commands = [code for language, code in first.fences if language == "bash"]
    assert len(commands) == 2
    assert "pip install" in commands[0]
    assert "factmem demo" in commands[0]
    assert ".ci/run" in commands[1]
    assert "README.md" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_the_files_that_the_readme_names_are_there() -> None:
    """Links to files of the repository lead somewhere."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", text))
    named |= set(re.findall(r"`((?:examples|benchmarks|providers|\.ci|\.github)/[\w./-]*\w)`", text))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def _shell_environment(folder: Path) -> dict[str, str]:
    """An environment in which `python` and `factmem` are the ones under test."""
    commands = folder / "bin"
    commands.mkdir()
    for name, arguments in (("python", ""), ("factmem", "-m factmem ")):
        command = commands / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n', encoding="utf-8")
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    return os.environ | offline | {"PATH": os.pathsep.join([str(commands), os.environ["PATH"]])}
