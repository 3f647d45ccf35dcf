"""The shared shell of providers whose engine blocks: worker threads, group commit, closing, fork and options.

A provider is then a constructor and an `Engine`:

    class ShelfProvider(ThreadedProvider[ShelfEngine]):
        def __init__(self, path: str, *, clock: Clock = system_clock, timeout: float | str = 10.0) -> None:
            self._path = checked_path(path, what="path")
            self._timeout = seconds_option(timeout, "timeout")
            super().__init__(clock=clock)

        def _open_engine(self) -> ShelfEngine:
            return ShelfEngine(self._path, self._clock, self._timeout)
"""

from __future__ import annotations

import abc
import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import anyio
import anyio.to_thread
import attrs
from typing_extensions import override

from factmem.abc import system_clock
from factmem.abc.capabilities import (
    Access,
    EmbedderIdentity,
    EraseReceipt,
    KeepsLog,
    LogPart,
    Receipt,
    Statement,
    UpgradesFormat,
)
from factmem.abc.clock import Clock
from factmem.abc.outlines import KeepsOutlines, Outline, Outlined
from factmem.errors import CorruptStoreError, FactMemError, InvalidDataError, ProviderClosedError, StoreUnavailableError
from factmem.event_loops import OneLoop
from factmem.progress import Progress, no_report
from factmem.providers.log_verbs import HistoryProvider
from factmem.providers.sql_rows import PreparedRow, prepared
from factmem.records import LogEntry, Place, Recorded
from factmem.store_findings import Finding, finding_of, findings_in, remakeable_vectors, tenant_words, unfinished_copy
from factmem.validators import check_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
EngineT = TypeVar("EngineT", bound="Engine")
DatabaseEngineT = TypeVar("DatabaseEngineT", bound="DatabaseEngine")
ErrorT = TypeVar("ErrorT", bound=BaseException)

_READERS: Final = 4
"""Number of reads of one provider that run at the same time."""

_LONGEST: Final = 86_400.0


@attrs.define(eq=False)
class Request:
    """One call of `append` on its way through a group commit.

    Attributes:
        statements: What to write.
        receipts: The receipts of its assertions, once it is done.
        error: Why nothing of it was written, if nothing was.
        done: Whether it is decided. It is set in the worker thread, so that no cancellation can lose it.
    """

    statements: Sequence[Statement]
    receipts: Sequence[Receipt] = attrs.field(default=(), init=False)
    error: BaseException | None = attrs.field(default=None, init=False)
    done: bool = attrs.field(default=False, init=False)

    def settle(self, error: BaseException | None = None) -> None:
        """Decide the request; an earlier decision or error stands."""
        if not self.done:
            self.error = self.error or error
            self.done = True


