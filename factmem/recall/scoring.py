r"""How well a record answers a query: pure functions, on numbers or on arrays of them.

``composite = w_s · similarity + w_r · 0.5^(age / half-life) + w_i · importance``, the weights normalised.

The similarity is *pointwise*: a function of the query, the record, its own conversation and the
statistics of the viewer's tenant, never of the other results. It fuses the evidence of words, of meaning
and of names::

    lexical    = u · (1 + c) / (u + c),  u = (½ · u_own + 1½ · u_exchange + u_session) / 3
    u_level    = BM25_level / Σ idf_level · (k1 + 1)       what of the attainable score was attained
    semantic   = (cos + γ · best + ε · near + σ · mean) / (1 + γ + ε + σ),  negative cosines count as 0
    fused      = w · lexical + (1 - w) · semantic
    similarity = 1 - (1 - fused) · (1 - ν · lead) · (1 - κ · concept) · (1 - β · lead · concept) · (1 - τ · dated)
                   · (1 - asked)
    recency    = 1 - (1 - decay) · (1 - asked)
    asked      = concept · (1 - (1 - covered)²)

The three levels are the record's own text, the exchange it stands in (with the statement before and
the one after) and its whole conversation; each has document frequencies and lengths of its own. ``best``
and ``mean`` are of the cosines in the conversation, ``near`` is the mean of those in the exchange. A
record that stands in no conversation is an exchange and a conversation by itself. The last four only add:
``lead`` is whether the query holds the word that a record's text begins with (who speaks, or whom a fact is
about), ``concept`` whether it holds all words of the fact's concept, ``dated`` how close the record lies to a
time that the query names, see `closeness`. ``asked`` is how far the query asks for this very fact: ``covered`` is
the share of the query's weight, Σ idf, that the words of its concept and of whom it is about have; words that no
document holds weigh as much as the others do on average. What is asked for does not age: it holds until something
else is said.

BM25 is that of Robertson and Zaragoza (2009) with the idf of Lucene, ``ln(1 + (n - df + ½) / (df + ½))``.
A related word (`factmem.recall.related_words`) counts as a part of an occurrence; such a part of a document
counts in the document frequency as well.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import numpy as np

from factmem.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Floats = TypeVar("Floats", float, "NDArray[np.float64]")

__all__ = [
    "BEST_COSINE",
    "BOTH",
    "B_CONTEXT",
    "B_OWN",
    "CONCEPT",
    "DATED",
    "K1",
    "LEAD",
    "LEVELS",
    "MEAN_COSINE",
    "NEAR_COSINE",
    "SATURATION",
    "RecallSettings",
    "asked_for",
    "closeness",
    "composite",
    "decay",
    "fused",
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

LEVELS: Final = (0.5, 1.5, 1.0)
"""How much the shares of a record's own text, of its exchange and of its conversation weigh."""

BEST_COSINE: Final = 1.0
"""``γ``: what the best cosine in the same conversation adds."""

NEAR_COSINE: Final = 1.0
"""``ε``: what the mean cosine of the exchange adds."""

MEAN_COSINE: Final = 0.3
"""``σ``: what the mean cosine of the conversation adds."""

LEAD: Final = 0.15
"""``ν``: what it adds that the query names who speaks or whom a fact is about."""

CONCEPT: Final = 0.4
"""``κ``: what it adds that the query names a fact's concept."""

BOTH: Final = 0.6
"""``β``: what it adds that it names both."""

DATED: Final = 0.15
"""``τ``: what it adds that a record is of a time that the query names."""

