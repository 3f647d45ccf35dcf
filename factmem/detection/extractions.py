"""Extractions: what a model claims to have found, before any check."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import attrs

from factmem.detection.redaction import without_placeholders
from factmem.facts import Concept
from factmem.toml_tables import table
from factmem.values import Json


@attrs.frozen
class Targeted:
    """Values of a requested concept.

    Attributes:
        concept: the concept.
        values: the values, as JSON.
    """

    concept: Concept[Any, Any]
    values: tuple[Json, ...] = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Described:
    """One value of a concept that the model names itself.

    Attributes:
        keyword: the model's name of the concept.
        description: the model's description of it.
        multiple: whether the model says that there may be several values.
        value: the value, as JSON.
    """

    keyword: str
    description: str
    multiple: bool
    value: Json = attrs.field(repr=False)


@attrs.frozen
class Sentence:
    """A memory in one sentence.

    Attributes:
        text: the sentence.
        topics: the labels that the model gives it.
        instruction: whether the user asked explicitly to remember it.
    """

    text: str = attrs.field(repr=False)
    topics: tuple[str, ...] = ()
    instruction: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen(kw_only=True)
class Forgotten:
    """A request of the user to forget something.

    Attributes:
        text: its description.
        keyword: the concept that it is about, if any.
        value: the value to forget; None for all.
    """

    text: str = attrs.field(repr=False)
    keyword: str | None = None
    value: Json = attrs.field(default=None, repr=False)


Said: TypeAlias = Targeted | Described | Sentence | Forgotten
"""Content of an extraction."""


@attrs.frozen(kw_only=True)
class Extraction:
    """Something that a model extracted, before any check.

    Attributes:
        quote: the words that it cites.
        message: the number of the message that it cites.
        about: the name of the subject that it gives.
        said: the content.
    """

    quote: str = attrs.field(repr=False)
    message: int | None
    about: str | None
    said: Said


_FILLERS: Final = frozenset(table("detection/plain_statements")["nothing"].split(", "))


def says_nothing(text: str, quote: str = "") -> bool:
    """Return whether a text is blank, a placeholder of a secret, or a model's filler for "nothing".

    A filler that the quote holds as well ("the cause is unknown") is the user's own word, and a value.
    """
    if not without_placeholders(text).strip():
        return True
    bare = " ".join(text.casefold().split()).strip(" .!<>[]()\"'")
    return not bare or (bare in _FILLERS and bare not in quote.casefold())
