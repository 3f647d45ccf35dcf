"""Known values that words mean: those that are over, that are to be forgotten, or to which items are added."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from factmem.abc import Candidate
from factmem.abc.detector import Doubt
from factmem.class_fields import fields_of
from factmem.detection.words import words_of
from factmem.facts import STATEMENT, Concept, Fact, FactType
from factmem.sentences import folded, language_of

COLLECTIONS: Final = (dict, list, set, frozenset)
"""Types of values that have items, which are over or added one by one."""

_IN_OTHER_WORDS: Final = Doubt("known in other words", askable=True)


def means(wish: Candidate, fact: Fact[Any]) -> bool:
    """Return whether a wish to forget means a value of a typed fact."""
    return any(end.fact.concept != STATEMENT for end in ends_of(wish, [fact]))


def ends_of(end: Candidate, known: Sequence[Fact[Any]]) -> list[Candidate]:
    """Return an end of each known value that a candidate means.

    If it names no value, it means all of them; only the last one of a SINGLE. It names the values that are equal, have
    the same text, or a field with it, whatever the case. Of a collection it may name items: the others are
    its new value. A value that is known in other words is meant with a doubt. One that is not known may be stated by
    other words, which are read at the same time or later. A wish to forget it goes by its words as well, and by these
    alone where a SINGLE has another value.
    """
    values = [(fact.concept, value) for fact in known for value in fact.values]
    if end.cleared is not None and end.fact.concept == STATEMENT:
        meant, doubt = values if end.cleared.fact_type is FactType.MULTIPLE else values[-1:], end.doubt
    else:
        named = end.fact.values[0]
        text, wanted = folded(str(named)), _terms(named)
        meant = [it for it in values if it[1] == named or text in map(folded, _texts(it[1]))]
        doubt = end.doubt
        if not meant and (fewer := _with_fewer_items(end, values[-1:])) is not None:
            return [fewer, _in_words(end)] if end.removed else [fewer]
        if not meant and end.removed:
            typed = end.cleared is None and not (values and end.fact.concept.fact_type is FactType.SINGLE)
            return [*([end] if typed else []), _in_words(end)]
        if not meant:
            meant = [it for it in values if (held := _terms(it[1])) and wanted and (held <= wanted or wanted <= held)]
            doubt = doubt or _IN_OTHER_WORDS
        if not meant:
            return [end] if end.cleared is None else []
    facts = (concept.fact([value], timestamp=end.fact.timestamp) for concept, value in meant)
    return [attrs.evolve(end, fact=fact, cleared=None, doubt=doubt) for fact in facts]


def with_known_items(added: Candidate, known: Sequence[Fact[Any]]) -> Candidate:
    """Return a candidate with the items of both, if it is said beside the known collection: "I also speak Dutch"."""
    (*_, items), quote = added.fact.values, added.details.evidence[0].quote
    held: Any = known[-1].values[-1] if known else None
    if type(items) is not type(held) or not language_of(quote).finds("beside", quote):
        return added
    both: Any
    match items:
        case dict():
            both = {**held, **items}
        case set() | frozenset():
            both = held | items
        case list():
            both = [*held, *(item for item in items if item not in held)]
        case _:
            return added
    return _with_value(added, added.fact.concept, both)


def _in_words(wish: Candidate) -> Candidate:
    """Return a wish to forget that goes by its words."""
    fact = STATEMENT.fact([wish.details.evidence[0].quote], timestamp=wish.fact.timestamp)
    return attrs.evolve(wish, fact=fact, cleared=None)


def _with_fewer_items(end: Candidate, values: Iterable[tuple[Concept[Any, Any], Any]]) -> Candidate | None:
    """Return a known collection without the items that an end names, or its end if none is left; None without any."""
    named = end.fact.values[0]
    names = {folded(str(item)) for item in (named if isinstance(named, COLLECTIONS) else [named])}
    for concept, value in values:
        left: Any = value
        match value:
            case dict():
                left = {key: item for key, item in value.items() if folded(str(key)) not in names}
            case list() | set() | frozenset():
                left = type(value)(item for item in value if names.isdisjoint(map(folded, _texts(item))))
        if left != value:
            change = _with_value(end, concept, left or value)
            return attrs.evolve(change, cleared=None, ended=not left and end.ended, removed=not left and end.removed)
    return None


def _with_value(candidate: Candidate, concept: Concept[Any, Any], value: object) -> Candidate:
    return attrs.evolve(candidate, fact=concept.fact([value], timestamp=candidate.fact.timestamp))


def _terms(value: object) -> frozenset[str]:
    """Return the words of a value."""
    return frozenset(word.text for text in _texts(value) for word in words_of(text) if not word.is_mark)


def _texts(value: object) -> list[str]:
    """Return the text of a value, or those of the fields of one of a class."""
    fields = fields_of(type(value))
    if fields is None:
        return [str(value)]
    return [item for field in fields if isinstance(item := getattr(value, field.name), str)]
