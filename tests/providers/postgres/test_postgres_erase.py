"""An erasure removes its bytes from the tables, and says that it is pending until the log has turned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from factmem_postgres import PostgresMemoryProvider

from factmem import Concept, FactDetails, InMemoryProvider, Memory, MultipleFacts, Origin, SingleFact
from factmem.errors import ConceptConflictError
from factmem.store_findings import FindingKind
from factmem.testing.conformance.samples import CITY, LANGUAGES, only, said
from tests.narrowing import not_none
from tests.postgres import connected, schema_of
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

CANARY = "qcanaryofthecellarq"


def _holding(folder: Path) -> Sequence[str]:
    """Return the files of a cluster that hold the canary, by the folder that they are in."""
    holding = (path for path in folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes())
    return sorted({path.relative_to(folder).parts[0] for path in holding})


def _turn_the_log(address: str) -> None:
    """Let the server write over its log, as it does in the course of time."""
    with connected(address) as connection:
        for _ in range(8):
            connection.execute("CHECKPOINT")
            connection.execute("SELECT pg_logical_emit_message(false, 'turn', 'x')")
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")


async def test_an_erasure_is_pending_until_the_log_has_turned(durable_server: PostgresServer, address: str) -> None:
    async with PostgresMemoryProvider(address) as provider:
        for number in range(5):
            await only(provider, said(LANGUAGES, f"other {number}", number))
        gone = await only(provider, said(CITY, CANARY, 9))  # the last row of its page: its bytes outlive a VACUUM
        with connected(address) as connection:
            connection.execute("CHECKPOINT")
        assert _holding(durable_server.data) == ["base", "pg_wal"]
        receipt = await provider.erase([gone.record_id], tenant=None)
        with connected(address) as connection:
            connection.execute("CHECKPOINT")
        assert (receipt.erased, receipt.pending) == (1, True)
        assert _holding(durable_server.data) == ["pg_wal"]
        assert [finding.kind for finding in await provider.check()] == [FindingKind.PENDING_ERASURE]
        for _ in range(4):
            _turn_the_log(address)
            receipt = await provider.erase([], tenant=None)
        assert (receipt.erased, receipt.pending) == (0, False)
        assert _holding(durable_server.data) == []
        assert list(await provider.check()) == []


async def test_an_erasure_waits_for_those_who_still_see_the_rows(address: str) -> None:
    """Their snapshot keeps them; the tables are rewritten after it is gone, by the next erasure."""
    async with PostgresMemoryProvider(address) as provider:
        gone = await only(provider, said(CITY, CANARY))
        with connected(address, autocommit=False) as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT count(*) FROM pg_class")
            assert (await provider.erase([gone.record_id], tenant=None)).pending
            assert _rewritten(address) == [False]
        await provider.erase([], tenant=None)
        assert _rewritten(address) == [True]


async def test_an_erasure_on_a_cluster_is_left_to_its_administrator(address: str) -> None:
    """The tables and the log that this node could show are not those that hold the rows."""
    async with PostgresMemoryProvider(address) as provider:
        gone = await only(provider, said(CITY, CANARY))
        with _citus(address) as connection:
            for records in ([gone.record_id], []):
                assert (await provider.erase(records, tenant=None)).pending
            assert _rewritten(address) == [False]
            assert [finding.kind for finding in await provider.check()] == [FindingKind.PENDING_ERASURE]
            connection.execute(f"DELETE FROM {schema_of(address)}.erasures".encode())
            assert not (await provider.erase([], tenant=None)).pending


@contextmanager
def _citus(address: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Let a database say that Citus is installed, and return a connection to it."""
    with connected(address) as connection:
        connection.execute("SET allow_system_table_mods = on")
        connection.execute(
            "INSERT INTO pg_extension(oid, extname, extowner, extnamespace, extrelocatable, extversion)"
            " VALUES (99999, 'citus', 10, 'public'::regnamespace, false, '13')"
        )
        try:
            yield connection
        finally:
            connection.execute("DELETE FROM pg_extension WHERE oid = 99999")


def _rewritten(address: str) -> list[bool]:
    with connected(address) as connection:
        rows = connection.execute(
            f"SELECT rewritten IS NOT NULL FROM {schema_of(address)}.erasures".encode()
        ).fetchall()
    return [found for (found,) in rows]


async def test_what_was_accepted_keeps_its_type_in_a_copy_when_all_else_is_erased(address: str) -> None:
    """In a part that begins with the acceptance of an earlier one's, the next is marked as soon as it is written."""
    doubtful = FactDetails(origin=Origin.UNKNOWN)
    age, texts = Concept.multiple("age", "Age", int), Concept.multiple("age", "Age")
    async with InMemoryProvider() as source, Memory(source) as memory:
        for fact in (SingleFact(CITY, "Bern"), MultipleFacts(age, [3])):
            await memory.save(fact, details=doubtful)
            (waiting,) = await memory.inbox.quarantine.list()
            await memory.inbox.quarantine.accept(waiting.id)
        await memory.save(MultipleFacts(age, [4]))
        async with PostgresMemoryProvider(address) as copy:
            await copy.begin_copy([None])
            await copy.use_embedder(not_none(await source.embedder()), replace=False)
            first = await source.log_part(None, 0, limit=1)
            for part in (first, await source.log_part(None, first.until)):
                await copy.put_log_part(None, part)
            await copy.end_copy([None])
            async with Memory(copy) as moved:
                await moved.forget(*[record.id for record in await moved.list_records() if record.value == 4])
                with pytest.raises(ConceptConflictError):
                    await moved.save(MultipleFacts(texts, ["abc"]))
