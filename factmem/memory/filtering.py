"""How people say which records they mean: one set of filters for recall, listings, pages and purges."""

from __future__ import annotations

import base64
import datetime as dt
import enum
import json
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypedDict

import attrs

from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.fold import Current
from factmem.recall import MetadataCondition, RecallFilter
from factmem.records import FactRecord
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json

__all__ = ["Filters", "RecordOrder", "RecordPage", "filter_of", "keywords_of", "page_of", "sorted_rows"]


class Filters(TypedDict, total=False):
    """Which records count; all that is given must hold.

    Attributes:
        scope: in this scope and its subtree.
        exact: in this very scope only.
        subject: about this subject (and individual).
        subjects: about one of these subjects (and individuals).
        concepts: of one of these concepts, or keywords.
        categories: with one of these categories.
        topics: with one of these topics.
        sources: from one of these sources.
        since: said at this time or later.
        until: said before this time.
        recorded_since: whose present revision was recorded at this time or later.
        recorded_until: whose present revision was recorded before this time.
        min_importance: at least so important.
        max_importance: at most so important.
        metadata: whose metadata holds all of these.
        where: whose metadata meets all conditions of one of these groups: ``[[this, and_this], [or_this]]``.
        record_ids: with one of these ids.
    """

    scope: MemoryScope | str | None
    exact: bool
    subject: MemorySubject | None
    subjects: Collection[MemorySubject]
    concepts: Collection[Concept[Any, Any] | str]
    categories: Collection[str]
    topics: Collection[str]
    sources: Collection[str]
    since: dt.datetime | None
    until: dt.datetime | None
    recorded_since: dt.datetime | None
    recorded_until: dt.datetime | None
    min_importance: float | None
    max_importance: float | None
    metadata: Mapping[str, Json] | None
    where: Sequence[Sequence[MetadataCondition]]
    record_ids: Collection[str]


def filter_of(filters: Filters, scope: MemoryScope | None) -> RecallFilter:
    """Return what is wanted as recall takes it.

    Args:
        filters: what was asked for.
        scope: its scope, anchored at the tenant.

    Raises:
        InvalidDataError: a time has no zone, or a condition cannot be met.
    """
    given: dict[str, Any] = {**filters, "scope": scope}
    keywords = keywords_of(given.pop("concepts", ()))
    return RecallFilter(**given | {"keywords": keywords, "metadata": given.get("metadata") or {}})


def keywords_of(concepts: Collection[Concept[Any, Any] | str]) -> Collection[str]:
    """Return the keywords of concepts, some of which may be given as such.

    Raises:
        InvalidDataError: it is a single one, or holds something else.
    """
    several = isinstance(concepts, Iterable) and not isinstance(concepts, str)
    if not several or not all(isinstance(item, str | Concept) for item in concepts):
        raise InvalidDataError("concepts are given as a list of them, or of keywords", path="$.concepts")
    return tuple(item if isinstance(item, str) else item.keyword for item in concepts)


class RecordOrder(enum.Enum):
    """What a listing goes by; among equals, by the number of the revision."""

    SAID = "said"
    RECORDED = "recorded"
    IMPORTANCE = "importance"


@attrs.frozen(kw_only=True)
class RecordPage:
    """One page of a listing.

    Attributes:
        records: the records.
        next_page: hand this in to get the page after this one; None after the last.
    """

    records: tuple[FactRecord[Any], ...]
    next_page: str | None


def _key(row: Current, order_by: RecordOrder) -> tuple[float | str, int]:
    recorded = row.recorded
    match order_by:
        case RecordOrder.SAID:
            return (_fixed(recorded.assertion.timestamp), recorded.seq)
        case RecordOrder.RECORDED:
            return (_fixed(recorded.recorded_at), recorded.seq)
        case RecordOrder.IMPORTANCE:
            return (float(recorded.assertion.details.importance), recorded.seq)


def _fixed(moment: dt.datetime) -> str:
    """A time in UTC as a text that sorts as the time does, exact to the microsecond."""
    return moment.astimezone(dt.UTC).isoformat(timespec="microseconds")


def sorted_rows(rows: Sequence[Current], order_by: RecordOrder, *, descending: bool) -> list[Current]:
    """Return current records in an order."""
    return sorted(rows, key=lambda row: _key(row, order_by), reverse=descending)


def page_of(
    rows: Sequence[Current], order_by: RecordOrder, *, descending: bool, size: int, page: str | None
) -> tuple[list[Current], str | None]:
    """Return the rows of one page, and the token of the next.

    A token says after which position to go on, not how many to pass over: what is added or goes
    away meanwhile neither repeats a record nor leaves one out.

    Args:
        rows: everything that there is.
        order_by: what the listing goes by.
        descending: the greatest first.
        size: how many rows a page has.
        page: the token of the page; None for the first.

    Raises:
        InvalidDataError: the size is no positive number, or the token belongs to no such listing.
    """
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InvalidDataError("the size of a page must be a whole number from 1 on")
    listing = [order_by.value, descending]
    rest = sorted_rows(rows, order_by, descending=descending)
    if page is not None:
        last = _read_token(page, listing)
        passed = operator.lt if descending else operator.gt
        rest = [row for row in rest if passed(_key(row, order_by), last)]
    taken = rest[:size]
    more = len(rest) > size
    return taken, _token(listing, _key(taken[-1], order_by)) if more else None


def _token(listing: list[Any], key: tuple[float | str, int]) -> str:
    return base64.urlsafe_b64encode(json.dumps([*listing, *key]).encode()).decode().rstrip("=")


def _read_token(token: str, listing: list[Any]) -> tuple[float | str, int]:
    try:
        found: Any = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, TypeError, RecursionError):
        found = None
    match found:
        case [order, descending, float() | str() as value, int() as seq] if [
            order,
            descending,
        ] == listing and isinstance(value, float) is (order == RecordOrder.IMPORTANCE.value):
            return value, seq
        case _:
            raise InvalidDataError("this is no page of this listing: hand in the next_page of one in the same order")
