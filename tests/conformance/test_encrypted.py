"""`EncryptedMemoryProvider` keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

from factmem_encrypted import EncryptedMemoryProvider

from factmem.crypto import SecretKey
from factmem.testing import ProviderConformance

KEY = SecretKey(bytes(range(32)))


class TestEncryptedMemoryProvider(ProviderConformance):
    durable = True

    async def open_provider(self, directory: Path) -> EncryptedMemoryProvider:
        return EncryptedMemoryProvider(directory / "facts", KEY)
