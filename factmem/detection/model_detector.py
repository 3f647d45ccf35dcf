"""The detector that asks a language model."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

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
"""Minimum length of a window, in characters."""
_STATEMENT_CHARS: Final = 10_000
_FEWEST_ITEMS: Final = 8
_CHARS_PER_ITEM: Final = 60
"""No text states more than one fact in this number of characters."""
_PART_CHARS: Final = 480
"""Length of a window whose facts, by the two numbers above, are no more than the schema allows in a list."""


@attrs.frozen
class _Reading:
    """A task for some windows of a conversation."""

    task: DetectionTask
    header: str
    windows: Sequence[Window]
    answer: type[BaseModel]
    quarantined: bool

    @functools.cached_property
    def prompts(self) -> Sequence[Prompt]:
        """The prompt of each window."""
        return prompts_for(self.task, self.header, self.windows)


_Answered: TypeAlias = "list[tuple[Window, BaseModel]]"
"""Windows with their answers."""


@attrs.frozen(kw_only=True)
class InstructorDetector:
    """A `Detector` that asks a language model, and believes only what the user's own words support.

    Requested concepts give facts of their exact types. An open search uses the keywords in use, with their types,
    before it makes new ones, which hold text. Topics give statements. "Remember that" gives a statement of the topic
    `EXPLICIT_INSTRUCTIONS`, "forget that" a removal; both are recognized in an open search or if that topic is
    requested, and only in the user's words. A value that is repeated or corrected gives a candidate each time: the fold
    keeps the newest.

    Findings without support are dropped and counted: a quote that is not in the messages, words of somebody else, a
    value of another type or a filler ("unknown"), a subject or topic that was not requested. Each item of an answer is
    read by itself; the model is asked again only if none is valid.

    Messages with the treatment CONTEXT are shown with ``take_facts="no"``. A conversation without words that give facts
    costs no call. One that is longer than a window is read in parts, in parallel; if one of them fails, the whole
    fails. A window about which an endpoint answers as much as the schema allows is read again in smaller parts. Where
    the schema is enforced, a text value ends after 500 characters. Secrets are redacted before the model sees anything.

    Attributes:
        model: the language model.
        clock: gives the time of conversations without times.
        concurrency: maximum number of questions at a time.
        max_chars: maximum length of a question's document, in characters; None takes the model's own.
        origins: treatment of messages without a treatment of their own, by their origin.

    Raises:
        InvalidDataError: a number is out of range.

    Example:
        >>> detector = InstructorDetector(language_model("openai/gpt-5-mini"))
        >>> found = await detector.detect(conversation, DetectionRequest(concepts=[SEATS], open=True))
    """

    model: LanguageModel = attrs.field(kw_only=False)
    clock: Clock = attrs.field(default=system_clock, repr=False)
    concurrency: int = attrs.field(default=4, validator=positive)
    max_chars: int | None = attrs.field(default=None, validator=attrs.validators.optional(whole(SMALLEST_WINDOW)))
    origins: OriginPolicy = attrs.field(factory=OriginPolicy)

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        """See `Detector.detect`. Candidates come in the order of the conversation."""
        # Redaction and the search for quotes take too long for the event loop.
        said = await anyio.to_thread.run_sync(utterances, conversation, self.clock())
        readings = await anyio.to_thread.run_sync(self._readings, said, request)
        answered = await self._read(readings)
        parts = await anyio.to_thread.run_sync(_in_parts, readings, answered)
        again = dict(zip(parts, await self._read(list(parts.values())), strict=True))
        whole = [
            [pair for number, pair in enumerate(pairs) for pair in again.get((place, number), [pair])]
            for place, pairs in enumerate(answered)
        ]
        return await anyio.to_thread.run_sync(self._detection, said, readings, whole)

    async def _read(self, readings: Sequence[_Reading]) -> list[_Answered]:
        """Ask about all windows; return the windows of each reading with their answers."""
        asked = [(prompt, reading.answer) for reading in readings for prompt in reading.prompts]
        answers = iter(await ask_all(self.model, asked, self.concurrency))
        return [[(window, next(answers)) for window in reading.windows] for reading in readings]

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
                # Only the user may ask to forget.
                task = task_of(request, instructions=origin is Origin.USER)
                readings.append(self._reading(apart, task, quarantined=True))
        return [reading for reading in readings if reading.windows]

    def _reading(self, spoken: Sequence[tuple[Utterance, bool]], task: DetectionTask, *, quarantined: bool) -> _Reading:
        from pydantic import BaseModel

        from factmem.detection.response_models import answer_model

        if not task.asks_something or not any(giving for _, giving in spoken):
            return _Reading(task, "", (), BaseModel, quarantined)
        most = self.model.max_chars if self.max_chars is None else self.max_chars
        header = header_of(task, most // 3)
        windows = windows_of(spoken, max(most - len(header), most // 3, SMALLEST_WINDOW))
        longest = max((len(window.rendered()) for window in windows), default=0)
        answer = answer_model(task, most=_FEWEST_ITEMS + longest // _CHARS_PER_ITEM)
        return _Reading(task, header, windows, answer, quarantined)

    def _detection(
        self, said: Sequence[Utterance], readings: Sequence[_Reading], answered: Sequence[_Answered]
    ) -> Detection:
        from factmem.detection.response_models import dropped_in, extractions_in

        candidates: list[Candidate] = []
        dropped: collections.Counter[DropReason] = collections.Counter()
        for reading, pairs in zip(readings, answered, strict=True):
            for _, answer in pairs:
                dropped.update(dropped_in(answer))
            found = [(window, extractions_in(answer, reading.task)) for window, answer in pairs]
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


def _in_parts(readings: Sequence[_Reading], answered: Sequence[_Answered]) -> dict[tuple[int, int], _Reading]:
    """Return the windows to read again, by the places of reading and window, each in parts.

    The schema limits the items of a list, for all texts alike; in a part there is nothing to list beyond that.
    """
    from factmem.detection.response_models import is_full

    parts = {
        (place, number): window.split(_PART_CHARS)
        for place, pairs in enumerate(answered)
        for number, (window, answer) in enumerate(pairs)
        if is_full(answer)
    }
    return {at: attrs.evolve(readings[at[0]], windows=windows) for at, windows in parts.items() if len(windows) > 1}


def _in_order(*found: Iterable[Candidate]) -> list[Candidate]:
    return sorted((item for group in found for item in group), key=_position)


def _position(candidate: Candidate) -> int:
    return candidate.details.evidence[0].position or 0
