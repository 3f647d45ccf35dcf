"""Coverage of statements by the facts and statements of a block, and their parts that no longer hold.

A statement is compared clause by clause, by its words with content. A clause is covered by one of a statement of the
same speaker and day that holds all of them and denies as much, and is about the same people; by one fact that holds
all of them, by the facts found in its own message together, or by a fact that was found in just this clause. A fact
about another individual covers only words of its own message, and so does any fact for a clause that denies
something, or is about the past or about others. A fact covers newer words of other messages only if they have no word
beside its own and the commonest ones, for "My job as a nurse is over." says more than "nurse", and "on Monday and
Friday" no more, but something else, than three days. A clause no longer counts if a newer statement of its speaker
repeats it with another value and a word of change: "I live in Oslo", "I live in Rome now"; one of the assistant, if
any of the user's does. What is said to be over ends no other value: "I'm no longer allergic to cats" leaves "I'm
allergic to nuts" as it is. A value that is found after its end stays in its words, too: "I work as a nurse again".
Where a clause is left, its sentence stays whole, and former values in it are marked. What the user corrected of the
assistant's words is left out, for it stands before the correction. Quoted lines ("> …") stay lines.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from factmem.details import Evidence, Origin
from factmem.detection.word_tables import table_named
from factmem.detection.words import ReadableText, fenced, words_of
from factmem.languages import WORD, Span, clause_spans, content_words, folded, language_of, sentence_spans
from factmem.patterns import lazy_pattern
from factmem.recall.text.times import moves_with_its_day
from factmem.records import FactRecord, other_speaker
from factmem.sentences import says_enough, stated_spans
from factmem.shapes import bare_type
from factmem.stemming import stemmer
from factmem.text_caches import forgettable
from factmem.values import encode_value

_STEM: Final = 5
"""Number of letters by which words are compared, for their endings differ."""
_BESIDE: Final = 1
"""Number of words beside a value that may belong to its concept, as "dog" does in "My dog is called Bruno"."""
_FEW: Final = 2
"""Number of words that two clauses must share before one of them may have another word beside the value."""

_OPEN_END: Final = lazy_pattern(r"[,;:、，；：](?=\Z)")
"""Mark at the end of a clause whose sentence went on with a question or a request."""

_BETWEEN_DIGITS: Final = lazy_pattern(r"(?<=\d)-(?=\d)")
"""A mark in a date, such as 2026-05-01."""

_TURNS: Final = ("deny", "past", "others", "ended", "longer")
_FIRST: Final = ("self", "my")
"""Lists of the tables of languages."""

_Source: TypeAlias = tuple[str | None, str | None]
"""Conversation and message."""
_Individual: TypeAlias = tuple[str, str | None] | None
"""Key of a subject that is an individual."""
_Manner: TypeAlias = tuple[frozenset[tuple[str, str]], str | None, str | None]
"""Marks of a clause, its speaker, and its day, if that matters."""
_Whose: TypeAlias = tuple[tuple[str, str | None], str | None]
"""Key of a subject, and the speaker."""


@attrs.frozen
class Excerpt:
    """The rest of a statement.

    Attributes:
        text: The sentences that are left.
        former: Spans of the text that no longer hold, in order.
        clauses: The clauses that have words with content.
    """

    text: str
    former: tuple[Span, ...] = ()
    clauses: tuple[_Clause, ...] = attrs.field(default=(), repr=False)

    @classmethod
    def of(cls, text: str) -> Excerpt:
        """Return a whole text."""
        return cls(text, clauses=tuple(_text(text).clauses))

    @property
    def terms(self) -> frozenset[str]:
        """All words with content, as they are compared."""
        return frozenset[str]().union(*(clause.terms for clause in self.clauses))


class _Text:
    """A text as it is compared, with blanks in the place of fenced code.

    Args:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        for start, end in fenced(text):
            text = text[:start] + " " * (end - start) + text[end:]
        self.text = text
        self.lowered = folded(text)
        self.language = language_of(self.lowered)

    @functools.cached_property
    def stated(self) -> list[tuple[Span, list[_Clause]]]:
        """The sentences without questions and requests, each with its clauses."""
        return [(span, list(self._clauses(span))) for span in stated_spans(self.text, self.language)]

    @functools.cached_property
    def answered(self) -> list[tuple[Span, list[_Clause]]]:
        """The sentences without questions, each with its clauses: what the assistant advises is given as an order."""
        spans = (span for span in sentence_spans(self.text) if not self.language.asks(self.lowered[slice(*span)]))
        return [(span, list(self._clauses(span))) for span in spans]

    @functools.cached_property
    def clauses(self) -> list[_Clause]:
        """The clauses of all sentences."""
        return [clause for span in sentence_spans(self.text) for clause in self._clauses(span)]

    def _clauses(self, sentence: Span) -> Iterator[_Clause]:
        """Yield the clauses that have words with content: between commas, "and" and the like."""
        unspaced = self.language.unspaced
        for start, end in clause_spans(self.text, sentence):
            joins = () if unspaced else self.language.cues["joins"].finditer(self.lowered, start, end)
            starts = (found.start() for found in joins if self._is_plain(found.span()))
            for first, last in itertools.pairwise([start, *starts, end]):
                if words := content_words(self.lowered[first:last], self.language):
                    terms = frozenset(words if unspaced else map(_term, words))
                    yield _Clause(self, (first, last), terms, sentence)

    def is_quoted(self, at: int) -> bool:
        """Return whether an offset is in a line that quotes somebody, as in a mail: "> …"."""
        return self.text[self.text.rfind("\n", 0, at) + 1 : at + 1].lstrip().startswith(">")

    def marks(self, span: Span) -> frozenset[tuple[str, str]]:
        """Return the marks of a part; see `_Clause.marks`."""
        if not self.language.name:
            return frozenset()
        language, words = table_named(self.language.name), words_of(self.text[slice(*span)])
        found = {cue: language.find(cue, words, 0, len(words) - 1) for cue in (*_TURNS, "averse", *_FIRST)}
        return frozenset(
            ("first person", "") if cue in _FIRST else (cue, " ".join(word.text for word in words[first : last + 1]))
            for cue, places in found.items()
            for first, last in places
        )

    def _is_plain(self, span: Span) -> bool:
        """Return whether a word is more than an accented letter, such as the Italian "è", which is not "e"."""
        return span[1] - span[0] > 1 or self.text[span[0]].lower() == self.lowered[span[0]]


