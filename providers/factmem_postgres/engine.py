"""Blocking half of the provider: every operation as one transaction of the database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from factmem.abc import Access, Clock, EmbedderIdentity, EraseReceipt, LogPart, Outline, Outlined
from factmem.errors import CapabilityError, FactMemError
from factmem.findings import Finding
from factmem.providers import Request, SteadyClock
from factmem.providers.bindings import binds_anew, written_embedder
from factmem.providers.outline_bodies import OutlineRow
from factmem.providers.rows import microseconds, moment_at
from factmem.providers.threaded import prepared_requests
from factmem.records import LogEntry, Place, Recorded
from factmem.vectors import unit_vector
from factmem_postgres.checking import check_store
from factmem_postgres.copying import Copier
from factmem_postgres.erasing import Eraser
from factmem_postgres.faults import foreign_rows
from factmem_postgres.reading import Reader
from factmem_postgres.rows import OF_RECORD, assertion_id, bytes_of, record_key, record_of
from factmem_postgres.schema import MIGRATIONS
from factmem_postgres.server import Ending, Server, Session
from factmem_postgres.writing import (
    META,
    Batch,
    Meta,
    Prepared,
    locked_counter,
    outlines_steps,
    vectors_step,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PostgresEngine"]

T = TypeVar("T")

_SET: Final = "INSERT INTO {schema}.meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_FOR_OUTLINES: Final = (
    "SELECT seq, id, record_id, recorded_at, checksum FROM {schema}.assertions"
    " WHERE tenant = %s AND seq = ANY (%b::bigint[])"
)
_COUNT_ACCESSES: Final = (
    "INSERT INTO {schema}.accesses(tenant, record_id, count, last) SELECT %s, w.name, w.count, w.last"
    " FROM unnest(%b::bytea[], %b::bytea[], %b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[])"
    " AS w(name, record, seq, own, count, last)"
    f" WHERE EXISTS (SELECT FROM {{schema}}.assertions a WHERE a.tenant = %s AND {OF_RECORD})"
    " ON CONFLICT (tenant, record_id) DO UPDATE SET count = accesses.count + excluded.count,"
    " last = greatest(accesses.last, excluded.last)"
)


class PostgresEngine:
    """Reads and writes a database; see `factmem.providers.Engine` and `KeepsOutlines`.

    Args:
        server: The database.
        clock: Returns the time of recording.
    """

    def __init__(self, server: Server, clock: Clock) -> None:
        self._server = server
        self._clock = SteadyClock(clock)
        self._reader = Reader(server)
        self._eraser = Eraser(server)
        self._copier = Copier(server, self._clock)
        self._bound: EmbedderIdentity | None = None
        self._outlines: int | None = None

    def commit(self, requests: Sequence[Request]) -> None:
        """Write requests in one transaction, each whole or not at all."""
        ready = prepared_requests(requests)

        def append_each(session: Session) -> Ending[None]:
            batch = self._batch(session, [rows for _, rows in ready])
            for request, rows in ready:
                request.error = None
                try:
                    request.receipts = batch.append(rows)
                except FactMemError as error:
                    request.error = error
            return batch.ending()

        if ready:
            self._write(append_each)
        for request, _ in ready:
            request.settle()

    def entries(self, place: Place, keyword: str | None) -> Sequence[LogEntry]:
        """Return the log of a place, of one concept or of all."""
        return self._read(lambda: self._reader.entries(place, keyword))

    def version(self, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant."""
        return self._reader.version(tenant)

    def changes(self, tenant: str | None, since: int) -> Sequence[LogEntry]:
        """Return the log of a tenant after a sequence number."""
        return self._read(lambda: self._reader.changes(tenant, since))

    def embedder(self) -> EmbedderIdentity | None:
        """Return the embedder that the store is bound to."""
        return self._read(self._reader.embedder)

    def use_embedder(self, identity: EmbedderIdentity, *, replace: bool) -> None:
        """Bind the store to an embedder; write only if the binding changes."""
        if identity.dimension < 1:
            raise CapabilityError(f"a vector has 1 dimension at least, not {identity.dimension}: use another embedder")
        if binds_anew(self.embedder(), identity, replace=replace):
            self._server.write(lambda session: _bind(session, identity, replace=replace), exclusive=True)
        self._bound = identity

    def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Store vectors of a tenant's assertions."""
        units = {seq: unit_vector(vector) for seq, vector in vectors.items()}

        def put(session: Session) -> Ending[None]:
            meta, *_ = session.ask((META, ()), *locked_counter(tenant))
            settings = Meta.of(meta)
            stored = {seq: settings.storable(vector, self._bound) for seq, vector in units.items()}
            return Ending(None, [vectors_step(tenant, settings.binding, stored)] if stored else [])

        self._write(put)

    def vectors(self, tenant: str | None, since: int) -> tuple[Sequence[int], NDArray[np.float32]]:
        """Return the vectors of a tenant."""
        return self._read(lambda: self._reader.vectors(tenant, since))

    def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """Add to the counts of records."""
        rows = [
            (bytes_of(id), *record_key(id), access.count, microseconds(access.last))
            for id, access in accesses.items()
            if access.last is not None
        ]
        name = bytes_of(tenant)

        def count(session: Session) -> Ending[None]:
            session.ask(*locked_counter(tenant))
            return Ending(None, [(_COUNT_ACCESSES, [name, *map(list, zip(*rows, strict=True)), name])])

        if rows:
            self._write(count)

    def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """Return the counts of records."""
        return self._read(lambda: self._reader.accesses(tenant, record_ids))

    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> EraseReceipt:
        """Erase assertions, then every copy of their bytes that can be reached."""
        return self._read(lambda: self._eraser.erase(record_ids, assertion_ids, tenant))

    def tenants(self) -> Sequence[str | None]:
        """Return the tenants with a log, or with a copy that has begun."""
        return self._read(self._copier.tenants)

    def log_part(self, tenant: str | None, since: int, limit: int) -> LogPart:
        """Return a part of the log of a tenant."""
        return self._read(lambda: self._reader.log_part(tenant, since, limit))

    def begin_copy(self, tenants: Sequence[str | None]) -> None:
        """Mark tenants as unfinished copies."""
        self._copier.mark(tenants, copying=True)

    def copied(self, tenant: str | None) -> int | None:
        """Return the number up to which an unfinished copy is complete."""
        return self._read(lambda: self._copier.copied(tenant))

    def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        """Append a part to an unfinished copy."""
        self._read(lambda: self._copier.put(tenant, part, self._bound))

    def end_copy(self, tenants: Sequence[str | None]) -> None:
        """Mark copies as finished."""
        self._copier.mark(tenants, copying=False)

    def format_versions(self) -> tuple[int, int]:
        """Return the version of the tables, and the newest one."""
        return self._server.format_version(), len(MIGRATIONS)

    def upgrade(self, progress: Callable[[int, int], None], *, create: bool) -> None:
        """Bring the tables to the newest format, in one transaction."""
        progress(0, 1)
        self._server.upgrade(create=create)
        progress(1, 1)

    def check(self, progress: Callable[[int, int], None]) -> Sequence[Finding]:
        """Check the rows of every tenant."""
        return self._read(lambda: check_store(self._server, progress))

    def close(self) -> None:
        """Close every connection."""
        self._server.close()

    def use_outlines(self, version: int) -> None:
        """Set the version of the outlines in use."""
        self._outlines = version
        stored = self._reader.outlines_version()
        if stored is not None and stored != version:
            # Those of the other version are written over one by one, as readers make new ones.
            self._server.write(lambda _: Ending(None, [(_SET, ["outlines", str(version)])]))

    def put_outlines(self, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        """Store outlines of a tenant's assertions."""

        def put(session: Session) -> Ending[None]:
            wanted = (_FOR_OUTLINES, [bytes_of(tenant), list(outlines)])
            meta, *_, rows = session.ask((META, ()), *locked_counter(tenant), wanted)
            version = Meta.of(meta).outlines
            kept = [
                OutlineRow(
                    seq=seq,
                    id=assertion_id(id, seq),
                    record_id=record_of(record_id, assertion_id(id, seq)),
                    recorded_at=moment_at(at),
                    checksum=checksum,
                    tenant=tenant or "",
                    outline=outlines[seq],
                )
                for seq, id, record_id, at, checksum in rows
                if outlines[seq].version == (self._outlines if version is None else version)
            ]
            return Ending(None, outlines_steps(tenant, kept) if kept else [])

        if outlines:
            self._write(put)

    def outlined(self, tenant: str | None, since: int, limit: int) -> Outlined:
        """Return a tenant's log after a sequence number, with outlines in place of assertions."""
        return self._read(lambda: self._reader.outlined(tenant, since, limit, self._outlines))

    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[Sequence[Recorded | None], int]:
        """Return assertions of a tenant by sequence number, and its newest one."""
        return self._read(lambda: self._reader.recorded(tenant, seqs))

    def _batch(self, session: Session, requests: Sequence[Prepared]) -> Batch:
        return Batch(session, requests, self._clock, bound=self._bound, outlines=self._outlines)

    def _read(self, query: Callable[[], T]) -> T:
        with foreign_rows(self._server.name):
            return query()

    def _write(self, work: Callable[[Session], Ending[None]]) -> None:
        with foreign_rows(self._server.name):
            self._server.write(work)


def _bind(session: Session, identity: EmbedderIdentity, *, replace: bool) -> Ending[None]:
    """Bind the store to an embedder. The vectors of earlier bindings stay until they are written over."""
    meta = Meta.of(session.ask((META, ()))[0])
    if not binds_anew(meta.embedder, identity, replace=replace):
        return Ending(None)
    return Ending(None, [(_SET, ["embedder", written_embedder(identity)]), (_SET, ["binding", str(meta.binding + 1)])])
