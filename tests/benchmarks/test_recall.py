"""The benchmark of recall: two commits answer the same queries in turns, and a ratio compares neighbours."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def recall(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("recall")


@pytest.mark.processes
def test_a_commit_is_compared_with_itself(recall: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "KINDS", {"hybrid": {}})
    found = recall.compare_commits(40, ROOT, 2, 1)
    assert found["facts"] == 40
    assert found["hybrid"]["new_records"]["now"] == found["hybrid"]["new_records"]["before"] > 0
    assert all(found["hybrid"][when][tree] > 0 for when in ("first", "again") for tree in ("now", "before"))
    assert all(found["opening"][what]["ratio"] >= 0 for what in ("user", "cpu", "mb"))


def test_a_ratio_of_commits_is_the_median_over_neighbours(recall: Any) -> None:
    figures = {"now": [1.0, 2.0, 9.0], "before": [2.0, 8.0, 9.0]}
    assert recall._compared(figures, 1e3) == {"now": 2000.0, "before": 8000.0, "ratio": 0.5}
