"""The formulas of recall, on numbers."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.errors import InvalidDataError
from factmem.recall import RecallSettings, composite, decay
from factmem.recall.scoring import idf, lexical, semantic, similarity

DAY = dt.timedelta(days=1)
shares = st.floats(0, 1)


def test_a_new_memory_scores_by_similarity_and_importance() -> None:
    assert composite(0.8, decay(0 * DAY, 30), 0.7, RecallSettings()) == pytest.approx(0.84)


def test_two_half_lives_leave_a_quarter_of_recency() -> None:
    assert decay(60 * DAY, 30) == pytest.approx(0.25)


def test_the_future_is_as_recent_as_now() -> None:
    assert decay(-5 * DAY, 30) == 1


def test_weights_are_normalised() -> None:
    doubled = RecallSettings(similarity_weight=1.0, recency_weight=0.6, importance_weight=0.4)
    assert composite(0.3, 0.2, 0.9, doubled) == pytest.approx(composite(0.3, 0.2, 0.9, RecallSettings()))


def test_without_recency_and_importance_the_score_is_the_similarity() -> None:
    settings = RecallSettings(recency_weight=0, importance_weight=0)
    assert composite(0.37, 1.0, 1.0, settings) == pytest.approx(0.37)


@pytest.mark.parametrize(
    "wrong",
    [
        {"similarity_weight": -1.0},
        {"recency_weight": math.nan},
        {"importance_weight": math.inf},
        {"half_life_days": 0.0},
        {"lexical_weight": 1.1},
        {"similarity_weight": 0.0, "recency_weight": 0.0, "importance_weight": 0.0},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidDataError):
        RecallSettings(**wrong)


@given(shares, shares, shares, shares, shares, shares)
def test_every_part_stays_between_0_and_1(a: float, b: float, c: float, d: float, e: float, w: float) -> None:
    words, meaning = lexical(a, b, c), semantic(d, e)
    assert 0 <= words <= 1 + 1e-12
    assert 0 <= meaning <= 1 + 1e-12
    assert 0 <= similarity(words, meaning, w) <= 1 + 1e-12


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_rarer_term_never_weighs_less(df: int, other: int) -> None:
    rare, common = sorted((df, other))
    assert idf(rare, 1000) >= idf(common, 1000) > 0
