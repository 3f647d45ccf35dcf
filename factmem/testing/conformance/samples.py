"""Sample facts and places of the specs, and helpers that write, read and expect a refusal."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Awaitable
from typing import Any, Final

import attrs
import pytest

from factmem.abc.capabilities import Append, KeepsLog
from factmem.abc.provider import AgentMemoryProvider
from factmem.details import FactDetails
from factmem.errors import FactMemError
from factmem.facts import Concept, Fact, MultipleConcept, MultipleFacts, SingleConcept, SingleFact
from factmem.records import Assertion, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject


class Colour(enum.Enum):
    """An enumeration, as a value type."""

    RED = "red"
    GREEN = "green"


@attrs.frozen
class Address:
    """An attrs class, as a value type."""

    street: str
    number: int
    floor: int | None = None


USER: Final = MemorySubject("user", "the person", priority_level=10)
PLANNER: Final = MemoryScope.agent("planner")
SEATS: Final = Concept.single("seats", "How many seats the plan has", int)
CITY: Final = Concept.single("city", "Where the person lives")
COLOUR: Final = Concept.single("colour", "The favourite colour", Colour)
ADDRESS: Final = Concept.single("address", "Where letters go", Address)
LANGUAGES: Final = Concept.multiple("languages", "Languages that the person speaks")


def at(minutes: float = 0) -> dt.datetime:
    """Return the time a number of minutes after noon on 1 January 2024 UTC."""
    return dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC) + dt.timedelta(minutes=minutes)


def single(concept: SingleConcept[Any], value: object, minutes: float = 0) -> SingleFact[Any]:
    """Return one value, said at a minute."""
    return SingleFact(concept, value, timestamp=at(minutes))


def multiple(concept: MultipleConcept[Any], *values: object, minutes: float = 0) -> MultipleFacts[Any]:
    """Return values said together, at a minute."""
    return MultipleFacts(concept, values, timestamp=at(minutes))


def said(
    concept: Concept[Any, Any],
    value: object,
    minutes: float = 0,
    *,
    subject: MemorySubject = USER,
    scope: MemoryScope = PLANNER,
    removed: bool = False,
    revises: str | None = None,
    **details: Any,
) -> Assertion:
    """Return one assertion of one value, with any of `FactDetails` as keywords."""
    fact: Fact[Any] = concept.fact([value], timestamp=at(minutes))
    (assertion,) = assertions_of(fact, Place(subject, scope), FactDetails(**details), removed=removed)
    return attrs.evolve(assertion, revises=revises)


async def only(history: KeepsLog, assertion: Assertion) -> Recorded:
    """Append one assertion and return it as recorded."""
    (receipt,) = await history.append([Append(assertion=assertion)])
    return receipt.recorded


async def loaded_value(provider: AgentMemoryProvider, concept: SingleConcept[Any]) -> Any:
    """Return the value of a SINGLE concept at the usual place by the four verbs, or None."""
    fact = await provider.load(concept, USER, PLANNER)
    return None if fact is None else fact.value


async def refused(error: type[FactMemError], attempt: Awaitable[object]) -> None:
    """Check that an attempt raises an error."""
    with pytest.raises(error):
        await attempt
