"""The comparison with the ancestors: every row is there, and every test that a page names exists."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

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
