"""Occasions: whether a clause gives the day of what a concept asks for, or that of something else.

"We got married on 20 June 2015" is no date of birth, and "the fair opens on 30 September" no deadline. A concept that
belongs to no occasion of the table is not judged.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from factmem.detection.clauses import Clause
from factmem.detection.passages import word_set

__all__ = ["is_of_another_occasion", "is_over"]

_OCCASIONS: Final = {
    "birth": word_set("born birth birthday bday dob"),
    "deadline": word_set(
        "due deadlin submit submiss hand deliv deliver deliveri need must finish readi complet cutoff ship expir close"
        " latest by until draft want done turn"
    ),
    "meeting": word_set(
        "meet see appoint call lunch dinner drink coffe breakfast sync catch session talk book interview"
    ),
    "wedding": word_set("marri wed anniversari engag"),
    "move": word_set("move reloc"),
    "travel": word_set("flight fli flew travel trip leav depart land ferri holiday vacat"),
    "event": word_set("parti concert festiv fair match exhibit premier gala"),
    "beginning": word_set("start open begin began kickoff launch hire join"),
    "lease": word_set("leas tenanc"),
    "death": word_set("die death funer"),
}
"""Stems of the words that tell of an occasion, the concept's own among them."""
_AHEAD: Final = ("deadline", "meeting")
_PAST: Final = word_set("was were had did been ago last yesterday earlier already missed passed")


def is_of_another_occasion(clause: Clause) -> bool:
    """Return whether the clause of a day tells of another occasion than the one asked for, and not of that."""
    own = _own(clause)
    if not own:
        return False
    said = {word.stem for word in clause.passage.words[clause.start : clause.end]}
    others = (stems for name, stems in _OCCASIONS.items() if name not in own)
    return not any(said & _OCCASIONS[name] for name in own) and any(said & stems for stems in others)


def is_over(clause: Clause, day: dt.date, today: dt.date) -> bool:
    """Return whether a day lies in the past, of something to come that is said without its year."""
    if day >= today - dt.timedelta(days=1) or not set(_own(clause)) & set(_AHEAD):
        return False
    said = clause.texts(clause.first, clause.last + 3)
    first, last = clause.sentence
    return str(day.year) not in said and not set(clause.texts(first, last)) & _PAST


def _own(clause: Clause) -> list[str]:
    """Return the occasions that the concept is about; the others of its description do not count."""
    return [name for name, stems in _OCCASIONS.items() if clause.leaning.stems & stems][:1]
