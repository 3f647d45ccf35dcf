"""What the tests of the walls share."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Walls stand on either event loop alike; that everything runs on both is tested where it belongs."""
    return "asyncio"
