"""Every key begins with the tenant, every statement names it, and row-level security is a second wall."""

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
from factmem.abc.capabilities import Access, StateRequest
from factmem.errors import StoreUnavailableError
from factmem.records import AssertionState, Place, Recorded
from factmem.store_findings import FindingKind
from factmem.testing import HashEmbedder
from factmem.testing.conformance.samples import (
    CITY,
    LANGUAGES,
    PLANNER,
    USER,
    at,
    loaded_value,
    multiple,
    only,
    said,
    single,
)
from tests.postgres import connected, own_server, postgres_address, schema_of
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

WITHOUT_TENANTS: Final = {"meta", "versions"}
_ACME: Final = PLANNER.within("acme")


async def test_every_key_begins_with_the_tenant_and_none_refers_to_another_table(tmp_path: Path) -> None:
    """So the tables can be distributed over a cluster by tenant."""
    address = postgres_address(tmp_path)
    async with PostgresMemoryProvider(address) as provider:
        await provider.save(single(CITY, "Oslo"), USER, PLANNER)
    with connected(address) as connection:
        keys = connection.execute(
            "SELECT c.relname, i.indexrelid::regclass::text, a.attname FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indrelid"
            " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]"
            " WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r'",
            [schema_of(address)],
        ).fetchall()
        foreign = connection.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'f' AND connamespace = %s::regnamespace",
            [schema_of(address)],
        ).fetchall()
        walls = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'"
            " AND relrowsecurity AND relforcerowsecurity",
            [schema_of(address)],
        ).fetchall()
    assert {table for table, _, _ in keys} == {*TABLES, *WITHOUT_TENANTS}
    assert {name: first for table, name, first in keys if table not in WITHOUT_TENANTS and first != "tenant"} == {}
    assert foreign == []
    assert {name for (name,) in walls} == set(TABLES)


async def _everything(provider: PostgresMemoryProvider) -> None:
    """Call all that a provider can do."""
    async with Memory(provider, embedder=HashEmbedder(), organization="acme") as memory:
        await memory.save(multiple(LANGUAGES, "Thai", "Ewe"), subject=USER, scope=PLANNER)
        assert await memory.recall("Thai")
        await memory.list_records()
        await memory.admin.reembed()
    first = await only(provider, said(CITY, "Oslo"))
    await only(provider, said(CITY, "Rome", 1, revises=first.record_id))
    await provider.append([StateRequest.of(first, AssertionState.RETRACTED, reason="why")])
    await provider.add_accesses(None, {first.record_id: Access(count=1, last=at())})
    await provider.accesses(None, [first.record_id])
    await provider.entries(Place(USER, PLANNER), "city")
    await provider.vectors("acme")
    part = await provider.log_part("acme")
    await provider.begin_copy(["copy"])
    await provider.put_log_part("copy", type(part)(since=0, until=3, entries=[]))
    await provider.end_copy(["copy"])
    await provider.erase([first.record_id], tenant=None)
    await provider.check()


async def test_every_statement_names_the_tenant(durable_server: PostgresServer, address: str) -> None:
    """As the server logs them; but for the making of the tables, their rewriting, and the list of tenants."""
    async with PostgresMemoryProvider(address) as provider:
        await _everything(provider)
    schema = schema_of(address)
    sent = {line.partition(": ")[2] for line in durable_server.log().splitlines() if f'"{schema}".' in line}
    of_tenants = {text for text in sent if re.search(rf'"{schema}"\.({"|".join(TABLES)})\b', text)}
    rest = {text for text in of_tenants if not re.search(r"\btenant = \$\d|\(tenant\b[^)]*\)", text)}
    allowed = re.compile(r"(statement: )?.*\b(CREATE|ALTER|VACUUM|SELECT tenant(, copying)? FROM)\b")
    assert len(of_tenants) > 40
    assert {text for text in rest if not allowed.match(text)} == set()


@pytest.fixture
def role(durable_server: PostgresServer) -> str:
    """A role that owns nothing and may not bypass anything."""
    with connected(durable_server.address()) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'app'").fetchone():
            connection.execute("CREATE ROLE app LOGIN")
    return "app"


async def _granted(durable_server: PostgresServer, address: str, role: str) -> str:
    """Make the store as its owner, let a role use it, and return the role's address."""
    async with PostgresMemoryProvider(address) as owner:
        await owner.save(single(CITY, "Oslo"), USER, PLANNER)
        await owner.save(single(CITY, "Rome"), USER, _ACME)
    schema = schema_of(address)
    with connected(address) as connection:
        connection.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {role}'.encode())
        connection.execute(
            f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{schema}" TO {role}'.encode()
        )
    return durable_server.address(user=role, schema=schema)


async def test_a_role_that_is_not_the_owner_does_all_that_an_application_needs(
    durable_server: PostgresServer, address: str, role: str
) -> None:
    async with PostgresMemoryProvider(await _granted(durable_server, address, role)) as provider:
        await _everything(provider)
        assert await loaded_value(provider, CITY) is None
        assert list(await provider.tenants()) == [None, "acme", "copy"]
        assert [type(entry) for entry in await provider.changes("acme")][:1] == [Recorded]


async def test_rows_of_other_tenants_are_hidden_from_a_statement_that_forgets_the_tenant(
    durable_server: PostgresServer, address: str, role: str
) -> None:
    """And they cannot be written: the second wall stands behind every statement."""
    await _granted(durable_server, address, role)
    schema = schema_of(address)
    with connected(address, user=role) as connection:

        def tenants(setting: str | None) -> set[bytes]:
            with connection.transaction():
                if setting is not None:
                    connection.execute("SELECT set_config('factmem.tenant', %s, true)", [setting])
                rows = connection.execute(f'SELECT tenant FROM "{schema}".assertions'.encode()).fetchall()
            return {tenant for (tenant,) in rows}

        assert tenants(None) == set()
        assert tenants("\\x") == {b""}
        assert tenants("\\x" + b"acme".hex()) == {b"acme"}
        assert tenants(None) == set()
        with connection.transaction(force_rollback=True):
            connection.execute("SELECT set_config('factmem.tenant', %s, true)", ["\\x" + b"acme".hex()])
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"INSERT INTO \"{schema}\".counters VALUES ('other', 0, 0, 0)".encode())


async def test_a_role_without_rights_is_reported_with_the_next_step(
    durable_server: PostgresServer, address: str, role: str
) -> None:
    async with PostgresMemoryProvider(address) as owner:
        await owner.save(single(CITY, "Oslo"), USER, PLANNER)
    async with PostgresMemoryProvider(durable_server.address(user=role, schema=schema_of(address))) as provider:
        with pytest.raises(StoreUnavailableError, match="GRANT"):
            await provider.load(CITY, USER, PLANNER)
    async with PostgresMemoryProvider(durable_server.address(user=role, schema="not_there_yet")) as provider:
        assert await provider.load(CITY, USER, PLANNER) is None
        with pytest.raises(StoreUnavailableError, match="upgrade --create"):
            await provider.save(single(CITY, "Oslo"), USER, PLANNER)


# The statements of the operations page run on a server, and those for Citus name every table by its tenant.


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
    with own_server({"fsync": "off"}) as server:
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
