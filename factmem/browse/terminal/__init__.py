"""The browser of a memory in the terminal.

`app.run` shows it until the person quits. Run ``factmem browse``; it needs the extra `browse`.
"""

from __future__ import annotations

from factmem.errors import MissingPackageError

try:
    import textual  # noqa: F401
except ModuleNotFoundError as _missing:
    raise MissingPackageError("textual>=8", extra="browse") from _missing
