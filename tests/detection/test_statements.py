"""Splitting of a long text into statements."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.detection.statements import says_something, statement_spans
from tests.growth import cpu_seconds, grows_faster
from tests.tables import each_case

pytestmark = pytest.mark.slow


def cut(text: str, max_chars: int) -> list[str]:
    return [text[start:end] for start, end in statement_spans(text, max_chars)]


@each_case("text", "max_chars", "pieces")
def test_a_text_is_cut_at_the_widest_border_that_fits(text: str, max_chars: int, pieces: list[str]) -> None:
    assert cut(text, max_chars) == pieces


def test_a_run_that_is_no_word_is_cut() -> None:
    assert [len(piece) for piece in cut("x" * 2_500, 1_000)] == [1_000, 1_000, 500]


@pytest.mark.parametrize("text", ["", "  \n", "...", "?!", "→ │ █", "[redacted: pin]", " - [redacted: aws key]."])
def test_what_says_nothing_gives_no_statement(text: str) -> None:
    assert not says_something(text)
    assert cut(text, 10) == []


@pytest.mark.parametrize("text", ["👍", "❤", "🇳🇴", "[redacted: pin] 👍🏽", "☺"])
def test_an_emoji_says_something(text: str) -> None:
    """An emoji may be the whole answer to a question."""
    assert says_something(text)
    assert cut(text, 30) == [text]


TEXTS = st.text(alphabet="ab .,!?\n`~。，é\u00a0[", max_size=200)


@given(TEXTS, st.integers(1, 60))
def test_pieces_are_in_order_apart_fit_and_lose_no_word(text: str, max_chars: int) -> None:
    spans = statement_spans(text, max_chars)
    assert all(start < end for start, end in spans)
    assert all(left[1] <= right[0] for left, right in itertools.pairwise(spans))
    pieces = [text[start:end] for start, end in spans]
    assert all(piece == piece.strip() for piece in pieces)
    assert all(len(piece) <= max_chars or len(piece.split()) == 1 for piece in pieces)
    kept = "".join(char for piece in pieces for char in piece if char.isalnum())
    assert kept == "".join(char for char in text if char.isalnum())


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=12), min_size=1), st.integers(1, 40))
def test_no_word_is_cut(words: list[str], max_chars: int) -> None:
    assert " ".join(cut(" ".join(words), max_chars)).split() == words


@pytest.mark.parametrize("atom", ["a", "a ", "a,", "```\n", "~~~a\n```\n", "\n\n", "a. ", "a\n\n"])
def test_a_long_text_is_cut_in_linear_time(atom: str) -> None:
    def cost(length: int) -> float:
        return cpu_seconds(lambda: statement_spans(atom * (length // len(atom)), 100))

    assert not grows_faster(cost, 10_000, 80_000, times=16, least=0.01)
