"""Hypothesis strategies for everything in factmem's vocabulary.

Every strategy generates legal data only, of any script and size that a store must support:

    from hypothesis import given
    from factmem.testing import strategies

    @given(strategies.facts(), strategies.subjects(), strategies.scopes())
    def test_…(fact, subject, scope): …
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Sequence
from typing import Any, Final

import attrs

from factmem.details import Evidence, FactDetails, Origin
from factmem.errors import MissingPackageError
from factmem.facts import Concept, Fact, MultipleConcept, SingleConcept, SingleFact
from factmem.legal_names import checked_name
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded, StateChange, Tombstone, assertions_of
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject

with MissingPackageError.if_missing("hypothesis", extra="testing"):
    from hypothesis import strategies as st


class Mood(enum.Enum):
    """An enumeration among the value types."""

    GOOD = "good"
    BAD = "bad"


class Season(enum.StrEnum):
    """An enumeration of texts among the value types."""

    SPRING = "spring"
    AUTUMN = "autumn"


@attrs.frozen
class Pet:
    """An attrs class among the value types."""

    name: str
    age: int | None = None
    mood: Mood = Mood.GOOD


def texts(*, min_size: int = 0, max_size: int = 60) -> st.SearchStrategy[str]:
    """Texts of any script, without lone surrogates."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=min_size, max_size=max_size)


def names(*, max_size: int = 30) -> st.SearchStrategy[str]:
    """Legal names: of tenants, scopes, subjects, owners and keywords; hostile ones among them."""
    anything = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=max_size)
    hostile = st.sampled_from([".", "..", "a/b", "%2F", "agent", "cross-product", "a b", "'", "CON"])
    return st.one_of(hostile, anything.filter(str.strip)).map(lambda name: checked_name(name, what="a name"))


def moments() -> st.SearchStrategy[dt.datetime]:
    """Times in UTC, between 1950 and 2100."""
    return st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2100, 1, 1), timezones=st.just(dt.UTC))


def scopes(*, tenants: bool = False) -> st.SearchStrategy[MemoryScope]:
    """Scopes of every kind, up to four segments deep.

    Args:
        tenants: Anchor some at a tenant.
    """
    paths = st.lists(names(), min_size=1, max_size=4).map(tuple)
    tenant = st.none() | names() if tenants else st.none()
    named = st.builds(MemoryScope, st.sampled_from(ScopeKind), paths, tenant=tenant)
    return named | tenant.map(MemoryScope.CROSS_PRODUCT.within)


def subjects() -> st.SearchStrategy[MemorySubject]:
    """Subjects, some narrowed to an individual."""
    return st.builds(
        MemorySubject, names(), texts(), priority_level=st.integers(0, 2**31 - 1), individual_name=st.none() | names()
    )


def places() -> st.SearchStrategy[Place]:
    """A subject in a scope, of any tenant."""
    return st.builds(Place, subjects(), scopes(tenants=True))