class Engine(Protocol):
    """The blocking half of a provider. Its methods are called in worker threads.

    `version` is called on the event loop as well; see `factmem.abc.outlines.KeepsOutlines.newest`.

    `commit` and the methods that write are called one at a time; those that read run beside them and beside each
    other. Each method has the meaning, and raises the errors, of the method of the same name in `factmem.abc`.
    """

    def commit(self, requests: Sequence[Request]) -> None:
        """Write requests together, in one transaction if the store has them, and settle every one.

        A request that is refused must not hinder the others.
        """
        ...

    def entries(self, place: Place, keyword: str | None) -> Sequence[LogEntry]:
        """See `KeepsLog.entries`."""
        ...

    def version(self, tenant: str | None) -> int:
        """See `KeepsLog.version`."""
        ...

    def embedder(self) -> EmbedderIdentity | None:
        """See `KeepsLog.embedder`."""
        ...

    def use_embedder(self, identity: EmbedderIdentity, *, replace: bool) -> None:
        """See `KeepsLog.use_embedder`. It writes only where the binding changes."""
        ...

    def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """See `KeepsLog.put_vectors`."""
        ...

    def vectors(self, tenant: str | None, since: int) -> tuple[Sequence[int], NDArray[np.float32]]:
        """See `KeepsLog.vectors`."""
        ...

    def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """See `KeepsLog.add_accesses`."""
        ...

    def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        """See `KeepsLog.accesses`."""
        ...

    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> EraseReceipt:
        """See `KeepsLog.erase`."""
        ...

    def tenants(self) -> Sequence[str | None]:
        """See `KeepsLog.tenants`."""
        ...

    def log_part(self, tenant: str | None, since: int, limit: int | None, *, vectors: bool) -> LogPart:
        """See `KeepsLog.log_part` and `KeepsLog.changes`.

        Args:
            tenant: The tenant.
            since: The sequence number to start after.
            limit: Maximum number of entries; None for all.
            vectors: Whether to read their vectors as well.
        """
        ...

    def mark_copies(self, tenants: Sequence[str | None], *, unfinished: bool) -> None:
        """See `KeepsLog.begin_copy` and `KeepsLog.end_copy`."""
        ...

    def copied(self, tenant: str | None) -> int | None:
        """See `KeepsLog.copied`."""
        ...

    def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        """See `KeepsLog.put_log_part`."""
        ...

    def check(self, progress: Progress) -> Sequence[Finding]:
        """See `KeepsLog.check`."""
        ...

    def close(self) -> None:
        """Release every resource; repeating it is harmless."""
        ...


