"""Detection of the capabilities of a provider."""

from __future__ import annotations

from typing import Final

from factmem.abc.capabilities import (
    BacksUp,
    ChecksItself,
    CopiesLogs,
    Erases,
    FeedsChanges,
    KeepsFiles,
    KeepsHistory,
    KeepsVectors,
    UpgradesFormat,
)
from factmem.abc.provider import AgentMemoryProvider

__all__ = ["capabilities_of"]

_CAPABILITIES: Final[tuple[type, ...]] = (
    KeepsHistory,
    FeedsChanges,
    KeepsVectors,
    Erases,
    CopiesLogs,
    KeepsFiles,
    ChecksItself,
    UpgradesFormat,
    BacksUp,
)


def capabilities_of(provider: AgentMemoryProvider) -> list[str]:
    """Return the names of the protocols of `factmem.abc.capabilities` that a provider satisfies.

    They are in the order of that module: ``["KeepsHistory", "Erases"]``.
    """
    return [capability.__name__ for capability in _CAPABILITIES if isinstance(provider, capability)]
