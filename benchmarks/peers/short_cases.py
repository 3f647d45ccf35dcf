"""Short facts in other words as cases of retrieval: each fact is an item that stands alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from peers.cases import Case, Question
from peers.protocol import Item
from short_facts import fact_set

__all__ = ["SHORT", "short_case"]

SHORT: Final = ("family", "software", "docs", "people")
"""The sets of `short_facts.py` whose facts stand alone."""

_DEPTH: Final = 10


def short_case(name: str) -> Case:
    """Return the held half of a set; a fact of a person is a sentence there, as a database of texts takes it."""
    facts = fact_set(name, "held")
    return Case(
        items=[Item(id=key, text=text, words=text) for key, text in facts.texts.items()],
        questions=[Question(text, _judge(name, gold)) for text, gold in facts.questions if gold],
    )


def _judge(name: str, gold: frozenset[str]) -> Callable[[Sequence[str]], dict[str, float]]:
    def judge(found: Sequence[str]) -> dict[str, float]:
        hits = [key in gold for key in dict.fromkeys(found)][:_DEPTH]
        return {f"{name} @1": float(hits[0]) if hits else 0.0, f"{name} R@10": sum(hits) / len(gold)}

    return judge
