"""Contract of clocks: functions that return the present, replaceable in tests and replays."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], dt.datetime]
"""Function that returns the present as an aware datetime, in the time zone in which questions say "today"."""


def system_clock() -> dt.datetime:
    """Return the time of the machine's clock."""
    return dt.datetime.now(dt.UTC)
