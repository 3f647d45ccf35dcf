"""Codecs of database files: in clear or encrypted, and how to open them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import apsw

from factmem.errors import CorruptStoreError, MissingPackageError, StoreUnavailableError
from factmem.private_files import create_file, is_read_only, make_folders
from factmem_sqlite_vec.schema import MAGIC, check_header, page_size

BESIDE: Final = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite puts beside a database."""


class PageCodec:
    """Encoding of the pages of a database on the disk: this one leaves them in clear.

    Attributes:
        is_keyed: Whether the key of a database may change while it is open.
        beside: Suffixes of the files that may be beside a database.
    """

    is_keyed: bool = False
    beside: Sequence[str] = BESIDE

    def is_there(self, path: Path) -> bool:
        """Return whether there is a database of this codec at a path: a missing or empty file is a new one.

        Raises:
            ProviderError: There is something else.
            OSError: The file cannot be read.
        """
        if key_file_of(path).exists() and not starts_in_clear(path):
            raise StoreUnavailableError(
                f"{path.name} is encrypted, and nothing was written to it: open it with its key, as in "
                f"encrypted-sqlite:{path.name}?key_env=FACTMEM_KEY, or give another path"
            )
        return check_header(path)

    def is_only_begun(self, path: Path) -> bool:
        """Return whether a file has no table yet: its creator may have died and left a rollback journal.

        Such a file cannot be read without permission to write; SQLite empties it for the next process that has it.
        """
        return path.stat().st_size <= page_size(path)

    def begin(self, path: Path) -> None:
        """Create the folders of a database, the files that it needs, and an empty file for itself."""
        make_folders(path.parent, durable=False)
        create_database(path)

    def blamed(self, error: CorruptStoreError, path: Path) -> CorruptStoreError:
        """Return the error to raise for a damaged database.

        Args:
            error: Error that was found.
            path: Path of the database.
        """
        return error

    def connect(self, path: Path, flags: int, busy_timeout: float) -> apsw.Connection:
        """Open an existing database, or create an empty one.

        Raises:
            ProviderError: It cannot be opened with this codec.
            apsw.Error: It cannot be opened.
        """
        connection = connected(str(path), flags, busy_timeout)
        # VACUUM rewrites everything: some builds of SQLite would do that in memory.
        connection.execute("PRAGMA temp_store=FILE")
        return connection

    @contextmanager
    def copying(self, target: Path) -> Iterator[apsw.Connection]:
        """Copy the files beside the database to another path, and open an empty database there to copy it into.

        The keys stay as they are meanwhile. What the database is copied from must be read afterwards.

        Raises:
            ProviderError: The files beside it cannot be read.
            OSError: The copy cannot be written.
            apsw.Error: The copy cannot be opened.
        """
        create_database(target)
        with closing(self.connect(target, apsw.SQLITE_OPEN_READWRITE, 0)) as connection:
            yield connection

    def ready(self, connection: apsw.Connection, path: Path) -> None:
        """Prepare an open and migrated database for its first write by this process.

        Raises:
            OSError: The files beside it cannot be written.
        """

    def committed(self, connection: apsw.Connection, path: Path) -> None:
        """Note what was committed, before it is acknowledged; this never fails what is committed already."""


def create_database(path: Path) -> None:
    """Create an empty file; SQLite gives its mode to the files beside it.

    Raises:
        OSError: It cannot be created, or a link to nothing lies there.
    """
    try:
        create_file(path).close()
    except FileExistsError:
        if not path.exists():
            raise


def key_file_of(path: Path) -> Path:
    """Return the path of the keys of an encrypted database."""
    return path.with_name(f"{path.name}.keys")


def starts_in_clear(path: Path) -> bool:
    """Return whether a file begins like an unencrypted database.

    Raises:
        OSError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except FileNotFoundError:
        return False


def connected(filename: str, flags: int, busy_timeout: float, *, vfs: str | None = None) -> apsw.Connection:
    """Open a database without a key, and load sqlite-vec; no page is read.

    Args:
        filename: Path, or ``:memory:``.
        flags: Flags of SQLite.
        busy_timeout: Longest wait for other processes, in seconds.
        vfs: Layer of SQLite to use; None for the default one.

    Raises:
        MissingPackageError: Sqlite-vec is not installed.
        StoreUnavailableError: Sqlite-vec does not load.
        apsw.Error: The file cannot be opened.
    """
    if flags & apsw.SQLITE_OPEN_READONLY and _cannot_change(Path(filename)):
        filename, flags = f"{Path(filename).absolute().as_uri()}?immutable=1", flags | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(filename, flags=flags, vfs=vfs)
    with closing_on_error(connection):
        connection.set_busy_timeout(int(busy_timeout * 1000))
        connection.execute("PRAGMA cell_size_check=ON")
        _load_vectors(connection)
    return connection


@contextmanager
def closing_on_error(connection: apsw.Connection) -> Iterator[None]:
    """Close a connection if the block fails."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _cannot_change(path: Path) -> bool:
    """Return whether a database lies on a read-only disk, and no program has it open on another mount of that disk.

    SQLite cannot put an index of the log beside it there, and needs none if it knows that.
    """
    return is_read_only(path.parent) and not any(path.with_name(path.name + ending).exists() for ending in BESIDE)


def is_unchanging(connection: apsw.Connection) -> bool:
    """Return whether a connection would not see later writes, on another mount of its disk: it is for one read."""
    return bool(connection.open_flags & apsw.SQLITE_OPEN_URI)


def _load_vectors(connection: apsw.Connection) -> None:
    with MissingPackageError.if_missing("sqlite-vec", extra="sqlite-vec"):
        import sqlite_vec
    connection.enable_load_extension(True)
    try:
        connection.load_extension(sqlite_vec.loadable_path())
    except apsw.ExtensionLoadingError as error:
        raise StoreUnavailableError(
            "the sqlite-vec extension does not load here: run  pip install --force-reinstall sqlite-vec apsw-sqlite3mc"
        ) from error
    finally:
        connection.enable_load_extension(False)
