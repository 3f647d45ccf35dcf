"""The open file: one connection that writes and several that read. It blocks: for worker threads.

What `Store.remembered` has in memory is for the event loop as well.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import attrs

from factmem.errors import CorruptStoreError, FactMemError, ProviderClosedError, ReadOnlyError, StoreUnavailableError
from factmem.private_files import FlushError, leftovers, open_to_change, sync_file, sync_folder, write_all
from factmem.progress import Progress
from factmem.providers.backups import refuse_unfinished_restore
from factmem.providers.threaded import foreign_rows
from factmem.short_work import may_wait
from factmem_sqlite_vec.codecs import PageCodec, closing_on_error, connected, is_unchanging
from factmem_sqlite_vec.schema import FORMAT, format_version, found_version, migrate
from factmem_sqlite_vec.sqlite_errors import ReadError, detecting_failed_reads, distrusted, is_failed_flush, own_errors

T = TypeVar("T")

_WRITER_PRAGMAS: Final = (
    "secure_delete=ON",
    "synchronous=FULL",
    "fullfsync=ON",
    "checkpoint_fullfsync=ON",
    "cache_size=-16384",
    # 16 MB of WAL: a page that is changed often is then written back once.
    "wal_autocheckpoint=4000",
)


_COPIED_PAGES: Final = 2_000
"""Number of pages that are copied at once, between two reports of progress."""

_MOST_CHANGES_OF_KEY: Final = 10
"""Maximum number of key changes of a database while one transaction begins."""


_MOST_ANSWERS: Final = 1024


@attrs.frozen(eq=False)
class _StandIn:
    """A migrated copy of a file.

    Attributes:
        of: Connection to the file.
        state: Its `data_version`.
        copy: The copy, in memory.
    """

    of: apsw.Connection
    state: int
    copy: apsw.Connection


class Store:
    """Provides connections to a file, opened on first use; the first write creates the file.

    Args:
        path: Path of the file.
        codec: Codec of the file.
        read_only: Never write, nor create the file.
        busy_timeout: Longest wait for another process's lock, in seconds.

    Attributes:
        name: The file's name without its folder, for errors.
        codec: Codec of the file.
        read_only: Whether writes are refused.
    """

    def __init__(self, path: Path, codec: PageCodec, *, read_only: bool, busy_timeout: float) -> None:
        self._path = path
        self.name: str = path.name
        self.codec: PageCodec = codec
        self.read_only: bool = read_only
        self._busy_timeout = busy_timeout
        self._writing = threading.Lock()
        self._writer: apsw.Connection | None = None
        self._written_to: tuple[int, int] | None = None
        self._pool = threading.Condition()
        self._idle: list[apsw.Connection] = []
        self._lent = 0
        self._stand_in: _StandIn | None = None
        self._answers: dict[str, tuple[apsw.Connection, int, int]] = {}
        self._damage: type[CorruptStoreError] | None = None
        self._distrusted = False
        self._closed = False

    def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Call ``work`` with exclusive use of the writing connection.

        Raises:
            ReadOnlyError: The store was opened for reading only.
            ProviderError: See `AgentMemoryProvider.save`.
        """
        if self.read_only:
            raise ReadOnlyError(f"{self.name} was opened for reading only: open it without read_only to write")
        with self._writing:
            if self._damage is not None:
                raise self._damage(f"{self.name} was found damaged and is not written to: restore it")
            if self._distrusted:
                raise distrusted(self.name)
            guarded = partial(self._noticing_failed_flushes, work)
            return self._noticing_damage(lambda: self._with_its_key(guarded, self._drop_writer))

    def read(self, query: Callable[[apsw.Connection], T], *, as_it_is: bool = False) -> T:
        """Call ``query`` with a connection in one snapshot of the store.

        Args:
            query: Called with a file of the present format; a file of an older one is migrated in memory.
            as_it_is: Whether it gets a file of an older format instead.

        Raises:
            ProviderError: See `AgentMemoryProvider.load`.
        """

        def wanted(connection: apsw.Connection) -> T:
            if as_it_is or format_version(connection) == FORMAT:
                self._stand_in = None
                return query(connection)
            return self._read_older(connection, query)

        return self._noticing_damage(lambda: self._with_its_key(lambda: self._read(wanted), self._drop_idle))

    def remembered(self, name: str, query: Callable[[apsw.Connection], int]) -> int:
        """Return the answer to a query, from memory for as long as nobody writes to the store.

        Args:
            name: Name of the query, for the memory.
            query: See `read`.

        Raises:
            ProviderError: See `read`.
        """

        def remember(connection: apsw.Connection) -> int:
            state, answer = _data_version(connection), query(connection)
            if connection.filename:  # no copy in memory
                if len(self._answers) >= _MOST_ANSWERS:
                    self._answers.clear()
                self._answers[name] = connection, state, answer
            return answer

        answer = self._unchanged_answer(name)
        if answer is None:
            may_wait()
            return self.read(remember)
        return answer

    def _unchanged_answer(self, name: str) -> int | None:
        """Return the answer to a query if nobody has written since; None if that is not known."""
        of, seen, answer = self._answers.get(name, (None, 0, 0))
        if not self._pool.acquire(blocking=False):  # another thread may migrate a copy meanwhile
            return None
        try:
            if of is None or of not in self._idle:
                return None
            self._idle.remove(of)
            self._lent += 1
        finally:
            self._pool.release()
        of.set_busy_timeout(0)  # the event loop may ask
        try:
            unchanged = _data_version(of) == seen
        except apsw.BusyError:  # a read waits
            unchanged = False
        except apsw.Error:  # a read finds out why
            of.close()
            self._give_back(None)
            return None
        of.set_busy_timeout(int(self._busy_timeout * 1000))
        self._give_back(of)
        return answer if unchanged else None

    def is_there(self) -> bool:
        """Return whether the store exists.

        Raises:
            ProviderError: There is something else.
        """
        with own_errors(self.name):
            return self._is_there()

    def _is_there(self) -> bool:
        if self._writer is not None or self._idle:
            return True
        refuse_unfinished_restore(self._path)
        return self.codec.is_there(self._path)

    def files(self) -> list[Path]:
        """Return the existing files of the store."""
        paths = [self._path, *(self._path.with_name(self._path.name + ending) for ending in self.codec.beside)]
        return [path for path in paths if path.exists()] + [left for path in paths for left in leftovers(path)]

    def copy_to(self, path: Path, progress: Progress) -> None:
        """Copy the database, as it is at one moment, with the files beside it; others may write meanwhile.

        Raises:
            StoreUnavailableError: There is no store, or the copy cannot be written.
            ProviderError: See `AgentMemoryProvider.load`.
        """
        if not self.is_there():
            raise StoreUnavailableError(f"there is no store {self.name}: check its path")

        def copy(connection: apsw.Connection) -> None:
            with _errors_of_copy(), self.codec.copying(path) as target:
                with target.backup("main", connection, "main") as backup:
                    while not backup.done:
                        backup.step(_COPIED_PAGES)
                        progress(backup.page_count - backup.remaining, backup.page_count)
                # A reader of the copy needs no log beside it.
                target.execute("PRAGMA journal_mode=DELETE").fetchall()

        self.read(copy, as_it_is=True)

    def check_unused(self) -> None:
        """Raise if another connection is open; afterwards no log lies beside a sound file.

        Raises:
            StoreUnavailableError: There is one.
        """
        if not self._path.exists():
            return
        mode: object = None
        try:
            with contextlib.closing(self.codec.connect(self._path, apsw.SQLITE_OPEN_READWRITE, 0)) as connection:
                ((mode,),) = connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        except apsw.BusyError:
            mode = "wal"
        except (apsw.Error, FactMemError, OSError):
            pass  # it is damaged, or of another key
        if mode == "wal":
            raise StoreUnavailableError(f"{self.name} is open in another program: end that, then try again")

    def reopen_to_write(self) -> None:
        """Close the writing connection; the next write opens another one."""
        with self._writing, own_errors(self.name):
            self._drop_writer()

    def close(self, tidy: Callable[[apsw.Connection], None]) -> None:
        """Wait for running calls and close every connection; the last one empties the WAL.

        Args:
            tidy: Called with the writing connection, if there is one; its errors do not delay the closing.
        """
        with self._writing, own_errors(self.name):
            with self._pool:
                self._closed = True
                self._pool.wait_for(lambda: not self._lent)
                for connection in self._idle:
                    connection.close()
                self._idle.clear()
            if self._writer is not None:
                if not (self._damage or self._distrusted):
                    with contextlib.suppress(apsw.Error):
                        tidy(self._writer)
                self._close(self._writer)
                self._writer = None
            elif not self.read_only:
                with contextlib.suppress(apsw.Error, FactMemError, OSError):
                    self._remove_empty_log()

    def _remove_empty_log(self) -> None:
        """Remove the empty log that readers leave beside the file, unless another process has it open.

        A log with content is left to the next writer, which looks after it (see `_rewrite_log`).
        """
        log = self._path.with_name(f"{self.name}-wal")
        if log.exists() and not log.stat().st_size:
            with contextlib.closing(self.codec.connect(self._path, apsw.SQLITE_OPEN_READWRITE, 0)) as connection:
                connection.execute("PRAGMA user_version").fetchall()

    def _noticing_damage(self, action: Callable[[], T]) -> T:
        try:
            with own_errors(self.name):
                return action()
        except CorruptStoreError as error:
            with own_errors(self.name):
                blamed = self.codec.blamed(error, self._path)
            self._damage = type(blamed)
            raise blamed from error.__cause__

    def _with_its_key(self, action: Callable[[], T], drop: Callable[[], None]) -> T:
        """Reopen the file if its first page does not open any more: another process changed its key.

        Every transaction begins with that page, so nothing was done. The key may have changed again before the
        transaction began; a key that never fitted is detected by opening the file.
        """
        for _ in range(_MOST_CHANGES_OF_KEY):
            try:
                return action()
            except apsw.NotADBError:
                if not self.codec.is_keyed:
                    raise
                drop()
        return action()

    def _drop_idle(self) -> None:
        with self._pool:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._close(self._writer)
            self._writer = None

    def _noticing_failed_flushes(self, work: Callable[[apsw.Connection], T]) -> T:
        try:
            writer = self._open_writer()
            with foreign_rows(self.name), detecting_failed_reads(writer, self._another):
                done = work(writer)
                self.codec.committed(writer, self._path)
                return done
        except ReadError:
            self._drop_writer()
            raise
        except (apsw.IOError, FlushError) as error:
            if is_failed_flush(error):
                self._distrusted = True
                self._take_back()
            raise

    def _take_back(self) -> None:
        """Overwrite a refused transaction in the WAL, which the next process to open it would take for committed."""
        if self._writer is not None:
            with contextlib.suppress(apsw.Error):
                self._writer.execute("PRAGMA synchronous=OFF")
                ((version,),) = self._writer.execute("PRAGMA user_version").fetchall()
                # The same content again; SQLite writes it nevertheless.
                self._writer.execute(f"PRAGMA user_version={version}")

    def _close(self, connection: apsw.Connection) -> None:
        if self._distrusted:
            # Closing moves the WAL into the file, and flushes both.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()

    def _read(self, query: Callable[[apsw.Connection], T]) -> T:
        connection = self._borrow() if self._is_there() else None
        if connection is None:
            return self._read_nothing(query)
        try:
            connection.execute("BEGIN")
            try:
                with foreign_rows(self.name), detecting_failed_reads(connection, self._another):
                    return query(connection)
            finally:
                connection.execute("ROLLBACK")
        except (apsw.IOError, apsw.NotADBError, ReadError):
            # Its remembered error would hide later damage, or its key is outdated.
            connection.close()
            connection = None
            raise
        finally:
            self._give_back(connection)

    def _read_older(self, connection: apsw.Connection, query: Callable[[apsw.Connection], T]) -> T:
        """Answer a query from a migrated copy of a file that no write has migrated yet."""
        with self._pool:
            state = connection.data_version()
            if self._stand_in is None or self._stand_in.of is not connection or self._stand_in.state != state:
                copy = connected(":memory:", apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, 0)
                pages = bytearray(connection.serialize("main"))
                pages[18:20] = b"\x01\x01"  # no write-ahead log: it cannot be in memory
                copy.deserialize("main", bytes(pages))
                copy.execute("PRAGMA temp_store=MEMORY")
                migrate(copy, self.name)
                self._stand_in = _StandIn(connection, state, copy)
            return query(self._stand_in.copy)

    def _read_nothing(self, query: Callable[[apsw.Connection], T]) -> T:
        """Answer a query for a store that does not exist, without creating it."""
        if self._closed:
            raise ProviderClosedError("the provider was closed")
        if self.read_only:
            raise StoreUnavailableError(f"there is no store {self.name}: check the path, or open it without read_only")
        stand_in = connected(":memory:", apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, 0)
        try:
            migrate(stand_in, self.name)
            return query(stand_in)
        finally:
            stand_in.close()

    def _borrow(self) -> apsw.Connection | None:
        with self._pool:
            if self._closed:
                raise ProviderClosedError("the provider was closed")
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        connection = None
        try:
            connection = self._new_reader()
        finally:
            if connection is None:
                self._give_back(None)
        return connection

    def _give_back(self, connection: apsw.Connection | None) -> None:
        with self._pool:
            if connection is not None and is_unchanging(connection):
                connection.close()
            elif connection is not None:
                self._idle.append(connection)
            self._lent -= 1
            if self._closed:
                self._pool.notify_all()

    def _another(self) -> apsw.Connection:
        return self.codec.connect(self._path, apsw.SQLITE_OPEN_READONLY, self._busy_timeout)

    def _new_reader(self) -> apsw.Connection | None:
        """Open the file for reading; return None if it is being created and still empty."""
        try:
            connection = self._another()
            with closing_on_error(connection), detecting_failed_reads(connection, self._another):
                made = found_version(connection, self.name) > 0
        except apsw.ReadOnlyError:
            if not self.codec.is_only_begun(self._path):
                raise
            return None
        if made:
            return connection
        connection.close()
        return None

    def _open_writer(self) -> apsw.Connection:
        if self._closed:
            raise ProviderClosedError("the provider was closed")
        if self._writer is None:
            self._writer = self._new_writer()
            self._written_to = self._file()
        elif self._file() != self._written_to:  # what is written to a removed file is lost
            raise StoreUnavailableError(f"{self.name} was removed or replaced while it was open: open the store again")
        return self._writer

    def _file(self) -> tuple[int, int] | None:
        """Return what identifies the file at the path; None if there is none."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _new_writer(self) -> apsw.Connection:
        refuse_unfinished_restore(self._path)
        there = self.codec.is_there(self._path)
        if there:
            # Opening for writing may change the file, so check first that it is a store.
            probe = self._new_reader()
            if probe is not None:
                probe.close()
        else:
            self.codec.begin(self._path)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = self.codec.connect(self._path, flags, self._busy_timeout)
        try:
            with detecting_failed_reads(connection, self._another):
                for pragma in _WRITER_PRAGMAS:
                    connection.execute(f"PRAGMA {pragma}")
                self._use_wal(connection)
                _rewrite_log(connection, self._path.with_name(f"{self.name}-wal"))
                migrate(connection, self.name)
                self.codec.ready(connection, self._path)
            # The process that created the file may have died before it could.
            _sync_folders(self._path.parent)
        except BaseException as error:
            self._distrusted = self._distrusted or is_failed_flush(error)
            self._close(connection)
            raise
        return connection

    def _use_wal(self, connection: apsw.Connection) -> None:
        """Switch to WAL; SQLite does not wait by itself while another process is doing the same."""
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                ((mode,),) = connection.execute("PRAGMA journal_mode=WAL").fetchall()
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                break
        if mode != "wal":
            # SQLite reports no cause, but a failed flush is a possible one.
            self._distrusted = True
            raise StoreUnavailableError(
                f"{self.name} cannot have a write-ahead log: it must lie on a disk of this machine; "
                "check that disk, then open the store again"
            )


def _data_version(connection: apsw.Connection) -> int:
    """Return a number that changes when another connection, of any process, has written."""
    state: Any = connection.execute("PRAGMA data_version").fetchall()[0][0]
    return int(state)


@contextlib.contextmanager
def _errors_of_copy() -> Iterator[None]:
    """Convert errors of writing a copy, which say nothing about the store."""
    try:
        yield
    except (apsw.FullError, apsw.CantOpenError, apsw.ReadOnlyError, OSError) as error:
        if isinstance(error, ReadError):
            raise
        raise StoreUnavailableError(
            "the copy cannot be written: free some disk space, and check the permissions of its folder"
        ) from error


def _rewrite_log(connection: apsw.Connection, log: Path) -> None:
    """Write and flush once more what another process left in the WAL, which may still be writing.

    If its last flush failed, what it wrote can be read, and is not on the disk; a later flush does not change that, and
    a power cut would take all commits behind it as well.
    """
    if not log.exists() or not log.stat().st_size:
        return
    connection.execute("BEGIN IMMEDIATE")  # nobody appends to the WAL or begins it anew meanwhile
    try:
        with open_to_change(log) as file:
            content = file.readall()
            file.seek(0)
            write_all(file, content)
            sync_file(file)
    finally:
        connection.execute("ROLLBACK")


def _sync_folders(folder: Path) -> None:
    """Make the names of a new file and of its new folders survive a power cut."""
    for level in (folder, *folder.parents[:2]):
        try:
            sync_folder(level)
        except PermissionError:
            return
