"""The command line ``factmem``."""

from __future__ import annotations

import gc
import io
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command of this process and exit.

    Exit codes: 0 success, 1 an error that is explained on stderr, 2 wrong usage, 130 interrupted, 141 broken pipe.
    """
    gc.set_threshold(100_000)  # the objects of the imports stay: collecting them took a tenth of a short command
    try:
        from factmem.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="factmem")
