"""Connections to a database, and transactions of few round trips. It blocks: for worker threads only.

No state is left in a session: every statement names its schema, and settings end with their transaction. So a pooler
such as PgBouncer may hand each transaction to another session. The text of a server's error may hold values (a key that
is not unique, for example), so none of it is shown; its code names the case.
"""

from __future__ import annotations

import contextvars
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs
import psycopg
import psycopg_pool
from anyio import from_thread
from psycopg import sql

from factmem.errors import (
    CapabilityError,
    CorruptStoreError,
    FactMemError,
    InvalidDataError,
    NewerVersionError,
    ProviderClosedError,
    ReadOnlyError,
    StoreUnavailableError,
)
from factmem_postgres.address import Address
from factmem_postgres.schema import MIGRATIONS

T = TypeVar("T")

_OURS: Final = "factmem "
"""Beginning of the names of our pools."""


class _OfOthers(logging.Filter):
    """Drops the failed attempts of our pools, which would be logged by the dozen: a failed call raises their reason."""

    def filter(self, record: logging.LogRecord) -> bool:
        match record.args:
            case (str() as pool, *_):
                return not pool.startswith(_OURS)
            case _:
                return True


logging.getLogger("psycopg.pool").addFilter(_OfOthers())

_REPEATABLE: Final = frozenset({"40001", "40P01", "40003"})
"""Codes of a transaction that wrote nothing and may succeed when it is repeated."""

_MISSING: Final = frozenset({"42P01", "3F000"})
"""Codes of a table or schema that is not there."""

_STANDBY: Final = "25006"
"""Code of a write on a server that only reads."""

_CANCELLED: Final = "57014"

_DAMAGED: Final = frozenset({"XX001", "XX002", "42703", "42804", "42883"})
_UNENCODABLE: Final = frozenset({"22021", "22P05"})

_ADVICE: Final = (
    ("55P03", "another session holds a lock in {name}: try again, or open it with a longer timeout"),
    ("53100", "the disk of {name} is full: free some space, and save again"),
    ("53", "{name} has no room for another connection or statement: raise max_connections or its memory"),
    ("57", "{name} stopped the call: try again when the server is up"),
    ("58", "the server of {name} failed to read or write its disk: see its log"),
    (
        "42501",
        (
            "the role may not make or use the tables of {name}: let their owner run  factmem upgrade --create  and"
            " GRANT it SELECT, INSERT, UPDATE and DELETE on them"
        ),
    ),
)


def _own_error(error: psycopg.Error, name: str, *, lost: bool) -> FactMemError:
    """Return the error of factmem for an error of the driver.

    Args:
        error: Error of the driver.
        name: Name of the database.
        lost: Whether the connection broke.
    """
    code = error.sqlstate or ""
    if code in _DAMAGED:
        return CorruptStoreError(f"{name} is damaged or no factmem store: restore it from a backup")
    if code in _UNENCODABLE:
        return CapabilityError(f"{name} cannot hold every text: create it with  createdb --encoding UTF8")
    if code == _STANDBY:
        return ReadOnlyError(f"{name} only reads: give the address of the primary, or target_session_attrs=read-write")
    if isinstance(error, psycopg.DataError) and not code:
        return InvalidDataError("a text holds a NUL or a lone surrogate, which the database cannot carry")
    for start, advice in _ADVICE:
        if code.startswith(start):
            return StoreUnavailableError(advice.format(name=name))
    if lost:
        return StoreUnavailableError(
            f"the connection to {name} broke: try again when the server is up; saving the same facts again is harmless"
        )
    return StoreUnavailableError(
        f"{name} cannot be read or written just now ({code or type(error).__name__}): see the server's log"
    )


Row: TypeAlias = tuple[Any, ...]
Step: TypeAlias = tuple[str | sql.Composed, Mapping[str, Any]]
"""A statement that names its tables as ``{schema}.table``, and its arguments by name; or a setting with its value."""

_Connection: TypeAlias = psycopg.Connection[Row]

