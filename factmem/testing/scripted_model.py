"""A language model whose answers are written by the test."""

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
"""Takes the prompt and the model of the answer; gives the answer as JSON, or the error to raise."""


@attrs.define
class ScriptedModel:
    """Answers in process, without a network. See `LanguageModel`.

    An answer goes through the pydantic model that was asked for, as a real one would; what that refuses is a
    `ModelAnswerError`. There is one try a question: the faults of a server are for `LoopbackOpenAIServer`.

    Attributes:
        script: what to answer.
        max_chars: see `LanguageModel.max_chars`.
        prompts: every prompt so far, in order.
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
        raise ModelAnswerError(f"the scripted answer is no {answer.__name__}")
