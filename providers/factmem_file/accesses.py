"""Counts of recalled records, beside the logs of their places: frames that add up.

A frame is a JSON object from record ids to the number of recalls and the time of the last one (in microseconds). Many
frames are compacted into one. The log is beside the facts, and so shares their key in an encrypted store, and their
erasure.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from factmem.abc import Access, LogName, LogStorage
from factmem.errors import CorruptStoreError
from factmem_file.logs import access_log

__all__ = ["Accesses"]

_MOST_FRAMES: Final = 32
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)


class Accesses:
    """The counts of each place. Methods that write need the storage's lock.

    Args:
        storage: Log storage of the logs.
    """

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage

    def add(self, facts: LogName, accesses: Mapping[str, Access]) -> bool:
        """Add to the counts of records of a place; return whether to `compact` once the storage is sealed."""
        log = access_log(facts)
        scan = self._storage.scan(log)
        self._storage.append(log, _written(accesses), scan.position)
        return len(scan.payloads) + 1 >= _MOST_FRAMES

    def compact(self, facts: LogName) -> None:
        """Rewrite the counts of a place as one frame; added counts must be sealed."""
        self._storage.replace(access_log(facts), [_written(self.of(facts))])

    def of(self, facts: LogName) -> Mapping[str, Access]:
        """Return the counts of records of a place.

        Raises:
            CorruptStoreError: The log is damaged; the facts are not affected.
        """
        return _summed(map(_read, self._storage.scan(access_log(facts)).payloads))

    def keep(self, facts: LogName, record_ids: Collection[str]) -> None:
        """Remove the counts of all records but these from the disk; of a damaged log, all counts."""
        log = access_log(facts)
        try:
            known = self.of(facts)
        except CorruptStoreError:
            known = {}
        kept = {id: access for id, access in known.items() if id in record_ids}
        if known.keys() != kept.keys() or not kept:
            self._storage.replace(log, [_written(kept)] if kept else [])


def _summed(frames: Iterable[Mapping[str, Access]]) -> dict[str, Access]:
    known: dict[str, Access] = {}
    for frame in frames:
        for id, access in frame.items():
            known[id] = known.get(id, Access()) + access
    return known


def _written(accesses: Mapping[str, Access]) -> bytes:
    document = {
        id: [access.count, None if access.last is None else (access.last - _EPOCH) // _MICROSECOND]
        for id, access in accesses.items()
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _read(payload: bytes) -> dict[str, Access]:
    try:
        return {id: _access(*pair) for id, pair in json.loads(payload).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise CorruptStoreError("a frame of access counts is damaged: delete its file to go on without them") from None


def _access(count: int, last: int | None) -> Access:
    return Access(count=count, last=None if last is None else _EPOCH + last * _MICROSECOND)
