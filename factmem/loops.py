"""The one event loop that an object is used in at a time.

Locks and events of anyio belong to the event loop that first waits for them: a wait in another loop never ends.
"""

from __future__ import annotations

import asyncio
import os
import threading

from anyio.lowlevel import current_token

from factmem.errors import ProviderClosedError, WrongLoopError

__all__ = ["OneLoop", "check_process"]


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
