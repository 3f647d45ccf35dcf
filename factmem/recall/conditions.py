"""Filters of records, for recall, listings and erasure.

A `RecallFilter` translates its fields into a few kinds of `Condition`, each on one `Facet` of a record.

A new filter takes a field and its condition here, and a key of `factmem.memory.filters.Filters`;
`tests/meta/test_filters.py` compares the two, and lists what the command line and the MCP server offer. A new facet
also takes its value of a single record here, its column in `factmem.recall.index.columns`, its part of the outlines
that fill the column in `factmem.recall.index.outline_codec`, and its condition on the column in
`factmem.recall.index.selection`, where the type checker asks for it.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import attrs

from factmem.details import Origin
from factmem.errors import InvalidDataError
from factmem.legal_names import composed, folded_keyword
from factmem.patterns import linear_search
from factmem.recall.text.analysis import plain
from factmem.recall.text.signs import tells_something
from factmem.records import Recorded
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import aware, check_aware, check_text, fraction, instance_of, text
from factmem.values import Json, canonical_bytes, check_json


class MetadataOperator(enum.Enum):
    """Comparisons of a record's metadata with a value."""

    EQUAL = "equal"
    GREATER_THAN = "greater_than"
    LESS_THAN = "less_than"


def _comparable(
    instance: MetadataCondition, attribute: attrs.Attribute[Json | dt.datetime], value: Json | dt.datetime
) -> None:
    if isinstance(value, dt.datetime):
        check_aware(value, "value")
        return
    ordered = isinstance(value, str | int | float) and not isinstance(value, bool)
    if instance.operator is not MetadataOperator.EQUAL and not ordered:
        raise InvalidDataError("GREATER_THAN and LESS_THAN need a number, a text or a time", path="$.value")
    check_json(value, path="$.value")


@attrs.frozen
class MetadataCondition:
    """One condition on the metadata of a record.

    Numbers are compared with numbers, texts with texts (by code points), and times with texts that are ISO times with a
    zone. A comparison with a missing entry, or with an entry of another type, does not hold.

    Attributes:
        key: Key of the entry.
        value: The value to compare it with.
        operator: The comparison.
        negate: Whether the record passes if the comparison does *not* hold.

    Raises:
        InvalidDataError: The operator does not support the value.
    """

    key: str = attrs.field(validator=text)
    value: Json | dt.datetime = attrs.field(validator=_comparable)
    operator: MetadataOperator = attrs.field(
        default=MetadataOperator.EQUAL, kw_only=True, validator=instance_of(MetadataOperator)
    )
    negate: bool = attrs.field(default=False, kw_only=True)

    def holds(self, metadata: Mapping[str, Json]) -> bool:
        """Whether a record's metadata passes."""
        return self._compares(metadata) is not self.negate

    def _compares(self, metadata: Mapping[str, Json]) -> bool:
        if self.key not in metadata:
            return False
        found, wanted = metadata[self.key], self.value
        if isinstance(wanted, dt.datetime):
            moment = _time(found)
            return moment is not None and _COMPARISONS[self.operator](moment, wanted)
        if (_is_number(found) and _is_number(wanted)) or (isinstance(found, str) and isinstance(wanted, str)):
            return _COMPARISONS[self.operator](found, wanted)
        return self.operator is MetadataOperator.EQUAL and canonical_bytes(found) == canonical_bytes(wanted)


