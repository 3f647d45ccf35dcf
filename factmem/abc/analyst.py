"""The contract of analysts: what a text is about, how much it matters, where it belongs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import attrs

__all__ = ["Analysis", "AnalysisRequest", "Analyst"]


@attrs.frozen(kw_only=True)
class AnalysisRequest:
    """A request to analyse a text.

    Attributes:
        scope: whether to propose where it belongs.
        categories: whether to propose labels.
        importance: whether to say how much it matters.
        scopes_in_use: paths of scopes that it may belong to, such as ``/product/alpha``.
        categories_in_use: labels to reuse.
    """

    scope: bool = True
    categories: bool = True
    importance: bool = True
    scopes_in_use: tuple[str, ...] = ()
    categories_in_use: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Analysis:
    """The analysis of a text. Fields that were not requested, or are unknown, are None or empty.

    Attributes:
        scope: the proposed path of the scope that it belongs to; the caller checks it.
        categories: labels.
        importance: from 0 to 1.
        entities: the people, places and things it names.
        dates: the dates it names, as it says them.
        topics: what it touches.
    """

    scope: str | None = None
    categories: tuple[str, ...] = ()
    importance: float | None = None
    entities: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


@runtime_checkable
class Analyst(Protocol):
    """Says what a text is about, and takes a text apart."""

    async def analyse(self, text: str, request: AnalysisRequest) -> Analysis:
        """Return what was asked about a text, in one call of a model.

        Raises:
            ModelError: the model failed.
        """
        ...

    async def extract(self, text: str) -> Sequence[str]:
        """Return the atomic, self-contained statements that a text makes; none for a text that says nothing.

        Raises:
            ModelError: the model failed.
        """
        ...
