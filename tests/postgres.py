"""One PostgreSQL server for all tests of a run, started by the first that needs it, with a schema for each store.

The processes of ``pytest -n`` share it: the first process of all decides where it lies, and stops it in the end.
``FACTMEM_TEST_POSTGRES`` is the address of a server to use instead; the tests make and drop schemas there.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

import filelock
import pytest

from factmem.errors import MissingPackageError, StoreUnavailableError
from tests.postgres_server import PostgresServer

if TYPE_CHECKING:
    import psycopg


OWN_SERVER: Final = "FACTMEM_TEST_POSTGRES"
_FOLDER: Final = "FACTMEM_TEST_POSTGRES_FOLDER"
"""Variable that carries the folder where they meet from the first process to the others."""

_LIFELINE: Final = "lifeline"
"""Name of the pipe that the first process holds open: the server ends with it, however it ends."""

_FASTER: Final = {
    # Tests of durability start a server of their own, which flushes.
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "300",
    "autovacuum": "off",
}
_MOST_SCHEMAS: Final = 300
"""Number of schemas, of a third of a megabyte each, that are dropped at once: it takes longer than most tests."""

_made: set[str] = set()
_started: list[PostgresServer] = []
_poolers: list[subprocess.Popen[bytes]] = []
_owner: dict[int, int] = {}
"""The first process, if this is it, and its end of the pipe."""


def start_of_tests() -> None:
    """Decide where the processes of a run meet; nothing is started."""
    if _FOLDER not in os.environ:
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="factmem-tests-")
        os.mkfifo(lifeline := Path(os.environ[_FOLDER]) / _LIFELINE)
        _owner[os.getpid()] = os.open(lifeline, os.O_RDWR)


def end_of_tests() -> None:
    """Stop the server if a test has started it, in the first process of the run."""
    if (held := _owner.pop(os.getpid(), None)) is not None:
        folder = Path(os.environ.pop(_FOLDER))
        os.close(held)
        if (started := folder / "server").exists():
            server = Path(started.read_text())
            for _ in range(200):
                if not server.exists():
                    break
                time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)


def own_server(settings: Mapping[str, str] | None = None) -> PostgresServer:
    """Return a server for some tests alone, or skip them where none can be had."""
    try:
        return PostgresServer(settings)
    except (MissingPackageError, StoreUnavailableError) as error:
        pytest.skip(f"no PostgreSQL server can be had here: {error}")


@functools.cache
def server_address() -> str:
    """Return the address of the server, started if need be; skips the test where none can be had."""
    if own := os.environ.get(OWN_SERVER):
        return own
    folder = Path(os.environ[_FOLDER])
    with filelock.FileLock(folder / "lock"):
        address, refused = folder / "address", folder / "refused"
        if refused.exists():
            pytest.skip(refused.read_text())
        if not address.exists():
            lifeline = os.open(folder / _LIFELINE, os.O_RDONLY)
            try:
                server = PostgresServer(_FASTER, lifeline=lifeline)
            except (MissingPackageError, StoreUnavailableError, OSError) as error:
                refused.write_text(f"no PostgreSQL server can be had here: {error}")
                pytest.skip(refused.read_text())
            finally:
                os.close(lifeline)
            _started.append(server)
            (folder / "server").write_text(str(server.folder))
            address.write_text(server.address())
        return address.read_text()


_POOLED: Final = """
[databases]
* = host={host} user={user} dbname={database}
[pgbouncer]
pool_mode = transaction
default_pool_size = 4
max_client_conn = 1000
auth_type = any
listen_addr =
listen_port = 5432
unix_socket_dir = {folder}
"""
_POOLING: Final = '"$0" --quiet "$1/pgbouncer.ini" & cat > /dev/null; kill $!; rm -rf "$1"'
"""Script that runs PgBouncer until the end of its input."""


@functools.cache
def pooler_address() -> str:
    """Return the address of a PgBouncer before the server, which gives each transaction any of a few sessions."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    parts = urlsplit(server_address())
    options = dict(parse_qsl(parts.query))
    if program is None or "host" not in options:
        pytest.skip("no PgBouncer can be had here: install it (apt-get install pgbouncer)")
    folder = Path(tempfile.mkdtemp(prefix="factmem-pool-"))
    folder.chmod(0o755)
    written = _POOLED.format(host=options["host"], user=parts.username, database=parts.path[1:], folder=folder)
    (folder / "pgbouncer.ini").write_text(written)
    if root := os.geteuid() == 0:  # it refuses to run as root
        shutil.chown(folder, "nobody")
    _poolers.append(
        subprocess.Popen(
            ["/bin/sh", "-c", _POOLING, program, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user="nobody" if root else None,
            start_new_session=True,
        )
    )
    while not (folder / ".s.PGSQL.5432").exists():
        assert _poolers[-1].poll() is None, "PgBouncer does not start"
        time.sleep(0.05)
    return urlunsplit(parts._replace(query=urlencode({**options, "host": str(folder)})))


def postgres_address(path: Path, *, server: str | None = None, **options: str) -> str:
    """Return the address of the store of a path: a schema of its own, which is dropped afterwards.

    Args:
        path: The path.
        server: Address of the server; by default, `server_address`.
        options: Options of the provider.
    """
    schema = _schema(path)
    _made.add(schema)
    parts = urlsplit(server or server_address())
    query = urlencode({**dict(parse_qsl(parts.query)), "schema": schema, "timeout": "5", **options})
    return urlunsplit(parts._replace(query=query))


def _schema(path: Path) -> str:
    return "test_" + hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest()


def schema_of(address: str) -> str:
    """Return the schema of a store's address."""
    return parse_qs(urlsplit(address).query)["schema"][0]


def connected(address: str, *, user: str | None = None, autocommit: bool = True) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a connection of the driver to the server of a store's address."""
    import psycopg

    url = urlsplit(address)
    query = {name: value for name, value in parse_qsl(url.query) if name not in ("schema", "timeout", "pool_size")}
    query["user"] = user or url.username or ""
    return psycopg.connect(urlunsplit(url._replace(query=urlencode(query))), autocommit=autocommit)


def tables_of(path: Path) -> bytes:
    """Return the rows of the store of a path, as the server holds them; none if there is no such store."""
    schema = _schema(path)
    if schema not in _made:
        return b""
    content = b""
    with connected(server_address()) as connection:
        query = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r' ORDER BY 1"
        for (table,) in connection.execute(query, [schema]).fetchall():
            with connection.cursor().copy(f'COPY "{schema}".{table} TO STDOUT (FORMAT BINARY)'.encode()) as rows:
                content += table.encode() + b"\0" + b"".join(map(bytes, rows))
    return content


def drop_schemas() -> None:
    """Drop the stores of a test at a server of somebody's; those at the own one go with it, or when they are many."""
    if not _made or (OWN_SERVER not in os.environ and len(_made) < _MOST_SCHEMAS):
        return
    with connected(server_address()) as connection:
        for schema in _made:
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'.encode())
    _made.clear()
