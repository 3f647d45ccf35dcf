"""Supposition: clauses that only suppose what they mention, wish it, or report it with doubt."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from factmem.detection.clauses import REPORTS, SUBJECTS, Clause, phrases_in
from factmem.detection.negation import is_not
from factmem.detection.passages import phrase_list, word_set

__all__ = ["is_supposed", "is_supposed_abroad"]


_SUPPOSED: Final = word_set(
    "if unless whether suppose supposing imagine imagining pretend pretending assuming hypothetically wish wished"
    " might considering tried allegedly supposedly dreaming dreamt dreamed lest"
)
_SUPPOSED_BY: Final = phrase_list(
    "thinking of / thinking about / think about / thought about / thought of / looked at / not sure / no idea / as"
    " if / as though / i were / let's say / let us say / for the sake / in another life / ideal world / perfect"
    " world / my dreams / in theory / given the chance / with any luck / would have / could have / people think /"
    " they think / they say / some say / tempted to / dream of / almost / nearly / for example / for instance / what"
    " if / say that"
)
_CERTAIN: Final = phrase_list(
    "can't imagine / cannot imagine / couldn't imagine / if there's / if i'm honest / if you ask me / if you must"
    " know / if anything / if you need / if you want / whether or not"
)
"""Phrases with a word of doubt that doubt nothing behind them."""
_MODALS: Final = word_set("may might")
_WOULD: Final = word_set("would i'd we'd could should might")
_WANTED: Final = word_set("like love prefer rather be say appreciate better give recommend want")
"""Verbs that wish politely: "I'd like the newsletter if possible"."""
_AIMS: Final = word_set("goal aim target ambition dream resolution dreamed dreamt objective")
_LATER: Final = word_set("will i'll we'll might may won't can shall")
_HEDGES: Final = word_set("if unless could might may suppose imagine perhaps maybe probably")
_HEDGED: Final = word_set(
    "when whenever case possibl consid think want would like wonder plan hope unsur depend condit probabl potenti will"
    " interest can open prefer wish"
)
"""Stems by which a statement itself tells that something is possible only."""
_IF_ABROAD: Final = word_set("wenn falls se si s'il als jos om jezeli gdyby")
_SHUNNED: Final = word_set("avoid avoids hate hates dislike detest loathe dread despise skip refuse")
_CLAIMS: Final = word_set(
    "claims claim claimed claiming pretends alleges alleged insinuates supposedly rumours rumors rumour thinks"
    " believes assumes"
)
_WRITTEN: Final = word_set(
    "page mail email e-mail letter message site website document text article post note file ad tool result pdf"
    " sms spam form profile system assistant bot ai chatgpt model screenshot wiki report"
)


def is_supposed(clause: Clause) -> bool:
    """Return whether a mention is only supposed, wished for, or reported with doubt."""
    texts = clause.texts(clause.start, clause.first)
    if _is_told_of_the_user(clause) or _is_taken_back(clause):
        return True
    if clause.leaning.loose:
        return _is_hedged(clause, texts)
    if set(texts) & {"perhaps", "maybe"} or any(text in _MODALS for text in _behind_subjects(texts)):
        return True
    if clause.leaning.forward:
        return _is_conditional(clause, texts)
    doubts = {text for at, text in enumerate(texts) if at not in phrases_in(texts, _CERTAIN)}
    if doubts & (_SUPPOSED | _CLAIMS) - {"might"} or "might" in texts[-4:]:
        return True
    return (
        bool(phrases_in(texts, _SUPPOSED_BY))
        or _is_for_some_day(clause, texts)
        or _is_aimed_at(clause, texts)
        or _is_conditional(clause, texts)
        or _is_to_come(clause, texts)
    )


def is_supposed_abroad(clause: Clause) -> bool:
    """Return whether a clause of another language opens with its word for "if"."""
    return clause.text(clause.start) in _IF_ABROAD and clause.start < clause.first


def _behind_subjects(texts: Sequence[str]) -> list[str]:
    """Return the words right behind subjects, where modal verbs stand."""
    return [text for subject, text in itertools.pairwise(texts) if subject in SUBJECTS]


def _is_hedged(clause: Clause, texts: Sequence[str]) -> bool:
    """Return whether a clause calls possible or supposed what a statement tells as a fact."""
    told = bool(clause.leaning.stems) and not phrases_in(texts, ("could you", "if not"))
    return told and bool(set(texts) & _HEDGES) and not clause.leaning.stems & (_HEDGES | _HEDGED)


def _is_aimed_at(clause: Clause, texts: Sequence[str]) -> bool:
    """Return whether a mention is what somebody aims at: "my goal is to weigh 70 kilos"."""
    before = clause.texts(clause.sentence[0], clause.first)
    return bool(set(before[-8:]) & _AIMS) and "to" in (*texts[:5], *before[-3:])


def _is_conditional(clause: Clause, texts: Sequence[str]) -> bool:
    """Return whether a mention would hold under a condition that the sentence names: "I'd smoke if ..."."""
    would = next((at for at, text in enumerate(texts) if text in _WOULD), None)
    if would is None or set(texts[would + 1 : would + 3]) & _WANTED:
        return False
    behind = clause.texts(clause.last + 1, clause.sentence[1])
    return bool({"if", "unless", "were"} & set(behind) or {"if", "unless"} & set(texts))


def _is_to_come(clause: Clause, texts: Sequence[str]) -> bool:
    """Return whether a mention holds only later: "once I'm married I might ..."."""
    if not texts or texts[0] not in ("when", "once", "until", "till"):
        return False
    return bool(set(clause.texts(clause.last + 1, clause.sentence[1])) & _LATER)


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
        and (any(map(is_not, ends)) or set(ends) & _SHUNNED)
    ):
        return True
    return ends[:1] == ["but"] and len(ends) <= 4 and is_not(ends[-1])
