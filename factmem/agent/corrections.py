"""Corrections: from what a person said about an output to lessons for later outputs, with a language model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import anyio.to_thread
import attrs

from factmem.abc import LanguageModel
from factmem.details import Origin
from factmem.detection.extractions import says_nothing
from factmem.detection.inquiries import inquire
from factmem.detection.redaction import Span
from factmem.detection.utterances import QuotableText
from factmem.llm import document, element
from factmem.memory.taint import Heard, Listener

__all__ = ["Distilled", "distilled", "grounded", "rewritten"]


@attrs.frozen
class Distilled:
    """A lesson in a person's words about an output.

    Attributes:
        text: The lesson.
        span: The words that it comes from, as offsets in the feedback.
    """

    text: str = attrs.field(repr=False)
    span: Span


async def distilled(model: LanguageModel, output: str, feedback: str) -> list[Distilled]:
    """Return the lessons in what a person said about an output, with one call of a model; none in mere praise.

    A lesson without a quote of the feedback is dropped; see `grounded` for the others. If all are dropped, the feedback
    itself is the lesson: a model that errs loses no correction.

    Args:
        model: The language model.
        output: The output without secrets; what exceeds half of a question is cut.
        feedback: The person's words without secrets.

    Raises:
        ModelError: The model failed.
    """
    room = model.max_chars // 2
    content = document(element("output", output[:room]), element("feedback", feedback[:room]))
    (answer,) = await inquire(model, "distil", content)
    said = QuotableText(feedback)
    found = [
        (item["lesson"], said.find(item["quote"])) for item in answer["lessons"] if not says_nothing(item["lesson"])
    ]
    lessons = [Distilled(text, span) for text, span in found if span is not None]
    if found and not lessons:
        return [Distilled(feedback, (0, len(feedback)))]
    return await anyio.to_thread.run_sync(grounded, lessons, output, feedback)


def grounded(lessons: Iterable[Distilled], output: str, feedback: str) -> list[Distilled]:
    """Return lessons in which nothing is the output's alone, each once.

    One that repeats the output where the person did not becomes what the person said: the output may hold anything, and
    nobody vouches for it.

    Args:
        lessons: The lessons that a model found.
        output: The output without secrets.
        feedback: The person's words without secrets.
    """
    listener = Listener([Heard(output, Origin.ASSISTANT, trusted=False), Heard(feedback, Origin.USER, trusted=True)])
    found: dict[str, Distilled] = {}
    for lesson in lessons:
        text = " ".join(lesson.text.split())
        if listener.repeated_in(text) is not None:
            text = feedback[slice(*lesson.span)]
        found.setdefault(text.casefold(), Distilled(text, lesson.span))
    return list(found.values())


async def rewritten(model: LanguageModel, output: str, lessons: Sequence[str]) -> str:
    """Return an output with lessons applied, with one call of a model; the output itself if it is too long for one.

    Args:
        model: The language model.
        output: The output.
        lessons: The lessons, newest first.

    Raises:
        ModelError: The model failed.
    """
    content = document(*(element("lesson", text) for text in lessons), element("output", output))
    if len(content) > model.max_chars:
        return output
    (answer,) = await inquire(model, "rewrite", content)
    found: str = answer["output"]
    return found if found.strip() else output
