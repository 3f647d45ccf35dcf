"""The JSON form of records and of what else the interfaces answer with."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import Any

import attrs

from factmem.records import FactRecord
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json, encode_value


def attributes(thing: Any, *names: str) -> dict[str, Json]:
    """Return attributes of an object, or all of its fields, as JSON."""
    return {name: _json(getattr(thing, name)) for name in names or attrs.fields_dict(type(thing))}


def _json(value: Any) -> Any:
    match value:
        case FactRecord():
            return record_json(value)
        case MemoryScope() | MemorySubject():
            return str(value)
        case dt.datetime():
            return value.isoformat()
        case enum.Enum():
            return value.value
        case list() | tuple():
            return [_json(item) for item in value]
        case Mapping():
            return {_json(name): _json(item) for name, item in value.items()}
        case _:
            return attributes(value) if attrs.has(type(value)) else value


def value_json(record: FactRecord[Any]) -> Json:
    """Return a record's value as JSON."""
    return encode_value(record.value, record.concept.value_type)


def record_json(record: FactRecord[Any]) -> dict[str, Json]:
    """Return a record as JSON."""
    return {
        "id": record.id,
        "keyword": record.concept.keyword,
        "value": value_json(record),
        **attributes(record, "subject", "scope", "timestamp", "revision", "state", "ended_at", "end_reason"),
        **attributes(record.details, "importance", "categories", "topics", "metadata", "labels"),
        **attributes(record.details, "expires_at", "revision_expires_at", "source"),
        "private": record.private,
        **attributes(record.details, "origin", "flags"),
        "quarantine_reason": record.quarantine_reason or None,
        **attributes(record.details, "evidence"),
    }
