"""Names in a query: the concepts and the subjects of typed facts, each an index of its own beside that of texts."""

from __future__ import annotations

import functools
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from factmem.facts import STATEMENT
from factmem.recall.index.outline_codec import term_numbers
from factmem.recall.scoring import idf
from factmem.recall.text.analysis import analyse, spaced
from factmem.recall.text.related_words import Term, topics_of
from factmem.recall.text.signs import PEOPLE, people_asked, relation, widened
from factmem.short_work import may_wait
from factmem.subjects import MemorySubject

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPLIT: Final = "\0"
"""Sign between the parts of a text that stands for a concept or a subject; no keyword and no name holds it."""


def concept_text(keyword: str, description: str) -> str:
    """Return the text that stands for a concept; an empty one for statements."""
    return "" if keyword == STATEMENT.keyword else f"{keyword}{_SPLIT}{description}"


def subject_text(name: str, individual: str | None) -> str:
    """Return the text that stands for a subject in `factmem.recall.index.columns.Columns.subjects`."""
    return name if individual is None else f"{name}{_SPLIT}{individual}"


def subject_names(text: str) -> tuple[str, str]:
    """Return the names of a subject and of its individual, empty without one, from its `subject_text`."""
    name, _, individual = text.partition(_SPLIT)
    return name, individual


def subject_of_text(text: str) -> MemorySubject:
    """Return the subject of a `subject_text`, without what is declared of it."""
    name, individual = subject_names(text)
    return MemorySubject(name).individual(individual) if individual else MemorySubject(name)


def people_terms(query: str) -> dict[int, int]:
    """Return the numbers of terms that stand for somebody else than the speaker, each with that of its relation.

    That of a name of ``n`` words is ``-n``.
    """
    return {
        term: related
        for word in people_asked(query)
        for related in term_numbers(analyse(relation(word))) or [-len(word.split())]
        for term in term_numbers(analyse(word))
    }


@functools.lru_cache(maxsize=256)
def relation_terms(asked: frozenset[int]) -> tuple[Term, Term]:
    """Return a term for which any word for some relations stands, and one for which any word for the others does.

    A kind of them, such as a daughter of a child, is one of them. What they are a kind of is neither.

    Args:
        asked: The numbers of the relations' English names; see `people_terms`.
    """
    may_wait()
    names = {*PEOPLE.values()}
    own = {name for name in names if not asked.isdisjoint(term_numbers(analyse(widened(name))))}
    others = names - own - {wider for name in own for wider in widened(name).split()}
    numbers: tuple[set[int], set[int]] = set(asked), set()
    for word, name in PEOPLE.items():
        if name in own or name in others:
            numbers[name in others].update(term_numbers(analyse(word)[:1]))
    return Term.any_of(numbers[0]), Term.any_of(numbers[1])


class ConceptIndex:
    """An index of concepts by the terms and topics of their keywords and descriptions. Any thread may use it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known = 0
        self._holding: dict[int, list[int]] = {}
        self._keywords: list[frozenset[int]] = []

    def asked(
        self, concepts: Sequence[str], terms: Iterable[tuple[Term, float]], visible: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the shares of a query, 0 to 1, by which it asks for each concept, and by which it names each one.

        A query asks by the words of a keyword and its description, by related words and by topics. It names a concept
        by the words of its keyword alone, and by all of them. Words are weighed by their idf among concepts.

        Args:
            concepts: All concepts by number, see `concept_text`; those of the call before, and more.
            terms: The terms that ask for a concept, each with its weight beside the idf.
            visible: Which concepts the caller sees, by number.
        """
        self._learn(concepts)
        fit, attainable, count = np.zeros(len(visible)), 0.0, int(visible.sum())
        said: dict[int, float] = {}
        for term, weight in terms:
            held: dict[int, float] = {}
            for number, share in zip(term.numbers.tolist(), term.weights.tolist(), strict=True):
                for concept in self._holding.get(number, ()):
                    if concept < len(visible):
                        held[concept] = max(held.get(concept, 0.0), share)
            # Shares are multiples of 1/256, so that their sum is exact.
            shown = sum([share for concept, share in held.items() if visible[concept]]) if held else 0
            said[term.number] = weighed = weight * idf(shown, count)
            for concept, share in held.items():
                fit[concept] += weighed * share
            attainable += weighed
        named = np.zeros(len(visible))
        for concept in {concept for number in said for concept in self._holding.get(number, ())}:
            if concept < len(named) and self._keywords[concept] <= said.keys():
                named[concept] = sum(said[number] for number in self._keywords[concept])
        return fit / (attainable or 1.0), named / (attainable or 1.0)

    def is_of(self, words: Collection[int], concept: int) -> bool:
        """Return whether the keyword of a concept, by its number, has no terms but some; after `asked`."""
        return bool(self._keywords[concept]) and self._keywords[concept].issubset(words)

    def _learn(self, concepts: Sequence[str]) -> None:
        with self._guard:
            for number in range(self._known, len(concepts)):
                keyword, _, description = concepts[number].partition(_SPLIT)
                own = analyse(spaced(keyword))
                self._keywords.append(frozenset(term_numbers(own)))
                terms = [*analyse(description), *own]
                for term in set(term_numbers([*terms, *topics_of(terms)])):
                    self._holding.setdefault(term, []).append(number)
            self._known = max(self._known, len(concepts))


