"""The sequences of numbers, one of each tenant, over all logs and processes.

The note ``sequence`` holds two numbers of each tenant: the last *reserved* one (assigned, so never to be assigned
again, even if its writer has died) and the last *committed* one (all entries up to it are in the logs, so a reader of
later entries misses nothing); and its newest time of recording. It is written without a flush, because the logs hold
the same: each process scans the ends of a tenant's logs before it first trusts its numbers, so that a note that a power
cut set back never causes a duplicate number.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import TypeAlias

import attrs

from factmem.abc.log_storage import LogStorage
from factmem.codec import MAX_SEQ
from factmem.errors import CorruptStoreError, StoreUnavailableError
from factmem.facts import utc
from factmem.providers.write_plans import SteadyClock
from factmem.records import LogEntry, Tombstone
from factmem_file.logs import HISTORY_KINDS, entries_of

_NOTE = "sequence"

_Numbers: TypeAlias = tuple[int, int]
"""The committed and the reserved number of a tenant."""


@attrs.frozen(eq=False)
class Counter:
    """The sequences as one process sees them. `last`, `reserve` and `commit` need the storage's lock.

    Args:
        storage: Log storage of the note and of the logs.
        clock: Gives the times of recording; `last` brings it to the newest one.
    """

    _storage: LogStorage
    _clock: SteadyClock
    _seen: dict[str, _Numbers] = attrs.field(factory=dict, init=False)

    def last(self, tenant: str | None) -> int:
        """Return a tenant's last number assigned, from the note or, if it cannot be trusted, from the logs."""
        key = tenant or ""
        note, seen = self._read(), self._seen.get(key)
        found = note.get(key)
        if seen is None or found is None or found[1] < seen[1]:
            newest = max(self._in_logs(key), *(found or (0, 0)), *(seen or (0, 0)))
            found = (newest, newest)
        elif found[0] < found[1]:
            # A writer died. What it reserved is in the logs by now, or never will be.
            found = (found[1], found[1])
        if found[1] and found != note.get(key) and not self._storage.read_only:
            self._write(note | {key: found})
        self._seen[key] = found
        return found[1]

    def reserve(self, upto: Mapping[str | None, int]) -> None:
        """Reserve numbers of tenants, before they are written anywhere."""
        self._put({tenant or "": (self._seen[tenant or ""][0], last) for tenant, last in upto.items()})

    def commit(self, upto: Mapping[str | None, int]) -> None:
        """Mark reserved numbers as written, or as never to be written."""
        try:
            self._put({tenant or "": (last, last) for tenant, last in upto.items()})
        except StoreUnavailableError:
            # The facts are safe; the next reader finds the numbers in the logs.
            for tenant in upto:
                self._seen.pop(tenant or "", None)

    def committed(self, tenant: str | None) -> int | None:
        """Return the number up to which a tenant's logs are complete, without the lock; None if only `last` knows."""
        seen = self._seen.get(tenant or "")
        if seen is None:
            return None
        found = self._read().get(tenant or "", (0, 0))
        return found[0] if found[0] >= seen[0] else None

    def _in_logs(self, folder: str) -> int:
        ends = (self._storage.last(log) for log in self._storage.logs((folder,), kinds=HISTORY_KINDS))
        newest = [_newest(entries_of(payload)) for payload in ends if payload is not None]
        for entry in newest:
            if not isinstance(entry, Tombstone):
                self._clock.reached(entry.recorded_at, folder or None)
        return max((entry.seq for entry in newest), default=0)

    def _put(self, numbers: Mapping[str, _Numbers]) -> None:
        if numbers:
            self._write({**self._read(), **numbers})
            self._seen.update(numbers)

    def _read(self) -> dict[str, _Numbers]:
        """Return the numbers in the note: none of a damaged one, nor of one that an older version wrote.

        An earlier version noted one time of all tenants: those of each are in its logs.
        """
        payload = self._storage.read_note(_NOTE)
        try:
            document = json.loads(payload or b"{}")
            if isinstance(recorded := document.get("recorded"), dict):
                for tenant, when in recorded.items():
                    self._clock.reached(utc(dt.datetime.fromisoformat(when)), tenant or None)
            return {str(tenant): _checked(numbers) for tenant, numbers in document.get("tenants", {}).items()}
        except (ValueError, TypeError, AttributeError, RecursionError):
            return {}

    def _write(self, numbers: Mapping[str, _Numbers]) -> None:
        times = ((tenant, self._clock.newest(tenant or None)) for tenant in numbers)
        recorded = {tenant: time.isoformat() for tenant, time in times if time is not None}
        document = {"tenants": numbers, "recorded": recorded}
        payload = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        self._storage.write_note(_NOTE, payload, durable=False)


def _checked(numbers: object) -> _Numbers:
    match numbers:
        case [int() as committed, int() as reserved] if 0 <= committed <= reserved < MAX_SEQ:
            return committed, reserved
        case _:
            raise ValueError("no numbers of a tenant")


def _newest(entries: list[LogEntry]) -> LogEntry:
    if not entries:
        raise CorruptStoreError("a log of the store ends in an empty frame: restore it from a backup")
    return max(entries, key=lambda entry: entry.seq)
