"""The comparison with peers: its protocol, factmem's adapter, its cache and its report."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DIMENSION = 8
QUESTIONS = ["Who mended the boat?", "What was lost?"]


def said(number: str, name: str, content: str, at: str) -> dict[str, str]:
    return {"id": number, "role": "user", "name": name, "content": content, "at": f"{at}:00+00:00"}


MAY_8 = [
    said("D1:1", "Ada", "Bo mended the old boat.", "2023-05-08T13:56"),
    said("D1:2", "Bo", "It took me all of spring.", "2023-05-08T13:57"),
]
MAY_25 = [said("D2:1", "Ada", "My violin lessons begin on Monday.", "2023-05-25T14:10")]
STORE = {
    "set": "locomo",
    "id": "s1",
    "conversations": [{"id": "D1", "messages": MAY_8}, {"id": "D2", "messages": MAY_25}],
    "questions": [
        {"question": question, "kind": kind, "gold": ["D1:1"], "asked_at": "2023-05-26T14:10:00+00:00"}
        for question, kind in (("Who mended the boat?", "category 1"), ("Who mended the car?", "category 5"))
    ],
}

Part = Callable[[str], Any]


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Part:
    """Import a module of the comparison, with a cache of its own."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("FACTMEM_PEERS", str(tmp_path / "cache"))
    return lambda name: importlib.import_module(f"peers.{name}")


@pytest.fixture
def facts(part: Part) -> list[Any]:
    return list(part("facts").made_up_facts(30))


@pytest.fixture
def vectors(part: Part, facts: list[Any], tmp_path: Path) -> Path:
    """The folder of a table with vectors for the facts and the questions."""
    texts = [*(fact.text for fact in facts), *QUESTIONS]
    rows = np.random.default_rng(3).standard_normal((len(texts), DIMENSION))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    part("protocol").write_vectors(tmp_path / "vectors", texts, rows.tolist())
    return tmp_path / "vectors"


@pytest.fixture
def worker(part: Part, tmp_path: Path) -> Callable[[str], Any]:
    """A process with an adapter that needs no other environment than this one."""
    return lambda adapter: part("session").Worker(adapter, Path(sys.executable), home=tmp_path / "home" / adapter)


def test_factmem_keeps_what_it_is_handed_and_finds_by_meaning_what_the_scan_finds(
    worker: Callable[[str], Any], facts: list[Any], vectors: Path, tmp_path: Path
) -> None:
    """A process saves in batches and one by one; the next one finds all facts in the order of the bare scan."""
    with worker("factmem_memory") as writer:
        assert writer.open(tmp_path / "store", vectors)["durable"]
        assert writer.add(facts[:25], 10) > 0
        assert writer.add(facts[25:], 1) > 0
        assert writer.close() > 1
    with worker("factmem_memory") as reader, worker("scan") as scan:
        ways = reader.open(tmp_path / "store", vectors)["ways"]
        scan.open(tmp_path / "scan", vectors)
        scan.add(facts, 100)
        everything, seconds, busy = reader.search(QUESTIONS, 100, "hybrid")
        near, _, _ = reader.search(QUESTIONS, 3, "semantic")
        exact, _, _ = scan.search(QUESTIONS, 3, "semantic")
    assert ways == ["hybrid", "semantic"]
    assert [sorted(found) for found in everything] == [sorted(fact.id for fact in facts)] * 2
    assert len(seconds) == len(busy) == 2
    assert [set(found) for found in near] == [set(found) for found in exact]


def test_the_made_up_facts_are_distinct_and_always_the_same(part: Part) -> None:
    """A smaller store is the beginning of a bigger one."""
    facts = part("facts")
    many = facts.made_up_facts(2_000)
    assert len({fact.words for fact in many}) == 2_000
    assert facts.made_up_facts(50) == many[:50]


# The documentation's report on factmem and its peers equals the measured results.


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
