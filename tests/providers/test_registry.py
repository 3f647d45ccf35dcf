"""Providers are opened by address, found by entry point, and imported on request only."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from factmem.errors import MissingPackageError, ReadOnlyError, UnknownProviderError
from factmem.facts import Concept, SingleFact
from factmem.providers import registry
from factmem.providers.memory import InMemoryProvider
from factmem.providers.registry import open_provider, provider_entry_points
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from tests.tables import each_case

CITY = Concept.single("city", "d")
USER, AGENT = MemorySubject("user"), MemoryScope.agent("a")


class Recording(InMemoryProvider):
    """A provider that records its arguments."""

    def __init__(self, where: str = "nowhere", *, mode: str = "none") -> None:
        super().__init__()
        self.opened = (where, mode)


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a provider under the name ``rec``."""
    points: dict[str, Any] = {"rec": _Point(Recording)}
    monkeypatch.setattr(registry, "provider_entry_points", lambda: points)


class _Point:
    extras: Sequence[str] = ()

    def __init__(self, factory: object) -> None:
        self._factory = factory

    def load(self) -> object:
        if isinstance(self._factory, Exception):
            raise self._factory
        return self._factory


def test_the_providers_of_this_repository_are_installed() -> None:
    points = provider_entry_points()
    assert list(points) == sorted(points)
    stores = {"memory", "file", "sqlite-vec", "encrypted", "encrypted-sqlite", "postgres", "postgresql"}
    assert {"none", *stores} <= points.keys()


@each_case("address", "provider")
async def test_an_address_opens_its_provider(address: str, provider: str, tmp_path: Path) -> None:
    async with open_provider(address.format(tmp_path / "facts")) as opened:
        assert type(opened).__name__ == provider


@pytest.mark.parametrize("address", ["file:{}", "sqlite-vec:{}"])
async def test_the_store_is_where_the_address_says(address: str, tmp_path: Path) -> None:
    place = tmp_path / "some where" / "facts"
    async with open_provider(address.format(place)) as provider:
        assert not _exists(place)
        await provider.save(SingleFact(CITY, "Oslo"), USER, AGENT)
    assert _exists(place)


def _names(folder: Path) -> set[str]:
    """Return the names of the stores in a folder."""
    return {path.name.partition("-")[0] for path in folder.iterdir()}


def _exists(path: Path) -> bool:
    return path.exists()


@pytest.mark.usefixtures("recording")
@each_case("address", "opened")
def test_an_address_is_name_location_and_options(address: str, opened: list[str]) -> None:
    provider = open_provider(address)
    assert isinstance(provider, Recording)
    assert list(provider.opened) == opened


@pytest.mark.parametrize("address", ["nosuch:x", "nosuch:", ":", "sqlite:x"])
def test_an_unknown_name_is_an_error_with_the_known_ones(address: str) -> None:
    with pytest.raises(UnknownProviderError, match="sqlite-vec"):
        open_provider(address)


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("address", ["rec:x?colour=red", "rec:x?mode=a&where=b"])
def test_options_that_a_provider_does_not_take_are_refused(address: str) -> None:
    with pytest.raises(UnknownProviderError, match="rec"):
        open_provider(address)


@each_case("address", "expected")
def test_an_invalid_address_is_an_error_without_python_terms(address: str, expected: str) -> None:
    with pytest.raises(UnknownProviderError) as error:
        open_provider(address)
    assert str(error.value) == expected


def test_a_missing_package_is_an_error_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = _Point(ModuleNotFoundError("No module named 'shelves'", name="shelves"))
    monkeypatch.setattr(registry, "provider_entry_points", lambda: {"shelf": missing})
    with pytest.raises(MissingPackageError, match=r"pip install 'factmem\[shelf\]'") as error:
        open_provider("shelf:db")
    assert error.value.package == "shelves"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_a_missing_driver_is_installed_by_the_same_extra_for_both_schemes(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("factmem_postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'factmem\[postgres\]'"):
        open_provider(f"{scheme}://db/facts")


async def test_a_path_takes_options(tmp_path: Path) -> None:
    path = tmp_path / "50%20.db"
    provider = open_provider(f"{path}?busy_timeout=60")
    await provider.save(SingleFact(CITY, "Oslo"), USER, AGENT)
    await provider.aclose()
    provider = open_provider(f"{path}?read_only=yes")
    assert await provider.load(CITY, USER, AGENT) is not None
    with pytest.raises(ReadOnlyError):
        await provider.save(SingleFact(CITY, "Rome"), USER, AGENT)
    await provider.aclose()
    assert _names(tmp_path) == {"50%20.db"}


@pytest.mark.parametrize("name", ["facts.db", "sqlite-vec:facts.db"])
@pytest.mark.parametrize(("options", "hint"), [("readonly=yes", "it has read_only"), ("read_only", "name=value")])
def test_an_option_that_is_misspelt_or_has_no_value_is_refused(name: str, options: str, hint: str) -> None:
    with pytest.raises(UnknownProviderError, match=hint):
        open_provider(f"{name}?{options}")


def test_no_other_package_can_take_over_the_name_of_a_provider(tmp_path: Path) -> None:
    """A name of factmem's own opens factmem's own provider, whatever else is installed."""
    installed = tmp_path / "aaa_other-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: aaa-other\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[factmem.providers]\nmemory = json:loads\nother = json:loads\n")
    code = (
        "from factmem import open_provider\n"
        "from factmem.providers.registry import provider_entry_points\n"
        "print(type(open_provider('memory:')).__name__, provider_entry_points()['memory'].value)\n"
        "print(provider_entry_points()['other'].value)"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.split() == ["InMemoryProvider", "factmem:InMemoryProvider", "json:loads"]


def test_naming_the_providers_imports_none() -> None:
    code = (
        "import sys; from factmem.providers.registry import provider_entry_points; provider_entry_points()\n"
        "print([name for name in ('factmem_file', 'factmem_sqlite_vec', 'apsw', 'numpy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
