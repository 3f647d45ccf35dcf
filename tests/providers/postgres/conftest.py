"""A server of these tests' own, which flushes, and which they may kill and configure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from factmem.errors import MissingPackageError, StoreUnavailableError
from tests.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def durable_server() -> Iterator[PostgresServer]:
    """A server with the settings of a fresh installation; it logs every statement."""
    try:
        server = PostgresServer({"log_statement": "all", "autovacuum": "off"})
    except (MissingPackageError, StoreUnavailableError) as error:
        pytest.skip(f"no PostgreSQL server can be had here: {error}")
    with server:
        yield server


@pytest.fixture
def address(durable_server: PostgresServer, request: pytest.FixtureRequest) -> str:
    """The address of an empty store on that server."""
    return durable_server.address(schema=f"of_{abs(hash(request.node.nodeid))}", timeout="20")
