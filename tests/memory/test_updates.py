"""Knowledge updates, by the streams of `benchmarks/typed_updates.py`: the latest statement is current."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from factmem.abc.consolidator import Novelty, Verdicts
from factmem.testing import HashEmbedder

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def anyio_backend() -> str:
    """The answers do not depend on the event loop."""
    return "asyncio"


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("typed_updates")


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("update_streams")


class Unasked:
    """A consolidator that must not be called."""

    async def decide(self, novelty: Novelty) -> Verdicts:
        raise AssertionError("typed facts of one concept need no model")


@pytest.mark.timeout(1_800)
async def test_every_question_is_answered_with_the_value_that_was_last_said(updates: Any, big: bool) -> None:
    """This holds despite late messages, repeated values, removals and distractors; now, and as of another time."""
    size = {"streams": 20, "updates": 400} if big else {"streams": 1, "updates": 120}
    result = await updates.measure(HashEmbedder(), **size, seed=11, k=10, consolidator=Unasked(), quiet=True)
    assert result["wrong"] == 0
    assert {name: share for name, share in result["scores"].items() if name.startswith("factmem")} == {
        f"factmem: {group}": 1.0 for group in ("all", "now", "as of", "SINGLE", "MULTIPLE")
    }
    assert result["questions"] > 50
    assert result["late"] > size["updates"] / 4
