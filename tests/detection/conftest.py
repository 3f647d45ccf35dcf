"""A conversation is read by a detector whose model answers what the test wrote."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import attrs
import pytest

from factmem.abc import Conversation, Detection, DetectionRequest, Message, Prompt
from factmem.detection import InstructorDetector
from factmem.testing import ScriptedModel

BEGAN = dt.datetime(2024, 5, 8, 12, tzinfo=dt.UTC)


@attrs.frozen
class Reading:
    """What came of a conversation.

    Attributes:
        detection: what was found.
        prompts: what the model was asked.
    """

    detection: Detection
    prompts: list[Prompt]


Read: TypeAlias = Callable[..., Awaitable[Reading]]


@pytest.fixture
def read() -> Read:
    """Read messages (or texts, said by the user) with a request and the answers that the model gives in turn."""

    async def reading(
        said: Sequence[Message | str], request: DetectionRequest, *answers: dict[str, Any] | Exception, **options: Any
    ) -> Reading:
        messages = [Message(content=item) if isinstance(item, str) else item for item in said]
        left = list(answers)
        model = ScriptedModel(lambda prompt, answer: left.pop(0))
        detector = InstructorDetector(model, **options)
        detection = await detector.detect(Conversation(messages=messages, id="c", started_at=BEGAN), request)
        assert left == [], "the model was asked less often than the test expects"
        return Reading(detection, model.prompts)

    return reading
