"""The analysts that ask a language model: of texts and of questions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
from anyio import to_thread

from factmem.abc.analyst import Analysis, AnalysisRequest
from factmem.abc.consolidator import Known
from factmem.abc.detector import Message
from factmem.abc.model import LanguageModel
from factmem.abc.question_analyst import Complexity, Gap, QuestionAnalysis, QuestionRequest, SubQuestion
from factmem.detection.extractions import says_nothing
from factmem.detection.model_questions import inquire
from factmem.detection.redaction import redact
from factmem.detection.statements import says_something, statement_spans
from factmem.hidden_characters import escaped_words
from factmem.legal_names import is_legal_name
from factmem.llm.messages import document, element, fitting, items, section
from factmem.validators import positive

_FEWEST_STATEMENTS: Final = 4
_CHARS_PER_STATEMENT: Final = 20
"""No text states more than one thing in this number of characters; small models state things endlessly."""


@attrs.frozen(kw_only=True)
class InstructorAnalyst:
    """An `Analyst` that asks a language model. Secrets are redacted before the model sees anything.

    A text that says nothing apart from secrets costs no call. Of a text longer than a question, `analyse` reads the
    beginning, and `extract` all of it, in parallel parts. The model is shown the first scopes and categories in use, up
    to a quarter of a question each.

    Attributes:
        model: the language model.
        concurrency: maximum number of questions at a time.

    Raises:
        InvalidDataError: the number is out of range.
    """

    model: LanguageModel = attrs.field(kw_only=False)
    concurrency: int = attrs.field(default=4, validator=positive)

    async def analyse(self, text: str, request: AnalysisRequest) -> Analysis:
        """See `Analyst.analyse`. An importance out of range makes the model be asked again; scopes are paths."""
        clean = await to_thread.run_sync(_clean, text)
        if not says_something(clean):
            return Analysis()
        room = self.model.max_chars // 4
        in_use = (
            items("scopes_in_use", request.scopes_in_use if request.scope else (), room),
            items("categories_in_use", request.categories_in_use if request.categories else (), room),
        )
        taken = sum(len(part) + 1 for part in in_use if part)
        content = _document(clean[: self.model.max_chars - taken], *in_use)
        given = ("entities", "dates", "topics")
        wanted = [part for part in ("scope", "categories", "importance") if getattr(request, part)]
        (said,) = await inquire(self.model, "analyse", content, only=(*wanted, *given))
        scope = said.get("scope") or ""
        return Analysis(
            scope=None if says_nothing(scope) else _path(scope),
            categories=_labels(said.get("categories", ())),
            importance=said.get("importance"),
            **{part: _labels(said[part]) for part in given},
        )

    async def extract(self, text: str) -> list[str]:
        """See `Analyst.extract`. Statements come in the order of the text, each once."""
        parts = await to_thread.run_sync(_parts, text, self.model.max_chars)
        if not parts:
            return []
        most = _FEWEST_STATEMENTS + max(map(len, parts)) // _CHARS_PER_STATEMENT
        documents = map(_document, parts)
        answers = await inquire(self.model, "extract", *documents, most=most, concurrency=self.concurrency)
        said = (_spaced(statement) for answer in answers for statement in answer["statements"])
        return list({statement.casefold(): statement for statement in said if not says_nothing(statement)}.values())


@attrs.frozen(kw_only=True)
class InstructorQuestionAnalyst:
    """A `QuestionAnalyst` that asks a language model. Secrets are redacted before the model sees anything.

    A question that says nothing apart from secrets costs no call. One longer than a third of the model's limit is cut.
    The model is shown the first scopes, keywords and known facts that fit.

    Attributes:
        model: the language model.
        max_gaps: maximum number of gaps that it names at a time.

    Raises:
        InvalidDataError: the number is out of range.
    """

    model: LanguageModel = attrs.field(kw_only=False)
    max_gaps: int = attrs.field(default=3, validator=positive)

    async def analyse_question(self, question: str, request: QuestionRequest) -> QuestionAnalysis:
        """See `QuestionAnalyst.analyse_question`. Scopes and keywords that were not offered are left out."""
        clean = await to_thread.run_sync(_clean, question)
        if not says_something(clean):
            return QuestionAnalysis()
        room = self.model.max_chars // 4
        content = document(
            items("scopes_in_use", request.scopes_in_use, room),
            items("keywords_in_use", request.keywords_in_use, room),
            f"<now>{request.now:%A, %Y-%m-%d}</now>",
            element("question", clean[: self.model.max_chars // 3]),
        )
        (said,) = await inquire(self.model, "analyse_question", content, most=request.max_questions)
        return _analysis(said, request)

    async def find_gaps(self, question: str, known: Sequence[Known], *, asked: Sequence[str] = ()) -> list[Gap]:
        """See `QuestionAnalyst.find_gaps`."""
        texts = (question, *asked, *(item.text for item in known))
        clean, *others = await to_thread.run_sync(list, map(_clean, texts))
        if not says_something(clean):
            return []
        asking = element("question", clean[: self.model.max_chars // 3])
        lines = [element("asked", text) for text in others[: len(asked)]]
        told = zip(known, others[len(asked) :], strict=True)
        shown = [element("known", text, said=f"{item.said_at:%Y-%m-%d}") for item, text in told]
        room = self.model.max_chars - len(document(asking))
        lines = fitting(lines, room // 3)
        shown = fitting(shown, room - sum(len(line) + 1 for line in lines))
        (said,) = await inquire(self.model, "find_gaps", document(*shown, *lines, asking), most=self.max_gaps)
        gaps = [Gap(**{part: _spaced(text) for part, text in gap.items()}) for gap in said["gaps"]]
        return [gap for gap in gaps if not (says_nothing(gap.missing) or says_nothing(gap.question))][: self.max_gaps]


def _analysis(said: Mapping[str, Any], request: QuestionRequest) -> QuestionAnalysis:
    """Return the analysis in an answer, without scopes and keywords that were not offered and without invalid times."""
    questions = {
        _spaced(item["text"]).casefold(): SubQuestion(
            _spaced(item["text"]), keyword=item["keyword"] if item["keyword"] in request.keywords_in_use else None
        )
        for item in said["questions"]
        if not says_nothing(item["text"])
    }
    since, until = _moment(said["since"]), _moment(said["until"], last=True)
    if since is not None and until is not None and since >= until:
        since, until = None, None
    scopes = dict.fromkeys(map(_path, said["scopes"]))
    return QuestionAnalysis(
        questions=tuple(questions.values())[: request.max_questions],
        scopes=tuple(path for path in scopes if path in request.scopes_in_use),
        since=since,
        until=until,
        complexity=Complexity(said["complexity"]),
    )


_DAY: Final = len("2024-06-03")


def _moment(text: str | None, *, last: bool = False) -> dt.datetime | None:
    """Read a day, a month, a year or a time, in UTC if it has no zone; with ``last``, the end of that period."""
    said = (text or "").strip()
    try:
        moment = dt.datetime.fromisoformat(f"{said}-01-01"[:_DAY] if len(said) < _DAY else said)
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
        if not last or len(said) > _DAY:
            return moment
        if len(said) == _DAY:
            return moment + dt.timedelta(days=1)
        return (moment + dt.timedelta(days=366 if len(said) == 4 else 31)).replace(day=1)
    except (ValueError, OverflowError):
        return None


def _clean(text: str) -> str:
    return redact(Message(content=text).content).text


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _path(text: str) -> str:
    return f"/{text.strip().strip('/')}"


def _labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels without those that no store can carry, and without fillers for "nothing"."""
    spelled = (_spaced(label) for label in labels if not says_nothing(label))
    return tuple(dict.fromkeys(filter(is_legal_name, spelled)))


def _parts(text: str, max_chars: int) -> list[str]:
    clean = _clean(text)
    return [clean[start:end] for start, end in statement_spans(clean, max_chars)] if says_something(clean) else []


def _document(text: str, *in_use: str) -> str:
    return document(*in_use, section("text", [escaped_words(text)]))
