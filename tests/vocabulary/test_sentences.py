"""Stated parts of texts in several languages, apart from questions, requests, greetings and thanks."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.languages import (
    LINE_END,
    SENTENCE_END,
    content_words,
    folded,
    language_of,
    languages_of_times,
    sentence_spans,
    words_anywhere,
)
from factmem.own_words import own_words
from factmem.sentences import asked_share, asking, stated_spans, telling, tells
from factmem.toml_tables import table
from tests.narrowing import not_none
from tests.tables import cases, each_case, sections

CASES = cases(Path(__file__).with_name("sentences_cases.txt"))

_TEXTS = sections(Path(__file__).with_name("sentences.txt"))


def spans_stated(text: str) -> list[tuple[int, int]]:
    return list(stated_spans(text, language_of(folded(text))))


@pytest.mark.parametrize("text", _TEXTS["telling"])
def test_a_text_with_content_tells_something(text: str) -> None:
    assert tells(text)


@pytest.mark.parametrize("text", ["", *_TEXTS["telling nothing"]])
def test_questions_requests_greetings_thanks_and_reactions_tell_nothing(text: str) -> None:
    assert not tells(text)


@pytest.mark.parametrize(("text", "stated"), CASES["clauses that ask or order are not stated"])
def test_clauses_that_ask_or_order_are_not_stated(text: str, stated: list[str]) -> None:
    assert [text[start:end].strip() for start, end in spans_stated(text)] == stated


@given(st.text())
def test_folding_keeps_every_place(text: str) -> None:
    assert len(folded(text)) == len(text)


@given(st.text())
def test_spans_of_any_text_lie_in_order(text: str) -> None:
    for spans in (sentence_spans(text), spans_stated(text)):
        places = [place for span in spans for place in span]
        assert places == sorted(places)
        assert all(text[start:end].strip() for start, end in spans)


def test_accents_and_case_make_no_difference() -> None:
    assert folded("CAFÉ, Über, ЙОД") == folded("cafe, uber, иод")


@pytest.mark.parametrize(("text", "language", "words"), CASES["words with content are those that are not everyday"])
def test_words_with_content_are_those_that_are_not_everyday(text: str, language: str, words: list[str]) -> None:
    lowered = folded(text)
    assert (language_of(lowered).name, content_words(lowered, language_of(lowered))) == (language, words)


@each_case("sentences")
def test_an_ordinal_does_not_end_a_sentence_and_another_number_does(sentences: list[str]) -> None:
    text = " ".join(sentences)
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


def test_languages_have_the_same_lists() -> None:
    """A misspelt name of a list would silently leave it empty."""
    data = tomllib.loads(resources.files("factmem").joinpath("languages.toml").read_text("utf-8"))
    known = {*data["en"], "asks_last", "objects", "of_self", "unspaced", "orders_last", "capitals"}
    assert {name: {*words} - known for name, words in data.items() if {*words} - known} == {}
    needed = {"everyday", "self", "asks", "orders", "lasting", "manner", "named"}
    assert {name: needed - {*words} for name, words in data.items() if needed - {*words}} == {}


@pytest.mark.parametrize(("text", "sentences"), CASES["a title or an initial ends no sentence"])
def test_a_title_or_an_initial_ends_no_sentence(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


@pytest.mark.slow
@pytest.mark.parametrize("name", table("languages"))
@given(drawn=st.data())
def test_what_may_hold_no_word_of_a_list_holds_none(name: str, drawn: st.DataObject) -> None:
    language = language_of(folded(table("languages")[name]["everyday"].strip()))
    assert language.name == name
    cue = drawn.draw(st.sampled_from([*language.lists]))
    some = st.sampled_from(
        [*language.lists.get(cue, ()), "Zug ", " été", "x", "'", "-", "²", "\u0301", "\u093e", "\n", ". "]
    )
    text = folded("".join(drawn.draw(st.lists(some, max_size=4))))
    if language.cues[cue].search(text):
        assert language.may_hold(text, cue)
        assert words_anywhere(cue).occurs_in(text) or not text.isascii()


@given(st.lists(st.sampled_from([*"ab.!?\"')]`", "\n", " ", " and "]), max_size=12).map("".join))
def test_an_ascii_text_without_an_end_inside_is_one_sentence(text: str) -> None:
    ends = {found.end() for border in (LINE_END, SENTENCE_END) for found in border.finditer(text)}
    inner = [end for end in ends if text[:end].strip() and text[end:].strip()]
    assert (len(sentence_spans(text)) > 1) == bool(inner)


@pytest.mark.parametrize(("text", "stated"), CASES["what follows an order belongs to it unless it is joined"])
def test_what_follows_an_order_belongs_to_it_unless_it_is_joined(text: str, stated: list[str]) -> None:
    assert [text[start:end] for start, end in spans_stated(text)] == stated


@pytest.mark.parametrize("text", CASES["a noun that looks like an order orders nothing"])
def test_a_noun_that_looks_like_an_order_orders_nothing(text: str) -> None:
    assert [text[start:end] for start, end in spans_stated(text)] == [text]


@pytest.mark.parametrize("text", CASES["what opens with an order tells nothing"])
def test_what_opens_with_an_order_tells_nothing(text: str) -> None:
    assert list(spans_stated(text)) == []


@pytest.mark.parametrize(("own", "theirs"), CASES["words to be worked on and letters are not the authors own"])
def test_words_to_be_worked_on_and_letters_are_not_the_authors_own(own: str, theirs: str) -> None:
    lowered = folded(own + theirs)
    assert own_words(lowered, language_of(lowered)) == len(own)


@each_case("text", "told")
def test_a_text_may_tell_something_as_an_answer_or_a_correction(text: str, told: list[str]) -> None:
    assert {name for name, is_so in telling(text)._asdict().items() if is_so} == set(told)


@each_case("text", "asked")
def test_a_question_may_be_about_something_or_offer_an_assistants_work(text: str, asked: list[str]) -> None:
    assert {name for name, is_so in not_none(asking(text))._asdict().items() if is_so} == set(asked)
    assert asking("I drink tea.") is None


@pytest.mark.parametrize("text", CASES["what is to be remembered is told"])
def test_what_is_to_be_remembered_is_told(text: str) -> None:
    assert tells(text)
    assert not tells("Keep your answers short.")


@each_case("text", "share")
def test_words_in_questions_are_a_share_of_the_authors_own(text: str, share: float) -> None:
    assert asked_share(text) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("text", ["am 2. juni", "am 1. september", "oma wird am 2. juni neunzig"])
def test_a_number_does_not_tell_a_language(text: str) -> None:
    assert "de" in [language.name for language in languages_of_times(text)]