_DAY: Final = 86_400.0
_MONTH: Final = 30 * _DAY


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
        diversity: from 0 (the best alone) to 1: how much it costs a result to say what one before it says, or to
            come from the same conversation; see `factmem.recall.diversity`. Scores stay as they are.

    Raises:
        InvalidDataError: a number is out of range, or all three weights are 0.
    """

    similarity_weight: float = attrs.field(default=0.5, validator=_weight)
    recency_weight: float = attrs.field(default=0.3, validator=_weight)
    importance_weight: float = attrs.field(default=0.2, validator=_weight)
    half_life_days: float = attrs.field(default=30.0, validator=_weight)
    lexical_weight: float = attrs.field(default=0.6, validator=_weight)
    diversity: float = attrs.field(default=0.0, validator=_weight)

    def __attrs_post_init__(self) -> None:
        if not self.similarity_weight + self.recency_weight + self.importance_weight:
            raise InvalidDataError("one of the weights of recall must be more than 0")
        for name in ("lexical_weight", "diversity"):
            if getattr(self, name) > 1:
                raise InvalidDataError(f"{name} must be a number from 0 to 1", path=f"$.{name}")
        if not self.half_life_days:
            raise InvalidDataError("half_life_days must be more than 0", path="$.half_life_days")

    @property
    def weights(self) -> tuple[float, float, float]:
        """``(w_s, w_r, w_i)``, with a sum of 1."""
        total = self.similarity_weight + self.recency_weight + self.importance_weight
        return self.similarity_weight / total, self.recency_weight / total, self.importance_weight / total


def idf(df: float, count: int) -> float:
    """Return a term's weight, from how many of ``count`` documents hold it."""
    return math.log(1 + (count - df + 0.5) / (df + 0.5))


def decay(age: dt.timedelta, half_life_days: float) -> float:
    """Return the recency of something of an age: 1 for now and for the future, halved each half-life."""
    return float(0.5 ** (max(age.total_seconds(), 0.0) / 86_400 / half_life_days))


def lexical(own: Floats, exchange: Floats, session: Floats) -> Floats:
    """Return the lexical evidence, 0 to 1, from the attained shares of the three levels."""
    of_own, of_exchange, of_session = LEVELS
    share = (of_own * own + of_exchange * exchange + of_session * session) / sum(LEVELS)
    return share * (1 + SATURATION) / (share + SATURATION)


def semantic(cosine: Floats, best: Floats, near: Floats, mean: Floats) -> Floats:
    """Return the semantic evidence, 0 to 1, from four cosines that are not negative."""
    total = 1 + BEST_COSINE + NEAR_COSINE + MEAN_COSINE
    return (cosine + BEST_COSINE * best + NEAR_COSINE * near + MEAN_COSINE * mean) / total


def fused(lexical: Floats, semantic: Floats, lexical_weight: float) -> Floats:
    """Return the evidence of words and meaning together, 0 to 1."""
    return lexical_weight * lexical + (1 - lexical_weight) * semantic


def similarity(fused: Floats, lead: Floats, concept: Floats, dated: Floats, asked: Floats) -> Floats:
    """Return the similarity, 0 to 1; what only adds is 0 where it does not apply."""
    named = (1 - LEAD * lead) * (1 - CONCEPT * concept) * (1 - BOTH * lead * concept) * (1 - asked)
    return 1 - (1 - fused) * named * (1 - DATED * dated)


def asked_for(covered: Floats) -> Floats:
    """Return how far a query asks for a fact whose concept it names, 0 to 1, by the share of it that names cover."""
    return 1 - (1 - covered) ** 2


def closeness(said_at: NDArray[np.float64], times: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    """Return how close something said lies to the closest of some times, 1 within it, 0 half as far away as it is long.

    Args:
        said_at: when, in seconds since 1970.
        times: from when until when; nothing counts as longer than a month, or as shorter than a day.
    """
    closest = np.zeros(len(said_at))
    for start, end in times:
        reach = min(max(end - start, _DAY), _MONTH) / 2
        away = np.maximum(np.maximum(start - said_at, said_at - end), 0)
        np.maximum(closest, 1 - away / reach, out=closest)
    return closest


def composite(similarity: Floats, recency: Floats, importance: Floats, settings: RecallSettings) -> Floats:
    """Return the composite score, 0 to 1."""
    w_s, w_r, w_i = settings.weights
    return w_s * similarity + w_r * recency + w_i * importance
