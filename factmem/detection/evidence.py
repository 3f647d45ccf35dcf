"""Evidence: whether the words that a model quotes say a value plainly.

A value is plainly said if it stands, in its canonical form, in running text of the speaker's own, in a clause that
begins with the speaker (or with what the concept is about) and has no word before the value that a table does not know;
and if no cue speaks against it: in the clause, in the rest of the sentence, or in what the speaker says next. Whatever
is not plain is a `Doubt`, with its reason: it is asked or waits. Tables, not code, know languages (see `languages`).

- *Text, number, day, time, length*: said in figures or in words (see `forms`).
- *Enumeration*: a member is said by its name or its value, and no other member.
- *Truth*: all words of the keyword are said; what is false is never plain.
- *Statement*, and other long text: all of its words that carry meaning stand in one sentence, with the same cues.
- *List, object, map*: each part is said, in one clause.

A name, a number or a day that stands neither in the message nor in the one that it answers is never asked.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

import attrs

from factmem.abc import Doubt
from factmem.detection.forms import Found, day_places, length_places, number_places, numbers_at, text_places, time_places
from factmem.detection.languages import Language, language_named, language_of, search
from factmem.detection.words import Passage, ReadableText, Word, words_of
from factmem.facts import STATEMENT, Concept
from factmem.scalars import scalar_of
from factmem.stemming import stemmer

__all__ = ["Citation", "asks_to_forget", "doubt_of"]

_Type: TypeAlias = Any  # the type of a value, made at run time

_CUES: Final = {
    "deny": "the sentence denies something",
    "past": "said of the past",
    "maybe": "said with reserve",
    "plan": "said as a plan",
    "wish": "said as a wish",
    "joke": "may be a joke",
}
"""Cues against a value in its clause, with their reasons."""
_BEFORE: Final = {
    "ask": "said in a question",
    "condition": "said under a condition",
    "that": "said within another statement",
}
"""Cues against a value before it in its sentence, or in its clause."""
_SENTENCE: Final = {"said": "reported from others", "joke": "may be a joke"}
"""Cues against a value anywhere in its sentence."""
_ABOUT: Final = "said as an estimate or a range"
_OTHERS: Final = "said about somebody else"
_CORRECTED: Final = "corrected or doubted right after"
_WORKED_ON: Final = "said in a text to be worked on, or in a story"
_UNREAD: Final = "said in a language that is not recognized"
_NOT_PLAIN: Final = "not said in plain words"
_NO_SPEAKER: Final = "not plainly said about the speaker"
_NOT_IN_THESE_WORDS: Final = "not said in these words"
_NOWHERE: Final = "a name, a number or a date that nobody said"
_ASKED: Final = "said in a question"
_FALSE: Final = "not said in these words"
_COLON: Final = "said behind a colon"
_BRACKETS: Final = "said in brackets"
_SEVERAL: Final = "one of several"
_UNIT: Final = "said in another unit"
_OTHER_THING: Final = "said of something else"

_LIGHT: Final = frozenset(
    "user person who what where when how which whether name is has have had does do did are the a an of in on at to for their"
    " they them and or by with from that this one current currently main about my your its it own owns any some number many"
    " much s t or as be been can per get gets years year".split()
)
"""Words of a concept that do not say what it is about."""
_LONGEST_STATEMENT: Final = 400
_LONG: Final = 6
"""A text of this number of words is compared as a statement."""
_SHORTEST_ROOT: Final = 4
_NEXT: Final = 2
"""Number of sentences after a value's that may speak against it."""
_LONGEST_TAIL: Final = 12
_LONGEST_ASIDE: Final = 3
_EMOJI: Final = re.compile("[\U0001f600-\U0001f606\U0001f609\U0001f60e\U0001f60f\U0001f61b-\U0001f61d\U0001f643\U0001f644\U0001f923\U0001f92a\U0001f92b\U0001f92d\U0001f984\U0001f47d\U0001f480\U0001f9db\U0001f9d9\U0001f47b]|[;:]-?[)DPp](?!\\w)|\\s/s\\b|[xX]D+\\b")
_CURRENCIES: Final = {"$": "dollar", "€": "euro", "£": "pound", "¥": "yen", "₹": "rupee", "₽": "rouble", "₩": "won", "%": "percent", "°": "degree"}


