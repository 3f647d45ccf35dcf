r"""Deep recall: its settings, its hints, its confidence, and how its searches become one result.

**Places.** The question itself keeps the first places, in its own order and with its own scores. Everything else that
is searched for (the parts of the question, what is missing, and whatever lies where a hint says) may only choose what
stands in the last ``⌊added_share · limit⌋`` places. A record found by another search competes for one of them, with
the question's own matches there, by its *fit*::

    fit = √(similarity to the question · similarity to what that search asks)

A match that lies where a hint says counts half as much again in its search. So a part that has nothing to do with the
question adds nothing, and no model can displace more than that share. The last of these places goes to the best match
of a question about what is missing, if that question has found it with confidence: such a match need not fit, as a
missing link often shares no word with the question. Three other questions of the same conversation, in place of
parts, cost .007 of turn R@10 on LoCoMo if every question is taken apart; the parts of questions made of two raise it
from .58 to .63. ``benchmarks/deep.py`` measures both.

**Confidence.** How far the best match of a question stands out: the highest similarity among its first ten matches,
less the mean of the others; and the mean of that over all questions asked. It is from 0 to 1, and .05 to .2 for most
questions. Neither how recent nor how important a record is has a part in it. It separates questions whose evidence is
among the first ten from others better than the similarity of the best match does (AUROC .74 against .60 on LoCoMo,
.74 against .51 on REALTALK). The default thresholds go by the distributions that ``benchmarks/deep.py`` prints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final, TypeAlias

import attrs

from factmem.abc import Complexity, Gap
from factmem.recall.engine import RecallMatch
from factmem.recall.time_expressions import TimeSpan
from factmem.validators import count, fraction, positive, seconds

__all__ = ["COMPARED", "DeepRecall", "DeepSettings", "Hint", "Look", "Results", "confidence_of", "merged", "unplaced"]

_HINTED: Final = 1.5
"""Factor for the similarity of a match that lies where a hint says."""

COMPARED: Final = 10
"""Number of first matches that the confidence in a question is computed from."""


@attrs.frozen(kw_only=True)
class DeepSettings:
    """When deep recall asks a model, and how much it may change.

    The first four have the names that CrewAI uses. The confidences mean something else (see `factmem.recall.deep`),
    so their defaults are lower than CrewAI's. CrewAI's ``query_analysis_threshold`` has no counterpart: a low
    confidence starts the analysis, not the length of the question.

    Attributes:
        confidence_threshold_high: the question is taken apart below this confidence; at or above it, the result is
            that of plain recall, and no model is asked. 1 always asks.
        confidence_threshold_low: below this confidence, the model is asked what is missing. A gap counts as filled
            once its own question reaches it.
        complex_query_threshold: the same as ``confidence_threshold_low``, for a complex question.
        exploration_budget: maximum number of rounds of asking what is missing.
        added_share: share of the results, rounded down, that anything but the question itself may choose.
        most_questions: maximum number of questions that one analysis, or one round, may add.
        concurrency: maximum number of searches at once.
        timeout: seconds for all that needs the model; what was found until then counts.
        token_budget: number of tokens, as far as the endpoint reports them, after which the model is not asked again.

    Raises:
        InvalidDataError: a number is out of range.
    """

    confidence_threshold_high: float = attrs.field(default=0.1, validator=fraction)
    confidence_threshold_low: float = attrs.field(default=0.05, validator=fraction)
    complex_query_threshold: float = attrs.field(default=0.08, validator=fraction)
    exploration_budget: int = attrs.field(default=1, validator=count)
    added_share: float = attrs.field(default=0.3, validator=fraction)
    most_questions: int = attrs.field(default=3, validator=count)
    concurrency: int = attrs.field(default=4, validator=positive)
    timeout: float = attrs.field(default=60.0, validator=seconds)
    token_budget: int = attrs.field(default=50_000, validator=positive)

    def analyses(self, confidence: float) -> bool:
        """Return whether to take the question apart."""
        return confidence < self.confidence_threshold_high or self.confidence_threshold_high == 1

    def explores(self, confidence: float, complexity: Complexity) -> bool:
        """Return whether to ask what is missing."""
        if confidence >= self.confidence_threshold_high:
            return False
        complicated = complexity is Complexity.COMPLEX and confidence < self.complex_query_threshold
        return complicated or confidence < self.confidence_threshold_low


@attrs.frozen(kw_only=True)
class Hint:
    """One restriction of a search that is made besides the one everywhere.

    Attributes:
        scopes: paths of scopes, each with those below it.
        keyword: the concept of the facts.
        time: when it was said.
        record_ids: ids of the records.
    """

    scopes: tuple[str, ...] = ()
    keyword: str | None = None
    time: TimeSpan | None = None
    record_ids: frozenset[str] = frozenset()

    @property
    def reason(self) -> str:
        """The reason that the hint adds to those of a match; empty if it adds none."""
        if self.record_ids:
            return ""
        return "scope" if self.scopes else "concept" if self.keyword is not None else "time"


@attrs.frozen
class Look:
    """One search for a question, within the caller's walls.

    Attributes:
        text: the question.
        hint: where to search; everywhere, if None.
    """

    text: str
    hint: Hint | None = None


Results: TypeAlias = "dict[Look, Sequence[RecallMatch]]"
"""The matches of each search, best first, in the order in which the searches were thought of."""


@attrs.frozen(kw_only=True)
class DeepRecall:
    """The result of deep recall, and how it came about.

    Attributes:
        matches: the best records, best first, each with its score for the question itself. Those that lie where a
            hint says have ``time``, ``scope`` or ``concept`` among their reasons.
        confidence: from 0 to 1; see `factmem.recall.deep`.
        questions: all questions searched for, the question itself first.
        times: the times looked into besides: those that the question names or the model proposes.
        scopes: the paths of the scopes looked into besides.
        complexity: how much the answer takes, as far as the model was asked.
        rounds: number of rounds of asking what is missing.
        gaps: what is still missing, as far as the model was asked.
        calls: number of questions that the model was asked.
        tokens: number of tokens that they took, as far as the endpoint reports them.
        failure: why the model could not be asked or its answer not be used; None if all went well. The result holds
            what was found without it.
        words_only: why meaning did not count, in words; see `RecallMatches.failure`.
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
    words_only: str | None = None


