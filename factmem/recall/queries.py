"""A query, and how it is weighed against a corpus: its terms, and the concepts and the people that it asks about."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import numpy as np

from factmem.recall import scoring
from factmem.recall.index.columns import among, spread
from factmem.recall.index.corpus import Corpus, Occurrences, Rows, Seen
from factmem.recall.index.names_in_query import people_terms, relation_terms
from factmem.recall.index.outline_codec import BEGINS, OF_CHAIN, query_term, term_numbers
from factmem.recall.index.postings import FEW_HITS, Hits
from factmem.recall.scoring import Calibration, RecallSettings
from factmem.recall.text.analysis import analyse
from factmem.recall.text.related_words import Term
from factmem.recall.text.signs import (
    ASKING,
    CALLING,
    GIVEN_NAMES,
    MY,
    NAMING,
    TITLES,
    Kind,
    Whom,
    asked_terms,
    asks_for_assistant,
    asks_for_own,
    asks_for_present,
    asks_of_self,
    asks_whom,
    asks_whose,
    capitalized,
    capitals_are_names,
    chain_asked,
    content_terms,
    kinds_asked,
    negated,
    owned_terms,
)
from factmem.recall.text.times import TimeSpan
from factmem.short_work import may_wait
from factmem.text_caches import forgettable
from factmem.views import Sight

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

_MOST_SAID: Final = 64
"""Number of statements with a name in which the viewer may have given it as their own, the first ones."""

_MOST_VIEWERS: Final = 16
"""Number of viewers for whom `Seen.others` is kept: each takes a byte by head."""


@attrs.frozen(kw_only=True, eq=False)
class Query:
    """A query, independent of any corpus.

    Attributes:
        terms: The distinct terms.
        vector: The embedding of length 1, or None to go by words alone.
        times: The intervals that the query names, in seconds since 1970; an open beginning is minus infinity.
        days: The terms of the days among them; see `TimeSpan`.
        timed: The part of the evidence of words that is the closeness to a time.
        asks_assistant: Whether it asks for the assistant's own words.
        content: The terms that say what it is about.
        kinds: The kinds of values that would answer it.
        people: The terms that stand for somebody else than the speaker; see `people_terms`.
        asks_whom: Whether it asks of whom something holds.
        asks_whose: Whether it asks of whom somebody is the boss, the wife or the like, so that a name in it is a value.
        negated: Whether it denies something.
        asks_for_own: Whether it asks for what is the speaker's alone.
        asks_of_self: Whether it asks for what is the speaker's by no word for somebody else.
        chain: The terms of the relations by which it asks about a relative's relative.
        capitals_are_names: Whether a capital letter in its language shows a name.
        owned: The terms of what it calls the speaker's.
        asks_for_present: Whether it asks for what is, and not for what was.
        sight: What the caller may see, on which all statistics depend.
        now: The moment that ages are counted from, in seconds since 1970.
        settings: The weights.
        calibration: How cosines are read.
        lexical_weight: The weight of words: 1 without a vector.
    """

    terms: Sequence[Term] = ()
    vector: NDArray[np.float32] | None
    times: Sequence[tuple[float, float]] = ()
    days: Sequence[str] = ()
    timed: float = 0.0
    asks_assistant: bool = False
    content: Set[int] = frozenset()
    kinds: Kind = Kind.NONE
    people: Mapping[int, int] = attrs.field(factory=dict)
    asks_whom: bool = False
    asks_whose: bool = False
    negated: bool = False
    asks_for_own: bool = False
    asks_of_self: bool = False
    chain: Set[int] = frozenset()
    capitals_are_names: bool = True
    owned: Set[int] = frozenset()
    asks_for_present: bool = False
    sight: Sight
    now: float
    settings: RecallSettings
    calibration: Calibration = attrs.field(factory=Calibration)
    lexical_weight: float = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda query: query.calibration.lexical_weight if query.vector is not None else 1.0, takes_self=True
        ),
    )

    def at(self, times: Iterable[TimeSpan], rest: str) -> Query:
        """Return the query with times, whose words do not count besides.

        Args:
            times: The times.
            rest: The text of the query without the words of the times.
        """
        kept = set(term_numbers(analyse(rest)))
        terms = [term for term in self.terms if term.number in kept]
        timed = scoring.TIMED * (1 - len(terms) / max(len(self.terms), 1))
        seconds = (*self.times, *(span.seconds for span in times))
        days = (*self.days, *(day for span in times for day in span.days))
        return attrs.evolve(self, terms=terms, times=seconds, days=days, timed=self.timed + (1 - self.timed) * timed)


@forgettable
@functools.lru_cache(64)
def read_query(text: str) -> dict[str, Any]:
    """Return the attributes of a `Query` that its text decides, once for all searches of it."""
    return {
        "terms": tuple(map(query_term, asked_terms(text))),
        "asks_assistant": asks_for_assistant(text),
        "content": frozenset(term_numbers(content_terms(text))),
        "kinds": kinds_asked(text),
        "people": people_terms(text),
        "asks_whom": asks_whom(text),
        "asks_whose": asks_whose(text),
        "negated": negated(text),
        "asks_for_own": asks_for_own(text),
        "asks_of_self": asks_of_self(text),
        "chain": frozenset(term_numbers(analyse(" ".join(chain_asked(text))))),
        "capitals_are_names": capitals_are_names(text),
        "owned": frozenset(term_numbers(owned_terms(text))),
        "asks_for_present": asks_for_present(text),
    }


def less_named(corpus: Corpus, query: Query, text: str, nameless: NDArray[np.float32] | None) -> Query:
    """Return a query in whose embedding names count half; the same one if not all of its capitalized words are names.

    Names count as words. Embeddings of records are without them, so that those of a question blur what it means.

    Args:
        corpus: The corpus, whose speakers and subjects are the names.
        query: The query.
        text: Its text.
        nameless: The embedding of `factmem.recall.text.signs.nameless` of it.
    """
    if query.vector is None or nameless is None or nameless is query.vector:
        return query
    both = query.vector + nameless
    size = float(np.linalg.norm(both))
    shown = corpus.shown(query.sight)
    _, names = shown.named([term.number for term in query.terms], {}, shown.seen(query.sight))
    if not size or not names or not names.keys() >= set(term_numbers(analyse(" ".join(capitalized(text))))):
        return query
    return attrs.evolve(query, vector=(both / size).astype(np.float32))


class Compared(NamedTuple):
    """The records that a query was compared with.

    Attributes:
        records: The number of records that its caller sees.
        held: The share of the query's words with content that any of them holds, a related word as a part; 1 for a
            query without such words.
    """

    records: int
    held: float

    @classmethod
    def of(cls, corpus: Corpus, query: Query, seen: Seen) -> Compared:
        """Return the records that a query is compared with in a corpus, of which its caller sees a part."""
        terms = [term for term in query.terms if term.number in query.content]
        held = [min(of.documents[0], 1.0) for of in corpus.figures(terms, seen)] if terms else [1.0]
        return cls(seen.counts[0], sum(held) / len(held))


@attrs.frozen(eq=False)
class Level:
    """One level of documents, and how its occurrences of the terms of a query are weighed.

    Attributes:
        hits: The occurrences; see `factmem.recall.index.corpus.Occurrences`.
        shares: The weight of each term, as a share of the attainable score.
        norm: BM25's norm of length; see `scoring.length_norm`.
    """

    hits: Hits
    shares: NDArray[np.float64]
    norm: tuple[float, float]

    def all_shares(self, lengths: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the attained share of each document, by the lengths of all, in single precision."""
        fixed, factor = map(np.float32, self.norm)
        rows = self.hits.rows
        if len(rows) > FEW_HITS:
            may_wait()
        attained = scoring.term_share(self.hits.counts, fixed + factor * lengths[rows])
        attained *= self.hits.of_terms(self.shares.astype(np.float32))
        return np.bincount(rows, attained, len(lengths)).astype(np.float32)

    def exact_shares(self, documents: NDArray[np.integer[Any]], lengths: NDArray[Any]) -> NDArray[np.float64]:
        """Return the attained share of some documents, by the lengths of all, in double precision."""
        fixed, factor = self.norm
        attained = scoring.term_share(self.hits.among(documents), fixed + factor * lengths[documents])
        attained *= self.shares[:, None]
        shares = np.zeros(len(documents))
        for of_term in attained:  # one after the other, so that the sum does not depend on the number of documents
            shares += of_term
        return shares


