"""What retrieval is measured on: LoCoMo and LongMemEval, as stores to fill and questions to ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import attrs
import locomo
import longmemeval
from peers.protocol import Item
from retrieval_metrics import first_seen

from factmem import Conversation
from factmem.detection import read_conversations

__all__ = ["Case", "Question", "cases_of", "items_of"]


@attrs.frozen
class Question:
    """Something to ask of a store.

    Attributes:
        text: the question.
        judge: from the ids that were found, best first, to the figures they get, by name.
    """

    text: str
    judge: Callable[[Sequence[str]], dict[str, float]] = attrs.field(repr=False)


@attrs.frozen
class Case:
    """A store's items, and the questions that it is asked."""

    items: list[Item] = attrs.field(repr=False)
    questions: list[Question]


def cases_of(path: Path, limit: int | None = None) -> Iterator[Case]:
    """Read a file of LoCoMo or of LongMemEval.

    Args:
        path: the file.
        limit: how many questions at the most; all if None.
    """
    cases = _longmemeval(path) if "longmemeval" in path.name else _locomo(path)
    left = limit if limit is not None else 1_000_000
    for case in cases:
        if left <= 0:
            return
        yield attrs.evolve(case, questions=case.questions[:left])
        left -= len(case.questions)


def items_of(conversations: Iterable[Conversation]) -> list[Item]:
    """Make an item of each message that says something."""
    return [
        Item(
            id=f"{talk.id}#{message.id or number}",
            text=f"{message.name or message.role}: {message.content}",
            words=message.content,
            speaker=message.name,
            role=message.role,
            session=talk.id,
            at=at.timestamp() if (at := message.timestamp or talk.started_at) else None,
        )
        for talk in conversations
        for number, message in enumerate(talk.messages)
        if message.content.strip()
    ]


def _locomo(path: Path) -> Iterator[Case]:
    conversations = list(read_conversations(path))
    for sample in json.loads(path.read_text(encoding="utf-8")):
        prefix = f"{sample['sample_id']}/session_"
        own = [talk for talk in conversations if (talk.id or "").startswith(prefix)]
        turns = {message.id for talk in own for message in talk.messages if message.id}
        questions = [
            Question(asked["question"], _locomo_judge(asked, gold, prefix))
            for asked in sample["qa"]
            if (gold := locomo.gold_turns(asked, turns))
        ]
        yield Case(items_of(own), questions)


def _locomo_judge(asked: dict[str, object], gold: set[str], prefix: str) -> Callable[[Sequence[str]], dict[str, float]]:
    def judge(found: Sequence[str]) -> dict[str, float]:
        turns = [item.partition("#")[2] for item in found]
        figures = locomo.figures_of(asked, gold, prefix, _sessions(found), turns)
        return {f"LoCoMo {name}": value for name, value in figures.items()}

    return judge


def _longmemeval(path: Path) -> Iterator[Case]:
    for asked in longmemeval.questions_of(path):
        judge = _longmemeval_judge(set(asked["answer_session_ids"]), answerable=not longmemeval.is_abstention(asked))
        yield Case(items_of(longmemeval.haystack_of(asked)), [Question(asked["question"], judge)])


def _longmemeval_judge(gold: set[str], *, answerable: bool) -> Callable[[Sequence[str]], dict[str, float]]:
    def judge(found: Sequence[str]) -> dict[str, float]:
        figures = longmemeval.figures_of(gold, _sessions(found)) if answerable else {}
        return {f"LongMemEval {name}": value for name, value in figures.items()}

    return judge


def _sessions(found: Sequence[str]) -> list[str]:
    return first_seen(item.partition("#")[0] for item in found)