def confidence_of(found: Sequence[Sequence[RecallMatch]]) -> float:
    """Return the confidence that the first results answer the questions asked, from 0 to 1.

    Args:
        found: the matches of each question, searched for everywhere.
    """
    return fmean(map(_standing_out, found)) if found else 0.0


def _standing_out(matches: Sequence[RecallMatch]) -> float:
    """Return how far the best match stands out from those after it."""
    best, *rest = sorted((match.parts.similarity for match in matches[:COMPARED]), reverse=True) or [0.0]
    return best - fmean(rest) if rest else best


def unplaced(found: Results, *, question: str, limit: int) -> frozenset[str]:
    """Return the ids of the records found by other searches that are not among the question's own first matches.

    Args:
        found: the matches of each search.
        question: the question itself.
        limit: maximum number of results.
    """
    own = {match.record.id for match in found.get(Look(question), ())[:limit]}
    others = {match.record.id for look, matches in found.items() if look != Look(question) for match in matches[:limit]}
    return frozenset(others - own)


def merged(
    found: Results,
    *,
    question: str,
    among: Sequence[RecallMatch],
    missing: Iterable[str],
    limit: int,
    settings: DeepSettings,
) -> list[RecallMatch]:
    """Return the result of several searches, best first; see `factmem.recall.deep`.

    Args:
        found: the matches of each search.
        question: the question itself.
        among: the question's matches among the records that are `unplaced`, best first.
        missing: the questions about what is missing.
        limit: maximum number of results.
        settings: the share that other searches may choose, and what counts as found.
    """
    own = found.get(Look(question), ())[:limit]
    first = limit - math.floor(settings.added_share * limit + 1e-9)  # .3 * 10 is a little less than 3
    contested = [*own[first:], *among]  # as the question itself ranks them
    similar = {match.record.id: match.parts.similarity for match in (*own, *among)}
    fits = {match.record.id: match.parts.similarity for match in own}
    reasons: dict[str, dict[str, None]] = {}
    for look, matches in found.items():
        for match in matches[:limit] if look != Look(question) else ():
            key = match.record.id
            if look.hint is not None:
                reasons.setdefault(key, {})[look.hint.reason] = None
            there = match.parts.similarity * (1 if look.hint is None else _HINTED)
            fits[key] = max(fits.get(key, 0.0), math.sqrt(similar.get(key, 0.0) * there))
    link = _link(found, missing, settings)
    best = sorted(contested, key=lambda match: (match.record.id != link, -fits[match.record.id]))
    chosen = {match.record.id for match in best[: limit - len(own[:first])]}
    placed = [*own[:first], *(match for match in contested if match.record.id in chosen)]
    return [attrs.evolve(match, reasons=(*match.reasons, *reasons.get(match.record.id, ()))) for match in placed]


def _link(found: Results, missing: Iterable[str], settings: DeepSettings) -> str | None:
    """Return the id of the best match of the questions about what is missing; None if none is found with confidence."""
    matches = [found.get(Look(text), ()) for text in missing]
    sure = [own for own in matches if own and _standing_out(own) >= settings.confidence_threshold_low]
    return max((own[0] for own in sure), key=lambda match: match.parts.similarity).record.id if sure else None
