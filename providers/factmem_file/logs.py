"""Logs of a store: their names and the contents of their frames.

- ``facts``: one a place, each frame a JSON list of the entries (`factmem.codec`) of one commit;
- ``erased``: one a tenant, its tombstones, so that a place can be removed without a trace;
- ``arriving``: one a tenant while its log is taken from another store: the numbers up to which it is complete;
- ``accesses``: beside a ``facts`` whose records were counted: frames of added counts, by record;
- ``vectors``: beside each ``facts``; it can be recomputed, and is used only as far as it is valid.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from factmem.abc.log_storage import LogName, LogStorage, Position
from factmem.codec import decode_entry, dump_entry
from factmem.errors import CodecError, CorruptStoreError, NewerVersionError
from factmem.providers import TrackIndex
from factmem.records import LogEntry, Place, Recorded, Tombstone

__all__ = [
    "ARRIVAL_KIND",
    "HISTORY_KINDS",
    "LogCopies",
    "LogCopy",
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


@attrs.define
class LogCopy:
    """A copy of one log in memory.

    Attributes:
        position: Position up to which it was read.
        entries: Entries, in order.
        recorded: Assertions among them, by id.
        erased: Ids in its tombstones.
        index: Index for writers, from the first write on.
    """

    position: Position = attrs.field(factory=Position)
    entries: list[LogEntry] = attrs.field(factory=list)
    recorded: dict[str, Recorded] = attrs.field(factory=dict)
    erased: set[str] = attrs.field(factory=set)
    index: TrackIndex | None = None

    def take(self, entries: Sequence[LogEntry]) -> None:
        """Add new entries."""
        self.entries.extend(entries)
        for entry in entries:
            if self.index is not None:
                self.index.add(entry)
            if isinstance(entry, Recorded):
                self.recorded[entry.id] = entry
            elif isinstance(entry, Tombstone):
                self.erased.add(entry.assertion_id)

    def after(self, seq: int) -> Sequence[LogEntry]:
        """Return the entries with a higher number."""
        return self.entries[self._behind(seq) :]

    def following(self, seq: int) -> Iterator[LogEntry]:
        """Yield the entries with a higher number, without copying them."""
        return (self.entries[index] for index in range(self._behind(seq), len(self.entries)))

    def _behind(self, seq: int) -> int:
        return bisect.bisect_right(self.entries, seq, key=_seq)

    def holds(self, seq: int) -> bool:
        """Return whether an assertion has this number."""
        return any(isinstance(entry, Recorded) and entry.seq == seq for entry in self.after(seq - 1)[:1])

    def indexed(self) -> TrackIndex:
        """Return the index, made on first use."""
        if self.index is None:
            self.index = TrackIndex()
            for entry in self.entries:
                self.index.add(entry)
        return self.index


class LogCopies:
    """The copies of all logs read so far. Not thread-safe.

    Attributes:
        complete: Number up to which the copies of all logs of a tenant are complete.
    """

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage
        self._copies: dict[LogName, LogCopy] = {}
        self.complete: dict[str | None, int] = {}

    def caught_up(self, log: LogName) -> LogCopy:
        """Return the copy of a log, after reading new frames."""
        copy = self._copies.get(log, LogCopy())
        scan = self._storage.scan(log, copy.position)
        if scan.fresh:
            copy = LogCopy()
        try:
            for payload in scan.payloads:
                copy.take(entries_of(payload))
        except CorruptStoreError as error:
            self._copies.pop(log, None)
            self.complete.clear()
            raise CorruptStoreError(f"{error} (in the log {'/'.join((*log.folder, *log.name))})") from None
        copy.position = scan.position
        if scan.position.end:
            self._copies[log] = copy
        else:
            self._copies.pop(log, None)
        return copy

    def of_tenant(self, tenant: str | None) -> list[tuple[LogName, LogCopy]]:
        """Return the copies of all ``facts`` and ``erased`` logs of a tenant, caught up."""
        there = set(self._storage.logs((tenant or "",), kinds=HISTORY_KINDS))
        for log, _ in self.known(tenant):
            if log not in there:
                del self._copies[log]
        return [(log, self.caught_up(log)) for log in there]

    def known(self, tenant: str | None) -> list[tuple[LogName, LogCopy]]:
        """Return the copies of a tenant's logs as they are."""
        return [(log, copy) for log, copy in self._copies.items() if log.folder[0] == (tenant or "")]

    def erased(self, tenant: str | None) -> set[str]:
        """Return the ids of a tenant's erased assertions."""
        return self.caught_up(erased_log(tenant)).erased

    def distrust(self, log: LogName) -> None:
        """Drop the plan of a log that was not written."""
        if (copy := self._copies.get(log)) is not None:
            copy.index = None


def _seq(entry: LogEntry) -> int:
    return entry.seq
