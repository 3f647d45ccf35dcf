"""Statements that overtake others: the rule on pairs of statements, with the figures that it must reach."""

from __future__ import annotations

import itertools
import json
import lzma
from collections.abc import Sequence
from pathlib import Path

import pytest

from factmem.recall.text.updates import Matter, matter_of, overtakes
from tests.recall.update_pairs import CHAT, PAIRS, UNSEEN
from tests.tables import each_case

BLIND = Path(__file__).parents[2] / "benchmarks" / "blind"


def matter(text: str) -> Matter[str]:
    return matter_of(text) or Matter()


def found(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs whose second statement overtakes the first."""
    return [(older, newer) for older, newer in pairs if overtakes(matter(newer), matter(older))]


@pytest.fixture(scope="module")
def written_apart() -> dict[str, list[tuple[str, str]]]:
    """Pairs by type and style: the building halves of the sets of the benchmark."""
    pairs: dict[str, list[tuple[str, str]]] = {"additive": []}
    for name in ("updates", "updates_second", "updates_changes"):
        packed = lzma.decompress((BLIND / f"{name}.building.xz").read_bytes()).decode()
        for case in map(json.loads, packed.splitlines()):
            if case["type"] == "additive":
                pairs["additive"].append((case["first"], case["second"]))
            else:
                pairs.setdefault(case["style"], []).append((case["old"], case["new"]))
    return pairs


def test_updates_in_the_same_words_are_found(written_apart: dict[str, list[tuple[str, str]]]) -> None:
    pairs = written_apart["verbatim"]
    assert len(found(pairs)) / len(pairs) >= 0.75


def test_what_holds_together_is_left_alone(written_apart: dict[str, list[tuple[str, str]]]) -> None:
    pairs = written_apart["additive"]
    assert len(pairs) >= 200
    assert len(found(pairs)) / len(pairs) <= 0.01


@pytest.mark.slow
def test_small_talk_hardly_ever_overtakes_or_is_overtaken(written_apart: dict[str, list[tuple[str, str]]]) -> None:
    said = {*CHAT, *itertools.chain.from_iterable(UNSEEN), *itertools.chain(*written_apart["natural"])}
    pairs = [pair for text in CHAT for other in said - {text} for pair in ((text, other), (other, text))]
    assert len(found(pairs)) / len(pairs) <= 0.001


@pytest.mark.parametrize(("older", "newer"), PAIRS["overtaken"])
def test_the_same_matter_with_another_value_is_overtaken(older: str, newer: str) -> None:
    assert found([(older, newer)]) == [(older, newer)]


@pytest.mark.parametrize(("older", "newer"), PAIRS["other matters"])
def test_another_matter_is_not_overtaken(older: str, newer: str) -> None:
    assert found([(older, newer)]) == []


@each_case("older")
def test_questions_wishes_and_former_times_are_not_overtaken(older: str) -> None:
    assert found([(older, "I moved to Lisbon.")]) == []


@pytest.mark.parametrize("newer", ["Should I move to Lisbon?", "I might have moved to Lisbon.", "I moved to Oslo."])
def test_questions_wishes_and_the_same_again_overtake_nothing(newer: str) -> None:
    assert found([("I live in Oslo.", newer)]) == []


@each_case("older", "newer")
def test_a_second_relative_or_pet_hides_no_first_one(older: str, newer: str) -> None:
    assert found([(older, newer)]) == []
    assert found([("My boss is Ann.", "My boss is Eva."), ("My wife is called Ann.", "My wife is called Eva.")]) != []