@forgettable
@functools.lru_cache(1_024)  # turn after turn loads much the same statements
def _text(text: str) -> _Text:
    """Return a text as it is compared."""
    return _Text(text)


@attrs.frozen(eq=False)
class _Clause:
    """A clause with something to tell.

    Attributes:
        of: The text that it is in.
        span: Its place there.
        terms: Its words with content, as they are compared.
        sentence: The place of its sentence.
    """

    _of: _Text
    span: Span
    terms: frozenset[str]
    sentence: Span

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Those terms that are numbers, or begin with a capital letter inside a sentence."""
        if self._of.language.capitals:
            return frozenset()
        words = [found[0] for found in WORD.finditer(self._of.text, *self.span)]
        inside = words[1:] if self.span[0] == self.sentence[0] else words
        return frozenset(_term(folded(word)) for word in inside if word[0].isupper() or word[0].isdigit())

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """All words but those of change, as they are compared."""
        language, text = self._of.language, self._of.lowered[slice(*self.span)]
        for cue in ("joins", "changes", "lately"):
            text = language.cues[cue].sub("" if language.unspaced else " ", text)
        words = WORD.findall(text)
        if self._in_pairs:
            return frozenset[str]().union(*map(_pairs, words))
        return frozenset(map(_term, words))

    @functools.cached_property
    def marks(self) -> frozenset[tuple[str, str]]:
        """The words that deny or dislike something, or are about the past or about others; and the first person.

        Two clauses with the same words with content tell the same only if they have the same marks.
        """
        return self._of.marks(self.span)

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether no word of it denies anything, tells of an end ("no longer"), or is about the past or others."""
        return all(cue not in _TURNS for cue, _ in self.marks)

    @functools.cached_property
    def is_of_a_day(self) -> bool:
        """Whether its sentence names a time relative to the day on which it was said."""
        return moves_with_its_day(self._of.text[slice(*self.sentence)])

    @functools.cached_property
    def told(self) -> frozenset[str] | None:
        """The words of its sentence but for the commonest, as they are compared; None if that is not plain."""
        language = self._of.language
        if any(cue in _TURNS for cue, _ in self._of.marks(self.sentence)):
            return None
        if language.unspaced:
            return frozenset(content_words(self._of.lowered[slice(*self.sentence)], language))
        common = _common(language.name)
        words = WORD.findall(self._of.lowered[slice(*self.sentence)])
        terms = (common.months.get(word) or _term(word) for word in words if word not in common.first)
        return frozenset(terms) - common.terms

    @property
    def _in_pairs(self) -> bool:
        """Whether words are compared by their characters, for they take endings or stand without spaces."""
        return self._of.language.unspaced or self._of.language.orders_last

    def replaced(self, newer: frozenset[str]) -> Sequence[Span]:
        """Return the place of the value, if words of a newer clause repeat all else; none if they do not."""
        other = self.words - newer
        same = len(self.words) - len(other)
        if not 1 < same >= len(other) > 0:
            return ()
        if not self._in_pairs and self.words & newer <= _common(self._of.language.name).particles:
            return ()  # "in a" is said of anything
        value = frozenset(term for term in self.terms if not self._is_in(term, newer))
        if self._are_names(self.terms - value):
            return ()  # "Mrs. Doyle is on leave" says nothing of "Ella's teacher is Mrs. Doyle"
        beside = (
            other - value if not self._in_pairs else {pair for pair in other if not set(pair) & set("".join(value))}
        )
        if len(beside) > max(same // 4, same > _FEW):
            return ()
        places = _united(self.places(value))
        return places if len(places) == 1 else ()

    def _are_names(self, terms: frozenset[str]) -> bool:
        """Return whether some terms, apart from titles and the first word, are all capitalized, as only names are."""
        language, text = self._of.language, self._of.text
        titles = language.lists.get("titles", ())
        places = [(start, end) for start, end in self.places(terms) if start > self.span[0]]
        written = [text[start:end] for start, end in places]
        named = [word for word in written if folded(word) not in titles]
        return bool(named) and not language.capitals and all(word[0].isupper() for word in named)

    def _is_in(self, term: str, words: frozenset[str]) -> bool:
        if not self._in_pairs:
            return term in words
        return _pairs(term) <= words or (len(term) == 1 and any(term in pair for pair in words))

    def places(self, terms: frozenset[str]) -> Iterator[Span]:
        """Yield the places of some terms."""
        if self._of.language.unspaced:
            starts = ((self._of.lowered.find(term, *self.span), len(term)) for term in terms)
            yield from ((at, at + length) for at, length in starts if at >= 0)
        else:
            found = WORD.finditer(self._of.lowered, *self.span)
            yield from (word.span() for word in found if _term(word[0]) in terms)


@attrs.frozen(eq=False)
class _Value:
    """A value of a typed fact.

    Attributes:
        individual: The individual that it is about, if any.
        about: Terms of the concept.
        own: Terms of the value.
        text: The value, if it is a text.
        several: Whether it is a list.
        at: Time of the fact.
        former: Whether it was replaced.
    """

    individual: _Individual
    about: frozenset[str]
    own: frozenset[str]
    text: str | None
    several: bool
    at: dt.datetime
    former: bool

    @property
    def terms(self) -> frozenset[str]:
        """Terms of the concept and the value."""
        return self.about | self.own

    def is_repeated_in(self, clause: _Clause) -> bool:
        """Return whether a clause of any message names the concept and the value, and hardly anything else."""
        if clause.terms.isdisjoint(self.about) or clause.terms.isdisjoint(self.own):
            return False
        rest = clause.terms - self.terms
        return len(rest) <= _BESIDE + (self.text is None) and (self.text is None or rest.isdisjoint(clause.names))

    def says(self, clause: _Clause, terms: frozenset[str], said_at: dt.datetime) -> bool:
        """Return whether it says what a clause of any message does.

        Args:
            clause: The clause.
            terms: Its terms and those of its quotes.
            said_at: Time of the clause. One that is newer may tell a change, unless its sentence has no other word.
        """
        if said_at <= self.at:
            return clause.terms <= terms or self.is_repeated_in(clause)
        told = clause.told
        return told is not None and told <= terms and (not self.several or self.own <= told)

    def is_told_in(self, clause: _Clause, *, alone: bool) -> bool:
        """Return whether a clause of a quote for this value tells hardly anything else.

        Args:
            clause: The clause.
            alone: Whether the quote has no other clause.
        """
        if alone and (self.text is None or clause.terms.isdisjoint(self.own)):
            return True  # the value is worded otherwise
        rest = clause.terms - self.terms
        return len(rest) < len(clause.terms) and len(rest) <= _BESIDE and rest.isdisjoint(clause.names)

    def places(self, span: Span, clauses: Iterable[_Clause], text: _Text) -> Iterator[Span]:
        """Yield the places of the value in a sentence; its clauses, if it is worded otherwise there."""
        at = -1 if self.text is None else text.lowered.find(folded(self.text), *span)
        if self.text is not None and at >= 0:
            yield at, at + len(self.text)
        elif words := [place for clause in clauses for place in clause.places(self.own)]:
            yield from words
        else:
            yield from (clause.span for clause in clauses if not clause.terms.isdisjoint(self.terms))


class _Told:
    """Sets of terms, found by the terms that they hold."""

    def __init__(self) -> None:
        self._count = 0
        self._numbers: dict[str, set[int]] = defaultdict(set)

    def add(self, terms: frozenset[str]) -> None:
        """Take in a set."""
        self._count += 1
        for term in terms:
            self._numbers[term].add(self._count)

    def holds(self, terms: frozenset[str]) -> bool:
        """Return whether one of the sets holds all of some terms."""
        if not self._numbers.keys() >= terms:
            return False
        return not terms or bool(set.intersection(*[self._numbers[term] for term in terms]))


class Coverage:
    """The facts and statements of a block so far. No statement covers a short answer or correction."""

    def __init__(self) -> None:
        self._said: dict[_Manner, _Told] = defaultdict(_Told)
        self._facts: list[tuple[_Value, frozenset[str]]] = []
        self._former: list[tuple[_Individual, dt.datetime, frozenset[str]]] = []
        self._changes: dict[_Whose, list[tuple[dt.datetime, frozenset[str]]]] = defaultdict(list)
        self._turns: dict[_Whose, list[tuple[dt.datetime, frozenset[str]]]] = defaultdict(list)
        self._newer: dict[str, list[frozenset[str]]] = {}
        self._found: dict[_Source, list[tuple[_Value, Evidence]]] = defaultdict(list)
        self._corrected: dict[str | None, list[str]] = defaultdict(list)  # by conversation

    def add_fact(self, record: FactRecord[Any], earlier: Iterable[FactRecord[Any]]) -> None:
        """Take in a typed fact.

        Args:
            record: The fact.
            earlier: Its earlier revisions.
        """
        value = _value(record, former=False)
        self._facts.append((value, self._indexed(value, record)))
        for revision in earlier:
            if revision.value != record.value:
                terms = self._indexed(_value(revision, former=True), revision)
                self._former.append((value.individual, record.timestamp, terms))

    def add_former(self, revisions: Iterable[FactRecord[Any]]) -> None:
        """Take in revisions of facts that are not in the block, with values that do not hold."""
        for revision in revisions:
            self._indexed(_value(revision, former=True), revision)

    def add_statement(self, record: FactRecord[Any], excerpt: Excerpt) -> None:
        """Take in a statement of the block.

        Args:
            record: The statement; one that a model extracted covers the clauses that it quotes.
            excerpt: What the block tells of it.
        """
        for clause in excerpt.clauses:
            self._said[_manner(clause, record)].add(clause.terms)
        for quote in record.evidence:
            if quote.quote != record.value:
                value = _Value(None, frozenset(), excerpt.terms, excerpt.text, False, record.timestamp, former=False)
                self._found[quote.message].append((value, quote))

    def add_corrections(self, records: Iterable[FactRecord[Any]]) -> None:
        """Take in what records correct in their conversation, whether they are in the block yet or not."""
        for quote in (quote for record in records for quote in record.evidence):
            if quote.corrects and quote.conversation_id is not None:
                self._corrected[quote.conversation_id].append(quote.corrects)

    def add_changes(self, records: Iterable[FactRecord[Any]]) -> None:
        """Take in the changes that statements report, whether they are in the block yet or not."""
        for record in records:
            text = _text(str(record.value))
            turns = [clause.terms for _, clauses in text.stated for clause in clauses if not clause.is_plain]
            self._turns[_whose(record)] += [(record.timestamp, terms) for terms in turns]
            changed = any(text.language.finds(cue, text.lowered) for cue in ("changes", "lately"))
            if changed and not text.language.finds("beside", text.lowered):
                read = ReadableText(text.text)  # what stands in a letter or a quotation is another's
                clauses = [clause for _, clauses in text.stated for clause in clauses]
                plain = (clause for clause in clauses if clause.is_plain and read.structure_at(*clause.span) is None)
                self._changes[_whose(record)] += [(record.timestamp, clause.words) for clause in plain]

    def add_newer(self, id: str, newer: FactRecord[Any]) -> None:
        """Take in that a newer statement overtakes one.

        Args:
            id: Id of the overtaken statement.
            newer: The newer statement.
        """
        self._newer[id] = [clause.words for clause in _text(str(newer.value)).clauses]

    def left(self, record: FactRecord[Any]) -> Excerpt | None:
        """Return what the block does not tell of a statement, without questions and requests; None if nothing."""
        text = _text(str(record.value))
        near = self._near(record)
        overtaking = self._newer.get(record.id, [])
        of_assistant = record.details.origin is Origin.ASSISTANT  # whose words change nothing that the user said
        told = text.answered if of_assistant else text.stated
        clauses = [clause for _, clauses in told for clause in clauses]
        if overtaking and not any(clause.replaced(words) for clause in clauses for words in overtaking):
            return None  # nobody knows which part still holds
        later = [words for at, words in self._changes.get(_whose(record), ()) if of_assistant or at > record.timestamp]
        replaced: dict[_Clause, list[Span]] = defaultdict(list)
        for words in (*overtaking, *later):
            for clause in clauses:
                replaced[clause] += clause.replaced(words)
        corrected = self._corrected[record.evidence[0].conversation_id] if of_assistant and record.evidence else ()
        kept = [
            (span, clauses)
            for span, clauses in told
            if not any(text.text[slice(*span)] in words for words in corrected)
            and (clauses or (means_more(record) and not near))
            and not (clauses and all(replaced[clause] or self._covers(clause, record, near) for clause in clauses))
        ]
        left = tuple(clause for _, clauses in kept for clause in clauses)
        count = sum(len(clause.terms) for clause in left)
        pieces = (text.lowered[slice(*span)] for span, _ in kept)
        if not (kept and means_more(record)) and not says_enough(count, pieces, text.language):
            return None
        rest, quoted, former = "", False, []
        for span, clauses in kept:
            opens, within = text.text[span[0]] == ">", text.is_quoted(span[0])
            if rest:
                ends = text.language.unspaced or not rest[-1].isalnum()
                rest += ("" if ends else ".") + ("\n" if opens or within != quoted else " ")
            if within and not (opens or quoted):
                rest += "> "
            quoted = within
            places = [place for value, _ in near if value.former for place in value.places(span, clauses, text)]
            places += [place for clause in clauses for place in replaced[clause]]
            former += [(start - span[0] + len(rest), end - span[0] + len(rest)) for start, end in places]
            rest += _OPEN_END.sub("", text.text[slice(*span)])
        return Excerpt(rest, tuple(_united(former)), left)

    def _indexed(self, value: _Value, record: FactRecord[Any]) -> frozenset[str]:
        """Index a value by its messages, and return its terms and those of quotes that tell nothing else."""
        terms = value.terms
        for quote in record.evidence:
            self._found[quote.message].append((value, quote))
            clauses = _text(quote.quote).clauses
            if len(clauses) == 1 and value.is_told_in(clauses[0], alone=True):
                terms |= clauses[0].terms
        return terms

    def _covers(self, clause: _Clause, record: FactRecord[Any], near: Sequence[tuple[_Value, Evidence]]) -> bool:
        here = [value for value, quote in near if _overlap(clause, quote, record)]
        if any(self._was_over(value, record) for value in here):
            return False
        said = self._said[_manner(clause, record)].holds(clause.terms) or (
            clause.is_plain and self._covers_plain(clause, record)
        )
        covered = said and not means_more(record)
        if covered or not near:
            return covered
        together = frozenset[str]().union(*(value.terms for value, _ in near))
        return clause.terms <= together or any(value.is_told_in(clause, alone=False) for value in here)

    def _was_over(self, value: _Value, record: FactRecord[Any]) -> bool:
        """Return whether older words of the speaker deny or end a value, which is said to hold again."""
        turns = self._turns.get(_whose(record), ())
        return any(at < record.timestamp and not value.own.isdisjoint(terms) for at, terms in turns)

    def _covers_plain(self, clause: _Clause, record: FactRecord[Any]) -> bool:
        """Return whether a fact, or its former value, says a clause: one about the same individual, or about none."""
        if not self._facts:
            return False
        whose = (None, _individual(record))
        return any(
            value.individual in whose and value.says(clause, terms, record.timestamp) for value, terms in self._facts
        ) or any(
            individual in whose and record.timestamp <= until and clause.terms <= former
            for individual, until, former in self._former
        )

    def _near(self, record: FactRecord[Any]) -> list[tuple[_Value, Evidence]]:
        """Return the values found in a statement's messages, each with its quote."""
        sources = dict.fromkeys(item.message for item in record.evidence)
        return [found for source in sources if source[1] is not None for found in self._found.get(source, ())]


def means_more(record: FactRecord[Any]) -> bool:
    """Return whether a statement is a short answer or correction, to which other words give its meaning."""
    return bool(record.evidence) and record.evidence[0].before is not None


def _value(record: FactRecord[Any], *, former: bool) -> _Value:
    data = encode_value(record.value, record.concept.value_type)
    said = _BETWEEN_DIGITS.sub(" ", data if isinstance(data, str) else json.dumps(data))
    own = frozenset[str]() if isinstance(data, bool) else _terms(said)
    about = _terms(f"{record.concept.keyword.replace('_', ' ').replace('-', ' ')} {record.concept.description}")
    text = data if isinstance(data, str) and bare_type(record.concept.value_type) is str else None
    return _Value(_individual(record), about, own, text, isinstance(data, list), record.timestamp, former)


def _whose(record: FactRecord[Any]) -> _Whose:
    return record.subject.key, other_speaker(record.evidence, record.subject)


def _manner(clause: _Clause, record: FactRecord[Any]) -> _Manner:
    day = record.evidence[0].day if record.evidence else None
    return clause.marks, other_speaker(record.evidence, record.subject), day if clause.is_of_a_day else None


def _individual(record: FactRecord[Any]) -> _Individual:
    return record.subject.key if record.subject.individual_name is not None else None


class _Common(NamedTuple):
    """Words of a language that tell nothing alone.

    Attributes:
        first: Those of the first person.
        terms: The other common ones, as they are compared.
        particles: Those of the common ones that are not verbs.
        months: The names of months with their numbers, as values have them.
    """

    first: frozenset[str]
    terms: frozenset[str]
    particles: frozenset[str]
    months: Mapping[str, str]


@functools.cache
def _common(language: str) -> _Common:
    if not language:
        return _Common(frozenset(), frozenset(), frozenset(), {})
    table = table_named(language)
    first = table.words("self") | table.words("my")
    months = {name: str(number) for number, names in enumerate(table.calendar("months"), 1) for name in names}
    terms, particles = (
        frozenset(map(_term, table.words("common") - those)) for those in (first, first | table.words("verbs"))
    )
    return _Common(first, terms, particles, months)


def _terms(text: str) -> frozenset[str]:
    """Return all words of a text as they are compared, function words included."""
    lowered = folded(text)
    language = language_of(lowered)
    return frozenset(content_words(lowered, language) if language.unspaced else map(_term, WORD.findall(lowered)))


def _term(word: str) -> str:
    if word.isdigit():
        return word.lstrip("0")
    return (stemmer()(word) if word.isascii() else word)[:_STEM]


def _overlap(clause: _Clause, quote: Evidence, record: FactRecord[Any]) -> bool:
    """Return whether a quote and a clause of a statement share some of the message."""
    offset = record.evidence[0].start or 0
    start, end = quote.start, quote.end
    if start is None or end is None:
        start = str(record.value).find(quote.quote) + offset
        end = start + len(quote.quote)
    return start < clause.span[1] + offset and clause.span[0] + offset < end


def _pairs(word: str) -> set[str]:
    return {word[at : at + 2] for at in range(max(len(word) - 1, 1))}


def _united(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that touch as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found
