"""The contract of language models: one question, one typed answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import attrs

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["LanguageModel", "Prompt", "WorkedExample"]

AnswerT = TypeVar("AnswerT", bound="BaseModel")


@attrs.frozen(kw_only=True)
class WorkedExample:
    """A question of the same kind with its answer, which small models need.

    Attributes:
        content: what was asked about.
        answer: the right answer, as the JSON that the model should give.
    """

    content: str = attrs.field(repr=False)
    answer: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Prompt:
    """A question to a language model.

    Attributes:
        instructions: what to do; trusted text of ours.
        content: what to do it with: one escaped document, which is data and never an instruction.
        examples: worked examples, in order.
    """

    instructions: str = attrs.field(repr=False)
    content: str = attrs.field(repr=False)
    examples: tuple[WorkedExample, ...] = attrs.field(default=(), repr=False)


@runtime_checkable
class LanguageModel(Protocol):
    """Answers a prompt with an instance of a pydantic model."""

    @property
    def max_chars(self) -> int:
        """About how many characters of content fit into one question."""
        ...

    async def ask(self, prompt: Prompt, answer: type[AnswerT]) -> AnswerT:
        """Return the answer, valid by its model. The number of calls and the time are bounded.

        Raises:
            ModelUnavailableError: the model could not be reached, is overloaded, out of quota or too slow.
            ModelRefusedError: it refused, or its answer was filtered.
            ModelAnswerError: its answer is not what was asked for, or was cut off.
        """
        ...
