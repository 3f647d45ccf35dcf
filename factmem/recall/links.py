"""Recall over links: from a subject that a question names to the facts of another one, by records that link them.

A *link* is a record whose value is a subject, such as a person's boss. "Where does Ada's boss work?" names Ada; one of
her links is a boss, so the question is asked again of that person: "Where does Eva work?". Up to `MOST_LINKS` links are
followed one after the other. No relation is listed anywhere: the words of the question are compared with the keywords
and descriptions of the links, by the analyser and the embedder of recall. A word leads to a link only if no other
keyword that the caller sees is much closer to it, and each word is used once. If the question names nobody, the links
of the viewer are followed; the first one must share a word, a related word or a topic with the question, since among
few keywords any word is close to some.

The score of what is found is that of the question asked again, raised by how well the words fit the links. Only records
that the caller sees are followed.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from factmem.abc.outlines import number_of_id
from factmem.facts import STATEMENT, Concept
from factmem.fold import Current
from factmem.recall import scoring
from factmem.recall.conditions import RecallFilter
from factmem.recall.index.corpus import Corpus
from factmem.recall.index.names_in_query import subject_names, subject_of_text
from factmem.recall.index.outline_codec import KINDS_FROM, query_term, term_numbers
from factmem.recall.index.selection import selected
from factmem.recall.queries import Query
from factmem.recall.ranking import Ranker
from factmem.recall.results import RecallMatch, hydrated
from factmem.recall.text.analysis import analyse, spaced
from factmem.recall.text.related_words import topics_of
from factmem.recall.text.signs import Kind, asking_words, kinds_asked, relation
from factmem.records import FactRecord
from factmem.short_work import may_wait
from factmem.subjects import MemorySubject
from factmem.values import decode_value
from factmem.views import Sight

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

MOST_LINKS: Final = 3
"""Number of links that are followed one after the other."""

_WIDTH: Final = 8
"""Number of subjects that are looked at after each step."""

_EACH: Final = 10
"""Number of results of each subject."""

_CLOSEST: Final = 0.85
"""Least similarity of a word and a keyword, as a share of the word's similarity to the closest keyword."""

_LEAST: Final = 0.2
"""Least similarity of a word and a keyword."""

_BACKWARDS: Final = 0.6
"""Weight of a link whose word is closer to the subject's name than that of the link before."""

_RAISE: Final = 1.0
"""Gain of what links lead to; see `factmem.recall.scoring.raised`."""

_DAMPED: Final = 0.5
"""Loss of records of the same concept as a link, and of what stands where the links go on."""

_WORD: Final = re.compile(r"[\w]+(?:['’]\w+)*")
_POSSESSIVE: Final = re.compile(r"['’]s?$")


@attrs.frozen(kw_only=True)
class Asking:
    """A question and the functions that a search over links calls. They block: worker threads call them.

    Attributes:
        text: The question.
        sight: What the caller may see.
        query: Returns the query of a text and its embedding.
        embed: Returns the embeddings of texts; None for those without, and by words alone.
        concepts: Declared concepts by keyword.
    """

    text: str
    sight: Sight
    query: Callable[[str, Vector | None], Query]
    embed: Callable[[Sequence[str]], Sequence[Vector | None]]
    concepts: Mapping[str, Concept[Any, Any]]


@attrs.frozen
class _Word:
    """A word of a question.

    Attributes:
        text: The word, without a possessive ending.
        terms: Its terms; none if the analyser drops it.
    """

    text: str
    terms: frozenset[str]


@attrs.frozen(eq=False)
class _Phrase:
    """One or two neighbouring words of a question.

    Attributes:
        words: Their numbers.
        vector: Their embedding.
        closest: Its similarity to the concept that is closest to it.
    """

    words: tuple[int, ...]
    vector: Vector | None
    closest: float


@attrs.frozen(kw_only=True)
class _Path:
    """Links that were followed, and the words of the question that led to them.

    Attributes:
        subject: The subject reached.
        passed: Keys of the subjects before it.
        name: Numbers of the words that name the subject begun with.
        used: Numbers of the words that led here, in the order of the links.
        fits: How well each link fits its words.
        links: The links.
    """

    subject: MemorySubject
    passed: tuple[tuple[str, str | None], ...] = ()
    name: tuple[int, ...]
    used: tuple[tuple[int, ...], ...] = ()
    fits: tuple[float, ...] = ()
    links: tuple[Current, ...] = ()

    @property
    def taken(self) -> frozenset[int]:
        """Numbers of the words that cannot lead further."""
        return frozenset(itertools.chain(self.name, *self.used))

    def begins_with(self, other: _Path) -> bool:
        """Return whether this path goes on from where another one ends."""
        count = len(other.links)
        return len(self.links) > count and all(a is b for a, b in zip(self.links, other.links, strict=False))

    @property
    def fit(self) -> float:
        """The fit of the links to the question, from 0 to 1."""
        return math.prod(self.fits) ** (1 / max(len(self.fits), 1))


