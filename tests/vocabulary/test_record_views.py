"""Records: the public form of assertions, typed, without their tenant, and without private content in a repr."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given, settings

from factmem.details import Evidence, FactDetails
from factmem.errors import FactMemError, InvalidDataError
from factmem.facts import Concept
from factmem.providers import SteadyClock, TrackIndex
from factmem.records import Assertion, AssertionState, FactRecord, Place, Recorded, assertions_of, record_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import FakeClock, strategies
from factmem.testing.strategies import Mood, Pet
from factmem.values import canonical_bytes
from tests.tables import cases

NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
HERE = Place(MemorySubject("user"), MemoryScope.agent("a").within("acme"))
SECRET = "xylophone-0451"


def recorded(assertion: Assertion) -> Recorded:
    return TrackIndex().record(assertion, 1, SteadyClock(FakeClock()))


def said(concept: Concept[Any, Any], value: object, **details: Any) -> Assertion:
    (assertion,) = assertions_of(concept.fact([value], timestamp=NOON), HERE, FactDetails(**details))
    return assertion


def test_a_fact_is_taken_apart_into_one_assertion_a_value() -> None:
    fact = Concept.multiple("tags", "d").fact(["a", "b"], timestamp=NOON, valid_from=NOON)
    details = FactDetails(importance=1)
    apart = assertions_of(fact, HERE, details)
    assert [assertion.data for assertion in apart] == ["a", "b"]
    assert {assertion.valid_from for assertion in apart} == {NOON}
    assert all(assertion.details is details and assertion.place is HERE for assertion in apart)


def test_a_record_reads_by_the_declared_type_or_by_the_stored_shape() -> None:
    concept = Concept.single("pet", "d", Pet)
    entry = recorded(said(concept, Pet("Rex", 3)))
    assert record_of(entry, concept).value == Pet("Rex", 3)
    assert record_of(entry).value == {"name": "Rex", "age": 3, "mood": "good"}
    with pytest.raises(InvalidDataError):
        record_of(entry, Concept.single("pet", "d", Mood))


def test_a_record_does_not_show_its_tenant() -> None:
    record: FactRecord[Any] = record_of(recorded(said(Concept.single("x", "d"), "v")))
    assert record.scope == MemoryScope.agent("a")
    assert "acme" not in repr(record)


def test_a_public_record_shows_its_value() -> None:
    assert "Oslo" in repr(record_of(recorded(said(Concept.single("city", "d"), "Oslo"))))


@pytest.mark.parametrize("state", [state for state in AssertionState if state is not AssertionState.ACTIVE])
def test_a_record_that_is_not_current_says_so(state: AssertionState) -> None:
    entry = recorded(said(Concept.single("city", "d"), "Oslo"))
    assert state.value in repr(record_of(entry, state=state))
    assert state.value not in repr(record_of(entry))


def test_a_private_record_hides_its_value_and_its_words() -> None:
    record: FactRecord[Any] = record_of(
        recorded(said(Concept.single("city", "d"), SECRET, owner="ann", evidence=[Evidence(quote=SECRET)]))
    )
    assert record.private
    assert SECRET not in repr(record)
    assert SECRET not in str(record)
    assert SECRET not in repr([record])


def test_an_assertion_does_not_show_its_value_or_words() -> None:
    """Logs and tracebacks print the repr."""
    assertion = said(Concept.single("city", "d"), SECRET, evidence=[Evidence(quote=SECRET)])
    for text in (repr(assertion), repr(recorded(assertion))):
        assert SECRET not in text


@given(strategies.assertions())
@settings(deadline=None, max_examples=50)
def test_the_same_assertion_has_the_same_fingerprint(assertion: Assertion) -> None:
    tokyo = dt.timezone(dt.timedelta(hours=9))
    assert attrs.evolve(assertion).fingerprint == assertion.fingerprint
    assert attrs.evolve(assertion, timestamp=assertion.timestamp.astimezone(tokyo)).fingerprint == assertion.fingerprint


@given(strategies.assertions())
@settings(deadline=None, max_examples=50)
def test_a_fingerprint_is_that_of_the_assertions_that_stores_hold(assertion: Assertion) -> None:
    place, details = assertion.place, assertion.details
    identity = [
        place.scope.tenant,
        list(place.scope.segments),
        list(place.subject.key),
        details.owner,
        assertion.keyword,
        hashlib.blake2b(canonical_bytes(assertion.data), digest_size=16).hexdigest(),
        assertion.removed,
        assertion.timestamp.isoformat(),
        details.origin.value,
        [[item.conversation_id, item.message_id] for item in details.evidence[:1]],
        assertion.revises,
        assertion.revised,
    ]
    expected = hashlib.blake2b(json.dumps(identity).encode(), digest_size=16).digest()
    assert assertion.fingerprint == expected


def test_what_makes_another_assertion() -> None:
    concept = Concept.multiple("tags", "d")
    base = said(concept, "v", evidence=[Evidence(quote="q", message_id="1")])
    others = [
        attrs.evolve(base, data="w"),
        attrs.evolve(base, timestamp=NOON + dt.timedelta(microseconds=1)),
        attrs.evolve(base, removed=True),
        attrs.evolve(base, keyword="other"),
        attrs.evolve(base, revises="r"),
        attrs.evolve(base, place=attrs.evolve(HERE, scope=MemoryScope.agent("a"))),
        attrs.evolve(base, place=attrs.evolve(HERE, scope=HERE.scope / "x")),
        attrs.evolve(base, place=attrs.evolve(HERE, subject=HERE.subject.individual("x"))),
        attrs.evolve(base, details=FactDetails(owner="ann", evidence=base.details.evidence)),
        said(concept, "v", evidence=[Evidence(quote="q", message_id="2")]),
        said(concept, "v"),
    ]
    assert len({item.fingerprint for item in [base, *others]}) == len(others) + 1
    same = [
        attrs.evolve(base, description="other words"),
        said(concept, "v", importance=0.9, evidence=[Evidence(quote="else", message_id="1")]),
    ]
    assert {item.fingerprint for item in same} == {base.fingerprint}


@pytest.mark.parametrize(
    "details",
    [
        *cases(__file__)["illegal details are refused"],
        {"metadata": {1: 2}},
        {"metadata": {"x": object()}},
        {"expires_at": dt.datetime(2024, 1, 1)},
    ],
)
def test_illegal_details_are_refused(details: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        FactDetails(**details)


@pytest.mark.parametrize("field", ["quote", "message_id", "role", "speaker", "conversation_id"])
def test_the_texts_of_evidence_are_texts(field: str) -> None:
    for wrong in ("\ud800", 5):
        texts: dict[str, Any] = {"quote": "q", field: wrong}
        with pytest.raises(InvalidDataError):
            Evidence(**texts)


def test_labels_are_said_once() -> None:
    assert FactDetails(categories=("a", "b", "a")).categories == ("a", "b")


def single(value_type: Any) -> Concept[Any, Any]:
    return Concept.single("x", "d", value_type)


SECRETIVE: list[Callable[[], object]] = [
    lambda: single(int).fact([SECRET], timestamp=NOON),
    lambda: single(Mood).fact([SECRET], timestamp=NOON),
    lambda: single(list[int]).fact([[SECRET]], timestamp=NOON),
    lambda: single(dt.date).fact([SECRET], timestamp=NOON),
    lambda: single(Pet).fact([{"name": SECRET}], timestamp=NOON),
    lambda: single(str).fact([SECRET + "\ud800"], timestamp=NOON),
    lambda: single(object).fact([[SECRET, float("nan")]], timestamp=NOON),
    lambda: Concept.multiple("x", "d").fact([SECRET * 100_000], timestamp=NOON),
    lambda: FactDetails(metadata={"x": [SECRET, object()]}),
    lambda: Evidence(quote=SECRET + "\ud800"),
    lambda: record_of(recorded(said(single(str), SECRET)), single(int)),
    lambda: record_of(recorded(said(single(str), SECRET)), single(Mood)),
    lambda: record_of(recorded(said(single(str), SECRET)), single(dt.datetime)),
]


@pytest.mark.parametrize("fail", SECRETIVE)
def test_no_error_contains_a_value(fail: Any) -> None:
    """This covers the message of the error and that of its cause."""
    with pytest.raises(FactMemError) as caught:
        fail()
    shown: BaseException | None = caught.value
    while shown is not None:
        assert SECRET not in str(shown)
        assert SECRET not in repr(shown.args)
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
