"""Regular expressions that are compiled when they are first used.

Compiling all patterns of the library would take longer than importing the rest of it.
"""

from __future__ import annotations

import re
from typing import Any, cast

__all__ = ["lazy_pattern"]


class _LazyPattern:
    """Stands for a pattern: the first use of a method compiles it, and binds the compiled pattern's own method."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(re.compile(*self._source), name)  # `re` caches the compiled pattern
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return f"lazy_pattern{self._source!r}"


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at its first use.

    It has the methods and attributes of a compiled pattern. The functions of `re` do not take it.
    """
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))
