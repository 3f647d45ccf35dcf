"""Plain statements: whether a value at a place of a text is said plainly by the speaker, of what a concept is about.

A plain clause begins with the speaker (a pronoun, or a verb where a language drops it) or with what the concept is
about; each word before the value is one that its language's table knows, or the concept's own. One may be unknown
where the clause names what the concept is about. No cue speaks against it: in the clause, before it in its sentence, or
right after it. The cues are lists of the tables (see `languages`); each has a reach here, and a reason in plain words.

Other lists say where a cue is none: ``allowed`` ("I'm scared" is not the past), ``instead`` ("rather than coffee"),
``correlative`` ("not only"), ``beside`` ("with my parents" after a value) and ``became`` ("moved to" tells of the
present). Verbs of a fact about somebody else stand in ``third`` ("wohnt"). Words of
``verbs`` that do not show the first person stand in ``unmarked`` ("ist"); a table that is ``uninflected`` shows it by
pronouns alone, and one with ``verb_last`` has objects before its verbs. What is over is plainly said with a cue of
``ended`` ("no longer", "quit") that nothing denies, or with one of ``longer`` ("anymore") beside a denial.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

import attrs

from factmem.detection.value_forms import behind_place, is_amount, numbers_at, ordinal_places
from factmem.detection.word_tables import REST, WordTable, entries, positions, search, table_named, table_of
from factmem.detection.words import Found, Passage, ReadableText, Word, plain_words, words_of
from factmem.languages import last_sentence
from factmem.stemming import stemmer
from factmem.subjects import MemorySubject
from factmem.toml_tables import table

_DATA: Final = table("detection/plain_statements")
CUES: Final[Mapping[str, str]] = _DATA["cues"]
"""Lists of cues, with their reasons."""
_IN_CLAUSE: Final = ("deny", "past", "maybe", "plan", "wish", "joke", "averse")
_BEFORE: Final = ("condition", "that")
_OF_QUESTIONS: Final = ("past", "deny")
"""Cues of a question whose short answer says nothing plainly."""
_THEMES: Final = ("averse", "past")
"""Lists of cues that a concept may be about."""
_OF_EVERY_TOPIC: Final = ("deny", "negate", "condition", "said", "that")
"""Cues that count although the concept has the same word."""
_BEHIND: Final = ("instead", "beside", "weekdays", "days", "months", "tail", "ended", "longer")
"""Lists of the words that may stand right behind a value."""
_PLAIN: Final = ("self", "my", "verbs", "became", "fill", "allowed", "yes")
"""Lists of the words that may stand before a value."""

_HEARD: Final = 5_000
"""Maximum distance from a quote of what is searched for a name, a number or a day, in characters."""
NOT_SAID: Final = "not said in these words"
_CORRECTED: Final = "corrected or doubted right after"
SEVERAL: Final = "one of several"
_COUNTS_ELSE: Final = "said of something else"

_QUESTION_MARKS: Final = frozenset("?？؟")
_COLONS: Final = frozenset(":：")
_COMMAS: Final = frozenset(",，、،")
_SHORT: Final = 3
"""Number of words of an aside, of an item of a list, and of a negation."""
_AFTER: Final = 4
"""Number of words behind a value in which the speaker may be named; twice as many characters of an unspaced script."""
_LONGEST_TASK: Final = 4_000
_SHORTEST_ROOT: Final = 4
_LONGEST_ROOT: Final = 6
"""Words that share so many letters are of one family: "subscribed" and "subscription"."""
_WINKS: Final = re.compile(_DATA["winks"])
_OF_AMOUNTS: Final = frozenset(_DATA["symbols"].values())
"""Units of a concept that names none."""
_LIGHT: Final = frozenset(entries(_DATA["light"]))
"""Words of a concept that do not say what it is about."""


@attrs.frozen
class Topic:
    """Subject matter of a concept, in the language of a passage.

    Attributes:
        words: the words of its keyword and description, and the names of its subject.
        subjects: the names of its subject.
        language: the language.
        units: the units and measures that its keyword and description name.
        choices: the words of its choices, if it has some.
    """

    words: frozenset[str]
    subjects: frozenset[str]
    language: WordTable
    units: frozenset[str] = frozenset()
    choices: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, keyword: str, description: str, subjects: frozenset[str], language: WordTable, choices: Iterable[str] = ()
    ) -> Topic:
        """Return the topic of a concept by its keyword, its description and its choices."""
        words = words_of(f"{keyword.replace('_', ' ')} {description}")
        found = frozenset(word.text for word in words if not word.is_mark)
        english = table_named("en")
        groups = {**english.group("units"), **english.group("measures")}
        units = {name for name, forms in groups.items() if search(english.pattern(forms), words)}
        counted = {_DATA["counted"].get(word, word) for word in found}
        units |= counted & {*language.group("units"), *language.group("measures")}
        offered = frozenset(word for choice in choices for word in plain_words(choice))
        return cls((found | subjects) - (_LIGHT - {keyword}), subjects, language, frozenset(units), offered)

    def _has_stem(self, word: str) -> bool:
        """Return whether a word is an English inflection of one of the topic."""
        stem = stemmer()(word) if word.isascii() else ""
        return stem in self._stems or (len(stem) > _LONGEST_ROOT and stem[:_LONGEST_ROOT] in self._stems)

    def places(self, words: Sequence[Word], first: int, last: int) -> set[int]:
        """Return the positions of the topic's words among others: in any English inflection, or in the language."""
        own = {at for at in range(max(0, first), min(last + 1, len(words))) if self._has_stem(words[at].text)}
        return own | self.named(words, first, last)

    def named(self, words: Sequence[Word], first: int, last: int) -> set[int]:
        """Return the positions of the topic's words in the form that it has them: "lived" is none of "lives"."""
        own = {at for at in range(max(0, first), min(last + 1, len(words))) if words[at].text in self.words}
        return own | positions(search(self._nouns, words, first, last))

    @functools.cached_property
    def is_of_a_thing(self) -> bool:
        """Whether the subject is not the speaker."""
        return "user" not in self.subjects

    @functools.cached_property
    def themes(self) -> frozenset[str]:
        """The lists of cues that the concept itself is about: what somebody dislikes, or did before."""
        words = words_of(" ".join(sorted(self.words)))
        return frozenset(name for name in _THEMES if search(_whole_entries(name), words))

    @functools.cached_property
    def _stems(self) -> frozenset[str]:
        stems = set(map(stemmer(), self.words))
        return frozenset(stems | {stem[:_LONGEST_ROOT] for stem in stems if len(stem) > _LONGEST_ROOT})

    @functools.cached_property
    def _nouns(self) -> re.Pattern[str]:
        nouns, alike = self.language.group("nouns"), table_named("en").group("nouns")
        named = {name for name in {*nouns, *alike} if self._names(name)}
        named |= {other for name in named & set(alike) for other in alike[name] if other in nouns}
        return self.language.pattern(noun for name in named for noun in nouns.get(name, ()))

    def _names(self, noun: str) -> bool:
        if stemmer()(noun) in self._stems or noun.replace("-", " ") in self.words:
            return True
        return len(noun) > _SHORTEST_ROOT and any(word.startswith(noun) for word in self.words)


