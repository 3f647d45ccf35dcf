r"""All formulas of recall: pure functions on numbers or arrays, called by both passes of a search and by the tests.

The similarity is *pointwise*: a function of the query, the record, its own conversation and the statistics of what
the caller may see, never of the other results. It is one weighted mean of the evidence of words and of meaning, raised
by names, times and kinds, and lowered where the query asks for somebody else's words or facts:

    fused      = (w · v · lexical + (1 - w) · semantic) / (w · v + 1 - w)
    v          = (1 + 2g) / (1 + g);  ½ for a record alone in its conversation
    lexical    = (1 - t) · words + t · dated
    words      = (own + g · (exchange + conversation + g' · own')) / (1 + 2g)
    semantic   = (((cosine + g · (near + g' · inherited)) / (1 + g)) - unrelated) / (1 - unrelated),   at least 0
    inherited  = cosine' - unrelated,   at least 0
    g          = c / (c + n),   n the terms of the record's own text; 0 for a record alone in its conversation
    signed     = fused, raised by lead, dated, kind and change in turn:   v → v + λ · v · (1 - v) · sign
    answering  = signed · (1 - (1 - μ) · misfit) · (1 - little)
    similarity = (1 - (1 - answering) · (1 - κ · concept) · (1 - named)) · (½ + (μ - ½) · named if other)

``w``, the weight of words, belongs to the embedder, and so does ``unrelated``, the cosine of texts that have nothing to
do with each other: see `Calibration`. Words of a record alone count half (`ALONE`): one text tells less than a talk.

``own``, ``exchange`` and ``conversation`` are shares of the attainable BM25: of the record's own text, of the text with
its neighbours, and of its whole conversation. Each level has document frequencies and lengths of its own. ``near`` is
the mean cosine of the record and its neighbours; negative cosines count as 0. The context counts less the longer the
record is (``g``): a short chat turn needs its neighbours, a long message is blurred by them. Primes mark the statement
before, where that one ends with a question or the assistant replies to it: the answer inherits what it matched.

A time in the query is a term like others: it weighs half of its words (``t``), which do not count besides. Statements
follow what happened by up to some days; one that names no time before its own is half as close as what was said then.

A sign raises what answers in part, and nothing that does not answer. ``lead`` is 1 if the query names the person of the
record: the speaker of a statement, or without a name its subject, and the subject of a fact. ``dated`` is the closeness
to a time in the query, see `closeness`. ``kind`` is 1 if the record holds the kind of value that the query asks for: a
number for "How many?", and, of facts, a date for "When?" or a person for "Who?"; see `factmem.recall.text.signs`.
``change`` is ``c / (c + n)`` if the record tells of a change ("moved", "no longer") and the query asks for the present:
"Where do I live?", but not "Where did I live?". Most long texts tell of some change, hence the length. A record is a
``misfit`` if it is the assistant's and the query asks for the user's words, or the reverse. "Awww!" says hardly
anything, and a question does not answer the same one asked again (``little``). A fact is an ``other`` one's if the
query names somebody else, or names nobody while the fact is of an individual other than the viewer; without a viewer,
of any individual, unless all facts are. Where nobody is named, a fact of any subject of which the viewer has one of the
same keyword is an other one's, too. Where the speaker asks for their own ("my"), a subject with a capitalized name
counts as an individual. "Ann Berg" does not name Ann Dahl. Nor does a fact of the viewer answer what is asked about
somebody of whom there are no facts, such as "my mother" or "Nora": without their name it is an other one's, too, and
gains nothing by its concept. A statement is an other one's if it begins with a relative of the speaker's and the query
asks for the speaker's own or for another relative, who is not mentioned beside it; or if it begins with the first
person and the query names somebody who neither speaks nor is mentioned in that conversation; or if it begins with a
name that is not in the query, which names another or asks for the speaker's own, or with a relative of a relative other
than the query asks about. What others say of the viewer by name is the viewer's.

``concept`` is the share of the query's words, by their idf among the concepts that the caller sees, that the fact's
keyword and description hold, themselves or by a related word or a topic; names of subjects and speakers do not count.
So a fact is found by what it is about, as well as by its text, and its value cannot outweigh that. ``named`` is the
share of the keyword's own words, if the query holds them all: a fact that is asked for by name does not age. Facts
about others gain by their concept's name alone.

BM25 is that of Robertson and Zaragoza (2009) with the idf of Lucene, ``ln(1 + (n - df + ½) / (df + ½))``. A related
word counts as a part of an occurrence; a fact's topic that the word belongs to, or the English name of the same
relation or of a kind of it ("my kid", "my daughter"), as a whole one; see `factmem.recall.text.related_words`. A word
that belongs to the asking, such as "many" or "remind", counts half, and a name of ``n`` words as one: each of them as
``1 / n``.

Recency and importance then order records that answer about equally well, see `Boost`; `Additive` is the other way.
`benchmarks/ablation.py` measures what each mechanism is worth.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import attrs
import numpy as np

from factmem.error_hints import hinted
from factmem.errors import InvalidDataError
from factmem.validators import fraction, weight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Floats = TypeVar("Floats", float, "NDArray[Any]")

BM25_K1: Final = 0.5
"""BM25's ``k1``: the saturation of repeated terms."""

