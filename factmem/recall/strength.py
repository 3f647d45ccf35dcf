"""Choice among several facts of one concept: the strongest one, which `load` returns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import attrs

from factmem.facts import FactType
from factmem.fold import Current
from factmem.names import folded_keyword
from factmem.recall.index.outline_codec import microseconds
from factmem.scopes import MemoryScope

__all__ = ["Contender", "chosen", "level_of", "strongest"]

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Contender(Generic[T]):
    """A current fact, as the choice sees it.

    Attributes:
        item: The fact itself.
        level: Its level; see `level_of`.
        subject: Identifies its subject.
        individual: Whether the subject is an individual.
        trust: See `Assertion.trust`.
        said_at: When it was said, in microseconds since 1970.
        several: Whether its concept holds several values.
        value: Identifies its value.
    """

    item: T
    level: tuple[int, tuple[int, int]]
    subject: Hashable
    individual: bool
    trust: int
    said_at: int
    several: bool
    value: Hashable


def level_of(priority: int, scope: MemoryScope) -> tuple[int, tuple[int, int]]:
    """Return the sort key of a level, strongest first: a subject's priority and a scope.

    The stronger subject wins; then the narrower scope, a child before its parent.
    """
    return (priority, scope.narrowness)


def strongest(contenders: Sequence[Contender[T]]) -> list[T]:
    """Return the one value of a SINGLE, or the values of a MULTIPLE on the strongest level, an equal value once.

    The values of one subject are never united with those of another: on equal levels the subject of the newest fact is
    chosen. If the level holds several individuals, none of them stands for the others, and each keeps its own.

    Args:
        contenders: Facts of one concept, in the order first said. On equal levels trust decides, then the newest.
    """
    best = _best(contenders)
    level = [it for it in contenders if it.level == best.level]
    people = {it.subject for it in level if it.individual}
    kept = people | {best.subject} if len(people) > 1 else {best.subject}
    of_subjects: dict[Hashable, list[Contender[T]]] = {}
    for it in level:
        if it.subject in kept:
            of_subjects.setdefault(it.subject, []).append(it)
    return [item for several in of_subjects.values() for item in _values(several)]


def _best(contenders: Sequence[Contender[T]]) -> Contender[T]:
    """Return the contender of the strongest level that is trusted most, then newest, then last in their order."""
    return min(reversed(contenders), key=lambda it: (it.level, -it.trust, -it.said_at))


def _values(contenders: Sequence[Contender[T]]) -> list[T]:
    """Return the one value, or the values, of one subject on one level."""
    best = _best(contenders)
    if not best.several:
        return [best.item]
    united: dict[Hashable, T] = {}
    for it in contenders:
        if it.several:
            united.setdefault(it.value, it.item)
    return list(united.values())


def chosen(current: Iterable[Current]) -> Sequence[Current]:
    """Return the `strongest` facts of each concept.

    Args:
        current: Current facts, in any order.
    """
    by_concept: dict[str, list[Current]] = {}
    for item in current:
        by_concept.setdefault(folded_keyword(item.recorded.assertion.keyword), []).append(item)
    ordered = (sorted(items, key=lambda item: item.first_said) for items in by_concept.values())
    return [kept for items in ordered for kept in strongest([_contender(item) for item in items])]


def _contender(current: Current) -> Contender[Current]:
    said = current.recorded.assertion
    place = said.place
    return Contender(
        item=current,
        level=level_of(place.subject.priority_level, place.scope),
        subject=place.subject.key,
        individual=place.subject.individual_name is not None,
        trust=said.trust,
        said_at=microseconds(said.timestamp),
        several=said.fact_type is FactType.MULTIPLE,
        value=said.slot,
    )
