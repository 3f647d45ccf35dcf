"""Blocking twin of `Memory`, for programs without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, cast

import anyio

from factmem.error_hints import missing_attribute
from factmem.errors import ProviderClosedError
from factmem.event_loops import ProgramLoops, check_process, settle
from factmem.memory.admin import Admin
from factmem.memory.background import OfSubmission, Submission
from factmem.memory.dead_letters import DeadLetters
from factmem.memory.facade import Memory
from factmem.memory.inbox import Inbox
from factmem.memory.quarantine import Quarantine
from factmem.validators import check_instance

P = ParamSpec("P")
R = TypeVar("R")

T = TypeVar("T")
OriginalT = TypeVar("OriginalT")


class MemoryThread:
    """A thread whose event loop holds a memory open, and runs async functions for other threads.

    `anyio.from_thread.BlockingPortal` does the same, and wakes each of the two threads twice a call: to begin a task,
    and to await it. Here each is woken once, which takes less than half the time. A forked process may drop this one.
    It could not drop `anyio.from_thread.start_blocking_portal`, whose generator waits for the thread of the parent
    process when it is collected.

    Args:
        make: Makes the memory, in the thread.
        loops: The event loops of the program, which the thread serves.
        name: Name of the thread.
        finishes_calls: Whether the memory stays open for calls under way when it is closed.
    """

    def __init__(
        self, make: Callable[[], Memory], loops: ProgramLoops, name: str, *, finishes_calls: bool = True
    ) -> None:
        self._make = make
        self._loops = loops
        self._finishes_calls = finishes_calls
        self._process = os.getpid()
        self._opened: Future[Memory] = Future()
        self._ended: Future[BaseException | None] = Future()
        self._under_way: dict[asyncio.Task[None], Future[Any]] = {}
        self._is_open = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def forked(self) -> bool:
        """Whether the thread is one of another process, which this one was forked from."""
        return self._process != os.getpid()

    @property
    def usable(self) -> bool:
        """Whether the thread runs in this process; a forked process has none of its parent's threads."""
        return not self.forked and self._thread.is_alive()

    def open(self) -> Memory:
        """Start the thread, wait until the memory is open, and return it.

        Raises:
            FactMemError: The memory cannot be opened; the thread has ended.
        """
        self._thread.start()
        if self._opened.exception() is not None:  # an interrupt of this wait leaves the thread, which is a daemon
            self._thread.join()
        return self._opened.result()

    def start(self, function: Callable[[], Awaitable[T]]) -> Future[T]:
        """Start an async function on the loop; cancelling the future cancels it.

        Raises:
            ProviderClosedError: The memory was closed, or this process was forked after it was opened.
        """
        if not self._is_open:
            raise _closed()
        check_process(self._process)
        future: Future[T] = Future()
        try:
            self._loop.call_soon_threadsafe(self._begin, function, future)
        except RuntimeError:  # the loop was closed meanwhile
            raise _closed() from None
        return future

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call an async function on the loop, and wait for its result.

        Raises:
            ProviderClosedError: See `start`.
            RuntimeError: The calling thread is that of the loop, which would wait for itself.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call from the event loop's own thread would wait for itself: use `Memory`")
        return self.start(function).result()

    def close(self, *, failed: bool = False) -> BaseException | None:
        """Close the memory, and join the thread; return the error of closing, if any.

        Args:
            failed: Whether the program leaves the memory with an error, and pending submissions are not processed.
        """
        with contextlib.suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._begin_closing, failed)
        failure = self._loops.wait(self._ended)
        self._thread.join()
        return None if isinstance(failure, _LeftEarlyError) else failure

    def drop(self, patience: float) -> None:
        """Stop the thread at once; pending submissions stay in the store for the next process.

        Args:
            patience: Maximum time to wait for its end, in seconds.
        """
        if not self.usable or threading.current_thread() is self._thread:
            return
        with contextlib.suppress(RuntimeError, TimeoutError):  # it ends by itself
            self._loop.call_soon_threadsafe(self._stop)
            self._loops.wait(self._ended, timeout=patience)

    def _begin(self, function: Callable[[], Awaitable[T]], future: Future[T]) -> None:
        if not self._is_open:
            future.set_exception(_closed())
            return
        task = self._loop.create_task(settle(function, future))
        self._under_way[task] = future
        task.add_done_callback(self._under_way.pop)
        future.add_done_callback(functools.partial(self._cancel, task))

    def _cancel(self, task: asyncio.Task[None], future: Future[Any]) -> None:
        """End a task for whose result nobody waits."""
        if future.cancelled():
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(task.cancel)

    def _begin_closing(self, failed: bool) -> None:
        if not self._closing.done():  # another thread closes it as well, or it was stopped
            self._closing.set_result(failed)

    def _stop(self) -> None:
        for future in self._under_way.values():
            future.cancel()
        self._scope.cancel()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            anyio.run(self._serve)
        except BaseException as error:
            failure = error
            if not self._opened.done():
                self._opened.set_exception(error)
        finally:
            self._ended.set_result(failure)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing: asyncio.Future[bool] = self._loop.create_future()
        with self._loops.served(), anyio.CancelScope() as self._scope:
            try:
                async with self._make() as memory:
                    self._is_open = True
                    self._opened.set_result(memory)
                    if await self._closing:
                        raise _LeftEarlyError
                    if self._finishes_calls:
                        await self._finished()
            finally:
                await self._finished()

    async def _finished(self) -> None:
        """Refuse further calls, and wait for those under way."""
        self._is_open = False
        if self._under_way:
            await asyncio.wait(self._under_way)


