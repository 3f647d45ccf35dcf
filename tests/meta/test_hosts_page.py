"""The page of the hosts says what the story of the agent that remembers is played on."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest
from packaging.version import Version

from tests.integrations.test_the_agent_that_remembers import HOSTS

PAGE: Final = Path(__file__).parents[2] / "docs/pages/reference/hosts.md"
MODULES: Final = {
    "pydantic-ai": "pydantic_ai",
    "OpenAI Agents SDK": "openai_agents",
    "openai": "openai_client",
    "LangChain": "langchain",
    "LangGraph": "langgraph",
    "Deep Agents": "deepagents",
    "Google ADK": "adk",
    "CrewAI": "crewai",
    "own loop": "own_loop",
}
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
