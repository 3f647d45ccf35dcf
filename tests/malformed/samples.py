"""Valid documents to start from: every kind of entry, every field, every shape."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Sequence
from typing import Any, Final

import attrs

from factmem import STATEMENT, Concept, Evidence, FactDetails, MemoryScope, MemorySubject, Origin
from factmem.codec import encode_entry
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded, StateChange, Tombstone, assertions_of

NOW: Final = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@attrs.frozen
class Pet:
    name: str
    age: int | None = None
    colours: tuple[Colour, ...] = ()


TYPES: Final[Sequence[tuple[Any, Any]]] = (
    (str, "Oslo"),
    (int, 5),
    (float, 0.5),
    (bool, True),
    (bytes, b"\x00\xff"),
    (dt.date, dt.date(2000, 2, 29)),
    (dt.time, dt.time(12, 30)),
    (dt.datetime, NOW),
    (dt.timedelta, dt.timedelta(hours=1)),
    (decimal.Decimal, decimal.Decimal("1.10")),
    (uuid.UUID, uuid.UUID(int=7)),
    (Colour, Colour.RED),
    (Pet, Pet("Rex", 3, (Colour.GREEN,))),
    (list[Pet], [Pet("Rex")]),
    (dict[str, float], {"a": 1.0}),
    (frozenset[str], frozenset({"a", "b"})),
    (tuple[int, str], (1, "a")),
    (int | str | None, None),
    (object, {"a": [1, None, {"b": True}]}),
)

_PLACES: Final = (
    Place(MemorySubject("user", "The user", priority_level=1), MemoryScope.agent("planner")),
    Place(MemorySubject("user").individual("älice"), (MemoryScope.CROSS_PRODUCT / "a/b").within("acme")),
    Place(MemorySubject.EVERYTHING, MemoryScope.CROSS_PRODUCT),
)
_DETAILS: Final = FactDetails(
    importance=0.75,
    categories=("home", "work"),
    topics=("travel",),
    source="chat.json",
    owner="alice",
    metadata={"a": [1, None]},
    evidence=(Evidence(quote="so", message_id="m1", role="user", speaker="Alice", position=3, start=0, end=2),),
    origin=Origin.ASSISTANT,
    expires_at=NOW + dt.timedelta(days=900_000),
    labels={"run": "7"},
)


def assertions() -> list[Assertion]:
    """Return one assertion of every type, in several states and places."""
    found: list[Assertion] = []
    kinds: list[tuple[Any, Any]] = list(TYPES)
    for number, (value_type, value) in enumerate(kinds):
        make = Concept.multiple if number % 2 else Concept.single
        concept = make(f"concept {number}", "What it is", value_type)
        fact = concept.fact([value], timestamp=NOW, valid_from=NOW - dt.timedelta(1), valid_to=NOW)
        details = _DETAILS if number % 3 == 0 else FactDetails()
        found += assertions_of(fact, _PLACES[number % len(_PLACES)], details)
    (statement,) = assertions_of(STATEMENT.fact(["I live in Oslo."], timestamp=NOW), _PLACES[0])
    waiting = attrs.evolve(statement, job={"id": "e1", "kind": "detect"}, state=AssertionState.PENDING)
    update = attrs.evolve(found[0], revises="r" * 32, revised=1)
    gone = attrs.evolve(found[1], removed=True, state=AssertionState.RETRACTED)
    return [*found, statement, waiting, update, gone]


def _entries() -> list[LogEntry]:
    recorded: list[LogEntry] = [
        Recorded(assertion=said, id=f"{seq:032x}", record_id=f"{seq + 99:032x}", seq=seq, recorded_at=NOW)
        for seq, said in enumerate(assertions(), start=1)
    ]
    moved = StateChange(
        assertion_id=f"{1:032x}", state=AssertionState.RETRACTED, seq=90, recorded_at=NOW, reason="because"
    )
    return [*recorded, moved, Tombstone(assertion_id=f"{2:032x}", seq=91)]


DOCUMENTS: Final = tuple(encode_entry(entry) for entry in _entries())
"""One document of every kind of entry."""