@attrs.frozen(kw_only=True)
class Linked:
    """Records that links lead to, and what gives way to them.

    Attributes:
        matches: The records, best first, each with its links in `RecallMatch.path`.
        damped: By keyword of a link that was followed, how well it fits: the question does not ask for such records.
    """

    matches: Sequence[RecallMatch] = ()
    damped: Mapping[str, float] = attrs.field(factory=dict)

    def among(
        self,
        corpus: Corpus,
        rank: Callable[[RecallFilter], list[RecallMatch]],
        *,
        sight: Sight,
        wanted: RecallFilter,
        limit: int,
        min_score: float,
    ) -> list[RecallMatch]:
        """Return the best of a search and of what links lead to, as far as a filter keeps them, best first.

        Args:
            corpus: The corpus.
            rank: Returns the best matches that a filter keeps.
            sight: What the caller may see.
            wanted: The filter of the search.
            limit: Maximum number of results.
            min_score: The least score.
        """
        if not self.matches:
            return rank(wanted)
        asked = [keyword for keyword in self.damped if wanted.keywords is None or keyword in wanted.keywords]
        others = attrs.evolve(wanted, without_keywords=[*(wanted.without_keywords or ()), *asked])
        found = rank(others)
        for keyword in asked:
            found += map(self._damped, rank(attrs.evolve(wanted, keywords=[keyword])))
        best = {match.record.id: match for match in found}
        kept = self.matches
        if not wanted.empty or wanted.strongest:
            numbers = set(corpus.columns["record"][selected(corpus, sight, wanted)].tolist())
            kept = [match for match in kept if number_of_id(match.record.id) in numbers]
        for match in kept:
            if (known := best.get(match.record.id)) is None or match.score > known.score:
                best[match.record.id] = match
        ordered = sorted(best.values(), key=lambda match: (-match.score, -match.record.timestamp.timestamp()))
        return [match for match in ordered if match.score >= min_score][:limit]

    def _damped(self, match: RecallMatch) -> RecallMatch:
        return _scored(match, 1 - _DAMPED * self.damped[match.record.concept.keyword])


def _scored(match: RecallMatch, factor: float) -> RecallMatch:
    parts = attrs.evolve(match.parts, similarity=match.parts.similarity * factor)
    return attrs.evolve(match, score=match.score * factor, parts=parts)


_PERSON: Final = int(Kind.PERSON)


def followed(corpus: Corpus, asking: Asking) -> Linked:
    """Return the records that links lead to.

    Args:
        corpus: The corpus.
        asking: The question, and what its search needs.
    """
    corpus = corpus.shown(asking.sight)
    if not corpus.kinds_held & _PERSON:
        return Linked()
    may_wait()
    plain = (_POSSESSIVE.sub("", found[0]) for found in _WORD.finditer(asking.text))
    words = [_Word(word, frozenset(analyse(word))) for word in plain]
    search = _Links(corpus, asking, words)
    for beginnings in (_named(corpus, asking.sight, words), _own(corpus, asking.sight)):
        if reached := search.reached(beginnings):
            return search.results(reached)
    return Linked()


def _named(corpus: Corpus, sight: Sight, words: Sequence[_Word]) -> list[_Path]:
    """Begin with the subjects that the question names, as far as any of them is named."""
    numbers = term_numbers([term for word in words for term in sorted(word.terms)])
    found, _ = corpus.named(numbers, {}, corpus.seen(sight), speakers=False)
    paths: list[_Path] = []
    for number in dict.fromkeys(found):
        subject = subject_of_text(corpus.columns.subjects.texts[number])
        terms = frozenset(analyse(subject.individual_name or spaced(subject.name)))
        paths.append(_Path(subject=subject, name=tuple(n for n, word in enumerate(words) if word.terms & terms)))
    return paths[:_WIDTH]


def _own(corpus: Corpus, sight: Sight) -> list[_Path]:
    """Begin with the viewer, and with the subject of facts that have none of their own."""
    texts = corpus.columns.subjects.texts if sight.viewer else ()
    own = [subject_of_text(text) for text in texts if subject_names(text)[1] == sight.viewer]
    return [_Path(subject=subject, name=()) for subject in (*own, MemorySubject.EVERYTHING)]