BM25_B: Final = 0.5
"""BM25's ``b``: how much the length of a document counts."""


ALONE: Final = 0.5
"""The weight of the words of a record alone in its conversation: one text tells less than an exchange and a talk."""

CONTEXT_WORDS: Final = 20.0
"""``c``: the length of a record, in terms, at which its context counts half."""

SIGN: Final = 0.5
"""``λ``: the gain by a sign, as a share of ``v · (1 - v)``."""

CHANGED: Final = 0.35
"""``λ`` of a change: what tells of one is newer than what is like it, and tells the present state."""

TIMED: Final = 0.5
"""The weight of a time in a query, as a share of that of its words; all of it for a record that names the same day."""

LAG: Final = 5 * 86_400.0
"""The seconds by which a statement may follow what happened."""

_AFTER: Final = 0.5
"""The highest closeness to a time that has ended, of what names no time before its own."""

MISFIT: Final = 0.75
"""``μ``: the weight of what is somebody else's than the query asks for, and of a text that says hardly anything."""

FEW_WORDS: Final = 16
"""Number of terms below which a text may say hardly anything; see `says_little`."""

ASKED: Final = 0.25
"""The weight of a short text that only asks. Long requests tell something: some of BEAM's evidence stands in them."""

ASKING: Final = 0.5
"""The weight of words that belong to the asking, such as "many" or "remind"; see `factmem.recall.text.signs`."""

ANSWERS: Final = 0.1
"""The least `confidence` that something answers."""

CONCEPT: Final = 0.4
"""``κ``: the gain of a fact whose concept the query asks for."""

OTHER: Final = 0.5
"""The weight of facts about others than the query asks about; up to `MISFIT` where it names their concept."""

_BELOW: Final = 1e-6
"""Share by which the score of an overtaken statement is less than that of the newest at least."""

DAY: Final = 86_400.0
"""The seconds of a day."""

_MONTH: Final = 30 * DAY
_BEST: Final = 0.3
_OTHERS: Final = 3.0
_UNWORDED: Final = 0.5
_FEW: Final = 6
"""Number of records below which fewer of them make no difference to the confidence."""
MANY: Final = 500
"""Number of records from which on more of them make no difference to the confidence."""


@attrs.frozen(kw_only=True)
class Boost:
    """Composite in which recency and importance order records that answer about equally well.

    The similarity ``s`` becomes ``s + w_r · s · (1 - s) · recency``, and that is raised by importance in the same way.
    The gain is bounded, and none where nothing answers: with the default weights a record of today passes one of last
    year only if their similarities lie within about .01.

    Attributes:
        recency_weight: ``w_r``, from 0 to 1.
        importance_weight: ``w_i``, from 0 to 1.

    Raises:
        InvalidDataError: A weight is out of range.
    """

    recency_weight: float = attrs.field(default=0.03, validator=fraction)
    importance_weight: float = attrs.field(default=0.1, validator=fraction)

    def score(self, similarity: Floats, recency: Floats, importance: Floats) -> Floats:
        """Return the score, 0 to 1."""
        return raised(raised(similarity, recency, self.recency_weight), importance, self.importance_weight)

    def _steepness(self, similarity: float) -> float:
        return similarity * (1 + self.recency_weight) * (1 + self.importance_weight)


