"""Supposition: clauses that only suppose what they mention, wish it, or report it with doubt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from factmem.detection.clauses import REPORTS, SUBJECTS, Clause, phrases_in
from factmem.detection.negation import is_not
from factmem.detection.passages import word_set
from factmem.detection.stances import Stance

__all__ = ["supposed"]


_SUPPOSED: Final = word_set(
    "if unless whether suppose supposing imagine imagining pretend pretending assuming hypothetically wish wished"
    " might considering tried allegedly supposedly dreaming dreamt dreamed lest"
)
_SUPPOSED_BY: Final = (
    *(
        "thinking of",
        "thinking about",
        "think about",
        "thought about",
        "thought of",
        "looked at",
        "not sure",
        "no idea",
        "as if",
        "would have",
        "could have",
    ),
    *(
        "people think",
        "they think",
        "they say",
        "some say",
        "tempted to",
        "dream of",
        "almost",
        "nearly",
        "for example",
        "for instance",
        "what if",
        "say that",
    ),
)
_CLAIMS: Final = word_set(
    "claims claim claimed claiming pretends alleges alleged insinuates supposedly rumours rumors rumour thinks"
    " believes assumes"
)
_WRITTEN: Final = word_set(
    "page mail email e-mail letter message site website document text article post note file ad tool result pdf"
    " sms spam form profile system assistant bot ai chatgpt model screenshot wiki report"
)


def supposed(clause: Clause) -> Stance:
    """Return UNCLEAR if the mention is only supposed, wished or reported with doubt, else STATED."""
    texts = clause.texts(clause.start, clause.first)
    if _is_told_of_the_user(clause) or _is_taken_back(clause):
        return Stance.UNCLEAR
    if clause.leaning.loose or clause.leaning.forward:
        return Stance.STATED
    if set(texts) & (_SUPPOSED | _CLAIMS) - {"might"} or "might" in texts[-4:]:
        return Stance.UNCLEAR
    return Stance.UNCLEAR if phrases_in(texts, _SUPPOSED_BY) or _is_for_some_day(clause, texts) else Stance.STATED


def _is_for_some_day(clause: Clause, texts: Sequence[str]) -> bool:
    """Return whether the mention is a wish: "I'd love to be a doctor", "some day"."""
    wishes = bool(set(texts) & {"like", "love", "want", "hope", "wish", "dream"})
    behind = clause.texts(clause.last, clause.end)
    some_day = bool(phrases_in(behind, ("some day", "one day"))) or "someday" in behind
    return some_day or (wishes and bool(phrases_in(texts, ("to be", "to become", "to live", "to move", "to own"))))


def _is_told_of_the_user(clause: Clause) -> bool:
    """Return whether something written tells who the user is: "the page says the user lives in ..."."""
    texts = clause.texts(clause.sentence[0], clause.first)
    tells = bool(set(texts) & _WRITTEN) and bool(set(texts) & REPORTS or phrases_in(texts, ("according to",)))
    named = bool(phrases_in(texts, ("the user", "the user's", "this user")))
    return tells and (named or bool(set(texts) & {"i", "i'm", "you", "you're"}))


def _is_taken_back(clause: Clause) -> bool:
    """Return whether the rest of the sentence takes the mention back: "... but I don't", "just kidding"."""
    behind = clause.texts(clause.end, min(clause.sentence[1], clause.end + 10))
    if set(behind) & {"kidding", "joking", "jk"} or phrases_in(behind, ("or not", "not really")):
        return True
    if clause.leaning.past or clause.leaning.loose:
        return False
    said = clause.texts(clause.sentence[0], clause.first)
    if said[:1] in (["until"], ["till"]) and set(said) & SUBJECTS:
        return True
    had = set(clause.texts(clause.start, clause.first)) & {"had", "was", "were"}
    if had and "now" in behind:
        return True
    ends = [text for text in behind if text[:1].isalnum()]
    if (
        not clause.leaning.against
        and ends
        and ends[-1] in ("it", "them", "there", "him", "her")
        and any(map(is_not, ends))
    ):
        return True
    return ends[:1] == ["but"] and len(ends) <= 4 and is_not(ends[-1])
