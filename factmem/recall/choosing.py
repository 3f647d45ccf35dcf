"""Which of several facts of one concept an agent sees."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from factmem.facts import FactType
from factmem.fold import Current
from factmem.records import Assertion
from factmem.scopes import MemoryScope

__all__ = ["chosen", "level_of", "strength"]


def strength(said: Assertion) -> tuple[int, bool, tuple[int, int], float]:
    """Sort key of the level a fact stands on, strongest first.

    The stronger subject wins; then what is the viewer's own over what is public; then the narrower
    scope, a child before its parent; then the newer timestamp.
    """
    place = said.place
    level = level_of(place.subject.priority_level, said.details.owner is None, place.scope)
    return (*level, -_seconds(said.timestamp))


def level_of(priority: int, public: bool, scope: MemoryScope) -> tuple[int, bool, tuple[int, int]]:
    """Sort key of a level; see `strength`."""
    return (priority, public, scope.narrowness)


def _seconds(moment: dt.datetime) -> float:
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)).total_seconds()


def chosen(current: Iterable[Current]) -> Sequence[Current]:
    """Return, of each concept, the one value of a SINGLE or the values of a MULTIPLE on the strongest level.

    A level is a subject's priority, an owner and a scope; the values of all places on the chosen
    level are united, an equal value of two places once.
    """
    by_concept: dict[str, list[Current]] = {}
    for item in current:
        by_concept.setdefault(item.recorded.assertion.keyword, []).append(item)
    return [kept for items in by_concept.values() for kept in _strongest(items)]


def _strongest(items: Sequence[Current]) -> list[Current]:
    ordered = sorted(items, key=lambda item: (strength(item.recorded.assertion), item.first_said))
    first = ordered[0].recorded.assertion
    if first.fact_type is FactType.SINGLE:
        return [ordered[0]]
    united: dict[bytes, Current] = {}
    for item in sorted(items, key=lambda item: item.first_said):
        said = item.recorded.assertion
        if said.fact_type is FactType.MULTIPLE and strength(said)[:3] == strength(first)[:3]:
            united.setdefault(said.slot, item)
    return list(united.values())
