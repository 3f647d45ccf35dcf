"""The detector that asks a language model."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import attrs

from factmem.abc import (
    Candidate,
    Clock,
    Conversation,
    Detection,
    DetectionRequest,
    DropReason,
    LanguageModel,
    Prompt,
    system_clock,
)
from factmem.details import Treatment
from factmem.detection.candidates import checked, merged
from factmem.detection.origins import OriginPolicy
from factmem.detection.prompts import header_of, prompts_for
from factmem.detection.tasks import DetectionTask, task_of
from factmem.detection.utterances import Utterance, utterances
from factmem.detection.verbatim import statement_candidates
from factmem.detection.windows import Window, windows_of
from factmem.llm import ask_all
from factmem.records import Origin
from factmem.validators import positive, whole

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["SMALLEST_WINDOW", "InstructorDetector"]

SMALLEST_WINDOW: Final = 200
"""The fewest characters of a conversation that a question may hold."""
_STATEMENT_CHARS: Final = 10_000
_FEWEST_ITEMS: Final = 8
_CHARS_PER_ITEM: Final = 60
"""No text says more than a fact in so many characters."""


@attrs.frozen
class _Reading:
    """A question about some windows of a conversation, with what a model is asked for each."""

    task: DetectionTask
    windows: Sequence[Window]
    prompts: Sequence[Prompt]
    answer: type[BaseModel]
    quarantined: bool


@attrs.frozen(kw_only=True)
class InstructorDetector:
    """A `Detector` that asks a language model, and believes only what it can show in the user's own words.

    Concepts that are asked for give facts of their exact types; an open search takes up the keywords in use, with
    their types, before it makes new ones, which hold text; topics give statements. "Remember that" gives a
    statement of the topic `EXPLICIT_INSTRUCTIONS`, "forget that" a removal; both are looked for where the search is
    open or that topic is asked for, and only in what the user said. A value said several times, or corrected, gives
    a candidate for each time: the newest counts when they are folded.

    What cannot be shown is dropped and counted: a quote that is not in the messages, words that are not the
    user's, a value that is not of its type or stands for none ("unknown"), a subject or topic not asked for. Each
    item of an answer is read by itself; the model is asked again only if none is valid.

    Messages whose treatment is context are shown with ``take_facts="no"``; nothing is taken from them. A conversation
    without words that give facts costs no call. A longer one than a window is asked about in parts,
    in parallel; if one of them fails, the whole fails. Secrets are redacted before the model sees anything.

    Attributes:
        model: the model.
        clock: gives the time of conversations that tell none.
        concurrency: how many questions may be under way at once.
        max_chars: how long a question's document may be, in characters; None asks the model.
        origins: treatment of messages that have none of their own, by their origin.

    Raises:
        InvalidDataError: a number is out of range.
    """

    model: LanguageModel = attrs.field(kw_only=False)
    clock: Clock = attrs.field(default=system_clock, repr=False)
    concurrency: int = attrs.field(default=4, validator=positive)
    max_chars: int | None = attrs.field(default=None, validator=attrs.validators.optional(whole(SMALLEST_WINDOW)))
    origins: OriginPolicy = attrs.field(factory=OriginPolicy)

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        """See `Detector.detect`. The order, and what one message says only once, are the conversation's."""
        # Redaction, and checking the quotes of a long conversation, take their time.
        said = await anyio.to_thread.run_sync(utterances, conversation, self.clock())
        readings = await anyio.to_thread.run_sync(self._readings, said, request)
        asked = [(prompt, reading.answer) for reading in readings for prompt in reading.prompts]
        answers = await ask_all(self.model, asked, self.concurrency)
        return await anyio.to_thread.run_sync(self._detection, said, readings, answers)

    def _readings(self, said: Sequence[Utterance], request: DetectionRequest) -> list[_Reading]:
        treated = [(item, self._treatment(item)) for item in said]
        shown = [
            (item, treatment is Treatment.FACTS)
            for item, treatment in treated
            if self.origins.shows(treatment, item.origin)
        ]
        readings = [self._reading(shown, task_of(request), quarantined=False)]
        for origin in Origin:
            doubted = (item for item, treatment in treated if treatment is Treatment.QUARANTINED_FACTS)
            if apart := [(item, True) for item in doubted if item.origin is origin]:
                # Nobody but the user may have something forgotten.
                task = task_of(request, instructions=origin is Origin.USER)
                readings.append(self._reading(apart, task, quarantined=True))
        return [reading for reading in readings if reading.windows]

    def _reading(self, spoken: Sequence[tuple[Utterance, bool]], task: DetectionTask, *, quarantined: bool) -> _Reading:
        from pydantic import BaseModel

        from factmem.detection.response_models import answer_model

        if not task.asks_something or not any(giving for _, giving in spoken):
            return _Reading(task, (), (), BaseModel, quarantined)
        most = self.model.max_chars if self.max_chars is None else self.max_chars
        header = header_of(task, most // 3)
        windows = windows_of(spoken, max(most - len(header), most // 3, SMALLEST_WINDOW))
        prompts = prompts_for(task, header, windows)
        longest = max((len(window.rendered()) for window in windows), default=0)
        answer = answer_model(task, most=_FEWEST_ITEMS + longest // _CHARS_PER_ITEM, longest=longest)
        return _Reading(task, windows, prompts, answer, quarantined)

    def _detection(
        self, said: Sequence[Utterance], readings: Sequence[_Reading], answers: Sequence[BaseModel]
    ) -> Detection:
        from factmem.detection.response_models import dropped_in, extractions_in

        given = iter(answers)
        candidates: list[Candidate] = []
        dropped: collections.Counter[DropReason] = collections.Counter()
        for reading in readings:
            answered = [next(given) for _ in reading.windows]
            for answer in answered:
                dropped.update(dropped_in(answer))
            found = [
                (window, extractions_in(answer, reading.task))
                for window, answer in zip(reading.windows, answered, strict=True)
            ]
            detection = checked(reading.task, found, quarantined=reading.quarantined)
            candidates += detection.candidates
            dropped.update(detection.dropped)
        return Detection(candidates=_in_order(merged(candidates), self._statements(said)), dropped=dict(dropped))

    def _treatment(self, said: Utterance) -> Treatment:
        return said.treatment or self.origins.of(said.origin)

    def _statements(self, said: Iterable[Utterance]) -> Iterator[Candidate]:
        for utterance in said:
            if self._treatment(utterance) is Treatment.STATEMENTS:
                yield from statement_candidates(utterance, _STATEMENT_CHARS)


def _in_order(*found: Iterable[Candidate]) -> list[Candidate]:
    return sorted((item for group in found for item in group), key=_position)


def _position(candidate: Candidate) -> int:
    return candidate.details.evidence[0].position or 0
