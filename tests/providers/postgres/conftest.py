"""A server of these tests' own, which flushes, and which they may kill and configure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres import own_server
from tests.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def durable_server() -> Iterator[PostgresServer]:
    """A server with the settings of a fresh installation; it logs every statement."""
    with own_server({"log_statement": "all", "autovacuum": "off"}) as server:
        yield server


@pytest.fixture
def address(durable_server: PostgresServer, request: pytest.FixtureRequest) -> str:
    """The address of an empty store on that server."""
    return durable_server.address(schema=f"of_{abs(hash(request.node.nodeid))}", timeout="60")
