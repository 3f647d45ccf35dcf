"""Vectors, in rows of a fixed number of them, so that pages are full and are read at once.

A vector has a *slot*, its number in the store, which stands beside its assertion. Slots are written one after the
other and overwritten in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import apsw

from factmem_sqlite_vec.rows import select

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SLOTS", "VECTORS", "overwrite", "read_slot", "read_slots", "slots_of", "write_slots"]

VECTORS: Final = "CREATE TABLE vectors(chunk INTEGER PRIMARY KEY, embeddings BLOB NOT NULL) STRICT"
"""Empty table of vectors."""

SLOTS: Final = 16
"""Number of vectors in a row."""


def slots_of(connection: apsw.Connection, part: tuple[int, int]) -> NDArray[np.int64]:
    """Return the keys and the slots of the vectors in a part of a tenant's log, in two rows; see `of_tenant`."""
    import numpy as np

    rows = connection.execute(
        "SELECT seq, vector FROM assertions WHERE seq > ? AND seq <= ? AND vector IS NOT NULL ORDER BY seq", part
    )
    numbers = np.fromiter((number for row in rows for number in row), np.int64)
    return np.ascontiguousarray(numbers.reshape(-1, 2).T)


def read_slots(
    connection: apsw.Connection, slots: NDArray[np.int64], dimension: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield vectors by their slots: places among these, and their vectors, one a row; nothing for lost ones."""
    import numpy as np

    order = np.argsort(slots, kind="stable")
    chunks = slots[order] // SLOTS
    starts = np.flatnonzero(np.diff(chunks, prepend=-2))
    parts = np.split(order, starts[1:])
    rows = connection.executemany(
        "SELECT (SELECT embeddings FROM vectors WHERE chunk = ?)", [(int(chunk),) for chunk in chunks[starts]]
    )
    for places, (found,) in zip(parts, rows, strict=False):
        if found is not None and len(found) == SLOTS * dimension * 4:
            yield places, np.frombuffer(found, np.float32).reshape(SLOTS, dimension)[slots[places] % SLOTS]


def read_slot(connection: apsw.Connection, slot: int, size: int) -> bytes:
    """Return the bytes of one vector."""
    chunk, place = divmod(slot, SLOTS)
    found = select(connection, "SELECT embeddings FROM vectors WHERE chunk = ?", (chunk,))
    return bytes(found[0][0][place * size : (place + 1) * size]) if found else b""


def overwrite(connection: apsw.Connection, slot: int, vectors: bytes, size: int) -> None:
    """Write one or more vectors of a row in place."""
    chunk, place = divmod(slot, SLOTS)
    with connection.blob_open("main", "vectors", "embeddings", chunk, True) as blob:
        blob.seek(place * size)
        blob.write(vectors)


def write_slots(connection: apsw.Connection, slot: int, vectors: Sequence[bytes]) -> None:
    """Write vectors of one length to the slots after the last one in use.

    Args:
        connection: Connection in a transaction.
        slot: The first of the slots.
        vectors: The vectors.
    """
    done = 0
    while done < len(vectors):
        some = vectors[done : done + SLOTS - (slot + done) % SLOTS]
        if (slot + done) % SLOTS:
            overwrite(connection, slot + done, b"".join(some), len(some[0]))
        else:
            row = b"".join(some) + bytes((SLOTS - len(some)) * len(some[0]))
            connection.execute("INSERT INTO vectors VALUES (?, ?)", ((slot + done) // SLOTS, row))
        done += len(some)
