"""Deep recall: a question is taken apart, its parts are looked for side by side, and what is missing is asked after.

The flow is that of CrewAI's RecallFlow, with other rules where that one goes wrong:

- The question itself is always looked for, everywhere that the caller's filters allow; scopes and times that a model
  proposes add to that, and only scopes that it was offered count. What the question finds by itself keeps its place.
- A record's score is its best over all searches, whichever ended first; all are made of one state of the store.
- Confidence comes of similarity and agreement; see `factmem.recall.deep`.
- Exploring looks for new questions only. A gap is told only while nothing fills it.
- A model that fails, or answers what cannot be used, costs what it would have added and nothing else.
"""

from __future__ import annotations

import datetime as dt
import logging
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol, TypeVar

import anyio
import attrs

from factmem.abc import Gap, Known, QuestionAnalysis, QuestionAnalyst, QuestionRequest, SubQuestion
from factmem.errors import FactMemError, InvalidDataError, ModelAnswerError, ModelError, ModelUnavailableError
from factmem.llm.metering import Spent, metered
from factmem.recall.deep import DeepRecall, DeepSettings, Hint, Look, Results, confidence_of, merged
from factmem.recall.engine import RecallMatch
from factmem.recall.events import events_in, span_between, spans_told, told_by
from factmem.recall.scoring import RecallSettings
from factmem.recall.time_expressions import TimeSpan, times_in
from factmem.values import check_text

__all__ = ["Searcher", "explored"]

T = TypeVar("T")
_LOG: Final = logging.getLogger("factmem")
_LONGEST: Final = 500
"""A question of a model that is longer than so many characters is none."""

_MOST_TIMES: Final = 3
"""In how many times one question is looked for besides."""


class Searcher(Protocol):
    """What makes the searches, behind the walls and the filters of whoever asks."""

    async def offered(self, now: dt.datetime, most_questions: int) -> QuestionRequest:
        """Return what may be offered to an analyst: of the scopes and keywords those of what may be found."""
        ...

    async def found(self, looks: Sequence[Look]) -> Results:
        """Return what each of some searches finds, all in one state of the store."""
        ...


async def explored(
    question: str,
    searcher: Searcher,
    analyst: QuestionAnalyst,
    *,
    limit: int,
    now: dt.datetime,
    settings: DeepSettings,
    weights: RecallSettings,
    strict: bool = False,
) -> DeepRecall:
    """Look for a question as deeply as it needs.

    Args:
        question: what to look for.
        searcher: makes the searches.
        analyst: takes the question apart, and says what is missing.
        limit: how many matches to return at the most.
        now: the present, or the moment that is looked at.
        settings: when to ask the analyst.
        weights: what weighs in the searches.
        strict: raise what goes wrong with the model, instead of going on without it.

    Raises:
        ModelError: the model failed, and ``strict`` was asked for.
    """
    with metered() as spent:
        flow = _Flow(
            question,
            searcher,
            analyst=analyst,
            limit=limit,
            now=now,
            settings=settings,
            weights=weights,
            strict=strict,
            spent=spent,
        )
        await flow.run()
    return flow.result()


