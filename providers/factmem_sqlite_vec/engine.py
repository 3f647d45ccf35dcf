"""Blocking half of the provider: every operation as one transaction of the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from factmem.abc import Access, Clock, EmbedderIdentity, EraseReceipt, LogPart, Outline, Outlined
from factmem.errors import CorruptStoreError, FactMemError, NewerVersionError
from factmem.findings import Finding, FindingKind, finding_of
from factmem.private_files import is_exposed
from factmem.providers import Request, SteadyClock
from factmem.providers.bindings import binds_anew
from factmem.providers.threaded import prepared_requests
from factmem.records import LogEntry, Place, Recorded
from factmem_sqlite_vec import accesses as counting
from factmem_sqlite_vec import copying, reading
from factmem_sqlite_vec import outlines as outlining
from factmem_sqlite_vec import vectors as embeddings
from factmem_sqlite_vec.checking import check_database, check_file
from factmem_sqlite_vec.erasing import delete_assertions, scrub, scrub_is_due
from factmem_sqlite_vec.rows import format_version
from factmem_sqlite_vec.schema import MIGRATIONS
from factmem_sqlite_vec.sequences import newest_seq
from factmem_sqlite_vec.store import Store
from factmem_sqlite_vec.writing import Batch, Known, write_batch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SqliteEngine"]


class SqliteEngine:
    """Reads and writes a store; see `factmem.providers.Engine`, `KeepsOutlines` and `ScansVectors`.

    Args:
        store: Open file.
        clock: Returns the time of recording.

    Attributes:
        store: Open file.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self._clock = SteadyClock(clock)
        self._bound: EmbedderIdentity | None = None
        self._outlines: int | None = None
        self._known: Known | None = None

    def commit(self, requests: Sequence[Request]) -> None:
        """Write requests in one transaction, each whole or not at all."""
        ready = prepared_requests(requests)

        def append_each(batch: Batch) -> None:
            for request, rows in ready:
                try:
                    request.receipts = batch.append(rows)
                except FactMemError as error:
                    request.error = error

        if ready:
            self.store.write(partial(self._append, append_each))
        for request, _ in ready:
            request.settle()

    def entries(self, place: Place, keyword: str | None) -> Sequence[LogEntry]:
        """Return the log of a place, of one concept or of all."""
        return self.store.read(partial(reading.entries, place=place, keyword=keyword))

    def version(self, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant."""
        return self.store.read(partial(newest_seq, tenant=tenant))

    def changes(self, tenant: str | None, since: int) -> Sequence[LogEntry]:
        """Return the log of a tenant after a sequence number."""
        return self.store.read(partial(reading.changes, tenant=tenant, since=since))

    def embedder(self) -> EmbedderIdentity | None:
        """Return the embedder that the store is bound to."""
        return self.store.read(reading.bound_embedder)

    def use_embedder(self, identity: EmbedderIdentity, *, replace: bool) -> None:
        """Bind the store to an embedder; write only if the binding changes."""
        embeddings.check_dimension(identity)
        if binds_anew(self.embedder(), identity, replace=replace):
            self._write_with(partial(embeddings.bind, identity=identity, replace=replace))
        self._bound = identity

    def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Store vectors of a tenant's assertions."""
        self._write_with(partial(embeddings.put_vectors, tenant=tenant, vectors=vectors))

    def vectors(self, tenant: str | None, since: int) -> tuple[Sequence[int], NDArray[np.float32]]:
        """Return the vectors of a tenant.

        Raises:
            CorruptStoreError: A vector was changed. The facts are not affected.
        """
        seqs, rows, whole = self.store.read(partial(embeddings.vectors, tenant=tenant, since=since))
        # Raised outside of the store's own checks, which would refuse further writes: vectors can be recomputed.
        if not whole:
            raise CorruptStoreError(
                f"the embeddings in {self.store.name} are damaged, its facts are not: make them again with "
                "Admin.reembed() or `factmem reembed`, or restore it from a backup"
            )
        return seqs, rows

    def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """Add to the counts of records."""
        self._write_with(lambda connection, _: counting.add_accesses(connection, tenant, accesses))

    def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """Return the counts of records."""
        return self.store.read(partial(counting.accesses, tenant=tenant, record_ids=record_ids))

    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> EraseReceipt:
        """Erase assertions, then every copy of their bytes."""

        def erase(connection: apsw.Connection) -> EraseReceipt:
            erased: list[int] = []

            def delete(batch: Batch) -> None:
                erased[:] = [delete_assertions(connection, batch, record_ids, assertion_ids, tenant)]

            try:
                self._batch(connection, delete)
            except apsw.FullError:
                # Once its pages are in the file, the log is written over from its beginning, and need not grow.
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
                self._batch(connection, delete)
            pending = scrub_is_due(connection) and not scrub(connection)
            return EraseReceipt(erased=erased[0], pending=pending)

        return self.store.write(erase)

    def tenants(self) -> Sequence[str | None]:
        """Return the tenants with a log, or with a copy that has begun."""
        return self.store.read(copying.tenants)

    def log_part(self, tenant: str | None, since: int, limit: int) -> LogPart:
        """Return a part of the log of a tenant."""
        return self.store.read(partial(copying.log_part, tenant=tenant, since=since, limit=limit))

    def begin_copy(self, tenants: Sequence[str | None]) -> None:
        """Mark tenants as unfinished copies."""
        self._write_with(partial(copying.begin_copy, names=tenants))

    def copied(self, tenant: str | None) -> int | None:
        """Return the number up to which an unfinished copy is complete."""
        return self.store.read(partial(copying.copied, tenant=tenant)) if self.store.is_there() else None

    def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        """Append a part to an unfinished copy."""
        rows = copying.prepared_part(part)
        self._write_with(partial(copying.put_log_part, tenant=tenant, part=part, rows=rows))

    def end_copy(self, tenants: Sequence[str | None]) -> None:
        """Mark copies as finished."""
        self._write_with(lambda connection, _: copying.end_copy(connection, tenants))

    def files(self) -> Sequence[Path]:
        """Return the existing files of the store."""
        return self.store.files()

    def format_versions(self) -> tuple[int, int]:
        """Return the version of the file's format, and the newest one."""
        found = self.store.read(format_version, as_it_is=True) if self.store.is_there() else 0
        return found, len(MIGRATIONS)

    def upgrade(self, progress: Callable[[int, int], None], *, create: bool) -> None:
        """Bring the file to the newest format, and compact it."""
        if create or self.store.is_there():
            progress(0, 2)
            self.store.write(lambda connection: None)  # opening it for writing does it
            progress(1, 2)
            self.store.write(lambda connection: scrub(connection))
        progress(2, 2)

    def check(self, progress: Callable[[int, int], None]) -> Sequence[Finding]:
        """Check the database and the modes of its files."""
        name = self.store.name
        found: list[Finding] = []
        try:
            if not self.store.is_there():
                advice = "check the path: a store is made by the first write"
                return [Finding(kind=FindingKind.MISSING, part=name, problem="no store", advice=advice)]
            found += self.store.read(partial(check_file, name=name), as_it_is=True)
            found += self.store.read(partial(check_database, name=name, progress=progress))
        except (CorruptStoreError, NewerVersionError) as error:
            found.append(finding_of(error, name))
        return [*found, *map(_exposed, filter(is_exposed, self.store.files()))]

    def close(self) -> None:
        """Finish pending erasures, unless another process is in the way, and close the file."""
        self.store.close(_tidy)

    def use_outlines(self, version: int) -> None:
        """Set the version of the outlines in use."""
        self._outlines = version
        if self.store.read_only or not self.store.is_there():
            return  # the first write creates them
        if self.store.read(outlining.outlines_version) != version:
            self._write_with(lambda connection, _: outlining.use_outlines(connection, version))

    def put_outlines(self, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        """Store outlines; do nothing if the store is read-only."""
        if not self.store.read_only:
            self._write_with(lambda connection, _: outlining.put_outlines(connection, tenant, outlines))

    def outlined(self, tenant: str | None, since: int, limit: int) -> Outlined:
        """Return a tenant's log after a sequence number, with outlines in place of assertions."""
        query = partial(outlining.outlined, version=self._outlines, tenant=tenant, since=since, limit=limit)
        return self.store.read(query)

    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[Sequence[Recorded | None], int]:
        """Return assertions of a tenant by sequence number, and its newest one."""
        return self.store.read(partial(outlining.recorded, tenant=tenant, seqs=seqs))

    def vector_numbers(self, tenant: str | None, since: int) -> NDArray[np.int64]:
        """Return the sequence numbers of a tenant's assertions that have vectors."""
        return self.store.read(partial(embeddings.numbers, tenant=tenant, since=since))

    def products(
        self, tenant: str | None, vector: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return sequence numbers and inner products with a vector."""
        return self.store.read(partial(embeddings.products, tenant=tenant, vector=vector))

    def vectors_of(self, tenant: str | None, seqs: NDArray[np.int64], dimension: int) -> NDArray[np.float32]:
        """Return vectors by sequence numbers."""
        return self.store.read(partial(embeddings.some_vectors, tenant=tenant, seqs=seqs, dimension=dimension))

    def _append(self, work: Callable[[Batch], Any], connection: apsw.Connection) -> None:
        known, self._known = self._known, None
        self._known = write_batch(connection, self._clock, self._bound, work, outlines=self._outlines, known=known)

    def _write_with(self, work: Callable[[apsw.Connection, Batch], Any]) -> None:
        self.store.write(lambda connection: self._batch(connection, partial(work, connection)))

    def _batch(self, connection: apsw.Connection, work: Callable[[Batch], Any]) -> None:
        self._known = None
        write_batch(connection, self._clock, self._bound, work, outlines=self._outlines)


def _exposed(path: Path) -> Finding:
    return Finding(
        kind=FindingKind.EXPOSED,
        part=path.name,
        problem="others than its owner may use it",
        advice=f"run  chmod go= {path}",
    )


def _tidy(connection: apsw.Connection) -> None:
    """Finish an erasure or a migration, without waiting for other processes."""
    if scrub_is_due(connection):
        connection.set_busy_timeout(0)
        scrub(connection)
