"""A language model whose answers are scripted by the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio.lowlevel
import attrs

from factmem.abc.model import Prompt
from factmem.errors import ModelAnswerError

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Script", "ScriptedModel"]

AnswerT = TypeVar("AnswerT", bound="BaseModel")

Script: TypeAlias = Callable[[Prompt, "type[BaseModel]"], "dict[str, Any] | Exception"]
"""Function from the prompt and the model of the answer to the answer as JSON, or to the error to raise."""


@attrs.define
class ScriptedModel:
    """Answers in process, without a network. See `LanguageModel`.

    An answer is validated by the requested pydantic model, as a real one would be; an invalid one raises
    `ModelAnswerError`. There is one attempt per question: faults of a server are simulated by `LoopbackOpenAIServer`.

    Attributes:
        script: Returns the answer to a prompt.
        max_chars: See `LanguageModel.max_chars`.
        prompts: Every prompt so far, in order.
    """

    script: Script
    max_chars: int = attrs.field(default=24_000, kw_only=True)
    prompts: list[Prompt] = attrs.field(factory=list, init=False, repr=False)

    async def ask(self, prompt: Prompt, answer: type[AnswerT]) -> AnswerT:
        """See `LanguageModel.ask`."""
        from pydantic import ValidationError

        self.prompts.append(prompt)
        await anyio.lowlevel.checkpoint()
        match self.script(prompt, answer):
            case Exception() as error:
                raise error
            case said:
                try:
                    return answer.model_validate(said)
                except ValidationError:
                    pass
        raise ModelAnswerError(f"the scripted answer is not of type {answer.__name__}")
