"""Near-duplicates within a batch, found by text and embedding alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from factmem.consolidation.candidates import (
    ROUNDING,
    CandidateAssertion,
    Directions,
    evidence_of,
    is_free_text,
    partition_of,
)
from factmem.consolidation.policy import ConsolidationPolicy

_BLOCK: Final = 512
"""Number of statements compared with all the others at a time."""

_NUMBER: Final = re.compile(r"\d+")


def duplicates_in(candidates: Sequence[CandidateAssertion], policy: ConsolidationPolicy) -> dict[int, int]:
    """Return the candidates that repeat an earlier one of the same batch. See `without_duplicates`.

    Args:
        candidates: the batch.
        policy: gives the threshold ``duplicate``.

    Returns:
        The position of the first by the position of each repetition. A first one is not a repetition itself.
    """
    found: dict[int, int] = {}
    for group in _groups(candidates):
        members = [candidates[row] for row in group]
        for first, again in _pairs(members, policy.duplicate - ROUNDING):
            found[group[again]] = group[first]
    return found


def without_duplicates(
    candidates: Sequence[CandidateAssertion], policy: ConsolidationPolicy
) -> list[CandidateAssertion]:
    """Return a batch without repetitions. The first of several is kept, with the evidence of all.

    Two statements are the same if they are of one partition, origin and `Assertion.meaning`, and are equal or have
    embeddings with a cosine of at least ``policy.duplicate``. Statements with different numbers are never the same by
    their embeddings, which hardly distinguish 2 and 3. A repetition after a wish to forget stands for itself. So do
    typed facts, which the fold unites.

    Args:
        candidates: the batch.
        policy: gives the threshold ``duplicate``.

    Returns:
        The remaining candidates, in the order of the batch.
    """
    kept: dict[int, CandidateAssertion] = dict(enumerate(candidates))
    for again, first in duplicates_in(candidates, policy).items():
        del kept[again]
        kept[first] = _with_evidence(kept[first], candidates[again])
    return [kept[row] for row in sorted(kept)]


def _groups(candidates: Sequence[CandidateAssertion]) -> Iterable[list[int]]:
    """Return groups of candidates that may be the same, each ordered by time."""
    order = sorted(range(len(candidates)), key=lambda row: (candidates[row].assertion.timestamp, row))
    forgotten: dict[object, int] = defaultdict(int)
    groups: dict[object, list[int]] = defaultdict(list)
    for row in order:
        candidate = candidates[row]
        partition = partition_of(candidate.assertion)
        if candidate.removal:
            forgotten[partition] += 1
        elif is_free_text(candidate.assertion):
            said = candidate.assertion
            groups[(partition, said.meaning, said.details.origin, said.state, forgotten[partition])].append(row)
    return groups.values()


def _pairs(members: Sequence[CandidateAssertion], threshold: float) -> Iterator[tuple[int, int]]:
    """Yield pairs of a kept row and its repetition. A dropped row drops no other."""
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
        left = np.flatnonzero(alive)
        left = left[left >= start]
        close = directions.rows[start : start + _BLOCK] @ directions.rows[left].T >= threshold
        for first, column in zip(*np.nonzero(close), strict=True):
            row, again = start + int(first), int(left[column])
            both = alive[row] and alive[again] and directions.usable[row] and directions.usable[again]
            if row < again and both and numbers[row] == numbers[again]:
                alive[again] = False
                yield row, again


def _with_evidence(kept: CandidateAssertion, again: CandidateAssertion) -> CandidateAssertion:
    """Add the evidence of a repetition. An equal text without evidence adds none."""
    said, other = kept.assertion, again.assertion
    if said.slot == other.slot:
        evidence = (*said.details.evidence, *other.details.evidence)
    else:
        evidence = (*evidence_of(said), *evidence_of(other))
    details = attrs.evolve(said.details, evidence=dict.fromkeys(evidence))
    return attrs.evolve(kept, assertion=attrs.evolve(said, details=details))
