"""Bystanders: clauses that tell of somebody else than the speaker.

"My brother lives in Oslo" says nothing of the speaker's city, while "my brother and I live in Oslo" does. The subject
is looked for where a clause opens: a person that a noun names, a first name before a verb that persons alone go with,
"he" or "she". Whom the concept, the value or the subject of the question names is not a bystander.
"""

from __future__ import annotations

import functools
from typing import Final

from factmem.detection.clauses import OWN, Clause
from factmem.detection.passages import word_set
from factmem.stemming import stemmer

__all__ = ["THIRD_PERSONS", "is_of_another"]

_PARTNERS: Final = word_set("wife husband spouse partner fiance fiancee girlfriend boyfriend ex ex-wife ex-husband")
_YOUNG: Final = word_set("child children kid son daughter baby toddler twin twins girl boy stepson stepdaughter")
_KIN: Final = word_set(
    "brother sister mother father parent mum mom mam mummy mommy dad daddy papa mama uncle aunt auntie cousin nephew"
    " niece grandma grandpa granny gran nan grandmother grandfather grandparent grandson granddaughter grandchild"
    " stepfather stepmother sibling brother-in-law sister-in-law in-laws family relative godmother godfather"
)
_OTHERS: Final = word_set(
    "neighbour neighbor flatmate roommate housemate friend mate pal buddy boss manager supervisor colleague coworker"
    " landlord landlady tenant teacher tutor professor student pupil classmate doctor dentist nurse therapist lawyer"
    " accountant assistant secretary client customer supplier vendor contractor guest visitor host waiter barista"
    " baker plumber electrician mechanic driver postman officer priest trainer coach hairdresser nanny babysitter"
    " intern employee staff crew guy man woman lady gentleman bloke dude chap lad person people folk folks couple"
    " stranger someone somebody everyone everybody anyone others actor singer author celebrity president"
)
_PEOPLE: Final = _PARTNERS | _YOUNG | _KIN | _OTHERS
_TOPICS: Final = {
    _YOUNG: word_set("child children kid son daughter famili family parent"),
    _PARTNERS: word_set("marit marital marri married spous spouse partner relationship famili family wife husband"),
    _KIN: word_set("famili family relative rel sibling"),
    _OTHERS: word_set("friend contact peopl people social team colleague client customer household"),
}
"""Groups of people, each with the stems of the concepts that are about them."""
_PEOPLE_ABROAD: Final = word_set(
    "mutter vater bruder schwester mann frau chef chefin nachbar nachbarin kollege kollegin freund freundin oma opa"
    " sohn tochter eltern mere pere frere soeur sœur mari femme voisin voisine fils fille copain copine hermano"
    " hermana madre padre hijo hija marido mujer vecino vecina jefe jefa amigo amiga abuela abuelo fratello sorella"
    " figlio figlia moglie marito vicino vicina moeder vader broer zus buurman buurvrouw vriend vriendin irmao irma"
    " mae pai filho filha"
)
_SPEAKER_ABROAD: Final = word_set("ich wir je j'ai j'habite nous yo io noi ik wij eu nos")
_SPEAKER: Final = word_set("i i'm i've i'd i'll we we're we've we'd we'll me us myself") | OWN
_DETERMINERS: Final = word_set(
    "my our his her their your the a an some that this these those two three four several many most all both one"
    " another every each"
)
THIRD_PERSONS: Final = word_set("he she he's she's he'd she'd he'll she'll")
_THEIRS: Final = word_set("his her their")
_OF_OTHERS: Final = word_set(
    "pet dog cat animal horse child children kid son daughter wife husband partner friend name"
)
"""Stems of concepts that are about somebody whom a pronoun may mean."""
_FILLERS: Final = word_set(
    "and but because since that so well apparently now today then also although though while fyi btw as yes no oh ok"
    " remember note did for"
) | frozenset(",\n\"'-")
_PLACES: Final = word_set("of from in at on with by for to about near behind than like")
_DONE_BY_PERSONS: Final = word_set(
    "lives lived works worked speaks spoke smokes smoked drinks drank eats drives drove owns turned joined studies"
    " studied plays played loves loved likes liked hates hated prefers wears weighs moved married enjoys teaches"
    " taught earns adores dislikes keeps kept retired graduated"
)
_OF_PERSONS: Final = word_set(
    "allergic born vegan vegetarian married divorced widowed single engaged living working pregnant retired"
)
_OF_THEM: Final = word_set("live work speak smoke own")
_COPULAS: Final = word_set("is was are were isn't wasn't")
_FOR_THE_SPEAKER: Final = word_set("wants want wanted needs need needed expects expect asked set scheduled booked")
"""Verbs by which other people set what holds for the speaker: "my boss wants it by Friday"."""
_FARTHEST: Final = 4
"""Maximum number of words before the noun of a subject."""