@functools.cache
def _whole_entries(name: str) -> re.Pattern[str]:
    """Return a pattern of the English entries of a list that are whole words."""
    english = table_named("en")
    return english.pattern(entry for entry in english.words(name) if REST not in entry)


@attrs.frozen(kw_only=True)
class Citation:
    """A quote with what is needed to judge it.

    Attributes:
        text: the message that it is from.
        quote: the span of the quote in the message.
        asked: the message that the quote answers, if one went before.
        earlier: the messages before, the latest first.
        later: the next message of the same speaker, if there is one.
        names: words that name the subject of the fact.
        own: whether the message is the user's, who speaks of themselves.
        of_another: whether the fact is about somebody else than the one of several speakers who said it.
        said_on: the day of the message, if it is known.
    """

    text: ReadableText
    quote: tuple[int, int]
    asked: str = attrs.field(default="", repr=False)
    earlier: Sequence[str] = attrs.field(default=(), repr=False)
    later: str = attrs.field(default="", repr=False)
    names: frozenset[str] = frozenset()
    own: bool = True
    of_another: bool = False
    said_on: dt.date | None = None

    @functools.cached_property
    def passage(self) -> Passage:
        """The words around the quote."""
        language = self.language
        return self.text.passage(*self.quote, dotted=language is not None and bool(language.table.get("dotted")))

    @functools.cached_property
    def language(self) -> WordTable | None:
        """The language of the message, or of those before it if it is too short to show it."""
        return table_of((self.text.text, f"{self.text.text}\n{self.asked}", *self.earlier[:2]))

    @functools.cached_property
    def heard(self) -> Sequence[Word]:
        """The words of the message, and of the one that it answers, if they are not too far from the quote."""
        text, (start, end) = self.text.text, self.quote
        return [*words_of(self.asked[-_HEARD:]), *words_of(text, max(0, start - _HEARD), min(len(text), end + _HEARD))]

    @property
    def quoted(self) -> str:
        """The quote itself."""
        return self.text.text[slice(*self.quote)]


@attrs.frozen(kw_only=True)
class Manner:
    """Manner in which a value is said.

    Attributes:
        truth: the truth that the words say of the concept; None for a value of their own.
        granted: lists of cues that do not speak against it: "past" for the day on which something happened; with
            "ended", the value is said to be over.
        whole: whether other words stand between its parts, which may hold cues.
    """

    truth: bool | None = None
    granted: Collection[str] = ()
    whole: bool = False


