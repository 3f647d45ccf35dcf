"""Polarity: whether a sentence states what it mentions, denies it, asks for it, or quotes somebody else.

The rules are those of English sentences, clause by clause (see `clauses`). Each has a room of its own: `quotations`,
`questioning`, `negation` and `supposition`. In a language whose grammar is not known here, a denial makes a mention
unclear, and no more is read.
"""

from __future__ import annotations

from factmem.detection.clauses import Clause
from factmem.detection.negation import denied, is_denied_abroad
from factmem.detection.passages import Passage
from factmem.detection.questioning import asked
from factmem.detection.quotations import is_quotation
from factmem.detection.stances import Leaning, Stance
from factmem.detection.supposition import supposed

__all__ = ["stance_of"]


def stance_of(passage: Passage, first: int, last: int, leaning: Leaning) -> Stance:
    """Return how a passage holds the words from one position to another.

    Args:
        passage: the passage.
        first: position of the first word.
        last: position of the last word.
        leaning: the leaning of the concept.
    """
    clause = Clause(passage, first, last, leaning)
    if is_quotation(clause):
        return Stance.QUOTED
    if (stance := asked(clause)) is not Stance.STATED:
        return stance
    if passage.is_fenced(first):
        return Stance.UNCLEAR
    if passage.is_foreign:
        return Stance.UNCLEAR if is_denied_abroad(clause) else Stance.STATED
    stance = denied(clause)
    return stance if stance is not Stance.STATED else supposed(clause)
