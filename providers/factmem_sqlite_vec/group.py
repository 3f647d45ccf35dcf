"""Group commit: saves that are waiting at the same time share one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
import attrs

from factmem.abc import Receipt, Statement

__all__ = ["GroupCommit", "Request"]

T = TypeVar("T")


@attrs.define(eq=False)
class Request:
    """One call of `append` on its way.

    Attributes:
        statements: what to write.
        receipts: what became of it, once it is done.
        error: why nothing of it was written, if it was not.
        done: whether it is decided; set in the worker thread, so that no cancellation can lose it.
    """

    statements: Sequence[Statement]
    receipts: Sequence[Receipt] = ()
    error: BaseException | None = None
    done: bool = False

    def outcome(self) -> Sequence[Receipt]:
        """Return the receipts.

        Raises:
            FactMemError: nothing of it was written.
        """
        if self.error is not None:
            raise self.error
        return self.receipts


class GroupCommit:
    """Gathers requests and hands them over together: the first waiting task takes all that wait.

    Args:
        commit: writes requests in one transaction, each alone failing or not, and decides every one;
            called in a worker thread.
        limiter: for that thread.
    """

    def __init__(self, commit: Callable[[list[Request]], None], limiter: anyio.CapacityLimiter) -> None:
        self._commit = commit
        self._limiter = limiter
        self._turn = anyio.Lock(fast_acquire=True)
        self._deciding = threading.Lock()
        self._pending: list[Request] = []

    async def submit(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        """Have statements written, together with whatever else is waiting.

        A call cancelled while it waits is withdrawn; once in a transaction, it is written.
        """
        request = Request(statements)
        self._pending.append(request)
        try:
            async with self._turn:
                if not request.done:
                    await self._commit_pending()
        finally:
            if not request.done and request in self._pending:
                self._pending.remove(request)
        return request.outcome()

    async def alone(self, work: Callable[[], T]) -> T:
        """Do something between two transactions, in a worker thread."""
        async with self._turn:
            return await self._in_thread(work)

    async def _commit_pending(self) -> None:
        batch, self._pending = self._pending, []
        await self._in_thread(partial(self._commit, batch))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        # A batch that was taken must be decided: others wait for it.
        shield = anyio.CancelScope(shield=True)
        with shield:
            return await anyio.to_thread.run_sync(self._one_at_a_time, work, limiter=self._limiter)
        raise AssertionError("a shield is never cancelled")

    def _one_at_a_time(self, work: Callable[[], T]) -> T:
        # asyncio's own Task.cancel() leaves the thread running and frees the turn; the next one waits here.
        with self._deciding:
            return work()
