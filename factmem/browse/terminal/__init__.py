"""The browser of a memory in the terminal.

`run` shows it until the person quits. Run ``factmem browse``; it needs the extra `browse`.
"""

from __future__ import annotations

from factmem.errors import MissingPackageError

try:
    from factmem.browse.terminal.app import TerminalBrowser, run
except ImportError as _missing:
    if (_missing.name or "").partition(".")[0] != "textual":
        raise
    raise MissingPackageError("textual>=8", extra="browse") from _missing

__all__ = ["TerminalBrowser", "run"]
