"""What every test shares."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # a machine may be busy

Promise: TypeAlias = Callable[[str, str], None]
"""Called with a promise, as `benchmarks/trust.py` lists it, and the figure by which it was kept."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--big", action="store_true", help="run the heavy checks with their big numbers")
    parser.addoption("--promises", type=Path, help="append the figures by which promises were kept to this file")
    parser.addoption("--local-model", action="store_true", help="ask a real small model that runs on this machine")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what asks a real model, unless it is asked for: its packages are big, its answers no gate."""
    if not config.getoption("--local-model"):
        left_out = pytest.mark.skip(reason="run with --local-model")
        for item in items:
            if item.get_closest_marker("local_model"):
                item.add_marker(left_out)


@pytest.fixture
def big(request: pytest.FixtureRequest) -> bool:
    """Whether to run the same check with its big number."""
    return bool(request.config.getoption("--big"))


@pytest.fixture
def promise(request: pytest.FixtureRequest) -> Promise:
    """Keep the figure of a promise, for whoever asked with ``--promises``; to be called once it is kept."""
    kept: Path | None = request.config.getoption("--promises")

    def keep(name: str, figure: str) -> None:
        if kept is not None:
            line = json.dumps({"promise": name, "figure": figure, "test": request.node.nodeid})
            with kept.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    return keep


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both event loops."""
    return str(request.param)
