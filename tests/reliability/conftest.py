"""Fixtures of the reliability tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reliability.stores import STORES
from tests.reliability.workers import Workers, workers_running


@pytest.fixture(scope="session", autouse=True)
def _environment() -> Iterator[None]:
    """Set the environment variables that the stores need, such as keys."""
    with pytest.MonkeyPatch.context() as patch:
        for store in STORES:
            for name, value in store.environment.items():
                patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def _forking(_environment: None) -> Iterator[Workers]:
    with workers_running() as workers:
        yield workers


@pytest.fixture
def workers(_forking: Workers) -> Iterator[Workers]:
    """Worker processes without earlier reports."""
    _forking.wait()
    _forking.forget()
    yield _forking
    _forking.wait()
