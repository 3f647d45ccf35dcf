"""Evidence: whether the words that a model quotes say a value plainly.

A value is plainly said if it stands, in its canonical form, in a plain statement of the speaker's own (see `plain`).
Whatever is not is a `Doubt` with its reason: it is asked, or waits.

- *Text, number, day, time, length*: said in figures or in words (see `factmem.detection.value_forms`).
- *Enumeration*: a member is said by its name or its value, and no other member.
- *Truth*: the words of the keyword are said, and denied once for what is false. "Yes" answers the message before.
- *Statement*, and other long text: all of its words that carry meaning stand in the sentence, with the same cues.
- *List, object, map*: each part is said, in one clause; so are the keys of a map, and the fields that a model gave,
  even if they are equal to their defaults. Nobody need say what it left out.

What stands neither in the message nor in the one that it answers is never asked: a name; a number, unless numbers in
words stand there, from which it may be worked out ("three dozen"); a day or a time, unless its day or its hour stands
there, or words from which it may be worked out ("in two weeks"); a length of time, unless any number or word for one
stands there. Numbers up to twelve may be counted, and are asked.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import itertools
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final, Literal

import attrs

from factmem.abc.detector import Doubt
from factmem.detection.plain_statements import NOT_SAID, SEVERAL, Citation, Manner, Reading, Topic
from factmem.detection.value_forms import (
    coming_places,
    day_places,
    digits_of,
    distances,
    length_places,
    number_places,
    number_words,
    text_places,
    time_places,
)
from factmem.detection.word_tables import search, table_named
from factmem.detection.words import Found, plain_words, words_of
from factmem.facts import STATEMENT, Concept
from factmem.shapes import bare_type
from factmem.toml_tables import table
from factmem.value_types import scalar_of
from factmem.values import Json, parts_of

_UNREAD: Final = "said in a language that is not recognized"
_BY_ANOTHER: Final = "said by somebody else"
_ENDED: Final = ("ended", "longer", "past", "deny")
"""Lists of cues that say that something is over."""
_LONG: Final = 6
"""A text of this number of words, or of twice as many characters of an unspaced script, is compared as a statement."""
_LONGEST_STATEMENT: Final = 400
_MOST_PLACES: Final = 16
_LONGEST_ANSWER: Final = 3
"""A "yes" or a "no" ends at this word at the latest."""
_SHORTEST_ROOT: Final = 4
_COUNTED: Final = 12
"""A number up to this one can be counted from words that name none: "my twins"."""
_OF_KEYWORDS: Final = frozenset(table("detection/plain_statements")["keywords"].split(", "))
"""Words of a keyword that a sentence need not have."""


def doubt_of(
    value: Any, concept: Concept[Any, Any], citation: Citation, *, given: Json = None, ended: bool = False
) -> Doubt | None:
    """Return why a value is not plainly said by a quote, or not plainly said to be over; None if it is.

    Args:
        value: the value.
        concept: its concept.
        citation: the quote.
        given: the JSON that the value was read from, which tells the fields that were given from those left to their
            defaults. None for a value whose fields are given if they differ from their defaults.
        ended: whether the value is said to be over.
    """
    judge = _Judge(concept, citation)
    if not ended and citation.passage.words and judge.is_nowhere(parts_of(value, given, defaults=False)):
        return Doubt("a name, a number or a date that nobody said", askable=False)
    return judge.doubt(parts_of(value, given), ended=ended)


def doubt_of_request(
    citation: Citation, concept: Concept[Any, Any] = STATEMENT, value: Any = None, given: Json = None
) -> Doubt | None:
    """Return why a quote does not plainly ask to forget something; None if it does.

    Args:
        citation: the quote.
        concept: the concept of the value, or of all values if none is given: the request has to name it.
        value: what is to be forgotten, if it is given in the quote's own words.
        given: its JSON; see `doubt_of`.
    """
    judge = _Judge(concept, citation)
    if (reading := judge.reading) is None or not citation.passage.words:
        return Doubt(_UNREAD, askable=True)
    if citation.of_another:
        return Doubt(_BY_ANOTHER, askable=True)
    if structure := reading.structure(judge.quoted):
        return Doubt(structure, askable=True)
    if (asked := reading.asked_to_forget(judge.sentence)) is not None:
        named = concept == STATEMENT or reading.topic.places(reading.words, *asked)
        if named if value is None else judge.is_said(value, given, asked):
            return None
    return Doubt("not a plain request to forget", askable=True)


def speaks_of_forgetting(citation: Citation) -> bool:
    """Return whether the sentence of a quote has a word for forgetting, or may have one."""
    judge = _Judge(STATEMENT, citation)
    return judge.reading is None or bool(judge.reading.entries("forget", *judge.sentence))


def is_said(value: Any, concept: Concept[Any, Any], citation: Citation, given: Json = None) -> bool:
    """Return whether the sentence of a quote has a value, whatever it says of it. See `doubt_of`."""
    judge = _Judge(concept, citation)
    return judge.is_said(value, given, judge.sentence)


@attrs.frozen
class _Judge:
    """Judge of the values of one concept in one citation."""

    concept: Concept[Any, Any]
    citation: Citation

    @functools.cached_property
    def reading(self) -> Reading | None:
        """The passage, read in its language; None if it has no table."""
        citation, language = self.citation, self.citation.language
        if language is None:
            return None
        concept = self.concept
        choices = (form for member in _members(concept.value_type) for form in _forms_of(member))
        topic = Topic.of(concept.keyword, concept.description, citation.names, language, choices)
        return Reading(citation, language, topic)

    @functools.cached_property
    def quoted(self) -> Found:
        """The positions of the first and the last word of the quote."""
        words, start = self.citation.passage.words, self.citation.quote[0]
        inside = [at for at in range(len(words)) if self.citation.passage.is_quoted(at, at)]
        inside = inside or [max(0, sum(word.end <= start for word in words) - 1)]  # a quote of spaces
        return inside[0], inside[-1]

    @functools.cached_property
    def sentence(self) -> Found:
        """The positions of the first and the last word of the quote's sentences."""
        return self.citation.passage.sentence(*self.quoted)

    def is_sentence(self, value: object) -> bool:
        """Return whether a value is compared as a whole sentence."""
        if not isinstance(value, str):
            return False
        longest = _LONG * (1 + (self.reading is not None and self.reading.language.is_unspaced))
        return self.concept.is_statement or len(plain_words(value)) >= longest

    def is_said(self, value: Any, given: Json, span: Found) -> bool:
        """Return whether a value is said within a span."""
        if self.is_sentence(value):
            return self.reading is not None and not self.reading.unsaid(value, span)
        return any(span[0] <= one and two <= span[1] for one, two in self.places(parts_of(value, given)))

    def doubt(self, value: Any, *, ended: bool = False) -> Doubt | None:
        """Return why a value is not plainly said, or not plainly said to be over; None if it is."""
        if not self.citation.passage.words:
            return Doubt(NOT_SAID, askable=True)
        if self.citation.of_another:
            return Doubt(_BY_ANOTHER, askable=not ended)
        if (reading := self.reading) is None:
            return Doubt(_UNREAD, askable=True)
        if self.is_sentence(value) and not ended:
            unsaid = len(value) > _LONGEST_STATEMENT or reading.unsaid(value, self.sentence)
            reason = NOT_SAID if unsaid else reading.reason_of_statement(self.sentence, words_of(value))
        elif isinstance(value, bool) and not ended:
            reason = self._reason_of_truth(value, reading)
        else:
            said_on = self.citation.said_on or dt.date.max  # what "was" on a later day is no longer planned
            dated = isinstance(value, dt.date) and value.timetuple()[:3] <= said_on.timetuple()[:3]
            granted = _ENDED if ended else ("past",) if dated else ()
            manner = Manner(granted=granted, whole=isinstance(value, list))
            reason = self._best(self.places(value), reading, lambda at: self._reason_at(at, value, reading, manner))
        return Doubt(reason, askable=True) if reason else None

    def _best(self, places: Iterable[Found], reading: Reading, reason_at: Callable[[Found], str | None]) -> str | None:
        """Return the reason of the first place whose clause is quoted, or None if one has none.

        Places in the quote count alone, if there are any.
        """
        is_quoted = self.citation.passage.is_quoted
        near = [place for place in places if is_quoted(*reading.clause(place))][:_MOST_PLACES]
        reasons = [reason_at(place) for place in near if is_quoted(*place)]
        reasons = reasons or [reason_at(place) for place in near] or [NOT_SAID]
        return None if None in reasons else reasons[0]

    def _reason_at(self, place: Found, value: Any, reading: Reading, manner: Manner) -> str | None:
        if (reason := next(reading.reasons(place, manner), None)) is not None:
            return reason
        match value:
            case _ if self._members_of(value):
                return self._reason_of_member(place, value, reading)
            case int() | float() | Decimal():
                return reading.reason_of_number(place, counts=True)
            case dt.date():
                return reading.reason_of_number(place, counts=False) or reading.reason_of_topic(place, choice=False)
            case dt.time() | dt.timedelta():
                return reading.reason_of_number(place, counts=False)
            case str():
                return reading.reason_of_text(place, value)
            case _:
                return None

    def _members_of(self, value: Any) -> Sequence[Any]:
        """Return the members of the enumeration that a value is from; none for other values."""
        return _members(type(value) if isinstance(value, enum.Enum) else self.concept.value_type)

    def _reason_of_member(self, place: Found, value: Any, reading: Reading) -> str | None:
        if (reason := reading.reason_of_topic(place, choice=True)) is not None:
            return reason
        rest = self.citation.passage.text[reading.words[place[0]].start :].lower()
        written = [text for text in map(_text_of_member, self._members_of(value)) if rest.startswith(text)]
        if written and max(written, key=len) != _text_of_member(value):  # "A+" is not "A-"
            return NOT_SAID
        clause = reading.clause(place)
        others = [form for member in self._members_of(value) if member != value for form in _forms_of(member)]
        said = self._member_places(set(others) - set(_forms_of(value)))
        return SEVERAL if any(clause[0] <= one <= clause[1] for one, _ in said if one != place[0]) else None

    def _reason_of_truth(self, value: bool, reading: Reading) -> str | None:
        """Return why a truth is not plainly said: at least half of its keyword's words have to stand in the clause."""
        keyword = [word for word in self.concept.keyword.lower().split("_") if word not in _OF_KEYWORDS]
        described = [word.text for word in words_of(self.concept.description)]
        asked = [[word, *(other for other in described if _is_among(other, (word,)))] for word in keyword]
        found = [places for words in asked if (places := reading.translated(words))]
        if 2 * len(found) >= len(keyword) and found:
            joint = functools.reduce(_joined, found)
            return self._best(joint, reading, lambda place: next(reading.reasons(place, Manner(truth=value)), None))
        answer = reading.language.find("yes" if value else "no", reading.words, 0, _LONGEST_ANSWER)
        if answer and self.quoted[0] <= answer[0][0] == 0 and reading.is_asked_for(asked):
            return next(reading.reasons(answer[0], Manner()), None)
        return NOT_SAID

    # Places

    def places(self, value: Any) -> list[Found]:
        """Return where the passage says a value in its canonical form."""
        passage, language = self.citation.passage, self.citation.language
        words, text = passage.words, passage.text
        match value:
            case _ if self._members_of(value):
                return self._member_places(_forms_of(value))
            case bool() | None:
                return []
            case int() | float() | Decimal():
                found = number_places(Decimal(str(value)), words, language)
                return found + (self.reading.numbered(value) if self.reading else [])
            case dt.datetime():
                return _joined(self._day_places(value.date()), time_places(value.time(), text, words, language))
            case dt.date():
                return self._day_places(value)
            case dt.time():
                return time_places(value, text, words, language)
            case dt.timedelta():
                return length_places(value, words, language)
            case list():
                places = [self.places(part) for part in value]
                return functools.reduce(_joined, places) if places and all(places) else []
            case _:
                return text_places(_text_of(value), words, language)

    def _day_places(self, day: dt.date) -> list[Found]:
        """Return where the passage says a day, by its date or by its distance from the day of the message."""
        citation, language = self.citation, self.citation.language
        words, asked, said_on = citation.passage.words, words_of(citation.asked), citation.said_on
        found = day_places(day, citation.passage.text, words, language, asked=asked, said_on=said_on)
        if found or language is None or day.year in (dt.MINYEAR, dt.MAXYEAR):  # the calendar ends there
            return found
        if said_on is not None:
            found = coming_places(day, said_on, words, language)
        for place, distance in distances(words, language):
            today = day - dt.timedelta(days=distance)
            near = (day_places(today, text, words_of(text), language) for text in (citation.text.text, citation.asked))
            if today == said_on or any(near):
                found.append(place)
        return found

    def _member_places(self, texts: Collection[str]) -> list[Found]:
        """Return where one of several texts is said, or a word of the language for it."""
        words, language = self.citation.passage.words, self.citation.language
        found = [place for text in texts for place in text_places(text, words, language)]
        return found or (self.reading.translated(texts) if self.reading else [])

    # What nobody said

    def is_nowhere(self, value: Any) -> bool:
        """Return whether a value has a name, a number or a day that neither the message nor the one before says."""
        match value:
            case _ if isinstance(value, bool) or value is None or self._members_of(value):
                return False
            case int() | float() | Decimal():
                counted = -_COUNTED <= value <= _COUNTED or "numbers" in self.amounts
                return not (counted or self._is_in_figures(value))
            case dt.timedelta():
                return not (self.amounts or self.figures)
            case dt.date() | dt.time():
                spelled = self.amounts - {"months"} if self.figures else self.amounts
                parts = (value.day,) if isinstance(value, dt.date) else (value.hour, value.hour % 12)
                return not (spelled or self.places(value) or any(map(self._is_in_figures, parts)))
            case list():
                return any(map(self.is_nowhere, value))
            case _:
                return self._has_unsaid_name(_text_of(value))

    def _is_in_figures(self, number: float | Decimal) -> bool:
        told = number_places(Decimal(str(number)), self.citation.heard, self.citation.language)
        return bool(told) or digits_of(str(number)) in self.figures

    @functools.cached_property
    def figures(self) -> set[str]:
        """The digits of the numbers in figures that were heard, and of what has no space between them."""
        chunks = f"{self.citation.asked} {self.citation.text.text}".split()
        return {*map(digits_of, chunks), *(digits_of(word.text) for word in self.citation.heard)} - {""}

    @functools.cached_property
    def amounts(self) -> set[str]:
        """The kinds of words for numbers and times that were heard, from which others may be worked out."""
        words, language = self.citation.heard, self.citation.language
        if language is None:
            return {"numbers"}
        lists = {"days": language.words("days"), "units": itertools.chain(*language.group("units").values())}
        lists |= {name: itertools.chain(*language.calendar(name)) for name in ("months", "weekdays")}
        found = {name for name, forms in lists.items() if search(language.pattern(forms), words)}
        return found | {"numbers" for word in words if word.text in number_words(language.name)}

    def _has_unsaid_name(self, text: str) -> bool:
        """Return whether a text has a name or a number that was not said, in any inflection."""
        words = [word for word in words_of(text) if not word.is_mark]
        named = words[0 if all(word.is_name for word in words) else 1 :]
        hard = {word.text for word in words if word.text[-1:].isdigit()} | {word.text for word in named if word.is_name}
        hard -= {text for text in hard if text[-1:].isdigit() and (self.amounts or digits_of(text) in self.figures)}
        if self.amounts:  # from which a date may be worked out
            hard.difference_update(*(entry.split() for entry in table_named("en").words("months")))
        said = {word.text for word in self.citation.heard}
        return not all(_is_among(word, said) for word in hard - self.citation.names)


