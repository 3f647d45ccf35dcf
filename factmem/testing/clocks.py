"""A clock that is set by hand."""

from __future__ import annotations

import datetime as dt
import threading

from factmem.facts import utc

__all__ = ["FakeClock"]


class FakeClock:
    """A `factmem.abc.clock.Clock` that stands still, or advances by a fixed step at every reading.

    It may be read from several threads.

    Args:
        start: First reading, with a time zone; by default noon on 1 January 2024 UTC.
        step: Advance after each reading.

    Raises:
        InvalidDataError: The start has no time zone.
    """

    def __init__(
        self,
        start: dt.datetime = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC),
        *,
        step: dt.timedelta = dt.timedelta(0),
    ) -> None:
        self._now = utc(start)
        self._step = step
        self._lock = threading.Lock()

    def __call__(self) -> dt.datetime:
        """Return the present, in UTC."""
        with self._lock:
            now = self._now
            self._now += self._step
        return now

    def set(self, moment: dt.datetime) -> None:
        """Set the next reading; it may lie in the past.

        Raises:
            InvalidDataError: The moment has no time zone.
        """
        with self._lock:
            self._now = utc(moment)

    def advance(self, by: dt.timedelta) -> None:
        """Advance the next reading."""
        with self._lock:
            self._now += by
