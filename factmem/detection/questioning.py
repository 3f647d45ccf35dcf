"""Questions: clauses that ask for what they mention, instead of stating it.

A request asks for nothing that is unknown ("can you book 12 seats?"), and what a question takes for granted is stated
("where can I walk my dog Rex?").
"""

from __future__ import annotations

from typing import Final

from factmem.detection.clauses import INVERTED, OWN, Clause
from factmem.detection.passages import word_set
from factmem.detection.stances import Stance

__all__ = ["asked"]


_ASKING: Final = word_set(
    "do does did am is are was were should could can would will have has had what where who when why how which"
    " whose whom what's where's who's how's isn't aren't don't doesn't didn't wasn't weren't shouldn't couldn't"
    " can't won't wouldn't haven't hasn't shall may whats hows"
)
_OF_QUESTIONS: Final = word_set("what where who when why how which whose what's where's who's how's whats")
_AFTER_AUXILIARY: Final = word_set("i we my our you he she they it this that there the your his her")
_FILLERS: Final = word_set(
    "so and but hey hi hello well ok okay please also or oh then um hmm actually btw thanks sorry again"
)
_OF_KNOWING: Final = word_set(
    "tell explain check find show know remind confirm look say guess see verify think recommend suggest describe"
    " help believe remember recall ask answer list define compare believe imagine"
)
_ORDERS: Final = word_set("get have book order reserve take make set change switch use schedule keep add")
_PROPOSALS: Final = ("shall we", "how about", "what about", "why don't", "why not")
_TAGS_OF_DOUBT: Final = word_set(
    "right correct no true isn't don't aren't wasn't is am are do does did was were didn't doesn't huh"
)
_DOUBTED: Final = word_set(
    "true right correct scam real legit legitimate fake lie false wrong accurate spam joke so phishing"
)


def asked(clause: Clause) -> Stance:
    """Return whether the clause asks: ASKED, UNCLEAR, or else STATED."""
    first, last = clause.sentence
    opening = _opening(clause, first)
    marked = clause.text(last) in ("?", "？")
    if clause.leaning.loose and not marked:
        return Stance.STATED
    if not marked:
        asks = _is_inverted(clause, opening) and not _requests(clause, opening) and clause.start <= opening
        return Stance.ASKED if asks else Stance.STATED
    if clause.passage.is_foreign:
        return Stance.UNCLEAR
    return _asked_with_mark(clause, opening, last)


def _asked_with_mark(clause: Clause, opening: int, last: int) -> Stance:
    own = _opening(clause, clause.start)
    if any(not word.is_mark for word in clause.passage.words[clause.end : last]):
        if _asks_at(clause, own) or (clause.lacks_subject(own) and _asks_at(clause, opening) and own != opening):
            return _unless_granted(clause, opening)
        return Stance.UNCLEAR if _is_doubted(clause, clause.end, last) else Stance.STATED
    return _unless_granted(clause, own if _asks_at(clause, own) else opening)


def _unless_granted(clause: Clause, opening: int) -> Stance:
    proposed = f"{clause.text(opening)} {clause.text(opening + 1)}" in _PROPOSALS
    first, last = clause.sentence
    words, quote = clause.passage.words, clause.passage.quote
    is_topic = last - first <= 2 and words[min(last, len(words) - 1)].end < quote[1]
    if proposed or is_topic:  # "how about Friday?", "Olives? Can't stand them."
        return Stance.UNCLEAR
    if _requests(clause, opening) or _is_granted(clause, opening):
        return Stance.STATED
    return Stance.ASKED


def _opening(clause: Clause, at: int) -> int:
    while clause.text(at) in _FILLERS or clause.text(at) in (",", '"', "'", "¿", "-", "\n"):
        at += 1
    return at


def _asks_at(clause: Clause, at: int) -> bool:
    return clause.text(at) in _ASKING


def _is_inverted(clause: Clause, at: int) -> bool:
    if clause.text(at) in _OF_QUESTIONS:
        return clause.text(at + 1) in INVERTED or clause.text(at).endswith("'s")
    return clause.text(at) in INVERTED and clause.text(at + 1) in _AFTER_AUXILIARY


def _requests(clause: Clause, at: int) -> bool:
    """Return whether a sentence is a request: "could you please book ...", which states what is wanted."""
    if clause.text(at) == "please":
        return True
    if clause.text(at) not in word_set("can could would will may"):
        return False
    if clause.text(at + 1) in ("i", "we"):
        return clause.text(at + 2) in _ORDERS and clause.text(at + 3) != "to"
    if clause.text(at + 1) != "you":
        return False
    verb = (
        clause.text(at + 2) if clause.text(at + 2) not in ("please", "kindly", "also", "maybe") else clause.text(at + 3)
    )
    return verb not in _OF_KNOWING


def _is_granted(clause: Clause, opening: int) -> bool:
    """Return whether a question takes the mention for granted: "where can I walk my dog Rex?"."""
    before = clause.texts(max(opening, clause.first - 6), clause.first)
    owned = [at for at, text in enumerate(before) if text in OWN]
    if not owned or not _asks_at(clause, opening) or set(before[owned[-1] :]) & (INVERTED | {"be", "called", "named"}):
        return False
    follows_auxiliary = clause.text(opening) in INVERTED and clause.text(opening + 1) in OWN
    return not follows_auxiliary and len(before) - owned[-1] <= 5 and clause.text(opening + 1) not in OWN


def _is_doubted(clause: Clause, first: int, last: int) -> bool:
    """Return whether a last clause doubts what was said before: "..., right?", "..., is that true?"."""
    tail = [text for text in clause.texts(first, last) if text[:1].isalnum()]
    tail = tail[1:] if tail[:1] == ["or"] else tail
    if len(tail) <= 3 and tail and tail[0] in _TAGS_OF_DOUBT:
        return True
    return len(tail) <= 7 and bool(set(tail) & _DOUBTED) and bool(set(tail) & {"that", "this", "it", "these", "am"})