def json_values() -> st.SearchStrategy[Any]:
    """Any JSON."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts()
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(max_size=8), inner, max_size=4),
        max_leaves=12,
    )


_PETS: Final = st.builds(Pet, texts(), st.none() | st.integers(), st.sampled_from(Mood))
_FLOATS: Final = st.floats(allow_nan=False, allow_infinity=False)
_TYPED: Final[Sequence[tuple[Any, st.SearchStrategy[Any]]]] = (
    (str, texts(min_size=1).filter(str.strip)),
    (int, st.integers()),
    (float, _FLOATS),
    (bool, st.booleans()),
    (bytes, st.binary(max_size=40)),
    (dt.date, st.dates()),
    (dt.datetime, st.datetimes(timezones=st.none() | st.just(dt.UTC))),
    (dt.time, st.times()),
    (uuid.UUID, st.uuids()),
    (MemorySubject, st.builds(MemorySubject, names(), individual_name=st.none() | names())),
    (dt.timedelta, st.timedeltas(dt.timedelta(days=-90_000), dt.timedelta(days=90_000))),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Mood, st.sampled_from(Mood)),
    (Season, st.sampled_from(Season)),
    (Pet, _PETS),
    (list[Pet], st.lists(_PETS, max_size=3)),
    (dict[str, float], st.dictionaries(texts(), _FLOATS, max_size=3)),
    (frozenset[str], st.frozensets(texts(), max_size=3)),
    (tuple[int, str], st.tuples(st.integers(), texts())),
    (int | str | None, st.integers() | texts() | st.none()),
    (object, json_values()),
)


def typed_values() -> st.SearchStrategy[tuple[Any, Any]]:
    """A value type with a value of it: scalars, dates, enums, attrs classes and collections."""
    return st.sampled_from(_TYPED).flatmap(lambda typed: st.tuples(st.just(typed[0]), typed[1]))


_TYPES: Final = st.sampled_from([typed for typed, _ in _TYPED])


def single_concepts() -> st.SearchStrategy[SingleConcept[Any]]:
    """SINGLE concepts of any value type."""
    return st.builds(Concept.single, names(), texts(), _TYPES)


def multiple_concepts() -> st.SearchStrategy[MultipleConcept[Any]]:
    """MULTIPLE concepts of any value type."""
    return st.builds(Concept.multiple, names(), texts(), _TYPES)


def concepts() -> st.SearchStrategy[Concept[Any, Any]]:
    """Concepts of both fact types and any value type."""
    return st.one_of(single_concepts(), multiple_concepts())


def _values_of(concept: Concept[Any, Any]) -> st.SearchStrategy[Any]:
    return next(values for typed, values in _TYPED if typed == concept.value_type)


def single_facts() -> st.SearchStrategy[SingleFact[Any]]:
    """One value of a SINGLE concept, with its times."""

    def of(concept: SingleConcept[Any]) -> st.SearchStrategy[SingleFact[Any]]:
        return st.builds(SingleFact, st.just(concept), _values_of(concept), timestamp=moments())

    return single_concepts().flatmap(of)


def facts() -> st.SearchStrategy[Fact[Any]]:
    """Facts of both types, some with the interval in which they are true."""

    def of(concept: Concept[Any, Any]) -> st.SearchStrategy[Fact[Any]]:
        most = 1 if isinstance(concept, SingleConcept) else 4
        interval = st.lists(moments(), min_size=2, max_size=2).map(sorted) | st.just([None, None])
        return st.builds(
            lambda values, timestamp, true: concept.fact(
                values, timestamp=timestamp, valid_from=true[0], valid_to=true[1]
            ),
            st.lists(_values_of(concept), min_size=1, max_size=most),
            moments(),
            interval,
        )

    return concepts().flatmap(of)


def evidence() -> st.SearchStrategy[Evidence]:
    """The evidence of a fact."""
    said = dict.fromkeys(("message_id", "role", "speaker", "conversation_id"), st.none() | texts(max_size=12))
    where = dict.fromkeys(("position", "start", "end"), st.none() | st.integers(0, 10_000))
    return st.builds(Evidence, quote=texts(), **said, **where)


def details() -> st.SearchStrategy[FactDetails]:
    """The details of a fact besides its value."""
    labels = st.lists(names(max_size=8), max_size=2)
    return st.builds(
        FactDetails,
        importance=st.floats(0, 1),
        categories=labels,
        topics=labels,
        source=st.none() | texts(),
        owner=st.none() | names(max_size=8),
        metadata=st.dictionaries(texts(max_size=6), json_values(), max_size=2),
        evidence=st.lists(evidence(), max_size=2),
        origin=st.sampled_from(Origin),
        expires_at=st.none() | moments(),
        labels=st.dictionaries(names(max_size=8), names(max_size=8), max_size=2),
        revision_expires_at=st.none() | moments(),
        doubt=st.none() | texts(),
    )


def states() -> st.SearchStrategy[AssertionState]:
    """All states that a store keeps."""
    return st.sampled_from([state for state in AssertionState if state is not AssertionState.SUPERSEDED])


def jobs() -> st.SearchStrategy[dict[str, Any]]:
    """The jobs of submitted words."""
    return st.dictionaries(texts(max_size=6), json_values(), max_size=2)


def assertions() -> st.SearchStrategy[Assertion]:
    """One value of one concept, stated or removed at one place; in any state, some with a job."""

    def first(assertions: Sequence[Assertion], state: AssertionState | None, job: Any) -> Assertion:
        return assertions[0] if state is None else attrs.evolve(assertions[0], state=state, job=job)

    said = st.builds(assertions_of, facts(), places(), details(), removed=st.booleans())
    return st.builds(first, said, st.none() | states(), st.none() | jobs())


def log_entries() -> st.SearchStrategy[LogEntry]:
    """Any entry of a store's log; entries are not related to each other."""
    ids, numbers = st.uuids().map(lambda unique: unique.hex), st.integers(1, 2**53)
    return st.one_of(
        st.builds(Recorded, assertion=assertions(), id=ids, record_id=ids, seq=numbers, recorded_at=moments()),
        st.builds(
            StateChange,
            assertion_id=ids,
            state=states(),
            seq=numbers,
            recorded_at=moments(),
            reason=st.none() | texts(),
        ),
        st.builds(Tombstone, assertion_id=ids, seq=numbers),
    )
