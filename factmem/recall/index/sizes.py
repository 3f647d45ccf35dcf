"""The memory that a mirror takes, in bytes: its arrays exactly, its Python objects by typical sizes."""

from __future__ import annotations

import contextlib
from typing import Final

import numpy as np

OBJECT: Final = 100
"""Typical bytes of an object in a container, with its place there."""

_HERE: Final = __name__.rpartition(".")[0]


def nbytes(*things: object) -> int:
    """Return the size of some parts of a mirror, counting what they share once.

    Arrays are counted where they own their memory; an object that states its own ``nbytes`` is believed. Objects of
    other packages, such as stores, do not count.
    """
    total, seen = 0, set[int]()
    left = list(things)
    while left:
        thing = left.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            total += thing.nbytes if thing.base is None else 0
        elif isinstance(stated := getattr(type(thing), "nbytes", None), property):
            total += stated.__get__(thing)
        elif isinstance(thing, dict):
            total += OBJECT * len(thing)
            left.extend(list(thing.values()))  # at once: a thread may be adding to it
        elif isinstance(thing, list | tuple):
            total += 8 * len(thing)
            left.extend(thing)
        elif type(thing).__module__.startswith(_HERE):
            total += OBJECT
            left.extend(list(getattr(thing, "__dict__", {}).values()))
            for name in getattr(type(thing), "__slots__", ()):
                with contextlib.suppress(AttributeError):
                    left.append(object.__getattribute__(thing, name))
    return total
