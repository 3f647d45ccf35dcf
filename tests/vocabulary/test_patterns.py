"""Patterns that are compiled on first use, and patterns that are searched for together."""

from __future__ import annotations

import copy
import enum
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.patterns import LinearPattern, any_of, lazy_pattern


def test_a_lazy_pattern_behaves_like_a_compiled_one() -> None:
    lazy, compiled = lazy_pattern(r"(?P<word>\w+)!", re.IGNORECASE), re.compile(r"(?P<word>\w+)!", re.IGNORECASE)
    text = "Oh! My! Word"
    assert lazy.findall(text) == compiled.findall(text)
    assert lazy.sub("-", text) == compiled.sub("-", text)
    assert [found["word"] for found in lazy.finditer(text)] == ["Oh", "My"]
    assert (lazy.pattern, lazy.flags, lazy.groupindex) == (compiled.pattern, compiled.flags, compiled.groupindex)


def test_a_lazy_pattern_is_not_compiled_before_it_is_used() -> None:
    wrong = lazy_pattern("(")
    assert repr(wrong) == "lazy_pattern('(', 0)"
    with pytest.raises(re.error):
        wrong.search("x")


def test_a_lazy_pattern_can_be_copied() -> None:
    assert copy.copy(lazy_pattern("a")).search("a")


_LETTERS = st.sampled_from(["a", "b", ".", "|", " ", "é", "日", "\ud800", "\0", "\n", "\U0001f600"])
_TEXTS = st.text(_LETTERS, max_size=12)
_LITERALS = st.lists(st.text(_LETTERS.filter(lambda char: char != "\ud800"), min_size=1, max_size=3), min_size=1)


@given(literals=_LITERALS, text=_TEXTS)
def test_any_of_some_texts_occurs_where_one_of_them_stands(literals: list[str], text: str) -> None:
    """Rules that keep secrets out and orders apart are tried only if one of their hints occurs."""
    assert any_of(literals).occurs_in(text) == any(literal in text for literal in literals)


def test_a_linear_pattern_occurs_in_texts_of_any_type_and_length() -> None:
    class Title(str):
        __slots__ = ()

    class Colour(enum.StrEnum):
        RED = "a red one"

    pattern = LinearPattern(r"\bred\b")
    assert pattern.occurs_in(Title("a red one"))
    assert pattern.occurs_in(Colour.RED)
    assert pattern.occurs_in("a" * 5_000_000 + " red \udfff")
    assert not pattern.occurs_in("redder")
