"""`EncryptedMemoryProvider` keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

import pytest
from factmem_encrypted import EncryptedMemoryProvider

from factmem.abc.clock import Clock
from factmem.crypto import SecretKey
from factmem.testing import ProviderConformance

KEY = SecretKey(bytes(range(32)))


@pytest.fixture
def anyio_backend() -> str:
    """All waiting is in the plain provider, which is tested on both event loops."""
    return "asyncio"


class TestEncryptedMemoryProvider(ProviderConformance):
    durable = True

    async def open_provider(self, directory: Path) -> EncryptedMemoryProvider:
        return EncryptedMemoryProvider(directory / "facts", KEY)

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> EncryptedMemoryProvider:
        return EncryptedMemoryProvider(directory / "facts", KEY, clock=clock)