class _Links:
    """The links of subjects, and how well they fit the words of a question."""

    def __init__(self, corpus: Corpus, asking: Asking, words: Sequence[_Word]) -> None:
        self._corpus, self._asking, self._words = corpus, asking, words
        self._vectors: dict[str, Vector | None] = {}

    @functools.cached_property
    def _phrases(self) -> list[_Phrase]:
        """The words of the question that say something, alone and in pairs."""
        words = self._words
        numbers: list[tuple[int, ...]] = [(n,) for n, word in enumerate(words) if word.terms]
        numbers += [(n, n + 1) for n in range(len(words) - 1) if words[n].terms and words[n + 1].terms]
        texts = [" ".join(words[n].text for n in of_one) for of_one in numbers]
        self._embed([*texts, *self._concepts])
        known = [vector for name in self._concepts if (vector := self._vectors[name]) is not None]

        def closest(vector: Vector | None) -> float:
            return 0.0 if vector is None else max((float(other @ vector) for other in known), default=0.0)

        vectors = [self._vectors[text] for text in texts]
        return list(map(_Phrase, numbers, vectors, map(closest, vectors)))

    @functools.cached_property
    def _concepts(self) -> list[str]:
        """The names of all concepts that the caller sees."""
        rows = selected(self._corpus, self._asking.sight, RecallFilter(without_keywords=[STATEMENT.keyword]))
        columns = self._corpus.columns
        return [spaced(columns.keywords.texts[number]) for number in columns.counted("keyword", rows)[0]]

    def _embed(self, texts: Sequence[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        self._vectors |= zip(new, self._asking.embed(new) if new else (), strict=True)

    def reached(self, paths: Sequence[_Path]) -> list[_Path]:
        """Return the paths that links make from some beginnings, and that leave something of the question to ask."""
        found: list[_Path] = []
        for _ in range(MOST_LINKS):
            further = itertools.chain.from_iterable(map(self._next, paths))
            paths = sorted(further, key=lambda path: -path.fit)[:_WIDTH]
            found += paths
        # Words that lead nowhere are what is asked of the subject; if none is left, the link itself is asked for.
        other = bool(kinds_asked(self._asking.text) & ~Kind.PERSON)
        return sorted((path for path in found if other or self._left(path)), key=lambda path: -path.fit)[:_WIDTH]

    def _left(self, path: _Path) -> bool:
        """Return whether words are left to ask of a path's end.

        Neither the kind of a subject on it ("task") nor what its last link is described by asks anything: "Which
        faction does Kim belong to?" asks for the faction that somebody belongs to.
        """
        kinds = [spaced(name) for name, individual in (path.subject.key, *path.passed) if individual is not None]
        asking = asking_words().union(analyse(" ".join([*kinds, *_names(path.links[-1])])))
        return any(word.terms - asking for n, word in enumerate(self._words) if n not in path.taken)

    def _next(self, path: _Path) -> Iterator[_Path]:
        """Yield the paths that go one link further."""
        links = self._of(path.subject)
        self._embed([text for link in links for text in _names(link)])
        for link in links:
            to = decode_value(link.recorded.assertion.data, MemorySubject)
            if to.key in (path.subject.key, *path.passed):
                continue
            fit, used = self._fit(path, link)
            before = zip(path.fits, path.links, strict=True)
            if fit and all(fit >= of for of, other in before if _keyword(other) == _keyword(link)):
                yield attrs.evolve(
                    path,
                    subject=to,
                    passed=(*path.passed, path.subject.key),
                    used=(*path.used, used),
                    fits=(*path.fits, fit),
                    links=(*path.links, link),
                )

    def _of(self, subject: MemorySubject) -> list[Current]:
        """Return the links of a subject that the caller sees."""
        columns = self._corpus.columns
        found = selected(self._corpus, self._asking.sight, RecallFilter(subject=subject))
        found = found[((columns["signs"][found] >> KINDS_FROM) & Kind.PERSON) != 0]
        heads = columns["head"][found]
        kinds, firsts = np.unique(heads, return_index=True)  # the facts of one concept at one place have one type
        first = self._corpus.currents(found[firsts])
        linking = [
            kind for kind, one in zip(kinds, first, strict=True) if one and one.recorded.assertion.shape == "subject"
        ]
        return [link for link in self._corpus.currents(found[np.isin(heads, linking)]) if link is not None]

    def _fit(self, path: _Path, link: Current) -> tuple[float, tuple[int, ...]]:
        """Return how well a link fits words that are not used yet, and these words; 0 for a link that does not."""
        best: tuple[float, tuple[int, ...]] = (0.0, ())
        for phrase in self._phrases if path.taken else self._asking_for(link):
            if path.taken.isdisjoint(phrase.words):
                fit = self._likeness(phrase, _names(link)) * _direction(path, phrase)
                best = max(best, (fit, phrase.words), key=lambda found: found[0])
        return best

    def _asking_for(self, link: Current) -> list[_Phrase]:
        """Return the phrases with words that ask for the keyword of a link: its own, related ones and topics."""
        own = analyse(spaced(_keyword(link)))
        held = set(term_numbers([*own, *topics_of(own)]))

        def asks(word: _Word) -> bool:
            terms = word.terms.union(analyse(relation(word.text)))
            return any(not held.isdisjoint(query_term(term).numbers.tolist()) for term in terms)

        return [phrase for phrase in self._phrases if any(asks(self._words[n]) for n in phrase.words)]

    def _likeness(self, phrase: _Phrase, names: Sequence[str]) -> float:
        """Return how well a phrase fits the names of a concept; 0 if others fit much better."""
        terms = frozenset().union(*(self._words[n].terms for n in phrase.words))
        if any(terms == frozenset(analyse(name)) for name in names):
            return 1.0
        if phrase.vector is None:
            return 0.0
        self._embed(names)
        vectors = (self._vectors[name] for name in names)
        likeness = max((float(vector @ phrase.vector) for vector in vectors if vector is not None), default=0.0)
        return likeness if likeness >= max(_LEAST, _CLOSEST * phrase.closest) else 0.0

    def results(self, paths: Sequence[_Path]) -> Linked:
        """Ask the rest of the question of the subjects reached."""
        texts = [self._asked_again(path) for path in paths]
        self._embed(texts)
        best: dict[str, RecallMatch] = {}
        for path, text in zip(paths, texts, strict=True):
            goes_on = max((other.fits[len(path.fits)] for other in paths if other.begins_with(path)), default=0.0)
            better = _damped(other for other in paths if other.fit > path.fit)
            for match in self._matches(path, text):
                gives_way = max(goes_on, better.get(match.record.concept.keyword, 0.0))
                raised = _scored(match, 1 - _DAMPED * gives_way)
                if (known := best.get(match.record.id)) is None or raised.score > known.score:
                    best[match.record.id] = raised
        return Linked(matches=sorted(best.values(), key=lambda match: -match.score), damped=_damped(paths))

    def _matches(self, path: _Path, text: str) -> Iterator[RecallMatch]:
        """Yield what a text finds of the subject reached, raised by how well the question fits it and the links."""
        query, concepts = self._asking.query(text, self._vectors[text]), self._asking.concepts
        left = [phrase for phrase in self._phrases if path.taken.isdisjoint(phrase.words)]
        links: tuple[FactRecord[Any], ...] = tuple(hydrated(path.links, concepts))
        for match in Ranker.of(self._corpus, query, concepts).ranked(RecallFilter(subject=path.subject), _EACH)():
            names = _names_of(match.record.concept.keyword, match.record.concept.description)
            fit = max((self._likeness(phrase, names) for phrase in left), default=0.0)
            similarity = scoring.raised(scoring.raised(match.parts.similarity, fit, _RAISE), path.fit, _RAISE)
            yield attrs.evolve(
                match,
                score=query.settings.composite.score(similarity, match.parts.recency, match.parts.importance),
                parts=attrs.evolve(match.parts, similarity=similarity),
                reasons=(*match.reasons, "linked"),
                path=links,
            )

    def _asked_again(self, path: _Path) -> str:
        """Return the question with the name of the subject reached in the place of the words that led there."""
        name = path.subject.individual_name or spaced(path.subject.name)
        taken = path.taken
        first = min(itertools.chain(*path.used))
        kept = [name if n == first else word.text for n, word in enumerate(self._words) if n == first or n not in taken]
        return " ".join(kept)


def _damped(paths: Iterable[_Path]) -> dict[str, float]:
    """Return the keywords of the links of paths, each with the fit of the best path."""
    damped: dict[str, float] = {}
    for path in paths:
        for keyword in map(_keyword, path.links):
            damped[keyword] = max(damped.get(keyword, 0.0), path.fit)
    return damped


def _direction(path: _Path, phrase: _Phrase) -> float:
    """Return the weight of a link's words: a word further from the name belongs to a later link."""
    if not path.used:
        return 1.0
    here, before = (min(abs(n - at) for n in path.name or (0,)) for at in (phrase.words[0], path.used[-1][0]))
    return _BACKWARDS if here < before else 1.0


def _keyword(link: Current) -> str:
    return link.recorded.assertion.keyword


def _names(link: Current) -> list[str]:
    return _names_of(_keyword(link), link.recorded.assertion.description)


def _names_of(keyword: str, description: str) -> list[str]:
    """Return the texts that name a concept: its keyword, and its description."""
    return [spaced(keyword), *([description] if description else [])]