_TRIES: Final = 3
_CONNECT_TIMEOUT: Final = 5
_CANCEL_TIMEOUT: Final = 5.0
_IDLE_CONNECTION: Final = 300.0
"""Seconds after which an unused connection is closed."""

_BEGIN_TO_READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Without READ WRITE: a standby refuses that as it refuses what it does not know, and writes as what they are.
_BEGIN_TO_WRITE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
# A database may be set to acknowledge what is not on its disk yet.
_DURABLE: Final = (
    "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'"
    " ELSE current_setting('synchronous_commit') END, true)"
)
# Citus passes these on to its workers, and set_config not. They take no arguments.
_LOCK_TIMEOUT: Final = sql.SQL("SET LOCAL lock_timeout = {}")
_TURN: Final = "250ms"
"""Longest wait of one try to read."""
_IDLE_TIMEOUT: Final = sql.SQL("SET LOCAL idle_in_transaction_session_timeout = {}")
_OF_TENANT: Final = sql.SQL("SET LOCAL factmem.tenant = {}")
_SHARED: Final = "SELECT pg_advisory_xact_lock_shared(%(lock)s)"
_EXCLUSIVE: Final = "SELECT pg_advisory_xact_lock(%(lock)s)"

_THERE: Final = "SELECT to_regclass('{schema}.versions') IS NOT NULL, current_setting('server_encoding')"
_VERSIONS: Final = (
    "CREATE TABLE IF NOT EXISTS {schema}.versions("
    "version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
)
_VERSION: Final = "SELECT coalesce(max(version), 0) FROM {schema}.versions"


SEE_ALL: Final = "SET LOCAL factmem.tenants = 'all'"
"""Setting that lets the following statements see the counters of all tenants."""


def bytes_of(text: str | None) -> bytes:
    """Return a name as it is stored; the empty one stands for None."""
    return (text or "").encode(errors="surrogatepass")


def in_tenant(tenant: str | None, *statements: str, **arguments: Any) -> list[Step]:
    """Return the step that lets the following ones see the rows of a tenant and no others, and steps that follow.

    Args:
        tenant: Tenant.
        statements: Statements of the steps that follow.
        arguments: Arguments of all of these; ``tenant`` is the name of the tenant.
    """
    name = bytes_of(tenant)
    setting = _OF_TENANT.format(sql.Literal(f"\\x{name.hex()}"))
    given = {"tenant": name, **arguments}
    return [(setting, {}), *((statement, given) for statement in statements)]


@attrs.frozen
class Ending(Generic[T]):
    """The last statements of a transaction.

    Attributes:
        result: Result of the transaction, once it is committed.
        steps: Statements to commit; without any, the transaction is rolled back.
        proof: Statements of which the last returns a row if and only if the transaction was committed, in case that
            the connection breaks meanwhile. They wait until a transaction under way has ended. Without them, it is
            repeated.
    """

    result: T
    steps: Sequence[Step] = ()
    proof: Sequence[Step] = ()


class Session:
    """A write transaction under way.

    Args:
        ask: Sends statements together, and returns the rows of each.
        opening: Statements that begin the transaction, sent with the first others.
    """

    def __init__(self, ask: Callable[[Sequence[Step]], list[list[Row]]], opening: Sequence[Step]) -> None:
        self._ask = ask
        self._opening = list(opening)

    def ask(self, *steps: Step) -> list[list[Row]]:
        """Send statements in one round trip; return the rows of each."""
        opening, self._opening = self._opening, []
        return self._ask([*opening, *steps])[len(opening) :]


