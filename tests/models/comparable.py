"""Facts and log entries in a form that is comparable between a store and the model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs

from factmem.records import Assertion, LogEntry, Recorded, StateChange, Tombstone
from tests.models.plain_store import Gone, Moved, Said, Standing
from tests.models.plain_values import as_json, exact


@attrs.frozen
class PlainFact:
    """A fact as `load_all` shows it."""

    keyword: str
    description: str
    many: bool
    values: tuple[object, ...]
    timestamp: dt.datetime


def fact_of(items: Sequence[Standing]) -> PlainFact:
    said = [item.said for item in items]
    return PlainFact(
        said[0].it.keyword,
        said[-1].it.description,
        said[0].many,
        tuple(exact(as_json(item.words.value)) for item in said),
        max(item.it.timestamp for item in said),
    )


def seen(fact: Any) -> PlainFact:
    concept = fact.concept
    seen = tuple(exact(as_json(value)) for value in fact.values)
    return PlainFact(concept.keyword, concept.description, concept.fact_type.value == "multiple", seen, fact.timestamp)


def tenant_of(entry: Said | Moved | Gone) -> str | None:
    match entry:
        case Said():
            return entry.it.place.scope.tenant
        case Moved():
            return entry.said.it.place.scope.tenant
        case Gone():
            return entry.tenant


def comparable(entry: LogEntry) -> tuple[object, ...]:
    match entry:
        case Recorded():
            assertion = (_whole(entry.assertion), exact(entry.assertion.data))
            return ("said", entry.id, entry.record_id, entry.seq, entry.recorded_at, assertion)
        case StateChange():
            return ("moved", entry.assertion_id, entry.state, entry.seq, entry.recorded_at, entry.reason)
        case Tombstone():
            return ("gone", entry.assertion_id)


def expected_entry(entry: Said | Moved | Gone) -> tuple[object, ...]:
    match entry:
        case Said():
            return ("said", entry.id, entry.record, entry.seq, entry.at, (_whole(entry.it), exact(entry.it.data)))
        case Moved():
            return ("moved", entry.said.id, entry.state, entry.seq, entry.at, entry.reason)
        case Gone():
            return ("gone", entry.id)


def _whole(said: Assertion) -> tuple[object, ...]:
    return attrs.astuple(attrs.evolve(said, data=None), recurse=False)
