r"""Deep recall: search, split the question if that is not enough, then ask for what is missing.

**Course.** The course is that of CrewAI's RecallFlow, with other rules:

- The question itself is always searched for, everywhere that the caller's filters allow. If its confidence is high,
  that is the result, and no model is asked.
- Parts, scopes and times that a model proposes are searched for besides; only scopes that it was offered count. They
  choose a bounded share of the results.
- All searches are of one state of the store.
- Each round searches for new questions only. A gap is reported only while nothing fills it.
- A model that fails, or whose answer cannot be used, costs what it would have added and nothing else.

**Places.** The question itself keeps the first places, in its own order and with its own scores. All other searches
(for parts of the question, for what is missing, and by hints) choose only the last ``⌊added_share · limit⌋`` places. A
record found by another search competes for one of them, with the question's own matches there, by its *fit*:

    fit = √(similarity to the question · similarity to what that search asks)

A match of a search by a hint counts double. So a part that has nothing to do with the question adds
nothing, and no model can displace more than that share. The last of these places goes to the best match of a question
about what is missing, if that question has found it with confidence: such a match need not fit, as a missing link often
shares no word with the question. Three other questions of the same conversation, in place of parts, cost nothing of
turn R@10 on LoCoMo and .02 on REALTALK if every question is split; the parts of questions made of two raise it from .66
to .69 and from .40 to .43. ``benchmarks/deep.py`` measures both.

**Confidence.** The lead of a question's best match: the highest similarity among its first ten matches, less the mean
of the others; and the mean of that over all questions asked. It is from 0 to 1, and .05 to .2 for most questions.
Neither how recent nor how important a record is has a part in it. It separates questions whose evidence is among the
first ten from others with an AUROC of .77 on LoCoMo and REALTALK. The default thresholds go by the distributions that
``benchmarks/deep.py`` prints.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from statistics import fmean
from typing import Final, Protocol, TypeAlias, TypeVar

import anyio
import attrs

from factmem.abc.consolidator import Known
from factmem.abc.question_analyst import (
    Complexity,
    Gap,
    QuestionAnalysis,
    QuestionAnalyst,
    QuestionRequest,
    SubQuestion,
)
from factmem.errors import FactMemError, InvalidDataError, ModelAnswerError, ModelError, ModelUnavailableError
from factmem.llm.asking import Spent, metered
from factmem.recall.events import event_span, events_in, sentence_of, span_between
from factmem.recall.results import FIRST_RESULTS, DeepRecall, RecallMatch
from factmem.recall.text.times import TimeSpan, times_in
from factmem.validators import check_text, count, fraction, positive, seconds

T = TypeVar("T")

_LOG: Final = logging.getLogger("factmem")

_HINTED: Final = 2.0
"""Factor for the similarity of a match of a search by a hint."""


@attrs.frozen(kw_only=True)
class DeepSettings:
    """Conditions under which deep recall asks a model, and bounds of the model's influence.

    The first four have the names that CrewAI uses. The confidences mean something else (see `factmem.recall.deep`),
    so their defaults are lower than CrewAI's. CrewAI's ``query_analysis_threshold`` has no counterpart: a low
    confidence starts the analysis, not the length of the question.

    Attributes:
        confidence_threshold_high: The question is split below this confidence; at or above it, the result is
            that of plain recall, and no model is asked. 1 always asks.
        confidence_threshold_low: Below this confidence, the model is asked what is missing. A gap counts as filled
            once its own question reaches it.
        complex_query_threshold: The same as ``confidence_threshold_low``, for a complex question.
        exploration_budget: Maximum number of rounds of asking what is missing.
        added_share: Share of the results, rounded down, that anything but the question itself may choose.
        max_questions: Maximum number of questions that one analysis, or one round, may add.
        concurrency: Maximum number of searches at once.
        timeout: Seconds for all work of the model; results found until then count.
        token_budget: Number of tokens, as far as the endpoint reports them, after which the model is not asked again.

    Raises:
        InvalidDataError: A number is out of range.
    """

    confidence_threshold_high: float = attrs.field(default=0.1, validator=fraction)
    confidence_threshold_low: float = attrs.field(default=0.05, validator=fraction)
    complex_query_threshold: float = attrs.field(default=0.08, validator=fraction)
    exploration_budget: int = attrs.field(default=1, validator=count)
    added_share: float = attrs.field(default=0.3, validator=fraction)
    max_questions: int = attrs.field(default=3, validator=count)
    concurrency: int = attrs.field(default=4, validator=positive)
    timeout: float = attrs.field(default=60.0, validator=seconds)
    token_budget: int = attrs.field(default=50_000, validator=positive)

    def analyses(self, confidence: float) -> bool:
        """Return whether to split the question."""
        return confidence < self.confidence_threshold_high or self.confidence_threshold_high == 1

    def explores(self, confidence: float, complexity: Complexity) -> bool:
        """Return whether to ask what is missing."""
        if confidence >= self.confidence_threshold_high:
            return False
        complicated = complexity is Complexity.COMPLEX and confidence < self.complex_query_threshold
        return complicated or confidence < self.confidence_threshold_low


@attrs.frozen(kw_only=True)
class Hint:
    """A restriction of an additional search.

    Attributes:
        scopes: Paths of scopes, each with those below it.
        keyword: The concept of the facts.
        time: Interval of the timestamps.
        record_ids: Ids of the records.
    """

    scopes: tuple[str, ...] = ()
    keyword: str | None = None
    time: TimeSpan | None = None
    record_ids: frozenset[str] = frozenset()

    @property
    def reason(self) -> str:
        """The reason that the hint adds to those of a match; one by records adds none."""
        return "scope" if self.scopes else "concept" if self.keyword is not None else "time"


@attrs.frozen
class Look:
    """One search for a question, within the caller's view and filters.

    Attributes:
        text: The question.
        hint: Restriction of the search; None for none.
    """

    text: str
    hint: Hint | None = None


Results: TypeAlias = "dict[Look, Sequence[RecallMatch]]"
"""The matches of each search, best first, in the order of the searches."""


def confidence_of(found: Sequence[Sequence[RecallMatch]]) -> float:
    """Return the confidence that the first results answer the questions asked, from 0 to 1.

    Args:
        found: The matches of each question, searched for everywhere.
    """
    return fmean(map(_standing_out, found)) if found else 0.0


def _standing_out(matches: Sequence[RecallMatch]) -> float:
    """Return the lead of the best match over those after it."""
    best, *rest = sorted((match.parts.similarity for match in matches[:FIRST_RESULTS]), reverse=True) or [0.0]
    return best - fmean(rest) if rest else best


_LONGEST: Final = 500
"""Maximum length of a model's question, in characters."""

