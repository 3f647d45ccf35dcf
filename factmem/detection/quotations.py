"""Quotation: words between quotation marks or behind ``>``, which are somebody else's.

Marks may only set off a name ("Rex"), and speakers may quote themselves ("I said ...").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from factmem.detection.clauses import INVERTED, REPORTS, SUBJECTS, Clause
from factmem.detection.passages import Word, word_set

__all__ = ["is_quotation"]


_SPEAKERS: Final = word_set("i we i've i'd")
_OPENS: Final = word_set("opens begins starts ends insisted insists promised shouted whispered announced added")
_WRITTEN: Final = word_set(
    "message error letter mail email e-mail voicemail ad advert manual banner popup pop-up template headline notice"
    " prompt warning caption subtitle poem lyrics horoscope leaflet flyer brochure slogan"
)
"""Things whose words nobody in the conversation says."""
_NAMING: Final = word_set(
    "called named titled is are as song book film movie motto nickname alias title word name handle username"
    " project label tag team band play game known at in for my the to of and"
)


def is_quotation(clause: Clause) -> bool:
    """Return whether a mention stands in words of somebody else."""
    found = clause.passage.quotation_at(clause.first)
    if found is None:
        return False
    passage = clause.passage
    inner = [word for word in passage.words if found[0] <= word.start and word.end <= found[1] and not word.is_mark]
    before = [word.text for word in passage.words if word.end <= found[0] and not word.is_mark][-4:]
    if _is_line(clause, found):
        return True
    if not before:
        return not _names(clause, inner)
    if clause.leaning.loose and before[-1] in _NAMING and not set(before) & REPORTS:
        return False
    if set(before) & _WRITTEN:
        return True
    if set(before) & (REPORTS | _OPENS):
        told = next(at for at, text in enumerate(before) if text in REPORTS | _OPENS)
        return not set(before[max(0, told - 2) : told]) & _SPEAKERS
    return not (before[-1] in _NAMING and _covers(clause, inner)) and not _names(clause, inner)


def _is_line(clause: Clause, span: tuple[int, int]) -> bool:
    return clause.passage.text[span[0] : span[1]].lstrip().startswith(">")


def _covers(clause: Clause, inner: Sequence[Word]) -> bool:
    return 2 * (clause.last - clause.first + 1) >= len(inner)


def _names(clause: Clause, inner: Sequence[Word]) -> bool:
    """Return whether words between quotation marks are a name rather than a sentence."""
    texts = {word.text for word in inner}
    return len(inner) <= min(4, clause.last - clause.first + 2) and not texts & (
        SUBJECTS | INVERTED | {"my", "user", "user's", "your"}
    )
