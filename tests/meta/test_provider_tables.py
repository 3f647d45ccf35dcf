"""The tables of stores that tests run over hold every provider that factmem ships."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path

import apsw
import pytest

import tests.conftest
import tests.forgetting.stores
import tests.reliability.stores
import tests.stores
import tests.walls.surface
import tests.walls.test_every_path
from tests.own_providers import own_packages, own_providers

ROOT = Path(__file__).parents[2]

KEEPS_NOTHING = {"none"}
KEEPS_NO_FILES = {"memory"}
NEEDS_A_CIPHER = set() if hasattr(apsw, "mc_version") else {"encrypted-sqlite"}
"""Providers that some tables leave out, because this environment's SQLite cannot encrypt."""

TABLES: dict[str, tuple[Collection[str], Collection[str]]] = {
    "OTHER_STORES of tests/conftest.py": (tests.conftest.OTHER_STORES, KEEPS_NO_FILES),
    "STORES of tests/forgetting/stores.py": (tests.forgetting.stores.STORES, KEEPS_NO_FILES),
    "EVERY_STORE of tests/reliability/stores.py": (
        [store.name for store in tests.reliability.stores.EVERY_STORE],
        KEEPS_NO_FILES,
    ),
    "STORES of tests/stores.py": (tests.stores.STORES, NEEDS_A_CIPHER),
    "WORLDS of tests/walls/test_every_path.py": (tests.walls.test_every_path.WORLDS, ()),
}
"""The names in each table, and the providers that it leaves out on purpose."""


@pytest.mark.parametrize("table", TABLES)
def test_every_provider_is_in_the_table(table: str) -> None:
    """A new provider is tested wherever the others are."""
    names, left_out = TABLES[table]
    assert {*own_providers()} - KEEPS_NOTHING - {*left_out} == {*names} - {*left_out}, f"complete {table}"


def test_every_provider_has_its_paths_listed() -> None:
    """The walls of a new provider are tested by a line in `CLASSES` of tests/walls/surface.py."""
    classes = {point.attr for point in own_providers().values()}
    assert classes - {*tests.walls.surface.CLASSES} == set()


def test_every_package_of_a_provider_is_in_the_wheel_and_barred_from_the_core() -> None:
    """`pyproject.toml` ships each package, and forbids the core to import it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shipped = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    barred = project["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert [package for package in own_packages() if f"providers/{package}" not in shipped] == []
    assert [package for package in own_packages() if package not in barred] == []


def test_every_package_of_a_provider_has_its_reference() -> None:
    page = (ROOT / "docs/pages/reference/api/providers.md").read_text(encoding="utf-8")
    assert [package for package in own_packages() if f"::: {package}\n" not in page] == []
