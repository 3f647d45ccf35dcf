"""The providers that factmem ships, read from its entry points, so that a new one is found by itself."""

from __future__ import annotations

from importlib.metadata import EntryPoint

from factmem.providers.registry import provider_entry_points


def own_providers() -> dict[str, EntryPoint]:
    """Return factmem's own providers, each by the first of its names."""
    own = [point for point in provider_entry_points().values() if point.module.startswith("factmem")]
    first = {point.value: point for point in sorted(own, key=lambda point: point.name, reverse=True)}
    return {point.name: point for point in first.values()}


def own_packages() -> list[str]:
    """Return the import packages of the providers beside the core."""
    return sorted({point.module for point in own_providers().values()} - {"factmem"})
