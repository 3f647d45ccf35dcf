"""Short facts in other words as cases of retrieval: each fact is an item that stands alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from peers.cases import Case, Question
from peers.protocol import Item
from short_facts import fact_set, figures_of

__all__ = ["SHORT", "short_case"]

SHORT: Final = ("family", "software", "docs", "people")
"""The sets of `short_facts.py` whose facts stand alone."""


def short_case(name: str) -> Case:
    """Return the held half of a set; a fact of a person is a sentence there, as a database of texts takes it."""
    facts = fact_set(name, "held")
    return Case(
        items=[Item(id=key, text=text, words=text) for key, text in facts.texts.items()],
        questions=[Question(text, _judge(name, gold)) for text, gold in facts.questions if gold],
    )


def _judge(name: str, gold: frozenset[str]) -> Callable[[Sequence[str]], dict[str, float]]:
    def judge(found: Sequence[str]) -> dict[str, float]:
        return {f"{name} {figure}": value for figure, value in figures_of(found, gold).items()}

    return judge