def is_of_another(clause: Clause) -> bool:
    """Return whether the subject of a clause is somebody else than the speaker."""
    if clause.leaning.loose and not _is_of_the_user(clause):
        return False
    if clause.passage.is_foreign:
        return _is_of_another_abroad(clause)
    opening = _opening(clause)
    if clause.text(opening) in ("who", "who's", "whose", "which"):
        opening = _skipped(clause, clause.sentence[0])
    subject = _subject(clause, opening)
    if subject is None:
        subject = _person_reached(clause, opening)
    if subject is None or not opening <= subject < clause.first or _is_on_topic(clause, subject):
        return False
    behind = subject + 3 if clause.text(subject + 1) in _PLACES else subject + 1  # "a guy from my street"
    between = set(clause.texts(behind, clause.first))
    return not between & (_SPEAKER | _FOR_THE_SPEAKER)


def _is_of_the_user(clause: Clause) -> bool:
    """Return whether a statement tells of the user, and of no other person."""
    stems = clause.leaning.stems
    return bool(stems & {"user", "i", "speaker"}) and not stems & (_stems() | THIRD_PERSONS | {"his", "her", "their"})


def _opening(clause: Clause) -> int:
    return _skipped(clause, clause.start)


def _skipped(clause: Clause, at: int) -> int:
    while clause.text(at) in _FILLERS and at < clause.first:
        at += 1
    return at


def _subject(clause: Clause, opening: int) -> int | None:
    """Return the position of the noun, name or pronoun for somebody else with which a clause opens."""
    text = clause.text(opening)
    if (text in THIRD_PERSONS and not clause.leaning.stems & _OF_OTHERS - {"name"}) or (
        text == "they" and clause.text(opening + 1) in ("live", "work", "speak", "smoke", "own")
    ):
        return opening
    if text in _THEIRS and not clause.leaning.stems & _OF_OTHERS:
        return opening
    if text in _DETERMINERS:
        return _noun_behind(clause, opening)
    if text.removesuffix("'s") in _KIN:
        return opening
    word = clause.passage.words[opening] if opening < len(clause.passage.words) else None
    if word is None or not word.is_name or text in _SPEAKER:
        return None
    if clause.text(opening + 1) in _COPULAS:
        return opening if clause.text(opening + 2) in _OF_PERSONS else None
    return opening if clause.text(opening + 1) in _DONE_BY_PERSONS else None


def _person_reached(clause: Clause, opening: int) -> int | None:
    """Return the position of the person of "you can reach my assistant on ...", of a clause without the speaker."""
    texts = clause.texts(opening, clause.first)
    if set(texts) & (_SPEAKER - OWN):
        return None
    owner = next((at for at, text in enumerate(texts) if text in OWN), None)
    return None if owner is None else _noun_behind(clause, opening + owner)


def _noun_behind(clause: Clause, determiner: int) -> int | None:
    """Return the position of the person that a determiner introduces: "my older brother", "the man next door"."""
    for at in range(determiner + 1, min(determiner + 1 + _FARTHEST, clause.first)):
        text = clause.text(at)
        if text in _SPEAKER | _PLACES | _COPULAS:
            return None
        if clause.text(determiner) == "the" and at == determiner + 1 and _is_family_name(clause, at):
            return at
        if clause.passage.words[at].stem in _stems() or text in _PEOPLE:
            return at
    return None


def _is_family_name(clause: Clause, at: int) -> bool:
    """Return whether a word names a family: "the Hendersons are"."""
    return clause.passage.words[at].is_name and clause.text(at).endswith("s") and clause.text(at + 1) in ("are", "were")


def _is_on_topic(clause: Clause, subject: int) -> bool:
    """Return whether the concept, the value or the one asked about names a person."""
    word, stems = clause.passage.words[subject], clause.leaning.stems
    if word.stem in stems or word.text in stems or word.text in clause.leaning.about:
        return True
    if _is_named(clause, subject + 1):
        return True
    return any(
        bool(stems & topics)
        for group, topics in _TOPICS.items()
        if word.text in group or word.text.removesuffix("s") in group
    )


def _is_named(clause: Clause, at: int) -> bool:
    """Return whether a word is a first name that the value holds as well: "my brother Bo ..." as "Bo: ..."."""
    word = clause.passage.words[at] if at < len(clause.passage.words) else None
    return word is not None and word.is_name and bool({word.stem, word.text} & clause.leaning.stems)


def _is_of_another_abroad(clause: Clause) -> bool:
    before = clause.texts(clause.sentence[0], clause.first)
    persons = [at for at, text in enumerate(before) if text in _PEOPLE_ABROAD]
    return bool(persons) and not set(before[persons[-1] :]) & _SPEAKER_ABROAD and not _names_person(clause)


def _names_person(clause: Clause) -> bool:
    return bool(clause.leaning.stems & (_stems() | _PEOPLE_ABROAD))


@functools.cache
def _stems() -> frozenset[str]:
    stem = stemmer()
    return frozenset(stem(word) for word in _PEOPLE)
