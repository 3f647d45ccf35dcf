"""Event loops: the one that an object is used in at a time, and those of a program whose memory has a thread.

Locks, events and connections belong to the event loop that first waits for them: in another one, a wait never ends or
fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, InvalidStateError
from contextvars import Context
from typing import Any, ClassVar, Generic, TypeVar, cast

import anyio
import attrs
from anyio.abc import TaskGroup
from anyio.lowlevel import current_token

from factmem.errors import ModelAwayError, ProviderClosedError, WrongLoopError

T = TypeVar("T")


def check_process(opened_in: int) -> None:
    """Refuse what was opened before a fork, whose threads and tasks the forked process does not have.

    Args:
        opened_in: The id of the process that opened it.

    Raises:
        ProviderClosedError: It is not this process.
    """
    if opened_in != os.getpid():
        raise ProviderClosedError("the memory was opened before the fork: open one over the same store in each process")


class OneLoop:
    """Binds an object to the event loop that uses it first, until that loop has ended; a forked process binds anew.

    Args:
        what: The object, for the error: ``"a Memory"``.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._guard = threading.Lock()
        self._bound: tuple[object, int] | None = None

    def check(self) -> bool:
        """Bind the running event loop; return whether it was not bound before: then locks have to be made anew.

        Raises:
            WrongLoopError: The object is bound to another loop, which has not ended.
        """
        here = (_running(), os.getpid())
        if here == self._bound:
            return False
        with self._guard:
            before, self._bound = self._bound, here
            if before is not None and before[1] == here[1] and not _has_ended(before[0]):
                self._bound = before
                raise WrongLoopError(
                    f"{self._what} is in use in another event loop or thread: make one for each loop over the same "
                    "store, or call a BlockingMemory, which any number of threads may share"
                )
        return True

    def release(self) -> None:
        """Let any loop use the object next."""
        with self._guard:
            self._bound = None


def _running() -> object:
    """Return the running event loop: asyncio's own, or trio's token."""
    try:
        return asyncio.get_running_loop()  # every call asks, and anyio takes many times as long
    except RuntimeError:
        return current_token().native_token


def _has_ended(loop: object) -> bool:
    if isinstance(loop, asyncio.AbstractEventLoop):
        return loop.is_closed()
    import trio

    assert isinstance(loop, trio.lowlevel.TrioToken)
    try:
        loop.run_sync_soon(lambda: None)
    except trio.RunFinishedError:
        return True
    return False


class OwnTasks:
    """A task group in a task of its own: any task of the event loop may close it, not only the one that opened it."""

    group: TaskGroup

    def __init__(self) -> None:
        self._opened, self._closing, self._ended = anyio.Event(), anyio.Event(), anyio.Event()

    async def open(self) -> None:
        """Open the group."""
        self._holder = _start(self._hold)
        try:
            await self._opened.wait()
        except BaseException:
            self._closing.set()
            raise

    async def aclose(self) -> None:
        """Wait for the tasks; if the wait is cancelled, cancel them as well."""
        self._closing.set()
        try:
            await self._ended.wait()
        except BaseException:
            await self.cancel()
            raise

    async def cancel(self) -> None:
        """Cancel the tasks, and wait until they have ended."""
        self._closing.set()
        self.group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._ended.wait()

    async def _hold(self) -> None:
        try:
            async with anyio.create_task_group() as self.group:
                self._opened.set()
                await self._closing.wait()
        finally:
            self._ended.set()


def _start(function: Callable[[], Coroutine[Any, Any, None]]) -> object:
    """Start a task that belongs to the event loop, and return it: asyncio itself holds it by a weak reference only."""
    if (loop := running_asyncio_loop()) is not None:
        return loop.create_task(function())
    import trio

    return trio.lowlevel.spawn_system_task(function)


