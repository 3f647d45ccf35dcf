"""Filters: one set of conditions on records for recall, listings, erasures and audits."""

from __future__ import annotations

import base64
import datetime as dt
import enum
import json
import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

import attrs

from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.recall import MetadataCondition
from factmem.recall.index.corpus import Corpus, Rows
from factmem.records import FactRecord
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import count, instance_of, listed
from factmem.values import Json

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


def keywords_of(concepts: Collection[Concept[Any, Any] | str]) -> Collection[str]:
    """Return the keywords of concepts, some of which may be given as such.

    Raises:
        InvalidDataError: It is not a list, or an item is neither a concept nor a keyword. The id of a record is
            refused: it would never match a keyword.
    """
    several = listed("concepts", concepts, Concept, str)
    if any(isinstance(item, str) and is_record_id(item) for item in several):
        raise InvalidDataError(
            "expected a keyword, got the id of a record: get(id), history(id), forget(id) and the filter "
            "record_ids=[id] take ids; a concept with such a keyword is given as the Concept itself",
            path="$.concepts",
        )
    return tuple(item if isinstance(item, str) else item.keyword for item in several)


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


@attrs.frozen(kw_only=True)
class Listing:
    """The order of a listing, and the part of it to return; see `Memory.list_records`.

    Raises:
        InvalidDataError: A number is out of range, there is no such order, or both a page and an offset are given.
    """

    limit: int | None = attrs.field(default=None, validator=attrs.validators.optional(count))
    offset: int = attrs.field(default=0, validator=count)
    page: str | None = None
    order_by: RecordOrder = attrs.field(default=RecordOrder.SAID, validator=instance_of(RecordOrder))
    descending: bool = True

    def __attrs_post_init__(self) -> None:
        if self.page is not None and self.offset:
            raise InvalidDataError("give a page or an offset, not both", path="$.offset")

    def of(self, corpus: Corpus, found: Rows) -> tuple[Rows, str | None]:
        """Return the rows of one page, and the token of the next page.

        A token holds the position of the last row, not a number of rows: records that are added or removed meanwhile
        neither repeat a record nor leave one out.

        Args:
            corpus: The current records.
            found: The rows of all records of the listing.

        Raises:
            InvalidDataError: The page is none of such a listing.
        """
        import numpy as np

        key, seqs = corpus.columns[_COLUMNS[self.order_by]], corpus.columns["seq"]
        order = np.lexsort((seqs[found], key[found]))
        rest = found[order[::-1] if self.descending else order]
        if self.page is not None:
            last, seq = self._read(self.page)
            passed = operator.lt if self.descending else operator.gt
            same = (key[rest] == last) & passed(seqs[rest], seq)
            rest = rest[passed(key[rest], last) | same]
        stop = None if self.limit is None else self.offset + self.limit
        taken = rest[self.offset : stop]
        if stop is None or len(rest) <= stop or not len(taken):
            return taken, None
        end = taken[-1]
        token = json.dumps([self.order_by.value, self.descending, key[end].item(), int(seqs[end])])
        return taken, base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")

    def _read(self, token: str) -> tuple[float, int]:
        kind = float if self.order_by is RecordOrder.IMPORTANCE else int
        try:
            found: Any = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        except (ValueError, TypeError, RecursionError):
            found = None
        match found:
            case [self.order_by.value, self.descending, value, int() as seq] if type(value) is kind:
                return value, seq
            case _:
                raise InvalidDataError(
                    "this page token is not from this listing: pass the next_page of a listing with the same order"
                )


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
