"""Events that a query dates things by: "before the move", "since we got the dog", "a month after the wedding".

The date of an event is that of a record about it, found within the caller's view and filters.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

import attrs

from factmem.details import Origin
from factmem.patterns import lazy_pattern
from factmem.recall.index.outline_codec import term_numbers
from factmem.recall.queries import Query
from factmem.recall.results import RecallMatch
from factmem.recall.text.analysis import analyse
from factmem.recall.text.related_words import term_of
from factmem.recall.text.times import OFFSET, Offset, TimeSpan, midnight, offset_in, times_in
from factmem.records import FactRecord
from factmem.subjects import MemorySubject
from factmem.toml_tables import table
from factmem.values import encode_value, value_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_A_DAY: Final = dt.timedelta(days=1)
_LONGEST: Final = 8
"""Maximum number of words of a phrase; longer ones are not repeated word by word."""

_MOST: Final = 3

_READ: Final = 4096
"""Number of characters of a query that are searched for events, on the event loop."""

TELLING: Final = 10
"""Number of top matches that are searched for the record of an event."""


_TABLE: Final = table("recall/text/times")
_BEFORE: Final = frozenset(_TABLE["before_an_event"].split())
_EVENT: Final = lazy_pattern(
    rf"(?:(?i:{OFFSET}))?\b(?P<turn>(?i:{'|'.join(_BEFORE)}|since|after)) "
    r"(?P<phrase>(?:(?i:the|my|our|his|her|their|your|we|i|he|she|they)\b|[A-Z]|(?P<doing>[a-z]+ing\b))[^?.,;:!]*)"
)
_ASKS: Final = lazy_pattern(_TABLE["asks"], re.IGNORECASE)
"""Start of the question behind an event: "after we moved what did I buy"."""

_IN_THE_PAST: Final = lazy_pattern(_TABLE["in_the_past"], re.IGNORECASE)
_AHEAD: Final = lazy_pattern(_TABLE["ahead"], re.IGNORECASE)
"""Words of a record about a future event, or of a question."""

_DONE: Final = lazy_pattern(_TABLE["done"], re.IGNORECASE)
"""Words of a record about a past event."""

_JUST_NOW: Final = lazy_pattern(_TABLE["just_now"], re.IGNORECASE)
"""Words of a record about an event on its day."""

_LIGHT: Final = frozenset(_TABLE["light"].split())
"""Stems of verbs that others may replace: "got the dog" and "adopted the dog"."""

_RELATED: Final = 0.1
"""Least weight at which a related word stands for a word of a phrase."""


@attrs.frozen
class EventTime:
    """A time that a query names by an event.

    Attributes:
        before: Whether it lies before the event, and not after.
        phrase: The event, in the query's words.
        rest: The part of the query whose words and meaning count: all of it for any time after the event, for what
            follows from the event tells of it; otherwise what is left without the event.
        offset: Distance before or after the event; None for any distance.
    """

    before: bool
    phrase: str
    rest: str = attrs.field(default="", kw_only=True, eq=False)
    offset: Offset | None = attrs.field(default=None, kw_only=True)

    def is_in(self, text: str, *, related: bool) -> bool:
        """Return whether a text holds every word of the phrase, regardless of function words and endings.

        Verbs like "get" and "start" need not occur if the phrase has other words.

        Args:
            text: The text.
            related: Let a related word stand for each.
        """
        terms = set(analyse(self.phrase))
        terms = terms - _LIGHT or terms
        words = analyse(text)
        if not related:
            return terms.issubset(words)
        numbers = set(term_numbers(words))
        return all(_stands_for(number, numbers) for number in term_numbers(terms))

    def span(self, moment: dt.datetime, now: dt.datetime) -> TimeSpan | None:
        """Return the interval of the time; None if it lies outside the calendar.

        Args:
            moment: When the event happened, aware.
            now: The present, aware.
        """
        try:
            moment = moment.astimezone(dt.UTC)
            if self.offset is None:
                return TimeSpan(start=None, end=midnight(moment)) if self.before else span_between(moment, None, now)
            if self.before:
                start, end = self.offset.before(moment)
                return TimeSpan(start=start - _A_DAY, end=end)
            start, end = self.offset.after(moment)
            return TimeSpan(start=start, end=end + _A_DAY)
        except OverflowError:
            return None


def _stands_for(number: int, among: Set[int]) -> bool:
    term = term_of(number)
    related = zip(term.numbers.tolist(), term.weights.tolist(), strict=True)
    return any(other in among and weight >= _RELATED for other, weight in related)


def timed(
    query: Query,
    events: Sequence[EventTime],
    find: Callable[[str], Sequence[RecallMatch]],
    vectors: Mapping[str, NDArray[np.float32] | None],
    now: dt.datetime,
) -> Query:
    """Return a query with the times of its events; see `EventTime.rest`. It is unchanged if words do not count.

    Args:
        query: The query.
        events: Its events; see `events_in`.
        find: Finds records by a phrase in the caller's view, regardless of filters: these change no score.
        vectors: The embeddings of the texts that are left without an event.
        now: The present, aware.
    """
    if not events or not query.lexical_weight:
        return query
    for event in events:
        if span := event_span(event, find(event.phrase), now):
            query = query.at([span], event.rest)
            if (vector := vectors.get(event.rest)) is not None:
                query = attrs.evolve(query, vector=vector)
    return query


def event_span(event: EventTime, found: Sequence[RecallMatch], now: dt.datetime) -> TimeSpan | None:
    """Return the interval that an event names, by the most similar record about it; None if there is none.

    Records of the event's own day come first, then those of a past event, then those that say neither, then those of a
    future event. Related words count only if no record has the words themselves.

    Args:
        event: The event.
        found: The matches of its phrase.
        now: The present, aware.
    """
    for related in (False, True):
        telling = [match for match in found if event.is_in(sentence_of(match.record), related=related)]
        if telling:
            best = min(telling, key=lambda match: (_distance(sentence_of(match.record)), -match.parts.similarity))
            return event.span(best.record.fact.valid_from or best.record.timestamp, now)
    return None


def _distance(text: str) -> int:
    """Return the rank of a text about an event by its distance from the event's day, from 0 to 3."""
    if _AHEAD.search(text):
        return 3
    if _JUST_NOW.search(text):
        return 0
    return 1 if _DONE.search(text) else 2


