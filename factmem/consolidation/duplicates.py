"""Near-duplicates inside a batch: what is said twice is kept once, without asking anybody."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from factmem.consolidation.candidates import ROUNDING, Directions, Newcomer, evidence_of, is_statement, walls_of
from factmem.consolidation.policy import ConsolidationPolicy

__all__ = ["duplicates_in", "without_duplicates"]

_BLOCK: Final = 512
"""How many statements are compared with all the others at a time."""

_NUMBER: Final = re.compile(r"\d+")


def duplicates_in(newcomers: Sequence[Newcomer], policy: ConsolidationPolicy) -> dict[int, int]:
    """Return which newcomers say what an earlier one of the same batch says; see `without_duplicates`.

    Args:
        newcomers: The batch.
        policy: Tells by ``duplicate`` how close the same is.

    Returns:
        The position of the first by the position of each that says the same again. A first one is no duplicate itself.
    """
    found: dict[int, int] = {}
    for group in _groups(newcomers):
        members = [newcomers[row] for row in group]
        for first, again in _pairs(members, policy.duplicate - ROUNDING):
            found[group[again]] = group[first]
    return found


def without_duplicates(newcomers: Sequence[Newcomer], policy: ConsolidationPolicy) -> list[Newcomer]:
    """Drop what others of a batch say already; the first said is kept and takes in the others' evidence.

    Two statements are the same if they stand behind the same walls, are whoever's words the other one is,
    and are equal or have embeddings of at least ``policy.duplicate``. Statements with different numbers in
    them are never the same by their embeddings, which tell 2 and 3 badly apart. What is said again after a
    wish to forget stands for itself, and so do typed facts, which the fold unites.

    Args:
        newcomers: the batch.
        policy: how close the same is.

    Returns:
        What is left, in the order of the batch.
    """
    kept: dict[int, Newcomer] = dict(enumerate(newcomers))
    for again, first in duplicates_in(newcomers, policy).items():
        del kept[again]
        kept[first] = _with_evidence(kept[first], newcomers[again])
    return [kept[row] for row in sorted(kept)]


def _groups(newcomers: Sequence[Newcomer]) -> Iterable[list[int]]:
    """Return which newcomers may be the same, each group by the time they were said."""
    order = sorted(range(len(newcomers)), key=lambda row: (newcomers[row].assertion.timestamp, row))
    forgotten: dict[object, int] = defaultdict(int)
    groups: dict[object, list[int]] = defaultdict(list)
    for row in order:
        newcomer = newcomers[row]
        walls = walls_of(newcomer.assertion)
        if newcomer.forgets:
            forgotten[walls] += 1
        elif is_statement(newcomer.assertion):
            said = newcomer.assertion
            groups[(walls, said.details.origin, said.state, forgotten[walls])].append(row)
    return groups.values()


def _pairs(members: Sequence[Newcomer], threshold: float) -> Iterator[tuple[int, int]]:
    """Yield who is kept and who says the same; nobody who is dropped has anybody dropped."""
    import numpy as np

    alive = np.ones(len(members), dtype=np.bool_)
    equal: dict[bytes, int] = {}
    for row, member in enumerate(members):
        first = equal.setdefault(member.assertion.slot, row)
        if first != row:
            alive[row] = False
            yield first, row
    dimension = next((len(member.vector) for member in members if member.vector is not None), 0)
    directions = Directions.of([member.vector for member in members], dimension)
    numbers = [tuple(_NUMBER.findall(str(member.assertion.data))) for member in members]
    for start in range(0, len(members), _BLOCK):
        standing = np.flatnonzero(alive)
        standing = standing[standing >= start]
        close = directions.rows[start : start + _BLOCK] @ directions.rows[standing].T >= threshold
        for first, column in zip(*np.nonzero(close), strict=True):
            row, again = start + int(first), int(standing[column])
            both = alive[row] and alive[again] and directions.usable[row] and directions.usable[again]
            if row < again and both and numbers[row] == numbers[again]:
                alive[again] = False
                yield row, again


def _with_evidence(kept: Newcomer, again: Newcomer) -> Newcomer:
    """Take in the evidence of who says the same; an equal text that nobody quoted adds none."""
    said, other = kept.assertion, again.assertion
    if said.slot == other.slot:
        evidence = (*said.details.evidence, *other.details.evidence)
    else:
        evidence = (*evidence_of(said), *evidence_of(other))
    details = attrs.evolve(said.details, evidence=dict.fromkeys(evidence))
    return attrs.evolve(kept, assertion=attrs.evolve(said, details=details))
