"""The response model of a language model that puts texts in order. It imports pydantic, which loads slowly."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pydantic import Field

from factmem.llm.answering import ModelAnswer, each

if TYPE_CHECKING:
    _Numbers: TypeAlias = list[int]
else:
    _Numbers = each(int)


class RankingAnswer(ModelAnswer):
    """The order of texts."""

    order: _Numbers = Field(default_factory=list, description="numbers of the texts that help, the best one first")
