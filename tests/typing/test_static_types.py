"""Type checkers infer the types that users rely on, report common mistakes, and pass the fences of the pages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.test_pages import python_fences

HERE = Path(__file__).parent
RIGHT, MARKED, BARE = "typed_memory.py", "typed_mistakes.py", "bare_mistakes.py"
OPTIONS = {"mypy": ["--strict"], "pyright": ["--pythonpath", sys.executable, "--project"]}


@pytest.mark.parametrize("checker", OPTIONS)
def test_types_are_inferred_and_every_mistake_is_reported(checker: str, tmp_path: Path) -> None:
    """Without its marks every marked line is an error; with them none is. All is one run, since checkers start slowly.

    Pyright is checked by its own marks: those of mypy, which it respects as well, do not count. It reads the
    fences of the pages, too, where a load that may return None is handled as one.
    """
    settings: dict[str, object] = {"enableTypeIgnoreComments": False, "reportUnnecessaryTypeIgnoreComment": "error"}
    # A class shown without annotations, for brevity, cannot match the contract's type variables.
    settings["reportIncompatibleMethodOverride"] = False
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    for name, code in python_fences().items() if checker == "pyright" else ():
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    for name in (RIGHT, MARKED):
        shutil.copy(HERE / name, tmp_path)
    lines = (HERE / MARKED).read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, start=1) if "# type: ignore" in line}
    (tmp_path / BARE).write_text("\n".join(line.partition("  # type: ignore")[0] for line in lines), encoding="utf-8")
    # mypy uses the cache of MYPY_CACHE_DIR if it is set: a run over the whole tree has filled it.
    files = [str(tmp_path / name) for name in (RIGHT, MARKED, BARE)] if checker == "mypy" else [str(tmp_path)]
    command = [sys.executable, "-m", checker, *OPTIONS[checker], *files]
    caches = {"MYPY_CACHE_DIR": str(tmp_path / "cache")} | os.environ
    run = subprocess.run(command, cwd=HERE.parents[1], env=caches, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    assert _errors(run.stdout, RIGHT) == _errors(run.stdout, MARKED) == set(), run.stdout
    assert _errors(run.stdout, r"page_\w+\.py") == set(), run.stdout
    assert marked
    assert marked <= _errors(run.stdout, BARE)


def _errors(output: str, name: str) -> set[int]:
    """Return the line numbers of the errors in a file."""
    return {int(line) for line in re.findall(rf"\b{name}:(\d+):.*\berror\b", output)}
