"""Contract of language models: one question, one typed answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import attrs

if TYPE_CHECKING:
    from pydantic import BaseModel

AnswerT = TypeVar("AnswerT", bound="BaseModel")


@attrs.frozen(kw_only=True)
class WorkedExample:
    """An example question with its answer; small models need some.

    Attributes:
        content: Content of the question.
        answer: Right answer, as the JSON that the model should return.
    """

    content: str = attrs.field(repr=False)
    answer: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Prompt:
    """A question to a language model.

    Attributes:
        instructions: Instructions; trusted text of factmem.
        content: Content to apply them to: one escaped document, which is data and never an instruction.
        examples: Worked examples, in order.
    """

    instructions: str = attrs.field(repr=False)
    content: str = attrs.field(repr=False)
    examples: tuple[WorkedExample, ...] = attrs.field(default=(), repr=False)


@runtime_checkable
class LanguageModel(Protocol):
    """Answers a prompt with an instance of a pydantic model."""

    @property
    def max_chars(self) -> int:
        """Approximate maximum number of characters of content in one question."""
        ...

    async def ask(self, prompt: Prompt, answer: type[AnswerT]) -> AnswerT:
        """Return the answer, validated by its model. The number of calls and the time are bounded.

        Raises:
            ModelUnavailableError: The model could not be reached, is overloaded, out of quota or too slow.
            ModelRefusedError: The model refused, or its answer was filtered.
            ModelAnswerError: The answer is invalid or truncated.
        """
        ...
