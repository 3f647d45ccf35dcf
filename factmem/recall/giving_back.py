"""Giving back memory that was used once: to read a large store takes as much again as to hold it."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["give_back"]


def give_back() -> None:
    """Return to the system what the C library keeps of freed memory; where it has no such call, do nothing.

    The GNU C library keeps freed blocks that lie between used ones, however large they are: 70 MB after a store of
    100,000 facts was read. To find them takes it some milliseconds, in which nobody else can get memory.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], Any] | None:
    if not sys.platform.startswith("linux"):
        return None
    trim: Callable[[int], Any] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
    return trim
