"""The analyst that asks a language model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import anyio.to_thread
import attrs

from factmem.abc.analyst import Analysis, AnalysisRequest
from factmem.abc.detector import Message
from factmem.abc.model import LanguageModel
from factmem.detection.extractions import says_nothing
from factmem.detection.model_questions import inquire
from factmem.detection.redaction import redact
from factmem.detection.statements import says_something, statement_spans
from factmem.hidden_characters import escaped_words
from factmem.legal_names import is_legal_name
from factmem.llm.messages import document, items, section
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
        clean = await anyio.to_thread.run_sync(_clean, text)
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
        return Analysis(
            scope=_path(said.get("scope")),
            categories=_labels(said.get("categories", ())),
            importance=said.get("importance"),
            **{part: _labels(said[part]) for part in given},
        )

    async def extract(self, text: str) -> list[str]:
        """See `Analyst.extract`. Statements come in the order of the text, each once."""
        parts = await anyio.to_thread.run_sync(_parts, text, self.model.max_chars)
        if not parts:
            return []
        most = _FEWEST_STATEMENTS + max(map(len, parts)) // _CHARS_PER_STATEMENT
        documents = map(_document, parts)
        answers = await inquire(self.model, "extract", *documents, most=most, concurrency=self.concurrency)
        said = (" ".join(statement.split()) for answer in answers for statement in answer["statements"])
        return list({statement.casefold(): statement for statement in said if not says_nothing(statement)}.values())


def _clean(text: str) -> str:
    return redact(Message(content=text).content).text


def _path(text: str | None) -> str | None:
    return None if text is None or says_nothing(text) else f"/{text.strip().strip('/')}"


def _labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels without those that no store can carry, and without fillers for "nothing"."""
    spelled = (" ".join(label.split()) for label in labels if not says_nothing(label))
    return tuple(dict.fromkeys(filter(is_legal_name, spelled)))


def _parts(text: str, max_chars: int) -> list[str]:
    clean = _clean(text)
    return [clean[start:end] for start, end in statement_spans(clean, max_chars)] if says_something(clean) else []


def _document(text: str, *in_use: str) -> str:
    return document(*in_use, section("text", [escaped_words(text)]))