_MOST_TIMES: Final = 3
"""Maximum number of intervals of additional searches for one question."""


class Searcher(Protocol):
    """Makes the searches, within the caller's view and filters."""

    async def offered(self, now: dt.datetime, max_questions: int) -> QuestionRequest:
        """Return the request to an analyst, with the scopes and keywords in use."""
        ...

    async def found(self, looks: Sequence[Look]) -> Results:
        """Return the matches of each search, all in one state of the store."""
        ...


@attrs.define(eq=False)
class Exploration:
    """A search for a question, as deep as it needs; made once.

    Attributes:
        question: Question to search for.
        searcher: Makes the searches.
        analyst: Splits the question, and names what is missing.
        limit: Maximum number of matches.
        now: The present, or the moment of the view.
        settings: Thresholds for asking the analyst, and bounds of its influence.
        strict: Raise an error of the model instead of going on without it.
        spent: What the model has cost.
        deadline: Time by `anyio.current_time` at which the work of the model ends.
        analysis: The analyst's analysis of the question.
        times: Intervals that are searched besides.
        asked: The questions that were searched for, in the form in which equal ones are.
        results: The matches of each search.
        among: The question's own matches among the records that only other searches have found, best first.
        missing: The questions about what is missing.
        gaps: What is missing.
        rounds: Number of rounds of asking what is missing.
        failure: The error of the model, if it failed.
    """

    question: str
    searcher: Searcher
    analyst: QuestionAnalyst
    limit: int = attrs.field(kw_only=True)
    now: dt.datetime = attrs.field(kw_only=True)
    settings: DeepSettings = attrs.field(kw_only=True)
    strict: bool = attrs.field(default=False, kw_only=True)
    spent: Spent = attrs.field(init=False, factory=Spent)
    deadline: float = attrs.field(init=False, factory=anyio.current_time)
    analysis: QuestionAnalysis = attrs.field(init=False, factory=QuestionAnalysis)
    times: tuple[TimeSpan, ...] = attrs.field(init=False, default=())
    asked: dict[str, SubQuestion] = attrs.field(init=False, factory=dict)
    results: Results = attrs.field(init=False, factory=dict)
    among: Sequence[RecallMatch] = attrs.field(init=False, default=())
    missing: list[str] = attrs.field(init=False, factory=list)
    gaps: tuple[Gap, ...] = attrs.field(init=False, default=())
    rounds: int = attrs.field(init=False, default=0)
    failure: ModelError | None = attrs.field(init=False, default=None)

    async def result(self) -> DeepRecall:
        """Make the search.

        Raises:
            ModelError: The model failed, and ``strict`` is set.
        """
        with metered(self.spent):
            await self._explore()
        low = self.settings.confidence_threshold_low
        return DeepRecall(
            matches=tuple(self._best()),
            confidence=self._confidence(),
            questions=tuple(item.text for item in self.asked.values()),
            times=self.times,
            scopes=self.analysis.scopes,
            complexity=self.analysis.complexity,
            rounds=self.rounds,
            gaps=tuple(gap for gap in self.gaps if self._confidence_in(gap.question) < low),
            calls=self.spent.questions,
            tokens=self.spent.tokens,
            failure=None if self.failure is None else str(self.failure),
        )

    async def _explore(self) -> None:
        self.deadline += self.settings.timeout
        await self._search_for([SubQuestion(self.question)])
        if not self.settings.analyses(self._confidence()):
            return
        await self._analyse()
        said = [span_between(self.analysis.since, self.analysis.until, self.now)]
        happened = await self._event_times()
        self.times = tuple(dict.fromkeys([*times_in(self.question, self.now), *happened, *filter(None, said)]))
        await self._search_for(self.analysis.questions)
        for _ in range(self.settings.exploration_budget):
            ended = self.failure is not None or self.spent.tokens >= self.settings.token_budget
            explores = not ended and self.settings.explores(self._confidence(), self.analysis.complexity)
            if not explores or not await self._look_further():
                break

    async def _analyse(self) -> None:
        request = await self.searcher.offered(self.now, self.settings.max_questions)

        async def ask() -> QuestionAnalysis:
            return _lawful(await self.analyst.analyse_question(self.question, request), request)

        self.analysis = await self._heard(ask) or self.analysis

    async def _event_times(self) -> tuple[TimeSpan, ...]:
        """Return the intervals of the events that the question names, if their dates are known."""
        if not (events := events_in(self.question, self.now)):
            return ()
        found = await self.searcher.found([Look(event.phrase) for event in events])
        spans = (event_span(event, found[Look(event.phrase)], self.now) for event in events)
        return tuple(span for span in spans if span is not None)

    async def _search_for(self, questions: Iterable[SubQuestion]) -> list[str]:
        """Make all searches with additional questions; return the new ones."""
        new = {_key(item.text): item for item in questions}
        new = {key: item for key, item in new.items() if key not in self.asked}
        asked = self.asked | new
        looks = list(dict.fromkeys(look for item in asked.values() for look in self._looks(item)))
        found = await self.searcher.found(looks)
        among: Sequence[RecallMatch] = ()
        if ids := self._unplaced(found):
            own = Look(self.question, Hint(record_ids=ids))
            found = await self.searcher.found([*looks, own])  # repeat all of them if the store has changed since
            among = found.pop(own)
        self.asked, self.results, self.among = asked, found, among
        return [item.text for item in new.values()]

    def _looks(self, asked: SubQuestion) -> list[Look]:
        hints = [Hint(scopes=self.analysis.scopes)] if self.analysis.scopes else []
        hints += [Hint(keyword=asked.keyword)] if asked.keyword is not None else []
        if self.times or asked.text != self.question:  # the question's own times: only after its first search
            times = dict.fromkeys([*times_in(asked.text, self.now), *self.times])
            hints += [Hint(time=time) for time in list(times)[:_MOST_TIMES]]
        return [Look(asked.text), *(Look(asked.text, hint) for hint in hints)]

    async def _look_further(self) -> bool:
        """Ask what is missing and search for it; return whether there were new questions."""
        known = [Known(text=sentence_of(match.record), said_at=match.record.timestamp) for match in self._best()]
        asked = tuple(item.text for item in self.asked.values())

        async def ask() -> tuple[Gap, ...]:
            return _lawful_gaps(await self.analyst.find_gaps(self.question, known, asked=asked))

        if (gaps := await self._heard(ask)) is None:
            return False
        self.gaps = gaps[: self.settings.max_questions]
        new = await self._in_time(lambda: self._search_for(SubQuestion(gap.question) for gap in self.gaps))
        self.missing += new or ()
        self.rounds += bool(new)
        return bool(new)

    async def _heard(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Await the analyst; return None if it failed, and record the failure."""
        try:
            return await self._in_time(ask)
        except ModelError as error:
            self._failed(error)
        except FactMemError:
            raise
        except Exception as error:  # third-party code
            self._failed(ModelAnswerError(f"the question analyst failed with {type(error).__name__}"))
        return None

    async def _in_time(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Await within the deadline; return None if that passes."""
        with anyio.CancelScope(deadline=self.deadline):
            return await work()
        self._failed(
            ModelUnavailableError(
                f"deep recall took more than {self.settings.timeout:g} s: try later, or raise the timeout of its "
                "DeepSettings"
            )
        )
        return None

    def _failed(self, error: ModelError) -> None:
        if self.strict:
            raise error
        self.failure = error
        _LOG.warning("deep recall goes on without the model: %s", error)

    def _unplaced(self, found: Results) -> frozenset[str]:
        """Return the ids of the records found by other searches that are not among the question's own first matches."""
        first = {look: {match.record.id for match in matches[: self.limit]} for look, matches in found.items()}
        own = first.pop(Look(self.question))
        return frozenset().union(*first.values()) - own

    def _best(self) -> list[RecallMatch]:
        """Return the best matches of all searches, best first; see `factmem.recall.deep`."""
        own = self.results[Look(self.question)][: self.limit]
        added = math.floor(self.settings.added_share * self.limit + 1e-9)  # .3 * 10 is a little less than 3
        first = self.limit - added
        contested = [*own[first:], *self.among]  # as the question itself ranks them
        similar = {match.record.id: match.parts.similarity for match in (*own, *self.among)}
        fits = {match.record.id: match.parts.similarity for match in own}
        reasons: dict[str, dict[str, None]] = {}
        for look, matches in self.results.items():
            for match in matches[: self.limit] if look != Look(self.question) else ():
                key = match.record.id
                if look.hint is not None:
                    reasons.setdefault(key, {})[look.hint.reason] = None
                there = match.parts.similarity * (1 if look.hint is None else _HINTED)
                fits[key] = max(fits.get(key, 0.0), math.sqrt(similar.get(key, 0.0) * there))
        link = self._link()
        best = sorted(contested, key=lambda match: (match.record.id != link, -fits[match.record.id]))
        chosen = {match.record.id for match in best[: self.limit - len(own[:first])]}
        placed = [*own[:first], *(match for match in contested if match.record.id in chosen)]
        return [attrs.evolve(match, reasons=(*match.reasons, *reasons.get(match.record.id, ()))) for match in placed]

    def _link(self) -> str | None:
        """Return the id of the best match of the questions about what is missing; None if none was found for sure."""
        matches = [self.results[Look(text)] for text in self.missing]
        sure = [own for own in matches if own and _standing_out(own) >= self.settings.confidence_threshold_low]
        return max((own[0] for own in sure), key=lambda match: match.parts.similarity).record.id if sure else None

    def _confidence(self) -> float:
        return confidence_of([self.results[Look(item.text)] for item in self.asked.values()])

    def _confidence_in(self, question: str) -> float:
        asked = self.asked.get(_key(question))
        return 0.0 if asked is None else confidence_of([self.results[Look(asked.text)]])


def _key(text: str) -> str:
    """Return the form in which two wordings of the same question are equal."""
    words = unicodedata.normalize("NFKC", text).casefold().split()
    return " ".join(words).rstrip("?!. ")


def _lawful(answer: object, request: QuestionRequest) -> QuestionAnalysis:
    """Return the usable part of an analysis: valid questions, and offered scopes and keywords."""
    if not isinstance(answer, QuestionAnalysis):
        raise ModelAnswerError(f"the question analyst returned {type(answer).__name__}")
    offered = set(request.keywords_in_use)
    questions = [
        item if item.keyword is None or item.keyword in offered else SubQuestion(item.text)
        for item in answer.questions
        if isinstance(item, SubQuestion) and _is_question(item.text)
    ]
    since, until = (of if isinstance(of, dt.datetime) and of.tzinfo else None for of in (answer.since, answer.until))
    return attrs.evolve(
        answer,
        questions=tuple(questions[: request.max_questions]),
        scopes=tuple(dict.fromkeys(path for path in answer.scopes if path in request.scopes_in_use)),
        since=since,
        until=until,
    )


def _is_question(text: object) -> bool:
    if not isinstance(text, str) or not any(map(str.isalnum, text)) or len(text) > _LONGEST:
        return False
    try:
        check_text(text, path="$")
    except InvalidDataError:
        return False
    return True


def _lawful_gaps(answer: object) -> tuple[Gap, ...]:
    if not isinstance(answer, Sequence) or isinstance(answer, str):
        raise ModelAnswerError(f"the question analyst returned {type(answer).__name__}")
    gaps = (gap for gap in answer if isinstance(gap, Gap))
    return tuple(gap for gap in gaps if _is_question(gap.question) and _is_question(gap.missing))
