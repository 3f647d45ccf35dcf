"""Existence of every test that the lists of conformance refer to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
REFERENCE = re.compile(r"\b(\w+/test_\w+\.py)(?:::(test_\w+))?")


def documented(path: Path) -> str:
    """Return the docstrings of a module and its definitions as one text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return "\n".join(ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds))


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("test_*.py")), ids=lambda path: str(path.stem))
def test_every_test_that_a_list_refers_to_exists(path: Path) -> None:
    missing = [
        match[0]
        for match in REFERENCE.finditer(documented(path))
        if not (TESTS / match[1]).is_file()
        or (match[2] and f"def {match[2]}(" not in (TESTS / match[1]).read_text(encoding="utf-8"))
    ]
    assert missing == []


def test_the_lists_are_read() -> None:
    """Guard against a pattern that matches no reference and so passes."""
    found = [REFERENCE.findall(documented(path)) for path in Path(__file__).parent.glob("test_crewai_*.py")]
    assert len(found) == 3
    assert all(len(references) > 5 for references in found)
