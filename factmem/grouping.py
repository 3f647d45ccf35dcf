"""Groups of items that share a key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
KeyT = TypeVar("KeyT", bound=Hashable)


def grouped(items: Iterable[T], key: Callable[[T], KeyT]) -> dict[KeyT, list[T]]:
    """Return items by their keys: each group in the order of the items, the groups in the order of their first ones.

    Args:
        items: The items.
        key: Function that returns the key of an item.
    """
    groups: dict[KeyT, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