class _LeftEarlyError(Exception):
    """The program has left a memory with an error of its own, which stays in the program's thread."""


def _closed() -> ProviderClosedError:
    return ProviderClosedError("the memory is not open: use it inside its `with` block")


def _blocking(method: Callable[Concatenate[Any, P], Awaitable[R]]) -> Callable[Concatenate[_Twin[Any], P], R]:
    """Turn an async method into a blocking one, with the same arguments and the same docstring."""

    def call(self: _Twin[Any], *args: P.args, **kwargs: P.kwargs) -> R:
        return self._calls_in_use().call(functools.partial(method, self._original, *args, **kwargs))

    return cast("Callable[Concatenate[_Twin[Any], P], R]", functools.wraps(method)(call))


def _submitting(
    method: Callable[Concatenate[Any, P], Awaitable[Submission]],
) -> Callable[Concatenate[_Twin[Any], P], BlockingSubmission]:
    """Turn an async method that submits work into a blocking one: it waits for the submission, not for the reading."""

    def call(self: _Twin[Any], *args: P.args, **kwargs: P.kwargs) -> BlockingSubmission:
        calls = self._calls_in_use()
        return BlockingSubmission(calls.call(functools.partial(method, self._original, *args, **kwargs)), calls)

    return cast("Callable[Concatenate[_Twin[Any], P], BlockingSubmission]", functools.wraps(method)(call))


def _viewing(method: Callable[Concatenate[Any, P], Memory]) -> Callable[Concatenate[BlockingMemory, P], BlockingMemory]:
    """Turn a method that returns a view into one that returns its blocking twin, open as long as the memory is."""

    def view(self: BlockingMemory, *args: P.args, **kwargs: P.kwargs) -> BlockingMemory:
        return self._twin_of(method(self._original, *args, **kwargs))

    return cast("Callable[Concatenate[BlockingMemory, P], BlockingMemory]", functools.wraps(method)(view))


class _Twin(Generic[OriginalT]):
    """Blocking twin of an async class."""

    def __init__(self, original: OriginalT, calls: MemoryThread | None) -> None:
        self._original = original
        self._calls = calls

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._original!r})"

    def _calls_in_use(self) -> MemoryThread:
        if self._calls is None:
            raise _closed()
        return self._calls


class BlockingSubmission(_Twin[Submission], OfSubmission):
    """Blocking twin of `Submission`, with the same properties."""

    def __init__(self, submission: Submission, calls: MemoryThread) -> None:
        _Twin.__init__(self, submission, calls)
        OfSubmission.__init__(self, submission)

    wait: Final = _blocking(Submission.wait)


class BlockingQuarantine(_Twin[Quarantine]):
    """Blocking twin of `Quarantine`."""

    list: Final = _blocking(Quarantine.list)
    count: Final = _blocking(Quarantine.count)
    accept: Final = _blocking(Quarantine.accept)
    reject: Final = _blocking(Quarantine.reject)


class BlockingDeadLetters(_Twin[DeadLetters]):
    """Blocking twin of `DeadLetters`."""

    list: Final = _blocking(DeadLetters.list)
    retry: Final = _blocking(DeadLetters.retry)
    dismiss: Final = _blocking(DeadLetters.dismiss)


