"""Positions in sealed logs: the position in the file, and the state of reading up to there."""

from __future__ import annotations

import attrs

from factmem.abc import Position

__all__ = ["Done", "inner_position", "outer_position"]


@attrs.frozen
class Done:
    """State of reading a file.

    Attributes:
        frames: Number of frames read.
        digest: Digest of them; see `factmem_encrypted.manifest.chained`.
    """

    frames: int = 0
    digest: str = ""


def inner_position(position: Position | None, file: str) -> tuple[Position, Done]:
    """Return the position inside a file and the state of reading it; the beginning for a position of another file."""
    if position is None or not position.end:
        return Position(), Done()
    named, _, generation = position.generation.partition(" ")
    if named != file:
        return Position(), Done()
    frames, digest, mark = position.mark.split(b" ", 2)
    return attrs.evolve(position, generation=generation, mark=mark), Done(int(frames), digest.decode())


def outer_position(position: Position, file: str, done: Done) -> Position:
    """Return the position in the log of a file."""
    mark = b"%d %b %b" % (done.frames, done.digest.encode(), position.mark)
    return attrs.evolve(position, generation=f"{file} {position.generation}", mark=mark)
