"""Analysis of a text into words, in any language."""

from __future__ import annotations

import itertools
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import BlockingMemory, Memory
from factmem.recall.index.outline_codec import query_term, term_numbers
from factmem.recall.text.analysis import analyse
from tests.tables import cases, each_case


@each_case("one", "other")
def test_ways_to_write_a_word_are_one(one: str, other: str) -> None:
    assert analyse(one) == analyse(other) != []


@each_case("forms", "base")
def test_irregular_forms_have_the_stem_of_their_base_form(forms: str, base: str) -> None:
    assert set(analyse(forms)) == set(analyse(base))


@each_case("text", "terms")
def test_scripts_have_the_words_they_are_read_by(text: str, terms: list[str]) -> None:
    assert analyse(text) == terms


@each_case("text", "term")
def test_numbers_with_parts_and_codes_are_terms_by_themselves(text: str, term: str) -> None:
    assert term in analyse(text)


@each_case("query", "found", "other")
def test_numbers_and_names_are_found_exactly(query: str, found: str, other: str) -> None:
    with BlockingMemory(Memory("memory:")) as memory:
        memory.remember(other)
        memory.remember(found)
        first, second = memory.recall(query, limit=2)
        assert (first.record.value, second.record.value) == (found, other)
        assert first.parts.lexical > second.parts.lexical


@pytest.mark.parametrize("query", ["D'Angelo", "DAngelo", "Angelo"])
def test_a_name_behind_a_particle_is_found_with_and_without_it(query: str) -> None:
    assert set(analyse(query)) <= set(analyse("La villa d’Angelo"))


@pytest.mark.parametrize("text", ["rock 'n' roll", "it's ma'am's", "s'mores", "they've", "foto's", "aujourd'hui"])
def test_other_apostrophes_stay_within_a_word(text: str) -> None:
    assert analyse(f"x {text}")[0] == "x"
    assert len(analyse(text)) <= len(text.split())


def test_what_is_neither_letter_nor_digit_is_no_word() -> None:
    assert analyse("\N{CAT FACE} — … _ · 。！") == []


@each_case("query", "found")
def test_recall_finds_words_in_every_script(query: str, found: str) -> None:
    with BlockingMemory(Memory("memory:")) as memory:
        for text in cases(__file__)["texts in every script"]:
            memory.remember(text)
        (best,) = memory.recall(query, limit=1)
        assert best.record.value == found
        assert best.parts.lexical > 0.5


@given(st.text(sorted({*string.printable} - {*"'+#-.,:/"})))  # without those that make codes of words
def test_words_of_ascii_are_its_runs_of_letters_and_digits(text: str) -> None:
    assert analyse(text) == analyse(" ".join(re.findall(r"[^\W_]+", text)))


@given(st.text(st.sampled_from("ab1_'+#-. ")))
def test_a_text_has_the_same_terms_beside_an_accent(text: str) -> None:
    accented = f"{text} é"  # an accent takes the analysis of all languages
    assert sorted([*analyse(text), "e"]) == sorted(analyse(accented))


# Words that mean much the same are related; names and other words of one kind are not


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
