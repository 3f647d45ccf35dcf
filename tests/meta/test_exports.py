"""A package's ``__all__`` lists every name that it offers, in order, and every listed name exists."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

import factmem
from tests.meta.conftest import defined, listed
from tests.own_providers import own_packages

LAZY = ["factmem", "factmem.detection", "factmem.importers", "factmem.llm", "factmem.providers", "factmem.recall"]
"""Packages that import names on first use."""


@pytest.fixture(scope="module")
def lists(modules: Mapping[str, ast.Module]) -> Mapping[str, list[str]]:
    """Return the names that each package lists in its ``__all__``."""
    return {name: names for name, tree in modules.items() if (names := listed(tree)) is not None}


def test_every_package_with_names_of_its_own_has_an_all(
    modules: Mapping[str, ast.Module], lists: Mapping[str, list[str]], module_paths: Mapping[str, Path]
) -> None:
    """A package lists the names that it offers. A module needs no list: its private names begin with an underscore."""
    doors = {name for name, path in module_paths.items() if path.name == "__init__.py"}
    assert lists.keys() <= doors
    assert [name for name in doors - lists.keys() if [*defined(modules[name])]] == []


def test_every_all_is_sorted(lists: Mapping[str, list[str]]) -> None:
    """Constants first, then classes, then functions; each in natural order."""
    assert [name for name, listed in lists.items() if listed != sorted(listed, key=_export_order)] == []


def test_every_all_is_complete(modules: Mapping[str, ast.Module], lists: Mapping[str, list[str]]) -> None:
    """A class, function or constant of a package is listed, or its name starts with an underscore."""
    missing = [
        f"{package}.{name}"
        for package, listed in lists.items()
        for name in defined(modules[package])
        if name not in listed
    ]
    assert missing == []


def test_every_package_lists_what_it_collects(
    modules: Mapping[str, ast.Module], lists: Mapping[str, list[str]], module_paths: Mapping[str, Path]
) -> None:
    """An ``__init__`` exports every name that it imports from its own package without using it."""
    missing = [
        f"{package}.{name}"
        for package, path in module_paths.items()
        if path.name == "__init__.py" and package in lists
        for name in _collected(modules[package], package)
        if name not in lists[package]
    ]
    assert missing == []


def test_every_listed_name_is_there(lists: Mapping[str, list[str]]) -> None:
    """Every listed name can be imported from its module."""
    missing = [
        f"{module}.{name}"
        for module, listed in lists.items()
        if not module.startswith("factmem.integrations.crewai") or find_spec("crewai")
        for name in listed
        if not hasattr(importlib.import_module(module), name)
    ]
    assert missing == []


@pytest.mark.parametrize("package", LAZY)
def test_the_lazy_names_are_the_ones_that_type_checkers_see(
    package: str, modules: Mapping[str, ast.Module], lists: Mapping[str, list[str]]
) -> None:
    """The table and the ``TYPE_CHECKING`` block of a package agree on names and modules, all of them public."""
    table, checked = _homes(modules[package]), _for_type_checkers(modules[package])
    lazy = {name: f"{package}.{module}" for module, names in table.items() for name in names}
    assert lazy == checked
    assert not lazy.keys() & {module.removeprefix(f"{package}.") for module in modules}  # that one would be found first
    assert lazy.keys() <= set(lists[package])


def test_every_package_with_lazy_names_is_checked(modules: Mapping[str, ast.Module]) -> None:
    assert [name for name, tree in modules.items() if _homes(tree)] == LAZY


def test_the_front_door_imports_nothing_at_once(
    modules: Mapping[str, ast.Module], lists: Mapping[str, list[str]]
) -> None:
    assert sorted(name for names in _homes(modules["factmem"]).values() for name in names) == sorted(lists["factmem"])


def test_a_package_does_not_have_what_it_does_not_name() -> None:
    """A misspelt name is an `AttributeError`, as in a module without lazy names."""
    for package in LAZY:
        with pytest.raises(AttributeError, match="Memmory"):
            importlib.import_module(package).Memmory  # noqa: B018


def test_every_error_can_be_caught_by_the_root_from_the_front_door() -> None:
    """`factmem.FactMemError` is the base class of everything raised, not a copy of it."""
    errors = importlib.import_module("factmem.errors")
    assert factmem.FactMemError is errors.FactMemError
    own = [kind for kind in vars(errors).values() if getattr(kind, "__module__", "") == errors.__name__]
    assert [kind for kind in own if inspect.isclass(kind) and not issubclass(kind, factmem.FactMemError)] == []


def test_the_version_is_the_installed_one() -> None:
    """`factmem.__version__` is read from the distribution on access."""
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", factmem.__version__)


def _homes(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """Return the table of a package's lazy names; empty if it has none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            table: dict[str, tuple[str, ...]] = ast.literal_eval(node.value)
            return table
    return {}


