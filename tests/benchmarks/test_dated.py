"""The benchmarks on dated conversations: reading, the time of each question, and mechanisms turned off."""

from __future__ import annotations

import gzip
import importlib
import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem.recall import scoring
from factmem.testing import HashEmbedder
from tests.benchmarks.test_peers import STORE

ROOT = Path(__file__).parents[2]


@pytest.fixture
def dated(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("dated")


def test_every_kind_of_search_gets_its_figures(dated: Any, tmp_path: Path) -> None:
    path = tmp_path / "tiny.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(STORE).encode()))
    (store,) = dated.read_dated(path)
    assert [question.answerable for question in store.questions] == [True, False]
    result = anyio.run(lambda: dated.measure([store], HashEmbedder(), shifts=(0, 365)))
    assert result["figures"].keys() >= {"factmem", "factmem +365 days", "BM25", "dense", "RRF"}
    assert result["figures"]["factmem"]["locomo/R@10"] == 1.0
    assert result["figures"]["factmem"]["locomo/conversation R@5"] == 1.0
    assert result["questions"]["locomo/category 1"] == 1
    assert 0 <= result["auroc of the top score"]["factmem"]["locomo"] <= 1
    for table in dated._tables(result):
        assert table.row_count


def test_each_mechanism_is_turned_off_and_on_again(dated: Any, tmp_path: Path) -> None:
    ablation = importlib.import_module("ablation")
    path = tmp_path / "tiny.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(STORE).encode()))
    (store,) = map(ablation.of_dated, dated.read_dated(path))
    before, found = dict(vars(scoring)), dict[str, Any]()
    anyio.run(ablation.measure, store, ablation.MECHANISMS, found)
    assert dict(vars(scoring)) == before
    assert found.keys() == {"", *ablation.MECHANISMS}
    assert found[""]["R@10"] == [1.0, 1.0]
    assert ablation.difference(found, "any context", "R@10") == (0, 0)


def test_the_table_of_mechanisms_is_that_of_the_results_and_names_them_all(dated: Any) -> None:
    ablation = importlib.import_module("ablation")
    result = json.loads((ROOT / "benchmarks" / "results" / "ablation.json").read_text(encoding="utf-8"))
    assert ablation.markdown(result) in (ROOT / "docs/pages/explanation/benchmarks.md").read_text(encoding="utf-8")
    assert result["lines"].keys() == ablation.MECHANISMS.keys()


def test_the_metrics_are_those_of_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    metrics = importlib.import_module("retrieval_metrics")
    talks = {"a": "x", "b": "x", "c": "y"}
    figures = metrics.figures_of(["b", "a", "b", "c"], {"a", "c"}, set(), talks)
    assert figures["R@5"] == 1.0
    assert figures["nDCG@10"] == pytest.approx((1 / 1.584962500721156 + 1 / 2) / (1 + 1 / 1.584962500721156))
    assert figures["conversation R@5"] == 1.0
    assert metrics.figures_of(["a"], {"a"}, {"x", "y"}, talks)["all@5"] == 0.0
    assert metrics.auroc([0.9, 0.5], [0.5, 0.1]) == 0.875


def test_the_table_of_the_documentation_is_that_of_the_results(dated: Any) -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "dated.json").read_text(encoding="utf-8"))
    assert dated.markdown(result) in (ROOT / "docs/pages/explanation/benchmarks.md").read_text(encoding="utf-8")


def test_the_chart_is_that_of_the_results(dated: Any) -> None:
    """After a new measurement, `dated_chart.py` draws it anew."""
    drawing = importlib.import_module("dated_chart")
    result = json.loads((ROOT / "benchmarks" / "results" / "dated.json").read_text(encoding="utf-8"))
    assert drawing.CHART.read_text(encoding="utf-8") == drawing.chart(result)
