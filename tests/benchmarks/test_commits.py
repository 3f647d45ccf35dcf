"""The benchmarks of recall and of writing: two commits do the same in turns, and a ratio compares neighbours."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a benchmark."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.mark.processes
def test_a_commit_is_compared_with_itself(benchmark: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    recall = benchmark("recall")
    monkeypatch.setattr(recall, "KINDS", {"hybrid": {}})
    found = recall.compare_commits(40, ROOT, 2, 1)
    assert found["facts"] == 40
    assert found["hybrid"]["new_records"]["now"] == found["hybrid"]["new_records"]["before"] > 0
    assert all(found["hybrid"][when][tree] > 0 for when in ("first", "again") for tree in ("now", "before"))
    assert all(found["opening"][what]["ratio"] >= 0 for what in ("user", "cpu", "mb"))


@pytest.mark.parametrize("way", ["batches", "rows in batches", "singles", "rows one by one"])
def test_each_way_of_writing_is_measured(benchmark: Callable[[str], Any], way: str, tmp_path: Path) -> None:
    writes = benchmark("writes")
    assert way in writes.WAYS
    figures = writes.measure(way, 20, tmp_path)
    assert figures["cpu"] > 0
    assert figures["wall"] > 0
    assert figures["bytes"] > writes.DIMENSION * 4
    assert not list(tmp_path.iterdir())


def test_a_ratio_is_the_median_over_neighbours(benchmark: Callable[[str], Any]) -> None:
    now, before = [1.0, 2.0, 9.0], [2.0, 8.0, 9.0]
    found = benchmark("recall")._compared({"now": now, "before": before}, 1e3)
    assert found == {"now": 2000.0, "before": 8000.0, "ratio": 0.5}
    assert benchmark("writes").ratios([{"cpu": time} for time in before], [{"cpu": time} for time in now], "cpu") == 2.0
