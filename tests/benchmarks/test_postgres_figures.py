"""The benchmark of PostgreSQL: every measurement gives its figures, and a goal is met or missed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import own_server
from tests.postgres_server import PostgresServer
from tests.tables import each_case

ROOT = Path(__file__).parents[2]
NAMES = ("writers", "grouping", "trips", "recall", "tenants", "erasure", "node")
SMALL = (
    *("--rounds", "1", "--writers", "2", "--saves", "1", "--task-saves", "1", "--facts", "40", "--queries", "2"),
    *("--tenants", "3", "--facts-each", "20", "--opened", "2"),
)

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("postgres")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server whose settings a measurement may change."""
    with own_server({"fsync": "off", "max_connections": "200"}) as server:
        yield server


def test_every_measurement_is_tested_here(benchmark: Any, anyio_backend: str) -> None:
    assert tuple(benchmark.MEASUREMENTS) == NAMES


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("name", NAMES)
async def test_each_measurement_gives_figures(benchmark: Any, server: PostgresServer, name: str) -> None:
    figures = await benchmark.measure(server, benchmark.parsed(["--only", name, *SMALL]))
    assert len(figures) >= 1
    assert len({figure.name for figure in figures}) == len(figures)
    assert all(figure.value >= 0 for figure in figures)


async def test_a_commit_and_a_recall_take_the_round_trips_that_are_wanted(
    benchmark: Any, server: PostgresServer
) -> None:
    options = benchmark.parsed([*SMALL, "--queries", "15"])  # the median of many, as one may look for changes again
    found = {figure.name: figure for figure in await benchmark.trips(server, options)}
    assert {name for name, figure in found.items() if figure.met is False} == set()


@each_case("value", "goal", "at_least", "met")
def test_a_goal_is_met_or_missed(
    benchmark: Any, value: float, goal: float | None, at_least: bool, met: bool | None, anyio_backend: str
) -> None:
    assert benchmark.Figure(name="x", value=value, goal=goal, at_least=at_least).met is met
