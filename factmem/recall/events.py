"""Things that happened, which a query counts its times from: "before the move", "since we got the dog"."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from factmem.facts import STATEMENT
from factmem.recall.analysis import analyse
from factmem.recall.asking import Query
from factmem.recall.engine import RecallMatch
from factmem.recall.time_expressions import TimeSpan, times_in
from factmem.records import FactRecord, Origin
from factmem.subjects import MemorySubject
from factmem.values import encode_value

__all__ = ["TELLING", "EventTime", "Turn", "events_in", "in_seconds", "span_between", "spans_told", "timed", "told_by"]

_A_DAY: Final = dt.timedelta(days=1)
_AROUND: Final = dt.timedelta(days=7)
_LONGEST: Final = 8
"""Of more words than these, nobody says the same again."""

_MOST: Final = 3

_READ: Final = 4096
"""In so many characters of a query events are looked for: whoever asks waits for it on the event loop."""

TELLING: Final = 10
"""Among so many records, the one is looked for that tells when something happened."""


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
        """Return the time that is meant, if it happened at a moment; None if that leaves none in the calendar.

        Args:
            moment: when it happened, aware.
            now: the present, aware.
        """
        try:
            moment = moment.astimezone(dt.UTC)
            match self.turn:
                case Turn.BEFORE:
                    return TimeSpan(start=None, end=moment)
                case Turn.AFTER:
                    return span_between(moment, None, now)
            return TimeSpan(start=moment - _AROUND, end=moment + _AROUND)
        except OverflowError:
            return None


def in_seconds(span: TimeSpan) -> tuple[float, float]:
    """Return a time as a `Query` takes it."""
    return -math.inf if span.start is None else span.start.timestamp(), span.end.timestamp()


def timed(
    query: Query, events: Sequence[EventTime], find: Callable[[str], Sequence[RecallMatch]], now: dt.datetime
) -> Query:
    """Return a query with the times that events tell; as it is if words do not count.

    Args:
        query: the query.
        events: what happened; see `events_in`.
        find: finds records by a phrase, behind the walls of whoever asks.
        now: the present, aware.
    """
    if not events or not query.lexical_weight:
        return query
    told = spans_told(events, [find(event.phrase) for event in events], now)
    return attrs.evolve(query, times=(*query.times, *map(in_seconds, told)))


def spans_told(
    events: Iterable[EventTime], found: Iterable[Sequence[RecallMatch]], now: dt.datetime
) -> tuple[TimeSpan, ...]:
    """Return the times that are told by events, each as the most similar record has it that tells of that.

    Args:
        events: what happened.
        found: of each, what a search for its phrase finds.
        now: the present, aware.
    """
    spans = (_span_told(event, matches, now) for event, matches in zip(events, found, strict=True))
    return tuple(dict.fromkeys(span for span in spans if span is not None))


def _span_told(event: EventTime, found: Sequence[RecallMatch], now: dt.datetime) -> TimeSpan | None:
    for match in sorted(found, key=lambda match: -match.parts.similarity):
        record = match.record
        if event.is_told_by([told_by(record)]):
            return event.span(record.fact.valid_from or record.timestamp, now)
    return None


def told_by(record: FactRecord[object]) -> str:
    """What a record says, for who knows nothing else of it."""
    data = encode_value(record.value, record.concept.value_type)
    said = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    if record.concept.keyword == STATEMENT.keyword:
        return f"the assistant said: {said}" if record.details.origin is Origin.ASSISTANT else said
    about = "" if record.subject.key == MemorySubject.EVERYTHING.key else f"{record.subject}, "
    return f"{about}{record.concept.description or record.concept.keyword}: {said}"


def span_between(since: dt.datetime | None, until: dt.datetime | None, now: dt.datetime) -> TimeSpan | None:
    """Return the time between two moments, aware; None if it is none, or neither is given.

    Args:
        since: from when on; None for from the beginning.
        until: until when; None for until the end of the present day.
        now: the present, aware.
    """
    if since is None and until is None:
        return None
    try:
        start = None if since is None else since.astimezone(dt.UTC)
        end = (now + _A_DAY if until is None else until).astimezone(dt.UTC)
    except OverflowError:  # where the calendar ends
        return None
    return TimeSpan(start=start, end=end) if start is None or start < end else None


def events_in(query: str, now: dt.datetime) -> tuple[EventTime, ...]:
    """Return the first times that a query tells by what happened then; those that it names are none.

    Args:
        query: what is asked.
        now: the present, aware.
    """
    found: dict[EventTime, None] = {}
    for match in _EVENT.finditer(" ".join(query[:_READ].split())):
        phrase = match[2].strip()
        if len(phrase.split()) <= _LONGEST and analyse(phrase) and not times_in(match[0], now):
            found[EventTime(_TURNS.get(match[1].lower(), Turn.AROUND), phrase)] = None
        if len(found) == _MOST:
            break
    return tuple(found)