@attrs.define(eq=False)
class _Flow:
    question: str
    searcher: Searcher
    analyst: QuestionAnalyst = attrs.field(kw_only=True)
    limit: int = attrs.field(kw_only=True)
    now: dt.datetime = attrs.field(kw_only=True)
    settings: DeepSettings = attrs.field(kw_only=True)
    weights: RecallSettings = attrs.field(kw_only=True)
    strict: bool = attrs.field(kw_only=True)
    spent: Spent = attrs.field(kw_only=True)
    deadline: float = attrs.field(init=False, factory=anyio.current_time)
    analysis: QuestionAnalysis = attrs.field(init=False, factory=QuestionAnalysis)
    times: tuple[TimeSpan, ...] = attrs.field(init=False, default=())
    questions: dict[str, str] = attrs.field(init=False, factory=dict)
    looks: dict[Look, None] = attrs.field(init=False, factory=dict)
    results: Results = attrs.field(init=False, factory=dict)
    gaps: tuple[Gap, ...] = attrs.field(init=False, default=())
    rounds: int = attrs.field(init=False, default=0)
    failure: ModelError | None = attrs.field(init=False, default=None)

    async def run(self) -> None:
        self.deadline += self.settings.timeout
        if len(self.question) >= self.settings.query_analysis_threshold:
            await self._analyse()
        asked = self.analysis
        said = [span_between(asked.since, asked.until, self.now)]
        questions = [SubQuestion(self.question), *asked.questions]
        happened = await self._told_by_events(questions)
        self.times = tuple(dict.fromkeys([*times_in(self.question, self.now), *happened, *filter(None, said)]))
        await self._look_for(questions)
        for _ in range(self.settings.exploration_budget):
            if not self._explores() or not await self._explore():
                break

    def result(self) -> DeepRecall:
        sure = self.settings.confidence_threshold_low
        return DeepRecall(
            matches=tuple(self._best()),
            confidence=self._confidence(),
            questions=tuple(self.questions.values()),
            times=self.times,
            scopes=self.analysis.scopes,
            complexity=self.analysis.complexity,
            rounds=self.rounds,
            gaps=tuple(gap for gap in self.gaps if self._similarity_of(gap.question) < sure),
            calls=self.spent.questions,
            tokens=self.spent.tokens,
            failure=None if self.failure is None else str(self.failure),
        )

    async def _analyse(self) -> None:
        request = await self.searcher.offered(self.now, self.settings.most_questions)

        async def ask() -> QuestionAnalysis:
            return _lawful(await self.analyst.analyse_question(self.question, request), request)

        self.analysis = await self._heard(ask) or self.analysis

    async def _told_by_events(self, questions: Iterable[SubQuestion]) -> tuple[TimeSpan, ...]:
        """Return the times that the question tells by what happened then, as far as that is known."""
        if not (events := events_in(self.question, self.now)):
            return ()
        texts = [event.phrase for event in events] + [item.text for item in questions]  # embedded all at once
        found = await self.searcher.found([Look(text) for text in texts])
        return spans_told(events, [found[Look(event.phrase)] for event in events], self.now)

    async def _look_for(self, asked: Iterable[SubQuestion]) -> bool:
        """Look for what was not looked for before; return whether there was any."""
        new = {_key(item.text): item for item in asked if _key(item.text) not in self.questions}
        looks = [look for item in new.values() for look in self._looks(item)]
        found = await self.searcher.found([*self.looks, *looks])
        self.looks |= dict.fromkeys(looks)
        self.questions |= {key: item.text for key, item in new.items()}
        self.results = found
        return bool(new)

    def _looks(self, asked: SubQuestion) -> list[Look]:
        hints = [Hint(scopes=self.analysis.scopes)] if self.analysis.scopes else []
        hints += [Hint(keyword=asked.keyword)] if asked.keyword is not None else []
        times = dict.fromkeys([*times_in(asked.text, self.now), *self.times])
        hints += [Hint(time=time) for time in list(times)[:_MOST_TIMES]]
        return [Look(asked.text), *(Look(asked.text, hint) for hint in hints)]

    def _explores(self) -> bool:
        if self.failure is not None or self.spent.tokens >= self.settings.token_budget:
            return False
        return self.settings.explores(self._confidence(), self.analysis.complexity)

    async def _explore(self) -> bool:
        """Ask what is missing and look for that; return whether there was anything new to look for."""
        known = [Known(text=told_by(match.record), said_at=match.record.timestamp) for match in self._best()]
        asked = tuple(self.questions.values())

        async def ask() -> tuple[Gap, ...]:
            return _lawful_gaps(await self.analyst.find_gaps(self.question, known, asked=asked))

        if (gaps := await self._heard(ask)) is None:
            return False
        self.gaps = gaps[: self.settings.most_questions]
        looked = await self._in_time(lambda: self._look_for(SubQuestion(gap.question) for gap in self.gaps))
        self.rounds += bool(looked)
        return bool(looked)

    async def _heard(self, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Wait for the analyst; None if it failed, which is noted."""
        try:
            return await self._in_time(ask)
        except ModelError as error:
            self._failed(error)
        except FactMemError:
            raise
        except Exception as error:  # somebody else's code
            self._failed(ModelAnswerError(f"the question analyst failed with {type(error).__name__}"))
        return None

    async def _in_time(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Wait for something that is not worth more than the time there is; None if it takes longer."""
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

    def _best(self) -> list[RecallMatch]:
        return merged(
            self.results, question=self.question, limit=self.limit, settings=self.settings, weights=self.weights
        )

    def _confidence(self) -> float:
        return confidence_of([self.results[look] for look in self.looks if look.hint is None])

    def _similarity_of(self, question: str) -> float:
        look = Look(self.questions.get(_key(question), question))
        return max((match.parts.similarity for match in self.results.get(look, ())), default=0.0)


def _key(text: str) -> str:
    """What two questions have in common that are the same."""
    words = unicodedata.normalize("NFKC", text).casefold().split()
    return " ".join(words).rstrip("?!. ")


def _lawful(answer: object, request: QuestionRequest) -> QuestionAnalysis:
    """Return what of an analysis can be followed: what can be looked for, and where that was offered."""
    if not isinstance(answer, QuestionAnalysis):
        raise ModelAnswerError(f"the question analyst answered {type(answer).__name__}")
    offered = set(request.keywords_in_use)
    questions = [
        item if item.keyword is None or item.keyword in offered else SubQuestion(item.text)
        for item in answer.questions
        if isinstance(item, SubQuestion) and _is_question(item.text)
    ]
    since, until = (moment if _is_aware(moment) else None for moment in (answer.since, answer.until))
    return attrs.evolve(
        answer,
        questions=tuple(questions[: request.most_questions]),
        scopes=tuple(dict.fromkeys(path for path in answer.scopes if path in request.scopes_in_use)),
        since=since,
        until=until,
    )


def _is_aware(moment: object) -> bool:
    return isinstance(moment, dt.datetime) and moment.tzinfo is not None


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
        raise ModelAnswerError(f"the question analyst answered {type(answer).__name__}")
    gaps = (gap for gap in answer if isinstance(gap, Gap))
    return tuple(gap for gap in gaps if _is_question(gap.question) and _is_question(gap.missing))
