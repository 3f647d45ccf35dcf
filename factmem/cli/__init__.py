"""The command line: ``factmem …``."""

from __future__ import annotations

import io
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command that the process was started with, and exit.

    Exit codes: 0 fine, 1 an error that the message on stderr explains, 2 wrong usage, 130 interrupted,
    141 nobody reads the output any more.
    """
    try:
        from factmem.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="factmem")
