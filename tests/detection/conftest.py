"""A detector whose model returns scripted answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import attrs
import pytest

from factmem.abc import Detection, DetectionRequest, Prompt
from factmem.abc.detector import Conversation, Message
from factmem.detection import InstructorDetector
from factmem.testing import ScriptedModel

BEGAN = dt.datetime(2024, 5, 8, 12, tzinfo=dt.UTC)


@attrs.frozen
class Reading:
    """Outcome of reading a conversation.

    Attributes:
        detection: the detected facts and statements.
        prompts: the prompts sent to the model.
    """

    detection: Detection
    prompts: list[Prompt]


Read: TypeAlias = Callable[..., Awaitable[Reading]]


@pytest.fixture
def read() -> Read:
    """Read messages (or texts, said by the user) with a request and scripted answers of the model.

    Pass one answer, or one for each of several questions in any order, with a text that its question contains.
    """

    async def reading(
        said: Sequence[Message | str],
        request: DetectionRequest,
        *answers: dict[str, Any] | Exception | tuple[str, dict[str, Any] | Exception],
        **options: Any,
    ) -> Reading:
        messages = [Message(content=item) if isinstance(item, str) else item for item in said]
        left = [item if isinstance(item, tuple) else ("", item) for item in answers]

        def script(prompt: Prompt, answer: object) -> dict[str, Any] | Exception:
            number = next(number for number, (text, _) in enumerate(left) if text in prompt.content)
            return left.pop(number)[1]

        model = ScriptedModel(script)
        detector = InstructorDetector(model, **options)
        detection = await detector.detect(Conversation(messages=messages, id="c", started_at=BEGAN), request)
        assert left == [], "the model was called less often than the test expects"
        return Reading(detection, model.prompts)

    return reading
