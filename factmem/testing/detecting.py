"""Detection of the capabilities of a provider."""

from __future__ import annotations

from typing import Final

from factmem.abc.capabilities import KeepsFiles, KeepsLog, ScansVectors, UpgradesFormat
from factmem.abc.outlines import KeepsOutlines
from factmem.abc.provider import AgentMemoryProvider

__all__ = ["capabilities_of"]

_CAPABILITIES: Final[tuple[type, ...]] = (KeepsLog, KeepsOutlines, ScansVectors, KeepsFiles, UpgradesFormat)


def capabilities_of(provider: AgentMemoryProvider) -> list[str]:
    """Return the names of the protocols that a provider satisfies, such as ``["KeepsLog", "KeepsFiles"]``.

    They are those of `factmem.abc.capabilities`, and `KeepsOutlines`.
    """
    return [capability.__name__ for capability in _CAPABILITIES if isinstance(provider, capability)]
