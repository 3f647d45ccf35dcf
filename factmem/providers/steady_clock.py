"""A clock for a store that never steps back, whatever the machine's clock does."""

from __future__ import annotations

import datetime as dt
import logging

import attrs

from factmem.abc import Clock
from factmem.facts import ClockTime, utc
from factmem.records import Assertion

__all__ = ["SteadyClock"]

_log = logging.getLogger("factmem")


class SteadyClock:
    """Gives the times of recording of one store: each is at least as late as all before it.

    While the clock is behind the newest time of the store, that time is given again, and the program is warned once.

    Args:
        clock: The clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._newest: dt.datetime | None = None
        self._warned = False

    def __call__(self) -> dt.datetime:
        """Return the time to record next, in UTC."""
        now = utc(self._clock())
        if self._newest is None or now >= self._newest:
            self._newest = now
        elif not self._warned:
            self._warned = True
            _log.warning(
                "the clock is %.0f s behind the newest time in the store: until it catches up, what is saved is dated "
                "with that time; set the clock of this machine",
                (self._newest - now).total_seconds(),
            )
        return self._newest

    @property
    def newest(self) -> dt.datetime | None:
        """The newest time so far; None before the first."""
        return self._newest

    def reached(self, recorded_at: dt.datetime) -> None:
        """Note a time that is in the store."""
        if self._newest is None or self._newest < recorded_at:
            self._newest = recorded_at

    def dated(self, said: Assertion) -> Assertion:
        """Return an assertion that is not older than the store if a clock gave its time, and has stepped back since.

        Without that, an older value would stay current. A time that somebody gave is never changed.
        """
        if self._newest is None or not isinstance(said.timestamp, ClockTime) or said.timestamp >= self._newest:
            return said
        if utc(self._clock()) >= self._newest:
            return said
        return attrs.evolve(said, timestamp=ClockTime.of(self._newest))