@attrs.frozen
class Reading:
    """A citation in a language with a table, read for what a concept is about.

    Attributes:
        citation: the citation.
        language: its language.
        topic: what the concept is about.
    """

    citation: Citation
    language: WordTable
    topic: Topic

    @property
    def passage(self) -> Passage:
        """The words around the quote."""
        return self.citation.passage

    @property
    def words(self) -> Sequence[Word]:
        """The words of the passage."""
        return self.passage.words

    def cues(self, name: str, first: int, last: int, inner: Collection[int] = ()) -> set[int]:
        """Return the positions of a list's entries, without those that are allowed, or the topic's.

        They are outside a value, whose positions are `inner`. In an unspaced script a cue may begin within one.
        """
        places = (range(one, two + 1) for one, two in self._find(name, first, last))
        if self.language.is_unspaced:
            places = (place for place in places if not any(at in inner for at in place))
        found = {at for place in places for at in place}.difference(inner)
        if not found or name in self.topic.themes:
            return set()
        found -= self.entries("allowed", first, last)
        for exception in (*(("instead",) if name == "others" else ()), *(self.topic.themes if name == "deny" else ())):
            found -= self.entries(exception, first, last)
        return found if name in _OF_EVERY_TOPIC else found - self.topic.named(self.words, first, last)

    def entries(self, name: str, first: int, last: int) -> set[int]:
        """Return the positions of a list's entries."""
        return self._within(name, self.words, first, last)

    def _find(self, name: str, first: int, last: int) -> list[Found]:
        return self.language.find(name, self.words, first, last)

    def structure(self, place: Found) -> str | None:
        """Return the reason of words outside running text."""
        return self.citation.text.structure_at(self.words[place[0]].start, self.words[place[1]].end)

    # A value at a place

    def reasons(self, place: Found, manner: Manner) -> Iterator[str]:
        """Yield the reasons why a value is not plainly said at a place: the positions of its first and last word."""
        if structure := self.structure(place):
            yield structure
        sentence = self.passage.sentence(*place)
        clause = self.clause(place, sentence)
        yield from self._of_clause(clause, set() if manner.whole else positions([place]), manner)
        yield from self._of_sentence(place, clause, sentence)
        yield from self._of_speaker(place, clause, sentence, manner)
        yield from self.reasons_around(place, clause, sentence, denied=manner.truth is False)

    def clause(self, place: Found, sentence: Found | None = None) -> Found:
        """Return the clause of a place in its sentence: between pauses, or words that begin another clause."""
        sentence = sentence or self.passage.sentence(*place)
        breaks = self.entries("breaks", *sentence)
        before = (at for at in range(place[0] - 1, sentence[0] - 1, -1) if self._parts(at, breaks, before=True))
        behind = (at for at in range(place[1] + 1, sentence[1] + 1) if self._parts(at, breaks))
        return next(before, sentence[0] - 1) + 1, next(behind, sentence[1] + 1) - 1

    def _parts(self, at: int, breaks: Collection[int], *, before: bool = False) -> bool:
        # The particles that part clauses in an unspaced script also stand within them, before what they are about.
        return self.passage.is_pause(at) or (at in breaks and not (before and self.language.is_unspaced))

    def _said(self, first: int, last: int) -> list[int]:
        """Return the positions of words, without marks."""
        return [at for at in range(max(first, 0), last + 1) if not self.words[at].is_mark]

    def _unknown(self, first: int, last: int, *names: str) -> set[int]:
        """Return the positions of words that neither the table nor the topic has."""
        found = set(self._said(first, last)) - self.topic.places(self.words, first, last)
        found = {at for at in found if not is_amount(self.words[at], self.language)}
        for name in (*_PLAIN, *(("third",) if self.topic.is_of_a_thing else ()), *self.topic.themes, *names):
            found -= self.entries(name, first, last) if found else set()
        return found

    # Who speaks of what

    def _of_speaker(self, place: Found, clause: Found, sentence: Found, manner: Manner) -> Iterator[str]:
        if not self.citation.own:
            return
        inner = positions([place])
        first, last = clause[0], place[0] - 1
        beside, subject = self.entries("beside", place[1] + 1, clause[1]), self._subject(clause)
        others = self.cues("others", *clause, inner) - subject
        answers = self._answers(clause)
        goes_on = not answers and self._goes_on_of_another(clause, sentence)
        if goes_on or any(at < min(beside, default=at + 1) for at in others):
            yield CUES["others"]
        unknown = self._unknown(first, last, *(("negate",) if manner.truth is False else manner.granted)) - subject
        speaks = self._speaks(place, clause, bool(unknown) or "ended" in manner.granted, subject)
        if manner.truth is None and not (unknown or speaks) and self._continues_list(place, clause, sentence):
            return
        begins = self._begins_with_verb(place, clause) or self._names_topic(first, last)
        oneself = subject or begins or self.entries("self", first, min(first + _SHORT, last))
        related = self.topic.places(self.words, *clause) - inner
        spare = manner.truth is None and bool(related and (oneself or self._counts_topic(place)))
        if len(unknown) > spare:
            yield "not said in plain words"
        answers = answers and len(unknown | self._unknown(place[1] + 1, clause[1])) <= 1
        if not (speaks or answers or self._is_labelled(clause, sentence)):
            yield "not plainly said about the speaker"

    def _speaks(self, place: Found, clause: Found, acts: bool, subject: Collection[int]) -> bool:
        """Return whether a clause begins with the speaker or what the concept is about, or ends with "is my ..."."""
        first, last, after = clause[0], place[0] - 1, self._after(place)
        related = self.topic.places(self.words, *clause) - positions([place])
        became = self.entries("became", *clause) | self.entries("endings", place[1], place[1])
        verbs = self.entries("verbs", first, after) | became
        oneself = self._own("self", first, last) or self._own("self", place[1] + 1, after)
        if oneself and (verbs or related or acts or self.language.table.get("nominal")):
            return True
        inflected = self._own("verbs", first, after) | became
        if (inflected and self.language.table.get("prodrop")) or self._begins_with_verb(place, clause):
            return True
        if self.entries("my", first, last) and (related or self.language.name != "en"):
            return True
        if self.entries("verbs", place[1] + 1, after) and self.entries("my", place[1] + 1, after) and related:
            return True
        named = any(at < place[0] for at in subject)
        before = named or self._counts_topic(place) or any(at < place[0] for at in related - verbs)
        return self.topic.is_of_a_thing and before and (bool(verbs) or named or self.language.is_unspaced)

    def _goes_on_of_another(self, clause: Found, sentence: Found) -> bool:
        """Return whether a clause without the first person follows words, or a question, about somebody else."""
        signs = ("self",) if self.language.table.get("uninflected") else ("self", "my", "verbs")
        own = set().union(*(self.entries(name, *clause) for name in signs))
        if self.topic.is_of_a_thing or own - self.entries("unmarked", *clause) - self.entries("third", *clause):
            return False
        first = self.passage.sentence(max(0, sentence[0] - 1), max(0, sentence[0] - 1))[0]
        asked = "\n".join(map(last_sentence, self.citation.earlier[:2])) if sentence[0] == 0 else ""
        return any(self._others(words, 0, len(words) - 1) for words in (self.words[first : clause[0]], words_of(asked)))

    def _others(self, words: Sequence[Word], first: int, last: int) -> set[int]:
        """Return the positions of words for people, without the speaker, the listener and what the concept is about."""
        people = self.language.pattern(self.language.words("others") - self.language.words("you"))
        return positions(search(people, words, first, last)) - self.topic.named(words, first, last)

    def _subject(self, clause: Found) -> set[int]:
        """Return the positions in a clause of a subject that is not the speaker.

        These are its names, the relation before one ("my sister Eva"), and a pronoun where the words before it, from
        the last sentence on, name the subject and nobody else.
        """
        if not self.topic.is_of_a_thing:
            return set()
        found = self._named_subject(*clause)
        if not found and clause[0] > 0:
            start = self.passage.sentence(clause[0] - 1, clause[0] - 1)[0]
            before = self._named_subject(start, clause[0] - 1)
            unknown = self._unknown(start, clause[0] - 1, "common", "weekdays", "months")
            others = {at for at in unknown if self.words[at].is_name and not self._is_first(at)}
            others |= self.entries("others", start, clause[0] - 1) - self.entries("their", start, clause[0] - 1)
            if before and not others - before:
                found = self.entries("they", *clause)
        return found

    def _named_subject(self, first: int, last: int) -> set[int]:
        names = self.topic.subjects - self.language.words("fill")
        found = {at for at in range(first, last + 1) if self.words[at].text in names}
        if unspaced := self.language.is_unspaced:  # a character of a name is none
            found = {at for at in found if found & {at - 1, at + 1}}
        if self.language.table.get("construct"):  # "sister Eva" is a sister of Eva's
            return found
        reach = range(1, 2 + unspaced)
        apart = {at for at in found if at > first and self.words[at - 1].text in _COMMAS}
        beside = found | {at - 1 for at in apart}
        return found | {at for at in self.entries("others", first, last) if any(at + far in beside for far in reach)}

    def _is_first(self, at: int) -> bool:
        return at == 0 or at - 1 in self.passage.ends

    def _names_topic(self, first: int, last: int) -> bool:
        """Return whether words begin with what is the speaker's ("my ..."), or with a thing, and name the topic."""
        own = self.entries("my", first, min(first + 1, last)) or (self.topic.is_of_a_thing and self.topic.subjects)
        return bool(own) and bool(self.topic.named(self.words, first, last) - self.entries("verbs", first, last))

    def _begins_with_verb(self, place: Found, clause: Found) -> bool:
        """Return whether a clause begins with a verb that says who speaks, in a language that may leave that out."""
        said, table = self._said(clause[0], place[1]), self.language.table
        leaves_out = table.get("prodrop") or table.get("verb_first")
        return bool(leaves_out) and said[0] < place[0] and said[0] in self._own("verbs", said[0], said[0] + 1)

    def _own(self, name: str, first: int, last: int) -> set[int]:
        """Return the entries of a list whose subject may be the speaker, or the thing that the concept is about."""
        unmarked = set() if self.topic.is_of_a_thing else self.entries("unmarked", first, last)
        return self.entries(name, first, last) - unmarked

    def _counts_topic(self, place: Found) -> bool:
        """Return whether what the concept is about stands right behind a value, and need not be of one thing."""
        everything = MemorySubject.EVERYTHING.name in self.topic.subjects
        return everything and bool(self.topic.places(self.words, place[1] + 1, place[1] + 1))

    def _after(self, place: Found) -> int:
        """Return the last position behind a value at which its speaker may be named."""
        most = min(len(self.words) - 1, place[1] + _AFTER * (1 + self.language.is_unspaced))
        return next((at - 1 for at in range(place[1] + 1, most + 1) if self.passage.is_pause(at)), most)

    def _answers(self, clause: Found) -> bool:
        """Return whether a clause begins the answer to a single question, to the speaker or about the topic."""
        asked = words_of(self.citation.asked)
        marks = [at for at, word in enumerate(asked) if word.text in _QUESTION_MARKS]
        begins = self.words[0].start == 0 and not self._unknown(0, clause[0] - 1)
        if len(marks) != 1 or not begins or (self.passage.ends[:1] < [clause[0]] and self.passage.ends):
            return False
        before = (at for at in range(marks[0] - 1, -1, -1) if asked[at].text in ".!\n。！")
        first = next(before, -1) + 1
        yours, others = self._within("you", asked, first, marks[0]), self._others(asked, first, marks[0])
        allowed = self._within("allowed", asked, first, marks[0])
        for name in {*_OF_QUESTIONS} - self.topic.themes:
            others |= self._within(name, asked, first, marks[0]) - allowed
        rest = clause[1] + 1, self.passage.sentence(*clause)[1]
        against = (self.cues(name, *rest) for name in (*_IN_CLAUSE, "condition"))
        alone = bool(self.entries("verbs", *clause)) or not any(against)
        offered = {word.text for word in asked[first : marks[0]]} & self.topic.choices
        return not others and bool(yours or len(offered) > 1 or (alone and self.topic.places(asked, first, marks[0])))

    def _within(self, name: str, words: Sequence[Word], first: int, last: int) -> set[int]:
        return positions(self.language.find(name, words, first, last))

    def _is_behind_colon(self, clause: Found, sentence: Found) -> bool:
        return clause[0] > sentence[0] and self.words[clause[0] - 1].text in _COLONS

    def _is_labelled(self, clause: Found, sentence: Found) -> bool:
        """Return whether a clause follows a label of the topic alone, in a passage about oneself and nobody else."""
        if not self._is_behind_colon(clause, sentence):
            return False
        colon, last = clause[0] - 1, len(self.words) - 1
        label = self.clause((colon - 1, colon - 1), sentence)
        named = self.topic.places(self.words, label[0], colon - 1)
        alone = named and not self._unknown(label[0], colon - 1)
        oneself = self.entries("self", 0, last) or self.entries("my", 0, last)
        return bool(alone and oneself) and not self.cues("others", 0, last)

    def _continues_list(self, place: Found, clause: Found, sentence: Found) -> bool:
        """Return whether a value continues the list of an earlier clause: "I grow figs, plums and *pears*"."""
        breaks, joins = (self.entries(name, *sentence) for name in ("breaks", "joins"))
        last = clause[0] - 1
        while last > sentence[0] and (self.words[last].text in _COMMAS or last in joins):
            borders = (at for at in range(last - 1, sentence[0] - 1, -1) if self._parts(at, breaks, before=True))
            first = next(borders, sentence[0] - 1) + 1
            unknown = self._unknown(first, last)
            if self._speaks((last, last), (first, last), False, self._subject((first, last))):
                reach = (first, clause[1])
                inner = positions([place]) | self.entries("correlative", *reach)
                against = (self.cues(name, *reach, inner) for name in (*_IN_CLAUSE, "others"))
                return len(unknown) <= _SHORT and not any(against)
            if len(self._said(first, last)) > _SHORT:
                return False
            last = first - 1
        return False

    # Cues

    def _of_clause(self, clause: Found, inner: set[int], manner: Manner) -> Iterator[str]:
        if "ended" in manner.granted and not self._is_over(clause, inner):
            yield "not plainly said to be over"
        for name in (name for name in _IN_CLAUSE if name not in manner.granted):
            reach = clause
            if name == "past" and self.entries("became", *clause):  # "I moved to Lyon last month, then to Nice"
                reach = clause[1] + 1, self.passage.sentence(*clause)[1]
            found = self.cues(name, *reach, inner)
            if name == "deny":  # "rather than" speaks against what follows it
                found -= {at for at in self.entries("instead", *clause) if at > min(inner, default=clause[1])}
            if name == "deny" and manner.truth is False:
                negated = self.cues("negate", *clause)
                if not negated or found - negated or max(negated) - min(negated) > _SHORT:
                    yield NOT_SAID
            elif found:
                yield CUES[name]

    def _is_over(self, clause: Found, inner: set[int]) -> bool:
        """Return whether a clause has a cue that alone says that something is over, or one that does with a denial."""
        denied, ended, longer = (self.cues(name, *clause, inner) for name in ("deny", "ended", "longer"))
        return (bool(ended) and denied <= ended) or (bool(longer) and not denied <= longer)

    def _of_sentence(self, place: Found, clause: Found, sentence: Found) -> Iterator[str]:
        inner = positions([place])
        asks = self.entries("asks", sentence[0], sentence[0] + 1)
        if self.cues("ask", clause[0], place[0] - 1) or sentence[0] in asks:
            yield CUES["ask"]
        for name in _BEFORE:
            if self.cues(name, sentence[0], place[0] - 1):
                yield CUES[name]
        if self.cues("condition", *clause, inner):
            yield CUES["condition"]
        pauses = (at for at in range(clause[1] + 2, sentence[1] + 1) if self.passage.is_pause(at))
        near = next(pauses, sentence[1])
        if self.cues("joke", sentence[0], near, inner):
            yield CUES["joke"]
        contrasts = self.entries("contrast", sentence[0], place[0] - 1) & self.entries("breaks", *sentence)
        last = clause[1] if self._goes_on(clause, sentence) else near
        if self.cues("said", max(contrasts, default=sentence[0]), last, inner):
            yield CUES["said"]
        if self._is_behind_colon(clause, sentence) and not self._is_labelled(clause, sentence):
            yield "said behind a colon"
        if self._is_asked(clause, sentence):
            yield CUES["ask"]

    def _goes_on(self, clause: Found, sentence: Found) -> bool:
        """Return whether another clause is joined to one by "and" or "but", and tells of something else."""
        following = self._said(clause[1] + 1, sentence[1])[:1]
        joints = (self.entries(name, clause[1] + 1, sentence[1]) for name in ("further", "contrast"))
        return any(not found.isdisjoint(following) for found in joints)

    def _is_asked(self, clause: Found, sentence: Found) -> bool:
        """Return whether a question mark ends a clause, or only a tag ("right?") stands between them."""
        last = min(sentence[1] + 1, len(self.words) - 1)
        marked = any(word.text in _QUESTION_MARKS for word in self.words[clause[1] : last + 1])
        return marked and len(self._said(clause[1] + 1, sentence[1])) < _SHORT

    # Around

    def reasons_around(self, place: Found, clause: Found, sentence: Found, *, denied: bool = False) -> Iterator[str]:
        """Yield the reasons that the words after a value, and the task of the message, give.

        Args:
            place: the value.
            clause: its clause.
            sentence: its sentence.
            denied: whether the clause denies something, which may be denied once more.
        """
        reach = sentence[1]
        while reach + 1 < len(self.words) and len(self._said(sentence[1] + 1, reach)) < _SHORT:
            reach = self.passage.sentence(reach + 1, reach + 1)[1]
        after = [at for border in (clause[1], sentence[1]) for at in self._first_words(border + 1, reach)]
        corrected = self.entries("fix", place[1] + 1, reach) or any(self._takes_back(at, denied=denied) for at in after)
        if corrected or self._is_corrected_later:
            yield _CORRECTED
        winks = _WINKS.search(self.passage.text, self.words[sentence[0]].start, self.words[reach].end + _SHORT)
        if winks or self.entries("joke", sentence[1] + 1, reach):
            yield CUES["joke"]
        if self._is_worked_on(clause):
            yield "said in a text to be worked on, or in a story"

    @functools.cached_property
    def _is_corrected_later(self) -> bool:
        """Whether the next message of the speaker begins like a correction or a joke, and does not ask to forget."""
        text = self.citation.later[:_HEARD]
        later = Reading(Citation(text=ReadableText(text), quote=(0, len(text))), self.language, self.topic)
        if not later.words:
            return False
        last = later.passage.sentence(0, 0)[1]
        if later.asked_to_forget((0, last)):
            return False
        begins = later.entries("fix", 0, last) or later.entries("joke", 0, last)
        return bool(begins) or any(later._takes_back(at, denied=False) for at in later._first_words(0, last))

    def _first_words(self, first: int, last: int) -> list[int]:
        """Return the positions of the first word, and of the first one that carries meaning."""
        said = self._said(first, last)
        if set(said[:1]) & self.entries("further", first, last):  # "and ...": a clause of its own
            return []
        return [*said[:1], *sorted(set(said) - self.entries("fill", first, last))[:1]]

    def _takes_back(self, at: int, *, denied: bool) -> bool:
        """Return whether a clause begins like a correction, or like a contrast with a cue of its own."""
        ends = (end for end in range(at, len(self.words)) if self.passage.is_pause(end) or end in self.passage.ends)
        end = next(ends, len(self.words) - 1)
        said = self._said(at, end)
        if self._is_first(at) and self._is_a_question(at):
            return False
        contrast = at in self.entries("contrast", at, at)
        unknown = self._unknown(at, end, "common", "back", "contrast", *(_IN_CLAUSE if contrast else ("deny", "maybe")))
        if len(said) <= _SHORT and len(unknown) < 2 and not self.cues("maybe", at, end).isdisjoint((said[0], said[-1])):
            return True
        # A longer clause in the past tells of something else: "We booked twelve seats" takes nothing back.
        against = [name for name in _IN_CLAUSE if self.cues(name, at, end) and (name != "past" or len(said) <= _SHORT)]
        if denied and set(against) <= {"deny"}:
            return False
        if against and not unknown and self.words[end].text not in _QUESTION_MARKS:
            return True
        allowed = self.entries("allowed", at, end)
        back = [place for place in self._find("back", at, at + _SHORT) if place[0] == at and at not in allowed]
        return any(not self._find("negate", *place) or not self._said(place[1] + 1, end) for place in back)

    def _is_a_question(self, at: int) -> bool:
        """Return whether a sentence is a question with a matter of its own."""
        first, last = self.passage.sentence(at, at)
        return self.words[last].text in _QUESTION_MARKS and len(self._said(first, last)) > 2 * _SHORT

    def _is_worked_on(self, clause: Found) -> bool:
        """Return whether the message, or one before it, asks for work on a text, or plays a role."""
        citation, whole = self.citation, self.citation.text.text
        if self._names("material", whole[: self.words[clause[1]].end][-_LONGEST_TASK:]):
            return True
        greetings = self.entries("greet", _SHORT, clause[0] - 1)
        if any(self._is_first(at) or self.passage.is_pause(at - 1) for at in greetings):  # of a letter in the message
            return True
        texts = (whole, citation.asked, *citation.earlier[:2])
        return any(self._names("frame", text[:_LONGEST_TASK]) for text in texts)

    def _names(self, name: str, text: str) -> bool:
        return bool(self.language.find(name, words_of(text)))

    # Numbers

    def reason_of_number(self, place: Found, *, counts: bool) -> str | None:
        """Return why a number is not plainly the one that the concept asks for; None if it is.

        Args:
            place: the positions of its first and last word.
            counts: whether what it counts stands behind it, and not within its place.
        """
        clause = self.clause(place)
        inner = positions([place])
        if self.cues("about", *clause, inner):
            return "said as an estimate or a range"
        if self.entries("part", place[1] + 1, min(place[1] + _AFTER, clause[1])):
            return "said of a part, or as a difference"
        if {at for at in self._said(*clause) if numbers_at(self.words[at], self.language)} - inner:
            return SEVERAL
        if self._is_replaced(clause):
            return _CORRECTED
        return self._reason_of_unit(place, clause) if counts else None

    def _is_replaced(self, clause: Found) -> bool:
        """Return whether another number takes the place of one right after its clause, or an aside: "36, er, 37"."""
        after = self._said(clause[1] + 1, self.passage.sentence(*clause)[1])[:_SHORT]
        begin = [at for at in after if self.passage.is_pause(at - 1) and numbers_at(self.words[at], self.language)]
        return len(begin) == 1 and not self._unknown(begin[0] + 1, min(begin[0] + 1, len(self.words) - 1))

    def _reason_of_unit(self, place: Found, clause: Found) -> str | None:
        words, behind = self.words, place[1] + 1
        symbols = {words[at].text for at in (place[0] - 1, behind) if 0 <= at < len(words)}
        measured = {_DATA["symbols"][mark] for mark in symbols if mark in _DATA["symbols"]}
        groups = {**self.language.group("measures"), **self.language.group("units")}
        measured |= {
            name for name, forms in groups.items() if behind_place(self.language.pattern(forms), place[1], words)
        }
        if measured and not measured & (self.topic.units or _OF_AMOUNTS):
            return "said in another unit"
        return None if measured else self._reason_of_next(place, clause)

    def _reason_of_next(self, place: Found, clause: Found) -> str | None:
        """Return why a value is part of something else: an unknown word stands right behind it."""
        behind = place[1] + 1
        if behind > clause[1] or self.words[behind].is_mark:
            return None
        unknown = self._unknown(behind, clause[1], *_BEHIND)
        return _COUNTS_ELSE if behind in unknown - self.entries("common", behind, behind) else None

    def reason_of_text(self, place: Found, text: str) -> str | None:
        """Return why a text is not plainly the one that the concept asks for; None if it is."""
        if self.language.is_unspaced:
            return None
        if self.words[place[0]].is_name and not self.language.table.get("nouns_large"):
            if text.islower() and not self._is_first(place[0]):
                return "said as a name"
            around = [at for at in (place[0] - 1, place[1] + 1) if 0 <= at < len(self.words) and self.words[at].is_name]
            if any(not (self._is_first(at) or self.words[at].text in self.topic.subjects) for at in around):
                return "said as a part of a longer name"
        return self._reason_of_next(place, self.clause(place))

    def reason_of_topic(self, place: Found, *, choice: bool) -> str | None:
        """Return why a day, or one of several choices, is not plainly that of what the concept is about.

        A word of its clause has to name it; a choice may also stand alone.
        """
        clause = self.clause(place)
        if self.topic.places(self.words, *clause) - positions([place]):
            return None
        alone = not self._unknown(place[1] + 1, clause[1], "tail") if choice else self._answers(clause)
        return None if alone else _COUNTS_ELSE

    # Statements

    def reason_of_statement(self, span: Found, retold: Sequence[Word]) -> str | None:
        """Return why whole sentences do not plainly say what a statement retells: it leaves out a cue of theirs."""
        if structure := self.structure(span):
            return structure
        for name, reason in CUES.items():
            allowed = self.entries("allowed", *span)
            held = sum(first not in allowed for first, _ in self._find(name, *span))
            told = len(self.language.find(name, retold))
            if held > told or (name == "deny" and held < told):
                return reason
        if any(word.text in _QUESTION_MARKS for word in self.words[span[0] : span[1] + 1]):
            return CUES["ask"]
        return next(self.reasons_around(span, span, span), None)

    def unsaid(self, text: str, span: Found) -> list[str]:
        """Return the words of a statement that carry meaning and that some sentences do not have."""
        said = {word.text for word in self.words[span[0] : span[1] + 1]}
        stems = set(map(stemmer(), said))
        known = (entry for name in ("fill", "common", "my", "self") for entry in self.language.words(name))
        light = _LIGHT.union(self.topic.subjects, *(entry.split() for entry in known))
        wanted = set(plain_words(text)) - light - said
        return [word for word in wanted if stemmer()(word) not in stems]

    def numbered(self, number: float | Decimal) -> list[Found]:
        """Return where the ordinal of a whole number stands before a word of the topic: "fifth floor"."""
        found = ordinal_places(number, self.words, self.language)
        return [place for place in found if self.topic.named(self.words, place[1] + 1, place[1] + 1)]

    # Requests

    def asked_to_forget(self, sentence: Found) -> Found | None:
        """Return the place of what a sentence plainly asks to forget, with the verb; None if it does not.

        It ends before a clause that says something itself ("Forget the roast, I'm vegan"), unless the verb has no
        object beside it and "that", a question word or a colon joins the clause to it.
        """
        for asked in self._find("forget", *sentence):
            (first, last), before = self.clause(asked, sentence), (sentence[0], asked[0] - 1)
            denied = self.cues("negate", asked[1] + 1, min(self.entries("that", asked[1] + 1, last), default=last))
            against = self.cues("said", *before) - self.entries("that", *before) | self.cues("condition", *before)
            if denied or against or not self._begins_request(first, asked, sentence):
                continue
            behind = last + 1, sentence[1]
            joints = self.entries("that", *behind) | self.entries("ask", *behind)
            joints |= {at for at in self._said(*behind)[:1] if self.words[at - 1].text in _COLONS}
            speaks = min(self.entries("self", *behind) | self.entries("verbs", *behind), default=None)
            alone = joints & {*self._said(*behind)[:1]} and not self._unknown(asked[1] + 1, last, "request", "common")
            return first, sentence[1] if alone or speaks is None else self.clause((speaks, speaks), sentence)[0] - 1
        return None

    def _begins_request(self, first: int, asked: Found, sentence: Found) -> bool:
        """Return whether nothing is said before a verb of a request; where it comes last, its object is."""
        objects = self.entries("that", first, asked[0] - 1) | self.entries("my", first, asked[0] - 1)
        against = self.cues("deny", first, asked[0] - 1) or self._unknown(asked[1] + 1, sentence[1], "request")
        last = self.language.table.get("verb_last") and objects and not against
        return bool(last) or not self._unknown(first, asked[0] - 1, "request")

    def translated(self, texts: Iterable[str], words: Sequence[Word] | None = None) -> list[Found]:
        """Return where the language's words for some English ones stand, in the passage or among other words."""
        words = self.words if words is None else words
        topic = Topic(frozenset(text.lower() for text in texts), frozenset(), self.language)
        return [(at, at) for at in sorted(topic.places(words, 0, len(words) - 1))]

    def is_asked_for(self, keyword: Sequence[Sequence[str]]) -> bool:
        """Return whether the message before asks for a truth, by the words of its keyword's parts, and no other.

        "You don't drive, do you?" is answered in either way.
        """
        asked = words_of(self.citation.asked)
        unclear = any(self.language.find(name, asked) for name in ("maybe", "deny", "negate"))
        found = [bool(self.translated(words, asked)) for words in keyword]
        return bool(found) and not unclear and 2 * sum(found) >= len(found)
