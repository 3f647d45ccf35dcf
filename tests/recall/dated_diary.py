"""A diary of three years, in messages to an assistant: events that differ only by date, among everyday talk.

The author moves to Porto, starts a job, goes to a wedding, adopts a dog and sits an exam; dinners, trips, films, books,
runs, presents and visits to the dentist recur in much the same words.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from factmem import Conversation, Message
from tests.tables import rows, sections

__all__ = ["NOW", "conversations", "questions"]

NOW: Final = dt.datetime(2026, 11, 18, 15, 30, tzinfo=dt.UTC)
"""A Wednesday, a week before Thanksgiving."""

_FILE: Final = Path(__file__).with_suffix(".txt")


def conversations() -> list[Conversation]:
    """Return the diary, one conversation per day, its messages a minute apart."""
    days = list[tuple[str, list[Message]]]()
    for line in sections(_FILE)["diary"]:
        if line[:4].isdecimal():
            days.append((line, []))
        else:
            day, messages = days[-1]
            at = dt.datetime.fromisoformat(f"{day}T09:00").replace(tzinfo=dt.UTC) + dt.timedelta(minutes=len(messages))
            role = "assistant" if line.startswith("> ") else "user"
            messages.append(Message(content=line.removeprefix("> "), role=role, id=str(len(messages)), timestamp=at))
    return [Conversation(messages=messages, id=day) for day, messages in days]


def questions() -> Sequence[tuple[str, ...]]:
    """Return questions that differ only by time, each with the beginnings of the statements that answer it."""
    return [question for name, found in rows(_FILE).items() if "questions" in name for question in found]
