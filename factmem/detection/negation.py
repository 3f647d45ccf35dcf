"""Negation: clauses that deny what they mention.

An odd number of negations bears on it: "not", "never", "no longer", "instead of", "used to", "from ... to". Negations
of verbs of thinking and saying are sorted ("don't forget that I ..." states). A list goes on being denied up to its
"or"; a contrast does not ("not in Oslo, in Bergen"). A dislike, an allergy or a former home is stated by a denial.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from factmem.detection.clauses import FAR, INVERTED, OWN, SUBJECTS, Clause, by_first, phrases_in, starts_of
from factmem.detection.passages import Word, phrase_list, word_set
from factmem.detection.stances import AGAINST, Stance
from factmem.stemming import stemmer

__all__ = ["denied", "is_denied_abroad", "is_not", "negations_in"]


_NOT: Final = word_set(
    "not never no nor neither none nobody nothing without cannot dont doesnt didnt isnt arent wasnt werent wont"
    " cant hardly barely nowhere non ain't aint ex-"
)
_UNBEARABLE: Final = phrase_list("can't stand / cannot stand / couldn't stand / can't bear / cannot bear / can't abide")
_UNOPPOSED: Final = phrase_list(
    "don't mind / do not mind / fine with / ok with / okay with / problem with / nothing against"
)
"""Phrases that take back a dislike."""
_HARMLESS: Final = _UNBEARABLE + phrase_list(
    "not only / not just / not merely / no doubt / no problem / no worries / no matter / no question / never mind /"
    " not to mention / no less than / no more than / no fewer than / not more than / not less than / nothing beats /"
    " nobody beats / nothing better than / why not / can't wait / cannot wait / can not wait / no later than / not"
    " later than / no earlier than / can't beat / cannot beat / can't resist / can't get enough / cannot get enough"
    " / never say no to / can't help / don't worry / do not worry / nothing but / none other than / if not / whether"
    " or not / not bad / can't complain / won't lie / not gonna lie / not going to lie / no idea why / couldn't be"
    " happier / can't believe / cannot believe / couldn't believe / never been better / no rush / can't go wrong /"
    " no thanks / no thank / not exceed / not exceeding / not to exceed / without fail / without doubt / without"
    " question / not long ago / no biggie / no pressure / don't mind"
)
"""Phrases with a negation that denies nothing behind it."""
_INSTEAD: Final = phrase_list(
    "ruled out / decided against / backed out of / pulled out of / passed on / bailed on / given up / done with /"
    " no longer / instead of / rather than / other than / anything but / except for / apart from / far from / not"
    " any more / used to / stopped being / moved away from / moved out of / got rid of / gave up / give up / fired"
    " by / fired from / laid off by / laid off from / turned down / turn down / broke up with / false that / false"
    " to / wrong that / wrong to / untrue that / a lie / incorrect that / incorrect to / nothing like / opposed to /"
    " aside from / all but"
)
"""Phrases that deny what follows."""
_ENDED: Final = word_set(
    "formerly previously former except unlike excluding quit quitting stopped stop cancelled canceled cancel sold"
    " replaced abandoned drop dropped ditch ditched unsubscribed deleted removed lost refused rejected resigned"
    " divorced scrapped shelved axed binned dumped renounced relinquished declined dismissed"
)
"""Words that say of what follows that it is over, or is not so."""
_ENDED_BEHIND: Final = phrase_list(
    "off the table / out of the question / on hold / called off / fell through / is over / is history / is off /"
    " isn't happening / not happening / is no more / is gone / out of the picture / is a no-go"
)
"""Phrases that say of what stands before them that it is over, or will not be."""
_LEFT_BY: Final = word_set("i we i've we've have had just recently he she they finally already has")
_CHANGES: Final = word_set(
    "moved move moving switched switch changed change went go migrated migrate upgraded upgrade downgraded downgrade"
    " renamed relocated increased increase raised cut rescheduled postponed pushed transferred reduced bumped lowered"
    " grew"
)
_DISLIKED: Final = word_set(
    "hate hated hates hating dislike disliked dislikes detest loathe despise avoid avoiding avoids abhor allergic"
    " intolerant sick tired overrated worst terrible awful disgusting unlike skip"
)
_FORGOTTEN: Final = word_set(
    "forget forgot tell told mention mentioned mind realise realised realize realized remember regret regretted"
    " care overlook miss ignore doubt know knew known"
)
"""Verbs that leave true what follows them, denied or not."""
_BELIEVED: Final = word_set(
    "think thought believe say said guess suppose mean want wanted need feel expect recall wish claim agree see"
    " be let have like"
)
"""Verbs whose denial denies what follows them."""
_BEFORE_SUBJECTS: Final = word_set("the a an this that and so well no nope on at in")
_COPULAS: Final = word_set("is was are were isn't wasn't aren't weren't would might could")
_WRONG: Final = word_set("wrong incorrect false untrue outdated obsolete")
_NEGATED_ABROAD: Final = word_set(
    "nicht kein keine keinen keinem keiner nie niemals pas jamais aucun aucune plus nunca jamas tampoco non mai"
    " nessun nessuna nao não nenhum nem niet geen nooit inte aldrig ikke aldri ingen nie niemal не нет никогда ни"
    " нельзя no ne sin ohne sans senza sem zonder utan bez без ei"
)
_NEGATED_UNSPACED: Final = (*"不没沒無无别非未않못", "ない", "ません", "なく", "아니", "안 ")


def is_denied_abroad(clause: Clause) -> bool:
    """Return whether words of another language hold a negation near the mention."""
    near = clause.passage.words[clause.start : clause.end]
    if any(word.text in _NEGATED_ABROAD or is_not(word.text) for word in near):
        return True
    said = clause.passage.text[near[0].start : near[-1].end] if near else ""
    return any(sign in said for sign in _NEGATED_UNSPACED)


def denied(clause: Clause) -> Stance:
    """Return whether the clause denies the mention: DENIED, UNCLEAR, or else STATED."""
    start = _start_of_list(clause)
    texts = clause.texts(start, clause.first)
    bearing = [_bears(clause, texts, at) for at in _negations(clause, texts)]
    if Stance.UNCLEAR in bearing:
        return Stance.UNCLEAR
    count = bearing.count(Stance.DENIED) + _over(clause, texts) + _is_denied_behind(clause) + _is_cut_off(clause)
    disliked = any(text in _DISLIKED for text in texts[-8:]) or bool(phrases_in(texts, _UNBEARABLE))
    if clause.leaning.against:
        behind = set(clause.texts(clause.last + 1, clause.end)[:5])
        if behind & {"is", "are"} and behind & {"fine", "ok", "okay", "problem", "safe"}:
            return Stance.DENIED
        if phrases_in(texts, _UNOPPOSED):
            return Stance.DENIED
        return Stance.DENIED if count % 2 and (disliked or _denies_concept(clause, texts)) else Stance.STATED
    if clause.leaning.liking:
        count += disliked
    if not count and _is_subject_of_denial(clause, texts):
        return Stance.UNCLEAR
    if count % 2 and clause.leaning.past and _over(clause, texts):
        return Stance.STATED
    return Stance.DENIED if count % 2 else Stance.STATED


def _is_subject_of_denial(clause: Clause, texts: Sequence[str]) -> bool:
    """Return whether a mention that opens its clause is the subject of a denied verb: "golf never interested me"."""
    if clause.leaning.loose or set(texts) - _BEFORE_SUBJECTS:
        return False
    behind = clause.texts(clause.last + 1, min(clause.end, clause.last + 5))
    verb = next((at for at, text in enumerate(behind) if is_not(text)), None)
    return verb is not None and verb not in phrases_in(behind, _HARMLESS) and not set(behind[:verb]) & (SUBJECTS | OWN)


def _denies_concept(clause: Clause, texts: Sequence[str]) -> bool:
    stem = stemmer()
    return any(
        stem(text) in clause.leaning.stems & AGAINST
        for text in (*texts, *clause.texts(clause.last, clause.end))
        if not is_not(text)
    )


def _negations(clause: Clause, texts: Sequence[str]) -> Iterator[int]:
    harmless = phrases_in(texts, _HARMLESS)
    longer = phrases_in(texts, _INSTEAD)
    for at, text in enumerate(texts):
        if at in harmless or at in longer or not is_not(text):
            continue
        if texts[at + 1 : at + 2] in (["just"], ["only"], ["merely"], ["simply"]):
            continue  # "I don't just like tea"
        if text == "no" and at + 1 < len(texts) and texts[at + 1] in SUBJECTS | OWN:
            continue  # "no I live in Oslo": an answer, without its comma
        if text in ("nothing", "nobody") and texts[-1] in ("like", "than") and texts[at + 1] != "like":
            continue  # "nothing calms me like tea", "nothing is better than tea"
        if "without" in texts[at + 1 :] or (text == "without" and any(map(is_not, texts[:at]))):
            continue  # "I can't live without tea"
        if texts[-1] in ("before", "until", "till"):
            continue  # "I'm never up before 8"
        if texts[-1] == "than" and len(texts) > 1 and texts[-2] in ("more", "less", "fewer", "under", "over"):
            continue  # "we can't spend more than 1500": the number is said
        if text == "nor" and any(is_not(other) for other in texts[:at]):
            continue
        yield at


def _bears(clause: Clause, texts: Sequence[str], at: int) -> Stance:
    """Return whether a negation at a position denies the mention behind."""
    behind = list(texts[at + 1 :])
    verb = next((text for text in behind if text not in SUBJECTS and text not in ("really", "even", "ever")), "")
    subject = next((place for place, text in enumerate(behind) if text in SUBJECTS), None)
    owned = next((place for place, text in enumerate(behind) if text in OWN), None)
    if subject == 0 and texts[at] in ("nobody", "none", "no", "nothing"):
        return Stance.DENIED  # "nobody I know lives there"
    if verb == "forget":
        return Stance.STATED
    if subject is not None and (subject > 0 or texts[at] in ("nobody", "nothing", "none")):
        if verb in _FORGOTTEN or (texts[at] == "nobody" and set(behind[:subject]) & _FORGOTTEN):
            return Stance.UNCLEAR if set(behind) & {"if", "whether"} else Stance.STATED
        return Stance.DENIED if verb in _BELIEVED or subject == 1 else Stance.UNCLEAR
    if owned is not None and owned > 0 and len(behind) - owned <= 5 and verb not in _BELIEVED - {"like", "see"}:
        return Stance.STATED  # "I never take my dog Rex there": the dog is
    if owned == 0 and len(behind) > 1:
        return Stance.DENIED
    if "and" in behind and len(behind) - behind.index("and") > 1 and not is_not(behind[behind.index("and") + 1]):
        return Stance.UNCLEAR
    return Stance.DENIED


def _over(clause: Clause, texts: Sequence[str]) -> bool:
    """Return whether words before the mention say that it is over, or not it: "used to", "instead of", "from"."""
    near = list(texts[-8:])
    if "than" in near[-4:] and "rather" in texts:
        return True
    stem = stemmer()
    for phrase, at in starts_of(near, by_first(_INSTEAD)):
        told = clause.leaning.loose and all(stem(text) in clause.leaning.stems for text in phrase)
        if not told and not set(near[at + len(phrase) :]) & {"and", "but"}:
            return True
    ended = [
        at + 1
        for at, text in enumerate(near)
        if (text in _ENDED and near[at + 1 : at + 2] not in (["me"], ["us"]) and stem(text) not in clause.leaning.stems)
        or (text == "left" and at and near[at - 1] in _LEFT_BY and "left" not in clause.leaning.stems)
    ]
    if ended and not set(near[max(ended) :]) & {"and", "to", "for", "into", "with", "by", "because"}:
        return True
    return _is_replaced(clause, near)


def _is_replaced(clause: Clause, near: Sequence[str]) -> bool:
    """Return whether the mention is what something changes from: "moved from Oslo to Bergen"."""
    if "from" not in near[-3:] or "to" in near[-2:]:
        return False
    return bool(set(near) & _CHANGES) and ("to" in clause.texts(clause.last + 1, clause.last + 8) or "moved" in near)


def _is_denied_behind(clause: Clause) -> bool:
    """Return whether the words behind the mention deny it: "Oslo is not my home", "12 is wrong"."""
    behind = clause.texts(clause.last + 1, clause.end)[:5]
    if phrases_in(behind, _ENDED_BEHIND):
        return True
    near = behind[: 3 if behind[:1] == ["of"] else 2]  # "the first of June is wrong"
    copula = next((at for at, text in enumerate(near) if text in _COPULAS), None)
    if copula is None:
        return False
    behind = behind[copula:]
    if behind[0] in ("isn't", "wasn't", "aren't", "weren't"):
        negated, rest = True, behind[1:]
    elif behind[0] in ("would", "might", "could") and "be" in behind[:3]:
        return bool(set(behind) & _WRONG)
    elif behind[0] in ("is", "was", "are", "were") and len(behind) > 1:
        negated, rest = (
            behind[1] in ("not", "never", "no"),
            behind[2:] if behind[1] in ("not", "never", "no") else behind[1:],
        )
    else:
        return False
    if rest[:1] == ["too"]:
        return True
    if not negated:
        return bool(rest) and rest[0] in _WRONG
    return bool(
        set(rest[:2])
        & (OWN | {"where", "what", "enough", "the", "correct", "right", "true", "it", "who", "longer", "how"})
    )


def _is_cut_off(clause: Clause) -> bool:
    """Return whether a negation before a parenthesis bears on the mention: "I don't, as you know, live there"."""
    if clause.text(clause.start - 1) not in (",", ")", "–", "—") or not clause.lacks_subject(clause.start):
        return False
    at = clause.start - 2
    while at > max(0, clause.start - 12) and not clause.breaks(at):
        at -= 1
    before = clause.text(at - 1)
    return clause.text(at) in (",", "(", "–", "—") and (before.endswith("n't") or before in ("not", "never", "cannot"))


def _start_of_list(clause: Clause) -> int:
    """Return the start of the clause, or that of the list which ends with "or" and which the mention is in."""
    start = clause.start
    while clause.text(start - 1) == "," and _is_item(clause, start):
        before = start - 1
        start = before
        while start > max(0, before - FAR) and not clause.breaks(start - 1):
            start -= 1
    return start


def _is_item(clause: Clause, start: int) -> bool:
    """Return whether a clause is an item of a list joined by "or"."""
    texts = clause.texts(start, clause.end)
    if len(texts) > 6 or set(texts) & (SUBJECTS | INVERTED | {"but", "not"}):
        return False
    return bool({"or", "nor"} & set(clause.texts(start, clause.last + 12)))


def negations_in(words: Iterable[Word]) -> int:
    """Return the number of negations in a text: "does not eat meat" has one."""
    texts = [word.text for word in words]
    harmless = phrases_in(texts, _HARMLESS)
    single = sum(is_not(text) for at, text in enumerate(texts) if at not in harmless)
    return single + len(phrases_in(texts, ("used to", "instead of", "rather than"))) // 2


def is_not(text: str) -> bool:
    """Return whether a word is a negation."""
    return text in _NOT or text.endswith("n't")
