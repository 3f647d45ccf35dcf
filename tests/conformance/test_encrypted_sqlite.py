"""`EncryptedSqliteMemoryProvider` keeps every promise of the kit."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from factmem_encrypted_sqlite import EncryptedSqliteMemoryProvider

from factmem.abc.clock import Clock
from factmem.crypto import SecretKey
from factmem.testing import ProviderConformance

KEY = SecretKey(bytes(range(32)))

pytestmark = pytest.mark.skipif(
    not hasattr(apsw, "mc_version"), reason="apsw here cannot encrypt: apsw-sqlite3mc is not installed, or overwritten"
)


@pytest.fixture
def anyio_backend() -> str:
    """All waiting is in the plain provider, which is tested on both event loops."""
    return "asyncio"


class TestEncryptedSqliteMemoryProvider(ProviderConformance):
    durable = True
    capabilities = ("KeepsLog", "KeepsOutlines", "ScansVectors", "KeepsFiles", "UpgradesFormat")

    async def open_provider(self, directory: Path) -> EncryptedSqliteMemoryProvider:
        return EncryptedSqliteMemoryProvider(directory / "facts.db", KEY)

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> EncryptedSqliteMemoryProvider:
        return EncryptedSqliteMemoryProvider(directory / "facts.db", KEY, clock=clock)
