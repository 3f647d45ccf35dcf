"""Things that happened, which a query counts its times from: "before the move", "since we got the dog"."""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections.abc import Iterable
from typing import Final

import attrs

from factmem.recall.analysis import analyse
from factmem.recall.time_expressions import TimeSpan, times_in

__all__ = ["EventTime", "Turn", "events_in"]

_AROUND: Final = dt.timedelta(days=7)
_LONGEST: Final = 8
"""Of more words than these, nobody says the same again."""


class Turn(enum.Enum):
    """How a time lies to what happened."""

    BEFORE = "before"
    AFTER = "after"
    AROUND = "around"


_TURNS: Final = {"before": Turn.BEFORE, "until": Turn.BEFORE, "since": Turn.AFTER, "after": Turn.AFTER}
_EVENT: Final = re.compile(
    r"\b((?i:before|until|since|after|during|around)) "
    r"((?:(?i:the|my|our|his|her|their|your|we|i|he|she|they)\b|[A-Z])[^?.,;:!]*)"
)


@attrs.frozen
class EventTime:
    """A time that a query tells by what happened then.

    Attributes:
        turn: whether it lies before or after that, or around it.
        phrase: what happened, in the query's words.
    """

    turn: Turn
    phrase: str

    def is_told_by(self, texts: Iterable[str]) -> bool:
        """Whether some texts together hold every word of the phrase, function words and endings apart."""
        told = {term for text in texts for term in analyse(text)}
        return told.issuperset(analyse(self.phrase))

    def span(self, moment: dt.datetime, now: dt.datetime) -> TimeSpan | None:
        """Return the time that is meant, if it happened at a moment; None if that leaves none.

        Args:
            moment: when it happened, aware.
            now: the present, aware.
        """
        moment, tomorrow = moment.astimezone(dt.UTC), now.astimezone(dt.UTC) + dt.timedelta(days=1)
        match self.turn:
            case Turn.BEFORE:
                return TimeSpan(start=None, end=moment)
            case Turn.AFTER:
                return TimeSpan(start=moment, end=tomorrow) if moment < tomorrow else None
        return TimeSpan(start=moment - _AROUND, end=moment + _AROUND)


def events_in(query: str, now: dt.datetime) -> tuple[EventTime, ...]:
    """Return the times that a query tells by what happened then; those that it names are none.

    Args:
        query: what is asked.
        now: the present, aware.
    """
    found = []
    for match in _EVENT.finditer(" ".join(query.split())):
        phrase = match[2].strip()
        if len(phrase.split()) <= _LONGEST and analyse(phrase) and not times_in(match[0], now):
            found.append(EventTime(_TURNS.get(match[1].lower(), Turn.AROUND), phrase))
    return tuple(dict.fromkeys(found))
