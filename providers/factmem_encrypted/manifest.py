"""Manifest: the logs, their files, and the number of frames that count. Writing it is the commit.

It is a log of sealed frames of its own. The first is a snapshot, each later one a *commit*: the changes of one group of
saves, one replacement or one rotation. Frames that were appended to files but not recorded in the manifest do not
count, so that several logs change together or not at all.

The manifest has a digest of all counted frames of each file (`chained`). This detects a genuine frame other than the
counted one, from a diverged copy of the store or from a writer that died. Its own frames are chained likewise.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import attrs

from factmem.abc import LogName
from factmem.errors import CorruptStoreError

__all__ = ["Commit", "Listed", "Listing", "Unit", "chained", "commit_from", "commit_to"]

Unit: TypeAlias = tuple[str, ...]
"""The owner of a key: a tenant, or a subject of a tenant."""


@attrs.frozen(kw_only=True)
class Listed:
    """One log.

    Attributes:
        log: Name of the log.
        file: Random name of its file, unique to this generation of the log.
        unit: Unit with whose key the file is sealed.
        epoch: Epoch of that key.
        frames: Number of frames that count.
        digest: Digest of these frames; see `chained`.
    """

    log: LogName
    file: str
    unit: Unit
    epoch: int
    frames: int
    digest: str


@attrs.frozen(kw_only=True)
class Commit:
    """Changes of one commit.

    Attributes:
        number: Number of this commit.
        placed: Logs that are new or in another file now.
        grown: Number of counted frames of these logs' files, and their digest, by file.
        gone: Files of removed logs.
    """

    number: int
    placed: tuple[Listed, ...] = ()
    grown: Mapping[str, tuple[int, str]] = attrs.field(factory=dict)
    gone: tuple[str, ...] = ()


@attrs.define
class Listing:
    """The manifest as it is read.

    Attributes:
        number: Number of the last commit.
        logs: Logs by name.
        files: Names of logs by file.
        units: Number of files sealed with the key of a unit and an epoch; none is 0.
    """

    number: int = 0
    logs: dict[LogName, Listed] = attrs.field(factory=dict)
    files: dict[str, LogName] = attrs.field(factory=dict)
    units: Counter[tuple[Unit, int]] = attrs.field(factory=Counter)

    def copy(self) -> Listing:
        """Return an independent copy."""
        return Listing(self.number, dict(self.logs), dict(self.files), Counter(self.units))

    def take(self, commit: Commit) -> None:
        """Apply a commit."""
        for file in commit.gone:
            self._drop(self.files[file])
        for listed in commit.placed:
            if listed.log in self.logs:
                self._drop(listed.log)
            self.logs[listed.log] = listed
            self.files[listed.file] = listed.log
            self.units[listed.unit, listed.epoch] += 1
        for file, (frames, digest) in commit.grown.items():
            log = self.files[file]
            self.logs[log] = attrs.evolve(self.logs[log], frames=frames, digest=digest)
        self.number = commit.number

    def _drop(self, log: LogName) -> None:
        listed = self.logs.pop(log)
        del self.files[listed.file]
        self.units[listed.unit, listed.epoch] -= 1
        if not self.units[listed.unit, listed.epoch]:
            del self.units[listed.unit, listed.epoch]

    def snapshot(self) -> Commit:
        """Return everything as one commit."""
        return Commit(number=self.number, placed=tuple(self.logs.values()))


def chained(digest: str, frames: Iterable[bytes]) -> str:
    """Return the digest of a chain extended by some frames; ``""`` for an empty chain."""
    for frame in frames:
        digest = hashlib.sha256(digest.encode() + b" " + frame).hexdigest()
    return digest


def commit_to(commit: Commit) -> bytes:
    """Write a commit as JSON."""
    document: dict[str, Any] = {"commit": commit.number}
    if commit.placed:
        document["placed"] = [_placed(listed) for listed in commit.placed]
    if commit.grown:
        document["grown"] = dict(commit.grown)
    if commit.gone:
        document["gone"] = list(commit.gone)
    return json.dumps(document, separators=(",", ":")).encode()


def commit_from(payload: bytes) -> Commit:
    """Read a commit.

    Raises:
        CorruptStoreError: The payload is not a commit.
    """
    try:
        document = json.loads(payload)
        return Commit(
            number=document["commit"],
            placed=tuple(_listed(document.get("placed", ()))),
            grown={file: (frames, digest) for file, (frames, digest) in document.get("grown", {}).items()},
            gone=tuple(document.get("gone", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CorruptStoreError("the store's manifest cannot be read: restore the store from a backup") from None


def _placed(listed: Listed) -> list[Any]:
    log = listed.log
    names = [list(log.folder), list(log.name), log.kind]
    return [*names, listed.file, list(listed.unit), listed.epoch, listed.frames, listed.digest]


def _listed(rows: Iterable[list[Any]]) -> Iterable[Listed]:
    for folder, name, kind, file, unit, epoch, frames, digest in rows:
        log = LogName(folder=tuple(folder), name=tuple(name), kind=kind)
        yield Listed(log=log, file=file, unit=tuple(unit), epoch=epoch, frames=frames, digest=digest)
