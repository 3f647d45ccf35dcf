"""The manifest: which logs there are, in which files, how far they count. It is what commits.

It is a log of sealed frames of its own. The first is a snapshot, each later one a *commit*: what one group
of saves, one replacement or one rotation changed. Frames that were appended to files and never made it into the
manifest do not count, so that several logs change together or not at all. Each frame says its commit, and
so does each frame of each file: a manifest that is older than the files shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import attrs

from factmem.abc import LogName
from factmem.errors import CorruptStoreError

__all__ = ["Commit", "Listed", "Listing", "Unit", "commit_from", "commit_to"]

Unit: TypeAlias = tuple[str, ...]
"""What has a key of its own: a tenant, or a subject of a tenant."""


@attrs.frozen(kw_only=True)
class Listed:
    """One log.

    Attributes:
        log: its name.
        file: the random name of the file it is in, which is of this life of the log only.
        unit: whose key the file is sealed with.
        epoch: of that key.
        frames: how many of them count.
    """

    log: LogName
    file: str
    unit: Unit
    epoch: int
    frames: int


@attrs.frozen(kw_only=True)
class Commit:
    """What changes together.

    Attributes:
        number: of this commit.
        placed: the logs that are new or in another file now.
        grown: how many frames of these logs' files count now, by file.
        gone: the files whose logs are no more.
    """

    number: int
    placed: tuple[Listed, ...] = ()
    grown: Mapping[str, int] = attrs.field(factory=dict)
    gone: tuple[str, ...] = ()


@attrs.define
class Listing:
    """The manifest as it is read.

    Attributes:
        number: of the last commit.
        logs: what is listed, by name.
        files: the names, by file.
    """

    number: int = 0
    logs: dict[LogName, Listed] = attrs.field(factory=dict)
    files: dict[str, LogName] = attrs.field(factory=dict)

    def take(self, commit: Commit) -> None:
        """Take in a commit."""
        for file in commit.gone:
            self.logs.pop(self.files.pop(file), None)
        for listed in commit.placed:
            if (before := self.logs.get(listed.log)) is not None:
                del self.files[before.file]
            self.logs[listed.log] = listed
            self.files[listed.file] = listed.log
        for file, frames in commit.grown.items():
            log = self.files[file]
            self.logs[log] = attrs.evolve(self.logs[log], frames=frames)
        self.number = commit.number

    def snapshot(self) -> Commit:
        """Return everything as one commit."""
        return Commit(number=self.number, placed=tuple(self.logs.values()))


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
            grown=document.get("grown", {}),
            gone=tuple(document.get("gone", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CorruptStoreError("the store's manifest cannot be read: restore the store from a backup") from None


def _placed(listed: Listed) -> list[Any]:
    log = listed.log
    return [list(log.folder), list(log.name), log.kind, listed.file, list(listed.unit), listed.epoch, listed.frames]


def _listed(rows: Iterable[list[Any]]) -> Iterable[Listed]:
    for folder, name, kind, file, unit, epoch, frames in rows:
        log = LogName(folder=tuple(folder), name=tuple(name), kind=kind)
        yield Listed(log=log, file=file, unit=tuple(unit), epoch=epoch, frames=frames)
