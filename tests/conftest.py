"""What every test shares."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--big", action="store_true", help="run the heavy checks with their big numbers")


@pytest.fixture
def big(request: pytest.FixtureRequest) -> bool:
    """Whether to run the same check with its big number."""
    return bool(request.config.getoption("--big"))


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both event loops."""
    return str(request.param)
