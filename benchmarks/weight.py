"""Weight of the code by package: files, code lines, AST statements, functions, classes and exported names.

    python benchmarks/weight.py [--against CHECKOUT] [--json]

Docstrings, comments and blanks are not code lines. Statements are counted beside lines, so that dense code saves
nothing. Exported names are those in the ``__all__`` of a package's ``__init__.py``.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import tokenize
from collections.abc import Iterator
from pathlib import Path

import attrs
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("factmem", "providers")
LIMITS = {"what ships": 40_000, "tests": 42_000}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@attrs.frozen
class Weight:
    """Size of some modules."""

    files: int = 0
    code: int = 0
    statements: int = 0
    functions: int = 0
    classes: int = 0
    exported: int = 0

    def __add__(self, other: Weight) -> Weight:
        return Weight(*(mine + others for mine, others in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))

    def __sub__(self, other: Weight) -> Weight:
        return Weight(*(mine - others for mine, others in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))


def weight_of(path: Path) -> Weight:
    """Return the weight of one module."""
    source = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {line for node in nodes if isinstance(node, DOCUMENTED) for line in _docstring_lines(node)}
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    return Weight(
        files=1,
        code=len(lines - docstrings),
        statements=sum(isinstance(node, ast.stmt) for node in nodes),
        functions=sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes),
        classes=sum(isinstance(node, ast.ClassDef) for node in nodes),
        exported=sum(map(_exported, nodes)) if path.name == "__init__.py" else 0,
    )


def _docstring_lines(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    match node.body:
        case [ast.Expr(value=ast.Constant(value=str())) as first, *_]:
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def _exported(node: ast.AST) -> int:
    match node:
        case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=names) | ast.Tuple(elts=names)):
            return len(names)
    return 0


def weigh(checkout: Path) -> dict[str, Weight]:
    """Return the weight of each package of a checkout, and of its tests."""
    packages: dict[str, Weight] = {}
    for root in (*SHIPPED, "tests"):
        for path in sorted((checkout / root).rglob("*.py")):
            parts = path.relative_to(checkout).parts
            package = "/".join(parts[:2]) if root != "tests" and len(parts) > 2 else root
            packages[package] = packages.get(package, Weight()) + weight_of(path)
    return packages


def sums(packages: dict[str, Weight]) -> dict[str, Weight]:
    """Return the weight of all that ships, and of the tests."""
    shipped = (weight for package, weight in packages.items() if package != "tests")
    return {"what ships": sum(shipped, Weight()), "tests": packages.get("tests", Weight())}


def show(now: dict[str, Weight], before: dict[str, Weight]) -> None:
    table = Table("", *(field.name for field in attrs.fields(Weight)), "limit")
    for column in table.columns[1:]:
        column.justify = "right"
    rows = sorted(((name, weight) for name, weight in now.items() if name != "tests"), key=lambda row: -row[1].code)
    for name, weight in (*rows, *sums(now).items()):
        if name == "what ships":
            table.add_section()
        old = sums(before)[name] if name in LIMITS else before.get(name, Weight())
        cells = zip(attrs.astuple(weight), attrs.astuple(weight - old), strict=True)
        limit = f"{LIMITS[name]:,}" if name in LIMITS else ""
        table.add_row(name, *(f"{size:,} ({by:+,})" if before else f"{size:,}" for size, by in cells), limit)
    Console(width=None if Console().is_terminal else 140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Weigh the code.")
    parser.add_argument("--against", type=Path, help="a checkout of another commit, to print the differences from")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    now = weigh(ROOT)
    if options.json:
        print(json.dumps({name: attrs.asdict(weight) for name, weight in (now | sums(now)).items()}))
        return
    show(now, weigh(options.against) if options.against else {})


if __name__ == "__main__":
    main()
