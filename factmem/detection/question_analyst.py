"""The question analyst that asks a language model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
from anyio import to_thread

from factmem.abc.consolidator import Known
from factmem.abc.model import LanguageModel
from factmem.abc.question_analyst import Complexity, Gap, QuestionAnalysis, QuestionRequest, SubQuestion
from factmem.detection.extractions import says_nothing
from factmem.detection.model_questions import inquire
from factmem.detection.redaction import redact
from factmem.detection.statements import says_something
from factmem.llm.messages import document, element, fitting, items
from factmem.validators import positive


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
        (clean,) = await to_thread.run_sync(_cleaned, [question])
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
        clean, *others = await to_thread.run_sync(_cleaned, [question, *asked, *(item.text for item in known)])
        if not says_something(clean):
            return []
        asking = element("question", clean[: self.model.max_chars // 3])
        lines = [element("asked", text) for text in others[: len(asked)]]
        texts = zip(known, others[len(asked) :], strict=True)
        shown = [element("known", text, said=f"{item.said_at:%Y-%m-%d}") for item, text in texts]
        room = self.model.max_chars - len(document(asking))
        lines = fitting(lines, room // 3)
        shown = fitting(shown, room - sum(len(line) + 1 for line in lines))
        (said,) = await inquire(self.model, "find_gaps", document(*shown, *lines, asking), most=self.max_gaps)
        gaps = [Gap(**{part: _spaced(text) for part, text in gap.items()}) for gap in said["gaps"]]
        return [gap for gap in gaps if not (says_nothing(gap.missing) or says_nothing(gap.question))][: self.max_gaps]


def _cleaned(texts: Sequence[str]) -> list[str]:
    return [redact(text).text for text in texts]


def _spaced(text: str) -> str:
    return " ".join(text.split())


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
    scopes = (f"/{path.strip().strip('/')}" for path in said["scopes"])
    return QuestionAnalysis(
        questions=tuple(questions.values())[: request.max_questions],
        scopes=tuple(dict.fromkeys(path for path in scopes if path in request.scopes_in_use)),
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
