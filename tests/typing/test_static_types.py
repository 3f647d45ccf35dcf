"""Checkers see the types that users rely on, and the mistakes that users make."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = [str(HERE / "typed_memory.py"), str(HERE / "typed_mistakes.py")]


def test_mypy_sees_types_and_mistakes(tmp_path: Path) -> None:
    _check("mypy", "--strict", "--cache-dir", str(tmp_path), *FILES)


def test_pyright_sees_types_and_mistakes(tmp_path: Path) -> None:
    """By its own marks: those of mypy, which it would heed as well, do not count here."""
    settings = {"enableTypeIgnoreComments": False, "reportUnnecessaryTypeIgnoreComment": "error"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    for file in FILES:
        shutil.copy(file, tmp_path)
    _check("pyright", "--pythonpath", sys.executable, "--project", str(tmp_path))


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_mistake_that_is_not_marked_is_an_error(checker: str, tmp_path: Path) -> None:
    """The check checks something: without its marks, every marked line is reported."""
    text = (HERE / "typed_mistakes.py").read_text(encoding="utf-8")
    marked = [number for number, line in enumerate(text.splitlines(), start=1) if "# type: ignore" in line]
    bare = tmp_path / "bare_mistakes.py"
    bare.write_text("\n".join(line.partition("  # type: ignore")[0] for line in text.splitlines()), encoding="utf-8")
    options = ["--strict", "--cache-dir", str(tmp_path)] if checker == "mypy" else ["--pythonpath", sys.executable]
    told = _run(checker, *options, str(bare)).stdout
    assert [number for number in marked if f"bare_mistakes.py:{number}:" not in told] == []


def _check(checker: str, *arguments: str) -> None:
    result = _run(checker, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr


def _run(checker: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", checker, *arguments]
    return subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
