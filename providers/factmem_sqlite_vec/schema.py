"""Format of the file: tables, recognition, and migration of older formats.

Names of tenants, scopes, subjects and owners are never blank, so the empty text represents None. Every query of
assertions has an index, so that no cost grows with the store. Keys grow with time if possible (ids begin with the
sequence number, and the time of saying precedes the fingerprint), because a commit writes every page of an index that
it touches.
"""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import apsw

from factmem.errors import CorruptStoreError, NewerVersionError
from factmem.providers.sql_rows import SEQ_BITS, SEQ_MASK, pack_id, pack_moment, row_sum

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Row: TypeAlias = tuple[Any, ...]


def select(connection: apsw.Connection, sql: str, arguments: Sequence[Any] = ()) -> list[Row]:
    """Return all rows of a query."""
    return connection.execute(sql, arguments).fetchall()


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Commit what the block writes; if it fails, nothing was written."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def format_version(connection: apsw.Connection) -> int:
    """Return the version of the file's format."""
    ((found,),) = select(connection, "PRAGMA user_version")
    return int(found)


def keyed(key: bytes, value: bytes | str) -> bytes:
    """Return the 16 bytes by which a store looks up a value, which without its key says nothing about it."""
    return hashlib.blake2b(value if isinstance(value, bytes) else value.encode(), key=key, digest_size=16).digest()


VECTORS: Final = "CREATE TABLE vectors(chunk INTEGER PRIMARY KEY, embeddings BLOB NOT NULL) STRICT"
"""Empty table of vectors."""

SLOTS: Final = 16
"""Number of vectors in a row."""


OF_VECTORS: Final = b"vectors"
"""Placeholder of the place in the sums of the vectors of tenants; digests of places are longer."""


LAST_SEQS: Final = (b"seq", b"again")
"""Placeholders of the place of the last sequence number of a tenant, which is kept twice."""


def sum_of_vectors(seqs: Iterable[int], rows: Iterable[bytes] | NDArray[np.float32]) -> int:
    """Return the sum of the checksums of vectors, each with the number of its assertion."""
    return sum(map(zlib.crc32, rows, seqs))


def newest_seq(connection: apsw.Connection, tenant: str | None) -> int:
    """Return the newest sequence number of a tenant.

    Raises:
        CorruptStoreError: Its two copies differ.
    """
    wanted = "SELECT sum FROM sums WHERE place IN (?, ?) AND keyword = ?"
    return _agreed([found for (found,) in select(connection, wanted, (*LAST_SEQS, tenant or ""))])


def last_write(connection: apsw.Connection) -> int:
    """Return the number of the store's last write, counted over all tenants; it only grows, also by a migration.

    Raises:
        CorruptStoreError: Its two copies differ.
    """
    copies = select(connection, "SELECT value FROM meta WHERE key IN ('seq', 'seq again')")  # before format 8
    if not copies:
        copies = select(connection, "SELECT sum(sum) FROM sums WHERE place IN (?, ?) GROUP BY place", LAST_SEQS)
    return _agreed([number for (number,) in copies])


def _agreed(copies: Sequence[Any]) -> int:
    """Return a sequence number from its copies, 0 from none.

    Raises:
        CorruptStoreError: They differ.
    """
    if copies and (len(copies) != len(LAST_SEQS) or len(set(copies)) != 1):
        raise CorruptStoreError("the number of the last change is damaged: restore the store from a backup")
    return int(copies[0]) if copies else 0


APPLICATION_ID: Final = 0x666D656D
"""SQLite's application id of a factmem store: ``fmem``."""

FORMAT: Final = 8
"""Version of the format.

In formats before 2, changes of state had no actor; before 3, there were no sums; before 4, none of vectors. In 5,
documents got heads, and ids and times were packed. In 6, each tenant got a sequence of its own, and ``seq`` became a
key that begins with the number of the tenant. In 7, tenants could be unfinished copies. In 8, rows with words are only
appended and overwritten in place, outlines are beside their assertions, and places, keywords, owners, slots and
fingerprints are keyed digests.
"""

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('key', randomblob(16));

