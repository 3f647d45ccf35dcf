"""Known values that words mean: those that are over, that are to be forgotten, or to which items are added."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

import attrs

from factmem.abc import Candidate
from factmem.abc.detector import Doubt
from factmem.class_fields import fields_of
from factmem.detection.words import plain_words
from factmem.facts import STATEMENT, Fact, FactType
from factmem.languages import folded, language_of

_COLLECTIONS: Final = (dict, list, set, frozenset)
"""Types of values whose items end, and are added, one by one."""

_IN_OTHER_WORDS: Final = Doubt("known in other words", askable=True)


def means(wish: Candidate, fact: Fact[Any]) -> bool:
    """Return whether a wish to forget means a value of a typed fact."""
    return any(end.fact.concept != STATEMENT for end in ends_of(wish, [fact]))


def ends_of(end: Candidate, known: Sequence[Fact[Any]]) -> list[Candidate]:
    """Return an end of each known value that a candidate means.

    If it names no value, it means all of them. Of a SINGLE, only the last value that is said before it is known. It
    names the values that are equal, have the same text, or a field with it, whatever the case. One that names items of
    a collection stays as it is; see `ItemChanges`. A value that is known in other words is meant with a doubt. One that
    is not known may be stated by other words, which are read at the same time or later. A wish to forget it goes by its
    words as well, and by these alone where a SINGLE has another value, or where it names no value and none is known.
    """
    at = end.fact.timestamp
    in_order = sorted(known, key=lambda fact: (fact.timestamp <= at, fact.timestamp))  # what is said later first
    values = [(fact.concept, value) for fact in in_order for value in fact.values]
    current = [it for it in values[:-1] if it[0].fact_type is FactType.MULTIPLE] + values[-1:]
    if end.cleared is not None and end.fact.concept == STATEMENT:
        meant, doubt = current, end.doubt
    else:
        named = end.fact.values[0]
        text, wanted = folded(str(named)), _terms(named)
        meant = [it for it in current if it[1] == named or text in map(folded, _texts(it[1]))]
        doubt = end.doubt
        if not meant and any(
            _without(value, named) is not None for of, value in values if of.fact_type is FactType.SINGLE
        ):
            return [end, _in_words(end)] if end.removed else [end]  # see `ItemChanges`
        if not meant and end.removed:
            typed = end.cleared is None and not (values and end.fact.concept.fact_type is FactType.SINGLE)
            return [*([end] if typed else []), _in_words(end)]
        if not meant:
            single = (it for it in current if not isinstance(it[1], _COLLECTIONS))  # an item is no whole
            meant = [it for it in single if (held := _terms(it[1])) and wanted and (held <= wanted or wanted <= held)]
            doubt = doubt or _IN_OTHER_WORDS
    if not meant:
        return [end] if end.cleared is None or end.removed else []
    facts = (concept.fact([value], timestamp=end.fact.timestamp) for concept, value in meant)
    return [attrs.evolve(end, fact=fact, cleared=None, doubt=doubt) for fact in facts]


@attrs.define
class ItemChanges:
    """Changes of items in known collections, one after the other.

    An item that is over or to be forgotten leaves a known collection, and items that are said beside it ("I also speak
    Dutch") join it. Other values take its place.
    """

    _held: dict[Hashable, Any] = attrs.field(factory=dict, init=False)

    def changed(self, candidate: Candidate, track: Hashable, known: Callable[[], Iterable[Fact[Any]]]) -> Candidate:
        """Return a candidate with the whole collection; the same one if it is about none. A doubted one changes none.

        Args:
            candidate: The candidate, in the order said.
            track: The track of its values.
            known: Returns what is current there.
        """
        concept, value, doubt = candidate.cleared or candidate.fact.concept, candidate.fact.values[-1], candidate.doubt
        ended = candidate.ended or candidate.removed
        if concept.fact_type is not FactType.SINGLE or not (ended or isinstance(value, _COLLECTIONS)):
            return candidate
        if track not in self._held:
            values = (fact.values[-1] for fact in known())
            self._held[track] = next((held for held in values if isinstance(held, _COLLECTIONS)), None)
        held = self._held[track]
        left = _without(held, value) if ended else _united(held, value, candidate.details.evidence[0].quote)
        if left is None:
            return candidate
        after = attrs.evolve(
            candidate, fact=concept.fact([left or held], timestamp=candidate.fact.timestamp), cleared=None
        )
        if ended and left:
            after = attrs.evolve(after, ended=False, removed=False)
        if doubt is None:
            self._held[track] = left
        elif candidate.ended and left:
            after = attrs.evolve(after, doubt=attrs.evolve(doubt, reason=f"would end this: {doubt.reason}"))
        return after


def _in_words(wish: Candidate) -> Candidate:
    """Return a wish to forget that goes by its words."""
    fact = STATEMENT.fact([wish.details.evidence[0].quote], timestamp=wish.fact.timestamp)
    return attrs.evolve(wish, fact=fact, cleared=None)


def _without(held: Any, named: Any) -> Any | None:
    """Return a collection without the items that a value names, by an equal item or its text; None if it has none."""
    names = list(named) if isinstance(named, _COLLECTIONS) else [named]
    texts = {folded(str(name)) for name in names}
    left: Any = None
    match held:
        case dict():
            left = {key: item for key, item in held.items() if folded(str(key)) not in texts}
        case list() | set() | frozenset():
            left = type(held)(
                item for item in held if item not in names and texts.isdisjoint(map(folded, _texts(item)))
            )
    return left if left is not None and left != held else None


def _united(held: Any, items: Any, quote: str) -> Any:
    """Return the items of both collections if the second is said beside the first; else the second."""
    lowered = folded(quote)
    language = language_of(lowered)
    if type(items) is not type(held) or not language.finds("beside", lowered) or language.finds("only", lowered):
        return items
    if isinstance(items, list):
        return [*held, *(item for item in items if item not in held)]
    return held | items


def _terms(value: object) -> frozenset[str]:
    """Return the words of a value."""
    return frozenset(word for text in _texts(value) for word in plain_words(text))


def _texts(value: object) -> list[str]:
    """Return the text of a value, or those of the fields of one of a class."""
    fields = fields_of(type(value))
    if fields is None:
        return [str(value)]
    return [item for field in fields if isinstance(item := getattr(value, field.name), str)]
