"""The benchmark of writing: each variant keeps its facts, and a ratio compares adjacent runs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("writes")


@pytest.mark.parametrize("way", ["batches", "rows in batches", "singles", "rows one by one"])
def test_each_way_is_measured(writes: Any, way: str, tmp_path: Path) -> None:
    assert way in writes.WAYS
    figures = writes.measure(way, 20, tmp_path)
    assert figures["cpu"] > 0
    assert figures["wall"] > 0
    assert figures["bytes"] > writes.DIMENSION * 4
    assert not list(tmp_path.iterdir())


def test_a_ratio_is_the_median_over_neighbours(writes: Any) -> None:
    now, before = [{"cpu": 1.0}, {"cpu": 2.0}, {"cpu": 9.0}], [{"cpu": 2.0}, {"cpu": 8.0}, {"cpu": 9.0}]
    assert writes.ratios(before, now, "cpu") == 2.0
