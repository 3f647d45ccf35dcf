"""The command line ``factmem``."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command of this process and exit.

    Exit codes: 0 success, 1 an error that is explained on stderr, 2 wrong usage, 130 interrupted, 141 broken pipe.
    """
    _open_closed_streams()
    _spare_startup()
    try:
        from factmem.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="factmem")


def _open_closed_streams() -> None:
    """Open what the parent process closed, as of a service, to nowhere: else the store's file could take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest free number, hence that of the stream
            setattr(sys, name, os.fdopen(nowhere, mode))


def _spare_startup() -> None:
    """Leave out work that costs a short command more than it is worth, unless the environment asks for it."""
    gc.set_threshold(200_000)  # the objects of the imports stay: do not look for garbage among them, …
    atexit.register(gc.freeze)  # … nor when the process ends
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else numpy starts a thread per core when it is imported
