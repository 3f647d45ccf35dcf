"""Support: whether the words that a model quotes say the value that it gives.

A value is looked for in the quote, then in the rest of its sentence (see `passages`, `numerals`, `times_said`,
`spellings`); where it stands, `polarity` judges whether it is stated, denied, asked or quoted. A value that is stated
may still be meant in another way: `senses` looks at words, `measures` at numbers, `occasions` at days and hours. The
rules, by the type of the value:

- *Text*: all of its words are said, in any inflection, or most of them if the others are neither names nor numbers. A
  short text that shares a part, or is another word for something (see `paraphrases`), is unclear.
- *Statement*, and other long text: half of its words are said, at least one of them in the passage; each name and each
  number is the speaker's, or a day that the message's date gives.
- *Number*: said in digits or words, with its scale; a sum, a product or an age worked out from what is said is unclear.
- *Day, time, length*: said, as seen from the message's date (see `times_said`).
- *Enumeration*: a member is said by its name or its value. Another member said in its place refutes it; with two
  members, the one that is denied leaves the other. Other words are looked up, and else unclear.
- *Truth*: what the concept is about is said, and affirmed or denied as the value has it. "Yes" answers the message
  before.
- *List, object, map*: each item by itself; the worst counts.

What cannot be decided by words is `Stance.UNCLEAR`: kept, and not believed. In a language other than English, what is
not found is unclear as well; a value that is copied stands in any script.

A quote of a single word proves nothing but the value that it holds itself.
"""

from __future__ import annotations

import bisect
import datetime as dt
import decimal
import enum
import functools
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

import attrs

from factmem.detection.bystanders import THIRD_PERSONS
from factmem.detection.clauses import Clause
from factmem.detection.measures import counts_something_else, measures_thing
from factmem.detection.negation import negations_in
from factmem.detection.numerals import Number, numbers_in
from factmem.detection.occasions import is_anniversary, is_of_another_occasion, is_over
from factmem.detection.paraphrases import paraphrases_of
from factmem.detection.passages import Passage, Word, folded, is_foreign, word_set, words_of
from factmem.detection.polarity import stance_of
from factmem.detection.senses import is_in_another_sense, qualifies_another_noun
from factmem.detection.spellings import derived_from, misspellings_of, other_forms_of, respellings_of, with_other_ending
from factmem.detection.stances import Leaning, Stance
from factmem.detection.times_said import Found, days_in, lengths_in, times_in
from factmem.detection.written_days import days_written, parts_of
from factmem.facts import STATEMENT, Concept
from factmem.scalars import scalar_of

__all__ = ["Citation", "is_enough", "support_of"]

_LONG: Final = 6
"""A text of this number of words that carry meaning is read as a statement."""
_MOST_WORDS: Final = 400
"""Maximum number of words of a value that are compared."""
_MOST_PLACES: Final = 8
"""Maximum number of places of a value that are judged."""
_EMPTY: Final = word_set(
    "a an the of in on at for to and or with by from as is are was were be been being has have had do does did"
    " will would can could should may their his her its my our your he she they it i we you them him this that"
    " these those who which whom there here than then so very also just about into over under up out more most"
    " some any each per user users user's person speaker's someone somebody they're he's she's i'm i've it's not"
    " no never n't old years year's currently now their's whose where when while if because via using uses used"
    " called named prefers likes wants percent lives living based located assistant whether how what"
)
"""Words that tell nothing by themselves, or that models add to a value."""
_COINS: Final = {
    **dict.fromkeys(("$", "usd", "dollar", "dollars", "bucks"), "usd"),
    **dict.fromkeys(("€", "eur", "euro", "euros"), "eur"),
    **dict.fromkeys(("£", "gbp", "pound", "pounds", "quid"), "gbp"),
    **dict.fromkeys(("¥", "jpy", "yen"), "jpy"),
    **dict.fromkeys(("₹", "inr", "rupee", "rupees"), "inr"),
}
_YES: Final = word_set(
    "yes yeah yep yup sure correct right exactly indeed definitely absolutely certainly ok okay true affirmative"
    " ja oui si sí sim да はい 是 是的 对 네 예 course"
)
_NO: Final = word_set("no nope nah never false negative nein non não нет いいえ 不 不是 아니요 아니")
_AGAINST: Final = word_set(
    "dislik hate avoid allerg allergi intoler quit stop cancel sold left former previous past lack without refus"
    " reject against end unsubscrib disabl remov off mute unhappi detest miss longer deni declin opt out gave"
)
"""Stems of words that hold a denial."""
_OPPOSITES: Final = {
    "married": ("single", "divorced", "widowed", "bachelor"),
    "remote": ("office", "onsite"),
    "vegetarian": ("meat", "steak", "bacon"),
    "employed": ("unemployed", "jobless"),
    "open": ("closed",),
    "active": ("inactive",),
    "available": ("busy", "unavailable"),
    "alone": ("wife", "husband", "roommate", "roommates", "family"),
    "full": ("part",),
    "beginner": ("expert",),
}
"""Words for which another one stands in place of a denial."""
_ASKS: Final = word_set("ask wonder want request question inquir interest consid plan know look seek need curious")
_FACTORS: Final = (2, 3, 4, 5, 7, 10, 12, 24, 30, 52, 60, 100, 365, 1_000, 1_024, 3_600, 1_000_000)
"""Ratios of units and counts by which a model may have converted a number."""
_FEWEST_PAIRS: Final = 3
_OWN: Final = word_set("i my me we our us mine i'm i've i'd i'll we're we've we'd")
_LIKED: Final = word_set("like love enjoy prefer favourit favorit")
_UNTYPED: Final = ("true", "false", "yes", "no")

