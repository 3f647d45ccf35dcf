"""Words that mean much the same are related; names and other words of one kind are not."""

from __future__ import annotations

import itertools

from factmem import InMemoryProvider, Memory
from factmem.recall.index.outline_codec import query_term, term_numbers
from factmem.recall.text.analysis import analyse
from tests.tables import each_case


def related(one: str, other: str) -> bool:
    """Return whether one of two words stands for the other."""
    (term,), (number,) = analyse(one), term_numbers(analyse(other))
    return number in query_term(term).numbers.tolist()


@each_case("words")
def test_words_of_one_kind_do_not_stand_for_each_other(words: str) -> None:
    assert [pair for pair in itertools.permutations(words.split(), 2) if related(*pair)] == []


@each_case("names")
def test_a_name_and_its_short_form_stand_for_each_other(names: str) -> None:
    assert [pair for pair in itertools.permutations(names.split(), 2) if not related(*pair)] == []


@each_case("one", "other")
def test_synonyms_do_also_where_they_are_names(one: str, other: str) -> None:
    assert related(one, other)


async def test_what_is_so_of_one_person_does_not_answer_for_another() -> None:
    async with Memory(InMemoryProvider()) as memory:
        await memory.remember("Lisa is allergic to nuts.")
        assert (await memory.recall("What is Lisa allergic to?")).answers
        assert not (await memory.recall("What is Emma allergic to?")).answers
