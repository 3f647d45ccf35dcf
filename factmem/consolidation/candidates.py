"""Candidates of consolidation: new assertions with their embeddings, and near-duplicates within a batch of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from factmem.consolidation.policy import ConsolidationPolicy
from factmem.details import Evidence
from factmem.records import Assertion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Partition: TypeAlias = tuple[object, ...]
"""Key shared only by facts of one tenant, scope, subject and owner."""

Vector: TypeAlias = "NDArray[np.float32] | None"
"""An embedding of any length, or None."""

_BLOCK: Final = 512
"""Number of statements compared with all the others at a time."""

_NUMBER: Final = re.compile(r"\d+")


@attrs.frozen
class CandidateAssertion:
    """A new assertion that may repeat or change what is known.

    Attributes:
        assertion: the assertion.
        vector: its embedding; None if it has none, and then nothing is similar to it.
        removal: it is a request to forget. For a typed fact, a dated removal, and its words go; for a statement, a wish
            whose records must be found first.
        lasts: it is to be kept indefinitely. False if it will expire, even if its details do not say so yet.
    """

    assertion: Assertion
    vector: Vector = attrs.field(default=None, eq=False, repr=False)
    removal: bool = attrs.field(default=False, kw_only=True)
    lasts: bool = attrs.field(default=True, kw_only=True)

    @property
    def ends(self) -> bool:
        """Whether it says that a value is true no longer: a dated removal whose words stay."""
        return self.assertion.removed and not self.removal

    @property
    def counts(self) -> bool:
        """Whether it is believed, and so may change what is known."""
        return self.assertion.counts(self.assertion.state)

    def may_change(self, known: Assertion) -> bool:
        """Return whether it may change what is known, or take it back: never what is of a higher trust."""
        return self.counts and self.assertion.trust >= known.trust


def partition_of(said: Assertion) -> Partition:
    """Return the partition of an assertion: its place and owner. Only assertions of one partition are compared."""
    return (*said.place.key, said.details.owner)


def is_free_text(said: Assertion) -> bool:
    """Return whether it is a free statement, which must be read, and not a typed fact, which the fold settles."""
    return said.is_statement and isinstance(said.data, str)


def text_of(said: Assertion) -> str:
    """Return an assertion as a model sees it: a statement as it is, a typed fact with its keyword."""
    if is_free_text(said):
        return str(said.data)
    return f"{said.keyword.replace('_', ' ')}: {_plain(said.data)}"


def evidence_of(said: Assertion) -> tuple[Evidence, ...]:
    """Return the evidence of an assertion; if that quotes nothing, its own text."""
    evidence = said.details.evidence or (Evidence(quote="", role=said.details.origin.value),)
    return evidence if evidence[0].quote else (attrs.evolve(evidence[0], quote=text_of(said)),)


def _plain(data: Any) -> str:
    match data:
        case str():
            return data
        case list() | tuple():
            return ", ".join(map(_plain, data))
        case dict():
            return ", ".join(f"{key} {_plain(item)}" for key, item in data.items())
        case None | bool():
            return {None: "nothing", True: "yes", False: "no"}[data]
        case _:
            return str(data)


ROUNDING: Final = 1e-6
"""Maximum error of the cosine of a vector with itself, in float32."""


@attrs.frozen(eq=False)
class Directions:
    """Vectors as rows of length 1. A vector that is missing, NaN or of another dimension is similar to nothing.

    Attributes:
        rows: float32 of shape (vectors, dimension).
        usable: mask of the rows that can be compared.
    """

    rows: NDArray[np.float32] = attrs.field(repr=False)
    usable: NDArray[np.bool_] = attrs.field(repr=False)

    @classmethod
    def of(cls, vectors: Sequence[Vector], dimension: int) -> Directions:
        """Return normalized vectors of a dimension."""
        import numpy as np

        rows = np.zeros((len(vectors), dimension), dtype=np.float32)
        for number, vector in enumerate(vectors):
            if vector is not None and np.shape(vector) == (dimension,):
                rows[number] = vector
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
        usable = np.isfinite(lengths) & (lengths > 0)
        rows[~usable] = 0
        unit = (rows / np.where(usable, lengths, 1)[:, None]).astype(np.float32)
        return cls(unit, usable)

    def cosines(self, vector: Vector) -> NDArray[np.float32]:
        """Return the cosine of each row with a vector; -1 if one of them is not usable."""
        import numpy as np

        unlike = np.full(len(self.rows), -1, dtype=np.float32)
        if vector is None:
            return unlike
        wanted = Directions.of([vector], self.rows.shape[1])
        if not wanted.usable[0]:
            return unlike
        return np.where(self.usable, self.rows @ wanted.rows[0], unlike).astype(np.float32)


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
