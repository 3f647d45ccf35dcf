"""The manifest: which logs there are, in which files, how far they count. It is what commits.

It is a log of sealed frames of its own. The first is a snapshot, each later one a *commit*: what one group
of saves, one replacement or one rotation changed. Frames that were appended to files and never made it into the
manifest do not count, so that several logs change together or not at all.

The manifest knows each file by a digest of all its frames that count (`chained`): a genuine frame that is
another than was counted, from a copy of the store that went its own way or from a writer that died, is found
out. Its own frames are chained likewise.
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
        log: its name.
        file: the random name of the file it is in, which is of this life of the log only.
        unit: whose key the file is sealed with.
        epoch: of that key.
        frames: how many of them count.
        digest: of these, see `chained`.
    """

    log: LogName
    file: str
    unit: Unit
    epoch: int
    frames: int
    digest: str


@attrs.frozen(kw_only=True)
class Commit:
    """The changes of one commit.

    Attributes:
        number: of this commit.
        placed: the logs that are new or in another file now.
        grown: how many frames of these logs' files count now, and their digest, by file.
        gone: the files whose logs are no more.
    """

    number: int
    placed: tuple[Listed, ...] = ()
    grown: Mapping[str, tuple[int, str]] = attrs.field(factory=dict)
    gone: tuple[str, ...] = ()


@attrs.define
class Listing:
    """The manifest as it is read.

    Attributes:
        number: of the last commit.
        logs: what is listed, by name.
        files: the names, by file.
        units: how many files are sealed with the key of a unit and an epoch; none is 0.
    """

    number: int = 0
    logs: dict[LogName, Listed] = attrs.field(factory=dict)
    files: dict[str, LogName] = attrs.field(factory=dict)
    units: Counter[tuple[Unit, int]] = attrs.field(factory=Counter)

    def copy(self) -> Listing:
        """Return one that can be changed by itself."""
        return Listing(self.number, dict(self.logs), dict(self.files), Counter(self.units))

    def take(self, commit: Commit) -> None:
        """Take in a commit."""
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
    """Return the digest of what a digest stands for and some frames behind it; of nothing, it is ``""``."""
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
        CorruptStoreError: the payload is none.
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
