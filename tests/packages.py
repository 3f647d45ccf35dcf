"""Which packages a file of ours needs, for tests that must say so where one is not installed."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest


def need_packages_of(path: Path) -> None:
    """Skip the running test, and say why, if a file imports at its top what is not installed here."""
    if missing := sorted(filter(_missing, _imported(path))):
        pytest.skip(f"{path.name} needs {', '.join(missing)}, which this environment does not have")


def _imported(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name for name in found if name.partition(".")[0] not in ("factmem", "tests")}


def _missing(name: str) -> bool:
    try:
        return find_spec(name) is None
    except ModuleNotFoundError:
        return True