class BlockingInbox(_Twin[Inbox]):
    """Blocking twin of `Inbox`."""

    @property
    def reads_words(self) -> bool:
        """See `Inbox.reads_words`."""
        return self._original.reads_words

    @property
    def quarantine(self) -> BlockingQuarantine:
        """See `Inbox.quarantine`."""
        return BlockingQuarantine(self._original.quarantine, self._calls_in_use())

    @property
    def dead_letters(self) -> BlockingDeadLetters:
        """See `Inbox.dead_letters`."""
        return BlockingDeadLetters(self._original.dead_letters, self._calls_in_use())

    ingest_events: Final = _submitting(Inbox.ingest_events)
    resume: Final = _submitting(Inbox.resume)
    flush: Final = _blocking(Inbox.flush)
    extract: Final = _blocking(Inbox.extract)


class BlockingAdmin(_Twin[Admin]):
    """Blocking twin of `Admin`."""

    info: Final = _blocking(Admin.info)
    tree: Final = _blocking(Admin.tree)
    audit: Final = _blocking(Admin.audit)
    accesses: Final = _blocking(Admin.accesses)
    export: Final = _blocking(Admin.export)
    import_: Final = _blocking(Admin.import_)
    expire: Final = _blocking(Admin.expire)
    reset: Final = _blocking(Admin.reset)
    traces: Final = _blocking(Admin.traces)
    convert: Final = _blocking(Admin.convert)
    merge: Final = _blocking(Admin.merge)
    calibrate: Final = _blocking(Admin.calibrate)
    reembed: Final = _blocking(Admin.reembed)


class BlockingMemory(_Twin[Memory]):
    """Blocking twin of `Memory`, opened with ``with``; its event loop runs in a thread of its own.

        with BlockingMemory(Memory("facts.db")) as memory:
            memory.remember("The venue has 120 seats.")

    Args:
        memory: Memory, not yet opened.

    Raises:
        InvalidDataError: The argument is no `Memory`.
    """

    def __init__(self, memory: Memory) -> None:
        check_instance(memory, "memory", Memory, hint="write BlockingMemory(Memory(…))")
        super().__init__(memory, None)

    def __enter__(self) -> Self:
        calls = MemoryThread(lambda: self._original, ProgramLoops(), "factmem portal", finishes_calls=False)
        calls.open()
        self._calls = calls
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        calls, self._calls = self._calls, None
        if calls is None or calls.forked:  # the parent process closes its memory
            return
        if (failure := calls.close(failed=exc is not None)) is not None:
            raise failure

    if not TYPE_CHECKING:  # a type checker that sees these takes any name, and `async with`

        def __getattr__(self, name: str) -> object:
            if name in ("close", "aclose"):
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}: leave its `with` block"
                )
            raise missing_attribute(type(self), name)

        async def __aenter__(self) -> None:
            raise TypeError("BlockingMemory is opened with `with`; in async code, use `async with Memory(…)`")

        async def __aexit__(self, *exception: object) -> None: ...

    view: Final = _viewing(Memory.view)
    scope: Final = _viewing(Memory.scope)
    for_user: Final = _viewing(Memory.for_user)

    @property
    def inbox(self) -> BlockingInbox:
        """See `Memory.inbox`."""
        return BlockingInbox(self._original.inbox, self._calls_in_use())

    @property
    def admin(self) -> BlockingAdmin:
        """See `Memory.admin`."""
        return BlockingAdmin(self._original.admin, self._calls_in_use())

    def _twin_of(self, memory: Memory) -> BlockingMemory:
        other = BlockingMemory(memory)
        other._calls = self._calls_in_use()
        return other

    load: Final = _blocking(Memory.load)
    profile: Final = _blocking(Memory.profile)
    recall: Final = _blocking(Memory.recall)
    get: Final = _blocking(Memory.get)
    history: Final = _blocking(Memory.history)
    list_records: Final = _blocking(Memory.list_records)
    remember_many: Final = _submitting(Memory.remember_many)
    generate: Final = _submitting(Memory.generate)
    save: Final = _blocking(Memory.save)
    remember: Final = _blocking(Memory.remember)
    update: Final = _blocking(Memory.update)
    retract: Final = _blocking(Memory.retract)
    restore: Final = _blocking(Memory.restore)
    forget: Final = _blocking(Memory.forget)
    save_many: Final = _blocking(Memory.save_many)
    save_profile: Final = _blocking(Memory.save_profile)
    rollback: Final = _blocking(Memory.rollback)
    undo: Final = _blocking(Memory.undo)
