"""Stances: how a passage holds a value, and what a concept expects of what is said about it."""

from __future__ import annotations

import enum
from typing import Final

import attrs

from factmem.detection.passages import word_set, words_of
from factmem.stemming import stemmer

__all__ = ["AGAINST", "Leaning", "Stance"]


class Stance(enum.IntEnum):
    """Stance of a passage towards a value, the best first."""

    STATED = 0
    UNCLEAR = 1
    DENIED = 2
    ASKED = 3
    QUOTED = 4
    NOT_SAID = 5


_FORWARD: Final = word_set(
    "plan goal wish dream idea intent intention consider trip destin travel next futur target hope want interest"
    " aspir desir option candid"
)
_PAST: Final = word_set(
    "former previous past old ex earlier last histor prior origin born birth childhood quit left end cancel"
)
AGAINST: Final = word_set(
    "dislik hate avoid allergi allerg intoler restrict exclud forbidden not never no without ban refus unwant"
    " cannot don't doesn't can't block opt disabl remov limit taboo except fear phobia annoy"
)
_LIKING: Final = word_set("favourit favorit like love prefer prefere enjoy hobbi interest want fan")


@attrs.frozen(kw_only=True)
class Leaning:
    """The bearing of a concept on the polarity of what is said about it.

    Attributes:
        stems: the stems of its keyword and its description.
        against: whether its values are what somebody does not want, or cannot have.
        past: whether its values may be over.
        liking: whether its values are liked.
        forward: whether its values may be plans.
        loose: whether its values are sentences, which tell of supposing and asking themselves.
        about: folded words that name those whom facts are asked of.
    """

    stems: frozenset[str] = frozenset()
    against: bool = False
    past: bool = False
    liking: bool = False
    forward: bool = False
    loose: bool = False
    about: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *texts: str, loose: bool = False, about: frozenset[str] = frozenset()) -> Leaning:
        """Return the leaning of a concept with some texts: its keyword and its description."""
        stem = stemmer()
        words = [word.text for text in texts for word in words_of(text.replace("_", " ").replace("-", " "))]
        stems = frozenset(stem(word) for word in words) | frozenset(words)
        return cls(
            stems=stems,
            against=bool(stems & AGAINST),
            past=bool(stems & _PAST),
            liking=bool(stems & _LIKING),
            forward=bool(stems & _FORWARD),
            loose=loose,
            about=about,
        )
