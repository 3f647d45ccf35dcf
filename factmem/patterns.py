"""Searches in texts: factmem's own patterns, compiled when they are first used, and those of callers, in linear time.

Compiling all patterns of the library would take longer than importing the rest of it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from factmem.errors import InvalidDataError
from factmem.short_work import may_wait


class _LazyPattern:
    """Stands for a pattern: the first use of a method compiles it, and binds the compiled pattern's own method."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        may_wait()
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


@functools.lru_cache(maxsize=64)
def linear_search(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a pattern is found anywhere in a text, in time linear in the text.

    It is the syntax of Rust's `regex`, the engine that pydantic brings: that of `re` without look-around and
    back-references, which take more than linear time. ``(?i)`` in front ignores case.

    Raises:
        InvalidDataError: It is not such an expression, or needs more than 10 MB when compiled.
    """
    from pydantic_core import SchemaError

    try:
        return _in_rust(pattern)
    except SchemaError as error:
        reason = str(error).strip().splitlines()[-1].strip().removeprefix("error: ")
        raise InvalidDataError(f"not a regular expression that can be searched for: {reason}") from None


class LinearPattern:
    """A pattern that only says whether it occurs in a text, compiled at the first search.

    It is of the engine of `linear_search`, where a hundred alternatives take hardly longer than one.

    Args:
        pattern: The pattern.

    Attributes:
        pattern: The pattern.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern: Final = pattern

    def occurs_in(self, text: str) -> bool:
        """Return whether it occurs in a text."""
        if not text.isascii():  # the engine reads no lone surrogates
            text = text.encode(errors="surrogatepass").decode(errors="replace")
        return self._search(text)

    @functools.cached_property
    def _search(self) -> Callable[[str], bool]:
        return _in_rust(self.pattern)


def any_of(texts: Iterable[str]) -> LinearPattern:
    """Return the pattern that occurs where any of some texts does."""
    return LinearPattern("|".join(map(re.escape, texts)))


def _in_rust(pattern: str) -> Callable[[str], bool]:
    from pydantic_core import SchemaValidator, core_schema

    schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
    return SchemaValidator(schema).isinstance_python
