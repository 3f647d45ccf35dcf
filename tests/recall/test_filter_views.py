"""A filter selects the same assertions one by one and on columns."""

from __future__ import annotations

import datetime as dt
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import Evidence, FactDetails, MemoryScope, MemorySubject, Origin, SingleFact
from factmem.facts import STATEMENT, Concept, MultipleFacts
from factmem.recall import MetadataCondition, MetadataOperator, RecallFilter
from factmem.recall.conditions import Facet
from factmem.recall.index.selection import LogPart
from factmem.recall.index.tenant_log import TenantLog
from factmem.records import Place, Recorded, assertions_of

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SUBJECTS = [MemorySubject.EVERYTHING, MemorySubject("user", "The user"), MemorySubject("user", "").individual("ann")]
SCOPES = [MemoryScope.product("a"), MemoryScope.product("a") / "x", MemoryScope.product("ab"), MemoryScope.agent("a")]
WORDS = ["red", "blue", "green"]


def recorded(number: int) -> Recorded:
    """Return an assertion that differs from the others in every facet."""
    details = FactDetails(
        importance=number % 5 / 4,
        categories=(WORDS[number % 3],),
        topics=tuple(WORDS[: number % 3]),
        source=[None, *WORDS][number % 4],
        metadata={"n": number % 4} if number % 2 else {},
        origin=[Origin.USER, Origin.ASSISTANT][number % 2],
        evidence=[Evidence(quote=str(number), speaker=[None, "Ann", "Zoë"][number % 3])],
    )
    place = Place(SUBJECTS[number % 3], SCOPES[number % 4])
    note = SingleFact(Concept.single(f"{WORDS[number % 3]}_note", ""), str(number), timestamp=day(number))
    fact = note if number % 5 else MultipleFacts(STATEMENT, (str(number),), timestamp=day(number))
    (said,) = assertions_of(fact, place, details)
    return Recorded(
        assertion=said, id=f"a{number}", record_id=f"r{number % 30}", seq=number + 1, recorded_at=day(number + 3)
    )


def day(number: int) -> dt.datetime:
    return NOW - dt.timedelta(days=number)


LOG = [recorded(number) for number in range(60)]
days = st.none() | st.integers(0, 60).map(day)
several = st.none() | st.lists(st.sampled_from([*WORDS, "other"]), max_size=3)
conditions = st.builds(
    MetadataCondition, st.just("n"), st.integers(0, 4), operator=st.sampled_from(MetadataOperator), negate=st.booleans()
)
places = st.builds(Place, st.sampled_from(SUBJECTS), st.sampled_from(SCOPES)).map(lambda place: place.key)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "scope": st.none() | st.sampled_from(SCOPES),
    "exact": st.booleans(),
    "subject": st.none() | st.sampled_from(SUBJECTS),
    "subjects": st.none() | st.lists(st.sampled_from(SUBJECTS), max_size=2),
    "places": st.none()
    | st.lists(st.builds(lambda *at: Place(*at).key, st.sampled_from(SUBJECTS), st.sampled_from(SCOPES))),
    "within": st.none() | st.just(SCOPES[0].contains),
    "keywords": st.none() | st.lists(st.sampled_from(["red_note", "blue_note", "other"]), max_size=2),
    "without_keywords": st.none() | st.lists(st.sampled_from(["red_note", "other"]), max_size=2),
    "categories": several,
    "topics": several,
    "sources": several,
    "speakers": st.none() | st.lists(st.sampled_from(["Ann", "Zoë", "Bo", ""]), max_size=2),
    "since": days,
    "until": days,
    "recorded_since": days,
    "recorded_until": days,
    "min_importance": st.none() | st.sampled_from([0.0, 0.25, 0.6]),
    "max_importance": st.none() | st.sampled_from([0.5, 1.0]),
    "telling": st.booleans(),
    "assistant": st.none() | st.booleans(),
    "pattern": st.none() | st.sampled_from(["[0-9]", "^.$", "(?i)NOTE", "nowhere"]),
    "metadata": st.sampled_from([{}, {"n": 1}]),
    "where": st.lists(st.lists(conditions, min_size=1, max_size=2), max_size=2),
    "record_ids": st.none() | st.lists(st.sampled_from(["r1", "r2", "r29", "other"])),
}
COMPARES_RECORDS = {"strongest"}
"""Fields that a single record always passes."""


def whole_log() -> TenantLog:
    log = TenantLog(None)
    log.take_in(LOG)
    return log


def test_every_field_is_evaluated() -> None:
    assert {field.name for field in attrs.fields(RecallFilter)} == {*FIELDS} | COMPARES_RECORDS


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "exact"])
def test_each_field_is_evaluated_alike(name: str) -> None:
    log = whole_log()

    @given(FIELDS[name], st.booleans())
    def check(value: Any, exact: bool) -> None:
        wanted = RecallFilter(exact=exact, **{name: value})
        assert ids(log, wanted) == {item.id for item in LOG if wanted.keeps(item)}

    check()


@given(st.fixed_dictionaries({}, optional=FIELDS))
def test_fields_together_are_evaluated_alike(given_fields: dict[str, Any]) -> None:
    wanted = RecallFilter(**given_fields)
    assert ids(whole_log(), wanted) == {item.id for item in LOG if wanted.keeps(item)}


def test_every_facet_has_a_filter() -> None:
    everything = RecallFilter(
        scope=SCOPES[0],
        subject=SUBJECTS[0],
        places=[],
        keywords=[],
        record_ids=[],
        categories=[],
        topics=[],
        sources=[],
        speakers=[],
        since=NOW,
        recorded_since=NOW,
        min_importance=0.5,
        telling=True,
        assistant=False,
        metadata={"n": 1},
        pattern=".",
    )
    assert {condition.facet for condition in everything.conditions} == set(Facet)


def ids(log: TenantLog, wanted: RecallFilter) -> set[str]:
    return {item.id for item in log.log(LogPart(kept=wanted)) if isinstance(item, Recorded)}
