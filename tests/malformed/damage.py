"""Damage to the files of a store: random bytes, or wrong content with a right checksum."""

from __future__ import annotations

import contextlib
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import apsw
import psycopg
from factmem_postgres.engine import assertion_id, record_of
from factmem_postgres.schema import TABLES

from factmem.providers.sql_rows import checksum, partial_checksum, unpack_id, unpack_moment, unpack_record_id
from tests.malformed.mutating import hostile, hostile_text, mutated_bytes, mutated_json, torn_json
from tests.postgres import connected, postgres_address, schema_of

Files: TypeAlias = dict[str, bytes]
"""The files of a store by their path below its folder."""

_POSTGRES_TABLES: Final = (*TABLES, "meta", "versions")

Damage: TypeAlias = Callable[[random.Random, Files, Path], Files]
"""Function that returns damaged files; the folder holds the intact ones."""


def raw(rng: random.Random, files: Files, _: Path) -> Files:
    """Change bytes, remove a file, or replace one by another."""
    name = rng.choice(sorted(files))
    match rng.randrange(12):
        case 0:
            return {name: b""}
        case 1:
            return {name: files[rng.choice(sorted(files))]}
        case _:
            return {name: mutated_bytes(rng, files[name])}


def reframed(rng: random.Random, files: Files, folder: Path) -> Files:
    """Change the content of a line, and recompute its checksum."""
    name = rng.choice(sorted(files))
    if name.endswith("factmem.json"):
        return {name: torn_json(rng, json.loads(files[name]))}
    lines = files[name].split(b"\n")
    places = [place for place, line in enumerate(lines) if line]
    if not places or rng.random() < 0.2:
        return raw(rng, files, folder)
    place = rng.choice(places)
    payload = torn_json(rng, json.loads(lines[place][9:])).replace(b"\n", b"")
    lines[place] = b"%08x %b" % (zlib.crc32(payload), payload)
    if rng.random() < 0.1:
        lines.insert(place, lines[place])
    return {name: b"\n".join(lines)}


_TABLES: Final = ("meta", "tracks", "assertions", "state_changes", "tombstones", "heads", "sums", "vectors")
_STATEMENTS: Final = (
    "DROP TABLE {table}",
    "DELETE FROM {table}",
    "ALTER TABLE {table} RENAME TO elsewhere",
    "PRAGMA user_version=99999",
    "PRAGMA user_version=-1",
    "PRAGMA application_id=1",
    "CREATE TRIGGER t AFTER INSERT ON assertions BEGIN DELETE FROM assertions; END",
    "DROP INDEX assertions_slot",
    "UPDATE meta SET value = NULL",
    "DELETE FROM meta",
    "INSERT OR REPLACE INTO meta VALUES ('embedder', '[]')",
)


def rewritten(rng: random.Random, files: Files, folder: Path) -> Files:
    """Change rows or tables as another program could, bypassing SQLite's constraints."""
    if rng.random() < 0.3:
        return raw(rng, files, folder)
    (name,) = (name for name in files if name.endswith(".db"))
    connection = apsw.Connection(str(folder / name))
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
        if rng.random() < 0.3:
            connection.execute("PRAGMA writable_schema=ON")
            connection.execute("UPDATE sqlite_schema SET sql = replace(replace(sql, 'STRICT', ''), 'NOT NULL', '')")
            connection.execute("PRAGMA writable_schema=RESET")
        for _ in range(rng.choice([1, 1, 2])):
            _rewrite(rng, connection)
    except (apsw.Error, ValueError, OverflowError, IndexError):
        pass  # SQLite itself refuses the change, or its table was dropped before
    finally:
        connection.close()
    return {name: (folder / name).read_bytes()}


def _rewrite(rng: random.Random, connection: apsw.Connection) -> None:
    if rng.random() < 0.2:
        connection.execute(rng.choice(_STATEMENTS).format(table=rng.choice(_TABLES)))
        return
    if rng.random() < 0.5:
        _forge(rng, connection)
        return
    table = rng.choice(_TABLES[:7])
    columns = [column for (column,) in connection.execute(f"SELECT name FROM pragma_table_info('{table}')")]
    value: Any = hostile(rng)
    value = hostile_text(rng) if isinstance(value, list | dict) else value
    if rng.random() < 0.2:
        value = rng.randbytes(4)
    condition = f"rowid = (SELECT rowid FROM {table} ORDER BY rowid LIMIT 1 OFFSET {rng.randrange(5)})"
    if table == "sums":
        condition = f"sum = (SELECT sum FROM sums LIMIT 1 OFFSET {rng.randrange(5)})"
    if table == "meta":
        condition = rng.choice(["key = 'key'", "key = 'embedder'"])
    connection.execute(f"UPDATE {table} SET {rng.choice(columns)} = ? WHERE {condition}", (value,))


