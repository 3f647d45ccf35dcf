"""Choice among several facts of one concept: the strongest one, which `load` returns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from factmem.facts import FactType, microseconds
from factmem.fold import Current
from factmem.legal_names import folded_keyword
from factmem.recall.index.columns import among, begins
from factmem.recall.index.corpus import Rows
from factmem.scopes import MemoryScope
from factmem.views import View

if TYPE_CHECKING:
    from numpy.typing import NDArray


@attrs.frozen(kw_only=True, eq=False)
class Contenders:
    """Current facts, as the choice sees them: arrays of one length, in the order first said.

    Attributes:
        concept: The number of its concept.
        level: The number of its level; see `levels`.
        subject: The number of its subject.
        individual: Whether the subject is an individual.
        trust: See `Assertion.trust`.
        said_at: When it was said, in microseconds since 1970.
        several: Whether its concept holds several values.
        value: The number of its value.
    """

    concept: NDArray[Any]
    level: NDArray[Any]
    subject: NDArray[Any]
    individual: NDArray[np.bool_]
    trust: NDArray[Any]
    said_at: NDArray[Any]
    several: NDArray[np.bool_]
    value: NDArray[Any]


def levels(
    concepts: Sequence[int],
    own: Sequence[bool],
    subjects: Sequence[str],
    priorities: Sequence[int],
    scopes: Sequence[MemoryScope],
) -> Rows:
    """Return the numbers of the levels of facts; a stronger level has a higher number.

    The view's own individual wins; then the stronger subject; then the narrower scope, a child before its parent. A
    subject has the strongest priority that any fact of the concept was written with: a program that names it by a text
    alone, such as "user:alice", writes about the same one.

    Args:
        concepts: The numbers of their concepts.
        own: Whether their subjects are the view's own individual; see `View.owns`.
        subjects: The names of their subjects.
        priorities: The priorities of the subjects, as they were written.
        scopes: Their scopes.
    """
    least: dict[tuple[int, str], int] = {}
    about = list(zip(concepts, subjects, strict=True))
    for one, priority in zip(about, priorities, strict=True):
        least[one] = min(priority, least.get(one, priority))
    keys = [(not mine, least[one], scope.narrowness) for mine, one, scope in zip(own, about, scopes, strict=True)]
    numbers = {key: number for number, key in enumerate(sorted(set(keys), reverse=True))}
    return np.array([numbers[key] for key in keys], np.intp)


def strongest(facts: Contenders) -> Rows:
    """Return the places of the strongest facts of each concept, ascending.

    These are the one value of a SINGLE, or the values of a MULTIPLE on the strongest level, an equal value once. On
    equal levels trust decides, then the newest.

    The values of one subject are never united with those of another: on equal levels the subject of the newest fact is
    chosen. If the level holds several individuals, none of them stands for the others, and each keeps its own.
    """
    concept, subject = facts.concept.astype(np.int64), facts.subject
    best = _best(facts, np.arange(len(concept)), concept)
    on_level = facts.level == facts.level[best]
    people = np.flatnonzero(on_level & facts.individual)
    others = people[subject[people] != subject[_best(facts, people, concept[people])]]
    crowded = on_level & facts.individual & among(concept, concept[others])
    kept = np.flatnonzero(crowded | (on_level & (subject == subject[best])))
    group = (concept * (subject.max(initial=0) + 1) + subject)[kept]
    best = _best(facts, kept, group)
    several = facts.several[best]
    united = several & facts.several[kept]
    order = np.lexsort((facts.value[kept[united]], group[united]))
    value, group = facts.value[kept[united]][order], group[united][order]
    first = begins(value) | begins(group)
    return np.sort(np.concatenate([kept[(kept == best) & ~several], kept[united][order[first]]]))


def _best(facts: Contenders, places: Rows, groups: NDArray[Any]) -> Rows:
    """Return the best fact of the group of each: of the strongest level, trusted most, then newest, then last in order.

    Args:
        facts: The facts.
        places: The places of some of them.
        groups: The numbers of their groups, from 0.
    """
    order = np.lexsort((facts.said_at[places], facts.trust[places], facts.level[places], groups))
    ends = np.flatnonzero(np.diff(groups[order], append=-1))
    best = np.empty(len(places), np.intp)
    best[order] = places[order[ends]].repeat(np.diff(ends, prepend=-1))
    return best


def chosen(current: Iterable[Current], view: View) -> Sequence[Current]:
    """Return the `strongest` facts of each concept, in the order first said.

    Args:
        current: Current facts, in any order.
        view: The view that they were read in.
    """
    found = sorted(current, key=lambda item: item.first_said)
    said = [item.recorded.assertion for item in found]
    if len({it.track for it in said}) < 2:  # the fold has chosen already
        return found
    subjects = [it.place.subject for it in said]
    concepts = _indexed(folded_keyword(it.keyword) for it in said)
    facts = Contenders(
        concept=concepts,
        level=levels(
            concepts.tolist(),
            [view.owns(subject.key) for subject in subjects],
            [subject.name for subject in subjects],
            [subject.priority_level for subject in subjects],
            [it.place.scope for it in said],
        ),
        subject=_indexed(subject.key for subject in subjects),
        individual=np.array([subject.individual_name is not None for subject in subjects]),
        trust=np.array([it.trust for it in said]),
        said_at=np.array([microseconds(it.timestamp) for it in said]),
        several=np.array([it.fact_type is FactType.MULTIPLE for it in said]),
        value=_indexed(it.slot for it in said),
    )
    return [found[place] for place in strongest(facts).tolist()]


def _indexed(items: Iterable[Hashable]) -> Rows:
    """Return numbers that are equal where items are."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(item, len(numbers)) for item in items], np.intp)
