"""Values that are there, for tests that look at them."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def not_none(value: T | None) -> T:
    """Return a value that must not be None."""
    assert value is not None
    return value