class DatabaseEngine(Engine, Protocol):
    """An engine over a database, which keeps outlines and has tables of a format."""

    def use_outlines(self, version: int) -> None:
        """See `KeepsOutlines.use_outlines`."""
        ...

    def put_outlines(self, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        """See `KeepsOutlines.put_outlines`."""
        ...

    def outlined(self, tenant: str | None, since: int, limit: int) -> Outlined:
        """See `KeepsOutlines.outlined`."""
        ...

    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[Sequence[Recorded | None], int]:
        """See `KeepsOutlines.recorded`."""
        ...

    def format_versions(self) -> tuple[int, int]:
        """See `UpgradesFormat.format_versions`."""
        ...

    def upgrade(self, progress: Progress, *, create: bool) -> None:
        """See `UpgradesFormat.upgrade`."""
        ...


class GroupCommit:
    """Gathers requests and commits them together: the first waiting task takes all that wait.

    It serves one event loop; another one needs another instance over the same lock.

    Args:
        commit: Writes some requests and settles each; called in a worker thread, one call at a time.
        deciding: Held during each call.
    """

    def __init__(self, commit: Callable[[list[Request]], None], deciding: threading.Lock | None = None) -> None:
        self._commit = commit
        self._limiter = anyio.CapacityLimiter(1)
        self._turn = anyio.Lock(fast_acquire=True)
        self._deciding = deciding or threading.Lock()
        self._pending: list[Request] = []

    async def submit(self, request: Request) -> None:
        """Commit a request, together with whatever else is waiting; it is settled when this returns.

        A call cancelled while it waits is withdrawn; one that is being written is written.
        """
        self._pending.append(request)
        try:
            async with self._turn:
                if not request.done:
                    await self._commit_pending()
        finally:
            if not request.done and request in self._pending:
                self._pending.remove(request)

    async def _commit_pending(self) -> None:
        taken = [self._pending]
        self._pending = []

        def commit() -> None:
            try:
                batch = taken.pop()
            except IndexError:
                return  # given back, because the call was cancelled before
            self._commit(batch)

        try:
            await self._in_thread(commit)
        finally:
            # Whoever removes the batch from the list decides it: others wait for theirs in it.
            with contextlib.suppress(IndexError):
                self._pending = taken.pop() + self._pending

    async def alone(self, work: Callable[[], T]) -> T:
        """Call a function between two commits, in a worker thread; a call cancelled before it begins does nothing."""
        async with self._turn:
            return await self._in_thread(work)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(self._one_at_a_time, work, limiter=self._limiter)

    def _one_at_a_time(self, work: Callable[[], T]) -> T:
        # asyncio's own Task.cancel() leaves the thread running and frees the turn; the next call waits here.
        with self._deciding:
            return work()


@attrs.frozen(eq=False)
class _Opened(Generic[EngineT]):
    """An open engine, the process that opened it, and how one event loop waits for it."""

    engine: EngineT
    deciding: threading.Lock
    group: GroupCommit
    readers: anyio.CapacityLimiter
    process: int = attrs.field(factory=os.getpid)

    @classmethod
    def of(cls, engine: EngineT, deciding: threading.Lock) -> _Opened[EngineT]:
        return cls(engine, deciding, GroupCommit(partial(_commit, engine), deciding), anyio.CapacityLimiter(_READERS))


_INHERITED: Final[list[object]] = []
"""Engines that a forked process got from its parent: kept here, because it may neither use nor finalise them."""


class ThreadedProvider(HistoryProvider, KeepsLog, abc.ABC, Generic[EngineT]):
    """A provider with history, vectors, erasure and access counts, on top of a blocking `Engine`.

    Reads run in worker threads beside each other. Writes run one at a time, and calls of `append` that wait at the
    same time share one commit. After `aclose` every call raises `ProviderClosedError`. In a forked process, the first
    call opens an engine of its own. It serves one event loop at a time: while one that used it is running, another
    one gets `WrongLoopError`.

    A subclass sets what `_open_engine` needs, and calls this constructor last.

    Args:
        clock: Gives the time of recording, and decides what has expired; called in a worker thread.
    """

    def __init__(self, *, clock: Clock = system_clock) -> None:
        super().__init__(clock=clock)
        self._closed = False
        self._loop = OneLoop("this provider")
        self._opened = self._open()

    @abc.abstractmethod
    def _open_engine(self) -> EngineT:
        """Return a new engine, without reading or writing anything. It is called again after a fork."""

    @override
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        opened = self._here()
        if not statements:
            return ()
        request = Request(statements)
        await opened.group.submit(request)
        if request.error is not None:
            raise request.error
        return request.receipts

    @override
    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        return await self._read(lambda engine: engine.entries(place, keyword))

    @override
    async def version(self, tenant: str | None) -> int:
        return await self._read(lambda engine: engine.version(tenant))

    @override
    async def changes(self, tenant: str | None, since: int = 0) -> Sequence[LogEntry]:
        return (await self._read(lambda engine: engine.log_part(tenant, since, None, vectors=False))).entries

    @override
    async def embedder(self) -> EmbedderIdentity | None:
        return await self._read(lambda engine: engine.embedder())

    @override
    async def use_embedder(self, identity: EmbedderIdentity, *, replace: bool = False) -> None:
        await self._write(lambda engine: engine.use_embedder(identity, replace=replace))

    @override
    async def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        await self._write(lambda engine: engine.put_vectors(tenant, vectors))

    @override
    async def vectors(self, tenant: str | None, since: int = 0) -> tuple[Sequence[int], NDArray[np.float32]]:
        return await self._read(lambda engine: engine.vectors(tenant, since))

    @override
    async def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        await self._write(lambda engine: engine.add_accesses(tenant, accesses))

    @override
    async def accesses(self, tenant: str | None, record_ids: Collection[str]) -> Mapping[str, Access]:
        return await self._read(lambda engine: engine.accesses(tenant, record_ids))

    @override
    async def erase(
        self, record_ids: Sequence[str], *, tenant: str | None, assertion_ids: Sequence[str] = ()
    ) -> EraseReceipt:
        return await self._write(lambda engine: engine.erase(set(record_ids), set(assertion_ids), tenant))

    @override
    async def tenants(self) -> Sequence[str | None]:
        return await self._read(lambda engine: engine.tenants())

    @override
    async def log_part(self, tenant: str | None, since: int = 0, *, limit: int = 1_000) -> LogPart:
        return await self._read(lambda engine: engine.log_part(tenant, since, limit, vectors=True))

    @override
    async def begin_copy(self, tenants: Sequence[str | None]) -> None:
        await self._write(lambda engine: engine.mark_copies(tenants, unfinished=True))

    @override
    async def copied(self, tenant: str | None) -> int | None:
        return await self._read(lambda engine: engine.copied(tenant))

    @override
    async def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        await self._write(lambda engine: engine.put_log_part(tenant, part))

    @override
    async def end_copy(self, tenants: Sequence[str | None]) -> None:
        await self._write(lambda engine: engine.mark_copies(tenants, unfinished=False))

    @override
    async def check(self, *, progress: Progress | None = None) -> Sequence[Finding]:
        return await self._read(lambda engine: engine.check(progress or no_report))

    @override
    async def aclose(self) -> None:
        """Wait for the write under way and close the engine; everything acknowledged stays. Repeating is harmless."""
        if self._opened.process != os.getpid():
            self._closed = True
            _INHERITED.append(self._opened)
            return
        opened = self._of_this_loop()
        self._closed = True
        with anyio.CancelScope(shield=True):
            await opened.group.alone(opened.engine.close)

    @property
    def _engine(self) -> EngineT:
        """The open engine.

        Raises:
            ProviderClosedError: The provider was closed.
        """
        return self._live().engine

    async def _read(self, query: Callable[[EngineT], T]) -> T:
        opened = self._here()
        return await anyio.to_thread.run_sync(query, opened.engine, limiter=opened.readers)

    async def _write(self, work: Callable[[EngineT], T]) -> T:
        opened = self._here()
        return await opened.group.alone(partial(work, opened.engine))

    def _here(self) -> _Opened[EngineT]:
        """Return the open engine for the running event loop.

        Raises:
            ProviderClosedError: The provider was closed.
            WrongLoopError: Another event loop uses it.
        """
        self._live()
        return self._of_this_loop()

    def _of_this_loop(self) -> _Opened[EngineT]:
        if self._loop.check():
            self._opened = _Opened.of(self._opened.engine, self._opened.deciding)
        return self._opened

    def _live(self) -> _Opened[EngineT]:
        if self._closed:
            raise ProviderClosedError("the provider was closed: make a new one, or a new Memory")
        if self._opened.process != os.getpid():
            # Connections and locks of the parent process do not survive a fork.
            _INHERITED.append(self._opened)
            self._opened = self._open()
        return self._opened

    def _open(self) -> _Opened[EngineT]:
        return _Opened.of(self._open_engine(), threading.Lock())


class DatabaseProvider(ThreadedProvider[DatabaseEngineT], KeepsOutlines, UpgradesFormat):
    """A `ThreadedProvider` on top of a `DatabaseEngine`.

    Args:
        clock: Gives the time of recording, and decides what has expired; called in a worker thread.

    Attributes:
        far: See `KeepsOutlines.far`.
    """

    far: bool = False

    @override
    async def use_outlines(self, version: int) -> None:
        await self._write(lambda engine: engine.use_outlines(version))

    @override
    async def put_outlines(self, tenant: str | None, outlines: Mapping[int, Outline]) -> None:
        await self._write(lambda engine: engine.put_outlines(tenant, outlines))

    @override
    def newest(self, tenant: str | None) -> int:
        return self._engine.version(tenant)

    @override
    def outlined(self, tenant: str | None, since: int = 0, *, limit: int = 1 << 62) -> Outlined:
        return self._engine.outlined(tenant, since, limit)

    @override
    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[Sequence[Recorded | None], int]:
        return self._engine.recorded(tenant, seqs)

    @override
    def vectors_since(self, tenant: str | None, since: int = 0) -> tuple[Sequence[int], NDArray[np.float32]]:
        return self._engine.vectors(tenant, since)

    @override
    async def format_versions(self) -> tuple[int, int]:
        return await self._read(lambda engine: engine.format_versions())

    @override
    async def upgrade(self, *, create: bool = False, progress: Progress | None = None) -> None:
        await self._write(lambda engine: engine.upgrade(progress or no_report, create=create))


def _commit(engine: Engine, requests: Sequence[Request]) -> None:
    """Commit requests and settle each, whatever the engine raises."""
    try:
        engine.commit(requests)
    except FactMemError as error:
        for request in requests:
            request.settle(raised_again(error))
    except BaseException as error:
        for request in requests:
            request.settle(error)
    finally:
        for request in requests:
            request.settle(StoreUnavailableError("the write broke off: open the store again"))


class ReadyRequests:
    """Requests for one transaction of a database, each written whole or not at all. One with a fault is settled.

    Args:
        requests: The requests.

    Attributes:
        rows: The rows of each request to write.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests: list[Request] = []
        self.rows: list[list[PreparedRow]] = []
        for request in requests:
            try:
                self.rows.append(prepared(request.statements))
                self._requests.append(request)
            except Exception as error:  # this request alone is refused
                request.settle(error)

    def append_by(self, append: Callable[[list[PreparedRow]], Sequence[Receipt]]) -> None:
        """Write the rows of each request by a function; called again if the transaction is repeated."""
        for request, rows in zip(self._requests, self.rows, strict=True):
            request.error = None
            try:
                request.receipts = append(rows)
            except FactMemError as error:
                request.error = error

    def settle(self) -> None:
        """Decide the requests, after the transaction."""
        for request in self._requests:
            request.settle()


_OF_FOREIGN_ROWS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors of a row that another program wrote, wherever it is used."""


@contextlib.contextmanager
def foreign_rows(name: str) -> Iterator[None]:
    """Convert errors of rows that factmem never wrote; the block must use nothing but rows.

    Args:
        name: Name of the store.

    Raises:
        CorruptStoreError: There is such a row.
    """
    try:
        yield
    except (FactMemError, OSError, UnicodeEncodeError):
        raise
    except _OF_FOREIGN_ROWS as error:
        raise CorruptStoreError(
            f"{name} holds rows that factmem never wrote, and nothing was written to it: restore it from a backup"
        ) from error


def checked_tenants(engine: DatabaseEngine, tenants: Sequence[str | None], progress: Progress) -> Iterator[Finding]:
    """Yield the findings in the logs of tenants, and in their vectors.

    Args:
        engine: The engine of the store.
        tenants: All tenants that anything is kept of.
        progress: See `KeepsLog.check`.
    """
    yield from (unfinished_copy(tenant) for tenant in tenants if engine.copied(tenant) is not None)
    for done, tenant in enumerate(tenants, start=1):
        try:
            yield from findings_in(engine.log_part(tenant, 0, None, vectors=False).entries, tenant)
        except CorruptStoreError as error:
            yield finding_of(error, tenant_words(tenant))
        try:
            engine.vectors(tenant, 0)
        except CorruptStoreError:
            yield remakeable_vectors(tenant_words(tenant), "the vectors were changed")
        progress(done, len(tenants))


def raised_again(error: ErrorT) -> ErrorT:
    """Return a copy of an error: raised in several tasks, one object would gather the tracebacks of all."""
    other = type(error).__new__(type(error), *error.args)
    other.__dict__.update(error.__dict__)
    other.__cause__ = error.__cause__
    return other


def flag_option(value: bool | str, name: str) -> bool:
    """Return an option that is true or false, from an address or from Python.

    Raises:
        InvalidDataError: It is neither.
    """
    match value.strip().lower() if isinstance(value, str) else value:
        case True | "1" | "true" | "yes" | "on":
            return True
        case False | "0" | "false" | "no" | "off":
            return False
        case _:
            raise InvalidDataError(f"{name} must be true or false", path=f"$.{name}")


def seconds_option(value: float | str, name: str) -> float:
    """Return an option that is a number of seconds, from an address or from Python.

    Raises:
        InvalidDataError: It is none, or not between 0 and a day.
    """
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise InvalidDataError(f"{name} must be a number of seconds", path=f"$.{name}") from None
    return check_number(seconds, name, most=_LONGEST)
