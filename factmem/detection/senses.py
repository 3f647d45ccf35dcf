"""Senses: whether a word that names a value stands for it, or means something else in its sentence.

"I have a free afternoon" names no plan, and "Paris Hilton" no city. A word is taken in another sense where it
qualifies a noun that has nothing to do with the concept, is compared with, belongs to a longer name, or stands in a
sentence about a thing.
"""

from __future__ import annotations

from typing import Final

from factmem.detection.clauses import OWN, SUBJECTS, Clause
from factmem.detection.passages import Word, word_set

__all__ = ["is_in_another_sense", "qualifies_another_noun"]

_SPEAKER: Final = OWN | word_set("i i'm i've i'd i'll we we're we've we'd we'll me us")
_DONE_BY_PERSONS: Final = word_set(
    "called phoned rang texted wrote laughed cried smiled shouted asked told said says thinks hates loves married died"
)
_POINTING: Final = word_set("the that this these those")
_VERBS: Final = word_set(
    "is are was were isn't aren't wasn't weren't has had looks feels seems gets got leaves took takes"
)
_AT_HOME: Final = word_set("flat house home apartment place address family name title interface account app screen")
"""Things that stand for the speaker or for their settings."""
_HEADS: Final = word_set(
    "plan tier mode level option version setting settings subscription account member membership person man woman guy"
    " girl style user customer subscriber team squad department group crew side guild engineer work job role position"
    " status priority size shirt clothes tone voice language answer answers reply replies manner way theme look"
    " background skin interface appearance one ones food meal meals dish dishes diet cooking recipe recipes lifestyle"
    " household burger message messages notification notifications update updates reminder reminders contact call"
    " calls address issue bug task ticket request matter edition package model please again now today thanks too there"
    " here yesterday tomorrow tonight"
)
"""Nouns that a member qualifies without a change of its meaning, and words that are not nouns."""
_JOINTS: Final = word_set(
    "a an the of in on at for to and or with by from as is are was were be been has have had do does did will would"
    " can could should may might must shall but if when while since because that this these those it he she they i we"
    " you so than then not no my our his her their your who which where what how why just only also very until before"
    " after about over under every each all both any some most i'm i've i'd i'll it's that's let's me us him them got"
    " get goes went go going said says say asap always usually never mostly still already anyway though however except"
    " during between within without per via once twice way please nor yet too"
)


def is_in_another_sense(clause: Clause) -> bool:
    """Return whether the words that name a value are part of a longer name, or describe a thing."""
    return not clause.leaning.loose and (_is_part_of_name(clause) or _is_of_thing(clause) or _is_a_person(clause))


def qualifies_another_noun(clause: Clause) -> bool:
    """Return whether a member of an enumeration qualifies a noun of another topic, or is compared with."""
    before = clause.texts(clause.first - 2, clause.first)
    if before in (["like", "a"], ["like", "the"]) or before[-1:] == ["too"] or _is_state_of_thing(clause, before):
        return True
    head = _next(clause)
    if head is not None and head.text == "of" and before[-1:] == ["the"]:
        return True  # "the design of that lamp"
    if head is None or head.text in _HEADS | _JOINTS or head.stem in clause.leaning.stems:
        return False
    return not head.text.endswith("ly") and head.text[0].isalpha() and not _is_adverb(clause)


def _is_state_of_thing(clause: Clause, before: list[str]) -> bool:
    """Return whether a mention tells how the speaker wants some other thing: "I like my steak medium"."""
    if len(before) < 2 or before[0] not in OWN or before[1] in _HEADS | _JOINTS:
        return False
    return clause.passage.words[clause.first - 1].stem not in clause.leaning.stems


def _is_adverb(clause: Clause) -> bool:
    """Return whether a mention tells how often something happens, so that it goes with any noun but a name."""
    word, head = clause.passage.words[clause.last], _next(clause)
    frequent = clause.leaning.stems & {"frequenc", "often", "frequent", "interv", "schedul", "cadenc"}
    return bool(frequent) and not (head is not None and head.is_name and word.is_name)


def _next(clause: Clause) -> Word | None:
    words = clause.passage.words
    at = clause.last + 1
    if at < len(words) and words[at].text == "-":
        at += 1
    return words[at] if at < len(words) and not words[at].is_mark else None


def _is_part_of_name(clause: Clause) -> bool:
    """Return whether a capitalized mention opens a clause without a speaker, before another capitalized word."""
    word, behind = clause.passage.words[clause.last], _next(clause)
    if behind is None or not (word.is_name and behind.is_name) or clause.first != clause.start:
        return False
    return behind.stem not in clause.leaning.stems and not _has_speaker(clause)


def _is_a_person(clause: Clause) -> bool:
    """Return whether a mention does what persons alone do: "Florence called"."""
    behind = clause.text(clause.last + 1)
    return clause.first == clause.start and clause.passage.words[clause.first].is_name and behind in _DONE_BY_PERSONS


def _is_of_thing(clause: Clause) -> bool:
    """Return whether a sentence tells of a thing that has nothing to do with the concept: "the walls are blue"."""
    texts = clause.texts(clause.start, clause.first)
    verb = next((at for at, text in enumerate(texts) if text in _VERBS), None)
    if verb is None or verb < 2 or texts[0] not in _POINTING or set(texts) & (SUBJECTS | _SPEAKER):
        return False
    named = clause.passage.words[clause.start + 1 : clause.start + verb]
    on_topic = any(word.stem in clause.leaning.stems or word.text in _AT_HOME for word in named)
    return not on_topic and not _has_speaker(clause)


def _has_speaker(clause: Clause) -> bool:
    return bool(set(clause.texts(clause.start, clause.end)) & _SPEAKER)
