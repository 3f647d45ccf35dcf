"""Polarity: whether a sentence states what it mentions, denies it, asks for it, or quotes somebody else.

The rules are those of English sentences, clause by clause (see `clauses`). Each has a room of its own: `quotations`,
`questioning`, `negation`, `supposition` and `bystanders`. In a language whose grammar is not known here, a denial makes
a mention unclear.
"""

from __future__ import annotations

from factmem.detection.bystanders import is_of_another
from factmem.detection.clauses import Clause
from factmem.detection.negation import denied, is_denied_abroad
from factmem.detection.passages import Passage
from factmem.detection.questioning import asked
from factmem.detection.quotations import is_quotation
from factmem.detection.stances import Leaning, Stance
from factmem.detection.supposition import is_supposed, is_supposed_abroad

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
        doubted = is_denied_abroad(clause) or is_supposed_abroad(clause) or is_of_another(clause)
        return Stance.UNCLEAR if doubted else Stance.STATED
    if (stance := denied(clause)) is not Stance.STATED:
        return stance
    return Stance.UNCLEAR if is_supposed(clause) or is_of_another(clause) else Stance.STATED
