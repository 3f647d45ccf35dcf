"""Runs of many generated inputs, with a check of each outcome."""

from __future__ import annotations

import contextlib
import faulthandler
import random
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import Final

import anyio
import attrs

from factmem.errors import FactMemError

_LONGEST_SECONDS: Final = 20
_LONGEST_MESSAGE: Final = 5_000
_MOST_BYTES: Final = 1_000_000_000


class HangError(BaseException):
    """Raised into code that exceeds the time limit of one input."""


def fed(name: str, count: int, feed: Callable[[random.Random], object], *, echoes: bool = False) -> str:
    """Pass a number of inputs, each from a random source of its own, and return the figure to report.

    Args:
        name: prefix of each input's seed, so that a failing input can be repeated.
        count: number of inputs.
        feed: makes an input and passes it in.
        echoes: whether a message may repeat typed text, however long.

    Raises:
        AssertionError: memory use was far too high, or an error's message was as long as its input.
    """
    watch = _Watch(name, echoes)
    for number in range(count):
        with watch.one(number) as rng:
            feed(rng)
    return watch.figure()


def fed_async(
    name: str, count: int, feed: Callable[[random.Random], Awaitable[object]], *, echoes: bool = False
) -> str:
    """See `fed`; all of it runs on one event loop."""

    async def feed_all() -> str:
        watch = _Watch(name, echoes)
        for number in range(count):
            with watch.one(number) as rng:
                await feed(rng)
        return watch.figure()

    return anyio.run(feed_all)


def peak_memory() -> int:
    """Return the peak memory of this process, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@attrs.define
class _Watch:
    """Outcome of the inputs so far."""

    name: str
    echoes: bool
    count: int = 0
    refused: int = 0
    before: int = attrs.field(factory=peak_memory)

    @contextlib.contextmanager
    def one(self, number: int) -> Iterator[random.Random]:
        """Accept factmem's own errors only, and name the input that caused any other."""
        seed = f"{self.name} {number}"
        self.count += 1
        refusal: FactMemError | None = None
        try:
            with _in_time(seed):
                yield random.Random(seed)
        except FactMemError as error:
            refusal = error
        except (Exception, HangError) as error:
            error.add_note(f"fed with random.Random({seed!r})")
            raise
        if refusal is not None:
            self.refused += 1
            short = self.echoes or len(str(refusal)) < _LONGEST_MESSAGE
            assert short, f"the message is as long as the input of {seed!r}"

    def figure(self) -> str:
        """Return the figure to report."""
        assert peak_memory() - self.before < _MOST_BYTES
        return f"{self.count:,} inputs: 0 untyped exceptions ({self.refused:,} refused)"


@contextlib.contextmanager
def _in_time(seed: str) -> Iterator[None]:
    """Limit the CPU time of one input to a multiple of the usual, however busy the machine is.

    An input that only waits is found by the time-out of the test.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback()  # another thread may be the one that hangs
        raise HangError(f"no answer within {_LONGEST_SECONDS} s to what random.Random({seed!r}) makes")

    former = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, _LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)
