"""Tracks: the type that the assertions of one keyword, owner and place share."""

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
from factmem_sqlite_vec.rows import Row, select

__all__ = ["Track", "admit", "head_of", "new_track", "settle_tracks", "sums_of_track", "track_numbered", "track_of"]


@attrs.frozen
class Track:
    """A track with its type.

    Attributes:
        id: Row of the track.
        fact_type: None before an assertion counts in it.
        shapes: JSON list of the shapes of all assertions that have counted, in that order.
    """

    id: int
    fact_type: FactType | None
    shapes: str


def track_of(connection: apsw.Connection, row: NewRow) -> Track | None:
    """Return the track that an assertion belongs to, if there is one."""
    said = row.assertion
    found = select(
        connection,
        "SELECT id, fact_type, shapes FROM tracks WHERE place = ? AND keyword = ? AND owner = ?",
        (row.place, said.keyword, said.details.owner or ""),
    )
    return _read_track(found[0]) if found else None


def track_numbered(connection: apsw.Connection, id: int) -> Track:
    """Return the track of a row."""
    (row,) = select(connection, "SELECT id, fact_type, shapes FROM tracks WHERE id = ?", (id,))
    return _read_track(row)


def sums_of_track(connection: apsw.Connection, id: int) -> tuple[bytes, str]:
    """Return the key of the sums of a track: the digest of its place, and its keyword."""
    ((place, keyword),) = select(connection, "SELECT place, keyword FROM tracks WHERE id = ?", (id,))
    return place, keyword


def new_track(connection: apsw.Connection, row: NewRow) -> Track:
    """Create the track of an assertion, without a type."""
    said, scope, subject = row.assertion, row.assertion.place.scope, row.assertion.place.subject
    connection.execute(
        "INSERT INTO tracks(place, keyword, owner, tenant, scope, subject, individual, shapes)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, '[]')",
        (
            row.place,
            said.keyword,
            said.details.owner or "",
            scope.tenant or "",
            json.dumps(scope.segments, ensure_ascii=False),
            subject.name,
            subject.individual_name or "",
        ),
    )
    return Track(connection.last_insert_rowid(), None, "[]")


def head_of(connection: apsw.Connection, track: Track, head: str) -> int:
    """Return the row of a head of a track, stored if it is new."""
    found = select(connection, "SELECT id FROM heads WHERE track = ? AND doc = ?", (track.id, head))
    if found:
        return int(found[0][0])
    connection.execute("INSERT INTO heads(track, doc) VALUES (?, ?)", (track.id, head))
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
    wider = Track(track.id, said.fact_type, _written_shapes([*shapes, said.shape]))
    connection.execute(
        "UPDATE tracks SET fact_type = ?, shapes = ? WHERE id = ?",
        (said.fact_type.value, wider.shapes, track.id),
    )
    return wider


def settle_tracks(connection: apsw.Connection, tracks: Iterable[int]) -> None:
    """Drop empty tracks, and remove erased types from the others."""
    for track in tracks:
        connection.execute(
            "DELETE FROM heads WHERE track = ?1"
            " AND id NOT IN (SELECT head FROM assertions WHERE track = ?1 AND head IS NOT NULL)",
            (track,),
        )
        if not select(connection, "SELECT 1 FROM assertions WHERE track = ? LIMIT 1", (track,)):
            connection.execute("DELETE FROM tracks WHERE id = ?", (track,))
            continue
        left = select(
            connection,
            "SELECT coalesce(h.doc ->> '$.fact_type', a.doc ->> '$.assertion.fact_type'),"
            " coalesce(h.doc -> '$.shape', a.doc -> '$.assertion.shape')"
            " FROM assertions a LEFT JOIN heads h ON h.id = a.head"
            " WHERE a.track = ? AND a.joined IS NOT NULL ORDER BY a.joined",
            (track,),
        )
        shapes = [json.loads(shape) for shape in dict.fromkeys(shape for _, shape in left)]
        connection.execute(
            "UPDATE tracks SET fact_type = ?, shapes = ? WHERE id = ?",
            (left[0][0] if left else None, _written_shapes(shapes), track),
        )


def _read_track(row: Row) -> Track:
    id, fact_type, shapes = row
    return Track(id, None if fact_type is None else FactType(fact_type), shapes)


@functools.lru_cache(maxsize=1024)
def _read_shapes(text: str) -> tuple[Shape, ...]:
    return tuple(json.loads(text))


def _written_shapes(shapes: Iterable[Shape]) -> str:
    return json.dumps(list(shapes), ensure_ascii=False)
