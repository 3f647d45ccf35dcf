"""The contract of clocks: functions that return the present, so that tests and replays can bring their own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Clock", "system_clock"]

Clock: TypeAlias = Callable[[], dt.datetime]
"""Gives the present as an aware datetime in UTC."""


def system_clock() -> dt.datetime:
    """The machine's own clock."""
    return dt.datetime.now(dt.UTC)
