"""The browser of a memory in the terminal.

`app.run` shows it until the person quits. Run ``factmem browse``; it needs the extra `browse`.
"""

from __future__ import annotations

from factmem.errors import MissingPackageError

with MissingPackageError.if_missing("textual>=8", extra="browse"):
    import textual  # noqa: F401
