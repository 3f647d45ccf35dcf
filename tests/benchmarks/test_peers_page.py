"""The documentation's report on factmem and its peers equals the measured results."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "benchmarks" / "peers"
PAGE = ROOT / "docs" / "pages" / "explanation" / "benchmarks.md"


@pytest.fixture
def results() -> Any:
    return json.loads((PEERS / "results.json").read_text(encoding="utf-8"))


def test_the_tables_of_the_page_are_those_of_the_results(results: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a new comparison, `publish.py` updates the page."""
    monkeypatch.syspath_prepend(str(PEERS.parent))
    page = importlib.import_module("peers.page")
    text = PAGE.read_text(encoding="utf-8")
    assert page.markdown(results) in text
    assert "](side_by_side.svg)" in text


def test_everybody_is_in_the_results_with_figures_or_a_reason(results: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No peer is left out because it is better."""
    monkeypatch.syspath_prepend(str(PEERS.parent))
    field = importlib.import_module("peers.field").FIELD
    assert results["peers"].keys() == field.keys()
    silent = [
        name
        for name, peer in results["peers"].items()
        if "unavailable" not in peer and not all(peer.get(kind) for kind in field[name].measures)
    ]
    assert silent == []


def test_the_picture_shows_everybody(results: Any) -> None:
    picture = PAGE.with_name("side_by_side.svg").read_text(encoding="utf-8")
    drawn = [peer["title"] for name, peer in results["peers"].items() if name != "embedder" and peer.get("quality")]
    assert [title for title in drawn if title not in picture] == []
