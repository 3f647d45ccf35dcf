"""The goals for forged and honest findings, on the old cases and on the new ones that it was built with."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from factmem.abc import Detection
from factmem.abc.detector import DropReason
from tests.detection.test_evidence import doubted

ROOT = Path(__file__).parents[2]
USUAL = ("unseen", "new", "second")
"""The sets that are read whole without `--big`: of the old ones, the one that no rule was mended with, and both later
ones that have goals of their own."""


@pytest.fixture
def evidence(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("evidence")


@pytest.mark.usefixtures("without_threads")
async def test_each_set_meets_its_goals(evidence: Any, big: bool) -> None:
    cases = evidence.sets()
    assert {name: len(found) >= 170 for name, found in cases.items()} == dict.fromkeys(cases, True)
    figures = evidence.figures(await evidence.measured(cases if big else {name: cases[name] for name in USUAL}))
    # The later sets have shapes that nothing was built with; the page on trust says by how much they are missed.
    later = ("forged, third", "forged, fourth", "forged, fifth")
    assert [missed for missed in evidence.misses(figures) if not missed.startswith(later)] == []


@pytest.mark.parametrize(
    ("askable", "verifier", "honest", "fate"),
    [
        (None, "none", False, "believed"),
        (True, "none", True, "waiting"),
        (True, "label", True, "believed"),
        (True, "label", False, "dropped"),
        (True, "yes", False, "believed"),
        (False, "yes", False, "waiting"),
    ],
)
def test_a_verifier_decides_what_it_may_be_asked(
    evidence: Any, askable: bool | None, verifier: str, honest: bool, fate: str
) -> None:
    assert evidence.fate(doubted(askable), verifier, honest=honest) == fate
    assert evidence.fate(Detection(dropped={DropReason.MALFORMED: 1}), verifier, honest=honest) == "dropped"
