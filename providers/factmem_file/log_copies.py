"""Copies of logs in memory, updated incrementally."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

import attrs

from factmem.abc import LogName, LogStorage, Position
from factmem.errors import CorruptStoreError
from factmem.providers import TrackIndex
from factmem.records import LogEntry, Recorded, Tombstone
from factmem_file.logs import HISTORY_KINDS, entries_of, erased_log

__all__ = ["LogCopies", "LogCopy"]


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
