"""English stems of words, by the Snowball project's rules; of irregular forms, those of their base forms."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["forget_stems", "stemmer"]

_IRREGULAR: Final = """
    arise arose arisen, awake awoke awoken, become became, begin began begun, bend bent, bite bitten, bleed bled, blow
    blew blown, break broke broken, breed bred, bring brought, build built, burn burnt, buy bought, catch caught,
    choose chose chosen, cling clung, come came, creep crept, deal dealt, dig dug, draw drew drawn, dream dreamt,
    drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen, feed fed, feel felt, fight fought, find
    found, flee fled, fling flung, fly flew flown, forbid forbade forbidden, forget forgot forgotten, forgive forgave
    forgiven, freeze froze frozen, get got gotten, give gave given, go went gone, grind ground, grow grew grown, hang
    hung, hear heard, hide hid hidden, hold held, keep kept, kneel knelt, know knew known, lay laid, lead led, lean
    leant, leap leapt, learn learnt, leave left, lend lent, light lit, lose lost, make made, mean meant, meet met,
    mistake mistook mistaken, overtake overtook overtaken, pay paid, prove proven, rebuild rebuilt, rewrite rewrote
    rewritten, ride rode ridden, ring rang rung, rise risen, run ran, say said, see saw seen, seek sought, sell sold,
    send sent, sew sewn, shake shook shaken, shine shone, shoot shot, show shown, shrink shrank shrunk, sing sang
    sung, sink sank sunk, sit sat, sleep slept, slide slid, smell smelt, sow sown, speak spoke spoken, spell spelt,
    spend spent, spill spilt, spin spun, spit spat, spoil spoilt, spring sprang sprung, stand stood, steal stole
    stolen, stick stuck, sting stung, stink stank, strike struck, string strung, swear swore sworn, sweep swept, swell
    swollen, swim swam swum, swing swung, take took taken, teach taught, tear tore torn, tell told, think thought,
    throw threw thrown, tread trod, understand understood, undertake undertook undertaken, wake woke woken, wear wore
    worn, weave wove woven, weep wept, win won, wind wound, withdraw withdrew withdrawn, write wrote written, calf
    calves, child children, foot feet, goose geese, half halves, knife knives, loaf loaves, louse lice, man men, mouse
    mice, shelf shelves, thief thieves, tooth teeth, wife wives, wolf wolves, woman women
"""
"""Base forms, each with its irregular forms, after the closed lists of English grammars.

Forms that are more often another word ("bit", "rose", "bore", "born", "lives") are left out.
"""


@functools.cache
def _base_forms() -> Mapping[str, str]:
    entries = map(str.split, _IRREGULAR.split(","))
    return {form: base for base, *forms in entries for form in forms}


@functools.cache
def stemmer() -> Callable[[str], str]:
    """Return the function that gives the stem of a word in lower case. It may be called from any thread."""
    import Stemmer

    bases = _base_forms()
    local = threading.local()  # a stemmer keeps state while it works: one a thread

    @functools.lru_cache(maxsize=65_536)
    def stem(word: str) -> str:
        if not hasattr(local, "stemmer"):
            local.stemmer = Stemmer.Stemmer("english")
        stemmed: str = local.stemmer.stemWord(bases.get(word, word))
        return stemmed

    return stem


def forget_stems() -> None:
    """Clear the cache of stems, so that no erased word outlives in it."""
    stemmer.cache_clear()
