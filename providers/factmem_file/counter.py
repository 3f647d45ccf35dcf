"""The store's one sequence of numbers, over all logs and processes.

The note ``sequence`` holds the last *reserved* number (assigned, so never to be assigned again, even if its writer has
died), the last *committed* one (all entries up to it are in the logs, so a reader of later entries misses nothing), and
the newest time of recording. It is written without a flush, because the logs hold the same: each process scans the ends
of all logs before it first trusts the note, so that a note that a power cut set back never causes a duplicate number.
"""

from __future__ import annotations

import datetime as dt
import json

from factmem.abc import Storage
from factmem.codec import MAX_SEQ
from factmem.errors import CorruptStoreError, StoreUnavailableError
from factmem.facts import utc
from factmem.providers import SteadyClock
from factmem.records import LogEntry, Tombstone
from factmem_file.logs import HISTORY_KINDS, entries_of

__all__ = ["Counter"]

_NOTE = "sequence"


class Counter:
    """The counter as one process sees it. `last`, `reserve` and `commit` need the storage's lock.

    Args:
        storage: Storage of the note and of the logs.
        clock: Gives the times of recording; `last` brings it to the newest one.
    """

    def __init__(self, storage: Storage, clock: SteadyClock) -> None:
        self._storage = storage
        self._clock = clock
        self._trusted = False
        self._committed = 0
        self._reserved = 0

    def last(self) -> int:
        """Return the last number assigned, from the note or, if it cannot be trusted, from the logs."""
        note = self._read()
        if note is None or not self._trusted or note[1] < self._reserved:
            newest = max(self._in_logs(), self._reserved, *(note or (0, 0)))
            self._write(newest, newest)
            self._trusted = True
        else:
            self._committed, self._reserved = note
        return self._reserved

    def reserve(self, upto: int) -> None:
        """Reserve numbers, before they are written anywhere."""
        self._write(self._committed, upto)

    def commit(self) -> None:
        """Mark reserved numbers as written, or as never to be written."""
        try:
            self._write(self._reserved, self._reserved)
        except StoreUnavailableError:
            # The facts are safe; the next reader finds the number in the logs.
            self._trusted = False

    def committed(self) -> int | None:
        """Return the number up to which the logs are complete, without the lock; None if only `last` knows."""
        note = self._read() if self._trusted else None
        return note[0] if note is not None and note[0] >= self._committed else None

    def _in_logs(self) -> int:
        ends = (self._storage.last(log) for log in self._storage.logs(kinds=HISTORY_KINDS))
        newest = [_newest(entries_of(payload)) for payload in ends if payload is not None]
        for entry in newest:
            if not isinstance(entry, Tombstone):
                self._clock.reached(entry.recorded_at)
        return max((entry.seq for entry in newest), default=0)

    def _read(self) -> tuple[int, int] | None:
        payload = self._storage.read_note(_NOTE)
        if payload is None:
            return None
        try:
            match json.loads(payload):
                case {"committed": int() as committed, "reserved": int() as reserved, "recorded": str() | None as when}:
                    if when is not None:
                        self._clock.reached(utc(dt.datetime.fromisoformat(when)))
                    return (committed, reserved) if 0 <= committed <= reserved < MAX_SEQ else None
        except (ValueError, RecursionError):
            pass
        return None

    def _write(self, committed: int, reserved: int) -> None:
        recorded = self._clock.newest
        document = {"committed": committed, "reserved": reserved, "recorded": recorded and recorded.isoformat()}
        payload = json.dumps(document).encode()
        self._storage.write_note(_NOTE, payload, durable=False)
        self._committed, self._reserved = committed, reserved


def _newest(entries: list[LogEntry]) -> LogEntry:
    if not entries:
        raise CorruptStoreError("a log of the store ends in an empty frame: restore it from a backup")
    return max(entries, key=lambda entry: entry.seq)
