"""Which records count: what recall, listings and purges are narrowed by."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.errors import InvalidDataError
from factmem.records import Assertion, Recorded
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import aware, check_aware, fraction, instance_of, text
from factmem.values import Json, canonical_bytes, check_json

__all__ = ["MetadataCondition", "MetadataOperator", "RecallFilter"]


class MetadataOperator(enum.Enum):
    """How a record's metadata is compared with a value."""

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
        raise InvalidDataError("only numbers, texts and times are greater or less than others", path="$.value")
    check_json(value, path="$.value")


@attrs.frozen
class MetadataCondition:
    """One condition on the metadata of a record.

    Numbers are compared with numbers, texts with texts (by code points), times with texts that are ISO
    times of a known zone. A condition on what is not there, or is of another type, does not hold;
    negated, it does.

    Attributes:
        key: which entry of the metadata.
        value: what to compare it with.
        operator: how.
        negate: whether the record passes when the comparison does *not* hold.

    Raises:
        InvalidDataError: the value cannot be compared so.
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
            return _ordered(_time(found), wanted, self.operator)
        if _is_number(found) and _is_number(wanted):
            return _ordered(found, wanted, self.operator)
        if isinstance(found, str) and isinstance(wanted, str):
            return _ordered(found, wanted, self.operator)
        return self.operator is MetadataOperator.EQUAL and canonical_bytes(found) == canonical_bytes(wanted)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _time(value: Json) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _ordered(found: object, wanted: object, operator: MetadataOperator) -> bool:
    """Compare two of one kind; None stands for what is of another kind."""
    if found is None:
        return False
    match operator:
        case MetadataOperator.EQUAL:
            return found == wanted
        case MetadataOperator.GREATER_THAN:
            return found > wanted  # type: ignore[operator, no-any-return]
        case MetadataOperator.LESS_THAN:
            return found < wanted  # type: ignore[operator, no-any-return]


_AWARE: Final = attrs.validators.optional(aware)
_FRACTION: Final = attrs.validators.optional(fraction)


def _groups(groups: Sequence[Sequence[MetadataCondition]]) -> tuple[tuple[MetadataCondition, ...], ...]:
    if any(isinstance(group, MetadataCondition) for group in groups):
        raise InvalidDataError("where takes groups of conditions: [[this, and_this], [or_this]]", path="$.where")
    if not all(groups):
        raise InvalidDataError("a group of conditions is empty, which would keep everything", path="$.where")
    return tuple(tuple(group) for group in groups)


def _several(names: Collection[str] | None) -> frozenset[str] | None:
    """Refuse a single text: letter by letter, or as parts of it, it would mean what nobody meant."""
    if names is None:
        return None
    several = isinstance(names, Iterable) and not isinstance(names, str)
    given = tuple(names) if several else ()
    if not several or not all(isinstance(name, str) for name in given):
        raise InvalidDataError('what a filter takes several of is given as a list of texts: ["this", "or this"]')
    return frozenset(given)


def _entries(metadata: Mapping[str, Json]) -> Mapping[str, Json]:
    if not isinstance(metadata, Mapping):
        raise InvalidDataError("metadata to filter by is a mapping", path="$.metadata")
    return dict(metadata)


@attrs.frozen(kw_only=True)
class RecallFilter:
    """Which records count; all that is given must hold. Applied before ranking.

    What takes several keeps those that fit one of them: all if it is None, none if it is empty.

    Attributes:
        scope: those in this scope or in its subtree, anchored at the tenant.
        exact: in this very scope only.
        subject: those about this subject (and individual).
        subjects: those about one of these subjects (and individuals).
        places: those at one of these places, by their `Place.key`.
        within: those in a scope that this says yes to: what a view shows.
        keywords: those of one of these concepts.
        without_keywords: those of none of these concepts.
        categories: those with one of these categories.
        topics: those with one of these topics.
        sources: those from one of these sources.
        since: those said at this time or later.
        until: those said before this time.
        recorded_since: those whose present revision was recorded at this time or later.
        recorded_until: those whose present revision was recorded before this time.
        min_importance: those at least so important.
        max_importance: those at most so important.
        metadata: those whose metadata holds all of these.
        where: those whose metadata meets all conditions of one of these groups.
        record_ids: those with one of these ids.
        reviewed: those that are not `FactDetails.unreviewed`.
        strongest: of the typed facts that pass all this, those that hold of several of one concept; see
            `factmem.recall.chosen`. It compares records with each other: a single one always passes.

    Raises:
        InvalidDataError: a time has no zone, a condition cannot be met, the subject is none, or a text stands
            where a list of them belongs.
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
    since: dt.datetime | None = attrs.field(default=None, validator=_AWARE)
    until: dt.datetime | None = attrs.field(default=None, validator=_AWARE)
    recorded_since: dt.datetime | None = attrs.field(default=None, validator=_AWARE)
    recorded_until: dt.datetime | None = attrs.field(default=None, validator=_AWARE)
    min_importance: float | None = attrs.field(default=None, validator=_FRACTION)
    max_importance: float | None = attrs.field(default=None, validator=_FRACTION)
    metadata: Mapping[str, Json] = attrs.field(factory=dict, converter=_entries)
    where: Sequence[Sequence[MetadataCondition]] = attrs.field(default=(), converter=_groups)
    record_ids: Collection[str] | None = attrs.field(default=None, converter=_several)
    reviewed: bool = False
    strongest: bool = False

    @property
    def empty(self) -> bool:
        """Whether it keeps everything."""
        return not (self._tests_of_tracks() or self._tests_of_records())

    @property
    def conditions(self) -> tuple[tuple[tuple[MetadataCondition, ...], ...], ...]:
        """What metadata must meet: of each of these, all conditions of one group."""
        equal = tuple(MetadataCondition(key, value) for key, value in self.metadata.items())
        given = (((equal,) if equal else ()), tuple(map(tuple, self.where)))
        return tuple(groups for groups in given if groups)

    def reaches(self, scope: MemoryScope) -> bool:
        """Whether records of a scope may pass."""
        if self.within is not None and not self.within(scope):
            return False
        if self.scope is None:
            return True
        if self.exact:
            return (scope.tenant, scope.segments) == (self.scope.tenant, self.scope.segments)
        return self.scope.contains(scope)

    def keeps(self, recorded: Recorded) -> bool:
        """Whether an assertion passes."""
        said = recorded.assertion
        return all(test(said) for test in self._tests_of_tracks()) and all(
            test(recorded) for test in self._tests_of_records()
        )

    def _tests_of_tracks(self) -> list[Callable[[Assertion], bool]]:
        about = {subject.key for subject in self.subjects or ()}
        tests: list[tuple[bool, Callable[[Assertion], bool]]] = [
            (self.scope is not None or self.within is not None, lambda it: self.reaches(it.place.scope)),
            (self.subject is not None, lambda it: it.place.subject.key == (self.subject and self.subject.key)),
            (self.subjects is not None, lambda it: it.place.subject.key in about),
            (self.places is not None, lambda it: it.place.key in (self.places or ())),
            (self.keywords is not None, lambda it: it.keyword in (self.keywords or ())),
            (self.without_keywords is not None, lambda it: it.keyword not in (self.without_keywords or ())),
        ]
        return [test for wanted, test in tests if wanted]

    def _tests_of_records(self) -> list[Callable[[Recorded], bool]]:
        said: list[tuple[bool, Callable[[Assertion], bool]]] = [
            (self.categories is not None, lambda it: not _apart(self.categories, it.details.categories)),
            (self.topics is not None, lambda it: not _apart(self.topics, it.details.topics)),
            (self.sources is not None, lambda it: it.details.source in (self.sources or ())),
            (self._bounded(self.since, self.until), lambda it: _between(it.timestamp, self.since, self.until)),
            (self._bounded(self.min_importance, self.max_importance), self._important),
            (self.reviewed, lambda it: not it.details.unreviewed),
            (bool(self.conditions), lambda it: all(any(_met(group, it) for group in of) for of in self.conditions)),
        ]
        recorded: list[tuple[bool, Callable[[Recorded], bool]]] = [
            (self.record_ids is not None, lambda it: it.record_id in (self.record_ids or ())),
            (
                self._bounded(self.recorded_since, self.recorded_until),
                lambda it: _between(it.recorded_at, self.recorded_since, self.recorded_until),
            ),
        ]
        asked = [_of_assertion(test) for wanted, test in said if wanted]
        return asked + [test for wanted, test in recorded if wanted]

    @staticmethod
    def _bounded(*bounds: object) -> bool:
        return any(bound is not None for bound in bounds)

    def _important(self, said: Assertion) -> bool:
        lowest, highest = self.min_importance, self.max_importance
        importance = said.details.importance
        return (lowest is None or importance >= lowest) and (highest is None or importance <= highest)


def _apart(wanted: Collection[str] | None, there: Collection[str]) -> bool:
    return set(wanted or ()).isdisjoint(there)


def _met(conditions: Sequence[MetadataCondition], said: Assertion) -> bool:
    return all(condition.holds(said.details.metadata) for condition in conditions)


def _of_assertion(test: Callable[[Assertion], bool]) -> Callable[[Recorded], bool]:
    return lambda recorded: test(recorded.assertion)


def _between(moment: dt.datetime, since: dt.datetime | None, until: dt.datetime | None) -> bool:
    return (since is None or moment >= since) and (until is None or moment < until)
