"""Dated conversations as cases of retrieval: stores to fill and questions to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
from dated_sets import TITLES, DatedStore, read_dated
from dated_sets import Question as Asked
from peers.protocol import Item
from retrieval_metrics import figures_of

__all__ = ["Case", "Question", "cases_of"]


@attrs.frozen
class Question:
    """A question to a store.

    Attributes:
        text: the question.
        judge: function from the ids found, best first, to figures by name.
    """

    text: str
    judge: Callable[[Sequence[str]], dict[str, float]] = attrs.field(repr=False)


@attrs.frozen
class Case:
    """A store's items, and the questions about them."""

    items: list[Item] = attrs.field(repr=False)
    questions: list[Question]


def cases_of(path: Path, limit: int | None = None) -> Iterator[Case]:
    """Read a file of dated stores.

    Args:
        path: the file.
        limit: maximum number of questions; None for all.
    """
    left = limit if limit is not None else 1_000_000
    for store in read_dated(path):
        if left <= 0:
            return
        questions = [Question(asked.text, _judge(store, asked)) for asked in store.questions if asked.gold][:left]
        yield Case(_items(store), questions)
        left -= len(questions)


def _items(store: DatedStore) -> list[Item]:
    """Make an item of each message with text."""
    return [
        Item(
            id=message.id or "",
            text=f"{message.name or message.role}: {message.content}",
            words=message.content,
            speaker=message.name,
            role=message.role,
            session=talk.id,
            at=message.timestamp.timestamp() if message.timestamp else None,
        )
        for talk in store.conversations
        for message in talk.messages
        if message.content.strip()
    ]


def _judge(store: DatedStore, asked: Asked) -> Callable[[Sequence[str]], dict[str, float]]:
    title = TITLES[store.set]

    def judge(found: Sequence[str]) -> dict[str, float]:
        figures = figures_of(found, asked.gold, asked.gold_conversations, store.conversation_of)
        return {f"{title} {name}": value for name, value in figures.items()}

    return judge