_Type: TypeAlias = Any  # the type of a value, made at run time
_Doubt: TypeAlias = Callable[[Clause], bool]


def _no_doubt(clause: Clause) -> bool:
    return False


def _is_another_member(clause: Clause) -> bool:
    return qualifies_another_noun(clause) or is_in_another_sense(clause)


@attrs.frozen(kw_only=True)
class Citation:
    """A quote with what is needed to judge it.

    Attributes:
        passage: the words around it.
        said_at: time of its message.
        heard: the stems of all words of the same speaker that the model was shown.
        asked: the message that the quote answers, if one went before.
        names: folded words that name the subjects and the speaker.
    """

    passage: Passage
    said_at: dt.datetime
    heard: frozenset[str] = attrs.field(default=frozenset(), repr=False)
    asked: str = attrs.field(default="", repr=False)
    names: frozenset[str] = frozenset()

    @functools.cached_property
    def numbers(self) -> tuple[Number, ...]:
        """The numbers that the passage says."""
        return tuple(numbers_in(self.passage.words))

    @property
    def quoted(self) -> str:
        """The quote itself."""
        return self.passage.text[slice(*self.passage.quote)]


def is_enough(citation: Citation) -> bool:
    """Return whether a quote has two words, or two characters of a script without spaces."""
    passage = citation.passage
    quoted = [word.text for at, word in enumerate(passage.words) if passage.is_quoted(at) and not word.is_mark]
    return len(quoted) > 1 or (bool(quoted) and not quoted[0].isascii() and len(quoted[0]) > 1)


def support_of(value: Any, concept: Concept[Any, Any], citation: Citation) -> Stance:
    """Return how a quote holds a value of a concept: the best of the places where it is said."""
    loose = concept.keyword == STATEMENT.keyword
    leaning = Leaning.of(concept.keyword, "" if loose else concept.description, loose=loose, about=citation.names)
    judge = _Judge(citation, leaning)
    stance = judge.of(value, concept.value_type)
    return stance if stance is not Stance.STATED or judge.is_in_quote(value, concept.value_type) else Stance.NOT_SAID


