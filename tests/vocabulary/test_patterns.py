"""Patterns that are compiled on first use."""

from __future__ import annotations

import copy
import re

import pytest

from factmem.patterns import lazy_pattern


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