@attrs.frozen(kw_only=True, eq=False)
class AskedAbout:
    """The concepts and the people that a query asks about.

    Attributes:
        names: The terms that name people; see `SubjectIndex.named`.
        called: By head, whether the query names its person; None if it names nobody.
        facts: By head, how far the query asks for its concept, how far it names it, and whether it is of facts, or
            words, about others than the query asks about; None if there are statements only, and it asks for no own.
        strange: By row, whether it is a typed fact without a word of the people whom the query asks about and of whom
            there are no facts; None if it asks about no such people.
        mentions: By row, whether it is a fact, or is of or holds a name in the query; None if that names nobody.
        kin: The occurrences of words for the relatives whom the query asks about, and for others; None if it asks about
            none.
        anybody: Whether the subject of a fact answers the query, unless the value is a person.
        whose: Whether the subject answers it even then.
        so: Whether it asks of whom something is so, without a word that denies: False does not answer it.
        elsewhere: By row, whether it is a statement of others; None if the query asks about anybody.
        own: By row, whether it is a statement of somebody about the viewer, who asks for their own; None if none is.
    """

    names: Mapping[int, int]
    called: NDArray[np.bool_] | None
    facts: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]] | None
    strange: NDArray[np.bool_] | None
    mentions: NDArray[np.bool_] | None
    kin: tuple[Hits, Hits, Hits] | None
    anybody: bool
    whose: bool
    so: bool
    elsewhere: NDArray[np.bool_] | None
    own: NDArray[np.bool_] | None

    @classmethod
    def of(cls, corpus: Corpus, query: Query, seen: Seen, found: Occurrences | None) -> AskedAbout:
        """Return what a query asks for, and about whom.

        If it names people, facts about anybody else are about others. If it names none, those about other individuals
        than the viewer are, or about any individual where there is no viewer and some fact is about none; of whatever
        else, such as a project, those of which the viewer has one of the same keyword. Where the speaker asks for their
        own, a subject with a capitalized name counts as an individual, and without a viewer the only one is the
        speaker. The name in a fact such as `first_name` is the viewer's own, and "Whose boss is Dan?" names nobody.

        Args:
            corpus: The corpus.
            query: The query.
            seen: What its caller sees of it.
            found: The occurrences of the terms.
        """
        terms = [] if query.asks_whose else [term.number for term in query.terms]
        people, names = corpus.named(terms, query.people, seen)
        asking = _Asking(corpus=corpus, query=query, seen=seen, found=found, people=people, names=names)
        facts = asking.concepts() if len(seen.facts) or query.asks_for_own else None
        strangers = asking.strangers
        return cls(
            names=names,
            called=asking.called.take(asking.heads["person"], mode="clip") if people else None,
            facts=None if facts is None else (*facts, asking.others),
            strange=asking.facts & ~asking.holding(strangers) if strangers and facts else None,
            mentions=asking.mentions(),
            kin=asking.kin,
            anybody=query.asks_whose or (query.asks_whom and not people),
            whose=query.asks_whose,
            so=query.asks_whom and not query.negated,
            elsewhere=asking.elsewhere(),
            own=asking.own(),
        )

    def at(
        self, corpus: Corpus, of: Rows | slice, dtype: Any
    ) -> tuple[NDArray[np.bool_] | None, Floats | None, Floats | None, NDArray[np.bool_] | None]:
        """Return whether the query names the people of rows, how far it asks for and names concepts, which are others'.

        Each is None where it is so for no row.
        """
        heads = corpus.heads[of]
        lead = None if self.called is None else self.called[heads]
        if self.facts is None:
            return lead, None, None, None if self.elsewhere is None else self.elsewhere[of]
        asked, named, other = self.facts[0][heads], self.facts[1][heads], self.facts[2][heads]
        if self.anybody:
            other = other & (corpus.kinds[of] & (Kind.NONE if self.whose else Kind.PERSON) != 0)
        if self.so:
            other = other | corpus.denies[of]
        if self.elsewhere is not None:
            other = other | self.elsewhere[of]
        if self.strange is not None:
            strange = self.strange[of]
            named, other = np.where(strange, 0, named), strange if self.anybody else other | strange
        if self.own is not None:
            other = other & ~self.own[of]
        concept = np.where(other, 0, asked).astype(dtype)
        return None if lead is None else lead & ~other, concept, named.astype(dtype), other