@attrs.frozen
class _Judge:
    """Judge of the values of one citation."""

    citation: Citation
    leaning: Leaning

    @property
    def _passage(self) -> Passage:
        return self.citation.passage

    def is_in_quote(self, value: Any, value_type: _Type) -> bool:
        """Return whether the quote is long enough, or holds the value itself."""
        if is_enough(self.citation) or self._answers() is not None:
            return True
        start, end = self._passage.quote
        alone = attrs.evolve(
            self._passage,
            span=self._passage.quote,
            words=tuple(words_of(self._passage.text, start, end)),
        )
        inner = _Judge(attrs.evolve(self.citation, passage=alone, heard=frozenset()), self.leaning)
        return inner.of(value, value_type) < Stance.NOT_SAID

    def of(self, value: Any, value_type: _Type) -> Stance:
        """Return how the passage holds a value."""
        match value:
            case bool():
                return self._truth(value)
            case enum.Enum():
                return self._member(value, [other for other in type(value) if other is not value])
            case _ if _is_literal(value_type):
                members = [other for other in typing.get_args(value_type) if other != value]
                return self._choice(_forms(value), [_forms(other) for other in members])
            case int() | float() | Decimal():
                return self._number(_decimal(value))
            case dt.datetime():
                return self._moment(value)
            case dt.date():
                return self._day(value)
            case dt.time():
                return self._time(value)
            case dt.timedelta():
                return self._length(value)
            case None:
                return Stance.STATED
            case str():
                return self._text(value)
            case b"":
                return Stance.NOT_SAID
            case bytes() if (found := self._verbatim(value.decode(errors="replace"))) is not None:
                return found
            case Mapping():
                return self._worst(self.of(item, object) for item in value.values())
            case list() | tuple() | set() | frozenset():
                return self._worst(self.of(item, _item_type(value_type)) for item in value)
            case _ if (scalar := scalar_of(type(value))) is not None and scalar.write is not None:
                return self.of(scalar.write(value), scalar.json_type)
            case _:
                return self._fields(value)

    def _worst(self, stances: Iterable[Stance]) -> Stance:
        return max(stances, default=Stance.STATED)

    def _fields(self, value: Any) -> Stance:
        """Return the support of an object, field by field; fields left to their defaults claim nothing."""
        if not attrs.has(type(value)):
            fields = {name: (getattr(value, name), None) for name in getattr(value, "__dataclass_fields__", ())}
        else:
            fields = {item.name: (getattr(value, item.name), item.default) for item in attrs.fields(type(value))}
        if not fields:
            return self._text(str(value))
        said = {name: item for name, (item, default) in fields.items() if item is not None and item != default}
        hints = typing.get_type_hints(type(value)) if said else {}
        about = self.leaning.about | THIRD_PERSONS
        inner = {name: attrs.evolve(self, leaning=Leaning.of(name, about=about)) for name in said}
        return self._worst(inner[name].of(item, hints.get(name, object)) for name, item in said.items())

    # Places

    def _best(self, found: Iterable[Found], doubted: _Doubt = _no_doubt) -> Stance:
        """Return the best stance of some places, of those in the quote if there are any."""
        places = list(dict.fromkeys(found))[:_MOST_PLACES]
        quoted = [place for place in places if self._passage.is_quoted(place[0]) or self._passage.is_quoted(place[1])]
        return min((self._stance(place, doubted) for place in quoted or places), default=Stance.NOT_SAID)

    def _stance(self, place: Found, doubted: _Doubt) -> Stance:
        """Return the stance of a place: unclear if it is stated, but may not mean the value."""
        stance = stance_of(self._passage, *place, self.leaning)
        doubtful = stance is Stance.STATED and doubted(Clause(self._passage, *place, self.leaning))
        return Stance.UNCLEAR if doubtful else stance

    def _unfound(self) -> Stance:
        """Return what is to be said of a value that was not found: nothing, in a language that is not read here."""
        return Stance.UNCLEAR if self._passage.is_foreign and is_enough(self.citation) else Stance.NOT_SAID

    def _is_on_topic(self) -> bool:
        """Return whether the passage shares a word with the concept."""
        topic = {stem for stem in self.leaning.stems if stem not in _EMPTY}
        return bool(topic & self._passage.stems.keys())

    def _said(self) -> list[Word]:
        return [word for word in self._passage.words if not word.is_mark and word.text not in _EMPTY]

    # Numbers and times

    def _number(self, value: Decimal) -> Stance:
        numbers = self.citation.numbers
        places = [(one.first, one.last) for one in numbers if _same(one.value, value)]
        if value == 0:
            places = [place for place in places if self._passage.words[place[0]].text != "no"] or places
            if any(negations_in([word]) for word in self._passage.words) and self._is_on_topic():
                return Stance.STATED
        if places:
            return self._best(places, lambda clause: self._counts_else(value, clause) or measures_thing(clause))
        if (answered := self._of_question(lambda judge: judge._number(value))) is not None:
            return answered
        said = [one for one in numbers if not self._is_article(one.first, one.last)]
        if any(self._is_derived(value, one.value) for one in said) or self._is_total(
            value, [one.value for one in numbers]
        ):
            return Stance.UNCLEAR
        return self._unfound() if not said else Stance.NOT_SAID

    def _counts_else(self, value: Decimal, clause: Clause) -> bool:
        """Return whether a number counts something else, or stands beside a quote with a number of its own."""
        if counts_something_else(self._passage.words, Number(value, clause.first, clause.last), self.leaning):
            return True
        if self._passage.is_quoted(clause.first):
            return False
        numbers = (one for one in self.citation.numbers if self._passage.is_quoted(one.first))
        return any(not self._is_article(one.first, one.last) for one in numbers)

    def _is_article(self, first: int, last: int) -> bool:
        return first == last and self._passage.words[first].text in ("a", "an", "no", "only", "single", "another")

    def _is_derived(self, value: Decimal, said: Decimal) -> bool:
        """Return whether a value is a number that was said in another unit, or the age of a year."""
        if said == 0 or value == 0:
            return False
        years = self.citation.said_at.year - said
        ratio = max(abs(value / said), abs(said / value))
        return abs(years - value) <= 1 or any(_same(ratio, Decimal(factor)) for factor in _FACTORS)

    def _is_total(self, value: Decimal, said: Sequence[Decimal]) -> bool:
        """Return whether a value is the sum or the product of the numbers that were said."""
        total, product = sum(said[:20], Decimal(0)), functools.reduce(lambda one, two: one * two, said[:5], Decimal(1))
        return len(said) > 1 and (_same(total, value) or _same(total + 1, value) or _same(product, value))

    def _day(self, day: dt.date) -> Stance:
        places = [
            place
            for shift in (0, -1, 1)
            for place in days_in(self._passage.words, day, self.citation.said_at + dt.timedelta(days=shift))
            if shift == 0
            or (shift > 0 and self.citation.said_at.hour >= 16)
            or self.citation.said_at.hour < 8 * (shift < 0)
        ]
        if places:
            today = self.citation.said_at.date()
            return self._best(places, lambda clause: is_of_another_occasion(clause) or is_over(clause, day, today))
        if is_anniversary(self.leaning) and self._says_anniversary(day):
            return Stance.UNCLEAR  # "I turned thirty yesterday"
        answered = self._of_question(lambda judge: judge._day(day))
        return self._unfound() if answered is None else answered

    def _says_anniversary(self, day: dt.date) -> bool:
        """Return whether the passage says a day and a month, but another year."""
        said_at = self.citation.said_at
        this_year = dt.date(said_at.year, day.month, day.day) if (day.month, day.day) != (2, 29) else day
        return bool(days_in(self._passage.words, this_year, said_at))

    def _moment(self, moment: dt.datetime) -> Stance:
        if abs(moment - self.citation.said_at) < dt.timedelta(minutes=5):
            return Stance.STATED
        day = self._day(moment.date())
        if day is Stance.NOT_SAID and moment.date() == self.citation.said_at.date() and not self._says_a_day():
            day = Stance.STATED if times_in(self._passage.words, moment.time()) else day
        if day is not Stance.STATED or moment.time() in (dt.time(0), dt.time(12)):
            return day
        return Stance.STATED if times_in(self._passage.words, moment.time()) else Stance.UNCLEAR

    def _says_a_day(self) -> bool:
        """Return whether the passage says a day, other than that of its message."""
        said_at = self.citation.said_at
        near = (said_at + dt.timedelta(days=shift) for shift in range(-7, 8) if shift)
        return any(days_in(self._passage.words, moment.date(), said_at) for moment in near)

    def _time(self, time: dt.time) -> Stance:
        if places := times_in(self._passage.words, time):
            return self._best(places, is_of_another_occasion)
        return self._unfound()

    def _length(self, length: dt.timedelta) -> Stance:
        if places := lengths_in(self._passage.words, length):
            return self._best(places)
        return self._unfound()

    # Truth and choices

    def _truth(self, value: bool) -> Stance:
        """Return whether what the concept is about is affirmed, or denied, as a value has it."""
        answered = self._answers()
        if answered is not None and self._shares_topic(self.citation.asked):
            return Stance.STATED if answered is value else Stance.DENIED
        topic = [stem for stem in self.leaning.stems if stem not in _EMPTY and stem not in _AGAINST and len(stem) > 1]
        places = [(at, at) for stem in topic for at in self._passage.stems.get(stem, ())]
        others = [
            word for stem in topic for name, words in _OPPOSITES.items() if name.startswith(stem[:5]) for word in words
        ]
        stands = [at for other in others for at in self._passage.stems.get(_stem(other), ())]
        held = self._best(places)
        if held in (Stance.ASKED, Stance.QUOTED):
            return held
        if stands and held in (Stance.NOT_SAID, Stance.STATED):
            held = Stance.DENIED if self._best((at, at) for at in stands) is Stance.STATED else held
        if held is Stance.NOT_SAID:
            held = self._paraphrased(topic)
        if held in (Stance.ASKED, Stance.QUOTED, Stance.UNCLEAR):
            return held
        if held is Stance.NOT_SAID:
            return Stance.UNCLEAR if self._said() and is_enough(self.citation) else Stance.NOT_SAID
        said = {word.text for word in self._passage.words}
        if said & {"is", "are", "was", "were"} and not said & _OWN:
            return Stance.UNCLEAR  # "cars are loud" tells nothing of the speaker
        return self._as_affirmed(value, held is Stance.STATED, [at for at, _ in places])

    def _as_affirmed(self, value: bool, affirmed: bool, places: Sequence[int]) -> Stance:
        """Return the support of a truth value whose topic is affirmed or denied, also by "stop" or "off"."""
        against = _AGAINST - self.leaning.stems
        near = [word.stem for at in places for word in self._passage.words[max(0, at - 5) : at + 3]]
        if affirmed and any(stem in against for stem in near):
            affirmed = False
        if "not" in self.leaning.stems or "no" in self.leaning.stems or "without" in self.leaning.stems:
            return Stance.UNCLEAR
        return Stance.STATED if affirmed is value else Stance.DENIED

    def _shares_topic(self, text: str) -> bool:
        topic = {stem for stem in self.leaning.stems if stem not in _EMPTY}
        return any(word.stem in topic for word in words_of(text[-2_000:]))

    def _answers(self) -> bool | None:
        """Return whether the quote says yes or no to the message before; None if it says neither."""
        if not self.citation.asked:
            return None
        start = self._passage.quote[0]
        first = next((word.text for word in self._passage.words if word.end > start and not word.is_mark), "")
        return True if first in _YES else False if first in _NO else None

    def _of_question(self, judged: Callable[[_Judge], Stance]) -> Stance | None:
        """Return the support that a message gives to a quote which answers "yes" to it; None if it answers nothing."""
        if self._answers() is not True:
            return None
        asked = self.citation.asked[-2_000:].replace("?", ".")
        words = tuple(words_of(asked))
        passage = Passage(text=asked, span=(0, len(asked)), quote=(0, len(asked)), words=words)
        held = judged(
            _Judge(attrs.evolve(self.citation, passage=passage, asked=""), attrs.evolve(self.leaning, loose=True))
        )
        return Stance.STATED if held in (Stance.STATED, Stance.ASKED) else None

    def _member(self, member: enum.Enum, others: Sequence[enum.Enum]) -> Stance:
        forms = [*_forms(member.value), *_forms(member.name)]
        return self._choice(forms, [[*_forms(other.value), *_forms(other.name)] for other in others])

    def _choice(self, forms: Sequence[str], others: Sequence[Sequence[str]]) -> Stance:
        """Return the support of one of several members, each with the forms in which it may be said."""
        places = self._places_of(forms)
        if places:
            return self._best(places, _is_another_member)
        if (answered := self._answers()) is not None and set(forms) & {"yes", "no", "true", "false", "on", "off"}:
            return Stance.STATED if answered is bool(set(forms) & {"yes", "true", "on"}) else Stance.DENIED
        if (said := self._of_question(lambda judge: judge._best(judge._places_of(forms)))) is not None:
            return said
        held = [self._best(found, _is_another_member) for other in others if (found := self._places_of(other))]
        if len(others) == 1 and held == [Stance.DENIED]:
            return Stance.STATED
        if Stance.STATED in held:
            return Stance.NOT_SAID
        held = [stance for stance in held if stance in (Stance.ASKED, Stance.QUOTED)]
        if held:
            return max(held)
        words = [word for form in forms for word in form.split()]
        if (held_so := self._paraphrased(words)) is not Stance.NOT_SAID:
            return held_so
        if any(self._paraphrased(form.split()) is Stance.STATED for other in others for form in other):
            return Stance.NOT_SAID
        return Stance.UNCLEAR if self._said() and is_enough(self.citation) else self._unfound()

    def _places_of(self, forms: Iterable[str]) -> list[Found]:
        """Return the places of texts whose words all stand together, in their order."""
        found: list[Found] = []
        for form in dict.fromkeys(forms):
            found += self._runs([word.stem for word in words_of(form) if not word.is_mark])
        return found

    def _runs(self, stems: Sequence[str]) -> list[Found]:
        found: list[Found] = []
        for first in self._passage.stems.get(stems[0], ())[:_MOST_PLACES] if stems else ():
            at = first
            for stem in stems[1:]:
                at = next((place for place in self._passage.stems.get(stem, ()) if at < place <= at + 2), -1)
                if at < 0:
                    break
            if at >= 0:
                found.append((first, at))
        return found

    def _paraphrased(self, words: Iterable[str]) -> Stance:
        """Return the support that other words give to a value with some words."""
        best = Stance.NOT_SAID
        for phrase in paraphrases_of(words):
            held = self._best(self._runs(phrase.words))
            if phrase.denied:
                held = {Stance.DENIED: Stance.STATED, Stance.STATED: Stance.NOT_SAID}.get(held, held)
            best = min(best, held)
        return best

    # Text

    def _verbatim(self, text: str) -> Stance | None:
        """Return the support of a text that stands in the passage as it is; None if it does not."""
        here = [at for at, word in enumerate(self._passage.words) if not word.is_mark]
        said = _joined(self._passage.words[at] for at in here)
        wanted = _joined(word for word in words_of(text) if not word.is_mark)
        places: list[Found] = []
        start = said.find(wanted) if len(wanted) > 1 else -1
        while start >= 0 and len(places) < _MOST_PLACES:
            first = said.count(" ", 0, start)
            places.append((here[first], here[first + wanted.count(" ") - 2]))
            start = said.find(wanted, start + 1)
        if not places and not text.isascii():
            places = self._within_words(text)
        return self._best(places, is_in_another_sense) if places else None

    def _within_words(self, text: str) -> list[Found]:
        """Return the words that hold a text of a script without spaces, or with endings."""
        wanted = folded("".join(text.split()))
        return [(at, at) for at, word in enumerate(self._passage.words) if wanted and wanted in word.text]

    def _text(self, text: str) -> Stance:
        if text.strip().casefold() in _UNTYPED and self._verbatim(text) is None:
            return self._truth(text.strip().casefold() in ("true", "yes"))
        if (held := self._verbatim(text)) is not None:
            return held
        words = words_of(text)[:_MOST_WORDS]
        if respelled := list(respellings_of(text, self._passage)):
            return self._best(respelled)
        if all(word.is_mark for word in words):
            return Stance.STATED if text.strip() in self._passage.text[slice(*self._passage.span)] else Stance.NOT_SAID
        meant = [word for word in words if not word.is_mark and word.text not in _EMPTY] or [
            word for word in words if not word.is_mark
        ]
        # What the text itself holds ("quit the job") takes nothing back.
        own = {word.stem for word in words}
        liking = self.leaning.liking or bool(own & _LIKED)
        judge = attrs.evolve(self, leaning=attrs.evolve(self.leaning, stems=self.leaning.stems | own, liking=liking))
        if self.leaning.loose or len(meant) >= _LONG:
            return _Retelling(judge, words, meant).support()
        return judge._phrase(text, words, meant)

    def _phrase(self, text: str, words: Sequence[Word], meant: Sequence[Word]) -> Stance:
        """Return the support of a short text."""
        hard = _hard_words(words)
        found = {word.text: self.places_of(word) for word in meant}
        places = [place for some in found.values() for place in some]
        unfound = [word for word in meant if not found[word.text]]
        missing = [word for word in unfound if word.stem not in self.citation.heard]
        if not places:
            return self._other_words(text, meant)
        said = sum(bool(some) for some in found.values())
        stance = self.majority(places, words, denied=negations_in(words) % 2 == 1)
        if stance is not Stance.STATED:
            return stance
        if not missing:
            elsewhere = 2 * len(unfound) >= len(found) or any(word in hard for word in unfound)
            return Stance.UNCLEAR if elsewhere or self._is_scattered(found.values()) else stance
        if any(word in hard for word in missing):
            return Stance.UNCLEAR if 2 * said >= len(found) and not _is_address(text) else self._unfound()
        return Stance.STATED if 2 * said >= len(found) > 2 else Stance.UNCLEAR

    def _is_scattered(self, found: Iterable[Sequence[Found]]) -> bool:
        """Return whether no sentence holds all the words of a text that are said."""
        stops = self._passage.stops
        sentences = [{bisect.bisect_left(stops, first) for first, _ in places} for places in found if places]
        return not set.intersection(*sentences)

    def _other_words(self, text: str, meant: Sequence[Word]) -> Stance:
        """Return the support of a short text of which no word is said."""
        if (answered := self._of_question(lambda judge: judge._text(text))) is not None:
            return answered
        if (held := self._paraphrased(word.text for word in meant)) is not Stance.NOT_SAID:
            return held
        if misspelt := list(misspellings_of(meant, self._passage.words)):
            return max(self._best(misspelt), Stance.UNCLEAR)
        hard = any(word.is_name for word in meant) or bool(_hard_words(meant))
        soft = not hard and self._is_on_topic() and is_enough(self.citation)
        return Stance.UNCLEAR if soft else self._unfound()

    def places_of(self, word: Word) -> list[Found]:
        """Return where a word is said: in any inflection, as a number, as a currency."""
        passage = self._passage
        found = [(at, at) for at in passage.stems.get(word.stem, ())]
        if word.text[0].isdigit():
            wanted = {one.value for one in numbers_in([word])}
            found += [(one.first, one.last) for one in self.citation.numbers if one.value in wanted]
        elif word.text in _COINS:
            found += [(at, at) for at, other in enumerate(passage.words) if _COINS.get(other.text) == _COINS[word.text]]
        elif not found and (spelled := next((one.value for one in numbers_in([word])), None)) is not None:
            found = [(one.first, one.last) for one in self.citation.numbers if one.value == spelled]
        if not found and (not word.text.isascii() or passage.is_foreign):
            found = self._within_words(word.text) or with_other_ending(word.text, passage.words)
            found = found or self._by_neighbours(word.text)
        if not found and not word.is_name:
            found = [*other_forms_of(word, passage.words)] or derived_from(word.text, passage.words)
        return found

    def _by_neighbours(self, text: str) -> list[Found]:
        """Return the words that share half of the pairs of characters of a sentence without spaces."""
        pairs = {text[at : at + 2] for at in range(len(text) - 1)}
        if text.isascii() or len(pairs) < _FEWEST_PAIRS:
            return []
        shared = [
            (at, pairs & {word.text[place : place + 2] for place in range(len(word.text) - 1)})
            for at, word in enumerate(self._passage.words)
        ]
        return [(at, at) for at, held in shared if 2 * len(held) >= len(pairs)]

    def majority(self, places: Sequence[Found], words: Sequence[Word], *, denied: bool) -> Stance:
        """Return the stance of most of some places, for a text that holds a denial itself or not."""
        quoted = [place for place in places if self._passage.is_quoted(place[0])]
        stances = [self._stance(place, is_in_another_sense) for place in (quoted or list(places))[:_MOST_PLACES]]
        held = sorted(stances)[len(stances) // 2]
        if not denied:
            return held
        if held is Stance.DENIED:
            return Stance.STATED
        against = negations_in(self._passage.words) or self._against() - {word.stem for word in words}
        return held if held is not Stance.STATED or against else Stance.UNCLEAR

    def _against(self) -> set[str]:
        return set(self._passage.stems) & _AGAINST


@attrs.frozen
class _Retelling:
    """A statement or another long text, compared with the words that it retells."""

    judge: _Judge
    words: Sequence[Word]
    meant: Sequence[Word]

    def support(self) -> Stance:
        citation = self.judge.citation
        meant = [word for word in self.meant if word.text not in citation.names]
        found = {word.text: self.judge.places_of(word) for word in meant}
        places = [place for some in found.values() for place in some]
        said = sum(bool(some) for some in found.values())
        heard = {word.text for word in meant if not found[word.text] and word.stem in citation.heard}
        missing = [word for word in meant if not found[word.text] and word.text not in heard]
        hard = self._hard()
        days = self._parts_of_days() if any(word in hard for word in missing) else frozenset()
        if any(word in hard and word.text not in days for word in missing):
            return self.judge._unfound()
        heard |= {word.text for word in missing if word.text in days}
        if not places:
            unsaid = self.judge._paraphrased(word.text for word in meant)
            return unsaid if unsaid is not Stance.NOT_SAID else self.judge._unfound()
        stance = self.judge.majority(places, self.words, denied=self._is_denial())
        if stance is Stance.ASKED and any(word.stem in _ASKS for word in self.words):
            stance = Stance.STATED
        if stance is not Stance.STATED:
            return stance
        if citation.passage.is_foreign and not is_foreign(self.words):
            return Stance.STATED if any(word in hard for word in meant) else Stance.UNCLEAR
        enough = 2 * (said + len(heard)) >= len(found) and 4 * said >= len(found)
        return Stance.STATED if enough else Stance.UNCLEAR

    def _hard(self) -> frozenset[Word]:
        """Return the words that must have been said; in languages that write nouns large, the numbers alone."""
        hard = _hard_words(self.words)
        return frozenset(word for word in hard if word.text[0].isdigit()) if is_foreign(self.words) else hard

    def _is_denial(self) -> bool:
        against = sum(
            word.stem in _AGAINST and word.stem not in self.judge.citation.passage.stems for word in self.words
        )
        return (negations_in(self.words) + against) % 2 == 1

    def _parts_of_days(self) -> frozenset[str]:
        """Return the parts of days that were said in other words: "7 May 2024" for "yesterday"."""
        said_at, words = self.judge.citation.said_at, self.judge.citation.passage.words
        days = (day for day in set(days_written(self.words)) if day == said_at.date() or days_in(words, day, said_at))
        return frozenset(part for day in days for part in parts_of(day))


def _hard_words(words: Sequence[Word]) -> frozenset[Word]:
    """Return the words that must have been said as they are: numbers, names, and parts of addresses.

    The first word is not a name, since every sentence begins with a capital letter.
    """
    hard = {word for word in words if any(char.isdigit() for char in word.text) or (word.is_name and word.start > 0)}
    for before, mark, behind in zip(words, words[1:], words[2:], strict=False):
        if mark.text in ("@", ".", "/", ":") and before.end == mark.start and mark.end == behind.start:
            hard |= {one for one in (before, behind) if not one.is_mark}
    return frozenset(hard)


def _is_address(text: str) -> bool:
    """Return whether a text is a mail address or a URL, of which no part can be left out."""
    return "@" in text or "://" in text


def _forms(value: object) -> list[str]:
    """Return the texts in which a member of an enumeration may be said."""
    spelled = str(value).replace("_", " ").replace("-", " ").strip()
    humps = "".join(
        f" {char}" if char.isupper() and spelled[at - 1 : at].islower() else char for at, char in enumerate(spelled)
    )
    return list(dict.fromkeys(form.casefold() for form in (spelled, humps, spelled.replace(" ", "")) if form))


def _joined(words: Iterable[Word]) -> str:
    """Return words with a space before, between and behind them; a single space if there are none."""
    texts = " ".join(word.text for word in words)
    return f" {texts} " if texts else " "


def _stem(word: str) -> str:
    return words_of(word)[0].stem


def _decimal(value: float | Decimal) -> Decimal:
    try:
        return value if isinstance(value, Decimal) else Decimal(repr(value))
    except decimal.InvalidOperation:
        return Decimal("nan")


def _same(one: Decimal, two: Decimal) -> bool:
    try:
        return abs(one - two) <= abs(two) * Decimal("1e-9")
    except decimal.InvalidOperation:
        return False


def _is_literal(value_type: _Type) -> bool:
    origin: Any = typing.get_origin(value_type)
    return origin is Literal


def _item_type(value_type: _Type) -> _Type:
    args = typing.get_args(value_type)
    return args[0] if args else object