@attrs.frozen(kw_only=True)
class Citation:
    """A quote with what is needed to judge it.

    Attributes:
        text: the message that it is from.
        quote: the span of the quote in the message.
        asked: the message that the quote answers, if one went before.
        earlier: the messages before, the latest first.
        names: words that name the subject of the fact and the speaker.
        own: whether the message is the user's, who speaks of themselves.
    """

    text: ReadableText
    quote: tuple[int, int]
    asked: str = attrs.field(default="", repr=False)
    earlier: Sequence[str] = attrs.field(default=(), repr=False)
    names: frozenset[str] = frozenset()
    own: bool = True

    @functools.cached_property
    def passage(self) -> Passage:
        """The words around the quote."""
        return self.text.passage(*self.quote)

    @functools.cached_property
    def language(self) -> Language | None:
        """The language of the message, or of the one that it answers if it is too short to show it."""
        return language_of((self.text.text, f"{self.text.text}\n{self.asked}", *self.earlier[:2]))


def doubt_of(value: Any, concept: Concept[Any, Any], citation: Citation) -> Doubt | None:
    """Return why a value is not plainly said by a quote; None if it is."""
    return _Judge(concept, citation).doubt(value)


def asks_to_forget(citation: Citation) -> Doubt | None:
    """Return why a quote is no plain request to forget something; None if it is one."""
    judge = _Judge(STATEMENT, citation)
    return judge.doubt_of_request()


