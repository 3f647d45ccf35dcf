"""The site in docs/ builds without a warning, every link in it leads somewhere, and it loads nothing from elsewhere.

It needs the dependency group `docs`. What of it follows from the code is what `.ci/make_reference.py` writes.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
import pytest

import factmem.abc
from factmem.entry_points import installed_entry_points
from factmem.importers.systems import SYSTEMS
from factmem.providers.registry import provider_entry_points
from tests.meta.conftest import ROOT, SEARCH_PATH
from tests.narrowing import not_none

DOCS = ROOT / "docs"
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("object", "data")}
"""Attributes whose address a browser loads by itself."""

PUBLIC = [
    "factmem",
    *(f"factmem.{name}" for name in ("abc", "agent", "consolidation", "detection", "importers", "memory")),
]
"""Packages whose every name is in the reference."""

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@attrs.frozen
class BuiltPage:
    """Links of a page of the site, addresses that it loads, and anchors that others can link to."""

    links: tuple[str, ...]
    loads: tuple[str, ...]
    anchors: frozenset[str]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = {""}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if (tag, name) in LOADED:
                self.loads.append(value or "")
            elif (tag, name) == ("a", "href"):
                self.links.append(value or "")
            elif name == "id":
                self.anchors.add(value or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    zensical = shutil.which("zensical", path=SEARCH_PATH)
    if zensical is None and "CI" in os.environ:
        pytest.fail("zensical is not installed: install the dependency group 'docs'")
    if zensical is None:
        pytest.skip("zensical is not installed, so the site was NOT built: install the dependency group 'docs'")
    work = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, work / "docs", ignore=shutil.ignore_patterns("site", ".cache"))
    for package in ("factmem", "providers"):
        (work / package).symlink_to(ROOT / package)
    command = [zensical, "build", "--strict", "--config-file", str(work / "docs" / "mkdocs.yml")]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return work / "docs" / "site"


@pytest.fixture(scope="module")
def built(site: Path) -> dict[Path, BuiltPage]:
    """Every page of the site, by its path."""
    return {path: _read(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_is_in_the_navigation_and_built(site: Path, built: dict[Path, BuiltPage]) -> None:
    """A page that nobody links to is not found by anybody."""
    pages = {path.relative_to(DOCS / "pages").with_suffix("") for path in (DOCS / "pages").rglob("*.md")}
    there = {site / page / "index.html" if page.name != "index" else site / "index.html" for page in pages}
    assert there - built.keys() == set()
    settings = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    assert sorted(str(page) for page in pages if f"- {page}.md\n" not in settings) == []


def test_every_link_leads_to_a_page_and_an_anchor(site: Path, built: dict[Path, BuiltPage]) -> None:
    lost = [
        f"{path.relative_to(site)}: {link}"
        for path, page in built.items()
        if path.name != "404.html"
        for link in page.links
        if not _leads_somewhere(path, link, site, built)
    ]
    assert lost == []


def test_nothing_is_loaded_from_elsewhere(site: Path, built: dict[Path, BuiltPage]) -> None:
    """Fonts, scripts and pictures are part of the site, which can be read offline."""
    foreign = [
        f"{path.relative_to(site)}: {address}"
        for path, page in built.items()
        for address in page.loads
        if urlsplit(address).netloc
    ]
    foreign += [
        str(sheet.relative_to(site))
        for sheet in site.rglob("*.css")
        if "url(http" in (text := sheet.read_text(encoding="utf-8")) or "@import" in text
    ]
    assert foreign == []


def test_the_reference_of_the_api_has_every_name_of_the_package(built: dict[Path, BuiltPage]) -> None:
    """Every class and function that one of these exports is described somewhere."""
    described = {anchor.rpartition(".")[2] for page in built.values() for anchor in page.anchors}
    assert [name for name in _exported() if name.rpartition(".")[2] not in described] == []


def test_the_pages_of_the_api_can_be_read_in_the_repository() -> None:
    """They have each class and function with its signature and its first sentence, without the site."""
    pages = "".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "pages/reference").rglob("*.md")))
    entries = {name.rpartition(".")[2] for name in re.findall(r"^ *- `(?:await )?([\w.]+)", pages, re.MULTILINE)}
    assert [name for name in _exported() if name.rpartition(".")[2] not in entries] == []
    assert "- `await recall(query: str, *, limit: int = 10, " in pages
    assert "`: Return the best records for a query, best first: the exact top of all matching records." in pages


def _exported() -> Iterator[str]:
    for package in PUBLIC:
        module = importlib.import_module(package)
        for name in module.__all__:
            if inspect.isclass(found := getattr(module, name)) or inspect.isfunction(found):
                yield f"{package}.{name}"


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("how-to/move-in", list(SYSTEMS)),
        ("how-to/embedder", list(installed_entry_points("factmem.embedders"))),
        ("reference/addresses", list(provider_entry_points())),
        (
            "reference/capabilities",
            [name for name in factmem.abc.__all__ if name.startswith(("Keeps", "Scans", "Upgrades"))],
        ),
    ],
)
def test_a_page_names_all_that_there_is(page: str, names: list[str]) -> None:
    """A new system, embedder, provider or capability gets a line in its table."""
    text = (DOCS / "pages" / f"{page}.md").read_text(encoding="utf-8")
    assert [name for name in names if name not in text] == []


def test_the_page_of_formats_lists_every_version(
    modules: Mapping[str, ast.Module], module_paths: Mapping[str, Path], root: Path
) -> None:
    versions = [
        f"`{name}` in `{module_paths[module].relative_to(root)}`"
        for module, tree in modules.items()
        for name in _versions_in(tree)
    ]
    page = (DOCS / "pages/reference/formats.md").read_text(encoding="utf-8")
    assert len(versions) > 5
    assert [version for version in versions if version not in page] == []


def _versions_in(tree: ast.Module) -> Iterator[str]:
    """Yield the constants of a module that hold the version of a format: numbers, or the steps that lead to it."""
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id="MIGRATIONS" as name)):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=int() | bytes())):
                if name.endswith(("VERSION", "FORMAT")):
                    yield name
            case _:
                pass


def test_what_follows_from_the_code_is_written_anew() -> None:
    """`python .ci/make_reference.py` brings it up to date."""
    written: dict[str, str] = _maker().written()
    assert {"pages/reference/commands.md", "pages/reference/api/memory.md", "llms.txt"} <= written.keys()
    assert [path for path, text in written.items() if (DOCS / path).read_text(encoding="utf-8") != text] == []


@pytest.mark.parametrize("name", ["factmem.Submission", "factmem.memory.blocking.BlockingSubmission"])
def test_the_reference_has_what_a_class_inherits_from_a_base_that_no_page_describes(name: str) -> None:
    page = (DOCS / "pages/reference/api/memory.md").read_text(encoding="utf-8")
    _, _, entry = page.partition(f"\n- `{name}(")
    assert "\n    - `pending: int`" in entry.partition("\n- ")[0]
    assert f"\n::: {name}\n    options:\n      inherited_members: true\n" in page


def _maker() -> Any:
    spec = not_none(importlib.util.spec_from_file_location("make_reference", ROOT / ".ci" / "make_reference.py"))
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _read(path: Path) -> BuiltPage:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return BuiltPage(tuple(reader.links), tuple(reader.loads), frozenset(reader.anchors))


def _leads_somewhere(path: Path, link: str, site: Path, built: dict[Path, BuiltPage]) -> bool:
    address = urlsplit(link)
    if address.scheme or address.netloc:
        return address.scheme in ("https", "mailto")
    folder = site if address.path.startswith("/") else path.parent
    target = (folder / unquote(address.path).lstrip("/")).resolve() if address.path else path
    target = target / "index.html" if target.is_dir() else target
    if target not in built:
        return target.is_file() and target.is_relative_to(site)
    return unquote(address.fragment) in built[target].anchors or address.fragment.startswith("__")
