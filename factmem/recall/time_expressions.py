r"""Times that a query names: "two weeks ago", "last May", "between March and May 2023", as spans against a clock.

English, by rules and without a model: a span is what counts here, and libraries that parse dates give points.
What is vague stays wide: "a month ago" is two weeks on either side. A month, a weekday, a season or a holiday that
names no year is the last one that had begun. A holiday counts with the day before and the two days after it, when it
is talked about. A name that is also a word ("may", "march", "fall") counts only where something else says that it is a
time. Times to come are not read: what is known was said before.

Some spans, for ``now`` on Saturday, 21 November 2026::

    last May                    [2026-05-01, 2026-06-01)
    three weeks ago             [2026-10-27, 2026-11-05)      half a unit on either side
    in the last two weeks       [2026-11-08, 2026-11-22)
    before March 2024           [          , 2024-03-01)
    between November and May    [2025-11-01, 2026-06-01)
    in May of last year         [2025-05-01, 2025-06-01)
    a year ago today            [2025-11-21, 2025-11-22)
    late 2021                   the last two fifths of it
    two summers ago             [2025-06-01, 2025-09-01)
    over Easter                 [2026-04-02, 2026-04-09)
    the week before Christmas   [2025-12-17, 2025-12-24)
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Final

import attrs

from factmem.recall.time_words import HINT, NAMED_LAST, OFFSET, READERS, Offset, Span, midnight, offset_in

__all__ = ["TimeSpan", "times_in"]


@attrs.frozen(kw_only=True)
class TimeSpan:
    """A stretch of time that a query names.

    Attributes:
        start: its first moment, in UTC; None where it has no beginning ("before May").
        end: the first moment after it, in UTC; later than its start.
    """

    start: dt.datetime | None
    end: dt.datetime

    def holds(self, moment: dt.datetime) -> bool:
        """Whether a moment lies in it."""
        return (self.start is None or self.start <= moment) and moment < self.end


def times_in(query: str, now: dt.datetime) -> tuple[TimeSpan, ...]:
    """Return the times that a query names, in its order, each once; none for most queries. Nothing raises.

    Of a text too long for a question, the first 16 times in its first 100,000 characters are read.

    Args:
        query: what is asked.
        now: what "ago" counts from, aware; days begin and end in its time zone.
    """
    query = " ".join(query[:_LONGEST].translate(_PLAIN).split())
    if not HINT.search(query):
        return ()
    try:
        spans = [_utc(span) for span in _spans(query, _ranges(query, _named(query, now)), now)]
    except (ValueError, OverflowError):  # where the calendar ends
        return ()
    return tuple(dict.fromkeys(span for span in spans if span is not None))


_MOST: Final = 16
_LONGEST: Final = 100_000
_BACK: Final = 40
"""How far before a time the words are looked at that say how it is meant."""
_PLAIN: Final = str.maketrans("ıİſ\u212a\N{RIGHT SINGLE QUOTATION MARK}", "iIsK'")
"""Letters that a pattern takes for others when it ignores case, and the apostrophe of typesetters."""


@attrs.frozen
class _Hit:
    """A time that a query names: where it stands, and what it means before the words around it are looked at."""

    first: int
    last: int
    span: Span
    year: bool
    """Whether it says which year it means, or needs no year."""
    holiday: bool = False
    """Whether it is a holiday, which is talked about some days before and after."""


def _named(query: str, now: dt.datetime) -> list[_Hit]:
    """Find the times that stand in a query, one reader after another; what one has read, no later one reads."""
    found: list[_Hit] = []
    for pattern, read in READERS:
        here = len(found)
        for match in pattern.finditer(query):
            if len(found) >= here + _MOST or (here == _MOST and match.start() > found[_MOST - 1].first):
                break
            first = _first_of(match)
            if any(first < hit.last and hit.first < match.end() for hit in found):
                continue
            try:
                span = read(match, now)
            except (ValueError, OverflowError):  # 31 February, or before the calendar begins
                continue
            if span is not None:
                groups = match.groupdict()
                year = bool(groups.get("year") or groups.get("again") or not _YEARLY & groups.keys())
                found.append(_Hit(first, match.end(), span, year, bool(groups.get("holiday"))))
        found = sorted(found, key=lambda hit: hit.first)[:_MOST]
    return found


_YEARLY: Final = {"month", "season", "holiday"}
"""Groups of a pattern that read what each year has."""


def _first_of(match: re.Match[str]) -> int:
    """Where a time begins: after a word that says how it is meant, with one that belongs to it."""
    lead = match.groupdict().get("lead")
    return match.end("lead") if lead and lead.lower() not in NAMED_LAST else match.start()


_FROM: Final = re.compile(r"\b(?:between|from)(?: the)?\s*$", re.IGNORECASE)
_TO: Final = re.compile(r"\s*(?:and|to|until|till|through|up to|-|–)(?: the)?\s*", re.IGNORECASE)


def _ranges(query: str, hits: list[_Hit]) -> list[_Hit]:
    """Make one of two times that are the ends of one: "between X and Y", "from X to Y"."""
    united: list[_Hit] = []
    for hit in hits:
        before = united[-1] if united else None
        if before and _TO.fullmatch(query, before.last, hit.first) and _just_before(_FROM, query, before.first):
            try:
                united[-1] = _Hit(before.first, hit.last, _from_to(before, hit), year=True)
                continue
            except (ValueError, OverflowError):  # before the calendar begins
                pass
        united.append(hit)
    return united


def _just_before(pattern: re.Pattern[str], query: str, end: int) -> re.Match[str] | None:
    return pattern.search(query, max(0, end - _BACK), end)


def _from_to(first: _Hit, last: _Hit) -> Span:
    """Unite two times; the first one, if it names no year, is the last such one before the other."""
    start, end = first.span[0], last.span[1]
    if start is not None and not first.year:
        year = (end - dt.timedelta(days=1)).year
        day = 28 if (start.month, start.day) == (2, 29) else start.day
        start = start.replace(year=year, day=day)
        start = start if start < end else start.replace(year=year - 1)
    starts = [one for one in (start, last.span[0]) if one is not None]
    return (min(starts) if len(starts) == 2 else None), max(first.span[1], end) if first.year else end


_TURN: Final = re.compile(
    r"\b(since|before|until|till|up to|prior to|earlier than|after|later than)(?: the| this)?\s*$", re.IGNORECASE
)
_PART: Final = re.compile(
    r"\b(early|start of|beginning of|first half of|mid|middle of|late|end of|second half of)"
    r"(?: in)?(?: the| this)?[\s-]*$",
    re.IGNORECASE,
)


_AWAY: Final = re.compile(rf"{OFFSET}(?P<turn>before|after)(?: the| this)?\s*$", re.IGNORECASE)
_ONWARDS: Final = re.compile(r" onwards?\b", re.IGNORECASE)
_A_DAY: Final = dt.timedelta(days=1)


def _spans(query: str, hits: list[_Hit], now: dt.datetime) -> Iterator[Span]:
    """Read the words around each time: the part of it that is meant, or a time before or after it."""
    tomorrow = midnight(now) + _A_DAY
    for hit in hits:
        before, span = hit.first, hit.span
        if part := _just_before(_PART, query, before):
            before, span = part.start(), _part(part[1].lower(), span)
        away, turn = _just_before(_AWAY, query, before), _just_before(_TURN, query, before)
        if away and (offset := offset_in(away)):
            yield _moved(away["turn"].lower(), offset, span)
        elif turn or _ONWARDS.match(query, hit.last):
            yield _turned(turn[1].lower() if turn else "since", span, tomorrow)
        elif hit.holiday and not part and span[0] is not None:
            yield span[0] - _A_DAY, span[1] + 2 * _A_DAY
        else:
            yield span


def _moved(turn: str, offset: Offset, span: Span) -> Span:
    start, end = span
    if turn == "after":
        return offset.after(end)
    return span if start is None else offset.before(start)


def _part(which: str, span: Span) -> Span:
    """Return a part of a time, at its beginning, in its middle or at its end."""
    start, end = span
    if start is None:
        return span
    fifth = (end - start) / 5
    match which:
        case "early":
            return start, start + 2 * fifth
        case "late":
            return end - 2 * fifth, end
        case "start of" | "beginning of":
            return start, start + 1.25 * fifth
        case "end of":
            return end - 1.25 * fifth, end
        case "first half of":
            return start, start + 2.5 * fifth
        case "second half of":
            return end - 2.5 * fifth, end
    return start + 1.5 * fifth, end - 1.5 * fifth


def _turned(turn: str, span: Span, tomorrow: dt.datetime) -> Span:
    start, end = span
    match turn:
        case "since":
            return (start, tomorrow) if start is not None and start < tomorrow else span
        case "after" | "later than":
            return (end, tomorrow) if end < tomorrow else span
    return span if start is None else (None, start)


def _utc(span: Span) -> TimeSpan | None:
    try:
        start, end = (moment and moment.astimezone(dt.UTC) for moment in span)
    except (ValueError, OverflowError):
        return None
    assert end is not None
    return TimeSpan(start=start, end=end) if start is None or start < end else None
