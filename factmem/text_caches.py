"""Caches of texts, which are cleared when something is forgotten."""

from __future__ import annotations

import functools
from typing import Any, Final, TypeVar

RECENT: Final = 1_024
"""Number of texts that are kept as they were read, for the next steps of a write: each takes a whole batch."""

_CACHES: Final[list[functools._lru_cache_wrapper[Any]]] = []
_CacheT = TypeVar("_CacheT", bound="functools._lru_cache_wrapper[Any]")


def forgettable(cache: _CacheT) -> _CacheT:
    """Let `forget_texts` clear a cache of texts, or of what was read in them. A decorator.

    Args:
        cache: A function with an ``lru_cache``.
    """
    _CACHES.append(cache)
    return cache


def forget_texts() -> None:
    """Clear the caches of texts, so that no erased text outlives in them."""
    for cached in _CACHES:
        cached.cache_clear()
