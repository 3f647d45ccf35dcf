"""Signs by which a record fits a query: read from English texts by patterns, linear in their length.

A query may ask for a kind of value, such as a number or a person, or for the assistant's own words. A record may hold
a value of that kind, or end with a question. `factmem.recall.scoring` weighs
them.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import Any, Final, assert_never

from factmem.facts import STATEMENT
from factmem.patterns import LinearPattern, lazy_pattern
from factmem.recall.text.analysis import analyse, plain, spaced
from factmem.records import Assertion
from factmem.scalars import ScalarKind, scalar_of_shape
from factmem.wording import QUESTION_MARKS

__all__ = [
    "Kind",
    "asking_words",
    "asks_for_assistant",
    "capitalized",
    "ends_with_question",
    "kinds_asked",
    "kinds_held",
    "kinds_of_concept",
    "nameless",
]

_LONGEST_LOOK: Final = 4096
"""Number of characters of a query that are searched; this runs on the event loop."""

_YOU: Final = frozenset("you you've you'd du Sie ihr tu vous tú usted ustedes você vocês jij je u ты вы 你 您".split())  # noqa: SIM905
"""The second person as a subject, by itself; "Sie" not at the beginning."""

_I: Final = frozenset("i i've i'd i'm we we've ich wir je j'ai nous yo eu ik я мы 我".split())  # noqa: SIM905
"""The first person as a subject: a second person soon after it is an object."""

_NO_SUBJECT: Final = frozenset(
    """can could would will do don't may might should kannst können könnt könntest könnten würdest würden weißt wissen
    peux pouvez pourrais pourriez sais savez puedes puede podrías podría sabes sabe pode poderia kun kunt zou можешь
    можете мог могли 能 可以 for to with of about from by than on at in like as if when let thank help für mit von bei
    wenn pour avec de si para con por cuando voor met van als для с о если""".split()  # noqa: SIM905
)
"""Words before the second person in a request ("Can you …"), or where it is an object."""

_OURS: Final = lazy_pattern(
    r"\bremind me\b|\bour (?:previous|last|earlier|past) (?:chat|conversation|discussion|session|talk)\b", re.IGNORECASE
)
_WORD: Final = lazy_pattern(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_ASKS_NUMBER: Final = lazy_pattern(
    r"\b(?:how (?:many|much|long|often|old|far|tall|big|fast)|percentage|percent|total|number of|count|cost|price"
    r"|amount|score|what time|phone number|discount|ratio|older)\b",
    re.IGNORECASE,
)
_NUMBER: Final = (
    r"(?i)\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twenty|thirty|forty|fifty|hundred"
    r"|thousand|once|twice|first|second|third|couple|half)\b"
)
_NUMBER_IN_ASCII: Final = LinearPattern(_NUMBER)
_NUMBER_ANYWHERE: Final = lazy_pattern(_NUMBER)  # the engines differ in the letters of some scripts
_KIND_WORDS: Final = {
    "PERSON": "person|people|someone|somebody|friend|husband|wife|spouse|partner|brother|sister|sibling|mother|father"
    "|parent|child|children|son|daughter|neighbou?r|landlord|roommate|manager|boss|supervisor|leader|owner|contact|colleague"
    "|engineer|maintainer|reviewer|author|speaker|doctor|physician|practitioner|dentist|therapist|teacher|lawyer|coach|host"
    "|customer|client|supplier|vendor|provider|insurer|caterer|sponsor|company|team|craftsman|plumber|electrician",
    "PLACE": "place|location|address|city|town|village|country|region|street|room|office|building|venue|site"
    "|destination|accommodation|hotel|restaurant|school|branch|folder|directory|path|url|database|server",
    "TIME": "date|day|weekday|month|year|time|hour|deadline|start|end|birthday|anniversary|departure|arrival|season"
    "|schedule|since|until",
}
"""Words of concepts whose text values are of a kind."""

_ASKS_KIND: Final = {
    "PERSON": r"\bwho(?:m|se)?\b",
    "PLACE": r"\bwhere\b|\b(?:which|what) (?:\w+ )?(?:place|city|town|country|street|address|room|building)\b",
    "TIME": r"\bwhen\b|\b(?:which|what) (?:day|date|weekday|month|year|time|hour)\b|\bhow (?:old|long)\b",
    "TRUTH": r"^\W*(?:am|is|are|was|were|do|does|did|has|have|had|can|could|may|must|shall|should|will|would)\b",
}
_REST: Final = lazy_pattern(r"\b(?:of|in|at|on|to|for|from|by|with|that|which|the user|who(?!$))\b")
"""End of the part of a description that names the value."""


class Kind(enum.IntFlag):
    """Kinds of values that questions ask for."""

    NONE = 0
    NUMBER = enum.auto()
    PERSON = enum.auto()
    PLACE = enum.auto()
    TIME = enum.auto()
    TRUTH = enum.auto()
    """Yes or no."""


def asks_for_assistant(query: str) -> bool:
    """Return whether a query asks for the assistant's words: the second person is a subject, and not in a request."""
    look = query[:_LONGEST_LOOK]
    if _OURS.search(look):
        return True
    words = [found[0].replace("’", "'") for found in _WORD.finditer(look)]
    for at, word in enumerate(words):
        before = [other.lower() for other in words[max(at - 2, 0) : at]]
        you = (word if before and word == "Sie" else word.lower()) in _YOU
        if you and not (_NO_SUBJECT.intersection(before[-1:]) or _I.intersection(before)):
            return True
    return False


