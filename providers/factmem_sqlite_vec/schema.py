"""Format of the file: tables, recognition, and migration of older formats.

Names of tenants, scopes, subjects and owners are never blank, so the empty text represents None. Every query of
assertions has an index, so that no cost grows with the store. Keys grow with time if possible (ids begin with the
sequence number, and the time of saying precedes the fingerprint), because a commit writes every page of an index that
it touches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw

from factmem.errors import CorruptStoreError, NewerVersionError
from factmem.providers.rows import SEQ_BITS, SEQ_MASK, pack_id, pack_moment, row_sum
from factmem_sqlite_vec.tables import OF_VECTORS, SLOTS, VECTORS, keyed, select, sum_of_vectors

__all__ = [
    "APPLICATION_ID",
    "MAGIC",
    "MIGRATIONS",
    "check_header",
    "found_version",
    "is_only_begun",
    "migrate",
]

APPLICATION_ID: Final = 0x666D656D
"""SQLite's application id of a factmem store: ``fmem``."""

_FIRST: Final = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('seq', 0);

CREATE TABLE tracks(
  id INTEGER PRIMARY KEY,
  place BLOB NOT NULL,
  keyword TEXT NOT NULL,
  owner TEXT NOT NULL,
  tenant TEXT NOT NULL,
  scope TEXT NOT NULL,
  subject TEXT NOT NULL,
  individual TEXT NOT NULL,
  fact_type TEXT,
  shapes TEXT NOT NULL,
  UNIQUE (place, keyword, owner)
) STRICT;