def _forge(rng: random.Random, connection: apsw.Connection) -> None:
    """Write another document to a row, with its checksum."""
    rows: list[Any] = connection.execute(
        "SELECT seq, id, record_id, recorded_at, doc, said_at, (SELECT doc FROM heads WHERE id = head)"
        " FROM assertions WHERE seq > 0 ORDER BY seq"
    ).fetchall()
    seq, id, record_id, recorded_at, doc, said_at, head = rng.choice(rows)
    forged = torn_json(rng, json.loads(doc)).decode(errors="replace").replace("\0", "")
    if rng.random() < 0.1:
        forged = json.dumps(mutated_json(rng, {"v": 1, "kind": "tombstone", "assertion_id": "x", "seq": 1}))
    partial = partial_checksum(forged, said_at, head)
    found = checksum(
        seq, unpack_id(id, seq), unpack_record_id(record_id, unpack_id(id, seq)), unpack_moment(recorded_at), partial
    )
    connection.execute("UPDATE assertions SET doc = ?, checksum = ? WHERE seq = ?", (forged, found, seq))


def rewritten_tables(rng: random.Random, files: Files, folder: Path) -> Files:
    """Put the tables of a PostgreSQL store back as they were first seen, and change a row of one."""
    address, whole = postgres_address(folder), schema_of(postgres_address(folder / "whole"))
    schema = schema_of(address)
    with connected(address) as connection:
        if connection.execute("SELECT to_regnamespace(%s)", [whole]).fetchone() == (None,):
            connection.execute(f"CREATE SCHEMA {whole}".encode())
            for table in _POSTGRES_TABLES:
                connection.execute(f"CREATE TABLE {whole}.{table} AS TABLE {schema}.{table}".encode())
        for table in _POSTGRES_TABLES:
            connection.execute(f"DELETE FROM {schema}.{table}".encode())
            connection.execute(f"INSERT INTO {schema}.{table} SELECT * FROM {whole}.{table}".encode())
        with contextlib.suppress(psycopg.Error):  # what the server itself refuses needs no test here
            _rewrite_row(rng, connection, schema)
    return {}


def _rewrite_row(rng: random.Random, connection: psycopg.Connection[tuple[Any, ...]], schema: str) -> None:
    if rng.random() < 0.3:
        _forge_row(rng, connection, schema)
        return
    table = rng.choice(_POSTGRES_TABLES)
    row = f"ctid = (SELECT ctid FROM {schema}.{table} ORDER BY ctid LIMIT 1 OFFSET {rng.randrange(4)})"
    if rng.random() < 0.2:
        connection.execute(f"DELETE FROM {schema}.{table} WHERE {row}".encode())
        return
    kinds = connection.execute(
        "SELECT attname, atttypid::regtype::text FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
        [f"{schema}.{table}"],
    ).fetchall()
    column, kind = rng.choice(kinds)
    value: Any = {
        "bytea": rng.choice([rng.randbytes(rng.randrange(20)), hostile_text(rng).encode(errors="replace")]),
        "text": hostile_text(rng).replace("\0", "").encode(errors="replace").decode(),
        "boolean": rng.random() < 0.5,
    }.get(kind, rng.choice([0, -1, rng.randrange(20), rng.getrandbits(62), None]))
    connection.execute(f"UPDATE {schema}.{table} SET {column} = %s WHERE {row}".encode(), [value])


def _forge_row(rng: random.Random, connection: psycopg.Connection[tuple[Any, ...]], schema: str) -> None:
    """Write another document into a row, with the checksum of that."""
    rows = connection.execute(
        "SELECT a.tenant, a.seq, a.id, a.record_id, a.recorded_at, a.doc, a.said_at, h.doc"
        f" FROM {schema}.assertions a JOIN {schema}.heads h ON h.tenant = a.tenant AND h.id = a.head"
        " ORDER BY a.tenant, a.seq".encode()
    ).fetchall()
    tenant, seq, packed_id, record_id, recorded_at, doc, said_at, head = rng.choice(rows)
    forged = torn_json(rng, json.loads(doc)).decode(errors="replace").replace("\0", "")
    id = assertion_id(packed_id, seq)
    partial = partial_checksum(forged, said_at, head)
    found = checksum(seq, id, record_of(record_id, id), unpack_moment(recorded_at), partial)
    changed = f"UPDATE {schema}.assertions SET doc = %s, checksum = %s WHERE tenant = %s AND seq = %s"
    connection.execute(changed.encode(), [forged, found, tenant, seq])


DAMAGES: Final[dict[str, Damage]] = {"file": reframed, "sqlite-vec": rewritten, "postgres": rewritten_tables}
"""Damage by kind of store; stores of other kinds get random bytes."""
