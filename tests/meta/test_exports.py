"""A package's ``__all__`` lists every name that it offers, in order, and every listed name exists."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

import factmem
from tests.meta.conftest import defined, listed

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