class Cancellation:
    """Ends the statement of one read, from another thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._connection: _Connection | None = None
        self.cancelled: bool = False

    def run(self, query: Callable[[], T]) -> T:
        """Call a query whose statements `cancel` is to end."""
        before = _CURRENT.set(self)
        try:
            return query()
        finally:
            _CURRENT.reset(before)

    def cancel(self) -> None:
        """Cancel the statement under way, if there is one."""
        with self._guard:
            self.cancelled = True
            if self._connection is not None:
                with suppress(psycopg.Error):
                    self._connection.cancel_safe(timeout=_CANCEL_TIMEOUT)

    @contextmanager
    def watching(self, connection: _Connection) -> Iterator[None]:
        """Let `cancel` end the statements of a connection while the block runs."""
        with self._guard:
            self._connection = connection
        try:
            yield
        finally:
            with self._guard:
                self._connection = None
                if self.cancelled:
                    connection.close()  # the signal may arrive late, and would end somebody else's statement


_CURRENT: Final[contextvars.ContextVar[Cancellation | None]] = contextvars.ContextVar("reading", default=None)
"""Cancellation of the read that runs in this thread."""


class Server:
    """Runs transactions on a database, over connections that are opened on first use.

    Args:
        address: Address of the database.

    Attributes:
        name: Name of the database, for messages.
        schema: Schema of the tables.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self.name: str = address.name
        self.schema: str = address.schema
        digest = hashlib.blake2b(f"factmem {address.schema}".encode(), digest_size=8).digest()
        self._lock = int.from_bytes(digest, signed=True)
        wait = round(address.timeout * 1000)
        self._opening: Sequence[Step] = (
            (_BEGIN_TO_WRITE, {}),
            (_LOCK_TIMEOUT.format(sql.Literal(f"{wait}ms")), {}),
            (_IDLE_TIMEOUT.format(sql.Literal(f"{6 * wait}ms")), {}),
            (_DURABLE, {}),
        )
        self._texts: dict[str, bytes] = {}
        self._guard = threading.Lock()
        self._pool: psycopg_pool.ConnectionPool[_Connection] | None = None
        self._closed = False
        self._ready = False

    def read(self, tenant: str | None, *statements: str, **arguments: Any) -> list[list[Row]]:
        """Return the rows of each statement, in one state of the store and one round trip; none if there is no store.

        Args:
            tenant: See `in_tenant`.
            statements: See `in_tenant`.
            arguments: See `in_tenant`.

        Raises:
            ProviderError: See `AgentMemoryProvider.load`.
        """
        return self._attempts(partial(self._read, steps=in_tenant(tenant, *statements, **arguments)))

    def write(self, work: Callable[[Session], Ending[T]], *, exclusive: bool = False) -> T:
        """Call ``work`` in a transaction, commit it, and return its result; the first write creates the store.

        A transaction whose connection breaks is repeated, unless it turns out to have been committed.

        Args:
            work: Called with the transaction; more than once if it is repeated.
            exclusive: Wait until no other transaction writes, of any tenant, and keep them out.

        Raises:
            ProviderError: See `AgentMemoryProvider.save`.
        """
        doubtful: Ending[T] | None = None

        def attempt(connection: _Connection) -> T:
            nonlocal doubtful
            self._prepare(connection, create=True)
            if doubtful is not None and self._landed(connection, doubtful):
                return doubtful.result
            lock = _EXCLUSIVE if exclusive else _SHARED
            opening = [*self._opening, (lock, {"lock": self._lock})]
            doubtful = work(Session(partial(self._ask, connection), opening))
            if doubtful.steps:
                self._commit(connection, doubtful.steps)
            else:
                connection.rollback()
            return doubtful.result

        return self._attempts(attempt)

    def format_version(self) -> int:
        """Return the version of the tables; 0 if there are none.

        Raises:
            ProviderError: See `AgentMemoryProvider.load`.
        """
        return self._attempts(lambda connection: self._found_version(partial(self._read_in_turns, connection)))

    def upgrade(self, *, create: bool) -> None:
        """Bring the tables up to date.

        Args:
            create: Whether to make them if there are none.

        Raises:
            ProviderError: See `AgentMemoryProvider.save`.
        """
        self._attempts(partial(self._prepare, create=create))

    def maintain(self, statement: str) -> None:
        """Run a statement that cannot be part of a transaction.

        Raises:
            ProviderError: See `AgentMemoryProvider.save`.
        """

        def attempt(connection: _Connection) -> None:
            connection.execute(self._text(statement))

        self._attempts(attempt)

    def close(self) -> None:
        """Close every connection; repeating is harmless."""
        with self._guard:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _attempts(self, action: Callable[[_Connection], T]) -> T:
        """Call an action with a connection, again with another one if that broke or the server asks for it."""
        for left in reversed(range(_TRIES)):
            with self._connection() as connection:
                try:
                    return action(connection)
                except psycopg.Error as error:
                    failed = error
                    again = self._may_repeat(connection, error)
            if not again or not left:
                raise _own_error(failed, self.name, lost=failed.sqlstate is None) from None
        raise AssertionError("unreachable: the last try returns or raises")

    def _may_repeat(self, connection: _Connection, error: psycopg.Error) -> bool:
        """Prepare for another try after an error; return whether that makes sense."""
        cancellation = _CURRENT.get()
        if cancellation is not None and cancellation.cancelled:
            return False
        if error.sqlstate in _MISSING:
            self._ready = False
        if error.sqlstate == _STANDBY:
            connection.close()
        if connection.closed:
            # The others lead to the same server.
            with suppress(psycopg_pool.PoolClosed):
                self._opened().drain()
            return True
        if error.sqlstate == _CANCELLED:
            return False
        with suppress(psycopg.Error):
            connection.rollback()
        return error.sqlstate in _REPEATABLE or error.sqlstate in _MISSING

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        pool = self._opened()
        try:
            connection = pool.getconn()
        except psycopg_pool.PoolClosed:
            raise ProviderClosedError("the provider was closed") from None
        except psycopg_pool.PoolTimeout:
            raise self._unreachable() from None
        try:
            cancellation = _CURRENT.get()
            if cancellation is None:
                yield connection
            else:
                with cancellation.watching(connection):
                    yield connection
        finally:
            pool.putconn(connection)

    def _opened(self) -> psycopg_pool.ConnectionPool[_Connection]:
        with self._guard:
            if self._closed:
                raise ProviderClosedError("the provider was closed")
            if self._pool is None:
                self._try_to_connect()
                self._pool = psycopg_pool.ConnectionPool(
                    kwargs=self._parameters(),
                    min_size=0,
                    max_size=self._address.pool_size,
                    open=True,
                    timeout=self._address.timeout,
                    reconnect_timeout=self._address.timeout,
                    max_idle=_IDLE_CONNECTION,
                    name=f"{_OURS}{self.schema}",
                )
            return self._pool

    def _parameters(self) -> dict[str, Any]:
        waiting = max(1, round(self._address.timeout))
        return {
            "connect_timeout": min(waiting, _CONNECT_TIMEOUT),
            "tcp_user_timeout": waiting * 1000,
            "application_name": "factmem",
            "client_encoding": "utf8",
            **self._address.connection,
            "autocommit": True,  # transactions are begun and ended by statements
            "prepare_threshold": None,
        }

    def _try_to_connect(self) -> None:
        """Find what is wrong with an address or a server at once; a pool tries until its time is over.

        Raises:
            StoreUnavailableError: The server cannot be reached.
        """
        try:
            psycopg.connect(**self._parameters()).close()
        except psycopg.Error as error:
            reason = self._address.without_secrets(str(error)).strip().rpartition("failed: ")[2]
            raise StoreUnavailableError(
                f"{self.name} cannot be reached ({' '.join(reason.split())}): check the address and the server"
            ) from None

    def _unreachable(self) -> StoreUnavailableError:
        try:
            self._try_to_connect()
        except StoreUnavailableError as error:
            return error
        return StoreUnavailableError(f"all connections to {self.name} are in use: open it with a larger pool_size")

    def _read(self, connection: _Connection, steps: Sequence[Step]) -> list[list[Row]]:
        if not self._prepare(connection, create=False):
            return [[] for _ in steps[1:]]
        return self._read_in_turns(connection, steps)[1:]

    def _read_in_turns(self, connection: _Connection, steps: Sequence[Step]) -> list[list[Row]]:
        """Return the rows of each statement, in one read transaction.

        Where another session holds a table, as ``VACUUM FULL`` does, the wait is made of short ones, so that a
        cancelled call ends soon.
        """
        ends = time.monotonic() + self._address.timeout
        opening: Sequence[Step] = ((_BEGIN_TO_READ, {}), (_LOCK_TIMEOUT.format(sql.Literal(_TURN)), {}))
        while True:
            try:
                return self._ask(connection, [*opening, *steps, ("COMMIT", {})])[len(opening) : -1]
            except psycopg.errors.LockNotAvailable:
                connection.rollback()
                if time.monotonic() >= ends:
                    raise
            with suppress(RuntimeError):  # a thread of the caller's own has nobody who could cancel it
                from_thread.check_cancelled()

    def _ask(self, connection: _Connection, steps: Sequence[Step]) -> list[list[Row]]:
        with connection.pipeline():
            cursors = [connection.execute(self._text(sql), arguments, binary=True) for sql, arguments in steps]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def _text(self, statement: str | sql.Composed) -> bytes | sql.Composed:
        if not isinstance(statement, str):
            return statement
        text = self._texts.get(statement)
        if text is None:
            text = self._texts[statement] = statement.replace("{schema}", f'"{self.schema}"').encode()
        return text

    def _commit(self, connection: _Connection, steps: Sequence[Step]) -> None:
        with connection.pipeline():
            for sql, arguments in steps:
                connection.execute(self._text(sql), arguments)
            ended = connection.execute("COMMIT")
        if ended.statusmessage != "COMMIT":
            raise psycopg.OperationalError("the server rolled the transaction back")

    def _landed(self, connection: _Connection, ending: Ending[Any]) -> bool:
        """Return whether a transaction was committed before its connection broke."""
        if not ending.proof:
            return False
        found = self._ask(connection, [*self._opening, *ending.proof])
        connection.rollback()
        return bool(found[-1])

    def _prepare(self, connection: _Connection, *, create: bool) -> bool:
        """Return whether the store is there and up to date, and make it so if ``create``."""
        if self._ready:
            return True
        version = self._found_version(partial(self._read_in_turns, connection))
        if version == 0 and not create:
            return False
        if version < len(MIGRATIONS):
            self._migrate(connection)
        self._ready = True
        return True

    def _found_version(self, ask: Callable[[Sequence[Step]], list[list[Row]]]) -> int:
        """Return the version of the tables; 0 if there are none.

        Args:
            ask: Sends statements, and returns the rows of each.

        Raises:
            NewerVersionError: A newer factmem made them.
            CapabilityError: The database cannot hold every text.
        """
        (((there, encoding),),) = ask([(_THERE, {})])
        if encoding != "UTF8":
            raise CapabilityError(
                f"{self.name} has the encoding {encoding}: create it with  createdb --encoding UTF8 -T template0"
            )
        if not there:
            return 0
        (((version,),),) = ask([(_VERSION, {})])
        if version > len(MIGRATIONS):
            raise NewerVersionError(
                f"the tables of {self.name} are of version {version}, newer than {len(MIGRATIONS)}: "
                "upgrade factmem to use them"
            )
        return int(version)

    def _migrate(self, connection: _Connection) -> None:
        """Bring the tables up to date in one transaction; several processes may try at once."""
        with connection.transaction():
            connection.execute(_LOCK_TIMEOUT.format(sql.Literal(f"{round(self._address.timeout * 1000)}ms")))
            connection.execute(_EXCLUSIVE, {"lock": self._lock})
            if connection.execute("SELECT to_regnamespace(%s)", [f'"{self.schema}"']).fetchone() == (None,):
                connection.execute(self._text("CREATE SCHEMA {schema}"))
            connection.execute(self._text(_VERSIONS))
            version = self._found_version(partial(self._ask, connection))
            for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
                connection.execute(self._text(script))
                connection.execute(self._text("INSERT INTO {schema}.versions(version) VALUES (%s)"), [number])
