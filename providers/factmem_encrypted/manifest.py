"""Manifest: the logs, their files, and the number of frames that count. Writing it is the commit.

It is a log of sealed frames of its own. The first is a snapshot, each later one a *commit*: the changes of one group of
saves, one replacement or one rotation. Frames that were appended to files but not recorded in the manifest do not
count, so that several logs change together or not at all.

The manifest has a digest of all counted frames of each file (`chained`). This detects a genuine frame other than the
counted one, from a diverged copy of the store or from a writer that died. Its own frames are chained likewise.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from factmem.abc.log_storage import LogName, LogStorage, Position
from factmem.crypto.key_file import Roots
from factmem.errors import CorruptStoreError, RolledBackStoreError, StoreUnavailableError, TamperedStoreError

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


def _commit_to(commit: Commit) -> bytes:
    """Write a commit as JSON."""
    document: dict[str, Any] = {"commit": commit.number}
    if commit.placed:
        document["placed"] = [_placed(listed) for listed in commit.placed]
    if commit.grown:
        document["grown"] = dict(commit.grown)
    if commit.gone:
        document["gone"] = list(commit.gone)
    return json.dumps(document, separators=(",", ":")).encode()


def _commit_from(payload: bytes) -> Commit:
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


_NOTE: Final = "head"
_DIGITS: Final = 20


_LOG: Final = LogName(folder=(), name=("store",), kind="manifest")
_SPARE_FRAMES: Final = 256


class ManifestLog:
    """The manifest, as one process sees it. Methods that write need the storage's lock.

    Args:
        storage: Log storage of the manifest.
    """

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage
        self._guard = threading.RLock()
        self._position = Position()
        self._frames = 0
        self._digest = ""
        self._digests: dict[int, str] = {}
        self._listing = Listing()
        self._newest = 0
        self._unproven = False
        self._there = False

    def there(self) -> bool:
        """Return whether there is a manifest; a store is created with it."""
        with self._guard:
            self._there = self._there or self._storage.scan(_LOG, limit=1).position.end > 0
            return self._there

    def begun(self) -> bool:
        """Return whether a store was created here, as far as that is visible without its keys."""
        return self.there() or self._storage.read_note(_NOTE) is not None  # it is written before the manifest

    def used(self, roots: Roots) -> bool:
        """Return whether anything was ever committed, as far as that is visible without the manifest."""
        return self._storage.read_note(_NOTE) is not None and self._read_head(roots)[0] > 0

    def create(self, roots: Roots) -> None:
        """Write the manifest of a new store."""
        self._write_head(0, "", roots, durable=True)
        self._write_anew(Listing(), roots)

    def listing(self, roots: Roots) -> Listing:
        """Return the current listing; not to be changed.

        Raises:
            RolledBackStoreError: The manifest is older than at the last read, or than its head.
            TamperedStoreError: It was changed.
        """
        with self._guard:
            self._catch_up(roots)
            if self._unproven:
                self._check_head(roots)
            if self._listing.number < self._newest:
                raise _older()
            self._newest = self._listing.number
            return self._listing

    def _check_head(self, roots: Roots) -> None:
        """Compare the manifest, read from the beginning, with the head; nothing of it is trusted before they match."""
        number, digest = self._read_head(roots)
        if self._listing.number < number:
            # Other processes may have written between the two.
            self._catch_up(roots)
        if self._listing.number < number or (digest and self._digests.get(number, digest) != digest):
            raise _older()
        self._unproven = False

    def _read_head(self, roots: Roots) -> tuple[int, str]:
        """Return the number of a commit that the manifest must have, and the digest of its frames up to that.

        Raises:
            RolledBackStoreError: The note that says so is missing, or damaged.
            TamperedStoreError: It was changed.
        """
        payload = self._storage.read_note(_NOTE)
        if payload is None:
            raise RolledBackStoreError(
                f"{_NOTE}.note of the store is missing or damaged: restore the whole store from one backup"
            )
        text = roots.opened_note(payload, _NOTE)
        if text is None:
            raise TamperedStoreError(f"{_NOTE}.note of the store was changed: restore the whole store from one backup")
        return int(text[:_DIGITS]), text[_DIGITS:].decode().strip()

    def _write_head(self, number: int, digest: str, roots: Roots, *, durable: bool = False) -> None:
        text = f"{number:0{_DIGITS}d}{digest:64}"
        self._storage.write_note(_NOTE, roots.sealed_note(text.encode(), _NOTE), durable=durable)

    def _catch_up(self, roots: Roots) -> None:
        """Read new commits."""
        scan = self._storage.scan(_LOG, self._position)
        if scan.fresh:
            self._unproven = scan.position.end > 0
            if self._unproven and not scan.payloads:
                raise _older()
            self._listing, self._frames, self._digest, self._digests = Listing(), 0, "", {}
        elif scan.payloads:
            self._listing = self._listing.copy()
        self._position = Position()
        for payload in scan.payloads:
            commit = _opened(payload, roots, self._digest)
            if self._frames and commit.number != self._listing.number + 1:
                raise _changed()
            self._listing.take(commit)
            self._frames += 1
            self._digest = self._digests[commit.number] = chained(self._digest, (payload,))
        self._position = scan.position

    def add(self, commit: Commit, roots: Roots) -> None:
        """Append a commit, or rewrite the manifest if it has grown long."""
        with self._guard:
            listing = self.listing(roots)
            if self._frames > _SPARE_FRAMES + 2 * len(listing.logs):
                listing = listing.copy()
                listing.take(commit)
                digest = self._write_anew(listing, roots)
            else:
                frame = _sealed(commit, roots, self._digest)
                digest = chained(self._digest, (frame,))
                self._storage.append(_LOG, frame, self._position)
            # It counts already: the head may be behind.
            with contextlib.suppress(StoreUnavailableError):
                self._write_head(commit.number, digest, roots)

    def reseal(self, roots: Roots) -> None:
        """Seal the manifest with the current root, so that it needs no other."""
        with self._guard:
            listing = self.listing(roots).copy()
            listing.number += 1
            digest = self._write_anew(listing, roots)
            self._write_head(listing.number, digest, roots, durable=True)

    def _write_anew(self, listing: Listing, roots: Roots) -> str:
        """Replace all frames by one snapshot, sealed with the current root, and return its digest."""
        self._position = Position()
        frame = _sealed(listing.snapshot(), roots, "")
        self._storage.replace(_LOG, [frame])
        return chained("", (frame,))

    def settle(self) -> None:
        """Make all commits read so far durable."""
        with self._guard:
            self._storage.settle(_LOG, self._position)


def _sealed(commit: Commit, roots: Roots, before: str) -> bytes:
    return roots.sealed_frame(_commit_to(commit), roots.current.epoch, _LOG.kind, before)


def _opened(payload: bytes, roots: Roots, before: str) -> Commit:
    try:
        _, content = roots.opened_frame(payload, _LOG.kind, before)
    except ValueError:
        raise _changed() from None
    return _commit_from(content)


def _older() -> RolledBackStoreError:
    return RolledBackStoreError(
        "the store's manifest is gone, cut short or another one than it was: restore the whole store from one backup"
    )


def _changed() -> TamperedStoreError:
    return TamperedStoreError("the store's manifest was changed: restore the store from a backup")
