"""Filters: one set of conditions on records for recall, listings, erasures and audits."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import enum
import json
import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

from factmem.error_hints import kind_of
from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.recall import MetadataCondition, RecallFilter
from factmem.recall.index.column_fold import CurrentRows
from factmem.recall.index.corpus import Corpus
from factmem.records import FactRecord
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import check_fraction, check_text, check_whole
from factmem.values import Json

__all__ = [
    "Filters",
    "RecordOrder",
    "RecordPage",
    "check_concept",
    "check_query",
    "check_range",
    "filter_of",
    "ids_of",
    "is_record_id",
    "keywords_of",
    "page_of",
    "sorted_rows",
]


_RECORD_ID: Final = re.compile(
    r"[0-9a-f]{32}(?:-[0-9a-f]+)?|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
"""Form of the ids that stores assign. Where a provider has the four verbs only, a digest of the value follows."""


class Filters(TypedDict, total=False):
    """Conditions on records, combined by AND. An empty list matches nothing, None matches everything.

    Attributes:
        scope: Scope, with its subtree; or a whole branch such as ``/product``, or ``/`` for everything.
        exact: Leave out the subtree.
        subject: Subject (and individual).
        subjects: One of these subjects (and individuals).
        concepts: One of these concepts, or keywords.
        without_concepts: None of these concepts, or keywords.
        categories: At least one of these categories.
        topics: At least one of these topics.
        sources: One of these sources.
        speakers: Statements of speakers with one of these names, such as `Message.name` in a conversation of several.
        since: Said at this time or later.
        until: Said before this time.
        recorded_since: Present revision recorded at this time or later.
        recorded_until: Present revision recorded before this time.
        min_importance: Minimum importance.
        max_importance: Maximum importance.
        telling: Leave out statements that tell nothing: questions, requests, greetings, thanks, reactions. What
            answers a question or corrects what was said before tells something; see `Evidence.before`.
        assistant: Said by the assistant (True), or by anybody else (False).
        pattern: Value in which this regular expression is found, such as ``(?i)teas?``. It takes time linear in the
            values, and has neither look-around nor back-references. The values of all records that meet the other
            conditions are read.
        metadata: Metadata that holds all of these entries.
        where: Metadata that meets all conditions of one of these groups: ``[[this, and_this], [or_this]]``.
        record_ids: One of these ids.
    """

    scope: MemoryScope | str | None
    exact: bool
    subject: MemorySubject | str | None
    subjects: Collection[MemorySubject | str] | None
    concepts: Collection[Concept[Any, Any] | str] | None
    without_concepts: Collection[Concept[Any, Any] | str] | None
    categories: Collection[str] | None
    topics: Collection[str] | None
    sources: Collection[str] | None
    speakers: Collection[str] | None
    since: dt.datetime | None
    until: dt.datetime | None
    recorded_since: dt.datetime | None
    recorded_until: dt.datetime | None
    min_importance: float | None
    max_importance: float | None
    telling: bool
    assistant: bool | None
    pattern: str | None
    metadata: Mapping[str, Json] | None
    where: Sequence[Sequence[MetadataCondition]]
    record_ids: Collection[str] | None


def filter_of(
    filters: Filters,
    scope: MemoryScope | None,
    subject: MemorySubject | None,
    subjects: Collection[MemorySubject] | None,
    *,
    strongest: bool = False,
) -> RecallFilter:
    """Return the filter of recall for a caller's conditions.

    Args:
        filters: The conditions.
        scope: Its scope, anchored at the tenant.
        subject: Its subject.
        subjects: Its subjects.
        strongest: See `RecallFilter`.

    Raises:
        InvalidDataError: A time has no zone, or a condition cannot be met.
    """
    given: dict[str, Any] = {**filters, "scope": scope, "subject": subject, "subjects": subjects}
    for concepts, keywords in (("concepts", "keywords"), ("without_concepts", "without_keywords")):
        several = given.pop(concepts, None)
        given[keywords] = None if several is None else keywords_of(several)
    given["metadata"] = given.get("metadata") or {}
    return RecallFilter(**given, strongest=strongest)


def keywords_of(concepts: Collection[Concept[Any, Any] | str]) -> Collection[str]:
    """Return the keywords of concepts, some of which may be given as such.

    Raises:
        InvalidDataError: It is not a list, or an item is neither a concept nor a keyword. The id of a record is
            refused: it would never match a keyword.
    """
    several = isinstance(concepts, Iterable) and not isinstance(concepts, str)
    if not several or not all(isinstance(item, str | Concept) for item in concepts):
        raise InvalidDataError("concepts are given as a list of them, or of keywords", path="$.concepts")
    if any(isinstance(item, str) and is_record_id(item) for item in concepts):
        raise InvalidDataError(
            "expected a keyword, got the id of a record: get(id), history(id), forget(id) and the filter "
            "record_ids=[id] take ids; a concept with such a keyword is given as the Concept itself",
            path="$.concepts",
        )
    return tuple(item if isinstance(item, str) else item.keyword for item in concepts)


def is_record_id(text: str) -> bool:
    """Return whether a text has the form of a record's id: 32 hexadecimal digits, or a UUID."""
    return _RECORD_ID.fullmatch(text) is not None


def ids_of(ids: Iterable[str]) -> dict[str, None]:
    """Return the ids of records, each once, in their order.

    Raises:
        InvalidDataError: One of them is not a text.
    """
    given = list(ids)
    if not all(isinstance(id, str) for id in given):
        raise InvalidDataError("the id of a record is a text: take FactRecord.id", path="$.id")
    return dict.fromkeys(given)


