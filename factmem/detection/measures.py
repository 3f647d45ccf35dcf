"""Measures: whether a number counts what a concept asks for.

"I'm 18 months sober" tells no age, and "160 pounds" no weight in kilograms. The unit behind a number is compared with
the one that the concept names, or with the dimension that its words belong to. A concept that asks "how many" takes
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from factmem.detection.clauses import Clause
from factmem.detection.numerals import Number
from factmem.detection.passages import Word, word_set
from factmem.detection.stances import Leaning

__all__ = ["counts_something_else", "measures_thing"]

_UNITS: Final = {
    "time": {
        **dict.fromkeys(("second", "sec"), 1),
        **dict.fromkeys(("minute", "min"), 60),
        **dict.fromkeys(("hour", "hr"), 3_600),
        "day": 86_400,
        "week": 604_800,
        "month": 2_592_000,
        "year": 31_536_000,
    },
    "mass": {
        **dict.fromkeys(("gram", "g"), 1),
        **dict.fromkeys(("kilogram", "kilo", "kg"), 1_000),
        **dict.fromkeys(("pound", "lb"), 454),
        "stone": 6_350,
        **dict.fromkeys(("tonne", "ton"), 1_000_000),
    },
    "length": {
        **dict.fromkeys(("centimetre", "centimeter", "cm"), 1),
        **dict.fromkeys(("inch", "inche"), 3),
        **dict.fromkeys(("foot", "feet"), 30),
        **dict.fromkeys(("metre", "meter"), 100),
        **dict.fromkeys(("kilometre", "kilometer", "km"), 100_000),
        "mile": 161_000,
    },
    "money": {
        **dict.fromkeys(("euro", "dollar", "pound", "buck", "quid", "€", "$", "£", "eur", "usd", "gbp"), 100),
        **dict.fromkeys(("cent", "penny", "pence"), 1),
    },
    "share": {**dict.fromkeys(("percent", "%", "pct"), 1)},
}
"""Units by dimension, each with its size; only whether two are equal is asked."""
_ASKED: Final = {
    "time": word_set("age durat time year month week day hour minut second tenur length long experi"),
    "mass": word_set("weight weigh mass kilogram kilo kg pound lb"),
    "length": word_set("height tall distanc far length kilometr kilomet metr meter mile cm"),
    "money": word_set("budget price cost salari rent fee incom pay amount spend spent money debt discount revenu"),
    "share": word_set("discount rate share percent percentag probabl"),
}
"""Stems of concepts, by the dimension of their numbers."""
_OF_BODIES: Final = word_set("age weight weigh height tall birthday scale scales clock bmi")
_DETERMINERS: Final = word_set("my our the this that")
_SPEAKERS: Final = word_set("i me we i'm i've i'd we're")
_COUNTED: Final = word_set("mani number count")
_PARTS_OF_MONEY: Final = ("cent", "penny", "pence")


def counts_something_else(words: Sequence[Word], number: Number, leaning: Leaning) -> bool:
    """Return whether the words around a number give it another unit than the concept asks for.

    Args:
        words: the words.
        number: a number that they say.
        leaning: the leaning of the concept.
    """
    unit = _unit_behind(words, number)
    held = {name for name, units in _UNITS.items() if unit in units}
    asked = {name for name, stems in _ASKED.items() if leaning.stems & stems}
    if not held and asked and _people_behind(words, number):
        return True
    if not held:
        return _counts_other_things(words, number, leaning)
    if held & asked:
        return all(_differs(unit, name, leaning) for name in held & asked)
    return bool(asked) or bool(leaning.stems & _COUNTED)


def measures_thing(clause: Clause) -> bool:
    """Return whether a clause gives the size or the age of a thing, where that of a person is asked for."""
    opening, named = clause.text(clause.start), clause.start + 1
    if not clause.leaning.stems & _OF_BODIES or opening not in _DETERMINERS or named >= clause.first:
        return False
    between = set(clause.texts(named, clause.first))
    thing = clause.passage.words[named]
    return thing.stem not in clause.leaning.stems | _OF_BODIES and not between & _SPEAKERS


def _unit_behind(words: Sequence[Word], number: Number) -> str:
    behind = [word.text for word in words[number.last : number.last + 3]]
    if len(behind) > 1 and behind[0] in ("%", "percent"):
        return "%"
    unit = behind[2] if len(behind) > 2 and behind[1] == "-" else behind[1] if len(behind) > 1 else ""
    return unit if unit in ("feet", "%", "€", "$", "£") else unit.removesuffix("s")


def _people_behind(words: Sequence[Word], number: Number) -> bool:
    return [word.text for word in words[number.last + 1 : number.last + 2]] in (["people"], ["guests"], ["employees"])


def _differs(unit: str, dimension: str, leaning: Leaning) -> bool:
    """Return whether a concept names another unit of the dimension than the one said."""
    sizes = _UNITS[dimension]
    named = {size for name, size in sizes.items() if leaning.stems & {name, f"{name}s"}}
    named = named or ({100} if dimension == "money" and unit in _PARTS_OF_MONEY else set())
    return bool(named) and sizes[unit] not in named


def _counts_other_things(words: Sequence[Word], number: Number, leaning: Leaning) -> bool:
    """Return whether a number counts other things than those asked for, which the passage names elsewhere."""
    if not leaning.stems & _COUNTED or number.last + 1 >= len(words):
        return False
    counted = words[number.last + 1]
    things = {word.stem for word in words if word.text.endswith("s") and word.stem in leaning.stems}
    near = {word.stem for word in words[number.last + 1 : number.last + 4]}
    return counted.text.endswith("s") and counted.text.isalpha() and bool(things) and not near & things
