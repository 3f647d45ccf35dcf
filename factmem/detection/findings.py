"""What a model says it found, before any of it is checked."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from factmem.facts import Concept
from factmem.values import Json

__all__ = ["Described", "Finding", "Forgotten", "Said", "Sentence", "Targeted"]


@attrs.frozen
class Targeted:
    """Values of a concept that was asked for.

    Attributes:
        concept: the concept.
        values: what was found, as JSON.
    """

    concept: Concept[Any, Any]
    values: tuple[Json, ...] = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Described:
    """One value of a concept that the model names itself.

    Attributes:
        keyword: what the model calls the concept.
        description: how it describes it.
        multiple: whether it says that there may be many values.
        value: the value, as JSON.
    """

    keyword: str
    description: str
    multiple: bool
    value: Json = attrs.field(repr=False)


@attrs.frozen
class Sentence:
    """A memory in a sentence.

    Attributes:
        text: the sentence.
        topics: the labels that the model gives it.
        instruction: whether the user asked in so many words to remember it.
    """

    text: str = attrs.field(repr=False)
    topics: tuple[str, ...] = ()
    instruction: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen(kw_only=True)
class Forgotten:
    """What the user asks to forget.

    Attributes:
        text: what, in words.
        keyword: the concept that it is about, if it is one.
        value: the value to forget; None for all.
    """

    text: str = attrs.field(repr=False)
    keyword: str | None = None
    value: Json = attrs.field(default=None, repr=False)


Said: TypeAlias = Targeted | Described | Sentence | Forgotten
"""What a finding says."""


@attrs.frozen(kw_only=True)
class Finding:
    """What a model says it found, and where.

    Attributes:
        quote: the words it says it found it in.
        message: the number of the message that it says they stand in.
        about: whom it says it is about.
        said: what it found.
    """

    quote: str = attrs.field(repr=False)
    message: int | None
    about: str | None
    said: Said