@attrs.frozen(kw_only=True)
class Additive:
    """CrewAI's composite: ``score = w_s · similarity + w_r · recency + w_i · importance``, the weights normalized to 1.

    Recency competes with similarity here: an unrelated record of today outranks the right one of last year. Asked the
    day after the last conversation, LoCoMo's turn R@10 is .40 by this composite and .81 by `Boost`. A record of today
    scores .3 whatever is asked, so ``min_score`` says little.

    Attributes:
        similarity_weight: ``w_s``.
        recency_weight: ``w_r``.
        importance_weight: ``w_i``.

    Raises:
        InvalidDataError: A weight is out of range, or all three are 0.
    """

    similarity_weight: float = attrs.field(default=0.5, validator=weight)
    recency_weight: float = attrs.field(default=0.3, validator=weight)
    importance_weight: float = attrs.field(default=0.2, validator=weight)

    def __attrs_post_init__(self) -> None:
        if not self.similarity_weight + self.recency_weight + self.importance_weight:
            raise InvalidDataError("one of the weights of recall must be more than 0")

    def score(self, similarity: Floats, recency: Floats, importance: Floats) -> Floats:
        """Return the score, 0 to 1."""
        w_s, w_r, w_i = self.similarity_weight, self.recency_weight, self.importance_weight
        return (w_s * similarity + w_r * recency + w_i * importance) / (w_s + w_r + w_i)

    def _steepness(self, similarity: float) -> float:
        w_s = self.similarity_weight
        return similarity * w_s / (w_s + self.recency_weight + self.importance_weight)


Composite: TypeAlias = Boost | Additive
"""A formula that makes one score of similarity, recency and importance."""

_COMPOSITES: Final[Mapping[str, Composite]] = {"boost": Boost(), "additive": Additive()}


def _composite(value: Any) -> Any:
    return _COMPOSITES.get(value, value) if isinstance(value, str) else value


def _known(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, Boost | Additive):
        raise InvalidDataError(
            f"{attribute.name} is Boost(…), Additive(…), 'boost' or 'additive'", path=f"$.{attribute.name}"
        )


