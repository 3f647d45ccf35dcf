"""Whether the cost of something grows faster than its input.

A process that others interrupt looks slower than it is, so a single measurement proves nothing: a cost is taken for
too high only if every one of several attempts says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

ATTEMPTS: Final = 5


def cpu_seconds(run: Callable[[], object]) -> float:
    """Return the CPU time that this process took for a call, in seconds."""
    began = time.process_time()
    run()
    return time.process_time() - began


def grows_faster(cost: Callable[[int], float], small: int, large: int, *, times: float, least: float) -> bool:
    """Return whether the cost of `large` exceeds `times` the cost of `small`, in all attempts.

    Args:
        cost: The CPU time for an input of a size, in seconds.
        small: The size to compare with.
        large: A larger size.
        times: How many times the smaller cost is allowed.
        least: A cost too small to be measured, in seconds; a smaller one counts as this.
    """
    for _ in range(ATTEMPTS):
        took = cost(large)
        if took <= times * least or took <= times * cost(small):
            return False
    return True