class SubjectIndex:
    """An index of subjects by their names. Any thread may use it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known = 0
        self._called: dict[int, list[tuple[int, frozenset[int]]]] = {}
        self._namesakes: dict[int, list[int]] = {}
        self._related: dict[int, list[tuple[int, frozenset[int]]]] = {}

    def named(
        self, subjects: Sequence[str], terms: Collection[int], people: Mapping[int, int], visible: NDArray[np.bool_]
    ) -> tuple[list[int], dict[int, int]]:
        """Return the subjects that a query names, by number and in its order, and the terms that name them.

        Each term comes with the number of terms in the query that name the same subject.

        A subject is named by the first word of its name, unless the query has more words of another one's name, or
        another surname: "Ann Berg" does not name Ann Dahl. Of names with the same words, it is the one whose first word
        comes first: "José María" does not name María José. An individual is also named by a word for the relation that
        its subject is called by: "my sister" and "meine Schwester" name ``sister:carla``.

        Args:
            subjects: All subjects by number; see `subject_text`.
            terms: The numbers of the query's terms.
            people: Those terms that stand for people other than the speaker; see `people_terms`.
            visible: Which subjects the caller sees, by number.
        """
        self._learn(subjects)
        said = frozenset(terms)
        found = [
            (number, words & said, term)
            for term in terms
            for number, words in self._called.get(term, ())
            if words <= said or len(words & said) >= -people.get(term, 0)
        ]
        found += [
            (number, words.intersection(people) | {term}, term)
            for term in said & people.keys()
            for number, words in self._related.get(people[term], ())
        ]
        called = [of for of in found if of[0] < len(visible) and visible[of[0]]]
        if not called:
            return [], {}
        first = {words: term for _, words, term in reversed(called)}
        whole = {words for words in first if not any(words < others for others in first)}
        sizes = {term: len(words) for words in sorted(whole, key=len) for term in words}
        return [number for number, words, term in called if words in whole and first[words] == term], sizes

    def called(self, term: int) -> Sequence[int]:
        """Return the numbers of the subjects whose names hold a term; after `named`."""
        return self._namesakes.get(term, ())

    def _learn(self, subjects: Sequence[str]) -> None:
        with self._guard:
            for number in range(self._known, len(subjects)):
                name, individual = subject_names(subjects[number])
                words = term_numbers(analyse(individual or spaced(name)))
                if words and (individual or name != MemorySubject.EVERYTHING.name):
                    self._called.setdefault(words[0], []).append((number, frozenset(words)))
                    for term in frozenset(words):
                        self._namesakes.setdefault(term, []).append(number)
                for word in spaced(name).split() if individual else ():
                    for term in term_numbers(analyse(widened(relation(word)))):
                        self._related.setdefault(term, []).append((number, frozenset(words)))
            self._known = max(self._known, len(subjects))