def _below_1(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    fraction(instance, attribute, value)
    if value == 1:
        raise InvalidDataError(f"{attribute.name} must be less than 1", path=f"$.{attribute.name}")


@attrs.frozen(kw_only=True)
class Calibration:
    """The reading of an embedder's cosines.

    Attributes:
        lexical_weight: How much words count beside this embedder's meaning, from 0 to 1: the less, the better it is.
        unrelated: Mean cosine of a question and a text that has nothing to do with it, less than 1.

    Raises:
        InvalidDataError: A number is out of range.
    """

    lexical_weight: float = attrs.field(default=0.35, validator=fraction)
    unrelated: float = attrs.field(default=0.0, validator=_below_1)


CALIBRATIONS: Final[Mapping[str, Calibration]] = {
    "wordllama-l2-supercat-256": Calibration(lexical_weight=0.6),
    "all-minilm-l6-v2-int8": Calibration(lexical_weight=0.45),
    "multilingual-e5-small-4bit+passage, centred": Calibration(lexical_weight=0.35, unrelated=0.45),
}
"""The embedders that were measured, by the name of their identity; others get the defaults of `Calibration`."""
_NOT_MEASURED: Final = Calibration()


@hinted
@attrs.frozen(kw_only=True)
class RecallSettings:
    """Weights of recall.

    Attributes:
        composite: Formula of the score: a `Boost`, an `Additive`, or the name of either (``"boost"``, ``"additive"``)
            for its defaults.
        half_life_days: The age at which recency has halved, in days.
        lexical_weight: ``w``, from 0 (meaning alone) to 1 (words alone); None for that of the embedder, see
            `Calibration`.
        unrelated: Mean cosine of a question and a text that has nothing to do with it; None for that of the embedder.
        diversity: Penalty of results that repeat one before them or come from the same conversation, from 0 (none)
            to 1. Scores stay as they are.

    Raises:
        InvalidDataError: A number is out of range, or the composite is unknown.
    """

    composite: Composite = attrs.field(default=Boost(), converter=_composite, validator=_known)
    half_life_days: float = attrs.field(default=30.0, validator=weight)
    lexical_weight: float | None = attrs.field(default=None, validator=attrs.validators.optional(fraction))
    unrelated: float | None = attrs.field(default=None, validator=attrs.validators.optional(_below_1))
    diversity: float = attrs.field(default=0.0, validator=fraction)

    def __attrs_post_init__(self) -> None:
        if not self.half_life_days:
            raise InvalidDataError("half_life_days must be more than 0", path="$.half_life_days")

    def calibration(self, embedder: str) -> Calibration:
        """Return how cosines are read: by these settings, else as measured.

        Args:
            embedder: Name of the embedder's identity.
        """
        own = CALIBRATIONS.get(embedder, _NOT_MEASURED)
        if self.lexical_weight is not None:
            own = attrs.evolve(own, lexical_weight=self.lexical_weight)
        return own if self.unrelated is None else attrs.evolve(own, unrelated=self.unrelated)


def idf(df: float, count: int) -> float:
    """Return the weight of a term that ``df`` of ``count`` documents hold."""
    return math.log(1 + (count - df + 0.5) / (df + 0.5))


def length_norm(average: float) -> tuple[float, float]:
    """Return BM25's ``k1 · (1 - b + b · length / average)`` as a constant and a factor of the length.

    Args:
        average: The mean length of the documents.
    """
    return BM25_K1 * (1 - BM25_B), BM25_K1 * BM25_B / (average or 1.0)


def term_share(count: Floats, norm: Floats) -> Floats:
    """Return the share of a term's attainable score that a number of occurrences attains.

    Args:
        count: The number of occurrences.
        norm: The norm of the document's length, from `length_norm`.
    """
    return count / (count + norm)


@attrs.frozen(kw_only=True, eq=False)
class Evidence(Generic[Floats]):
    """Evidence that records answer a query: numbers, or arrays that broadcast to one shape.

    Attributes:
        own: Attained share of the BM25 of the record's own text, 0 to 1.
        exchange: That of the text with its neighbours.
        conversation: That of the whole conversation.
        cosine: Cosine of the record and the query; not negative.
        near: Mean cosine of the record and its neighbours.
        context: ``g``, see `context_weight`; 0 for a record alone in its conversation.
        unrelated: See `Calibration`.
        words: ``v``, see `words_weight`.
        question: The share ``own`` of the statement before. None if no record answers a question, as for the next two.
        question_cosine: The cosine of the statement before.
        answered: ``g'``, the `context_weight` of the statement before; 0 if the record does not answer it.
        little: The share by which the record counts less for it says hardly anything; see `says_little`. None for no
            record.
        misfit: How far the record is of a role that the query does not ask for; None for no record.
        lead: Whether the query names the speaker or the subject; None for no record.
        concept: How far the query asks for the concept, 0 to 1; None for no record.
        named: How far the query names the concept, 0 to 1; None as ``concept``.
        dated: Closeness to a time in the query, 1 if the record names its day; None if the query names none.
        timed: ``t``, the part of the evidence of words that is the closeness to a time.
        kind: Whether the record holds the kind of value that the query asks for; None if it asks for none.
        change: How clearly the record tells of a change, 0 to 1; None if the query does not ask for the present.
        other: Whether it is a fact about somebody whom the query does not ask about; None for no record.
    """

    own: Floats
    exchange: Floats
    conversation: Floats
    cosine: Floats
    near: Floats
    context: Floats
    unrelated: float = 0.0
    words: Floats | float = 1.0
    question: Floats | None = None
    question_cosine: Floats | None = None
    answered: Floats | None = None
    little: Any = None
    misfit: Any = None
    lead: Any = None
    concept: Floats | None = None
    named: Floats | None = None
    dated: Floats | None = None
    timed: Floats | float = 0.0
    kind: Any = None
    change: Any = None
    other: Any = None

    @property
    def signs(self) -> Sequence[tuple[Any, float]]:
        """The signs that the record answers, each with its ``λ``; None for one that the query does not ask for."""
        return (self.lead, SIGN), (self.dated, SIGN), (self.kind, SIGN), (self.change, CHANGED)

    @functools.cached_property
    def lexical(self) -> Floats:
        """The evidence of words, 0 to 1."""
        around = self.exchange + self.conversation
        if self.answered is not None and self.question is not None:
            around = around + self.answered * self.question
        share: Any = np.minimum((self.own + self.context * around) / (1 + 2 * self.context), 1)
        if self.dated is not None:
            share = share + self.timed * (self.dated - share)
        return share

    @functools.cached_property
    def semantic(self) -> Floats:
        """The evidence of meaning, 0 to 1."""
        around = self.near
        if self.answered is not None and self.question_cosine is not None:
            around = around + self.answered * np.maximum(self.question_cosine - self.unrelated, 0)
        cosine: Any = (self.cosine + self.context * around) / (1 + self.context)
        if self.unrelated:
            cosine = np.maximum(cosine - self.unrelated, 0) / (1 - self.unrelated)
        return np.minimum(cosine, 1)


def words_weight(grouped: Any, context: Floats) -> Floats:
    """Return the weight of words beside meaning, by the levels that each has: ``(1 + 2g) / (1 + g)``, or `ALONE`.

    Args:
        grouped: Whether the record is in a conversation with others.
        context: ``g``, see `context_weight`.
    """
    return (1 + 2 * context) / (1 + context) - (1 - ALONE) * (1 - grouped)


def context_weight(counts: Any, length: Floats) -> Floats:
    """Return ``g``, the weight of a text in or as a context: the less, the longer the text.

    Args:
        counts: Whether the context counts at all.
        length: Number of terms of the text.
    """
    return counts * (CONTEXT_WORDS / (CONTEXT_WORDS + length))


def says_little(length: Any, tells: NDArray[np.bool_], asks: NDArray[Any]) -> NDArray[np.float32]:
    """Return the share by which texts count less for they are short and say hardly anything.

    Args:
        length: Number of terms of each text.
        tells: Whether it tells something; see `factmem.sentences.tells`.
        asks: The share of its words that stand in questions; see `factmem.sentences.asked_share`.
    """
    little = np.maximum((1 - MISFIT) * ~tells, (1 - ASKED) * asks**3)
    return np.where(length < FEW_WORDS, little, 0).astype(np.float32)


def raised(score: Floats, by: Any, weight: float) -> Floats:
    """Return a score, 0 to 1, raised by a value from 0 to 1: the gain is bounded, and 0 at a score of 0."""
    return score + weight * score * (1 - score) * by


def similarity(evidence: Evidence[Floats], lexical_weight: float) -> Floats:
    """Return the similarity, 0 to 1."""
    if lexical_weight in (0, 1):
        answering: Any = evidence.lexical if lexical_weight else evidence.semantic
    else:
        meaning = (1 - lexical_weight) / (1 - lexical_weight + lexical_weight * evidence.words)
        answering = evidence.lexical + meaning * (evidence.semantic - evidence.lexical)
    for sign, gain in evidence.signs:
        if sign is not None:
            answering = raised(answering, sign, gain)
    if evidence.misfit is not None:
        answering = answering - (1 - MISFIT) * answering * evidence.misfit
    if evidence.little is not None:
        answering = answering - answering * evidence.little
    if evidence.concept is not None:
        answering = answering + CONCEPT * evidence.concept * (1 - answering)
    if evidence.named is not None:
        answering = answering + evidence.named * (1 - answering)
    if evidence.other is not None:
        named = 0.0 if evidence.named is None else evidence.named
        answering = answering - (1 - OTHER - (MISFIT - OTHER) * named) * answering * evidence.other
    return answering


def steepness(evidence: Evidence[Floats], lexical_weight: float, settings: RecallSettings) -> float:
    """Return the largest change of a composite, as a multiple of the largest change of any cosine.

    It is the product of the largest derivatives: of the mean with the context, ``1 + g · g' / (1 + g)``; of the part
    beyond ``unrelated``; of the mean with the words, where ``v`` is `ALONE`; of each raise by ``λ``, ``1 + λ``.
    """
    meaning = 1 - lexical_weight
    steep = meaning / (meaning + lexical_weight * ALONE) / (1 - evidence.unrelated)
    if evidence.answered is not None:
        steep *= 1.5
    steep *= math.prod([1 + gain for sign, gain in evidence.signs if sign is not None])
    return settings.composite._steepness(steep)


def confidence(
    similarity: Sequence[float],
    semantic: Sequence[float],
    fits: Sequence[float],
    other: Sequence[bool],
    *,
    among: int,
    held: float = 1.0,
) -> float:
    """Return the confidence that any of the first results answers, from 0 to 1.

    It is ``.3 · the highest similarity + .7 · the mean semantic evidence``: where something answers, there is more
    about it. Where records about others than the query asks about fit better, it falls by ``3 ·`` their lead: "What did
    Ann paint?" is not answered by what Ben painted, least of all where nothing is known about Ann. The best of few
    records is less alike than the best of many, whether it answers or not: among ``n < 500``, all this counts
    ``ln 500 / ln n``. It counts half where no record holds a word of what is asked for, and in proportion where some
    are held.

    Args:
        similarity: Similarities of the first results.
        semantic: Their evidence of meaning, or of words where meaning does not count.
        fits: How well each fits: the similarity of facts, which their concepts decide, and the mean of the evidence of
            words and of meaning of statements, which no name raises.
        other: Whether each is about others than the query asks about.
        among: Number of records that were compared.
        held: The share of the words with content that any of them holds.
    """
    asked = max([fit for fit, is_other in zip(fits, other, strict=True) if not is_other], default=0.0)
    others = max([fit for fit, is_other in zip(fits, other, strict=True) if is_other], default=0.0)
    known = _BEST * max(similarity) + (1 - _BEST) * sum(semantic) / len(semantic)
    few = math.log(MANY) / math.log(min(max(among, _FEW), MANY))
    worded = 1 - _UNWORDED * (1 - held)
    return min(max(worded * few * (known - _OTHERS * max(others - asked, 0)), 0), 1)


def closeness(
    said_at: NDArray[np.float64], points_back: NDArray[np.bool_], times: Sequence[tuple[float, float]]
) -> NDArray[np.float64]:
    """Return the closeness of records to the closest of some intervals: 1 within, 0 from half its length before.

    After the interval, it is 0 from `LAG` away at the earliest, and ½ at most unless the record points back.

    Args:
        said_at: Times of the records, in seconds since 1970.
        points_back: Whether each names a time before its own.
        times: Beginnings and ends of the intervals; their length counts as a day at least and a month at most.
    """
    closest, highest = np.zeros(len(said_at)), np.where(points_back, 1.0, _AFTER)
    for start, end in times:
        reach = min(max(end - start, DAY), _MONTH) / 2
        before = 1 - np.maximum((start - said_at) / reach, 0)
        after = np.minimum(1 - (said_at - end) / max(reach, LAG), highest)
        np.maximum(closest, np.where(said_at < end, before, after), out=closest)
    return closest


def recency(age: Floats, half_life_days: float) -> Floats:
    """Return the recency of ages in seconds: 1 for now and for the future, halved each half-life."""
    found: Any = np.exp2(np.maximum(age, 0) / (-DAY * half_life_days))
    return found


def outranked(score: Floats, newest: Floats) -> Floats:
    """Return the scores of overtaken statements, just below that of the one that overtakes them."""
    found: Any = np.minimum(score, newest * (1 - _BELOW))
    return found
