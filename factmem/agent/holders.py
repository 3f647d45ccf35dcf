"""The memory of an agent: in its own thread, or in the event loop of the program."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from typing import Final, TypeAlias, TypeVar

import anyio
import attrs
from anyio import to_thread

from factmem.errors import CapabilityError, ProviderClosedError
from factmem.event_loops import ProgramLoops
from factmem.memory.background import OfSubmission, Remembered, Submission
from factmem.memory.blocking import MemoryThread
from factmem.memory.facade import Memory

T = TypeVar("T")

_PATIENCE: Final = 5.0
"""Maximum time that the exit of a process waits for each of its memories, in seconds."""


@attrs.frozen
class OpenMemoryHolder:
    """A memory that the program opens and closes, used in the program's event loop."""

    memory: Memory

    async def use(self, work: Callable[[Memory], Awaitable[T]]) -> T:
        """See `ThreadMemoryHolder.use`."""
        return await work(self.memory)

    def open_blocking(self) -> None:
        """See `ThreadMemoryHolder.open_blocking`."""
        raise _needs_loop()

    def use_blocking(self, work: Callable[[Memory], Awaitable[T]]) -> T:
        """See `ThreadMemoryHolder.use_blocking`."""
        raise _needs_loop()

    async def aclose(self) -> None:
        """See `ThreadMemoryHolder.aclose`."""

    def close(self) -> None:
        """See `ThreadMemoryHolder.close`."""


def _needs_loop() -> CapabilityError:
    return CapabilityError(
        "an open Memory cannot be used without its event loop: give AgentMemory an address, a provider or a "
        "function that makes the Memory, and it opens one of its own"
    )


class ThreadMemoryHolder:
    """A memory with its own event loop and thread, opened by the first call.

    The thread neither blocks nor needs the agent's loop: each run may have another loop, or none. Only a host's model
    is asked in the agent's loop; see `HostModel`. The thread ends with the process. Submissions are on disk, and the
    next process handles the pending ones.

    Args:
        make: Function that makes the memory.
    """

    def __init__(self, make: Callable[[], Memory]) -> None:
        self._make = make
        self._loops = ProgramLoops()
        self._starting = threading.Lock()
        self._thread: MemoryThread | None = None
        self._closed = False

    async def use(self, work: Callable[[Memory], Awaitable[T]]) -> T:
        """Run a function on the memory and return its result."""
        self._loops.seen()
        # Starting may block too: the other loop may be busy, or not open yet.
        future = await to_thread.run_sync(self._started, work, limiter=anyio.CapacityLimiter(1))
        return await _finished(future)

    def open_blocking(self) -> None:
        """Open the memory if it is not open yet, without an event loop.

        Raises:
            CapabilityError: See `use_blocking`.
            FactMemError: The memory cannot be opened.
        """
        self._running()

    def use_blocking(self, work: Callable[[Memory], Awaitable[T]]) -> T:
        """Run a function on the memory, without an event loop.

        Raises:
            CapabilityError: The program opened the memory, whose event loop must not be blocked.
        """
        self._loops.seen(blocking=True)
        return self._loops.wait(self._started(work))

    async def aclose(self) -> None:
        """Process pending submissions, and close; if this is cancelled, leave the rest to the next process."""
        self._loops.seen()
        try:
            await to_thread.run_sync(self.close, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._leave, limiter=anyio.CapacityLimiter(1))
            raise

    def close(self) -> None:
        """Close, without an event loop."""
        if (thread := self._last_thread()) is not None:
            thread.close()

    def _leave(self) -> None:
        if (thread := self._last_thread()) is not None:
            thread.drop(_PATIENCE)

    def _last_thread(self) -> MemoryThread | None:
        """Refuse further calls, and return the thread if it runs."""
        with self._starting:
            self._closed = True
        return self._thread if self._thread is not None and self._thread.usable else None

    def _started(self, work: Callable[[Memory], Awaitable[T]]) -> Future[T]:
        thread, memory = self._running()
        if self._loops.missed:
            self._loops.missed = False
            thread.start(memory.inbox.resume)
        return thread.start(lambda: work(memory))

    def _running(self) -> tuple[MemoryThread, Memory]:
        with self._starting:
            if self._closed:
                raise ProviderClosedError("the agent's memory was closed: make a new AgentMemory")
            if self._thread is None or not self._thread.usable:
                self._thread = MemoryThread(self._make, self._loops, "factmem")
                self._memory = self._thread.open()
                weakref.finalize(self, self._thread.drop, _PATIENCE)
            return self._thread, self._memory


MemoryHolder: TypeAlias = OpenMemoryHolder | ThreadMemoryHolder
"""A memory that can be used from any event loop, or without one."""


async def _finished(future: Future[T]) -> T:
    """Wait for a future of another thread; cancelling the wait cancels the work."""
    try:
        return await to_thread.run_sync(future.result, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
    except CancelledError:
        raise ProviderClosedError("the agent's memory was closed meanwhile: make a new AgentMemory") from None
    except BaseException:
        future.cancel()
        raise


class SavedHistory(OfSubmission):
    """A submitted history, on disk and processed in the background.

    It has the properties ``outcomes``, ``pending``, ``failures``, ``skipped`` and ``dropped`` of a `Submission`.

    Args:
        submission: The memory's handle of the submission.
        held: The memory.
    """

    def __init__(self, submission: Submission, held: MemoryHolder) -> None:
        super().__init__(submission)
        self._submission, self._held = submission, held

    def held_by(self, held: MemoryHolder) -> SavedHistory:
        """Return this submission for use through another `MemoryHolder`: from another event loop, or without one."""
        return SavedHistory(self._submission, held)

    async def wait(self) -> tuple[Remembered, ...]:
        """Wait until every unit is processed or has failed, and return the outcomes."""
        return await self._held.use(lambda _: self._submission.wait())

    def wait_blocking(self) -> tuple[Remembered, ...]:
        """Wait like `wait`, without an event loop; see `factmem.AgentMemory`."""
        return self._held.use_blocking(lambda _: self._submission.wait())