@attrs.frozen(kw_only=True, eq=False)
class _Asking:
    """The people whom a query asks about in a corpus.

    Attributes:
        corpus: The corpus.
        query: The query.
        seen: What its caller sees of the corpus.
        found: The occurrences of the terms of the query.
        people: The persons whom the query names.
        names: The terms that name them; see `SubjectIndex.named`.
    """

    corpus: Corpus
    query: Query
    seen: Seen
    found: Occurrences | None
    people: Sequence[int]
    names: Mapping[int, int]

    @functools.cached_property
    def heads(self) -> Mapping[str, NDArray[Any]]:
        """The heads of the corpus, all of one length while others append."""
        return self.corpus.columns.all_of_heads()

    def concepts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return by head how far the query asks for its concept, and how far it names it."""
        unnamed = [term for term in self.query.terms if term.number not in self.names]
        terms, columns = zip(unnamed, _weights(unnamed), strict=True), self.corpus.columns
        asked, named = columns.concept_index.asked(columns.concepts.texts, terms, self.seen.concepts)
        of_heads = self.heads["concept"]
        return asked.take(of_heads, mode="clip"), named.take(of_heads, mode="clip")

    @functools.cached_property
    def _own_and_people(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """By person, whether they are the viewer's own, and whether they are people."""
        query = self.query
        capitalized = query.asks_for_own and query.capitals_are_names
        return self.corpus.columns.own_and_people(query.sight.viewer, capitalized=capitalized)

    @functools.cached_property
    def called(self) -> NDArray[np.bool_]:
        """By person, whether the query names them."""
        called = np.zeros(len(self._own_and_people[0]), np.bool_)
        called[self.people] = True
        return called

    @functools.cached_property
    def about(self) -> NDArray[np.bool_]:
        """By person, whether the query, which names some, asks about them."""
        own, _ = self._own_and_people
        return self.called | own if own[self.people].any() else self.called

    @functools.cached_property
    def typed(self) -> NDArray[np.bool_]:
        """By head, whether it is of a typed fact."""
        return self.seen.concepts.take(self.heads["concept"], mode="clip")

    @functools.cached_property
    def others(self) -> NDArray[np.bool_]:
        """By head, whether it is about somebody or something else than the query asks about; a typed fact, or words."""
        if self.people:
            return ~self.about.take(self.heads["person"], mode="clip") & self.typed
        query, known = self.query, self.seen.others
        key = (query.sight.viewer, query.asks_for_own, query.capitals_are_names)
        others = known.get(key)
        if others is None:
            if len(known) >= _MOST_VIEWERS:
                known.clear()
            others = known[key] = self._others_of_nobody()
        return others

    def _others_of_nobody(self) -> NDArray[np.bool_]:
        """Return `others` for a query that names nobody."""
        heads, facts = self.heads, self.seen.facts
        own, people = self._own_and_people
        individuals = people & ~own
        about, of_facts = ~individuals, np.unique(heads["subject"][facts])
        someone = len(of_facts) == 1 or not self.query.asks_for_own
        if self.query.sight.viewer is None and individuals[of_facts].all() and someone:
            about[:] = True
        is_own = own.take(heads["subject"], mode="clip")
        keywords = np.unique(heads["keyword"][facts[is_own[facts]]])
        of_others = ~about.take(heads["person"], mode="clip")
        others = self.typed & (of_others | (~is_own & among(heads["keyword"], keywords)))
        return others | self._of_other_speakers(own & people, individuals) if self.query.asks_for_own else others

    def _of_other_speakers(self, own: NDArray[np.bool_], others: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """By head, whether it is of what others than the viewer say under a name.

        A single name may be that of the viewer, and so may those at the viewer's own place where they have no other.
        """
        person, subject, words = self.heads["person"], self.heads["subject"], ~self.typed
        said: NDArray[np.bool_] = words & (person != subject) & others.take(person, mode="clip")
        speakers = np.unique(person[words & self.seen.people.take(person, mode="clip")])
        if not own[speakers].any():
            said &= ~own.take(subject, mode="clip") & (others[speakers].sum() > 1)
        return said

    def _of_another(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the rows that hold a name of people whom the query, which names some, does not ask about."""
        columns = self.corpus.columns
        starts, counts = columns["terms_start"][rows], columns["terms_count"][rows].astype(np.int64)
        terms, inverse = np.unique(columns.terms[spread(starts, starts + counts)], return_inverse=True)
        others = set((self.seen.people & ~self.about[: len(self.seen.people)]).nonzero()[0].tolist())
        named = [not others.isdisjoint(columns.subject_index.called(term)) for term in terms.tolist()]
        return np.unique(np.repeat(rows, counts)[np.array(named, np.bool_)[inverse]])

    @functools.cached_property
    def of_asked(self) -> NDArray[np.bool_]:
        """By row, whether it is of somebody whom the query, which names some, asks about."""
        return self.about.take(self.heads["person"], mode="clip")[self.corpus.heads]

    @functools.cached_property
    def facts(self) -> NDArray[np.bool_]:
        """By row, whether it is a typed fact."""
        return self.typed[self.corpus.heads]

    @functools.cached_property
    def strangers(self) -> set[int]:
        """The terms that stand for people of whom there are no facts, such as "mother" or "Nora"."""
        terms = {term.number: term for term in self.query.terms if term.number in self.query.people}
        if not terms:
            return set()
        unknown = terms.keys() - self.names.keys() - set(self._viewer_terms)
        return {number for number in unknown if not self._names_viewer(terms[number])}

    @functools.cached_property
    def _viewer_terms(self) -> list[int]:
        """The terms of the viewer's name."""
        return term_numbers(analyse(self.query.sight.viewer or ""))

    @functools.cached_property
    def kin(self) -> tuple[Hits, Hits, Hits] | None:
        """See `AskedAbout.kin`."""
        relatives = frozenset(related for term in self.strangers if (related := self.query.people[term]) > 0)
        return self.corpus.levels(relation_terms(relatives), self.seen.mask) if relatives else None

    def _names_viewer(self, name: Term) -> bool:
        """Return whether a name is that of the viewer, by a fact such as `first_name` or by "My name is Eva"."""
        rows, columns = self.corpus.occurrences([name], self.seen).levels[0].rows, self.corpus.columns
        own = self._own_and_people[0].take(self.heads["person"], mode="clip")[self.corpus.heads[rows]]
        said = rows[own & (self.corpus.told_of[rows] == Whom.SPEAKER)][:_MOST_SAID].tolist()
        if any(not _terms_in(CALLING).isdisjoint(columns.terms_of(row, row + 1).tolist()) for row in said):
            return True
        told = np.unique(self.corpus.heads[rows])
        concepts = np.unique(self.heads["concept"][told[self.typed[told] & ~self.others[told]]]).tolist()
        index = columns.concept_index
        return any(index.is_of(_terms_in(NAMING), concept) for concept in concepts)

    @functools.cached_property
    def held(self) -> NDArray[np.bool_]:
        """By row, whether it holds a word for somebody whom the query asks about; see `holding`."""
        return self.holding(self.names.keys() | self.strangers)

    def holding(self, words: Set[int]) -> NDArray[np.bool_]:
        """Return by row whether it holds some words, not counting the name of who says it."""
        held = np.zeros(len(self.corpus.heads), np.bool_)
        for place, term in enumerate(self.query.terms):
            if self.found and term.number in words:
                rows, counts = self.found.levels[0].of_term(place)
                persons = self.heads["person"][self.corpus.heads[rows]]
                in_name = among(persons, self.corpus.columns.subject_index.called(term.number))
                held[rows[counts > in_name]] = True
        return held

    def elsewhere(self) -> NDArray[np.bool_] | None:
        """Return by row whether it is a statement of others than the query asks about; None if it asks about anybody.

        Where the query names somebody, what begins with the first person is, unless they speak, or are mentioned, in
        that conversation. Where the speaker asks for their own, what begins with a relative of theirs is; where for
        "my wife", so is what begins with "my brother's wife". Where it asks about a relative, what begins with one is,
        unless it or a statement beside it holds a word for the relative asked about.
        """
        told, elsewhere = self.corpus.told_of, None
        if (self.people or self.strangers) and not self.query.asks_for_own:
            meant = self.corpus.around((self.of_asked & ~self.facts) | self.held)
            elsewhere = ~(meant | self.facts) & (told == Whom.SPEAKER)
        elif self.query.asks_of_self:
            elsewhere = ~self.facts & (told == Whom.RELATIVE)
        if self.kin is not None:
            (rows,) = (~self.facts & (told == Whom.RELATIVE)).nonzero()
            elsewhere = np.zeros(len(told), np.bool_) if elsewhere is None else elsewhere
            elsewhere[rows] |= (self.kin[0].among(rows)[1] > 0) & (self.kin[1].among(rows)[0] == 0)
        if self.query.owned and not self.people:
            owned = self._owned_by_others()
            elsewhere = owned if elsewhere is None else elsewhere | owned
        led = self._led_by_others()
        return elsewhere if led is None else led if elsewhere is None else elsewhere | led

    def _led_by_others(self) -> NDArray[np.bool_] | None:
        """Return by row whether it begins with others than the query asks about, by a name or as a relative's relative.

        None if the query asks about anybody.
        """
        query, told = self.query, self.corpus.told_of
        named = self.names.keys() | {term for term in self.strangers if query.people[term] < 0}
        if not (named or query.asks_of_self or self.kin):
            return None
        others = np.zeros(len(told), np.bool_)
        if named or query.asks_of_self:
            (rows,) = ((told == Whom.ANOTHER) & ~self.facts).nonzero()
            first = self._first_terms(rows)
            known = [*(term.number for term in query.terms), *self._viewer_terms]
            others[rows] = self._name_people(first) & ~among(first, [*named] if named else known)
            if named:
                others &= ~np.logical_and.reduce([self.holding({term}) for term in named])
        else:
            of_chain = self.corpus.columns["begins"][: len(told)] & OF_CHAIN != 0
            (rows,) = ((told == Whom.RELATIVE) & (of_chain | bool(query.chain)) & ~self.facts).nonzero()
            alike = [self.corpus.levels(relation_terms(frozenset([it])), self.seen.mask)[0] for it in query.chain]
            others[rows] = not alike or ~np.logical_and.reduce([hits.among(rows)[0] > 0 for hits in alike])
        return others

    def own(self) -> NDArray[np.bool_] | None:
        """Return `AskedAbout.own`."""
        if self.query.sight.viewer is None or not self.query.asks_for_own:
            return None
        (rows,) = ((self.corpus.told_of == Whom.ANOTHER) & ~self.facts).nonzero()
        own = np.zeros(len(self.corpus.heads), np.bool_)
        own[rows] = among(self._first_terms(rows), self._viewer_terms)
        return own if own.any() else None

    def _first_terms(self, rows: Rows) -> NDArray[np.uint64]:
        """Return the first terms of what rows say; 0 of those that say hardly anything, or much."""
        columns = self.corpus.columns
        begins = columns["begins"][rows] & BEGINS
        known = (begins > 0) & (columns["terms_count"][rows] > begins)
        first = np.where(known, columns["terms_start"][rows] + begins, 0).astype(np.intp)
        return np.where(known, columns.terms[first], 0)

    def _name_people(self, terms: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return whether terms are titles, given names, or names of people whom the caller sees."""
        seen = self.seen.people
        people = set((seen & self._own_and_people[1][: len(seen)]).nonzero()[0].tolist())
        called = self.corpus.columns.subject_index.called
        known = [term for term in np.unique(terms).tolist() if not people.isdisjoint(called(term))]
        return among(terms, _name_beginnings()) | among(terms, np.array(known, np.uint64))

    def _owned_by_others(self) -> NDArray[np.bool_]:
        """Return by row whether it begins with a relative, and next with what the query calls the speaker's."""
        columns, told = self.corpus.columns, self.corpus.told_of
        begins = columns["begins"][: len(told)] & BEGINS
        long_enough = columns["terms_count"][: len(told)] > begins + 2
        (rows,) = ((told == Whom.RELATIVE) & (begins > 0) & long_enough).nonzero()
        first = (columns["terms_start"][rows] + begins[rows]).astype(np.intp)
        my, asked = (np.array([*terms], np.uint64) for terms in (_terms_in(MY), self.query.owned))
        first = np.where(among(columns.terms[first], my), first + 1, first)  # "my" is a term where it is no stop word
        owned = np.zeros(len(told), np.bool_)
        owned[rows] = among(columns.terms[first + 1], asked) & ~among(columns.terms[first], asked)
        return owned

    def mentions(self) -> NDArray[np.bool_] | None:
        """Return `AskedAbout.mentions`."""
        if not self.people and not any(self.query.people[term] < 0 for term in self.strangers):
            return None
        mentions = self.held.copy()
        if self.people:
            told = self.of_asked.copy()
            present = self.corpus.around(told & ~self.facts)
            begins = self.corpus.told_of == Whom.ANOTHER
            mentions &= begins | ~present  # who is present is addressed
            told[self._of_another((told & begins & ~mentions).nonzero()[0])] = False
            mentions |= told
        return mentions | self.facts if self.people or len(self.seen.facts) or not mentions.any() else None


@attrs.frozen(kw_only=True, eq=False)
class CorpusQuery:
    """A query, weighed against one corpus.

    Attributes:
        query: The query.
        terms: The numbers of the terms that visible documents hold.
        levels: Their occurrences at the three levels; none if words do not count.
        dots: The inner products of all vectors with the query's, or None if they are not needed.
        error: The largest error of any of them.
        about: What it asks for, and about whom; None if words do not count.
        dated: By row, whether it names a day that the query names; None if that names none.
    """

    query: Query
    terms: Sequence[int]
    levels: Sequence[Level]
    dots: NDArray[np.float32] | None
    error: float
    about: AskedAbout | None
    dated: NDArray[np.bool_] | None

    @classmethod
    def of(cls, corpus: Corpus, query: Query, seen: Seen, *, among: NDArray[np.bool_] | None) -> CorpusQuery:
        """Weigh a query against a corpus.

        Args:
            corpus: The corpus.
            query: The query.
            seen: What its caller sees of the corpus.
            among: The rows that matter, whole conversations; None for all rows.
        """
        terms = query.terms if query.lexical_weight else ()
        found = corpus.occurrences(terms, seen, among) if terms else None
        held = [number for number, of in enumerate(found.figures) if of.documents[0] > 0] if found else []
        asks = found or (query.asks_for_own and query.lexical_weight)
        about = AskedAbout.of(corpus, query, seen, found) if asks else None
        naming = corpus.levels([Term.any_of(term_numbers(query.days))], seen.mask)[0] if query.days else None
        dots, error = None, 0.0
        if among is None and query.vector is not None:
            dots, error = corpus.vectors.dots(query.vector)
        return cls(
            query=query,
            terms=[terms[number].number for number in held],
            levels=_levels(query, found, seen, about.names) if found and about and held else (),
            dots=dots,
            error=error,
            about=about,
            dated=np.bincount(naming.rows, minlength=len(corpus.heads)) > 0 if naming else None,
        )


def _levels(query: Query, found: Occurrences, seen: Seen, names: Mapping[int, int]) -> list[Level]:
    """Weigh terms; those that no visible document holds only raise the attainable score, and a name counts as one."""
    pairs = zip(query.terms, _weights(query.terms), strict=True)
    beside = [[weight / names.get(term.number, 1)] for term, weight in pairs]
    weights = np.array([of.weights for of in found.figures]) * np.array(beside)
    shares = (weights / (np.add.reduce(weights) + 1e-9)).T
    return list(map(Level, found.levels, shares, seen.norms))


def _weights(terms: Iterable[Term]) -> list[float]:
    """Return the weights of terms beside their idf."""
    asking = _terms_in(ASKING)
    return [scoring.ASKING if term.number in asking else 1.0 for term in terms]


@functools.cache
def _terms_in(words: str) -> frozenset[int]:
    return frozenset(term_numbers(analyse(words)))


@functools.cache
def _name_beginnings() -> NDArray[np.uint64]:
    """Return the terms of titles and given names."""
    return np.array(
        term_numbers({term for name in (*TITLES.split(), *GIVEN_NAMES) for term in analyse(name)}), np.uint64
    )
