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
        said_at: When it was said, in microseconds since 1970.
        several: Whether its concept holds several values.
        value: Identifies its value.
    """

    item: T
    level: tuple[int, bool, tuple[int, int]]
    said_at: int
    several: bool
    value: Hashable


def level_of(priority: int, public: bool, scope: MemoryScope) -> tuple[int, bool, tuple[int, int]]:
    """Return the sort key of a level, strongest first: a subject's priority, an owner and a scope.

    The stronger subject wins; then the viewer's own over what is public; then the narrower scope, a child before its
    parent.
    """
    return (priority, public, scope.narrowness)


def strongest(contenders: Sequence[Contender[T]]) -> list[T]:
    """Return the one value of a SINGLE, or the values of a MULTIPLE on the strongest level, an equal value once.

    Args:
        contenders: Facts of one concept, in the order first said. On equal levels the newest decides.
    """
    best = min(contenders, key=lambda it: (it.level, -it.said_at))
    if not best.several:
        return [best.item]
    united: dict[Hashable, T] = {}
    for it in contenders:
        if it.several and it.level == best.level:
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
        level=level_of(place.subject.priority_level, said.details.owner is None, place.scope),
        said_at=microseconds(said.timestamp),
        several=said.fact_type is FactType.MULTIPLE,
        value=said.slot,
    )
