"""Statements that supersede others: the rules on pairs of statements, with the figures that they must reach."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from factmem.recall.text.analysis import analyse
from factmem.recall.text.updates import clauses, clues, overtakes
from tests.recall.update_pairs import BOTH_TRUE, CHAT, TUNED, UNSEEN


def found(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs whose second statement is recognized as superseding the first."""
    return [(older, newer) for older, newer in pairs if overtakes(clauses(newer), clauses(older))]


def test_updates_that_the_rules_were_written_for_are_found() -> None:
    assert len(found(TUNED)) / len(TUNED) >= 0.9


def test_updates_that_the_rules_never_saw_are_found() -> None:
    assert len(UNSEEN) >= 20
    assert len(found(UNSEEN)) / len(UNSEEN) >= 0.7


def test_what_is_marked_was_overtaken() -> None:
    assert len(BOTH_TRUE) >= 60
    marked, wrong = found(UNSEEN), found(BOTH_TRUE)
    assert len(marked) / (len(marked) + len(wrong)) >= 0.95


def test_small_talk_neither_overtakes_nor_is_overtaken() -> None:
    said = (*CHAT, *itertools.chain.from_iterable(TUNED), *itertools.chain.from_iterable(UNSEEN))
    pairs = [pair for text in CHAT for other in said for pair in ((text, other), (other, text))]
    assert found(pairs) == []


def test_every_update_holds_a_clue() -> None:
    """Statements without a clue are never read in the search for updates."""
    assert [newer for _, newer in found(TUNED + UNSEEN) if not clues() & set(analyse(newer))] == []


@pytest.mark.parametrize(
    "older",
    [
        "Do you live in Oslo?",
        "I used to live in Oslo.",
        "If I lived in Oslo, I would ski.",
        "I visited Oslo in June.",
        (
            "I live in Oslo, and today was long: we painted two rooms, went to the lake, cooked for nine people and "
            "sang until the neighbours came over to sing with us."
        ),
    ],
)
def test_questions_wishes_events_and_long_stories_are_not_overtaken(older: str) -> None:
    assert found([(older, "I moved to Lisbon.")]) == []


@pytest.mark.parametrize("newer", ["Should I move to Lisbon?", "I might have moved to Lisbon.", "I moved to Oslo."])
def test_questions_wishes_and_the_same_again_overtake_nothing(newer: str) -> None:
    assert found([("I live in Oslo.", newer)]) == []
