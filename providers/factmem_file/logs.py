"""Logs of a store: their names and the contents of their frames.

- ``facts``: one a place, each frame a JSON list of the entries (`factmem.codec`) of one commit;
- ``erased``: one a tenant, its tombstones, so that a place can be removed without a trace;
- ``arriving``: one a tenant while its log is taken from another store: the numbers up to which it is complete;
- ``accesses``: beside a ``facts`` whose records were counted: frames of added counts, by record;
- ``vectors``: beside each ``facts``; it can be recomputed, and is used only as far as it is valid.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from factmem.abc import LogName
from factmem.codec import decode_entry, dump_entry
from factmem.errors import CodecError, CorruptStoreError, NewerVersionError
from factmem.records import LogEntry, Place, Recorded

__all__ = [
    "ARRIVAL_KIND",
    "HISTORY_KINDS",
    "access_log",
    "arrival_log",
    "assertion_id",
    "entries_of",
    "erased_log",
    "payload_of",
    "place_log",
    "vector_log",
]

HISTORY_KINDS: Final = ("facts", "erased")
"""The kinds of log that hold numbered entries."""

ARRIVAL_KIND: Final = "arriving"


def place_log(place: Place) -> LogName:
    """Return the log of a place."""
    tenant, segments, (subject, individual) = place.key
    name = (subject,) if individual is None else (subject, individual)
    return LogName(folder=(tenant or "", *segments), name=name, kind="facts")


def vector_log(facts: LogName) -> LogName:
    """Return the log of the vectors of a place's assertions."""
    return LogName(folder=facts.folder, name=facts.name, kind="vectors")


def access_log(facts: LogName) -> LogName:
    """Return the log of the access counts of a place's records."""
    return LogName(folder=facts.folder, name=facts.name, kind="accesses")


def erased_log(tenant: str | None) -> LogName:
    """Return the log of a tenant's tombstones."""
    return LogName(folder=(tenant or "",), name=("tombstones",), kind="erased")


def arrival_log(tenant: str | None) -> LogName:
    """Return the log of an unfinished copy of a tenant."""
    return LogName(folder=(tenant or "",), name=("copy",), kind=ARRIVAL_KIND)


def payload_of(entries: Iterable[LogEntry]) -> bytes:
    """Return the payload of one commit."""
    return b"[" + b",".join(map(dump_entry, entries)) + b"]"


def entries_of(payload: bytes) -> list[LogEntry]:
    """Read the payload of one commit.

    Raises:
        CorruptStoreError: A valid frame holds something else than entries.
        NewerVersionError: A newer factmem wrote it.
    """
    try:
        documents = json.loads(payload)
        if not isinstance(documents, list) or not all(isinstance(document, dict) for document in documents):
            raise CodecError("not a list of entries")
        return [decode_entry(document) for document in documents]
    except NewerVersionError:
        raise
    except (CodecError, ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, CodecError) else "it is not valid JSON"
        raise CorruptStoreError(f"a frame of the store cannot be read, {reason}: restore it from a backup") from None


def assertion_id(entry: LogEntry) -> str:
    """Return the id of the assertion that an entry is about."""
    return entry.id if isinstance(entry, Recorded) else entry.assertion_id
