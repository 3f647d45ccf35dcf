"""Reports of how far long work has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of pieces done, and their total, in any thread."""


def no_report(done: int, of: int) -> None:
    """Report to nobody."""
