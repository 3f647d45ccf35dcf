"""Group commit: writes that are waiting at the same time are done together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

import anyio
import anyio.to_thread

from factmem.errors import FactMemError

__all__ = ["GroupCommit", "Waiting", "raised_again"]

T = TypeVar("T")
ErrorT = TypeVar("ErrorT", bound=FactMemError)


class Waiting(Protocol):
    """A write on its way.

    Attributes:
        done: whether it is decided; set in the worker thread, so that no cancellation can lose it.
    """

    done: bool


W = TypeVar("W", bound=Waiting)


class GroupCommit(Generic[W]):
    """Gathers writes and hands them over together: the first waiting task takes all that wait.

    Args:
        commit: does some writes together, each alone failing or not, and decides every one; called in
            a worker thread, one at a time.
        limiter: for that thread.
    """

    def __init__(self, commit: Callable[[list[W]], None], limiter: anyio.CapacityLimiter) -> None:
        self._commit = commit
        self._limiter = limiter
        self._turn = anyio.Lock(fast_acquire=True)
        self._deciding = threading.Lock()
        self._pending: list[W] = []

    async def submit(self, write: W) -> None:
        """Have a write done, together with whatever else is waiting; it is decided when this returns.

        A call cancelled while it waits is withdrawn; once it is being written, it is written.
        """
        self._pending.append(write)
        try:
            async with self._turn:
                if not write.done:
                    await self._commit_pending()
        finally:
            if not write.done and write in self._pending:
                self._pending.remove(write)

    async def alone(self, work: Callable[[], T]) -> T:
        """Do something between two commits, in a worker thread."""
        async with self._turn:
            return await self._in_thread(work)

    async def _commit_pending(self) -> None:
        batch, self._pending = self._pending, []
        await self._in_thread(partial(self._commit, batch))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        done: list[T] = []
        # A batch that was taken must be decided: others wait for it.
        with anyio.CancelScope(shield=True):
            done.append(await anyio.to_thread.run_sync(self._one_at_a_time, work, limiter=self._limiter))
        return done[0]

    def _one_at_a_time(self, work: Callable[[], T]) -> T:
        # asyncio's own Task.cancel() leaves the thread running and frees the turn; the next one waits here.
        with self._deciding:
            return work()


def raised_again(error: ErrorT) -> ErrorT:
    """Return an error as another object: raised for several tasks, one would gather the tracebacks of all."""
    other = type(error).__new__(type(error), *error.args)
    other.__dict__.update(error.__dict__)
    other.__cause__ = error.__cause__
    return other
