"""Access of the kit to the provider under test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pytest

from factmem.abc import (
    AgentMemoryProvider,
    ChecksItself,
    Clock,
    CopiesLogs,
    Erases,
    FeedsChanges,
    KeepsAccesses,
    KeepsHistory,
    KeepsVectors,
)

__all__ = ["ProviderCase"]


class ProviderCase:
    """Base of every spec: a provider on a fresh store, and its capabilities.

    Attributes:
        durable: Whether facts persist when the same directory is opened again.
        capabilities: Capabilities that the provider promises, as `capabilities_of` names them; if set, a missing one
            fails instead of skipping its specs.
    """

    pytestmark: ClassVar[Any] = pytest.mark.anyio
    durable: ClassVar[bool] = False
    capabilities: ClassVar[Sequence[str] | None] = None

    async def open_provider(self, directory: Path) -> AgentMemoryProvider:
        """Open the provider under test; a subclass must implement this.

        Args:
            directory: Empty directory for this store alone; opening the same directory again must open the same store,
                if it is `durable`.
        """
        raise NotImplementedError(f"{type(self).__name__} must write `async def open_provider(self, directory)`")

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> AgentMemoryProvider | None:
        """Open the provider under test as `open_provider` does, with a clock that the kit sets.

        Args:
            directory: See `open_provider`.
            clock: Gives the times of recording.

        Returns:
            The provider; None, as here, skips the specs of clocks.
        """
        return None

    @pytest.fixture
    async def provider(self, tmp_path: Path) -> AsyncIterator[AgentMemoryProvider]:
        """The provider under test, on a fresh store; closed after the spec."""
        async with await self.open_provider(tmp_path) as provider:
            yield provider

    @pytest.fixture
    def history(self, provider: AgentMemoryProvider) -> KeepsHistory:
        """The provider as `KeepsHistory`; skips if it is not."""
        if not isinstance(provider, KeepsHistory):
            _skip(provider, "KeepsHistory")
        return provider

    @pytest.fixture
    def feed(self, provider: AgentMemoryProvider) -> FeedsChanges:
        """The provider as `FeedsChanges`; skips if it is not."""
        if not isinstance(provider, FeedsChanges):
            _skip(provider, "FeedsChanges")
        return provider

    @pytest.fixture
    def vectors(self, provider: AgentMemoryProvider) -> KeepsVectors:
        """The provider as `KeepsVectors`; skips if it is not."""
        if not isinstance(provider, KeepsVectors):
            _skip(provider, "KeepsVectors")
        return provider

    @pytest.fixture
    def eraser(self, provider: AgentMemoryProvider) -> Erases:
        """The provider as `Erases`; skips if it is not."""
        if not isinstance(provider, Erases):
            _skip(provider, "Erases")
        return provider

    @pytest.fixture
    def counter(self, provider: AgentMemoryProvider) -> KeepsAccesses:
        """The provider as `KeepsAccesses`; skips if it is not."""
        if not isinstance(provider, KeepsAccesses):
            _skip(provider, "KeepsAccesses")
        return provider

    @pytest.fixture
    def copier(self, provider: AgentMemoryProvider) -> CopiesLogs:
        """The provider as `CopiesLogs`; skips if it is not."""
        if not isinstance(provider, CopiesLogs):
            _skip(provider, "CopiesLogs")
        return provider

    @pytest.fixture
    def checker(self, provider: AgentMemoryProvider) -> ChecksItself:
        """The provider as `ChecksItself`; skips if it is not."""
        if not isinstance(provider, ChecksItself):
            _skip(provider, "ChecksItself")
        return provider

    async def reopened(self, provider: AgentMemoryProvider, directory: Path) -> AgentMemoryProvider:
        """Close a provider and open its directory again; skips if it is not `durable`."""
        if not self.durable:
            pytest.skip(f"{type(provider).__name__} is not durable")
        await provider.aclose()
        return await self.open_provider(directory)


def _skip(provider: AgentMemoryProvider, capability: str) -> NoReturn:
    pytest.skip(f"{type(provider).__name__} does not satisfy factmem.abc.{capability}")