class RecordOrder(enum.Enum):
    """Sort key of a listing; equal records are sorted by the number of the revision."""

    SAID = "said"
    RECORDED = "recorded"
    IMPORTANCE = "importance"


class RecordPage(list[FactRecord[Any]]):
    """The records of a listing, or one page of them.

    Attributes:
        next_page: Token of the next page; None after the last one.
    """

    def __init__(self, records: Iterable[FactRecord[Any]] = (), *, next_page: str | None = None) -> None:
        super().__init__(records)
        self.next_page: str | None = next_page


_COLUMNS: Final = {
    RecordOrder.SAID: "said_at",
    RecordOrder.RECORDED: "recorded_at",
    RecordOrder.IMPORTANCE: "importance",
}
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def sorted_rows(corpus: Corpus, found: CurrentRows, order_by: RecordOrder, *, descending: bool) -> CurrentRows:
    """Return current records in a given order."""
    import numpy as np

    columns = corpus.columns
    order = np.lexsort((columns["seq"][found.rows], columns[_COLUMNS[order_by]][found.rows]))
    return found.at(order[::-1] if descending else order)


def _keys(corpus: Corpus, found: CurrentRows, order_by: RecordOrder) -> tuple[Any, Any]:
    return corpus.columns[_COLUMNS[order_by]][found.rows], corpus.columns["seq"][found.rows]


def _shown(value: Any, order_by: RecordOrder) -> float | str:
    """Return the sort key of a value. A time becomes a UTC text that sorts like the time, exact to the microsecond."""
    if order_by is RecordOrder.IMPORTANCE:
        return float(value)
    return (_EPOCH + dt.timedelta(microseconds=int(value))).isoformat(timespec="microseconds")


def _read_value(shown: float | str) -> float | int:
    if not isinstance(shown, str):
        return shown
    return (dt.datetime.fromisoformat(shown) - _EPOCH) // dt.timedelta(microseconds=1)


def page_of(
    corpus: Corpus,
    ordered: CurrentRows,
    order_by: RecordOrder,
    *,
    descending: bool,
    limit: int | None,
    offset: int,
    page: str | None,
) -> tuple[CurrentRows, str | None]:
    """Return the rows of one page, and the token of the next page.

    A token holds the position of the last row, not a number of rows: records that are added or removed meanwhile
    neither repeat a record nor leave one out.

    Args:
        corpus: The current records.
        ordered: All rows of the listing, in its order.
        order_by: The key of the order.
        descending: Whether the greatest comes first.
        limit: Maximum number of rows of the page; all of them if None.
        offset: Number of rows to skip.
        page: Token of the page; None for the first.

    Raises:
        InvalidDataError: The token belongs to no such listing.
    """
    listing = [order_by.value, descending]
    rest = ordered
    if page is not None:
        last, seq = _read_token(page, listing)
        values, seqs = _keys(corpus, rest, order_by)
        passed = operator.lt if descending else operator.gt
        rest = rest.at(passed(values, last) | ((values == last) & passed(seqs, seq)))
    stop = None if limit is None else offset + limit
    taken = rest.at(slice(offset, stop))
    if stop is None or len(rest) <= stop or not len(taken):
        return taken, None
    values, seqs = _keys(corpus, taken, order_by)
    return taken, _token(listing, (_shown(values[-1], order_by), int(seqs[-1])))


def _token(listing: list[Any], key: tuple[float | str, int]) -> str:
    return base64.urlsafe_b64encode(json.dumps([*listing, *key]).encode()).decode().rstrip("=")


def _read_token(token: str, listing: list[Any]) -> tuple[float | int, int]:
    try:
        found: Any = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, TypeError, RecursionError):
        found = None
    match found:
        case [order, descending, float() | str() as value, int() as seq] if [
            order,
            descending,
        ] == listing and isinstance(value, float) is (order == RecordOrder.IMPORTANCE.value):
            with contextlib.suppress(ValueError, TypeError):  # it is not a time, or has no zone
                return _read_value(value), seq
    raise InvalidDataError(
        "this page token is not from this listing: pass the next_page of a listing with the same order"
    )


def check_range(**numbers: int | None) -> None:
    """Raise `InvalidDataError` unless each number is None or a non-negative integer."""
    for name, number in numbers.items():
        if number is not None:
            check_whole(number, name)


def check_query(query: str, limit: int, min_score: float) -> None:
    """Raise `InvalidDataError` unless the query is not blank, the limit positive and the score from 0 to 1."""
    if not isinstance(query, str):
        raise InvalidDataError(f"the query is a text, not {kind_of(query)}", path="$.query")
    if not query.strip():
        raise InvalidDataError("the query is blank: say what to look for")
    check_text(query, path="$.query")
    check_whole(limit, "limit", least=1)
    check_fraction(min_score, "min_score")


def check_concept(concept: object) -> None:
    """Raise `InvalidDataError` unless the argument is a concept."""
    if not isinstance(concept, Concept):
        if isinstance(concept, str) and is_record_id(concept):
            raise InvalidDataError(
                "expected a Concept, got the id of a record: get(id) returns the record, history(id) its revisions",
                path="$.concept",
            )
        raise InvalidDataError(
            f"expected a Concept, got {type(concept).__name__}: make one with Concept.single(keyword, description), or "
            "list the records of a keyword with list_records(concepts=[keyword])",
            path="$.concept",
        )
