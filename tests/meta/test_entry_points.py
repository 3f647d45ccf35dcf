"""Entry points: each host and each local embedder has one in pyproject.toml, and each names something that is there."""

from __future__ import annotations

import ast
import importlib.metadata
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

NO_EXTRA = {"factmem.integrations.openai"}
"""Integrations of packages that are always installed."""


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    """The table ``project`` of pyproject.toml: the installed metadata may be older."""
    read: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return read


def test_every_integration_has_an_entry_point(project: dict[str, Any], modules: Mapping[str, ast.Module]) -> None:
    """Without one, `install` does not know the objects of the host."""
    made = {f"{module}:{name}" for module, tree in modules.items() for name in _assigned(tree, "HostIntegration")}
    assert sorted(made - {*project["entry-points"]["factmem.hosts"].values()}) == []


def test_every_integration_has_an_extra(project: dict[str, Any]) -> None:
    """It goes by the name of the module, which the error about a missing package makes a command of."""
    modules = {value.partition(":")[0] for value in project["entry-points"]["factmem.hosts"].values()} - NO_EXTRA
    extras = {module: module.rpartition(".")[2].replace("_", "-") for module in modules}
    assert [module for module, extra in extras.items() if extra not in project["optional-dependencies"]] == []


@pytest.mark.parametrize("extra", ["langgraph", "langchain", "deepagents"])
def test_an_extra_of_langchains_family_brings_its_messages_and_tools(project: dict[str, Any], extra: str) -> None:
    """`factmem.integrations.langchain` reads the messages of all three; it imports these packages."""
    assert {"langchain", "langchain-core", "langgraph"} <= _brought(project["optional-dependencies"][extra])


def _brought(requirements: Sequence[str]) -> set[str]:
    """Return the packages that requirements bring, with those that they require without an extra."""
    found: set[str] = set()
    waiting = [*requirements]
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(requirement.name)
            waiting += importlib.metadata.requires(requirement.name) or ()
    return found


def test_every_local_embedder_has_an_entry_point(project: dict[str, Any], modules: Mapping[str, ast.Module]) -> None:
    """Without one, no name stands for it: ``Memory(embedder="minilm")``, ``factmem --embedder minilm``."""
    module = "factmem.recall.embedders"
    local = {
        f"{module}:{node.name}"
        for node in modules[module].body
        if isinstance(node, ast.ClassDef)
        and node.name.endswith("Embedder")
        and node.name not in ("BoundedEmbedder", "CallableEmbedder")
    }
    assert local
    assert sorted(local - {*project["entry-points"]["factmem.embedders"].values()}) == []


def test_every_entry_point_names_something_that_is_there(
    project: dict[str, Any], modules: Mapping[str, ast.Module], exports: Mapping[str, list[str]]
) -> None:
    values = [value.partition(" ")[0] for points in project["entry-points"].values() for value in points.values()]
    missing = [
        value
        for value in values
        for module, _, name in [value.partition(":")]
        if name not in exports.get(module, ()) and name not in _assigned(modules[module], "HostIntegration")
    ]
    assert missing == []


def _assigned(tree: ast.Module, cls: str) -> Iterator[str]:
    """Yield the names of a module that stand for instances of a class."""
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=ast.Name(id=called))) if called == cls:
                yield name
            case _:
                pass
