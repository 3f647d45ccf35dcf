r"""What deep recall is told, and what it tells: its settings, its hints, its confidence, its result.

The confidence that what was looked for was found, from 0 to 1, is the mean over all questions asked of
``s · (1 + a) / 2``. ``s`` is the similarity of a question's best match; ``a``, the agreement, is the highest
similarity that another question gives the same record, as a share of ``s`` and 1 at the most. A single question
agrees with itself. Neither how recent nor how important a record is has a part in it.

What lies where a hint says counts as if it were half as similar again: ``w_s · min(s / 2, 1 - s)`` is added to its
score. Scores are pointwise, so that a search which is only narrowed finds nothing that a wider one had not found
before it; what it adds is the weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final, TypeAlias

import attrs

from factmem.abc import Complexity, Gap
from factmem.errors import InvalidDataError
from factmem.recall.engine import RecallMatch
from factmem.recall.scoring import RecallSettings
from factmem.recall.time_expressions import TimeSpan

__all__ = ["DeepRecall", "DeepSettings", "Hint", "Look", "Results", "confidence_of", "merged"]

_HINTED: Final = 0.5
"""By what share of its similarity a record is raised that lies where a hint says."""


def _share(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidDataError(f"{attribute.name} must be a number from 0 to 1", path=f"$.{attribute.name}")


def _count(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidDataError(f"{attribute.name} must be a whole number from 0 on", path=f"$.{attribute.name}")


def _some(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    _count(instance, attribute, value)
    if not value:
        raise InvalidDataError(f"{attribute.name} must be a whole number from 1 on", path=f"$.{attribute.name}")


def _seconds(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidDataError(f"{attribute.name} must be a number of seconds", path=f"$.{attribute.name}")


@attrs.frozen(kw_only=True)
class DeepSettings:
    """When deep recall asks a model, and when it has seen enough.

    The first five go by CrewAI's names, and have its defaults.

    Attributes:
        query_analysis_threshold: a question shorter than this, in characters, is not taken apart.
        confidence_threshold_high: at this confidence nothing more is looked for.
        confidence_threshold_low: below it, what is missing is asked after; and what the question itself finds that
            is at least so similar keeps its place, whatever else is found.
        complex_query_threshold: below it, what is missing is asked after for a complex question.
        exploration_budget: how often what is missing is asked after.
        most_questions: how many questions one analysis, or one exploration, may add.
        concurrency: how many searches may be under way at once.
        timeout: seconds for all that needs the model; what was found by then counts.
        token_budget: once so many tokens are spent, as far as the endpoint tells, the model is asked nothing more.

    Raises:
        InvalidDataError: a number is out of range.
    """

    query_analysis_threshold: int = attrs.field(default=200, validator=_count)
    confidence_threshold_high: float = attrs.field(default=0.8, validator=_share)
    confidence_threshold_low: float = attrs.field(default=0.5, validator=_share)
    complex_query_threshold: float = attrs.field(default=0.7, validator=_share)
    exploration_budget: int = attrs.field(default=1, validator=_count)
    most_questions: int = attrs.field(default=3, validator=_count)
    concurrency: int = attrs.field(default=4, validator=_some)
    timeout: float = attrs.field(default=60.0, validator=_seconds)
    token_budget: int = attrs.field(default=50_000, validator=_some)

    def explores(self, confidence: float, complexity: Complexity) -> bool:
        """Whether what is missing should be asked after."""
        if confidence >= self.confidence_threshold_high:
            return False
        complicated = complexity is Complexity.COMPLEX and confidence < self.complex_query_threshold
        return complicated or confidence < self.confidence_threshold_low


@attrs.frozen(kw_only=True)
class Hint:
    """Where a search looks besides everywhere: one of these.

    Attributes:
        scopes: in these scopes, by their paths, and below them.
        keyword: among the facts of this concept.
        time: among what was said then.
    """

    scopes: tuple[str, ...] = ()
    keyword: str | None = None
    time: TimeSpan | None = None

    @property
    def reason(self) -> str:
        """What the hint adds to the reasons of a match."""
        return "scope" if self.scopes else "concept" if self.keyword is not None else "time"


@attrs.frozen
class Look:
    """One search: a question, looked for everywhere or where a hint says; in either case within the caller's walls.

    Attributes:
        text: the question.
        hint: where it is looked for; everywhere, if None.
    """

    text: str
    hint: Hint | None = None


Results: TypeAlias = "dict[Look, Sequence[RecallMatch]]"
"""What each search has found, best first; in the order in which they were thought of."""


@attrs.frozen(kw_only=True)
class DeepRecall:
    """What deep recall found, and how.

    Attributes:
        matches: the best records, best first. The score of each is its best over all searches, and is raised where
            a hint says that it fits: its reasons then hold ``time``, ``scope`` or ``concept``.
        confidence: from 0 to 1; see `factmem.recall.deep`.
        questions: all that was looked for, the question itself first.
        times: the times that it asks about, by its words or the model's.
        scopes: the paths of the scopes that were looked into besides.
        complexity: how much its answer takes, as far as that was asked.
        rounds: how often what is missing was asked after.
        gaps: what is still missing, as far as that was asked.
        calls: how many questions the model was asked.
        tokens: what they took, as far as the endpoint told.
        failure: why the model could not be asked or not be followed, in words; None if all went well. What is found
            without it is there all the same.
    """

    matches: tuple[RecallMatch, ...]
    confidence: float
    questions: tuple[str, ...]
    times: tuple[TimeSpan, ...] = ()
    scopes: tuple[str, ...] = ()
    complexity: Complexity = Complexity.SIMPLE
    rounds: int = 0
    gaps: tuple[Gap, ...] = ()
    calls: int = 0
    tokens: int = 0
    failure: str | None = None


def confidence_of(found: Sequence[Sequence[RecallMatch]]) -> float:
    """Return how sure one may be that what was looked for was found.

    Args:
        found: the matches of each question, looked for everywhere.
    """
    if not found:
        return 0.0
    by_id = [{match.record.id: match.parts.similarity for match in matches} for matches in found]
    return fmean(_sureness(number, by_id) for number in range(len(found)))


def _sureness(number: int, by_id: Sequence[dict[str, float]]) -> float:
    own = by_id[number]
    if not own:
        return 0.0
    best = max(own, key=own.__getitem__)
    if len(by_id) == 1 or not own[best]:
        return own[best]
    others = (found.get(best, 0.0) for other, found in enumerate(by_id) if other != number)
    return own[best] * (1 + min(max(others) / own[best], 1.0)) / 2


def merged(
    found: Results, *, question: str, limit: int, settings: DeepSettings, weights: RecallSettings
) -> list[RecallMatch]:
    """Return the best of what several searches found, best first.

    Places go first to what the question itself finds everywhere and is at least as similar as
    ``confidence_threshold_low``; then to the best match of each other question, if it is so similar; then to the
    highest scores.

    Args:
        found: what was found.
        question: the question itself.
        limit: how many places there are.
        settings: says what is similar enough.
        weights: what the scores were made with.
    """
    best = _best_of_each(found, weights)
    sure = settings.confidence_threshold_low
    claims = [match for match in found.get(Look(question), ()) if match.parts.similarity >= sure]
    for look, matches in found.items():
        if look.hint is None and matches and (first := max(matches, key=_similarity)).parts.similarity >= sure:
            claims.append(first)
    by_score = sorted(best.values(), key=_rank)
    placed = dict.fromkeys(match.record.id for match in (*claims, *by_score))
    return sorted((best[key] for key in list(placed)[:limit]), key=_rank)


def _similarity(match: RecallMatch) -> float:
    return match.parts.similarity


def _rank(match: RecallMatch) -> tuple[float, float]:
    return -match.score, -match.record.timestamp.timestamp()


def _best_of_each(found: Results, weights: RecallSettings) -> dict[str, RecallMatch]:
    """Return each record once, with its best score and the reasons that hints add, in the order found."""
    best: dict[str, RecallMatch] = {}
    hinted: dict[str, dict[str, None]] = {}
    for look, matches in found.items():
        for match in matches:
            key = match.record.id
            if look.hint is not None:
                match = _raised(match, weights)
                hinted.setdefault(key, {})[look.hint.reason] = None
            if key not in best or match.score > best[key].score:
                best[key] = match
    return {key: _with_reasons(match, hinted.get(key, {})) for key, match in best.items()}


def _with_reasons(match: RecallMatch, more: Iterable[str]) -> RecallMatch:
    return attrs.evolve(match, reasons=(*match.reasons, *more))


def _raised(match: RecallMatch, weights: RecallSettings) -> RecallMatch:
    similar = match.parts.similarity
    more = weights.weights[0] * min(_HINTED * similar, 1 - similar)
    return attrs.evolve(match, score=min(match.score + more, 1.0))
