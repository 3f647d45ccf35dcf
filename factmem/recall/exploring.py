"""The course of deep recall: search, take the question apart if that is not enough, ask what is missing.

The course is that of CrewAI's RecallFlow, with other rules where that one goes wrong:

- The question itself is always searched for, everywhere that the caller's filters allow. If its confidence is high,
  that is the result, and no model is asked.
- Parts, scopes and times that a model proposes are searched for besides; only scopes that it was offered count. They
  choose a bounded share of the results; see `factmem.recall.deep`.
- All searches are of one state of the store.
- Each round searches for new questions only. A gap is reported only while nothing fills it.
- A model that fails, or whose answer cannot be used, costs what it would have added and nothing else.
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
from factmem.llm import Spent, metered
from factmem.recall.deep import DeepRecall, DeepSettings, Hint, Look, Results, confidence_of, merged, unplaced
from factmem.recall.engine import RecallMatch
from factmem.recall.events import events_in, span_between, spans_told, told_by
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
    strict: bool = False,
) -> DeepRecall:
    """Search for a question as deeply as it needs.

    Args:
        question: what to search for.
        searcher: makes the searches.
        analyst: takes the question apart, and says what is missing.
        limit: maximum number of matches.
        now: the present, or the moment that is looked at.
        settings: when to ask the analyst, and how much that may change.
        strict: raise an error of the model instead of going on without it.

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
    strict: bool = attrs.field(kw_only=True)
    spent: Spent = attrs.field(kw_only=True)
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

    async def run(self) -> None:
        self.deadline += self.settings.timeout
        await self._search_for([SubQuestion(self.question)])
        if not self.settings.analyses(self._confidence()):
            return
        await self._analyse()
        said = [span_between(self.analysis.since, self.analysis.until, self.now)]
        happened = await self._told_by_events()
        self.times = tuple(dict.fromkeys([*times_in(self.question, self.now), *happened, *filter(None, said)]))
        await self._search_for(self.analysis.questions)
        for _ in range(self.settings.exploration_budget):
            if not self._explores() or not await self._explore():
                break

    def result(self) -> DeepRecall:
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

    async def _analyse(self) -> None:
        request = await self.searcher.offered(self.now, self.settings.most_questions)

        async def ask() -> QuestionAnalysis:
            return _lawful(await self.analyst.analyse_question(self.question, request), request)

        self.analysis = await self._heard(ask) or self.analysis

    async def _told_by_events(self) -> tuple[TimeSpan, ...]:
        """Return the times that the question tells by what happened then, as far as that is known."""
        if not (events := events_in(self.question, self.now)):
            return ()
        found = await self.searcher.found([Look(event.phrase) for event in events])
        return spans_told(events, [found[Look(event.phrase)] for event in events], self.now)

    async def _search_for(self, questions: Iterable[SubQuestion]) -> list[str]:
        """Make all searches with some more questions; return those that are new."""
        new = {_key(item.text): item for item in questions}
        new = {key: item for key, item in new.items() if key not in self.asked}
        asked = self.asked | new
        looks = list(dict.fromkeys(look for item in asked.values() for look in self._looks(item)))
        found = await self.searcher.found(looks)
        among: Sequence[RecallMatch] = ()
        if ids := unplaced(found, question=self.question, limit=self.limit):
            own = Look(self.question, Hint(record_ids=ids))
            found = await self.searcher.found([*looks, own])  # all anew if the store has changed since
            among = found.pop(own)
        self.asked, self.results, self.among = asked, found, among
        return [item.text for item in new.values()]

    def _looks(self, asked: SubQuestion) -> list[Look]:
        hints = [Hint(scopes=self.analysis.scopes)] if self.analysis.scopes else []
        hints += [Hint(keyword=asked.keyword)] if asked.keyword is not None else []
        if self.times or asked.text != self.question:  # times of the question itself: only once it is looked into
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
        asked = tuple(item.text for item in self.asked.values())

        async def ask() -> tuple[Gap, ...]:
            return _lawful_gaps(await self.analyst.find_gaps(self.question, known, asked=asked))

        if (gaps := await self._heard(ask)) is None:
            return False
        self.gaps = gaps[: self.settings.most_questions]
        new = await self._in_time(lambda: self._search_for(SubQuestion(gap.question) for gap in self.gaps))
        self.missing += new or ()
        self.rounds += bool(new)
        return bool(new)

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
            self.results,
            question=self.question,
            among=self.among,
            missing=self.missing,
            limit=self.limit,
            settings=self.settings,
        )

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