@attrs.frozen
class _Judge:
    """Judge of the values of one concept in one citation."""

    concept: Concept[Any, Any]
    citation: Citation

    @property
    def _language(self) -> Language | None:
        return self.citation.language

    @property
    def _words(self) -> Sequence[Word]:
        return self.citation.passage.words

    def doubt(self, value: Any) -> Doubt | None:
        """Return why a value is not plainly said; None if it is."""
        if self._is_statement(value):
            return self._doubt_of_statement(value)
        if isinstance(value, bool):
            return self._doubt_of_truth(value)
        places = self._places(value)
        if not places:
            hard = self._is_nowhere(value)
            return Doubt(_NOWHERE if hard else _NOT_IN_THESE_WORDS, askable=not hard)
        return self._best(places, value)

    def _best(self, places: Sequence[Found], value: Any) -> Doubt | None:
        """Return the doubt of the first place that has none, or else of the first; a place in the quote goes first."""
        passage = self.citation.passage
        within = passage.sentence(*self._quoted())
        near = [place for place in places if within[0] <= place[0] and place[1] <= within[1]]
        if not near:
            return Doubt(_NOT_IN_THESE_WORDS, askable=True)
        near = [place for place in near if passage.is_quoted(*place)] or near
        doubts = [self._doubt_at(place, value) for place in near]
        return None if None in doubts else doubts[0]

    def _quoted(self) -> Found:
        inside = [at for at in range(len(self._words)) if self.citation.passage.is_quoted(at, at)]
        return (inside[0], inside[-1]) if inside else (0, 0)

    # Values

    def _is_statement(self, value: object) -> bool:
        return isinstance(value, str) and (
            self.concept.keyword == STATEMENT.keyword or sum(not word.is_mark for word in words_of(value)) >= _LONG
        )

    def _places(self, value: Any) -> list[Found]:
        """Return where the passage says a value in its canonical form."""
        words, language, text = self._words, self._language, self.citation.passage.text
        match value:
            case enum.Enum():
                return self._member_places(_forms_of(value))
            case _ if _is_literal(self.concept.value_type):
                return self._member_places(_forms_of(value))
            case int() | float() | Decimal():
                return number_places(Decimal(str(value)), words, language)
            case dt.datetime():
                days = day_places(value.date(), text, words, language)
                return _joined(days, time_places(value.time(), text, words, language))
            case dt.date():
                return day_places(value, text, words, language)
            case dt.time():
                return time_places(value, text, words, language)
            case dt.timedelta():
                return length_places(value, words, language)
            case str():
                return text_places(value, words, language) or self._symbols(value)
            case bytes():
                return text_places(value.decode(errors="replace"), words, language)
            case None:
                return [self._quoted()]
            case Mapping():
                return self._joint_places(value.values())
            case list() | tuple() | set() | frozenset():
                return self._joint_places(value)
            case _ if (scalar := scalar_of(type(value))) is not None and scalar.write is not None:
                return text_places(str(scalar.write(value)), words, language)
            case _:
                return self._joint_places(_parts_of(value))

    def _symbols(self, text: str) -> list[Found]:
        """Return the places of a text without letters or digits, such as an emoji."""
        bare = text.strip()
        if not bare or any(map(str.isalnum, bare)):
            return []
        return [(at, at) for at, word in enumerate(self._words) if word.text == bare[0]]

    def _member_places(self, forms: Iterable[str]) -> list[Found]:
        language, words = self._language, self._words
        found = [place for form in forms for place in text_places(form, words, language)]
        if not found and language is not None and language.name != "en":
            found = search(language.pattern(self._translated([form.lower() for form in forms])), words, 0, len(words) - 1)
        return found

    def _joint_places(self, parts: Iterable[Any]) -> list[Found]:
        """Return the place that holds all parts of a value, each said there; none if one is not."""
        joint: list[Found] | None = None
        for part in parts:
            if isinstance(part, bool) or not (places := self._places(part)):
                return []
            joint = places if joint is None else _joined(joint, places)
        return joint or []

    # Where nothing is found

    def _is_nowhere(self, value: Any) -> bool:
        """Return whether a value has a name, a number or a day that neither the message nor the one before says."""
        said = f"{self.citation.asked}\n{self.citation.text.text}"
        words = words_of(said)
        match value:
            case bool() | enum.Enum() | None:
                return False
            case _ if _is_literal(self.concept.value_type):
                return False
            case int() | float() | Decimal() | dt.timedelta():
                return not self._says_numbers(words)
            case dt.date() | dt.time():
                return not (self._says_numbers(words) or self._says_days(words))
            case str() | bytes():
                text = value if isinstance(value, str) else value.decode(errors="replace")
                return self._has_unsaid_name(text, words)
            case Mapping():
                return any(map(self._is_nowhere, value.values()))
            case list() | tuple() | set() | frozenset():
                return any(map(self._is_nowhere, value))
            case _ if (scalar := scalar_of(type(value))) is not None and scalar.write is not None:
                return self._has_unsaid_name(str(scalar.write(value)), words)
            case _:
                return any(map(self._is_nowhere, _parts_of(value)))

    def _says_numbers(self, words: Sequence[Word]) -> bool:
        if any(map(str.isdigit, "".join(word.text for word in words))):
            return True
        language = self._language
        return language is None or any(number_places(Decimal(number), words, language) for number in range(13))

    def _says_days(self, words: Sequence[Word]) -> bool:
        language = self._language
        if language is None:
            return True
        return bool(language.find("days", words, 0, len(words) - 1) or language.find("months", words, 0, len(words) - 1))

    def _has_unsaid_name(self, text: str, words: Sequence[Word]) -> bool:
        """Return whether a text has a name or a number that is not among some words, nor begins like one of them."""
        wanted = [word for word in words_of(text) if not word.is_mark]
        said = {word.text for word in words}
        several = len(wanted) > 1
        hard = [
            word
            for at, word in enumerate(wanted)
            if word.text[-1:].isdigit() or (word.is_name and (at > 0 or not several or all(one.is_name for one in wanted)))
        ]
        return any(not _is_among(word.text, said) for word in hard if word.text not in self.citation.names)

    # Statements

    def _doubt_of_statement(self, text: str) -> Doubt | None:
        """Return why a sentence is not what the words around the quote say; None if it is."""
        words, language, passage = self._words, self._language, self.citation.passage
        own = [word for word in words_of(text[:_LONGEST_STATEMENT]) if not word.is_mark]
        if self._has_unsaid_name(text, words_of(f"{self.citation.asked}\n{self.citation.text.text}")):
            return Doubt(_NOWHERE, askable=not self._says_numbers(words_of(self.citation.text.text)) and False)
        if language is None:
            return Doubt(_UNREAD, askable=True)
        first, last = passage.sentence(*self._quoted())
        said = {word.text for word in words[first : last + 1]}
        stems = {stemmer()(word) for word in said}
        known = language.words("fill") | language.words("common") | language.words("my") | language.words("self")
        light = {one for entry in known for one in entry.split()} | _LIGHT | self.citation.names | {"user", "users", "user's"}
        missing = [word for word in own if word.text not in light and word.text not in said and stemmer()(word.text) not in stems]
        if missing or len(text) > _LONGEST_STATEMENT:
            return Doubt(_NOT_IN_THESE_WORDS, askable=True)
        return self._doubt_of_span((first, last), (first, last), own)

    def _doubt_of_span(self, span: Found, clause: Found, own: Sequence[Word]) -> Doubt | None:
        """Return the doubt of whole sentences that a statement retells: cues beyond the statement's own."""
        language, words = self._language, self._words
        assert language is not None, "it was checked"
        if (structure := self._structure(*span)) is not None:
            return structure
        retold = list(own)
        for name, reason in {**_CUES, **_BEFORE, **_SENTENCE, "others": _OTHERS}.items():
            held = self._cues(name, *span)
            if held and len(language.find(name, retold, 0, len(retold) - 1)) < len(held):
                return Doubt(reason, askable=True)
        if any(word.text in ("?", "？", "؟") for word in words[span[0] : span[1] + 1]):
            return Doubt(_ASKED, askable=True)
        return self._doubt_around(span)

    # Truth

    def _doubt_of_truth(self, value: bool) -> Doubt | None:
        """Return why a truth is not plainly said: what its keyword says has to stand in the sentence."""
        language, words = self._language, self._words
        if language is None:
            return Doubt(_FALSE, askable=True)
        keyword = [word for word in self.concept.keyword.lower().split("_") if word not in _LIGHT]
        places: list[Found] = []
        said = 0
        for word in keyword:
            found = [(at, at) for at, one in enumerate(words) if self._is_related(one.text, {word})]
            found = found or search(language.pattern(self._translated([word])), words, 0, len(words) - 1)
            said += bool(found)
            places = (_joined(places, found) if places else found) if found else places
        if 2 * said < len(keyword) or not places:
            return self._doubt_of_yes(keyword) if value else Doubt(_FALSE, askable=True)
        return self._best(places, value)

    def _doubt_of_yes(self, keyword: Sequence[str]) -> Doubt | None:
        """Return why a message is no plain "yes" to a question that says all words of the keyword."""
        language, words = self._language, self._words
        assert language is not None, "it was checked"
        asked = {word.text for word in words_of(self.citation.asked)}
        about = bool(keyword) and all(any(self._is_related(said, {word}) for said in asked) for word in keyword)
        begins = language.find("yes", words, 0, 1)
        if not (about and begins and words[0].start == 0 and self._quoted()[0] <= begins[0][1]):
            return Doubt(_FALSE, askable=True)
        return self._doubt_at(begins[0], True)

    # The plain clause

    def _doubt_at(self, place: Found, value: Any) -> Doubt | None:
        """Return why a value is not plainly said at a place; None if it is."""
        language, passage = self._language, self.citation.passage
        if (structure := self._structure(*place)) is not None:
            return structure
        if language is None:
            return Doubt(_UNREAD, askable=True)
        sentence = passage.sentence(*place)
        clause = self._clause(place, sentence)
        reason = (
            self._reason_of_speaker(place, clause, value)
            or self._reason_in_clause(place, clause, sentence, value)
            or self._reason_of_value(place, clause, value)
        )
        return Doubt(reason, askable=True) if reason else self._doubt_around((clause[0], clause[1]), sentence)

    def _structure(self, first: int, last: int) -> Doubt | None:
        """Return the doubt of what is no running text."""
        words = self._words
        name = self.citation.text.structure_at(words[first].start, words[last].end)
        return Doubt(name, askable=True) if name is not None else None

    def _clause(self, place: Found, sentence: Found) -> Found:
        """Return the clause of a place: up to a pause, or to a word that begins another clause."""
        language, passage = self._language, self.citation.passage
        assert language is not None, "it was checked"
        first, last = sentence
        borders = [at for at, _ in language.find("breaks", self._words, *sentence)]
        for at in range(place[0] - 1, first - 1, -1):
            if passage.is_pause(at) or (at in borders and not language.is_unspaced):
                first = at + 1
                break
        for at in range(place[1] + 1, last + 1):
            if passage.is_pause(at) or at in borders:
                last = at - 1
                break
        return first, last

    def _covered(self, first: int, last: int, *, negated: bool = False) -> set[int]:
        """Return the positions of words that a plain statement may begin with, or that the concept is about."""
        language = self._language
        assert language is not None, "it was checked"
        covered: set[int] = set()
        for name in ("self", "my", "verbs", "fill", "allowed", "yes", *(("negate",) if negated else ())):
            for one, two in language.find(name, self._words, first, last):
                covered |= set(range(one, two + 1))
        return covered | self._related(first, last)

    def _related(self, first: int, last: int) -> set[int]:
        """Return the positions of words that the concept or its subject is about."""
        return {at for at in range(first, last + 1) if self._is_related(self._words[at].text)} | self._nouns(first, last)

    @functools.cached_property
    def _topic(self) -> frozenset[str]:
        text = f"{self.concept.keyword.replace('_', ' ')} {self.concept.description}"
        found = {word.text for word in words_of(text) if not word.is_mark} | self.citation.names
        return frozenset(found - _LIGHT)

    def _is_related(self, word: str, topic: Iterable[str] | None = None) -> bool:
        wanted = self._topic if topic is None else topic
        return word in wanted or (word.isascii() and stemmer()(word) in {stemmer()(one) for one in wanted})

    def _nouns(self, first: int, last: int) -> set[int]:
        """Return the positions of words of the language for what the concept is about."""
        language = self._language
        assert language is not None, "it was checked"
        found = self._translated(self._topic)
        places = search(language.pattern(found), self._words, first, last) if found else []
        return {at for one, two in places for at in range(one, two + 1)}

    def _translated(self, topic: Iterable[str]) -> list[str]:
        """Return the words of the language for some English words, and others for the same."""
        language = self._language
        if language is None:
            return []
        names = {stemmer()(word) for word in topic}
        return [
            noun
            for name, nouns in language.of_group("nouns").items()
            if stemmer()(name) in names or (len(name) > _SHORTEST_ROOT and any(one.startswith(name) for one in names))
            for noun in nouns
        ]

    def _reason_of_speaker(self, place: Found, clause: Found, value: Any) -> str | None:
        """Return why the words before a value do not plainly speak of the speaker, or of what the concept is about."""
        language, words = self._language, self._words
        assert language is not None, "it was checked"
        first, last = clause[0], place[0] - 1
        lead = [at for at in range(first, last + 1) if not words[at].is_mark]
        if not self.citation.own:
            return None
        if isinstance(value, str) and (start := self._enumerated(place, clause)) is not None:
            return None if not self._cues("others", start, clause[1]) else _OTHERS
        unknown = set(lead) - self._covered(first, last, negated=value is False)
        most = (2 if isinstance(value, str) else 0 if isinstance(value, bool) else 1) if language.find("self", words, first, first + 1) else 0
        if len(unknown) > most:
            return _OTHERS if language.find("others", words, first, last) else _NOT_PLAIN
        if self._cues("others", *clause) - set(range(place[0], place[1] + 1)):
            return _OTHERS
        related = self._related(first, clause[1]) - set(range(place[0], place[1] + 1))
        after = (place[1] + 1, min(clause[1], place[1] + 4))
        if language.is_unspaced:
            pauses = (at for at in range(place[1] + 1, len(words)) if self.citation.passage.is_pause(at))
            after = (place[1] + 1, min(next(pauses, len(words)) - 1, place[1] + 8))
        own = language.find("self", words, first, last) or language.find("self", words, *after)
        verb = language.find("verbs", words, first, last) or language.find("verbs", words, place[0], after[1])
        verb = verb or language.find("endings", words, place[1], place[1])
        mine = language.find("my", words, first, last)
        if own and (verb or related or unknown or language.table.get("nominal")):
            return None
        if verb and language.drops_pronouns or verb and language.table.get("verb_first") and lead[:1] == [verb[0][0]]:
            return None
        if mine and (related or language.name != "en"):
            return None
        if related and self._is_about_thing():
            return None
        return None if self._answers(place, clause) else _NO_SPEAKER

    def _enumerated(self, place: Found, clause: Found) -> int | None:
        """Return where the clause begins whose list a value continues: "I grow figs, plums and *pears*"; None if none does."""
        language, words, passage = self._language, self._words, self.citation.passage
        assert language is not None, "it was checked"
        first, sentence = clause[0], passage.sentence(*place)
        lead = [at for at in range(first, place[0]) if not words[at].is_mark]
        joins = {one for one, _ in language.find("and", words, *sentence)}
        if set(lead) - self._covered(first, place[0] - 1):
            return None
        while first > sentence[0]:
            border = next((at for at in range(first - 1, sentence[0] - 1, -1) if not words[at].is_mark or passage.is_pause(at)), None)
            if border is None or (words[border].text not in ",、，،" and border not in joins):
                return None
            part = self._clause((border, border), sentence) if words[border].is_mark else (border, border)
            first = self._clause((max(sentence[0], border - 1),) * 2, sentence)[0]
            here = [at for at in range(first, border) if not words[at].is_mark]
            own = language.find("self", words, first, border) or (language.drops_pronouns and language.find("verbs", words, first, border))
            unknown = set(here) - self._covered(first, border)
            if own and here and language.find("verbs", words, first, border):
                return first if len(unknown) <= _LONGEST_ASIDE and min(unknown, default=border) > own[0][1] else None
            if len(here) > _LONGEST_ASIDE or not part:
                return None
        return None

    def _is_about_thing(self) -> bool:
        return bool(self.citation.names - {"user"})

    def _answers(self, place: Found, clause: Found) -> bool:
        """Return whether the value begins the answer to a question about it."""
        language, words = self._language, self._words
        assert language is not None, "it was checked"
        asked = words_of(self.citation.asked)
        questions = [at for at, word in enumerate(asked) if word.text in ("?", "？", "؟")]
        before = [at for at in range(clause[0]) if not words[at].is_mark]
        begins = words[0].start == 0 and not set(before) - self._covered(0, clause[0])
        if len(questions) != 1 or not begins or any(end < clause[0] for end in self.citation.passage.ends):
            return False
        last = questions[-1]
        first = max((at for at in range(last) if asked[at].text in ".!?\n。！？"), default=-1) + 1
        topic = {word.text for word in asked[first:last]}
        return bool(language.find("you", asked, first, last)) or any(map(self._is_related, topic))

    def _reason_in_clause(self, place: Found, clause: Found, sentence: Found, value: Any) -> str | None:
        """Return the reason of a cue in the clause, or before the value in its sentence."""
        words = self._words
        inner = set(range(place[0], place[1] + 1))
        if clause[1] - place[1] > _LONGEST_TAIL * 2:
            return _NOT_PLAIN
        for name, reason in _CUES.items():
            cues = self._cues(name, *clause) - inner
            if name == "deny" and value is False:
                negated = self._cues("negate", *clause)
                if not negated or cues - negated or not self._is_once(negated):
                    return _FALSE
            elif cues:
                return reason
        for name, reason in _BEFORE.items():
            if self._cues(name, sentence[0] if name != "ask" else clause[0], place[0] - 1) - inner:
                return reason
        if self._inverts(clause, place):
            return _ASKED
        if self._cues("condition", clause[0], clause[1]) - inner:
            return _BEFORE["condition"]
        pauses = [at for at in range(clause[1] + 1, sentence[1] + 1) if self.citation.passage.is_pause(at)]
        near = next((at for at in pauses if at > clause[1] + 1), sentence[1])
        for name, reason in _SENTENCE.items():
            if self._cues(name, sentence[0], near) - inner:
                return reason
        before = words[clause[0] - 1].text if clause[0] > sentence[0] else ""
        if before in (":", "："):
            return _COLON
        if sum(word.text in "([（" for word in words[sentence[0] : place[0]]) > sum(word.text in ")]）" for word in words[sentence[0] : place[0]]):
            return _BRACKETS
        return _ASKED if self._is_asked(place, clause, sentence) else None

    def _is_once(self, places: set[int]) -> bool:
        """Return whether some positions are those of a single negation: they stand close together."""
        return max(places) - min(places) <= _LONGEST_ASIDE

    def _inverts(self, clause: Found, place: Found) -> bool:
        """Return whether a clause begins like a question."""
        found = self._cues("inverted", clause[0], place[0] - 1)
        lead = [at for at in range(clause[0], place[0]) if not self._words[at].is_mark]
        return bool(found) and lead[0] in found

    def _is_asked(self, place: Found, clause: Found, sentence: Found) -> bool:
        """Return whether a question mark ends the clause of a value, or only a tag stands between them."""
        language, words = self._language, self._words
        assert language is not None, "it was checked"
        if not any(word.text in "?？؟" for word in words[place[1] : sentence[1] + 2]):
            return False
        rest = [at for at in range(clause[1] + 1, sentence[1] + 1) if not words[at].is_mark]
        if len(rest) <= _LONGEST_ASIDE:
            tags = {at for one, two in language.find("tags", words, clause[1] + 1, sentence[1]) for at in range(one, two + 1)}
            return not set(rest) - tags or len(rest) < _LONGEST_ASIDE
        return False

    def _cues(self, name: str, first: int, last: int) -> set[int]:
        """Return the positions of cues of a list, without those that the concept is about, or that are allowed."""
        language = self._language
        assert language is not None, "it was checked"
        found = {at for one, two in language.find(name, self._words, first, last) for at in range(one, two + 1)}
        allowed = {at for one, two in language.find("allowed", self._words, first, last) for at in range(one, two + 1)}
        kept = found - allowed
        return kept if name in ("deny", "condition", "said", "that") else kept - self._related(first, last)

    def _reason_of_value(self, place: Found, clause: Found, value: Any) -> str | None:
        match value:
            case bool():
                return None
            case enum.Enum():
                return self._reason_of_member(_forms_of(value), [_forms_of(one) for one in type(value) if one is not value], clause)
            case _ if _is_literal(self.concept.value_type):
                others = [_forms_of(one) for one in typing.get_args(self.concept.value_type) if one != value]
                return self._reason_of_member(_forms_of(value), others, clause)
            case int() | float() | Decimal() | dt.timedelta():
                return self._reason_of_number(place, clause, measured=not isinstance(value, dt.timedelta))
            case dt.date() | dt.time():
                return _ABOUT if self._cues("about", clause[0], clause[1]) else self._reason_of_several(place, clause)
            case _:
                return None

    def _reason_of_member(self, forms: Sequence[str], others: Iterable[Sequence[str]], clause: Found) -> str | None:
        said = [place for other in others for place in self._member_places(set(other) - set(forms))]
        return _SEVERAL if any(clause[0] <= place[0] <= clause[1] for place in said) else None

    def _reason_of_several(self, place: Found, clause: Found) -> str | None:
        figures = {at for at in range(clause[0], clause[1] + 1) if numbers_at(self._words[at], self._language)}
        return _SEVERAL if figures - set(range(place[0], place[1] + 1)) else None

    def _reason_of_number(self, place: Found, clause: Found, *, measured: bool) -> str | None:
        """Return why a number does not plainly count what the concept is about."""
        language, words = self._language, self._words
        assert language is not None, "it was checked"
        if self._cues("about", *clause) - set(range(place[0], place[1] + 1)):
            return _ABOUT
        if (several := self._reason_of_several(place, clause)) is not None:
            return several
        if not measured:
            return None
        behind = place[1] + 1
        symbols = [words[at].text for at in (place[0] - 1, behind) if 0 <= at < len(words)]
        measured_in = {_CURRENCIES[mark] for mark in symbols if mark in _CURRENCIES}
        for group in ("measures", "units"):
            topic, units = self._units_of_topic(group), measured_in if group == "measures" else set()
            for name, entries in language.of_group(group).items():
                if any(one == behind for one, _ in search(language.pattern(entries), words, behind, behind + 1)):
                    units = units | {name}
            if units and topic and not units & topic:
                return _UNIT
            measured_in = measured_in | units
        if measured_in or behind > clause[1]:
            return None
        known = self._covered(behind, clause[1]) | {one for one, _ in language.find("common", words, behind, behind)}
        return None if behind in known or words[behind].is_mark else _OTHER_THING

    def _units_of_topic(self, group: str) -> set[str]:
        """Return the units of a group that the concept names."""
        language = self._language
        assert language is not None, "it was checked"
        words = words_of(f"{self.concept.keyword.replace('_', ' ')} {self.concept.description}")
        names = {one.text for one in words} & set(language.of_group(group))
        english = language_named("en").of_group(group)
        return names | {name for name, found in english.items() if search(language.pattern(found), words, 0, len(words) - 1)}

    # Around the sentence

    def _doubt_around(self, clause: Found, sentence: Found | None = None) -> Doubt | None:
        """Return the doubt that the rest of the sentence, the next ones, or the task of the message give."""
        language, words, passage = self._language, self._words, self.citation.passage
        assert language is not None, "it was checked"
        start, ends = clause[1] + 1, (sentence or clause)[1]
        reach = ends
        while reach + 1 < len(words) and self._length(ends + 1, reach) < _LONGEST_ASIDE:
            reach = passage.sentence(reach + 1, reach + 1)[1]
        if language.find("fix", words, start, reach):
            return Doubt(_CORRECTED, askable=True)
        openings = list(self._openings(start, reach))
        if any(self._takes_back(at) for at in openings[:1] + [at for at in openings if at > ends][:1]):
            return Doubt(_CORRECTED, askable=True)
        near = passage.sentence(clause[0], clause[1])
        after = passage.sentence(near[1] + 1, near[1] + 1) if near[1] + 1 < len(words) else near
        if language.find("joke", words, after[0], after[1]):
            return Doubt(_CUES["joke"], askable=True)
        if _EMOJI.search(passage.text, words[near[0]].start, min(len(passage.text), words[after[1]].end + 3)):
            return Doubt(_CUES["joke"], askable=True)
        return Doubt(_WORKED_ON, askable=True) if self._is_worked_on() else None

    def _openings(self, first: int, last: int) -> Iterator[int]:
        """Yield the positions of words that begin a clause or a sentence."""
        fresh = True
        for at in range(first, last + 1):
            word = self._words[at]
            if word.is_mark:
                fresh = fresh or self.citation.passage.is_pause(at) or at in self.citation.passage.ends
            elif fresh:
                yield at
                fresh = False

    def _length(self, first: int, last: int) -> int:
        return sum(not word.is_mark for word in self._words[first : last + 1])

    def _takes_back(self, at: int) -> bool:
        """Return whether a clause begins like a correction, or like a contrast with a cue of its own."""
        language, words = self._language, self._words
        assert language is not None, "it was checked"
        ends = next((end for end in range(at, len(words)) if self.citation.passage.is_pause(end) or end in self.citation.passage.ends), len(words))
        for name in ("back", "contrast"):
            for first, last in language.find(name, words, at, at + 3):
                if first != at:
                    continue
                if name == "contrast":
                    return any(self._cues(cue, last + 1, ends) for cue in _CUES)
                if not language.find("negate", words, first, last) or self._length(last + 1, ends) == 0:
                    return True
        return False

    def _is_worked_on(self) -> bool:
        """Return whether the message, or one before it, asks for work on a text, or plays a role."""
        language = self._language
        assert language is not None, "it was checked"
        lead = self.citation.text.text[: self._words[self._quoted()[1]].end][-4_000:]
        texts = (self.citation.text.text, self.citation.asked, *self.citation.earlier[:2])
        for name, text in (("material", lead), *(("frame", text) for text in texts)):
            words = words_of(text[:4_000])
            if language.find(name, words, 0, len(words) - 1):
                return True
        return False

    # Requests to forget

    def doubt_of_request(self) -> Doubt | None:
        """Return why the words around the quote are no plain request to forget; None if they are."""
        language, passage = self._language, self.citation.passage
        first, last = passage.sentence(*self._quoted())
        if (structure := self._structure(*self._quoted())) is not None:
            return structure
        if language is None:
            return Doubt(_UNREAD, askable=True)
        asks = language.find("forget", self._words, first, last)
        if not asks:
            return Doubt(_NOT_IN_THESE_WORDS, askable=True)
        return None


