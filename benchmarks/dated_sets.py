"""Dated conversations with questions: one store per line, each question with its time."""

from __future__ import annotations

import datetime as dt
import functools
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from factmem import Conversation, Message

__all__ = ["TITLES", "DatedStore", "Question", "read_dated"]

TITLES: Final = {"locomo": "LoCoMo", "realtalk": "REALTALK", "beam": "BEAM", "longmemeval": "LongMemEval"}
"""Titles of the sets in tables."""


@attrs.frozen(kw_only=True)
class Question:
    """A question with its gold evidence.

    Attributes:
        text: the question.
        kind: the set's own name for this kind of question.
        gold: ids of the messages that answer it; empty if nothing does.
        gold_conversations: ids of the conversations that answer it; empty where the set names none.
        asked_at: the time of the question.
    """

    text: str
    kind: str
    gold: frozenset[str]
    gold_conversations: frozenset[str]
    asked_at: dt.datetime

    @property
    def answerable(self) -> bool:
        """Whether the store holds an answer.

        LoCoMo's category 5 names evidence, but has no answer in the conversations.
        """
        return self.kind not in ("category 5", "abstention") and not self.kind.endswith("_abs")


@attrs.frozen(kw_only=True)
class DatedStore:
    """Conversations and the questions about them."""

    set: str
    id: str
    conversations: tuple[Conversation, ...] = attrs.field(repr=False)
    questions: tuple[Question, ...] = attrs.field(repr=False)

    @functools.cached_property
    def conversation_of(self) -> Mapping[str, str]:
        """Return the conversation of each message, by ids."""
        return {said.id or "": talk.id or "" for talk in self.conversations for said in talk.messages}


def read_dated(path: Path) -> Iterator[DatedStore]:
    """Read a file of dated stores: JSON Lines, compressed by gzip if its name ends in ``.gz``."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    yield from map(_store, map(json.loads, data.splitlines()))


def _store(read: dict[str, Any]) -> DatedStore:
    return DatedStore(
        set=read["set"],
        id=read["id"],
        conversations=tuple(
            Conversation(
                id=talk["id"],
                messages=[
                    Message(
                        id=said["id"],
                        role=said["role"],
                        name=said["name"],
                        content=said["content"],
                        timestamp=dt.datetime.fromisoformat(said["at"]),
                    )
                    for said in talk["messages"]
                ],
            )
            for talk in read["conversations"]
        ),
        questions=tuple(
            Question(
                text=asked["question"],
                kind=asked["kind"],
                gold=frozenset(asked["gold"]),
                gold_conversations=frozenset(asked.get("gold_conversations") or ()),
                asked_at=dt.datetime.fromisoformat(asked["asked_at"]),
            )
            for asked in read["questions"]
        ),
    )
