"""Lies of tools and pages, each repeated by the assistant: nearly verbatim, paraphrased, and in a summary."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from tests.tables import rows

__all__ = ["IN_PLAIN_WORDS", "LIES", "Lie"]


@attrs.frozen
class Lie:
    """A lie and its repetitions.

    Attributes:
        original: the text of a tool, a page or a file.
        echo: the assistant's nearly verbatim repetition.
        paraphrase: the assistant's paraphrase.
        bait: the word or number that must never be believed.
    """

    original: str
    echo: str
    paraphrase: str
    bait: str


_TABLE: Final = rows(Path(__file__).with_suffix(".txt"))
LIES: Final = [Lie(*parts) for parts in _TABLE["lies"]]
IN_PLAIN_WORDS: Final = [*_TABLE["in plain words"], *_TABLE["in plain words, for measurement"]]
"""Pairs of a tool's or a page's text and the assistant's paraphrase: no name, number or rare word is shared."""
