"""Contract of analysts: scope, categories, importance and statements of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import attrs


@attrs.frozen(kw_only=True)
class AnalysisRequest:
    """Parts of an analysis that are requested.

    Attributes:
        scope: Propose a scope for the text.
        categories: Propose labels.
        importance: Rate the importance.
        scopes_in_use: Paths of candidate scopes, such as ``/product/alpha``.
        categories_in_use: Labels to reuse.
    """

    scope: bool = True
    categories: bool = True
    importance: bool = True
    scopes_in_use: tuple[str, ...] = ()
    categories_in_use: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Analysis:
    """Analysis of a text. Fields that were not requested, or are unknown, are None or empty.

    Attributes:
        scope: Path of the proposed scope, to be validated by the caller.
        categories: Labels.
        importance: From 0 to 1.
        entities: People, places and things named in the text.
        dates: Dates named in the text, as written.
        topics: Topics of the text.
    """

    scope: str | None = None
    categories: tuple[str, ...] = ()
    importance: float | None = None
    entities: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


@runtime_checkable
class Analyst(Protocol):
    """Analyses a text, and splits a text into statements."""

    async def analyse(self, text: str, request: AnalysisRequest) -> Analysis:
        """Return the requested parts of an analysis, with one call of a model.

        Raises:
            ModelError: The model failed.
        """
        ...

    async def extract(self, text: str) -> Sequence[str]:
        """Return the atomic, self-contained statements of a text, or an empty sequence if there are none.

        Raises:
            ModelError: The model failed.
        """
        ...