def sentence_of(record: FactRecord[object]) -> str:
    """Return the content of a record as a sentence of its own."""
    said = value_text(encode_value(record.value, record.concept.value_type))
    if record.is_statement:
        return f"the assistant said: {said}" if record.details.origin is Origin.ASSISTANT else said
    about = "" if record.subject.key == MemorySubject.EVERYTHING.key else f"{record.subject}, "
    return f"{about}{record.concept.description or record.concept.keyword}: {said}"


def span_between(since: dt.datetime | None, until: dt.datetime | None, now: dt.datetime) -> TimeSpan | None:
    """Return the interval between two aware datetimes, or None if it is empty or unbounded.

    Args:
        since: Beginning; None for an open one.
        until: End; None for the end of the present day.
        now: The present, aware.
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
    """Return the first events that a query dates things by. A time that the query names itself is not an event.

    Args:
        query: The question.
        now: The present, aware.
    """
    found: dict[EventTime, None] = {}
    query = " ".join(query[:_READ].split())
    for match in _EVENT.finditer(query):
        phrase = _ASKS.split(match["phrase"], maxsplit=1)[0].rstrip()
        before = match["turn"].lower() in _BEFORE
        if match["doing"] and not _IN_THE_PAST.search(query):
            continue  # "before going to bed" is a habit
        if len(phrase.split()) <= _LONGEST and analyse(phrase) and not times_in(f"{match['turn']} {phrase}", now):
            offset = offset_in(match)
            left = f"{query[: match.start()]} {query[match.start('phrase') + len(phrase) :]}"
            rest = " ".join(left.split()) if before or offset else query
            found[EventTime(before, phrase, rest=rest, offset=offset)] = None
        if len(found) == _MOST:
            break
    return tuple(found)
