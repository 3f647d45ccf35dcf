"""Queries of the log: the statements of each, and the reading of their rows."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from factmem.abc import Access, EmbedderIdentity, LogPart, Outlined
from factmem.codec import MAX_SEQ
from factmem.errors import CorruptStoreError
from factmem.providers.bindings import read_embedder
from factmem.providers.outline_bodies import read_outlines
from factmem.providers.rows import moment_at, place_digest
from factmem.records import LogEntry, Place, Recorded
from factmem_postgres.rows import (
    ASSERTION_COLUMNS,
    STATE_COLUMNS,
    WITH_HEAD,
    bytes_of,
    read_recorded,
    read_state,
    read_tombstone,
)
from factmem_postgres.server import Row, Server, Step

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Reader"]

_COUNTER: Final = "SELECT seq, sum FROM {schema}.counters WHERE tenant = %s"
_EMBEDDER: Final = "SELECT value FROM {schema}.meta WHERE key = 'embedder'"
_OUTLINES: Final = "SELECT value::bigint FROM {schema}.meta WHERE key = 'outlines'"
_BINDING: Final = "(SELECT value::bigint FROM {schema}.meta WHERE key = 'binding')"

_OF_PLACE: Final = (
    "FROM {schema}.tracks t JOIN {schema}.assertions a ON a.tenant = t.tenant AND a.track = t.id {more}"
    " WHERE t.tenant = %s AND t.place = %s AND (%s::bytea IS NULL OR t.keyword = %s)"
)
_SAID_AT_PLACE: Final = f"SELECT {ASSERTION_COLUMNS} {_OF_PLACE.replace('{more}', WITH_HEAD)}"
_CHANGED_AT_PLACE: Final = f"SELECT {STATE_COLUMNS} " + _OF_PLACE.replace(
    "{more}", "JOIN {schema}.state_changes s ON s.tenant = a.tenant AND s.assertion = a.seq"
)

_SAID: Final = (
    f"SELECT {ASSERTION_COLUMNS} FROM {{schema}}.assertions a {WITH_HEAD} WHERE a.tenant = %s AND a.seq > %s"
    " ORDER BY a.seq"
)
_NUMBERED: Final = (
    f"SELECT {ASSERTION_COLUMNS} FROM {{schema}}.assertions a {WITH_HEAD}"
    " WHERE a.tenant = %s AND a.seq = ANY (%b::bigint[])"
)
_CHANGED: Final = (
    f"SELECT {STATE_COLUMNS} FROM {{schema}}.state_changes s"
    " LEFT JOIN {schema}.assertions a ON a.tenant = s.tenant AND a.seq = s.assertion WHERE s.tenant = %s AND s.seq > %s"
)
_ERASED: Final = (
    "SELECT d.seq, d.assertion_id, d.checksum FROM {schema}.tombstones d WHERE d.tenant = %s AND d.seq > %s"
)

# The number up to which to read, to get at most so many assertions.
_UNTIL: Final = (
    "coalesce((SELECT seq FROM {schema}.assertions WHERE tenant = %s AND seq > %s ORDER BY seq LIMIT 1 OFFSET %s), %s)"
)
_OUTLINED: Final = (
    "SELECT a.seq, o.shared, o.body FROM {schema}.assertions a"
    " LEFT JOIN {schema}.outlines o ON o.tenant = a.tenant AND o.seq = a.seq AND o.version = %s"
    " WHERE a.tenant = %s AND a.seq > %s ORDER BY a.seq LIMIT %s"
)
_SHARED: Final = (
    "SELECT s.digest, s.body FROM {schema}.shared_outlines s WHERE s.tenant = %s AND s.digest IN"
    " (SELECT o.shared FROM {schema}.outlines o WHERE o.tenant = %s AND o.seq > %s AND o.version = %s"
    f" AND o.seq <= {_UNTIL})"
)
# An outline repeats the checksum of its assertion, which then need not be read.
_SUMS: Final = (
    "SELECT coalesce((SELECT sum(checksum) FROM {schema}.outlines WHERE tenant = %s AND version = %s), 0)"
    " + coalesce((SELECT sum(a.checksum) FROM {schema}.assertions a WHERE a.tenant = %s AND NOT EXISTS"
    " (SELECT FROM {schema}.outlines o WHERE o.tenant = a.tenant AND o.seq = a.seq AND o.version = %s)), 0)"
    " + coalesce((SELECT sum(checksum) FROM {schema}.state_changes WHERE tenant = %s), 0)"
    " + coalesce((SELECT sum(checksum) FROM {schema}.tombstones WHERE tenant = %s), 0)"
)
_LEFT: Final = (
    "SELECT o.seq FROM {schema}.outlines o WHERE o.tenant = %s AND o.seq = ANY (%b::bigint[]) AND NOT EXISTS"
    " (SELECT FROM {schema}.assertions a WHERE a.tenant = o.tenant AND a.seq = o.seq)"
)

_VECTORS: Final = (
    "SELECT v.seq, v.embedding, v.checksum FROM {schema}.vectors v"
    f" WHERE v.tenant = %s AND v.seq > %s AND v.binding = {_BINDING} ORDER BY v.seq"
)
_ACCESSES: Final = (
    "SELECT record_id, count, last FROM {schema}.accesses WHERE tenant = %s AND record_id = ANY (%b::bytea[])"
)


class Reader:
    """Reads a store, each method in one round trip.

    Args:
        server: The database.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    def version(self, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant."""
        (counter,) = self._server.read(tenant, (_COUNTER, [bytes_of(tenant)])) or [[]]
        return _newest(counter)

    def entries(self, place: Place, keyword: str | None) -> list[LogEntry]:
        """Return the log of a place, of one concept or of all."""
        tenant = place.scope.tenant
        named = None if keyword is None else bytes_of(keyword)
        wanted = [bytes_of(tenant), place_digest(place), named, named]
        found = self._server.read(tenant, (_SAID_AT_PLACE, wanted), (_CHANGED_AT_PLACE, wanted))
        return _log(bytes_of(tenant), *found) if found else []

    def changes(self, tenant: str | None, since: int) -> list[LogEntry]:
        """Return the log of a tenant after a sequence number.

        Raises:
            CorruptStoreError: Rows are damaged, or missing from a whole log.
        """
        name, since = bytes_of(tenant), _bounded(since)
        steps = [(sql, [name, since]) for sql in (_SAID, _CHANGED, _ERASED)]
        found = self._server.read(tenant, (_COUNTER, [name]), *steps)
        if not found:
            return []
        counter, said, changed, erased = found
        if since == 0:
            total = sum(row[4] for row in said) + sum(row[7] for row in changed) + sum(row[2] for row in erased)
            _check_sum(total, counter)
        return _log(name, said, changed, erased)

    def outlined(self, tenant: str | None, since: int, limit: int, version: int | None) -> Outlined:
        """Return a tenant's log after a sequence number, with outlines in place of assertions.

        Args:
            tenant: The tenant.
            since: The sequence number to start after.
            limit: Maximum number of assertions.
            version: The version of outlines in use.

        Raises:
            CorruptStoreError: Rows are damaged, or missing from the beginning of a log.
        """
        name, since, limit = bytes_of(tenant), _bounded(since), min(limit, MAX_SEQ)
        wanted = -1 if version is None else version
        until = [name, since, limit - 1, MAX_SEQ]
        steps: list[Step] = [
            (_COUNTER, [name]),
            (_OUTLINED, [wanted, name, since, limit]),
            (_SHARED, [name, name, since, wanted, *until]),
            (f"{_CHANGED} AND s.seq <= {_UNTIL}", [name, since, *until]),
            (f"{_ERASED} AND d.seq <= {_UNTIL}", [name, since, *until]),
        ]
        if since == 0:
            steps.append((_SUMS, [name, wanted, name, wanted, name, name]))
        counter, rows, parts, changed, erased, *sums = self._server.read(tenant, *steps) or [[]] * 5
        if sums:
            _check_sum(sums[0][0][0], counter)
        there = [row for row in rows if row[2] is not None]
        shared: dict[bytes, bytes] = dict(parts)
        return read_outlines(
            [seq for seq, _, _ in there],
            [shared[digest] for _, digest, _ in there],
            [body for _, _, body in there],
            missing=[seq for seq, _, body in rows if body is None],
            rest=_log(name, [], changed, erased),
            until=rows[-1][0] if len(rows) == limit else _newest(counter),
        )

    def log_part(self, tenant: str | None, since: int, limit: int) -> LogPart:
        """Return a part of the log of a tenant, with the vectors of its assertions; see `CopiesLogs.log_part`."""
        import numpy as np

        name, since = bytes_of(tenant), _bounded(since)
        wanted = [name, since, limit + 1]
        steps: list[Step] = [
            (_COUNTER, [name]),
            (f"{_SAID} LIMIT %s", wanted),
            (f"{_CHANGED} ORDER BY s.seq LIMIT %s", wanted),
            (f"{_ERASED} ORDER BY d.seq LIMIT %s", wanted),
            (f"{_VECTORS} LIMIT %s", wanted),
        ]
        if since == 0:
            steps.append((_SUMS, [name, -1, name, -1, name, name]))
        counter, said, changed, erased, rows, *sums = self._server.read(tenant, *steps) or [[]] * 5
        if sums:
            _check_sum(sums[0][0][0], counter)
        log = _log(name, said, changed, erased)
        until = log[limit - 1].seq if len(log) > limit else max(since, _newest(counter))
        entries = log[:limit]
        here = {entry.seq for entry in entries if isinstance(entry, Recorded)}
        vectors = {seq: np.frombuffer(row, np.float32) for seq, row, _ in rows if seq in here}
        return LogPart(since=since, until=until, entries=entries, vectors=vectors)

    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[list[Recorded | None], int]:
        """Return assertions of a tenant by sequence number, None for each that does not exist, and its newest number.

        Raises:
            CorruptStoreError: An assertion is damaged, or lost while its outline is there.
        """
        name, wanted = bytes_of(tenant), [seq for seq in set(seqs) if 0 < seq <= MAX_SEQ]
        rows, counter = self._server.read(tenant, (_NUMBERED, [name, wanted]), (_COUNTER, [name])) or [[], []]
        found = {item.seq: item for item in map(read_recorded, rows)}
        if missing := [seq for seq in wanted if seq not in found]:
            left = self._server.read(tenant, (_LEFT, [name, missing])) or [[]]
            if left[0]:
                raise CorruptStoreError(
                    f"the assertion number {left[0][0][0]} is lost: restore the store from a backup"
                )
        return [found.get(seq) for seq in seqs], _newest(counter)

    def embedder(self) -> EmbedderIdentity | None:
        """Return the embedder that the store is bound to."""
        found = self._server.read(None, (_EMBEDDER, ()))
        return read_embedder(found[0][0][0]) if found and found[0] else None

    def outlines_version(self) -> int | None:
        """Return the version of the outlines in the store, or None if it holds none."""
        found = self._server.read(None, (_OUTLINES, ()))
        return int(found[0][0][0]) if found and found[0] else None

    def vectors(self, tenant: str | None, since: int) -> tuple[list[int], NDArray[np.float32]]:
        """Return the sequence numbers and vectors of a tenant's assertions after a sequence number.

        Raises:
            CorruptStoreError: A vector was changed. The facts are not affected.
        """
        import numpy as np

        found = self._server.read(tenant, (_EMBEDDER, ()), (_VECTORS, [bytes_of(tenant), _bounded(since)]))
        identity = read_embedder(found[0][0][0]) if found and found[0] else None
        if not found or identity is None:
            return [], np.empty((0, 0), dtype=np.float32)
        width = 4 * identity.dimension
        if any(len(row) != width or zlib.crc32(row, seq & 0xFFFFFFFF) != expected for seq, row, expected in found[1]):
            raise CorruptStoreError(
                f"the embeddings in {self._server.name} are damaged, its facts are not: make them again with "
                "Admin.reembed() or `factmem reembed`, or restore it from a backup"
            )
        rows = bytearray().join(row for _, row, _ in found[1])
        return [seq for seq, _, _ in found[1]], np.frombuffer(rows, np.float32).reshape(-1, identity.dimension)

    def accesses(self, tenant: str | None, record_ids: Collection[str]) -> dict[str, Access]:
        """Return the counts of some records of a tenant."""
        ids = {bytes_of(id): id for id in record_ids}
        found = self._server.read(tenant, (_ACCESSES, [bytes_of(tenant), list(ids)])) or [[]]
        return {ids[id]: Access(count=count, last=moment_at(last)) for id, count, last in found[0]}


def _bounded(since: int) -> int:
    return min(max(since, 0), MAX_SEQ)


def _log(tenant: bytes, said: Sequence[Row], changed: Sequence[Row], erased: Sequence[Row] = ()) -> list[LogEntry]:
    log: list[LogEntry] = [
        *map(read_recorded, said),
        *(read_state(tenant, row) for row in changed),
        *(read_tombstone(tenant, row) for row in erased),
    ]
    return sorted(log, key=lambda entry: entry.seq)


def _newest(counter: Sequence[Row]) -> int:
    return int(counter[0][0]) if counter else 0


def _check_sum(total: Any, counter: Sequence[Row]) -> None:
    """Check that the rows of a tenant are complete.

    Raises:
        CorruptStoreError: A row was lost or changed.
    """
    if int(total) != (counter[0][1] if counter else 0):
        raise CorruptStoreError("rows of the store were lost or changed: restore it from a backup")
