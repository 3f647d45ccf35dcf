"""Tracks: the type that the assertions of one keyword, owner and place share; and heads, which these have in common.

Tracks hold no words: places, keywords and owners are `keyed`. The words are in the heads, rows that are only ever
appended and overwritten, so that their bytes are in one place; see `factmem_sqlite_vec.erasing`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable

import apsw
import attrs

from factmem.facts import FactType
from factmem.providers import check_writable
from factmem.providers.rows import NewRow
from factmem.records import Assertion
from factmem.values import Shape
from factmem_sqlite_vec.rows import Row, keyed, select

__all__ = ["Track", "admit", "head_of", "new_track", "settle_tracks", "sums_of_track", "track_numbered", "track_of"]


@attrs.frozen
class Track:
    """A track with its type.

    Attributes:
        id: Row of the track.
        sums: Key of its sums: the `keyed` digests of its place and its keyword.
        fact_type: None before an assertion counts in it.
        shapes: JSON list of the shapes of all assertions that have counted.
    """

    id: int
    sums: tuple[bytes, bytes]
    fact_type: FactType | None
    shapes: str


def track_of(connection: apsw.Connection, key: bytes, row: NewRow) -> Track | None:
    """Return the track that an assertion belongs to, if there is one."""
    found = select(
        connection,
        "SELECT id, place, keyword, fact_type, shapes FROM tracks WHERE place = ? AND keyword = ? AND owner = ?",
        _keys(key, row),
    )
    return _read_track(found[0]) if found else None


def track_numbered(connection: apsw.Connection, id: int) -> Track:
    """Return the track of a row."""
    (row,) = select(connection, "SELECT id, place, keyword, fact_type, shapes FROM tracks WHERE id = ?", (id,))
    return _read_track(row)


def sums_of_track(connection: apsw.Connection, id: int) -> tuple[bytes, bytes]:
    """Return the key of the sums of a track."""
    ((place, keyword),) = select(connection, "SELECT place, keyword FROM tracks WHERE id = ?", (id,))
    return place, keyword


def new_track(connection: apsw.Connection, key: bytes, row: NewRow) -> Track:
    """Create the track of an assertion, without a type."""
    keys = _keys(key, row)
    connection.execute("INSERT INTO tracks(place, keyword, owner, shapes) VALUES (?, ?, ?, '[]')", keys)
    return Track(connection.last_insert_rowid(), keys[:2], None, "[]")


def _keys(key: bytes, row: NewRow) -> tuple[bytes, bytes, bytes]:
    said = row.assertion
    return keyed(key, row.place), keyed(key, said.keyword), keyed(key, said.details.owner or "")


def head_of(connection: apsw.Connection, track: int, doc: str | None, shared: bytes | None) -> int:
    """Return the row of a head of a track, stored if it is new.

    Args:
        connection: Connection in a transaction.
        track: Row of the track.
        doc: See `factmem.providers.rows.NewRow.head`; None if the documents are whole.
        shared: Shared part of the outlines, if there is one.
    """
    wanted = "SELECT id FROM heads WHERE track = ? AND doc IS ? AND shared IS ?"
    found = select(connection, wanted, (track, doc, shared))
    if found:
        return int(found[0][0])
    connection.execute("INSERT INTO heads(track, doc, shared) VALUES (?, ?, ?)", (track, doc, shared))
    return connection.last_insert_rowid()


def admit(connection: apsw.Connection, track: Track, said: Assertion) -> Track:
    """Check an assertion that counts against the type of its track; widen that type, or set it if there is none.

    Returns:
        The track with its type.

    Raises:
        ConceptConflictError: The types differ; nothing was written.
    """
    shapes = _read_shapes(track.shapes)
    if track.fact_type is not None:
        check_writable(said, track.fact_type, shapes)
    if said.shape in shapes:
        return track
    wider = attrs.evolve(track, fact_type=said.fact_type, shapes=_written_shapes([*shapes, said.shape]))
    connection.execute(
        "UPDATE tracks SET fact_type = ?, shapes = ? WHERE id = ?",
        (said.fact_type.value, wider.shapes, track.id),
    )
    return wider


def settle_tracks(connection: apsw.Connection, tracks: Iterable[int]) -> None:
    """Overwrite unused heads, drop empty tracks, and remove erased types from the others."""
    for track in tracks:
        connection.execute(
            "UPDATE heads SET track = NULL, doc = CAST(zeroblob(length(CAST(doc AS BLOB))) AS TEXT),"
            " shared = zeroblob(length(shared))"
            " WHERE track = ? AND NOT EXISTS (SELECT 1 FROM assertions WHERE head = heads.id)",
            (track,),
        )
        if not select(connection, "SELECT 1 FROM heads WHERE track = ? LIMIT 1", (track,)):
            connection.execute("DELETE FROM tracks WHERE id = ?", (track,))
            continue
        left = select(
            connection,
            "SELECT doc ->> '$.fact_type', doc -> '$.shape' FROM heads WHERE track = ?1 AND doc IS NOT NULL"
            " AND EXISTS (SELECT 1 FROM assertions WHERE head = heads.id AND joined)"
            " UNION SELECT a.doc ->> '$.assertion.fact_type', a.doc -> '$.assertion.shape'"
            " FROM heads h CROSS JOIN assertions a ON a.head = h.id AND a.joined WHERE h.track = ?1 AND h.doc IS NULL",
            (track,),
        )
        shapes = [json.loads(shape) for shape in dict.fromkeys(shape for _, shape in left)]
        connection.execute(
            "UPDATE tracks SET fact_type = ?, shapes = ? WHERE id = ?",
            (left[0][0] if left else None, _written_shapes(shapes), track),
        )


def _read_track(row: Row) -> Track:
    id, place, keyword, fact_type, shapes = row
    return Track(id, (place, keyword), None if fact_type is None else FactType(fact_type), shapes)


@functools.lru_cache(maxsize=1024)
def _read_shapes(text: str) -> tuple[Shape, ...]:
    return tuple(json.loads(text))


def _written_shapes(shapes: Iterable[Shape]) -> str:
    return json.dumps(list(shapes), ensure_ascii=False)