def _members(value_type: Any) -> Sequence[Any]:
    """Return the members of an enumeration; none for other types."""
    value_type = bare_type(value_type)
    if isinstance(value_type, type) and issubclass(value_type, enum.Enum):
        return list(value_type)
    return typing.get_args(value_type) if typing.get_origin(value_type) is Literal else ()


def _forms_of(member: Any) -> list[str]:
    """Return the texts in which a member of an enumeration may be said: its name, its value."""
    values = [member.value, member.name] if isinstance(member, enum.Enum) else [member]
    spelled = (str(value).replace("_", " ").replace("-", " ").strip() for value in values)
    return list(dict.fromkeys(text.lower() for text in spelled if text))


def _text_of_member(member: Any) -> str:
    return str(member.value if isinstance(member, enum.Enum) else member).lower()


def _text_of(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    scalar = scalar_of(type(value))
    return str(scalar.write(value) if scalar is not None and scalar.write is not None else value)


def _joined(ones: Iterable[Found], others: Sequence[Found]) -> list[Found]:
    """Return the places that hold one of each of two kinds."""
    return [(min(one[0], two[0]), max(one[1], two[1])) for one in ones for two in others][:_MOST_PLACES]


def _is_among(word: str, said: Collection[str]) -> bool:
    """Return whether a word is among others, or begins like one of them; a number has to be a part of one."""
    if word in said:
        return True
    if any(map(str.isdigit, word)):
        return any(word in one for one in said)
    root = word[: min(_SHORTEST_ROOT, max(_SHORTEST_ROOT - 1, len(word) - 1))]
    return any(one.startswith(root) and abs(len(one) - len(word)) <= _SHORTEST_ROOT for one in said)
