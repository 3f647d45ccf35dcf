"""Occasions: whether a clause gives the day of what a concept asks for, or that of something else.

"We got married on 20 June 2015" is not a date of birth, and "the fair opens on 30 September" not a deadline. A concept
that belongs to no occasion of the table is not judged.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

import attrs

from factmem.detection.clauses import Clause
from factmem.detection.passages import word_set
from factmem.detection.stances import Leaning

__all__ = ["is_anniversary", "is_of_another_occasion", "is_over"]


@attrs.frozen
class _Occasion:
    """Something that has a day or an hour.

    Attributes:
        asked: stems in the concepts that ask for it.
        said: stems of the words that tell of it.
    """

    asked: frozenset[str]
    said: frozenset[str]


def _occasion(asked: str, said: str = "") -> _Occasion:
    return _Occasion(word_set(asked), word_set(f"{asked} {said}"))


_DEADLINE: Final = _occasion(
    "deadlin due",
    "submit submiss hand deliv deliver deliveri need must finish readi complet cutoff ship expir close latest by until"
    " draft want done turn",
)
_MEETING: Final = _occasion(
    "meet appoint", "see call lunch dinner drink coffe breakfast sync catch session talk book interview"
)
_BIRTH: Final = _occasion("birth birthday born dob", "bday")
_OCCASIONS: Final = (
    _BIRTH,
    _DEADLINE,
    _MEETING,
    _occasion("wake alarm", "woke awak rise up get out rose start"),
    _occasion("bedtim sleep", "bed asleep"),
    _occasion("wed anniversari", "marri engag"),
    _occasion("move reloc"),
    _occasion("flight departur arriv travel", "fli flew trip leav depart land ferri holiday vacat"),
    _occasion("parti concert festiv fair match exhibit", "premier gala"),
    _occasion("start begin", "open began kickoff launch hire join"),
    _occasion("leas tenanc"),
    _occasion("death die", "funer"),
    _occasion("signatur", "sign"),
    _occasion("breakfast", "serv"),
)
_AHEAD: Final = (_DEADLINE, _MEETING)
_PAST: Final = word_set("was were had did been ago last yesterday earlier already missed passed")


def is_of_another_occasion(clause: Clause) -> bool:
    """Return whether the clause of a day tells of another occasion than the one asked for, and not of that."""
    own = _own(clause.leaning)
    if own is None:
        return False
    said = {word.stem for word in clause.passage.words[clause.start : clause.end]}
    return not said & own.said and any(said & other.said for other in _OCCASIONS if other is not own)


def is_over(clause: Clause, day: dt.date, today: dt.date) -> bool:
    """Return whether a day lies in the past, of something to come that is said without its year."""
    if day >= today - dt.timedelta(days=1) or _own(clause.leaning) not in _AHEAD:
        return False
    said = clause.texts(clause.first, clause.last + 3)
    first, last = clause.sentence
    return str(day.year) not in said and not set(clause.texts(first, last)) & _PAST


def is_anniversary(leaning: Leaning) -> bool:
    """Return whether a concept asks for a day that is given by its anniversaries: a birthday."""
    return _own(leaning) is _BIRTH


def _own(leaning: Leaning) -> _Occasion | None:
    return next((occasion for occasion in _OCCASIONS if leaning.stems & occasion.asked), None)