CREATE TABLE assertions(
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  record_id TEXT NOT NULL,
  track INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  slot BLOB NOT NULL,
  said_at INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  recorded_at TEXT NOT NULL,
  checksum INTEGER NOT NULL,
  joined INTEGER,
  text TEXT NOT NULL,
  doc TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX assertions_fingerprint ON assertions(track, said_at, fingerprint);
CREATE INDEX assertions_slot ON assertions(track, slot);
CREATE INDEX assertions_record ON assertions(record_id);
CREATE INDEX assertions_tenant ON assertions(tenant);

CREATE TABLE state_changes(
  seq INTEGER PRIMARY KEY,
  assertion INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  state TEXT NOT NULL,
  recorded_at TEXT NOT NULL,
  reason TEXT
) STRICT;
CREATE INDEX state_changes_assertion ON state_changes(assertion);
CREATE INDEX state_changes_tenant ON state_changes(tenant);

CREATE TABLE tombstones(
  seq INTEGER PRIMARY KEY,
  assertion_id TEXT NOT NULL,
  tenant TEXT NOT NULL
) STRICT;
CREATE INDEX tombstones_tenant ON tombstones(tenant);

CREATE VIRTUAL TABLE texts USING fts5(
  text, content='assertions', content_rowid='seq', columnsize=0, tokenize='unicode61 remove_diacritics 2'
);
INSERT INTO texts(texts, rank) VALUES ('secure-delete', 1);
"""

_ACTORS: Final = """
ALTER TABLE state_changes ADD COLUMN actor TEXT;
"""

_SUMS: Final = """
INSERT INTO meta SELECT 'seq again', value FROM meta WHERE key = 'seq';
CREATE TABLE sums(
  place BLOB NOT NULL,
  keyword TEXT NOT NULL,
  sum INTEGER NOT NULL,
  PRIMARY KEY (place, keyword)
) STRICT, WITHOUT ROWID;
CREATE TEMP VIEW rows_to_sum AS
  SELECT a.tenant, t.place, t.keyword, a.checksum
    FROM assertions a JOIN tracks t ON t.id = a.track
  UNION ALL SELECT s.tenant, t.place, t.keyword,
    row_sum(s.seq, s.assertion, s.tenant, s.state, s.recorded_at, s.reason, s.actor)
    FROM state_changes s JOIN assertions a ON a.seq = s.assertion JOIN tracks t ON t.id = a.track
  UNION ALL SELECT tenant, NULL, '', row_sum(assertion_id, seq) FROM tombstones;
INSERT INTO sums SELECT place, keyword, sum(checksum) FROM rows_to_sum WHERE place IS NOT NULL GROUP BY 1, 2;
INSERT INTO sums SELECT X'', tenant, sum(checksum) FROM rows_to_sum GROUP BY 2;
DROP VIEW rows_to_sum;
"""


_COMPACT: Final = """
DROP TABLE texts;
DROP TABLE IF EXISTS outlines;
DELETE FROM meta WHERE key = 'outlines';
CREATE TABLE heads(
  id INTEGER PRIMARY KEY,
  track INTEGER NOT NULL,
  doc TEXT NOT NULL
) STRICT;
CREATE INDEX heads_track ON heads(track);
ALTER TABLE assertions RENAME TO wide_assertions;
CREATE TABLE assertions(
  seq INTEGER PRIMARY KEY,
  id ANY NOT NULL,
  record_id ANY,
  track INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  slot BLOB NOT NULL,
  said_at INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  recorded_at ANY NOT NULL,
  checksum INTEGER NOT NULL,
  joined INTEGER,
  head INTEGER,
  doc TEXT NOT NULL
) STRICT;
INSERT INTO assertions
  SELECT seq, pack_id(id, seq), pack_id(record_id), track, tenant, slot, said_at, fingerprint,
    pack_moment(recorded_at), checksum, joined, NULL, doc
    FROM wide_assertions ORDER BY seq;
DROP TABLE wide_assertions;
CREATE UNIQUE INDEX assertions_fingerprint ON assertions(track, said_at, fingerprint);
CREATE INDEX assertions_slot ON assertions(track, slot);
CREATE INDEX assertions_record ON assertions(record_id) WHERE record_id IS NOT NULL;
CREATE INDEX assertions_tenant ON assertions(tenant);
INSERT OR REPLACE INTO meta SELECT 'scrub', value FROM meta WHERE key = 'seq' AND value > 0;
"""


def _vector_sum(*row: Any) -> int:
    seq, vector = row
    return sum_of_vectors([seq], [vector])


def _sum_vectors(connection: apsw.Connection) -> None:
    """Sum the existing vectors; a store without an embedder has no table of them."""
    if select(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'vectors'"):
        connection.create_scalar_function("vector_sum", _vector_sum, deterministic=True)
        connection.execute(
            "INSERT INTO sums SELECT ?, a.tenant, sum(vector_sum(a.seq, v.embedding))"
            " FROM assertions a CROSS JOIN vectors v ON v.rowid = a.seq GROUP BY a.tenant",
            (OF_VECTORS,),
        )


_TENANTS: Final = """
CREATE TABLE tenants(
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  seq INTEGER NOT NULL,
  again INTEGER NOT NULL
) STRICT;
DROP INDEX assertions_tenant;
DROP INDEX state_changes_tenant;
DROP INDEX tombstones_tenant;
CREATE TEMP TABLE last_seqs AS
  SELECT tenant, max(seq) AS seq FROM (
    SELECT tenant, seq FROM assertions
    UNION ALL SELECT tenant, seq FROM state_changes
    UNION ALL SELECT tenant, seq FROM tombstones
  ) GROUP BY tenant;
INSERT INTO tenants SELECT 0, tenant, seq, seq FROM last_seqs WHERE tenant = '';
INSERT INTO tenants SELECT row_number() OVER (ORDER BY tenant), tenant, seq, seq FROM last_seqs WHERE tenant <> '';
DROP TABLE last_seqs;
INSERT OR REPLACE INTO meta SELECT 'scrub', value FROM meta WHERE key = 'seq' AND value > 0;
"""


def _separate_tenants(connection: apsw.Connection) -> None:
    """Give each tenant a sequence and a range of keys of its own; the numbers of its rows stay."""
    connection.execute(_TENANTS)
    embedded = bool(select(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'vectors'"))
    for number, tenant in select(connection, "SELECT number, name FROM tenants WHERE number > 0"):
        base = number << SEQ_BITS
        if embedded:
            wanted = "SELECT v.rowid, v.embedding FROM assertions a CROSS JOIN vectors v ON v.rowid = a.seq"
            vectors = select(connection, f"{wanted} WHERE a.tenant = ?", (tenant,))
            connection.executemany("DELETE FROM vectors WHERE rowid = ?", [(seq,) for seq, _ in vectors])
            moved = [(base + seq, vector) for seq, vector in vectors]
            connection.executemany("INSERT INTO vectors(rowid, embedding) VALUES (?, ?)", moved)
        for table, keys in (("assertions", "joined"), ("state_changes", "assertion"), ("tombstones", None)):
            also = f", {keys} = {keys} + ?1" if keys else ""
            connection.execute(f"UPDATE {table} SET seq = seq + ?1{also} WHERE tenant = ?2", (base, tenant))


_COPIES: Final = """
ALTER TABLE tenants ADD COLUMN copying INTEGER NOT NULL DEFAULT 0;
CREATE INDEX assertions_text_id ON assertions(id) WHERE typeof(id) = 'text';
"""

_IN_PLACE: Final = f"""
CREATE TABLE IF NOT EXISTS shared_outlines(id INTEGER PRIMARY KEY, digest BLOB, body BLOB);
CREATE TABLE IF NOT EXISTS outlines(tenant TEXT, seq INTEGER, shared INTEGER, body BLOB, checksum INTEGER);
INSERT INTO meta VALUES ('key', randomblob(16));
CREATE TEMP TABLE digests AS SELECT value AS key FROM meta WHERE key = 'key';

ALTER TABLE sums RENAME TO readable_sums;
CREATE TABLE sums(
  place BLOB NOT NULL,
  keyword ANY NOT NULL,
  sum INTEGER NOT NULL,
  PRIMARY KEY (place, keyword)
) STRICT, WITHOUT ROWID;
INSERT INTO sums
  SELECT keyed(key, place), keyed(key, keyword), sum FROM readable_sums, digests WHERE length(place) = 16;
INSERT INTO sums SELECT place, keyword, sum FROM readable_sums WHERE length(place) < 16;
INSERT INTO sums SELECT CAST('seq' AS BLOB), name, seq FROM tenants WHERE seq > 0;
INSERT INTO sums SELECT CAST('again' AS BLOB), name, again FROM tenants WHERE again > 0;
DROP TABLE readable_sums;
ALTER TABLE tenants DROP COLUMN seq;
ALTER TABLE tenants DROP COLUMN again;
DELETE FROM meta WHERE key IN ('seq', 'seq again');

ALTER TABLE tracks RENAME TO readable_tracks;
CREATE TABLE tracks(
  id INTEGER PRIMARY KEY,
  place BLOB NOT NULL,
  keyword BLOB NOT NULL,
  owner BLOB NOT NULL,
  fact_type TEXT,
  shapes TEXT NOT NULL,
  UNIQUE (place, keyword, owner)
) STRICT;
INSERT INTO tracks
  SELECT id, keyed(key, place), keyed(key, keyword), keyed(key, owner), fact_type, shapes FROM readable_tracks, digests;
DROP TABLE readable_tracks;

CREATE TEMP TABLE pairs(id INTEGER PRIMARY KEY, track INTEGER, head INTEGER, shared INTEGER);
CREATE TEMP TABLE outlined AS
  SELECT a.seq, a.track, coalesce(a.head, 0) AS head, coalesce(o.shared, 0) AS shared, o.body
    FROM assertions a LEFT JOIN outlines o ON o.tenant = a.tenant AND o.seq = a.seq & {SEQ_MASK};
INSERT INTO pairs(track, head, shared) SELECT DISTINCT track, head, shared FROM outlined ORDER BY 1, 2, 3;
CREATE INDEX temp.outlined_seq ON outlined(seq);
CREATE INDEX temp.pairs_track ON pairs(track, head, shared);
ALTER TABLE heads RENAME TO own_heads;
CREATE TABLE heads(id INTEGER PRIMARY KEY, track INTEGER, doc TEXT, shared BLOB) STRICT;
INSERT INTO heads SELECT p.id, p.track, h.doc, s.body
  FROM pairs p LEFT JOIN own_heads h ON h.id = p.head LEFT JOIN shared_outlines s ON s.id = p.shared ORDER BY p.id;
DROP TABLE own_heads;
DROP TABLE outlines;
DROP TABLE shared_outlines;
CREATE INDEX heads_track ON heads(track);

ALTER TABLE assertions RENAME TO keyed_assertions;
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
INSERT INTO assertions
  SELECT NULL, a.seq, a.id, a.record_id, a.track, keyed(key, a.slot), a.said_at, keyed(key, a.fingerprint),
    a.recorded_at, a.checksum, a.joined IS NOT NULL, p.id, v.slot, o.body, a.doc
    FROM digests CROSS JOIN keyed_assertions a LEFT JOIN slots v ON v.seq = a.seq CROSS JOIN outlined o ON o.seq = a.seq
    CROSS JOIN pairs p ON (p.track, p.head, p.shared) = (o.track, o.head, o.shared) ORDER BY a.seq;
DROP TABLE keyed_assertions;
DROP TABLE slots;
DROP TABLE outlined;
DROP TABLE pairs;
DROP TABLE digests;
CREATE INDEX assertions_seq ON assertions(seq, checksum, vector);
CREATE UNIQUE INDEX assertions_fingerprint ON assertions(track, said_at, fingerprint);
CREATE INDEX assertions_slot ON assertions(track, slot);
CREATE INDEX assertions_head ON assertions(head, joined);
CREATE INDEX assertions_record ON assertions(record_id) WHERE record_id IS NOT NULL;
CREATE INDEX assertions_text_id ON assertions(id) WHERE typeof(id) = 'text';

ALTER TABLE state_changes RENAME TO keyed_changes;
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
INSERT INTO state_changes
  SELECT NULL, seq, assertion, tenant, state, recorded_at, reason, actor FROM keyed_changes ORDER BY seq;
DROP TABLE keyed_changes;
CREATE INDEX state_changes_assertion ON state_changes(assertion);
CREATE INDEX state_changes_seq ON state_changes(seq);
INSERT OR REPLACE INTO meta SELECT 'scrub', 1 FROM sums LIMIT 1;
"""


def _keep_rows_in_place(connection: apsw.Connection) -> None:
    """Let rows with words only be appended and overwritten, and look them up by keyed digests."""
    connection.execute("CREATE TEMP TABLE slots(slot INTEGER PRIMARY KEY, seq INTEGER UNIQUE)")
    if select(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'vectors'"):
        keys = select(connection, "SELECT seq FROM assertions WHERE seq IN (SELECT rowid FROM vectors) ORDER BY seq")
        connection.executemany("INSERT INTO slots VALUES (?, ?)", [(slot, key) for slot, (key,) in enumerate(keys)])
        connection.execute(VECTORS.replace("vectors", "slotted_vectors"))
        rows = connection.execute(
            "SELECT v.embedding FROM slots CROSS JOIN vectors v ON v.rowid = slots.seq ORDER BY slot"
        )
        for chunk in itertools.count():
            some = [vector for (vector,) in itertools.islice(rows, SLOTS)]
            if not some:
                break
            row = b"".join(some).ljust(SLOTS * len(some[0]), b"\0")
            connection.execute("INSERT INTO slotted_vectors VALUES (?, ?)", (chunk, row))
        connection.execute("DROP TABLE vectors; ALTER TABLE slotted_vectors RENAME TO vectors")
        connection.execute("INSERT INTO sums SELECT CAST('slots' AS BLOB), '', count(*) FROM slots HAVING count(*)")
    else:
        connection.execute(VECTORS)
    connection.execute(_IN_PLACE)


MIGRATIONS: Final[tuple[str | Callable[[apsw.Connection], None], ...]] = (
    _FIRST,
    _ACTORS,
    _SUMS,
    _sum_vectors,
    _COMPACT,
    _separate_tenants,
    _COPIES,
    _keep_rows_in_place,
)
"""Steps from each version of the format to the next; never edit one that was released.

From 4 to 5, the full-text index and its column are dropped, ids and times are packed, and documents of new assertions
share their heads. Existing documents stay as they are. The note ``scrub`` compacts the file when it is closed. From 5
to 6, each tenant gets a sequence of its own; columns called ``seq`` hold keys, see `factmem_sqlite_vec.tables`. From
6 to 7, tenants can be marked as unfinished copies, and ids of other stores are found by an index. From 7 to 8, rows
with words are only appended and overwritten in place, outlines are beside their assertions, and places, keywords,
owners, slots and fingerprints are keyed digests.
"""

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "row_sum": row_sum,
    "pack_id": pack_id,
    "pack_moment": pack_moment,
    "keyed": keyed,
}
"""Functions that the steps call."""

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


def is_only_begun(path: Path) -> bool:
    """Return whether a file has no table yet: the process that created it may have died and left a rollback journal.

    Such a file cannot be read without permission to write; SQLite empties it for the next process that has it.
    """
    with path.open("rb") as file:
        page_size = int.from_bytes(file.read(_HEADER_BYTES)[16:18])
    return path.stat().st_size <= (page_size if page_size > 1 else 65536)


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
    if version > len(MIGRATIONS):
        raise NewerVersionError(
            f"{name} is of version {version}, newer than {len(MIGRATIONS)}: upgrade factmem to open it"
        )
    return int(version)


def migrate(connection: apsw.Connection, name: str) -> None:
    """Migrate a database to the newest version, in one transaction; two processes may both try.

    Raises:
        NewerVersionError: See `found_version`.
        CorruptStoreError: See `found_version`.
    """
    if found_version(connection, name) == len(MIGRATIONS):
        return
    for name, function in _FUNCTIONS.items():
        connection.create_scalar_function(name, function, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in MIGRATIONS[found_version(connection, name) :]:
            if isinstance(step, str):
                connection.execute(step)
            else:
                step(connection)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _foreign(name: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"{name} is damaged or no factmem store; nothing was written to it: give another path, or restore it"
    )