CREATE TABLE tenants(
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  copying INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE tracks(
  id INTEGER PRIMARY KEY,
  place BLOB NOT NULL,
  keyword BLOB NOT NULL,
  owner BLOB NOT NULL,
  fact_type TEXT,
  shapes TEXT NOT NULL,
  UNIQUE (place, keyword, owner)
) STRICT;

CREATE TABLE heads(id INTEGER PRIMARY KEY, track INTEGER, doc TEXT, shared BLOB) STRICT;
CREATE INDEX heads_track ON heads(track);

CREATE TABLE assertions(
  row INTEGER PRIMARY KEY,
  seq INTEGER,
  id ANY NOT NULL,
  record_id ANY,
  track INTEGER,
  slot BLOB NOT NULL,
  said_at INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  recorded_at ANY NOT NULL,
  checksum INTEGER NOT NULL,
  joined INTEGER NOT NULL,
  head INTEGER,
  vector INTEGER,
  outline BLOB,
  doc TEXT NOT NULL
) STRICT;

CREATE TABLE state_changes(
  row INTEGER PRIMARY KEY,
  seq INTEGER,
  assertion INTEGER,
  tenant TEXT NOT NULL,
  state TEXT NOT NULL,
  recorded_at TEXT NOT NULL,
  reason TEXT,
  actor TEXT
) STRICT;

CREATE TABLE tombstones(
  seq INTEGER PRIMARY KEY,
  assertion_id TEXT NOT NULL,
  tenant TEXT NOT NULL
) STRICT;

CREATE TABLE sums(
  place BLOB NOT NULL,
  keyword ANY NOT NULL,
  sum INTEGER NOT NULL,
  PRIMARY KEY (place, keyword)
) STRICT, WITHOUT ROWID;
"""

_INDEXES: Final = """
CREATE INDEX assertions_seq ON assertions(seq, checksum, vector);
CREATE UNIQUE INDEX assertions_fingerprint ON assertions(track, said_at, fingerprint);
CREATE INDEX assertions_slot ON assertions(track, slot);
CREATE INDEX assertions_head ON assertions(head, joined);
CREATE INDEX assertions_record ON assertions(record_id) WHERE record_id IS NOT NULL;
CREATE INDEX assertions_text_id ON assertions(id) WHERE typeof(id) = 'text';
CREATE INDEX state_changes_assertion ON state_changes(assertion);
CREATE INDEX state_changes_seq ON state_changes(seq);
"""

_OLD: Final = ("tenants", "tracks", "heads", "assertions", "state_changes", "tombstones", "sums")

# What an older format lacks, as if it had always been there.
_LACKING: Final = (
    (2, "ALTER TABLE state_changes ADD COLUMN actor TEXT"),
    (3, "CREATE TABLE sums(place, keyword, sum)"),
    (5, "CREATE TABLE heads(id INTEGER PRIMARY KEY, doc); ALTER TABLE assertions ADD COLUMN head INTEGER"),
    (
        6,
        """
CREATE TABLE tenants(number, name, seq, again);
INSERT INTO tenants
  SELECT CASE tenant WHEN '' THEN 0 ELSE row_number() OVER (ORDER BY tenant = '', tenant) END, tenant, max(seq),
    max(seq) FROM (SELECT tenant, seq FROM assertions UNION ALL SELECT tenant, seq FROM state_changes
      UNION ALL SELECT tenant, seq FROM tombstones) GROUP BY tenant;
""",
    ),
    (7, "ALTER TABLE tenants ADD COLUMN copying INTEGER NOT NULL DEFAULT 0"),
)

_CONVERT: Final = f"""
CREATE TEMP TABLE digests AS SELECT value AS key FROM meta WHERE key = 'key';
INSERT INTO tenants SELECT number, name, copying FROM old_tenants;
INSERT INTO tracks
  SELECT id, keyed(key, place), keyed(key, keyword), keyed(key, owner), fact_type, shapes FROM old_tracks, digests;
INSERT INTO heads(track, doc)
  SELECT DISTINCT a.track, h.doc FROM old_assertions a LEFT JOIN old_heads h ON h.id = a.head ORDER BY a.track, a.head;
INSERT INTO assertions
  SELECT NULL, (t.number << {SEQ_BITS}) + (a.seq & {SEQ_MASK}), pack_id(a.id, a.seq & {SEQ_MASK}), pack_id(a.record_id),
    a.track, keyed(key, a.slot), a.said_at, keyed(key, a.fingerprint), pack_moment(a.recorded_at), a.checksum,
    a.joined IS NOT NULL, (SELECT n.id FROM heads n WHERE n.track = a.track AND n.doc IS h.doc), v.slot, NULL, a.doc
    FROM digests CROSS JOIN old_assertions a JOIN old_tenants t ON t.name = a.tenant
      LEFT JOIN old_heads h ON h.id = a.head LEFT JOIN temp.slots v ON v.seq = a.seq ORDER BY 2;
INSERT INTO state_changes
  SELECT NULL, (t.number << {SEQ_BITS}) + (s.seq & {SEQ_MASK}), (t.number << {SEQ_BITS}) + (s.assertion & {SEQ_MASK}),
    s.tenant, s.state, s.recorded_at, s.reason, s.actor
    FROM old_state_changes s JOIN old_tenants t ON t.name = s.tenant ORDER BY 2;
INSERT INTO tombstones
  SELECT (t.number << {SEQ_BITS}) + (d.seq & {SEQ_MASK}), d.assertion_id, d.tenant
    FROM old_tombstones d JOIN old_tenants t ON t.name = d.tenant;
INSERT INTO sums
  SELECT keyed(key, place), keyed(key, keyword), sum FROM old_sums, digests WHERE length(place) = 16;
INSERT INTO sums SELECT place, keyword, sum FROM old_sums WHERE length(place) < 16;
INSERT INTO sums SELECT CAST('seq' AS BLOB), name, seq FROM old_tenants WHERE seq > 0;
INSERT INTO sums SELECT CAST('again' AS BLOB), name, again FROM old_tenants WHERE again > 0;
INSERT INTO sums SELECT CAST('slots' AS BLOB), '', count(*) FROM temp.slots HAVING count(*);
DELETE FROM meta WHERE key IN ('seq', 'seq again', 'outlines');
INSERT OR REPLACE INTO meta SELECT 'scrub', 1 FROM sums LIMIT 1;
DROP TABLE digests;
DROP TABLE temp.slots;
DROP TABLE IF EXISTS texts;
DROP TABLE IF EXISTS outlines;
DROP TABLE IF EXISTS shared_outlines;
{"".join(f"DROP TABLE IF EXISTS old_{table};" for table in _OLD)}
"""

# Sums of the rows of a store that has none.
_SUM: Final = """
CREATE TEMP VIEW rows_to_sum AS
  SELECT tenant, track, checksum FROM old_assertions
  UNION ALL SELECT s.tenant, a.track, row_sum(s.seq, s.assertion, s.tenant, s.state, s.recorded_at, s.reason, s.actor)
    FROM old_state_changes s JOIN old_assertions a ON a.seq = s.assertion
  UNION ALL SELECT tenant, NULL, row_sum(assertion_id, seq) FROM old_tombstones;
INSERT INTO old_sums
  SELECT t.place, t.keyword, sum(checksum) FROM rows_to_sum r JOIN old_tracks t ON t.id = r.track GROUP BY 1, 2;
INSERT INTO old_sums SELECT X'', tenant, sum(checksum) FROM rows_to_sum GROUP BY 2;
DROP VIEW rows_to_sum;
"""


def _convert(connection: apsw.Connection, version: int) -> None:
    """Write the rows of an older format to the tables of this one; without outlines, which recall makes again."""
    for name, function in _FUNCTIONS.items():
        connection.create_scalar_function(name, function, deterministic=True)
    for since, script in _LACKING:
        if version < since:
            connection.execute(script)
    _convert_vectors(connection, summed=version >= 4)
    for table in _OLD:
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    if version < 3:
        connection.execute(_SUM)
    connection.execute(f"DROP INDEX IF EXISTS heads_track; {_TABLES}{_CONVERT}")


def _convert_vectors(connection: apsw.Connection, *, summed: bool) -> None:
    """Write the rows of a virtual table of sqlite-vec, if there is one, to full pages."""
    connection.execute("CREATE TEMP TABLE slots(slot INTEGER PRIMARY KEY, seq INTEGER UNIQUE)")
    if not select(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'vectors'"):
        connection.execute(VECTORS)
        return
    wanted = "SELECT seq, tenant FROM assertions WHERE seq IN (SELECT rowid FROM vectors) ORDER BY seq"
    keys = select(connection, wanted)
    connection.executemany("INSERT INTO slots VALUES (?, ?)", [(slot, key) for slot, (key, _) in enumerate(keys)])
    connection.execute(VECTORS.replace("vectors", "slotted_vectors"))
    rows = connection.execute(
        "SELECT v.embedding FROM temp.slots s CROSS JOIN vectors v ON v.rowid = s.seq ORDER BY slot"
    )
    sums: Counter[str] = Counter()
    for start in range(0, len(keys), SLOTS):
        some = [vector for (vector,) in itertools.islice(rows, SLOTS)]
        row = b"".join(some).ljust(SLOTS * len(some[0]), b"\0")
        connection.execute("INSERT INTO slotted_vectors VALUES (?, ?)", (start // SLOTS, row))
        for (key, tenant), vector in zip(keys[start:], some, strict=False):
            sums[tenant] += sum_of_vectors([key & SEQ_MASK], [vector])
    connection.execute("DROP TABLE vectors; ALTER TABLE slotted_vectors RENAME TO vectors")
    if not summed:
        connection.executemany("INSERT INTO sums VALUES (?, ?, ?)", [(OF_VECTORS, *item) for item in sums.items()])


def _packed_id(id: bytes | str | None, seq: int | None = None) -> bytes | str | None:
    return pack_id(id, seq) if isinstance(id, str) else id


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "row_sum": row_sum,
    "pack_id": _packed_id,
    "pack_moment": lambda moment: pack_moment(moment) if isinstance(moment, str) else moment,
    "keyed": keyed,
}
"""Functions that the scripts call."""

MAGIC: Final = b"SQLite format 3\x00"
"""First bytes of every unencrypted database."""


_HEADER_BYTES: Final = 100


def check_header(path: Path) -> bool:
    """Return whether there is a store at a path: a missing or empty file is a new one.

    Raises:
        CorruptStoreError: The file does not begin like an SQLite database.
        OSError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return False
    if not header:
        return False
    page_size = int.from_bytes(header[16:18])
    sound = (
        len(header) == _HEADER_BYTES
        and header.startswith(MAGIC)
        and (page_size == 1 or (512 <= page_size <= 32768 and page_size.bit_count() == 1))
        and set(header[18:20]) <= {1, 2}
        and header[21:24] == bytes((64, 32, 32))
    )
    # A process may have died while it created the database; SQLite then empties it again.
    if not sound and not path.with_name(f"{path.name}-journal").exists():
        raise _foreign(path.name)
    return True


def page_size(path: Path) -> int:
    """Return the size of the pages of a database, in bytes."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(_HEADER_BYTES)[16:18])
    return size if size > 1 else 65536


def found_version(connection: apsw.Connection, name: str) -> int:
    """Return the version of a database's format; 0 for an empty one.

    Raises:
        NewerVersionError: A newer factmem wrote it.
        CorruptStoreError: It is the database of another program.
    """
    application, version, objects = select(
        connection,
        "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),"
        " (SELECT count(*) FROM sqlite_schema)",
    )[0]
    if (application, version, objects) == (0, 0, 0):
        return 0
    if application != APPLICATION_ID or version < 1:
        raise _foreign(name)
    if version > FORMAT:
        raise NewerVersionError(f"{name} is of version {version}, newer than {FORMAT}: upgrade factmem to open it")
    return int(version)


def migrate(connection: apsw.Connection, name: str) -> None:
    """Migrate a database to the newest version, in one transaction; two processes may both try.

    Raises:
        NewerVersionError: See `found_version`.
        CorruptStoreError: See `found_version`.
    """
    if found_version(connection, name) == FORMAT:
        return
    with transaction(connection):
        version = found_version(connection, name)
        if version == 0:
            connection.execute(f"{_TABLES}{VECTORS};{_INDEXES}")
        elif version < FORMAT:
            _convert(connection, version)
            connection.execute(_INDEXES)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT}")


def _foreign(name: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"{name} is damaged or no factmem store; nothing was written to it: give another path, or restore it"
    )
