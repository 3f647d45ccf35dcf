"""Signs by which a record fits a query: read from English texts by patterns, linear in their length.

A query may ask for a kind of value, such as a number or a person, or for the assistant's own words. A record may hold
a value of that kind, or end with a question. `factmem.recall.scoring` weighs them.
"""

from __future__ import annotations

import calendar
import enum
import functools
import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from factmem.languages import QUESTION_MARKS, clause_spans, content_of, folded, language_code, language_of
from factmem.patterns import LinearPattern, lazy_pattern
from factmem.recall.text.analysis import LETTERS, analyse, plain, spaced, unhyphenated
from factmem.records import Assertion
from factmem.sentences import fluent, tells, tells_of_another
from factmem.text_caches import forgettable
from factmem.toml_tables import table
from factmem.value_types import ScalarKind, scalar_of_shape

_LONGEST_LOOK: Final = 4096
"""Number of characters of a query that are searched; this runs on the event loop."""

_BEFORE_RELATION: Final = 2
"""Number of words between "my" and a relation: "my dear little brother"."""

_FIRST_LETTERS: Final = 2
"""Number of characters in which a query begins: "¿Q"."""

_TABLE: Final = table("recall/text/questions")
"""Words by which a question shows what it asks for."""

_YOU, _I, _NO_SUBJECT, _MINE = (
    frozenset(_TABLE[name].split()) for name in ("you", "first_person", "no_subject", "mine")
)
PEOPLE: Final = {
    word.strip("-") + ending: name
    for name, words in _TABLE["people"].items()
    for word in (name, *words.split())
    for ending in ("", *(_TABLE["endings"].split() if word.endswith("-") else ()))
}
"""The English names of relations by all words for them."""
_KINDS_OF: Final = {wider: frozenset(names.split()) for wider, names in _TABLE["kinds_of"].items()}
_ROLES: Final = {name: name for name in f"{_TABLE['roles']} {_TABLE['pets']}".split()}
_RELATIONS: Final = _ROLES | PEOPLE
_MATTERS: Final = frozenset([*_ROLES, *_TABLE["matters"].split()])
_THINGS: Final = frozenset(_TABLE["things"].split())
_SEVERAL: Final = frozenset(f"{_TABLE['several_people']} {_TABLE['pets']}".split())
REPLACED: Final = frozenset(f"{_TABLE['replaced']} {_TABLE['roles']}".split())
"""The English names of people whose place another takes."""
_CALLED: Final = frozenset(_TABLE["called"].split())
CALLING: Final[str] = f"name {_TABLE['called']}"
"""Words that stand before a name: "My name is Eva", "I am called Eva"."""
MY: Final[str] = _TABLE["my"]
_MY: Final = frozenset(MY.split())
_FIRST_PERSON: Final = _I | _MINE
_SEVERAL_OF_US: Final = frozenset(_TABLE["ours_too"].split())
ASKING: Final[str] = _TABLE["asking"]
NAMING: Final[str] = _TABLE["naming"]
"""Words of the keywords of concepts that hold a name of their subject itself, such as `first_name`."""
_BEFORE_THINGS: Final = frozenset(_TABLE["before_things"].split())
TITLES: Final[str] = _TABLE["titles"]
_NO_NAMES: Final = frozenset([*TITLES.split(), *(name.lower() for name in calendar.day_name)])
"""Titles, which a name is known without, and weekdays: English capitalizes them."""
_SINGULAR: Final = _FIRST_PERSON - _SEVERAL_OF_US
_OURS: Final = lazy_pattern(_TABLE["ours"], re.IGNORECASE)
_DOING: Final = lazy_pattern(_TABLE["doing"], re.IGNORECASE)
_NOT: Final = frozenset(_TABLE["not"].split())
_JOINING: Final = frozenset(_TABLE["joining"].split())
_OF: Final = frozenset(_TABLE["of"].split()) | _MINE
GIVEN_NAMES: Final = frozenset(_TABLE["given_names"].split())
"""Given names that have no other meaning, in lower case."""
_WHO: Final = lazy_pattern(_TABLE["who"])
_WHOSE: Final = lazy_pattern(_TABLE["whose"])
_NOT_NOW: Final = {name: lazy_pattern(pattern) for name, pattern in _TABLE["not_now"].items()}
_WORD: Final = lazy_pattern(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_UNSPACED: Final = sorted([word for word in PEOPLE if word > "\u3000"], key=len, reverse=True)
"""Those in scripts without spaces, and in Korean, whose words take endings."""
_PERSON_OR_WORD: Final = lazy_pattern(rf"(?<![\uac00-\ud7a3])(?:{'|'.join(_UNSPACED)})|{LETTERS}(?:['’]{LETTERS})?")
"""A word for a relation within unspaced text, in Korean at the beginning of a word; or another word."""
_NUMBER_IN_ASCII: Final = LinearPattern(_TABLE["number"])
_NUMBER_ANYWHERE: Final = lazy_pattern(_TABLE["number"])  # the engines differ in the letters of some scripts
_REST: Final = lazy_pattern(_TABLE["rest"])
"""End of the part of a description that names the value."""


class Whom(enum.IntEnum):
    """Of whom a text tells."""

    ANYBODY = 0
    SPEAKER = 1
    RELATIVE = 2
    ANOTHER = 3
    """Somebody whom it begins with, maybe by name."""


class Kind(enum.IntFlag):
    """Kinds of values that questions ask for."""

    NONE = 0
    NUMBER = enum.auto()
    PERSON = enum.auto()
    PLACE = enum.auto()
    TIME = enum.auto()
    TRUTH = enum.auto()
    """Yes or no."""


_KINDS_OF_TYPES: Final = {
    ScalarKind.TRUTH: Kind.TRUTH,
    ScalarKind.TIME: Kind.TIME,
    ScalarKind.NUMBER: Kind.NUMBER,
    ScalarKind.SUBJECT: Kind.PERSON,
}
"""The kind of all values of a type, where they have one; texts are of any kind."""


def asks_for_assistant(query: str) -> bool:
    """Return whether a query asks for the assistant's words: the second person is a subject, and not in a request."""
    look = query[:_LONGEST_LOOK]
    if _OURS.search(look):
        return True
    words = [found[0].replace("’", "'") for found in _WORD.finditer(look)]
    for at, word in enumerate(words):
        if (word if at and word == "Sie" else word.lower()) in _YOU:
            before = [other.lower() for other in words[max(at - 2, 0) : at]]
            if not (_NO_SUBJECT.intersection(before[-1:]) or _I.intersection(before)):
                return True
    return False


def capitalized(query: str) -> list[str]:
    """Return the capitalized words of a query, which may be names; its first word and "I" are left out."""
    return [word for word in query.split(" ")[1:] if word[:1].isupper() and word[1:2].isalpha()]


@forgettable
@functools.lru_cache(64)
def nameless(query: str) -> str:
    """Return a query without its `capitalized` words."""
    left_out = set(capitalized(query))
    first, *rest = query.split(" ")
    return " ".join([first, *[word for word in rest if word not in left_out]]) if left_out else query


@forgettable
@functools.lru_cache(4096)
def relation(word: str) -> str:
    """Return the English name of a relation, by any word for it: "mother" for "mum" and for "Mutter"; else nothing."""
    word = word.lower()
    return str(_RELATIONS.get(word) or _RELATIONS.get(word.rstrip("s").rstrip("'’"), ""))


def is_relative(name: str) -> bool:
    """Return whether the name of a subject is an English word for a relative, a friend or the like, such as "boss".

    Words of other languages are left out, since many mean something else in English: "chef", "patron", "prima".
    """
    return name.lower() in _TABLE["people"]


def widened(relation: str) -> str:
    """Return the English name of a relation, and of those that it is a kind of: "daughter child"."""
    return " ".join([relation, *[wider for wider, kinds in _KINDS_OF.items() if relation in kinds]])


@functools.cache
def _terms_of_relations() -> Mapping[str, Collection[str]]:
    names = {term: name for word, name in _RELATIONS.items() for term in analyse(word)[:1]}
    kinds = {
        name: " ".join(kind for kind in _TABLE["people"] if name in widened(kind).split()) for name in names.values()
    }
    return {term: analyse(kinds[name]) for term, name in names.items()}


def terms_of_relation(term: str) -> Collection[str]:
    """Return the terms of the English names of the relation that a term stands for, and of its kinds, if there are any.

    Words of other languages are left out, since many mean something else in English: "chef", "brat", "fille".
    """
    return _terms_of_relations().get(term, ())


def relatives_of(words: Sequence[str]) -> list[str]:
    """Return the first relation in words, and whose relative that is: "my sister's husband", "der Mann meiner Tante".

    Args:
        words: The words, in lower case.
    """
    found = [at for at, word in enumerate(words) if relation(word)]
    if len(found) < 2:
        return [words[at] for at in found]
    one, other = found[:2]
    between = words[one + 1 : other]
    owns = words[one].replace("’", "'").endswith(("'s", "s'")) and len(between) <= _BEFORE_RELATION
    belongs = bool(between) and _OF.issuperset(between)
    return [words[one], words[other]] if owns or belongs else [words[one]]


def names_one_of_several(words: Collection[str], *, named: bool) -> bool:
    """Return whether words say the name of somebody, or of a pet, of whom there may be several: it replaces none.

    Args:
        words: The words up to the name, in lower case.
        named: Whether a name follows them.
    """
    several = any(word in _SEVERAL or relation(word) in _SEVERAL for word in words)
    return several and (named or not _CALLED.isdisjoint(words))


def people_asked(query: str) -> list[str]:
    """Return the words of a query that stand for somebody else than its speaker: relations, such as kin, and names.

    A role, such as a teacher, is somebody else where it does something. Capitalized words are a name unless they are an
    abbreviation, the speaker asks in the first person, or the language writes nouns so. The words that ask of whom
    something holds stand for nobody: "which of my friends". Beside a name, a relation of the speaker's ("my sister")
    and what is joined to these ("and her brother"), other relations stand for nobody but for what is asked: "Who is
    Zoe's husband?", "Does my sister have children?". "Whose boss is Dan?" asks about nobody that it names.
    """
    if asks_whose(query):
        return []
    look, _ = _without_who(query)
    words = [found[0] for found in _PERSON_OR_WORD.finditer(unhyphenated(look.lower()))]
    doing = _DOING.search(look)
    acts = "" if doing is None else doing[1].lower()
    people = [word for word in words if (related := relation(word)) and (related not in _ROLES or word == acts)]
    language = language_of(folded(look))
    names = [] if _FIRST_PERSON.intersection(words) else _given_names(look) if language.capitals else _names(look)
    whose = {name.split()[-1].lower() for name in names}
    for at, word in enumerate(words):
        joined = any(words[end] in _JOINING and words[end - 1] in whose for end in (at - 1, at - 2) if end > 0)
        if word in people and (joined or (at > 0 and words[at - 1] in _MINE)):
            whose.add(word)
    return [word for word in people if word in whose or not whose] + names


def _given_names(query: str) -> list[str]:
    """Return the given names in a query in a language that capitalizes all nouns; also in a genitive ("Toms Hund")."""
    found = [word.strip("?.,!") for word in query.split(" ") if word[:1].isupper()]
    given = [word if word.lower() in GIVEN_NAMES else word.removesuffix("s") for word in found]
    return [word for word in given if word.lower() in GIVEN_NAMES]


def _names(query: str) -> list[str]:
    """Return the names in a query; a surname belongs to the name before it.

    What stands behind a word such as "the" or "in" is the name of a thing or a place ("the Canon printer").
    """
    names: list[str] = []
    follows, of_thing = False, False
    kept = set(capitalized(query))
    for before, word in itertools.pairwise(query.split(" ")):
        is_name = word in kept and not word.isupper() and word.strip("?.,!").lower() not in _NO_NAMES
        of_thing = is_name and (before.lower() in _BEFORE_THINGS or (of_thing and before.isalpha()))
        is_name = is_name and not of_thing
        if is_name and follows:
            names[-1] += f" {word}"
        elif is_name:
            names.append(word)
        follows = is_name and word.isalpha()
    return names


def asks_for_own(query: str) -> bool:
    """Return whether a query asks for what is the speaker's alone."""
    return not _SINGULAR.isdisjoint(found[0].lower() for found in _WORD.finditer(query[:_LONGEST_LOOK]))


def capitals_are_names(query: str) -> bool:
    """Return whether a query is not in a language that capitalizes all nouns."""
    return not language_of(folded(query[:_LONGEST_LOOK])).capitals


def chain_asked(query: str) -> list[str]:
    """Return the English names of the relations by which a query asks about a relative's relative, if it does so."""
    words = [found[0] for found in _PERSON_OR_WORD.finditer(unhyphenated(query[:_LONGEST_LOOK].lower()))]
    chain = relatives_of(words)
    return list(map(relation, chain)) if len(chain) > 1 else []


def asks_of_self(query: str) -> bool:
    """Return whether a query asks for what is the speaker's, by no word for somebody else: not "Who helps me?"."""
    others = any(relation(found[0]) for found in _PERSON_OR_WORD.finditer(unhyphenated(query[:_LONGEST_LOOK].lower())))
    return asks_for_own(query) and not others and not kinds_asked(query) & Kind.PERSON


def owned_terms(query: str) -> list[str]:
    """Return the terms of what a query calls the speaker's, right behind "my"; none for "my brother's dog"."""
    words = [found[0].replace("’", "'") for found in _WORD.finditer(unhyphenated(query[:_LONGEST_LOOK].lower()))]
    owned: list[str] = []
    for at, word in enumerate(words):
        if word in _MY:
            behind = words[at + 1 : at + 3]
            owned += behind[:1] if relation("".join(behind[:1])) else behind
    return [] if any(word.endswith(("'s", "s'")) for word in owned) else analyse(" ".join(owned))


def asks_for_present(query: str) -> bool:
    """Return whether a query in a known language asks for what is, and names nothing that was or would be."""
    not_now = _NOT_NOW.get(language_code(query))
    return not_now is not None and not_now.search(query[:_LONGEST_LOOK]) is None


def _without_who(query: str) -> tuple[str, int]:
    """Return a query without the words that ask for a person, and their number; "Wen" within it is a name."""
    first, look = query[:_FIRST_LETTERS].lower(), query[_FIRST_LETTERS:_LONGEST_LOOK]
    return _WHO.subn(" ", first + look)


def kinds_asked(query: str) -> Kind:
    """Return the kinds of values that would answer a query: a number for "How many?", a person for "Who?"."""
    return _kinds_in(query[:_LONGEST_LOOK], "asks")


def asks_whom(query: str) -> bool:
    """Return whether a query asks of whom something holds: "Who is allergic to nuts?", but not "Who is my dentist?"."""
    rest, found = _without_who(query)
    return bool(found) and _FIRST_PERSON.isdisjoint([word[0].lower() for word in _WORD.finditer(rest)])


def asks_whose(query: str) -> bool:
    """Return whether a query asks of whom somebody is the boss or the like: "Whose boss is Dan?" names no boss."""
    return _WHOSE.search(query[:_LONGEST_LOOK]) is not None


def negated(query: str) -> bool:
    """Return whether a query holds a word that may deny something, in any language: "Who is not vegetarian?"."""
    words = [word[0].lower().replace("’", "'") for word in _WORD.finditer(query[:_LONGEST_LOOK])]
    return any(word in _NOT or word.endswith("n't") for word in words)


@functools.cache
def asking_words() -> frozenset[str]:
    """Return the terms of words that belong to the asking rather than to its subject."""
    return frozenset(analyse(ASKING))


def asked_terms(query: str) -> list[str]:
    """Return the distinct terms of a query; of one that is not English, those with content and people if there are any.

    The analyser drops English function words, and no others: most are words of content in another language.
    """
    terms = list(dict.fromkeys(analyse(query)))
    if language_code(query) in ("", "en"):
        return terms
    telling = {*content_terms(query), *analyse(" ".join(people_asked(query)))}
    return [term for term in terms if term in telling] or terms


def content_terms(query: str) -> Collection[str]:
    """Return the terms of the words of a query that say what it is about, and do not belong to the asking."""
    return frozenset(analyse(" ".join(content_of(query[:_LONGEST_LOOK])))) - asking_words()


def kinds_held(said: Assertion) -> Kind:
    """Return the kinds of values that an assertion holds.

    A statement may hold a number, in digits or as a word. The kinds of a fact follow from the type of its value; those
    of a text also from the words of its concept's name, and from the beginning of its description.
    """
    if said.is_statement:
        return Kind.NUMBER if _holds_number(plain(said.data)) else Kind.NONE
    kinds = Kind.NONE
    union = said.shape.get("union") if isinstance(said.shape, dict) else None
    for shape in union or [said.shape]:
        scalar = scalar_of_shape(shape)
        if scalar is None or scalar.kind is ScalarKind.TEXT:
            kinds |= kinds_of_concept(said.keyword, said.description, holds_number=_holds_number(plain(said.data)))
        else:
            kinds |= _KINDS_OF_TYPES.get(scalar.kind, Kind.NONE)
    return kinds


def _holds_number(text: str) -> bool:
    """Return whether a text holds a digit or the word of a number."""
    return _NUMBER_IN_ASCII.occurs_in(text) if text.isascii() else _NUMBER_ANYWHERE.search(text) is not None


def tells_something(said: Assertion) -> bool:
    """Return whether an assertion tells something: a fact, enough words, or words that answer or correct others."""
    if not said.is_statement or any(item.before is not None for item in said.details.evidence):
        return True
    return tells(plain(said.data))


def tells_of_whom(text: str) -> Whom:
    """Return of whom a text tells, by its beginning: "I live in Graz", "My brother lives there", "Tom lives there"."""
    words = _first_words(text)
    if _begins_with_chain(words):
        return Whom.RELATIVE
    if not _FIRST_PERSON.isdisjoint(words[:1]):
        told = {found[0].lower() for found in _WORD.finditer(text[:_LONGEST_LOOK])}
        theirs = words[0] in _MINE and told & _FIRST_PERSON == {words[0]}
        beside = zip(words[1 : 2 + _BEFORE_RELATION], [*words[2:], ""], strict=False) if theirs else ()
        related = next(filter(None, (relation(word) for word, behind in beside if behind not in _THINGS)), None)
        if related is None:
            return Whom.ANYBODY if words[0] in _SEVERAL_OF_US else Whom.SPEAKER
        return Whom.ANYBODY if related in _MATTERS else Whom.RELATIVE
    return Whom.ANOTHER if tells_of_another(text, GIVEN_NAMES) else Whom.ANYBODY


def tells_of_chain(text: str) -> bool:
    """Return whether a text begins with a relative of a relative: "My sister's husband is a dentist"."""
    return _begins_with_chain(_first_words(text))


def _begins_with_chain(words: Sequence[str]) -> bool:
    first = next((at for at, word in enumerate(words) if relation(word)), len(words))
    return first <= _BEFORE_RELATION and _I.isdisjoint(words[:first]) and len(relatives_of(words)) > 1


def _first_words(text: str) -> list[str]:
    """Return the words of the first clause of a text, in lower case."""
    text = fluent(text[:_LONGEST_LOOK])
    lowered = folded(text)
    start = language_of(lowered).start_of(lowered)
    clause = next(iter(clause_spans(lowered, (start, len(lowered)))), (0, 0))
    return [found[0] for found in _WORD.finditer(unhyphenated(text[slice(*clause)].lower()))]


def ends_with_question(text: str) -> bool:
    """Return whether a text ends with a question mark."""
    return text.rstrip().endswith(QUESTION_MARKS)


def _kinds_in(text: str, name: str) -> Kind:
    """Return the kinds of which a text matches the pattern in a table."""
    kinds = Kind.NONE
    for kind, pattern in _patterns(name).items():
        if pattern.search(text):
            kinds |= kind
    return kinds


@functools.cache
def _patterns(name: str) -> dict[Kind, re.Pattern[str]]:
    return {Kind[kind]: lazy_pattern(pattern, re.IGNORECASE) for kind, pattern in _TABLE[name].items()}


@forgettable
@functools.lru_cache(maxsize=1024)
def kinds_of_concept(keyword: str, description: str, *, holds_number: bool) -> Kind:
    """Return the kinds named by a concept's keyword and the beginning of its description.

    Args:
        keyword: The keyword.
        description: The description.
        holds_number: Whether the value, a text, holds a number.
    """
    description = description.strip()
    named = f"{spaced(keyword)} {_REST.split(description, maxsplit=1)[0]}"
    kinds = (kinds_asked(description) & ~Kind.NUMBER) | _kinds_in(named, "named")
    return kinds | Kind.NUMBER if holds_number else kinds
