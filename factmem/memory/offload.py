"""Work on texts, off the event loop: in a worker thread unless they are short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from anyio import to_thread

from factmem.patterns import linear_engine_is_loaded

__all__ = ["SHORT", "off_loop"]

T = TypeVar("T")

SHORT: Final = 4_000
"""Number of characters that take less time than the way to a worker thread and back, some hundred microseconds."""


async def off_loop(work: Callable[[], T], characters: int | None) -> T:
    """Return the result of a function whose time grows with some texts.

    Args:
        work: Called at once if the texts are short, otherwise in a worker thread; and there as long as what searches
            texts is still to be imported.
        characters: Length of the texts; None if it is unknown.
    """
    if characters is not None and characters <= SHORT and linear_engine_is_loaded():
        return work()
    return await to_thread.run_sync(work)
