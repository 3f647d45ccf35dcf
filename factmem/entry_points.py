"""Entry points: objects that factmem and other installed packages offer by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, distribution, entry_points
from typing import Final

_DISTRIBUTION: Final = "factmem"


def installed_entry_points(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without importing what they stand for.

    A name that factmem itself uses cannot be taken over by another package.
    """
    points = [*entry_points(group=group), *_own_entry_points().select(group=group)]
    return {point.name: point for point in sorted(points, key=lambda point: point.name)}


def named_entry_point(group: str, name: str, installed: Callable[[], Mapping[str, EntryPoint]]) -> EntryPoint | None:
    """Return one entry point of a group, or None.

    A name of factmem's own is looked up in its own metadata, which is much quicker than to read those of every
    installed package.

    Args:
        group: The group.
        name: The name.
        installed: Returns all entry points of the group, for a name that is not one of factmem's own.
    """
    for point in _own_entry_points().select(group=group, name=name):
        return point
    return installed().get(name)


@functools.cache
def _own_entry_points() -> EntryPoints:
    try:
        return distribution(_DISTRIBUTION).entry_points
    except PackageNotFoundError:  # the source folder is on the path, and nothing is installed
        return EntryPoints()
