"""The scripted model validates its answers as a real one does, and raises typed errors."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from factmem.abc import Prompt
from factmem.abc.model import LanguageModel
from factmem.errors import ModelAnswerError, ModelUnavailableError
from factmem.testing import ScriptedModel

PROMPT = Prompt(instructions="Count the seats.", content="There are four.")


class Seats(BaseModel):
    seats: int


async def test_an_answer_is_an_instance_of_the_model_asked_for() -> None:
    model = ScriptedModel(lambda prompt, answer: {"seats": len(prompt.content)})
    assert isinstance(model, LanguageModel)
    assert await model.ask(PROMPT, Seats) == Seats(seats=len(PROMPT.content))
    assert model.prompts == [PROMPT]


@pytest.mark.parametrize("said", [{}, {"seats": "many"}])
async def test_an_answer_that_the_model_refuses_is_a_typed_error(said: dict[str, Any]) -> None:
    with pytest.raises(ModelAnswerError) as caught:
        await ScriptedModel(lambda prompt, answer: said).ask(PROMPT, Seats)
    assert caught.value.__cause__ is caught.value.__context__ is None


async def test_an_error_in_the_script_is_raised() -> None:
    with pytest.raises(ModelUnavailableError, match="closed"):
        await ScriptedModel(lambda prompt, answer: ModelUnavailableError("closed")).ask(PROMPT, Seats)
