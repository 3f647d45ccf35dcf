r"""How well a record answers a query: pure functions, on numbers or on arrays of them.

``composite = w_s · similarity + w_r · 0.5^(age / half-life) + w_i · importance``, the weights normalised.

The similarity is *pointwise*: a function of the query, the record, its own conversation and the
statistics of the viewer's tenant, never of the other results. It fuses lexical and semantic evidence::

    lexical  = u · (1 + c) / (u + c),  u = (u_own + u_exchange + u_session) / 3
    u_level  = BM25_level / Σ idf_level · (k1 + 1)         what of the attainable score was attained
    semantic = (cos + γ · best cos in the conversation) / (1 + γ),  negative cosines count as 0
    similarity = w · lexical + (1 - w) · semantic

The three levels are the record's own text, the exchange it stands in (with the statement before and
the one after) and its whole conversation; each has document frequencies and lengths of its own. A
record that stands in no conversation is an exchange and a conversation by itself. BM25 is that of
Robertson and Zaragoza (2009) with the idf of Lucene, ``ln(1 + (n - df + ½) / (df + ½))``.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from factmem.errors import InvalidDataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Floats = TypeVar("Floats", float, "NDArray[np.float64]")

__all__ = [
    "B_CONTEXT",
    "B_OWN",
    "CONTEXT_COSINE",
    "K1",
    "SATURATION",
    "RecallSettings",
    "composite",
    "decay",
    "idf",
    "lexical",
    "semantic",
    "similarity",
]

K1: Final = 1.2
"""How soon repetitions of a term stop to count."""

B_OWN: Final = 0.75
"""How much a record's own length weighs."""

B_CONTEXT: Final = 0.25
"""How much the length of an exchange or a conversation weighs."""

SATURATION: Final = 0.5
"""``c``: the share of the attainable lexical score that counts as three quarters of it."""

CONTEXT_COSINE: Final = 0.5
"""``γ``: what the best cosine in the same conversation adds."""


def _weight(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InvalidDataError(f"{attribute.name} must be a number from 0 on", path=f"$.{attribute.name}")


@attrs.frozen(kw_only=True)
class RecallSettings:
    """What weighs in recall.

    Attributes:
        similarity_weight: ``w_s``; the three weights are normalised to a sum of 1.
        recency_weight: ``w_r``.
        importance_weight: ``w_i``.
        half_life_days: the age at which recency has halved, in days.
        lexical_weight: ``w``, from 0 (meaning alone) to 1 (words alone).

    Raises:
        InvalidDataError: a number is out of range, or all three weights are 0.
    """

    similarity_weight: float = attrs.field(default=0.5, validator=_weight)
    recency_weight: float = attrs.field(default=0.3, validator=_weight)
    importance_weight: float = attrs.field(default=0.2, validator=_weight)
    half_life_days: float = attrs.field(default=30.0, validator=_weight)
    lexical_weight: float = attrs.field(default=0.6, validator=_weight)

    def __attrs_post_init__(self) -> None:
        if not self.similarity_weight + self.recency_weight + self.importance_weight:
            raise InvalidDataError("one of the weights of recall must be more than 0")
        if self.lexical_weight > 1:
            raise InvalidDataError("lexical_weight must be a number from 0 to 1", path="$.lexical_weight")
        if not self.half_life_days:
            raise InvalidDataError("half_life_days must be more than 0", path="$.half_life_days")

    @property
    def weights(self) -> tuple[float, float, float]:
        """``(w_s, w_r, w_i)``, with a sum of 1."""
        total = self.similarity_weight + self.recency_weight + self.importance_weight
        return self.similarity_weight / total, self.recency_weight / total, self.importance_weight / total


def idf(df: int, count: int) -> float:
    """Return a term's weight, from how many of ``count`` documents hold it."""
    return math.log(1 + (count - df + 0.5) / (df + 0.5))


def decay(age: dt.timedelta, half_life_days: float) -> float:
    """Return the recency of something of an age: 1 for now and for the future, halved each half-life."""
    return float(0.5 ** (max(age.total_seconds(), 0.0) / 86_400 / half_life_days))


def lexical(own: Floats, exchange: Floats, session: Floats) -> Floats:
    """Return the lexical evidence, 0 to 1, from the attained shares of the three levels."""
    share = (own + exchange + session) / 3
    return share * (1 + SATURATION) / (share + SATURATION)


def semantic(cosine: Floats, best_in_session: Floats) -> Floats:
    """Return the semantic evidence, 0 to 1, from two cosines that are not negative."""
    return (cosine + CONTEXT_COSINE * best_in_session) / (1 + CONTEXT_COSINE)


def similarity(lexical: Floats, semantic: Floats, lexical_weight: float) -> Floats:
    """Return the similarity, 0 to 1."""
    return lexical_weight * lexical + (1 - lexical_weight) * semantic


def composite(similarity: Floats, recency: Floats, importance: Floats, settings: RecallSettings) -> Floats:
    """Return the composite score, 0 to 1."""
    w_s, w_r, w_i = settings.weights
    return w_s * similarity + w_r * recency + w_i * importance
