"""The detector that asks a language model."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
import anyio.to_thread
import attrs

from factmem.abc import Candidate, Detection, DetectionRequest, Prompt, system_clock
from factmem.abc.clock import Clock
from factmem.abc.detector import Conversation, DropReason
from factmem.abc.model import LanguageModel
from factmem.details import Origin, Treatment
from factmem.detection.candidates import checked, merged, place_of
from factmem.detection.origins import OriginPolicy
from factmem.detection.prompts import header_of, prompts_for
from factmem.detection.tasks import DetectionTask, task_of
from factmem.detection.utterances import Utterance, utterances
from factmem.detection.verbatim import quoted_in
from factmem.detection.windows import Window
from factmem.llm.asking import ask_all
from factmem.validators import positive, whole

if TYPE_CHECKING:
    from pydantic import BaseModel

SMALLEST_WINDOW: Final = 200
"""Minimum length of a window, in characters."""
_STATEMENT_CHARS: Final = 10_000
_FEWEST_ITEMS: Final = 16
_BYTES_PER_ITEM: Final = 4
"""No text lists more than one item in this number of bytes, but for the few above."""
_PART_CHARS: Final = 480
"""Length of the parts in which a window is read on."""
_MOST_IN_PART: Final = _PART_CHARS // 2
"""Maximum length of a list in the schema, for a part."""


@attrs.frozen
class _Reading:
    """A task for some windows of a conversation."""

    task: DetectionTask
    header: str
    windows: Sequence[Window]
    quarantined: bool

    def questions(self, windows: Sequence[Window], *, whole: bool) -> list[tuple[Prompt, type[BaseModel]]]:
        """Return the question about each of some windows, or of parts of them that are read on."""
        from factmem.detection.response_models import answer_model

        longest = max(len(window.rendered().encode()) for window in self.windows)
        # Items are read of a list in hundreds, so that like conversations share their models.
        most = _FEWEST_ITEMS + -(-longest // (100 * _BYTES_PER_ITEM)) * 100
        answer = answer_model(self.task, most=most, limit=None if whole else _MOST_IN_PART)
        return [(prompt, answer) for prompt in prompts_for(self.task, self.header, windows)]


_Answered: TypeAlias = "list[tuple[Window, BaseModel]]"
"""Windows with their answers."""


@attrs.frozen(kw_only=True)
class InstructorDetector:
    """A `Detector` that asks a language model, and believes only what the user's own words support.

    Requested concepts give facts of their exact types. An open search uses the keywords in use, with their types,
    before it makes new ones, which hold text. Topics give statements. "Remember that" gives a statement of the topic
    `EXPLICIT_INSTRUCTIONS`, "forget that" a removal; both are recognized in an open search or if that topic is
    requested, and only in the user's words. A request for concepts alone recognizes "forget that" about a concept. A
    value that is repeated or corrected gives a candidate each time: the fold keeps the newest.

    Findings without support are dropped and counted: a quote that is not in the messages, words of somebody else, a
    value of another type or a filler ("unknown"), a subject or topic that was not requested. Each item of an answer is
    read by itself; the model is asked again only if none is valid, and the last answer is taken without them.

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
        answered = [await self._read(reading, reading.windows, whole=True) for reading in readings]
        return await anyio.to_thread.run_sync(self._detection, said, readings, answered)

    async def _read(self, reading: _Reading, windows: Sequence[Window], *, whole: bool) -> _Answered:
        """Ask about windows; return them with their answers, in the order of the conversation.

        The schema limits the lists, for all texts alike. A window with a full list is read on in parts, which may list
        more, and those again in smaller ones until no list is full.
        """
        asked = await anyio.to_thread.run_sync(partial(reading.questions, windows, whole=whole))
        pairs = list(zip(windows, await ask_all(self.model, asked, self.concurrency), strict=True))
        parts = await anyio.to_thread.run_sync(_parts_of, pairs, whole)
        if not (more := [part for split in parts for part in split]):
            return pairs
        read = [pair for pair, split in zip(pairs, parts, strict=True) if not split]
        return sorted([*read, *await self._read(reading, more, whole=False)], key=lambda pair: pair[0].place)

    def _readings(self, said: Sequence[Utterance], request: DetectionRequest) -> list[_Reading]:
        treated = [(item, self.origins.treatment(item)) for item in said]
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
        asks = task.fields or task.open or task.topics or task.instructions
        if not asks or not any(giving for _, giving in spoken):
            return _Reading(task, "", (), quarantined)
        most = self.model.max_chars if self.max_chars is None else self.max_chars
        header = header_of(task, most // 3)
        room = max(most - len(header), most // 3, SMALLEST_WINDOW)
        return _Reading(task, header, Window.of(spoken).split(room), quarantined)

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
        stated = (it for it in said if self.origins.treatment(it) is Treatment.STATEMENTS)
        statements = (quoted.candidate() for it in stated for quoted in quoted_in(it, _STATEMENT_CHARS))
        return Detection(candidates=sorted([*merged(candidates), *statements], key=place_of), dropped=dict(dropped))


def _parts_of(answered: _Answered, whole: bool) -> list[list[Window]]:
    """Return the parts in which each window is read on, if a list of its answer is full and it can be split."""
    from factmem.detection.response_models import is_full

    found = []
    for window, answer in answered:
        split = window.split(_PART_CHARS if whole else 2 * len(window.rendered()) // 3) if is_full(answer) else []
        found.append(split if whole or len(split) > 1 else [])
    return found
