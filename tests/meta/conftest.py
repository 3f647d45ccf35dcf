"""The source tree for the meta-tests: parsed, never imported."""

from __future__ import annotations

import ast
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "factmem", *sorted(ROOT.glob("providers/factmem_*"))]
UNSHIPPED = ["tests", "benchmarks", "examples"]


# pyright takes the environment of the first `python` on the path for the one to look at.
SEARCH_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def _module_name(path: Path) -> str:
    package_root = ROOT / "providers" if path.is_relative_to(ROOT / "providers") else ROOT
    return ".".join(path.relative_to(package_root).with_suffix("").parts).removesuffix(".__init__")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def module_paths() -> Mapping[str, Path]:
    """Return the path of each shipped module, by its dotted name."""
    return {_module_name(path): path for package in PACKAGES for path in sorted(package.rglob("*.py"))}


@pytest.fixture(scope="session")
def modules(module_paths: Mapping[str, Path]) -> Mapping[str, ast.Module]:
    """Every shipped module, parsed, by its dotted name."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in module_paths.items()}


@pytest.fixture(scope="session")
def sources(modules: Mapping[str, ast.Module]) -> Mapping[str, ast.Module]:
    """Every shipped module by its dotted name, and every test, benchmark and example by its path."""
    unshipped = (path for folder in UNSHIPPED for path in sorted((ROOT / folder).rglob("*.py")))
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in unshipped}
    return {**modules, **trees}


@pytest.fixture(scope="session")
def exports(modules: Mapping[str, ast.Module]) -> Mapping[str, list[str]]:
    """Return the public names of each module: those that a package lists, or that a module defines."""
    return {name: [*defined(tree)] if (names := listed(tree)) is None else names for name, tree in modules.items()}


@pytest.fixture
def pyright(monkeypatch: pytest.MonkeyPatch) -> str:
    """The type checker's command, with this interpreter first on the path; skips if it is missing."""
    monkeypatch.setenv("PATH", SEARCH_PATH)
    found = shutil.which("pyright")
    if found is None and "CI" in os.environ:
        pytest.fail("pyright is not installed: install the dependency group 'lint'")
    if found is None:
        pytest.skip("pyright is not installed, so the types were NOT checked")
    return found


def listed(tree: ast.Module) -> list[str] | None:
    """Return the names in a module's ``__all__``; None if it has none."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return [str(name) for name in ast.literal_eval(value)]
    return None


def defined(tree: ast.Module) -> Iterator[str]:
    """Return the public names that a module itself defines."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names = [name]
            case ast.Assign(targets=[ast.Name(id=name)]):
                names = [name]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))