def _is_literal(value_type: _Type) -> bool:
    origin: Any = typing.get_origin(value_type)
    return origin is Literal


def _forms_of(member: Any) -> list[str]:
    """Return the texts in which a member of an enumeration may be said: its name, its value."""
    values = [member.value, member.name] if isinstance(member, enum.Enum) else [member]
    spelled = [str(value).replace("_", " ").replace("-", " ").strip() for value in values]
    return list(dict.fromkeys(text for text in spelled if text))


def _parts_of(value: Any) -> list[Any]:
    """Return the fields of an object that were given."""
    if attrs.has(type(value)):
        fields = [(getattr(value, item.name), item.default) for item in attrs.fields(type(value))]
    else:
        fields = [(getattr(value, name), None) for name in getattr(value, "__dataclass_fields__", ())]
    return [item for item, default in fields if item is not None and item != default] or [str(value)]


def _joined(ones: Iterable[Found], others: Sequence[Found]) -> list[Found]:
    return [(min(one[0], two[0]), max(one[1], two[1])) for one in ones for two in others][:16]


def _is_among(word: str, said: Iterable[str]) -> bool:
    """Return whether a word is among others, or begins like one of them; a number has to be among them."""
    if word in said:
        return True
    if any(map(str.isdigit, word)):
        return any(word in one for one in said)
    return any(
        one[:4] == word[:4] and len(one) >= 4 and abs(len(one) - len(word)) <= 4 for one in said if one[:1].isalpha()
    )
