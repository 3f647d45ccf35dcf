"""Candidates: new assertions with their embeddings, and the partition of the store they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from factmem.facts import STATEMENT
from factmem.records import Assertion, Evidence, FactDetails, Origin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ROUNDING",
    "Directions",
    "Newcomer",
    "Vector",
    "Walls",
    "evidence_of",
    "is_statement",
    "rank_of",
    "text_of",
    "walls_of",
]

Walls: TypeAlias = tuple[object, ...]
"""What only facts of one tenant, scope, subject and owner share."""

Vector: TypeAlias = "NDArray[np.float32] | None"
"""An embedding of any length, or None."""


@attrs.frozen
class Newcomer:
    """Something new that may say what is known already, or change it.

    Attributes:
        assertion: what was said.
        vector: its embedding, or None if it has none; then nothing is similar to it.
        removal: it asks to forget what it says. Of a typed fact, a removal with a date; of a statement, a
            wish: which of the known records are meant has to be found out.
        lasts: it is to be kept until somebody says otherwise. False where it will expire, even if its
            details do not say so yet.
    """

    assertion: Assertion
    vector: Vector = attrs.field(default=None, eq=False, repr=False)
    removal: bool = attrs.field(default=False, kw_only=True)
    lasts: bool = attrs.field(default=True, kw_only=True)

    @property
    def forgets(self) -> bool:
        """Whether it asks to forget something instead of saying something."""
        return self.removal or self.assertion.removed

    @property
    def counts(self) -> bool:
        """Whether it is believed, so that it may have a say in what becomes of what is known."""
        return self.assertion.counts(self.assertion.state)


def walls_of(said: Assertion) -> Walls:
    """Return what must be equal for two assertions to be compared at all: place and owner."""
    return (*said.place.key, said.details.owner)


def is_statement(said: Assertion) -> bool:
    """Whether it is a free statement, which needs reading, and not a typed fact, which the fold settles."""
    return said.keyword == STATEMENT.keyword and isinstance(said.data, str)


def text_of(said: Assertion) -> str:
    """Return what a model is shown of an assertion: a statement as it is, a typed fact with its keyword."""
    if is_statement(said):
        return str(said.data)
    return f"{said.keyword.replace('_', ' ')}: {_plain(said.data)}"


def evidence_of(said: Assertion) -> tuple[Evidence, ...]:
    """Return the words an assertion comes from; of a text that was handed in by itself, that text."""
    if said.details.evidence:
        return said.details.evidence
    return (Evidence(quote=text_of(said), role=said.details.origin.value),)


def rank_of(details: FactDetails) -> int:
    """Return how much whose words they are weighs: nobody's words touch those of a higher rank."""
    match details.origin:
        case Origin.USER:
            return 2
        case Origin.ASSISTANT:
            return 1
        case Origin.TOOL | Origin.DOCUMENT | Origin.UNKNOWN:
            return 0


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
"""By how much the cosine of a vector with itself may miss 1 in float32."""


@attrs.frozen(eq=False)
class Directions:
    """Vectors as rows of length 1. A vector that is missing, NaN or of another dimension is like nothing.

    Attributes:
        rows: float32 of shape (vectors, dimension).
        usable: which rows are like anything at all.
    """

    rows: NDArray[np.float32] = attrs.field(repr=False)
    usable: NDArray[np.bool_] = attrs.field(repr=False)

    @classmethod
    def of(cls, vectors: Sequence[Vector], dimension: int) -> Directions:
        """Normalise vectors of a dimension."""
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
        """Return the cosine of each row with a vector; -1 where there is none to tell."""
        import numpy as np

        unlike = np.full(len(self.rows), -1, dtype=np.float32)
        if vector is None:
            return unlike
        wanted = Directions.of([vector], self.rows.shape[1])
        if not wanted.usable[0]:
            return unlike
        return np.where(self.usable, self.rows @ wanted.rows[0], unlike).astype(np.float32)
