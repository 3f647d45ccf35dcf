"""Concepts, facts, and the assertions that they are kept as."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings

from factmem import Concept, FactDetails, InMemoryProvider, MemoryScope, MemorySubject, SingleFact
from factmem.errors import InvalidDataError
from factmem.facts import Fact, MultipleFacts, utc
from factmem.records import Assertion, Place, assertions_of
from factmem.testing import strategies

NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
SEATS = Concept.single("seats", "How many seats", int)
TAGS = Concept.multiple("tags", "Labels")


@pytest.mark.parametrize("wrong", [["We booked for twelve."], [("a", 1, 2)], 5, [5]])
def test_examples_are_pairs(wrong: Any) -> None:
    with pytest.raises(InvalidDataError, match="pairs of a sentence and the value"):
        Concept.single("seats", "Number of seats", int, examples=wrong)


@given(strategies.facts())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
def test_a_fact_rebuilt_from_its_values_is_equal(fact: Fact[Any]) -> None:
    """Equal facts hash alike, so that they can be members of sets."""
    rebuilt = fact.concept.fact(
        fact.values, timestamp=fact.timestamp, valid_from=fact.valid_from, valid_to=fact.valid_to
    )
    assert rebuilt == fact
    assert hash(rebuilt) == hash(fact)


def test_a_bare_concept_builds_no_fact() -> None:
    bare: Any = Concept
    concept = bare("x", "d", value_type=str)
    with pytest.raises(InvalidDataError):
        SingleFact(concept, "v")
    with pytest.raises(InvalidDataError):
        MultipleFacts(concept, ("v",))


def test_a_multiple_fact_of_a_single_concept_cannot_be_built() -> None:
    single: Any = SEATS
    multiple: Any = TAGS
    with pytest.raises(InvalidDataError, match="MULTIPLE"):
        MultipleFacts(single, (1,))
    with pytest.raises(InvalidDataError, match="SINGLE concept and its value, not a MULTIPLE one"):
        SingleFact(multiple, "x")
    swapped: Any = ("Oslo", SEATS)
    with pytest.raises(InvalidDataError, match="concept and its value, not a str"):
        SingleFact(*swapped)


REFUSED: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "no keyword": (lambda it: Concept.single(it, "d"), ["", " ", "a\x00", "n" * 513, None, 5]),
    "no description": (lambda it: Concept.multiple("x", it), [None, 5, b"x", "\ud800"]),
    "a value of another type": (lambda it: SingleFact(SEATS, it), ["4", 4.0, True, None, [4]]),
    "a text that says nothing": (lambda it: MultipleFacts(TAGS, ("fine", it)), ["", "   ", "\n\t", "\ud800"]),
    "not one value": (lambda it: SEATS.fact(it, timestamp=NOON), [[], [1, 2]]),
    "an end before its beginning": (
        lambda it: SingleFact(SEATS, 4, valid_from=NOON, valid_to=it),
        [NOON - dt.timedelta(days=1)],
    ),
}


@pytest.mark.parametrize(("make", "wrongs"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_concept_or_fact_is_refused(make: Callable[[Any], object], wrongs: list[Any]) -> None:
    for wrong in wrongs:
        with pytest.raises(InvalidDataError):
            make(wrong)


@pytest.mark.parametrize("values", [(), [], "abc", b"abc", None, 5, {"a"}, {"a": 1}])
def test_the_values_of_multiple_facts_are_a_list_with_something_in_it(values: Any) -> None:
    """An empty list is not a fact."""
    with pytest.raises(InvalidDataError):
        MultipleFacts(TAGS, values)


def test_equal_values_are_united_in_the_order_first_said() -> None:
    assert MultipleFacts(TAGS, ("b", "a", "b", "e\u0301", "é")).values == ("b", "a", "e\u0301")
    anything = Concept.multiple("x", "d", object)
    assert [type(value) for value in MultipleFacts(anything, (1, 1.0, True, 1)).values] == [int, float, bool]


def test_facts_are_equal_by_canonical_value_and_times() -> None:
    anything = Concept.single("x", "d", object)
    assert SingleFact(anything, 1, timestamp=NOON) != SingleFact(anything, True, timestamp=NOON)
    assert SingleFact(anything, 1, timestamp=NOON) != SingleFact(anything, 1.0, timestamp=NOON)
    assert SingleFact(SEATS, 1, timestamp=NOON) != SingleFact(SEATS, 1, timestamp=NOON + dt.timedelta(microseconds=1))
    text = Concept.single("x", "d")
    assert SingleFact(text, "é", timestamp=NOON) == SingleFact(text, "e\u0301", timestamp=NOON)
    assert SingleFact(text, "a", timestamp=NOON) != MultipleFacts(TAGS, ("a",), timestamp=NOON)


def test_a_fact_is_dated_now_by_default() -> None:
    before = dt.datetime.now(dt.UTC)
    assert before <= SingleFact(SEATS, 4).timestamp <= dt.datetime.now(dt.UTC)


def test_times_are_kept_in_utc() -> None:
    tokyo = NOON.astimezone(dt.timezone(dt.timedelta(hours=9)))
    fact = SingleFact(SEATS, 4, timestamp=tokyo, valid_from=tokyo, valid_to=tokyo)
    assert (fact.timestamp, fact.timestamp.tzinfo) == (NOON, dt.UTC)
    assert fact == SingleFact(SEATS, 4, timestamp=NOON, valid_from=NOON, valid_to=NOON)


@pytest.mark.parametrize(
    "moment",
    [
        dt.datetime(2024, 1, 1),
        dt.date(2024, 1, 1),
        "2024-01-01",
        0,
        dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        dt.datetime(9999, 12, 31, 23, tzinfo=dt.timezone(dt.timedelta(hours=-3))),
    ],
)
def test_a_time_without_a_place_in_utc_is_refused(moment: Any) -> None:
    with pytest.raises(InvalidDataError):
        utc(moment)
    for field in ("timestamp", "valid_from", "valid_to"):
        times: dict[str, Any] = {field: moment}
        with pytest.raises(InvalidDataError):
            SingleFact(SEATS, 4, **times)


def test_facts_and_concepts_do_not_change() -> None:
    fact: Any = SingleFact(SEATS, 4)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        fact.value = 5
    concept: Any = SEATS
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        concept.keyword = "x"


def test_a_class_that_sets_fields_of_a_subject_is_refused() -> None:
    """Its instances would not have them."""
    for fields in ({"name": "machine", "priority_level": 1}, {"prompt_description": "the machine"}):
        with pytest.raises(InvalidDataError, match=r"write MACHINE = MemorySubject\(\"machine\""):
            type("Machine", (MemorySubject,), fields)
    assert type("Machine", (MemorySubject,), {"__doc__": "A subject."})("machine").name == "machine"


# The identity of assertions.


CITY = Concept.single("city", "Where the user lives")
SAID = dt.datetime(2025, 5, 1, tzinfo=dt.UTC)
COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


def said(value: str = "Porto", *, scope: str = "planner", subject: str = "user", owner: str | None = None) -> Assertion:
    place = Place(MemorySubject(subject), MemoryScope.agent(scope))
    (assertion,) = assertions_of(SingleFact(CITY, value, timestamp=SAID), place, FactDetails(owner=owner))
    return assertion


@pytest.mark.parametrize("what", ["scope", "subject", "owner"])
async def test_names_that_differ_in_their_normal_form_only_are_two_names(what: str) -> None:
    one, two = said(**{what: COMPOSED}), said(**{what: DECOMPOSED})
    assert one.fingerprint != two.fingerprint
    async with InMemoryProvider() as provider:
        fact = SingleFact(CITY, "Porto", timestamp=SAID)
        for name in (COMPOSED, DECOMPOSED):
            await provider.save(fact, MemorySubject("user"), MemoryScope.agent(name))
            assert await provider.load(CITY, MemorySubject("user"), MemoryScope.agent(name)) == fact
