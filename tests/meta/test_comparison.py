"""The comparison with the ancestors: every row is there, and every test that a page names exists."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from packaging.version import Version

from tests.integrations.test_the_agent_that_remembers import HOSTS
from tests.tables import cases

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted((ROOT / "docs/pages").rglob("*.md"))
ROWS: Final = ROOT / "docs/pages/explanation/comparison-rows.md"
REFERENCE: Final = re.compile(r"`((?:tests|factmem/testing)/[\w/]+\.py)(?:::(\w+))?`")
NUMBERED: Final = {
    "Koog's tests": [str(number) for number in range(1, 38)],
    "Koog's faults": [f"D{number}" for number in range(1, 25)],
    "CrewAI's tests": [str(number) for number in range(1, 168)],
    "Deep Agents": [str(number) for number in range(1, 44)],
}
"""The rows of the studies' numbered lists, by the section of the page."""

MEMORY_BANK: Final = [
    *("Sources (exactly one)", "Input rules", "Scope", "Managed topics", "Custom topics", "Few-shot"),
    *("Customization", "Result", "Operation", "No consolidation", "Create/list", "Retrieve", "Filters"),
    *("Metadata", "TTL", "Revisions", "Rollback", "Purge", "IngestEvents", "Profiles", "Models", "IAM"),
    *("Poisoning", "Contradictions", "ADK gaps"),
]


@functools.cache
def _tests_in(path: str) -> str:
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def rows(section: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each row of a section, and what it is here."""
    _, _, rest = ROWS.read_text(encoding="utf-8").partition(f"\n## {section}\n")
    table = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("|")][2:]
    for line in table:
        name, _, here = (cell.strip() for cell in line.strip("|").split(" | "))
        yield name, here


def numbers(name: str) -> Iterator[str]:
    """Yield the numbers that the name of a row stands for: ``4–6, 8``."""
    for part in name.split(", "):
        first, _, last = part.partition("–")
        yield from map(str, range(int(first), int(last) + 1)) if last else [part]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    missing = [
        found[0]
        for found in REFERENCE.finditer(page.read_text(encoding="utf-8"))
        if not _tests_in(found[1]) or (found[2] and f"def {found[2]}(" not in _tests_in(found[1]))
    ]
    assert missing == []


@pytest.mark.parametrize("section", NUMBERED)
def test_every_number_of_a_list_has_one_row(section: str) -> None:
    found = [number for name, _ in rows(section) for number in numbers(name)]
    assert [number for number in NUMBERED[section] if found.count(number) != 1] == []


def test_every_feature_of_memory_bank_has_a_row() -> None:
    assert [name for name, _ in rows("Memory Bank")] == MEMORY_BANK


@pytest.mark.parametrize("section", [*NUMBERED, "CrewAI's faults", "Memory Bank", "LangGraph"])
def test_every_row_names_a_test_or_a_decision(section: str) -> None:
    listed = list(rows(section))
    assert len(listed) >= 8
    assert [name for name, here in listed if not REFERENCE.search(here) and "*Decision:* " not in here] == []


# The page of the hosts says what the story of the agent that remembers is played on


PAGE: Final = Path(__file__).parents[2] / "docs/pages/reference/hosts.md"
MODULES: Final = dict(cases(__file__)["modules"])
"""The module of each host in ``tests/integrations/hosts``."""


def tables() -> list[dict[str, list[str]]]:
    """Return the tables of the page: the cells of each row by the name of its host."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.splitlines()[2:]]
        found.append({re.sub(r"\[(.*)\]\(.*\)", r"\1", row[0].strip("| ")): row[1:] for row in rows})
    return found


def test_every_host_is_in_both_tables() -> None:
    assert sorted(MODULES.values()) == sorted(HOSTS)
    assert [list(table) for table in tables()[:2]] == [list(MODULES)] * 2


def test_the_page_says_what_the_extra_all_leaves_out() -> None:
    project = tomllib.loads((PAGE.parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (every,) = extras.pop("all")
    left_out = extras.keys() - set(every[len("factmem[") : -1].split(","))
    (paragraph,) = [text for text in PAGE.read_text(encoding="utf-8").split("\n\n") if text.startswith("`all` is")]
    assert set(re.findall(r"`([\w-]+)`", paragraph)) == left_out | {"all"}
    assert len(left_out) == 5


def test_factmem_holds_no_host_back() -> None:
    """The table is made by ``.ci/resolve_hosts.py``, which fails where a host is older with factmem than without."""
    resolved = tables()[2]
    assert list(resolved) == [*list(MODULES)[:-1], "MCP"]
    for newest, together, _ in resolved.values():
        assert set(newest.split(", ")) <= set(together.rstrip(" |").split(", "))


@pytest.mark.parametrize("host", MODULES)
def test_the_manners_of_a_host_are_those_of_its_story(host: str) -> None:
    _, *manners, _ = tables()[0][host]
    expected = {"async", "streaming", "sync"} & set(HOSTS[MODULES[host]])
    names = ("async", "streaming", "sync")
    assert dict(zip(names, manners, strict=True)) == {name: "yes" if name in expected else "no" for name in names}


@pytest.mark.parametrize("host", [host for host in MODULES if host != "own loop"])
def test_the_version_that_a_host_was_tested_with_is_at_most_the_installed_one(host: str) -> None:
    package, version = tables()[0][host][0].split()
    try:
        installed = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed here")
    assert Version(version) <= Version(installed)
