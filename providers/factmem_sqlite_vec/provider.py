"""The provider: one SQLite file, shared by tasks and processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread
import apsw
import attrs

from factmem.abc import (
    Access,
    Clock,
    EmbedderIdentity,
    EraseReceipt,
    Outline,
    Outlined,
    Receipt,
    Statement,
    StateRequest,
    system_clock,
)
from factmem.errors import CorruptStoreError, FactMemError, InvalidDataError, ProviderClosedError
from factmem.names import checked_path
from factmem.providers import GroupCommit, LedgerProvider, raised_again
from factmem.records import LogEntry, Place, Recorded
from factmem_sqlite_vec import accesses as counting
from factmem_sqlite_vec import embeddings, outlining, reading
from factmem_sqlite_vec.erasing import delete_assertions, scrub, scrub_is_due
from factmem_sqlite_vec.forms import ClearForm, Form
from factmem_sqlite_vec.rows import NewRow, prepared
from factmem_sqlite_vec.store import Store
from factmem_sqlite_vec.sums import sum_of_vectors
from factmem_sqlite_vec.writing import Batch, mismatch, write_batch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SqliteVecMemoryProvider"]

T = TypeVar("T")

_READERS: Final = 4


@attrs.define(eq=False)
class _Request:
    """One call of `append` on its way.

    Attributes:
        statements: what to write.
        receipts: what became of it, once it is done.
        error: why nothing of it was written, if it was not.
        done: see `factmem.providers.Waiting`.
    """

    statements: Sequence[Statement]
    receipts: Sequence[Receipt] = ()
    error: BaseException | None = None
    done: bool = False


@attrs.frozen(eq=False)
class _Live:
    """What is open, and in which process."""

    store: Store
    group: GroupCommit[_Request]
    readers: anyio.CapacityLimiter
    process: int = attrs.field(factory=os.getpid)


_INHERITED: Final[list[_Live]] = []
"""What a forked process got from its parent: never to be used there, nor closed."""


class SqliteVecMemoryProvider(LedgerProvider):
    """Keeps facts, their history, full text and vectors in one SQLite file; the default.

    It has every capability. Tasks that save at the same time share one transaction, and so one wait for
    the disk. Any number of processes may use the file at once; it must lie on a disk of this machine,
    not on a network share. Beside it lie ``-wal`` and ``-shm`` while it is open.

    Nothing is opened before the first call, and nothing is made before the first write. Erasing writes
    the whole file anew, so as to be sure of every byte: some 3 seconds at 100,000 embedded facts.

    Args:
        path: the file; it and its folders are made by the first write.
        clock: gives the time of recording, and decides what has expired; called in a worker thread.
        read_only: never write; a file that is not there is an error then.
        busy_timeout: how long to wait for another process that is writing, in seconds.

    Raises:
        InvalidDataError: an option's text cannot be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock = system_clock,
        read_only: bool | str = False,
        busy_timeout: float | str = 10.0,
    ) -> None:
        super().__init__(clock=clock)
        self._path = checked_path(path, what="path")
        self._read_only = _flag(read_only, "read_only")
        self._busy_timeout = _seconds(busy_timeout, "busy_timeout")
        self._bound: EmbedderIdentity | None = None
        self._outlines: int | None = None
        self._closed = False
        self._opened = self._start()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"

    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        """See `factmem.abc.KeepsHistory.append`."""
        request = _Request(statements)
        await self._live().group.submit(request)
        if request.error is not None:
            raise request.error
        return request.receipts

    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        """See `factmem.abc.KeepsHistory.entries`."""
        return await self._read(partial(reading.entries, place=place, keyword=keyword))

    async def version(self) -> int:
        """See `factmem.abc.FeedsChanges.version`."""
        return await self._read(reading.newest_seq)

    async def changes(self, tenant: str | None, since: int = 0) -> Sequence[LogEntry]:
        """See `factmem.abc.FeedsChanges.changes`."""
        return await self._read(partial(reading.changes, tenant=tenant, since=since))

    async def embedder(self) -> EmbedderIdentity | None:
        """See `factmem.abc.KeepsVectors.embedder`."""
        return await self._read(reading.bound_embedder)

    async def use_embedder(self, identity: EmbedderIdentity, *, replace: bool = False) -> None:
        """See `factmem.abc.KeepsVectors.use_embedder`."""
        embeddings.check_dimension(identity)
        stored = await self.embedder()
        if stored not in (None, identity) and not replace:
            raise mismatch(stored, identity)
        if replace or stored != identity:
            await self._write(partial(embeddings.bind, identity=identity, replace=replace))
        self._bound = identity

    async def put_vectors(self, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """See `factmem.abc.KeepsVectors.put_vectors`."""
        await self._write(partial(embeddings.put_vectors, vectors=vectors))

    async def vectors(self, tenant: str | None, since: int = 0) -> tuple[Sequence[int], NDArray[np.float32]]:
        """See `factmem.abc.KeepsVectors.vectors`.

        Raises:
            CorruptStoreError: one of them is not what was written. The facts are not affected.
        """
        live = self._live()

        def read() -> tuple[Sequence[int], NDArray[np.float32]]:
            seqs, rows, expected = live.store.read(partial(embeddings.vectors_with_sum, tenant=tenant, since=since))
            # Not among what makes the whole store one that is not written to: vectors can be made again.
            if expected is not None and expected != sum_of_vectors(seqs, rows):
                raise CorruptStoreError(
                    f"the embeddings in {live.store.name} are damaged, its facts are not: make them again with "
                    "Memory.reembed() or `factmem reembed`, or restore it from a backup"
                )
            return seqs, rows

        return await anyio.to_thread.run_sync(read, limiter=live.readers)

    def vector_numbers(self, tenant: str | None, since: int = 0) -> NDArray[np.int64]:
        """See `factmem.abc.ScansVectors.vector_numbers`."""
        return self._live().store.read(partial(embeddings.numbers, tenant=tenant, since=since))

    def products(
        self, tenant: str | None, vector: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """See `factmem.abc.ScansVectors.products`."""
        return self._live().store.read(partial(embeddings.products, tenant=tenant, vector=vector))

    def vectors_of(self, tenant: str | None, seqs: NDArray[np.int64], dimension: int) -> NDArray[np.float32]:
        """See `factmem.abc.ScansVectors.vectors_of`."""
        read = partial(embeddings.some_vectors, tenant=tenant, seqs=seqs, dimension=dimension)
        return self._live().store.read(read)

    async def use_outlines(self, version: int) -> None:
        """See `factmem.abc.KeepsOutlines.use_outlines`."""
        self._outlines = version
        if self._read_only or not await anyio.to_thread.run_sync(self._live().store.is_there):
            return  # whoever makes the store makes them too
        if await self._read(outlining.outlines_version) != version:
            await self._write(lambda connection, _: outlining.use_outlines(connection, version))

    async def put_outlines(self, outlines: Mapping[int, Outline]) -> None:
        """See `factmem.abc.KeepsOutlines.put_outlines`."""
        if not self._read_only:
            await self._write(lambda connection, _: outlining.put_outlines(connection, outlines))

    def newest(self) -> int:
        """See `factmem.abc.KeepsOutlines.newest`."""
        return self._live().store.read(reading.newest_seq)

    def outlined(self, tenant: str | None, since: int = 0, *, limit: int = 1 << 62) -> Outlined:
        """See `factmem.abc.KeepsOutlines.outlined`."""
        query = partial(outlining.outlined, version=self._outlines, tenant=tenant, since=since, limit=limit)
        return self._live().store.read(query)

    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> Sequence[Recorded | None]:
        """See `factmem.abc.KeepsOutlines.recorded`."""
        return self._live().store.read(partial(outlining.recorded, tenant=tenant, seqs=seqs))

    async def nearest(
        self, vector: NDArray[np.float32], limit: int, *, tenant: str | None
    ) -> Sequence[tuple[int, float]]:
        """See `factmem.abc.SearchesVectors.nearest`."""
        return await self._read(partial(embeddings.nearest, vector=vector, limit=limit, tenant=tenant))

    async def matching(self, text: str, limit: int, *, tenant: str | None) -> Sequence[int]:
        """Return the assertions of a tenant that have every word of a text, newest first.

        The words are looked for in an assertion's description, keyword and value, whatever their case
        and accents. This is a look-up: it knows no fold and no viewer, so retracted, superseded and
        private assertions are among what it gives.

        Args:
            text: words; nothing in it is a search syntax.
            limit: how many sequence numbers to return at most.
            tenant: whose assertions.

        Raises:
            InvalidDataError: the text is empty.
        """
        if not text.strip():
            raise InvalidDataError("the text to look for is empty; use changes to read everything")
        return await self._read(partial(reading.matching, text=text, limit=limit, tenant=tenant))

    async def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """See `factmem.abc.KeepsAccesses.add_accesses`."""
        await self._write(lambda connection, _: counting.add_accesses(connection, tenant, accesses))

    async def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """See `factmem.abc.KeepsAccesses.accesses`."""
        return await self._read(partial(counting.accesses, tenant=tenant, record_ids=record_ids))

    async def erase(
        self, record_ids: Sequence[str], *, tenant: str | None, assertion_ids: Sequence[str] = ()
    ) -> EraseReceipt:
        """See `factmem.abc.Erases.erase`."""
        live = self._live()

        def erase(connection: apsw.Connection) -> EraseReceipt:
            erased: list[int] = []
            self._batch(
                connection,
                lambda batch: erased.append(delete_assertions(connection, batch, record_ids, assertion_ids, tenant)),
            )
            pending = scrub_is_due(connection) and not scrub(connection)
            return EraseReceipt(erased=erased[0], pending=pending)

        return await live.group.alone(partial(live.store.write, erase))

    async def files(self) -> Sequence[Path]:
        """See `factmem.abc.KeepsFiles.files`."""
        beside = self._live().store.form.beside
        paths = [self._path, *(self._path.with_name(self._path.name + ending) for ending in beside)]
        return await anyio.to_thread.run_sync(lambda: [path for path in paths if path.exists()])

    async def aclose(self) -> None:
        """Wait for the write under way and close the file; what was acknowledged stays.

        What an erasure left to do is done now, unless another process still stands in the way.
        """
        self._closed = True
        live = self._opened
        if live.process != os.getpid():
            _INHERITED.append(live)
            return
        with anyio.CancelScope(shield=True):
            await live.group.alone(partial(live.store.close, _tidy))

    async def _read(self, query: Callable[[apsw.Connection], T]) -> T:
        live = self._live()
        return await anyio.to_thread.run_sync(live.store.read, query, limiter=live.readers)

    async def _write(self, work: Callable[[apsw.Connection, Batch], None]) -> None:
        live = self._live()

        def write(connection: apsw.Connection) -> None:
            self._batch(connection, partial(work, connection))

        await live.group.alone(partial(live.store.write, write))

    def _batch(self, connection: apsw.Connection, work: Callable[[Batch], None]) -> None:
        write_batch(connection, self._clock, self._bound, work, outlines=self._outlines)

    def _live(self) -> _Live:
        if self._closed:
            raise ProviderClosedError("the provider was closed")
        if self._opened.process != os.getpid():
            # SQLite's connections and locks do not survive a fork.
            _INHERITED.append(self._opened)
            self._opened = self._start()
        return self._opened

    def _start(self) -> _Live:
        store = Store(self._path, self._form(), read_only=self._read_only, busy_timeout=self._busy_timeout)
        group: GroupCommit[_Request] = GroupCommit(partial(self._commit, store), anyio.CapacityLimiter(1))
        return _Live(store, group, anyio.CapacityLimiter(_READERS))

    def _form(self) -> Form:
        """How the file lies on the disk; asked for again after a fork."""
        return ClearForm()

    def _commit(self, store: Store, requests: Sequence[_Request]) -> None:
        """Decide requests, in one transaction and in a worker thread."""
        ready = [(request, rows) for request in requests if (rows := _prepared(request)) is not None]

        def append_each(batch: Batch) -> None:
            for request, rows in ready:
                try:
                    request.receipts = batch.append(rows)
                except FactMemError as error:
                    request.error = error

        try:
            if ready:
                store.write(lambda connection: self._batch(connection, append_each))
        except BaseException as error:
            for request, _ in ready:
                request.error = request.error or _again(error)
        finally:
            for request in requests:
                request.done = True


def _tidy(connection: apsw.Connection) -> None:
    """Finish erasures that were broken off or are pending, without waiting for anybody."""
    if scrub_is_due(connection):
        connection.set_busy_timeout(0)
        scrub(connection)


def _prepared(request: _Request) -> list[NewRow | StateRequest] | None:
    try:
        return prepared(request.statements)
    except Exception as error:
        request.error = error
        return None


def _again(error: BaseException) -> BaseException:
    return raised_again(error) if isinstance(error, FactMemError) else error


def _flag(value: bool | str, name: str) -> bool:
    match value if isinstance(value, bool) else value.strip().lower():
        case True | "1" | "true" | "yes" | "on":
            return True
        case False | "0" | "false" | "no" | "off":
            return False
        case _:
            raise InvalidDataError(f"{name} must be true or false", path=f"$.{name}")


def _seconds(value: float | str, name: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        raise InvalidDataError(f"{name} must be a number of seconds", path=f"$.{name}") from None
    if not 0 <= seconds <= 86_400:
        raise InvalidDataError(f"{name} must be from 0 to 86400 seconds", path=f"$.{name}")
    return seconds