def _for_type_checkers(tree: ast.Module) -> dict[str, str]:
    """Return the modules of the names that a package imports for type checkers only."""
    return {
        alias.name: str(node.module)
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _export_order(name: str) -> tuple[int, list[tuple[int, str]]]:
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _collected(tree: ast.Module, package: str) -> Iterator[str]:
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{package}."):
            yield from {alias.asname or alias.name for alias in node.names} - used


# Importing factmem is cheap; heavy packages are imported on first use


HEAVY = ["apsw", "cattrs", "httpx", "instructor", "numpy", "onnxruntime", "openai", "pydantic", "rich", "sqlite3"]
HEAVY += ["sqlite_vec", "textual", "typer", "wordllama"]
# A store and a memory may be made in a module's body, which must not load their models and clients.
HEAVY_FOR_A_MEMORY = ["instructor", "onnxruntime", "openai", "pydantic", "rich", "textual", "typer", "wordllama"]


def _loaded(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import factmem", "from factmem import Concept, MemorySubject, SingleFact"])
def test_importing_the_package_and_its_words_loads_nothing_heavy(statement: str) -> None:
    """A module that only declares its concepts is as quick to import as attrs."""
    assert _loaded(statement) & set(HEAVY) == set()


def test_a_memory_without_a_model_does_not_even_load_what_would_ask_one() -> None:
    """The prompts, answers and checks of a model are imported with the first model."""
    program = "import sys\nfrom factmem import Memory\nMemory('memory:')\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    asking = {"consolidation.model_consolidator", "detection.model_detector", "detection.prompts", "llm.exchange"}
    assert {f"factmem.{name}" for name in asking} & set(done.stdout.split()) == set()


def test_opening_a_memory_loads_no_model_and_no_client() -> None:
    """The embedder is loaded by the first fact or the first question, not by the import or the constructor."""
    assert _loaded("from factmem import Memory; Memory('memory:')") & set(HEAVY_FOR_A_MEMORY) == set()


# The public API is completely typed, as a type checker sees the installed package


AS_TYPED_AS_THEIR_HOST = "factmem.integrations."
"""Classes derived from a framework's are typed as well as the framework is; mypy and pyright check them as usual."""


@pytest.mark.big
@pytest.mark.parametrize("package", ["factmem", *own_packages()])
def test_every_public_symbol_has_a_known_type(package: str, pyright: str, tmp_path: Path) -> None:
    """`pyright --verifytypes` finds no symbol whose type is unknown or only inferred."""
    command = [pyright, "--verifytypes", package, "--ignoreexternal", "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=170, check=False)
    report = json.loads(done.stdout)["typeCompleteness"]
    untyped = {
        symbol["name"]: [found["message"] for found in symbol["diagnostics"]]
        for symbol in report["symbols"]
        if symbol["isExported"]
        and not (symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"])
        and not symbol["name"].startswith(AS_TYPED_AS_THEIR_HOST)
    }
    assert untyped == {}
    assert report["exportedSymbolCounts"]["withKnownType"] > 0, "pyright did not find the installed package"
