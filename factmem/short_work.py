"""Short work on the event loop: blocking functions that end there as soon as they would wait or take long."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, TypeVar

T = TypeVar("T")

SHORT: Final = 100
"""Number of characters of a text up to which it is read, and its words are found, in a fraction of a millisecond."""

_AT_ONCE: Final = ContextVar("_AT_ONCE", default=False)


class _WouldWaitError(Exception):
    """Work that was begun at once would wait, or take long."""


def at_once(work: Callable[[], T]) -> T | None:
    """Call a blocking function on the event loop, and return None as soon as it would wait.

    Args:
        work: A function that blocks, and calls `may_wait` before it waits for a disk or takes long. Called again in a
            worker thread, it may go on with what it has found so far.
    """
    token = _AT_ONCE.set(True)
    try:
        return work()
    except _WouldWaitError:
        return None
    finally:
        _AT_ONCE.reset(token)


def may_wait() -> None:
    """Announce work that waits or takes long: within `at_once`, it ends here."""
    if _AT_ONCE.get():
        raise _WouldWaitError
