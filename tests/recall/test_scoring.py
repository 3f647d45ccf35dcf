"""The formulas of recall, on numbers."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.errors import InvalidDataError
from factmem.recall import RecallSettings, composite, decay
from factmem.recall.scoring import closeness, fused, idf, lexical, semantic, similarity

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


@given(st.lists(shares, min_size=12, max_size=12))
def test_every_part_stays_between_0_and_1(of: list[float]) -> None:
    words, meaning = lexical(of[0], of[1], of[2]), semantic(of[3], of[4], of[5], of[6])
    together = fused(words, meaning, of[7])
    for part in (words, meaning, together, similarity(together, of[8], of[9], of[10], of[11])):
        assert 0 <= part <= 1 + 1e-12
    assert similarity(together, of[8], of[9], of[10], of[11]) >= together - 1e-12
    assert similarity(together, 0, 0, 0, 0) == pytest.approx(together)


def test_what_was_said_beside_a_time_is_less_close_to_it_the_farther_away_it_lies() -> None:
    times = [(1_000_000.0, 2_000_000.0), (-math.inf, 0.0)]
    said = np.array([1_000_000.0, 1_999_999.0, 2_250_000.0, 2_500_000.0, 9e9, -9e9])
    assert closeness(said, times) == pytest.approx([1, 1, 0.5, 0, 0, 1])
    assert closeness(said, []) == pytest.approx([0] * 6)


@given(st.floats(0, 1000), st.floats(0, 1000))
def test_a_rarer_term_never_weighs_less(df: float, other: float) -> None:
    rare, common = sorted((df, other))
    assert idf(rare, 1000) >= idf(common, 1000) > 0