_COMPARISONS: Final[Mapping[MetadataOperator, Callable[[Any, Any], bool]]] = {
    MetadataOperator.EQUAL: operator.eq,
    MetadataOperator.GREATER_THAN: operator.gt,
    MetadataOperator.LESS_THAN: operator.lt,
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _time(value: Json) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


_AWARE: Final = attrs.validators.optional(aware)
_FRACTION: Final = attrs.validators.optional(fraction)


def _groups(groups: Sequence[Sequence[MetadataCondition]]) -> tuple[tuple[MetadataCondition, ...], ...]:
    given = list(groups) if isinstance(groups, Iterable) else [groups]
    several = [tuple(group) if isinstance(group, Iterable) else (group,) for group in given]
    if not all(isinstance(condition, MetadataCondition) for group in several for condition in group) or any(
        isinstance(group, MetadataCondition) for group in given
    ):
        raise InvalidDataError("where takes groups of conditions: [[this, and_this], [or_this]]", path="$.where")
    if not all(several):
        raise InvalidDataError("an empty group of conditions would keep everything: leave it out", path="$.where")
    return tuple(several)


def _several(names: Collection[str] | None) -> frozenset[str] | None:
    """Return a frozenset; refuse a single text, which would be read letter by letter."""
    if names is None:
        return None
    several = isinstance(names, Iterable) and not isinstance(names, str)
    given = tuple(names) if several else ()
    if not several or not all(isinstance(name, str) for name in given):
        raise InvalidDataError('a filter by several names takes a list of texts: ["this", "or this"]')
    return frozenset(given)


def _composed(names: Collection[str] | None) -> frozenset[str] | None:
    several = _several(names)
    return None if several is None else frozenset(map(composed, several))


def _searchable(instance: RecallFilter, attribute: attrs.Attribute[str], value: str) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidDataError("pattern takes a regular expression: write one, or leave it out", path="$.pattern")
    check_text(value, path="$.pattern")
    linear_search(value)


def _entries(metadata: Mapping[str, Json]) -> Mapping[str, Json]:
    if not isinstance(metadata, Mapping):
        raise InvalidDataError("metadata takes a mapping: {'key': value}", path="$.metadata")
    return dict(metadata)


@attrs.frozen(kw_only=True)
class RecallFilter:
    """Conditions on records, of which all must hold; applied before ranking.

    A collection keeps the records that match one of its items; None keeps all records, an empty collection none.

    Attributes:
        scope: Keep this scope and its subtree, anchored at the tenant.
        exact: Keep this scope without its subtree.
        subject: Keep this subject (and individual).
        subjects: Keep these subjects (and individuals).
        places: Keep these places, given by their `Place.key`.
        within: Predicate on scopes.
        keywords: Keep these concepts, by any alike keyword; see `factmem.legal_names.folded_keyword`.
        without_keywords: Leave out these concepts, by any alike keyword.
        categories: Keep these categories.
        topics: Keep these topics.
        sources: Keep these sources.
        speakers: Keep the statements of speakers with these names; see `Assertion.speaker`.
        since: Keep records said at this time or later.
        until: Keep records said before this time.
        recorded_since: Keep records whose present revision was recorded at this time or later.
        recorded_until: Keep records whose present revision was recorded before this time.
        min_importance: Minimum importance.
        max_importance: Maximum importance.
        telling: Leave out statements without information, such as questions and thanks; see `factmem.sentences.tells`.
            A short answer or correction counts as information; see `Evidence.before`.
        assistant: Keep the assistant's statements (True), or those of others (False).
        pattern: Regular expression to find in the value, written as text; see `factmem.patterns.linear_search`. It
            reads the text of every record that passes the other conditions.
        metadata: Entries that the metadata must hold, all of them.
        where: Groups of conditions; the metadata must meet all conditions of one group.
        record_ids: Keep these records.
        strongest: Of the typed facts of one concept that pass all conditions, keep the strongest; see
            `factmem.recall.strongest.chosen`. This compares records with each other: a single record always passes.

    Raises:
        InvalidDataError: A time has no zone, a bound is out of range, a condition cannot be met, ``subject`` is not a
            subject, or a collection is a single text.
    """

    scope: MemoryScope | None = None
    exact: bool = False
    subject: MemorySubject | None = attrs.field(default=None, validator=instance_of(MemorySubject, type(None)))
    subjects: Collection[MemorySubject] | None = None
    places: Collection[tuple[Any, ...]] | None = None
    within: Callable[[MemoryScope], bool] | None = None
    keywords: Collection[str] | None = attrs.field(default=None, converter=_several)
    without_keywords: Collection[str] | None = attrs.field(default=None, converter=_several)
    categories: Collection[str] | None = attrs.field(default=None, converter=_several)
    topics: Collection[str] | None = attrs.field(default=None, converter=_several)
    sources: Collection[str] | None = attrs.field(default=None, converter=_several)
    speakers: Collection[str] | None = attrs.field(default=None, converter=_composed)
    since: dt.datetime | None = attrs.field(default=None, validator=_AWARE)
    until: dt.datetime | None = attrs.field(default=None, validator=_AWARE)
    recorded_since: dt.datetime | None = attrs.field(default=None, validator=_AWARE)
    recorded_until: dt.datetime | None = attrs.field(default=None, validator=_AWARE)
    min_importance: float | None = attrs.field(default=None, validator=_FRACTION)
    max_importance: float | None = attrs.field(default=None, validator=_FRACTION)
    telling: bool = False
    assistant: bool | None = None
    pattern: str | None = attrs.field(default=None, validator=attrs.validators.optional(_searchable))
    metadata: Mapping[str, Json] = attrs.field(factory=dict, converter=_entries)
    where: Sequence[Sequence[MetadataCondition]] = attrs.field(default=(), converter=_groups)
    record_ids: Collection[str] | None = attrs.field(default=None, converter=_several)
    strongest: bool = False

    @property
    def empty(self) -> bool:
        """Whether the filter keeps everything."""
        return not self.conditions

    @functools.cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions of all fields but ``strongest``: conditions on the track first, the slowest last."""
        return tuple(self._conditions())

    def _conditions(self) -> Iterator[Condition]:
        if self.scope is not None or self.within is not None:
            yield Satisfies(Facet.SCOPE, self.reaches)
        if self.subject is not None:
            yield OneOf(Facet.SUBJECT, {self.subject.key})
        if self.subjects is not None:
            yield OneOf(Facet.SUBJECT, {subject.key for subject in self.subjects})
        if self.keywords is not None:
            yield OneOf(Facet.KEYWORD, {*map(folded_keyword, self.keywords)})
        if self.without_keywords is not None:
            yield OneOf(Facet.KEYWORD, {*map(folded_keyword, self.without_keywords)}, negate=True)
        listed: tuple[tuple[NamedFacet, Collection[Any] | None], ...] = (
            (Facet.PLACE, self.places),
            (Facet.SPEAKER, self.speakers),
            (Facet.RECORD_ID, self.record_ids),
            (Facet.CATEGORY, self.categories),
            (Facet.TOPIC, self.topics),
            (Facet.SOURCE, self.sources),
        )
        yield from (OneOf(facet, values) for facet, values in listed if values is not None)
        if self.since is not None or self.until is not None:
            yield Between(Facet.SAID_AT, self.since, below=self.until)
        if self.recorded_since is not None or self.recorded_until is not None:
            yield Between(Facet.RECORDED_AT, self.recorded_since, below=self.recorded_until)
        if self.min_importance is not None or self.max_importance is not None:
            yield Between(Facet.IMPORTANCE, self.min_importance, most=self.max_importance)
        if self.telling:
            yield Between(Facet.TELLS, True)
        if self.assistant is not None:
            yield Between(Facet.OF_ASSISTANT, self.assistant, most=self.assistant)
        if self.metadata:
            equal = [MetadataCondition(key, value) for key, value in self.metadata.items()]
            yield Satisfies(Facet.METADATA, functools.partial(_meets, [equal]))
        if self.where:
            yield Satisfies(Facet.METADATA, functools.partial(_meets, self.where))
        if self.pattern is not None:
            yield Satisfies(Facet.TEXT, linear_search(self.pattern))

    def reaches(self, scope: MemoryScope) -> bool:
        """Whether records of a scope may pass."""
        if self.within is not None and not self.within(scope):
            return False
        if self.scope is None:
            return True
        if self.exact:
            return (scope.tenant, scope.segments) == (self.scope.tenant, self.scope.segments)
        return self.scope.contains(scope)

    def keeps(self, recorded: Recorded, facets: Collection[Facet] | None = None) -> bool:
        """Whether an assertion passes the conditions on some facets; None for all of them."""
        return all(
            condition.holds(_FACETS[condition.facet](recorded))
            for condition in self.conditions
            if facets is None or condition.facet in facets
        )


def _meets(groups: Sequence[Sequence[MetadataCondition]], metadata: Mapping[str, Json]) -> bool:
    """Return whether metadata meets all conditions of one group."""
    return any(all(condition.holds(metadata) for condition in group) for group in groups)


class Facet(enum.Enum):
    """A property of records that filters look at.

    SCOPE, SUBJECT, PLACE and KEYWORD belong to the track: all assertions of a track share them. The head of an outline
    holds these and SPEAKER. KEYWORD is folded. TEXT is the value as text, which no column holds.
    """

    SCOPE = enum.auto()
    SUBJECT = enum.auto()
    PLACE = enum.auto()
    KEYWORD = enum.auto()
    SPEAKER = enum.auto()
    RECORD_ID = enum.auto()
    CATEGORY = enum.auto()
    TOPIC = enum.auto()
    SOURCE = enum.auto()
    SAID_AT = enum.auto()
    RECORDED_AT = enum.auto()
    IMPORTANCE = enum.auto()
    TELLS = enum.auto()
    OF_ASSISTANT = enum.auto()
    METADATA = enum.auto()
    TEXT = enum.auto()


_FACETS: Final[Mapping[Facet, Callable[[Recorded], Any]]] = {
    Facet.SCOPE: lambda it: it.assertion.place.scope,
    Facet.SUBJECT: lambda it: it.assertion.place.subject.key,
    Facet.PLACE: lambda it: it.assertion.place.key,
    Facet.KEYWORD: lambda it: folded_keyword(it.assertion.keyword),
    Facet.SPEAKER: lambda it: (name := it.assertion.speaker) and composed(name),
    Facet.RECORD_ID: lambda it: it.record_id,
    Facet.CATEGORY: lambda it: frozenset(it.assertion.details.categories),
    Facet.TOPIC: lambda it: frozenset(it.assertion.details.topics),
    Facet.SOURCE: lambda it: it.assertion.details.source,
    Facet.SAID_AT: lambda it: it.assertion.timestamp,
    Facet.RECORDED_AT: lambda it: it.recorded_at,
    Facet.IMPORTANCE: lambda it: it.assertion.details.importance,
    Facet.TELLS: lambda it: tells_something(it.assertion),
    Facet.OF_ASSISTANT: lambda it: it.assertion.details.origin is Origin.ASSISTANT,
    Facet.METADATA: lambda it: it.assertion.details.metadata,
    Facet.TEXT: lambda it: plain(it.assertion.data),
}
"""The value of each facet; a frozenset of several."""

NamedFacet: TypeAlias = Literal[
    Facet.SUBJECT, Facet.PLACE, Facet.KEYWORD, Facet.SPEAKER, Facet.RECORD_ID, Facet.CATEGORY, Facet.TOPIC, Facet.SOURCE
]
"""The facets that are compared with a list of values."""

RangedFacet: TypeAlias = Literal[Facet.SAID_AT, Facet.RECORDED_AT, Facet.IMPORTANCE, Facet.TELLS, Facet.OF_ASSISTANT]
"""The facets that are compared with bounds."""

TestedFacet: TypeAlias = Literal[Facet.SCOPE, Facet.METADATA, Facet.TEXT]
"""The facets tested by a predicate."""


@attrs.frozen
class OneOf:
    """The condition that a facet is one of some values, or has one of them.

    Attributes:
        facet: The facet.
        values: The values.
        negate: Require that the facet is none of them.
    """

    facet: NamedFacet
    values: Collection[Any]
    negate: bool = attrs.field(default=False, kw_only=True)

    def holds(self, value: Any) -> bool:
        """Whether one value meets the condition."""
        found = not value.isdisjoint(self.values) if isinstance(value, frozenset) else value in self.values
        return found is not self.negate


@attrs.frozen
class Between:
    """The condition that a facet lies within bounds.

    Attributes:
        facet: The facet.
        least: Lower bound, inclusive; None for none.
        below: Upper bound, exclusive.
        most: Upper bound, inclusive.
    """

    facet: RangedFacet
    least: Any = None
    below: Any = attrs.field(default=None, kw_only=True)
    most: Any = attrs.field(default=None, kw_only=True)

    def holds(self, value: Any) -> Any:
        """Whether a value meets the condition: a bool, or an array of them for an array."""
        held: Any = True
        if self.least is not None:
            held = value >= self.least
        if self.below is not None:
            held = held & (value < self.below)
        if self.most is not None:
            held = held & (value <= self.most)
        return held


@attrs.frozen
class Satisfies:
    """The condition that a facet satisfies a predicate.

    Attributes:
        facet: The facet.
        holds: The predicate.
    """

    facet: TestedFacet
    holds: Callable[[Any], bool]


Condition: TypeAlias = OneOf | Between | Satisfies
"""One condition of a filter.

`RecallFilter.keeps` evaluates conditions on a single assertion, `factmem.recall.index.selection` on columns.
"""
