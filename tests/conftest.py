"""What every test shares."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--big", action="store_true", help="run the heavy checks with their big numbers")
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


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both event loops."""
    return str(request.param)