def capitalized(query: str) -> list[str]:
    """Return the capitalized words of a query, which may be names; its first word and "I" are left out."""
    return [word for word in query.split(" ")[1:] if word[:1].isupper() and word[1:2].isalpha()]


def nameless(query: str) -> str:
    """Return a query without its `capitalized` words."""
    left_out = set(capitalized(query))
    first, *rest = query.split(" ")
    return " ".join([first, *[word for word in rest if word not in left_out]]) if left_out else query


def kinds_asked(query: str) -> Kind:
    """Return the kinds of values that would answer a query: a number for "How many?", a person for "Who?"."""
    look = query[:_LONGEST_LOOK]
    kinds = Kind.NUMBER if _ASKS_NUMBER.search(look) else Kind.NONE
    for kind, pattern in _asking_patterns().items():
        if pattern.search(look):
            kinds |= kind
    return kinds


@functools.cache
def asking_words() -> frozenset[str]:
    """Return the terms of words that belong to the asking rather than to its subject."""
    return frozenset(
        analyse(
            "many much total number amount times time often kind type sort name tell know think remind remember please "
            "want wanted confirm previous conversation chat discussion earlier mention mentioned going looking back "
            "said say told wondering question ask asked specific exactly possibly likely can could"
        )
    )


def kinds_held(said: Assertion) -> Kind:
    """Return the kinds of values that an assertion holds.

    A statement may hold a number, in digits or as a word. The kinds of a fact follow from the type of its value; those
    of a text also from the words of its concept's name, and from the beginning of its description.
    """
    holds_number = _holds_number(plain(said.data))
    if said.keyword == STATEMENT.keyword:
        return Kind.NUMBER if holds_number else Kind.NONE
    kinds = Kind.NONE
    for shape in _shapes(said.shape):
        scalar = scalar_of_shape(shape)
        kind = ScalarKind.TEXT if scalar is None else scalar.kind
        match kind:
            case ScalarKind.TRUTH:
                kinds |= Kind.TRUTH
            case ScalarKind.TIME:
                kinds |= Kind.TIME
            case ScalarKind.NUMBER:
                kinds |= Kind.NUMBER
            case ScalarKind.SUBJECT:
                kinds |= Kind.PERSON
            case ScalarKind.NOTHING:
                pass
            case ScalarKind.TEXT:
                kinds |= kinds_of_concept(said.keyword, said.description) | (Kind.NUMBER if holds_number else Kind.NONE)
            case _:
                assert_never(kind)
    return kinds


def _holds_number(text: str) -> bool:
    """Return whether a text holds a digit or the word of a number."""
    return _NUMBER_IN_ASCII.occurs_in(text) if text.isascii() else _NUMBER_ANYWHERE.search(text) is not None


def ends_with_question(text: str) -> bool:
    """Return whether a text ends with a question mark."""
    return text.rstrip().endswith(QUESTION_MARKS)


@functools.cache
def _asking_patterns() -> dict[Kind, re.Pattern[str]]:
    return {Kind[name]: lazy_pattern(pattern, re.IGNORECASE) for name, pattern in _ASKS_KIND.items()}


@functools.cache
def _naming_patterns() -> dict[Kind, re.Pattern[str]]:
    return {Kind[name]: lazy_pattern(rf"\b(?:{words})s?\b", re.IGNORECASE) for name, words in _KIND_WORDS.items()}


def _shapes(shape: Any) -> list[Any]:
    union = shape.get("union") if isinstance(shape, dict) else None
    return union or [shape]


@functools.lru_cache(maxsize=1024)
def kinds_of_concept(keyword: str, description: str) -> Kind:
    """Return the kinds named by a concept's keyword and the beginning of its description."""
    description = description.strip()
    kinds = kinds_asked(description) & ~Kind.NUMBER
    named = f"{spaced(keyword)} {_REST.split(description, maxsplit=1)[0]}"
    for kind, pattern in _naming_patterns().items():
        if pattern.search(named):
            kinds |= kind
    return kinds
