"""The statements of the operations page run on a server, and those for Citus name every table by its tenant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg
import pytest
from factmem_postgres import PostgresMemoryProvider
from factmem_postgres.schema import TABLES

from factmem import Memory
from factmem.errors import MissingPackageError, StoreUnavailableError
from factmem.store_findings import FindingKind
from factmem.testing import HashEmbedder
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

PAGE: Final = (Path(__file__).parents[3] / "docs/pages/how-to/postgres.md").read_text(encoding="utf-8")
TEXTS: Final = ("The cellar is cold.", "The lamp in the cellar is broken.", "Ada likes tea.", "The tea is green.")
CITUS: Final = re.compile(
    r"SELECT (create_distributed_table|create_reference_table)\('factmem\.(\w+)'"
    r"(?:, '(\w+)')?(?:, colocate_with => 'factmem\.(\w+)')?\);"
)
# Refuses what Citus refuses: a table that is not there, and a unique key without the column.
STAND_INS: Final = """
CREATE FUNCTION create_reference_table(of regclass) RETURNS void LANGUAGE sql AS '';
CREATE FUNCTION create_distributed_table(of regclass, by text, colocate_with regclass DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_index i WHERE i.indrelid = of AND i.indisunique AND NOT EXISTS (
      SELECT FROM pg_attribute a WHERE a.attrelid = of AND a.attname = by AND a.attnum = ANY (i.indkey))) THEN
    RAISE EXCEPTION 'a unique key of % has no column %', of, by;
  END IF;
END $$;
"""


def _sql(heading: str) -> list[str]:
    """Return the SQL fences below a heading of the page."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(r"^```sql\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server with a database ``facts`` and the roles of the page."""
    try:
        server = PostgresServer({"fsync": "off"})
    except (MissingPackageError, StoreUnavailableError) as error:
        pytest.skip(f"no PostgreSQL server can be had here: {error}")
    with server:
        with psycopg.connect(server.address(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE facts ENCODING 'UTF8' TEMPLATE template0")
        with _connected(server) as connection:
            connection.execute(_sql("Roles")[0].encode())
        yield server


def _address(server: PostgresServer, user: str = "factmem") -> str:
    return server.address(user=user).replace("/postgres?", "/facts?")


def _connected(server: PostgresServer, user: str = "factmem") -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(_address(server, user), autocommit=True)


async def _remember(address: str) -> None:
    async with Memory(address, organization="acme", embedder=HashEmbedder()) as memory:
        for text in TEXTS:
            await memory.remember(text)


async def test_the_roles_of_the_page_can_do_their_work(server: PostgresServer) -> None:
    async with PostgresMemoryProvider(_address(server, "factmem_owner")) as owner:
        await owner.upgrade(create=True)
        assert list(await owner.check()) == []
    with _connected(server) as connection:
        connection.execute(_sql("Roles")[1].encode())
    await _remember(_address(server, "factmem_app"))
    async with Memory(_address(server, "factmem_app"), organization="acme", embedder=HashEmbedder()) as memory:
        await memory.remember("Bo has a lamp.")
        (match, *_) = await memory.recall("Who has a lamp?")
        assert match.record.value == "Bo has a lamp."
        assert (await memory.forget(match.record.id)).pending
    async with PostgresMemoryProvider(_address(server, "factmem_app")) as provider:
        assert [finding.kind for finding in await provider.check()] == [FindingKind.PENDING_ERASURE]
    with _connected(server, "factmem_app") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("DROP TABLE factmem.assertions")
    dumped = "SELECT count(*) FROM factmem.assertions"  # as pg_dump reads: with row security off
    for user, sees in (("factmem_backup", True), ("factmem_owner", False)):
        with _connected(server, user) as connection:
            connection.execute("SET row_security = off")
            if sees:
                assert connection.execute(dumped).fetchone() == (len(TEXTS),)
            else:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(dumped)


async def test_the_statements_for_monitoring_run(server: PostgresServer) -> None:
    await _remember(_address(server, "factmem_owner"))
    watching, tuning = _sql("Monitor")
    with _connected(server) as connection:
        found = [connection.execute(text.encode()).fetchall() for text in watching.split(";\n") if text.strip()]
        connection.execute(tuning.encode())
    assert found[0] == found[2] == []
    assert {*TABLES} <= {name for name, _, _ in found[1]}


async def test_vectors_can_be_searched_by_pgvector(server: PostgresServer) -> None:
    """The nearest of its statement are those of the vectors that recall uses."""
    address = _address(server, "factmem_owner")
    await _remember(address)
    async with PostgresMemoryProvider(address) as provider:
        seqs, vectors = await provider.vectors("acme")
    distances = dict(zip(seqs, 1 - vectors @ vectors[seqs.index(1)], strict=True))
    index, search = _sql("Vectors in your own SQL")
    with _connected(server) as connection:
        connection.execute(index.encode())
        *settings, query = [text for text in search.split(";\n") if text.strip()]
        for text in [*settings, "SET enable_seqscan = off", "SET enable_sort = off"]:
            connection.execute(text.encode())
        found: dict[int, float] = dict(connection.execute(query.encode()).fetchall())
        plan = connection.execute(f"EXPLAIN {query}".encode()).fetchall()
        ((read,),) = connection.execute("SELECT public.floats(embedding) FROM factmem.vectors WHERE seq = 1").fetchall()
    assert found.keys() == distances.keys()
    np.testing.assert_allclose([found[seq] for seq in seqs], [distances[seq] for seq in seqs], atol=1e-3)
    np.testing.assert_array_equal(np.asarray(read, np.float32), vectors[seqs.index(1)])
    assert any("vectors_near" in line for (line,) in plan)


async def test_the_statements_for_citus_distribute_every_table_by_its_tenant(server: PostgresServer) -> None:
    await _remember(_address(server, "factmem_owner"))
    setting, statements = _sql("Citus")
    found = CITUS.findall(statements)
    assert len(found) == statements.count(";")
    distributed = [(table, by, beside) for how, table, by, beside in found if how == "create_distributed_table"]
    assert distributed[0] == (TABLES[0], "tenant", "")
    assert distributed[1:] == [(table, "tenant", TABLES[0]) for table in TABLES[1:]]
    with _connected(server) as connection:
        connection.execute(setting.encode())
        connection.execute(STAND_INS.encode())
        connection.execute(statements.encode())
        there = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'factmem'::regnamespace AND relkind = 'r'"
        ).fetchall()
    assert sorted(table for _, table, _, _ in found) == sorted(name for (name,) in there)