def is_async(function: Callable[..., object]) -> bool:
    """Return whether a function, or an object that is called like one, is async."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def settle(function: Callable[[], Awaitable[T]], future: Future[T]) -> None:
    """Call an async function, and put its result or its error into a future that another thread waits for."""
    with contextlib.suppress(InvalidStateError):  # nobody waits any more
        try:
            result = await function()
        except Exception as error:
            future.set_exception(error)
        except BaseException as error:  # a cancellation ends the task as well
            future.set_exception(error)
            raise
        else:
            future.set_result(result)


@attrs.frozen(eq=False)
class _Undisturbed(Generic[T]):
    """Awaits a function whose asynchronous generators the running loop does not know.

    A loop ends those that it knows in `asyncio.loop.shutdown_asyncgens`, as the Agents SDK has it do after each
    blocking run; a call may be in the middle of one then.
    """

    function: Callable[[], Awaitable[T]]

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self.function().__await__()
        step: Callable[[Any], Any] = steps.send
        given: Any = None
        while True:
            hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(None, None)
            try:
                waited = step(given)
            except StopIteration as end:
                return cast("T", end.value)
            finally:
                sys.set_asyncgen_hooks(*hooks)
            try:
                step, given = steps.send, (yield waited)
            except BaseException as error:
                step, given = steps.throw, error


@attrs.define(eq=False)
class _Call:
    """A call in an event loop of the program."""

    loop: asyncio.AbstractEventLoop
    future: Future[Any] = attrs.field(factory=Future)
    _task: asyncio.Task[None] | None = None

    def begin(self, function: Callable[[], Awaitable[Any]]) -> None:
        """Start the call; runs in its loop."""
        if not self.future.cancelled():
            self._task = self.loop.create_task(settle(lambda: _Undisturbed(function), self.future))

    def cancel(self) -> None:
        """End the wait for the call, and the call itself as soon as its loop runs."""
        self.future.cancel()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


class ProgramLoops:
    """The event loops of a program, as seen from the thread of its memory.

    A client belongs to the event loop that it was used in. A client that the memory shares with the program, such as
    that of the model of its agents, is therefore called in a loop of the program. Safe to use from any thread.

    Attributes:
        known: Whether the program has used the memory in a loop of asyncio.
        blocking: Whether its latest use was a blocking call.
        missed: Whether a call found no loop that runs; reset when what was left is started again.
    """

    _served: ClassVar[dict[object, ProgramLoops]] = {}

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._process = os.getpid()
        self._threads: dict[asyncio.AbstractEventLoop, int] = {}
        self._blocked: list[asyncio.AbstractEventLoop | None] = []
        self._calls: set[_Call] = set()
        self.known: bool = False
        self.blocking: bool = True
        self.missed: bool = False

    @classmethod
    def here(cls) -> ProgramLoops | None:
        """Return the loops of the program that the running loop serves; None if it is one of the program's own."""
        return cls._served.get(_running())

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """Make the running loop one that serves these."""
        here = _running()
        self._served[here] = self
        try:
            yield
        finally:
            del self._served[here]

    def seen(self, *, blocking: bool = False) -> None:
        """Record a use of the memory by the program.

        Args:
            blocking: Whether it is a blocking call; otherwise the running loop is recorded.
        """
        loop = None if blocking else running_asyncio_loop()
        if loop in self._served:  # a part of a blocking call, in the memory's own loop
            return
        with self._guard:
            self.blocking = loop is None
            if self._process != os.getpid():  # a forked process has none of its parent's loops
                self._process, self._threads = os.getpid(), {}
            self._threads = {known: thread for known, thread in self._threads.items() if not known.is_closed()}
            if loop is not None:
                self.known = True
                self._threads.pop(loop, None)
                self._threads[loop] = threading.get_ident()  # the latest is the last

    async def call(self, function: Callable[[], Coroutine[Any, Any, T]], context: Context) -> T:
        """Call an async function in the loop that the program used last, rather in one that runs.

        Args:
            function: The function.
            context: The context variables of the call.

        Raises:
            ModelAwayError: All loops of the program have ended, or wait for the memory.
        """
        call = self._begun(function, context)
        try:
            await _done(call.future)
        except BaseException:
            call.cancel()
            self.missed = self.missed or not call.loop.is_running()
            raise
        finally:
            with self._guard:
                self._calls.discard(call)
        if call.future.cancelled() or isinstance(call.future.exception(), asyncio.CancelledError):
            self.missed = True
            raise away()
        result: T = call.future.result()
        return result

    def _begun(self, function: Callable[[], Awaitable[Any]], context: Context) -> _Call:
        with self._guard:
            loop = self._present()
            if loop is not None:
                call = _Call(loop)
                with contextlib.suppress(RuntimeError):  # it was closed just now
                    loop.call_soon_threadsafe(call.begin, function, context=context)
                    self._calls.add(call)
                    return call
        self.missed = True
        raise away()

    def _present(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop to call in; one that does not run now may run again, unless the program waits meanwhile."""
        there = [loop for loop in reversed(self._threads) if not loop.is_closed() and loop not in self._blocked]
        running = [loop for loop in there if loop.is_running()]
        return next(iter(running if running or self._blocked else there), None)

    def wait(self, future: Future[T], timeout: float | None = None) -> T:
        """Wait for the memory in a thread of the program. A loop of this thread that does not run, runs meanwhile.

        Args:
            future: The result to wait for.
            timeout: Maximum time in seconds.

        Raises:
            TimeoutError: It takes longer.
        """
        loop = running_asyncio_loop()
        if loop is None and (idle := self._idle_here()) is not None:
            idle.run_until_complete(asyncio.wait_for(_done(future), timeout))
            return future.result()
        with self._guard:
            self._blocked.append(loop)
            stuck = [call for call in self._calls if call.loop in self._blocked or not call.loop.is_running()]
        try:
            for call in stuck:
                call.cancel()
            return future.result(timeout)
        finally:
            with self._guard:
                self._blocked.remove(loop)

    def _idle_here(self) -> asyncio.AbstractEventLoop | None:
        with self._guard:
            here = [loop for loop, thread in self._threads.items() if thread == threading.get_ident()]
        return next((loop for loop in reversed(here) if not (loop.is_closed() or loop.is_running())), None)


def away() -> ModelAwayError:
    """Return the error of a call that found no loop of the program."""
    return ModelAwayError(
        "the event loop of the agents that use this model has ended, or waits for their memory: what is left is read "
        "when an agent runs next"
    )


async def _done(future: Future[Any]) -> None:
    """Wait until a future of another thread is done."""
    loop, done = asyncio.get_running_loop(), anyio.Event()

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the wait with it
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(wake)
    await done.wait()


def running_asyncio_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running event loop if it is one of asyncio; None without one, and on trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
