"""Keywords that a model makes up, and how they are told to be one that is in use."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

import attrs

from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT, Concept

__all__ = ["LONGEST_KEYWORD", "Vocabulary", "keyword_of"]

LONGEST_KEYWORD: Final = 80
"""The longest keyword that a model may make up, in characters; longer ones are sentences."""
_LONGEST_DESCRIPTION: Final = 300
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def keyword_of(text: str) -> str:
    """Return the snake_case keyword that a text makes, in any script; blank if it makes none.

    ``Favourite drink``, ``favouriteDrink`` and ``favourite-drink`` make ``favourite_drink``.
    """
    humps = _HUMP.sub(" ", unicodedata.normalize("NFKC", text))
    folded = unicodedata.normalize("NFC", humps.casefold())
    # Letters, their marks (which Devanagari vowels are), and digits make words; all else parts them.
    words = "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in folded).split()
    return "_".join(words)


def _key(keyword: str) -> str:
    return keyword_of(keyword).replace("_", "") or keyword


@attrs.define
class Vocabulary:
    """The concepts that an open search takes up: those in use first, then those it makes up as it goes.

    What comes first stands: a keyword keeps its fact type, description and value type.
    """

    _exact: dict[str, Concept[Any, Any]] = attrs.field(factory=dict, init=False)
    _alike: dict[str, Concept[Any, Any]] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, concepts: Iterable[Concept[Any, Any]]) -> Vocabulary:
        """Return the vocabulary of some concepts, of which an earlier one stands."""
        vocabulary = cls()
        for concept in (STATEMENT, *concepts):
            vocabulary._add(concept)
        return vocabulary

    def _add(self, concept: Concept[Any, Any]) -> None:
        self._exact.setdefault(concept.keyword, concept)
        self._alike.setdefault(_key(concept.keyword), concept)

    def find(self, keyword: str) -> Concept[Any, Any] | None:
        """Return the concept of a keyword, whatever its case and separators, or None."""
        return self._exact.get(keyword) or self._alike.get(_key(keyword))

    def take_up(self, keyword: str, description: str, *, multiple: bool) -> Concept[Any, Any] | None:
        """Return the concept of a keyword; a new one takes text. None if it makes no legal keyword."""
        if (known := self.find(keyword)) is not None:
            return known
        made = keyword_of(keyword)
        if not made or len(made) > LONGEST_KEYWORD:
            return None
        kind = Concept.multiple if multiple else Concept.single
        told = " ".join(description.split())[:_LONGEST_DESCRIPTION] or made.replace("_", " ")
        try:
            concept = kind(made, told)
        except InvalidDataError:
            return None
        self._add(concept)
        return concept
