"""The formulas of recall, on numbers."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.errors import InvalidDataError
from factmem.recall import Additive, Boost, scoring
from factmem.recall.scoring import (
    ALONE,
    DAY,
    Calibration,
    Evidence,
    RecallSettings,
    closeness,
    confidence,
    idf,
    recency,
    says_little,
    similarity,
)
from tests.tables import each_case

shares = st.floats(0, 1)


def test_nothing_that_does_not_answer_is_lifted() -> None:
    assert Boost().score(0.0, 1.0, 1.0) == 0
    assert Boost().score(0.1, 1.0, 1.0) < Boost().score(0.2, 0.0, 0.0)


def test_the_additive_composite_is_that_of_crewai() -> None:
    settings = RecallSettings(composite="additive")
    assert settings.composite == Additive(similarity_weight=0.5, recency_weight=0.3, importance_weight=0.2)
    assert settings.composite.score(0.8, recency(0.0, 30), 0.7) == pytest.approx(0.84)


def test_two_half_lives_leave_a_quarter_of_recency() -> None:
    assert recency(60 * DAY, 30) == pytest.approx(0.25)


def test_the_future_is_as_recent_as_now() -> None:
    assert recency(-5 * DAY, 30) == 1


@each_case("cls", "wrong")
def test_settings_out_of_range_are_refused(cls: str, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidDataError):
        getattr(scoring, cls)(**wrong)


MARKS = ("little", "lead", "kind", "other")
EVIDENCE = {name: shares for name in attrs.fields_dict(Evidence) if name not in MARKS}
EVIDENCE |= dict.fromkeys(MARKS, st.booleans()) | {
    "words": st.sampled_from([ALONE, 1.0]),
    "unrelated": st.floats(0, 0.9),
}
PLAIN = Evidence(own=0.1, exchange=0.0, conversation=0.0, cosine=0.0, near=0.0, context=0.0)
evidences = st.fixed_dictionaries(EVIDENCE).map(lambda of: Evidence(**of))


@given(evidences, shares)
def test_every_part_stays_between_0_and_1(evidence: Evidence[float], lexical_weight: float) -> None:
    for part in (evidence.lexical, evidence.semantic, similarity(evidence, lexical_weight)):
        assert 0 <= part <= 1 + 1e-9


@given(evidences, shares, st.sampled_from(["lead", "dated", "kind", "change", "own", "cosine", "concept", "named"]))
def test_more_evidence_never_costs_anything(evidence: Evidence[float], lexical_weight: float, name: str) -> None:
    more = attrs.evolve(evidence, **{name: 1.0})
    assert similarity(more, lexical_weight) >= similarity(evidence, lexical_weight) - 1e-9


@given(evidences, shares)
def test_no_evidence_of_a_kind_scores_as_0_does(evidence: Evidence[float], lexical_weight: float) -> None:
    nothing = dict.fromkeys(["lead", "dated", "kind", "change", "misfit", "concept", "named", "answered", "other"], 0.0)
    absent: dict[str, Any] = dict.fromkeys(nothing)
    evidence = attrs.evolve(evidence, timed=0.0)  # a time in the query is part of its words
    without = attrs.evolve(evidence, **absent)
    assert similarity(attrs.evolve(evidence, **nothing), lexical_weight) == similarity(without, lexical_weight)


def test_a_cosine_of_unrelated_texts_is_no_evidence() -> None:
    assert attrs.evolve(PLAIN, cosine=0.4, unrelated=0.5).semantic == 0
    assert attrs.evolve(PLAIN, cosine=0.75, unrelated=0.5).semantic == pytest.approx(0.5)


def test_an_answer_inherits_no_meaning_from_an_unrelated_statement() -> None:
    answer = attrs.evolve(PLAIN, cosine=0.5, near=0.5, context=0.8, unrelated=0.5, question=0.0, answered=0.6)
    assert attrs.evolve(answer, question_cosine=0.5).semantic == 0
    assert attrs.evolve(answer, question_cosine=0.9).semantic > 0


def test_an_embedder_is_read_as_measured_unless_settings_say_otherwise() -> None:
    known = RecallSettings().calibration("all-minilm-l6-v2-int8")
    assert known.lexical_weight < RecallSettings().calibration("wordllama-l2-supercat-256").lexical_weight
    assert RecallSettings().calibration("nobody's") == Calibration()
    assert RecallSettings(unrelated=0.2).calibration("nobody's") == attrs.evolve(Calibration(), unrelated=0.2)


@pytest.mark.parametrize("name", ["lead", "dated", "kind"])
def test_a_sign_raises_what_answers_and_nothing_else(name: str) -> None:
    before, after = (similarity(attrs.evolve(PLAIN, **{name: sign}), 0.5) for sign in (0.0, 1.0))
    assert after == pytest.approx(before + 0.5 * before * (1 - before))
    assert similarity(attrs.evolve(PLAIN, own=0.0, **{name: 1.0}), 0.5) == 0


def test_a_short_text_that_tells_nothing_counts_less_and_one_that_only_asks_least() -> None:
    lengths, tells, asks = np.array([15, 16, 15, 15]), np.array([False, False, True, False]), np.array([0, 1, 0, 1])
    lost = says_little(lengths, tells, asks)
    assert lost.tolist() == [0.25, 0, 0, 0.75]
    assert similarity(attrs.evolve(PLAIN, little=lost[3]), 0.5) == pytest.approx(0.25 * similarity(PLAIN, 0.5))


def test_what_was_said_beside_a_time_is_less_close_to_it_the_farther_away_it_lies() -> None:
    times = [(1_000_000.0, 2_000_000.0), (-math.inf, 0.0)]
    said = np.array([1_000_000.0, 1_999_999.0, 2_250_000.0, 2_500_000.0, 9e9, -9e9])
    back = np.ones(6, np.bool_)
    assert closeness(said, back, times) == pytest.approx([1, 1, 0.5, 0, 0, 1])
    assert closeness(said, back, []) == pytest.approx([0] * 6)


def test_confidence_falls_where_others_than_the_one_asked_about_fit_better() -> None:
    sure = confidence([0.6, 0.2], [0.5, 0.1], [0.45, 0.1], [False, True], among=500)
    assert sure == pytest.approx(0.3 * 0.6 + 0.7 * 0.3)
    assert confidence([0.6, 0.2], [0.5, 0.1], [0.45, 0.1], [True, True], among=500) == 0
    assert confidence([0.6, 0.2], [0.5, 0.1], [0.45, 0.1], [True, False], among=500) == 0


def test_what_happened_is_told_up_to_some_days_later() -> None:
    day = np.array([-1.0, -0.25, 0.5, 1.0, 2.0, 3.5, 6.0, 9.0])
    back = np.ones(len(day), np.bool_)
    assert closeness(day * DAY, back, [(0.0, DAY)]) == pytest.approx([0, 0.5, 1, 1, 0.8, 0.5, 0, 0])


def test_what_was_said_after_a_time_and_names_none_before_is_at_most_half_as_close() -> None:
    day = np.array([-0.25, 0.5, 1.0, 2.0, 4.5, 6.0])
    said = closeness(day * DAY, np.zeros(len(day), np.bool_), [(0.0, DAY)])
    assert said == pytest.approx([0.5, 1, 0.5, 0.5, 0.3, 0])


def test_a_time_is_a_part_of_the_evidence_of_words() -> None:
    timed = attrs.evolve(PLAIN, own=0.0, dated=1.0, timed=0.2)
    assert timed.lexical == pytest.approx(attrs.evolve(PLAIN, own=0.2).lexical)
    assert attrs.evolve(timed, dated=0.0).lexical == 0


@given(st.floats(0, 1000), st.floats(0, 1000))
def test_a_rarer_term_never_weighs_less(df: float, other: float) -> None:
    rare, common = sorted((df, other))
    assert idf(rare, 1000) >= idf(common, 1000) > 0
