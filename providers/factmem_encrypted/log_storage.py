"""Encrypting storage: sealed frames in files with random names, listed by a sealed manifest.

A frame is bound to its store, log, file, position and commit. Its payload is ``<index> <commit> <base64>``. The two
numbers serve to report the cause if a seal does not open; only the numbers that the seal is bound to are trusted.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
from typing_extensions import override

from factmem.abc.log_storage import LogName, LogStorage, Position, Scan
from factmem.crypto.key_file import Roots, pending_rotation
from factmem.crypto.keys import Keyring
from factmem.crypto.sealing import Context, SealBrokenError, seal, unseal
from factmem.errors import (
    CorruptStoreError,
    FactMemError,
    MisplacedDataError,
    RolledBackStoreError,
    StoreUnavailableError,
    TamperedStoreError,
)
from factmem.progress import Progress
from factmem.store_findings import Finding, FindingKind, finding_of, leftover
from factmem_encrypted.key_table import KeyTable
from factmem_encrypted.manifest import Commit, Listed, Listing, ManifestLog, Unit, chained


@attrs.frozen(kw_only=True)
class FrameKey:
    """Key and context that the frames of one file are sealed with.

    Attributes:
        key: 32 bytes.
        store: Id of the store.
        log: Log of the frames, with tenant, scope and subject.
        file: Random name of the file.
    """

    key: bytes = attrs.field(repr=False)
    store: str
    log: LogName
    file: str

    def context(self, index: int, commit: int) -> Context:
        """Return the context that a frame is bound to."""
        log = self.log
        lengths = (len(log.folder), len(log.name))
        return ("frame", self.store, *lengths, *log.folder, *log.name, log.kind, self.file, index, commit)


def _sealed(key: FrameKey, index: int, commit: int, payload: bytes) -> bytes:
    text = base64.b64encode(seal(key.key, payload, key.context(index, commit)))
    return b"%d %d %b" % (index, commit, text)


def opened(key: FrameKey, index: int, frame: bytes) -> bytes:
    """Open a frame.

    Args:
        key: Key of the file.
        index: Expected index of the frame in the file, from 0.
        frame: Payload of the frame.

    Raises:
        MisplacedDataError: It is another frame.
        TamperedStoreError: It does not open.
    """
    try:
        found, commit, text = frame.split(b" ")
        if int(found) != index:
            raise MisplacedDataError(f"the frames of {key.file} are not in their order: restore it from a backup")
        return unseal(key.key, base64.b64decode(text, validate=True), key.context(index, int(commit)))
    except (SealBrokenError, ValueError, binascii.Error):
        raise TamperedStoreError(
            f"{key.file} was changed by someone without the key, or belongs to another store: restore it from a backup"
        ) from None


def _commit_number(frame: bytes) -> int:
    """Return the commit number in a frame, which is not authenticated by this.

    Raises:
        TamperedStoreError: There is none.
    """
    try:
        return int(frame.split(b" ", 2)[1])
    except (ValueError, IndexError):
        raise TamperedStoreError("a frame of the store was changed: restore the store from a backup") from None


@attrs.frozen
class _Done:
    """State of reading a file.

    Attributes:
        frames: Number of frames read.
        digest: Digest of them; see `factmem_encrypted.manifest.chained`.
    """

    frames: int = 0
    digest: str = ""


def _inner_position(position: Position | None, file: str) -> tuple[Position, _Done]:
    """Return the position inside a file and the state of reading it; the beginning for a position of another file."""
    if position is None or not position.end:
        return Position(), _Done()
    named, _, generation = position.generation.partition(" ")
    if named != file:
        return Position(), _Done()
    frames, digest, mark = position.mark.split(b" ", 2)
    return attrs.evolve(position, generation=generation, mark=mark), _Done(int(frames), digest.decode())


def _outer_position(position: Position, file: str, done: _Done) -> Position:
    """Return the position in the log of a file."""
    mark = b"%d %b %b" % (done.frames, done.digest.encode(), position.mark)
    return attrs.evolve(position, generation=f"{file} {position.generation}", mark=mark)


_REMADE: Final = "vectors"
"""Kind of log whose frames need not last: its contents can be recomputed."""

_KIND: Final = "sealed"


def _file_log(file: str) -> LogName:
    """Return the log of a file in the storage below."""
    return LogName(folder=(file[:2],), name=(file,), kind=_KIND)


class _SealedFiles:
    """The files as one process sees them.

    Args:
        storage: Log storage of the files.
    """

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage
        self._checked: set[str] = set()
        self._looked = False

    def names(self) -> list[str]:
        """Return the names of the existing files, listed or not."""
        logs = self._storage.logs(kinds=(_KIND,))
        return [log.name[0] for log in logs if log == _file_log(log.name[0])]

    def look_around(self, listing: Listing) -> None:
        """Check once for files that only a later manifest can have listed.

        Raises:
            RolledBackStoreError: There are such files.
        """
        if not self._looked:
            self.check_ends(listing, [file for file in self.names() if file not in listing.files])
            self._looked = True

    def check_ends(self, listing: Listing, files: Iterable[str]) -> None:
        """Check once for each file whether it ends as the manifest allows.

        Frames behind the counted ones were left by a writer that died; they cannot be of a later commit.

        Raises:
            RolledBackStoreError: A file does not.
        """
        for file in files:
            if file not in self._checked:
                frame = self._storage.last(_file_log(file))
                if frame is not None and _commit_number(frame) > listing.number + 1:
                    raise RolledBackStoreError(
                        "the store's manifest is older than its files: restore the manifest, or the whole store from "
                        "one backup"
                    )
                self._checked.add(file)

    def tidy(self, listing: Listing) -> None:
        """Remove the remains of writers that died. Needs the storage's lock.

        Raises:
            CorruptStoreError: A file is damaged; nothing was removed.
        """
        files = self.names()
        left = [file for file in files if file not in listing.files]
        self.check_ends(listing, left)
        lasting = {file for file, log in listing.files.items() if log.kind != _REMADE}
        self.check_ends(listing, [file for file in files if file in lasting])
        for file in left:
            self._storage.replace(_file_log(file), ())
        self._storage.sweep()


_NOTES: Final = ("embedder", "sequence")


@attrs.define
class _Pending:
    """Frames that were appended under a lock and are not sealed yet."""

    placed: dict[LogName, Listed] = attrs.field(factory=dict)
    grown: dict[LogName, Listed] = attrs.field(factory=dict)
    broken: bool = False


class EncryptedLogStorage(LogStorage):
    """Seals payloads and names, and keeps them in another storage.

    Args:
        inner: Log storage of the sealed frames.
        keyring: Opens the store's keys, or makes those of a new store.
        unit_of: Returns the unit with whose key the frames of a new log are sealed.
    """

    def __init__(self, inner: LogStorage, keyring: Keyring, unit_of: Callable[[LogName], Unit]) -> None:
        self._inner = inner
        self._unit_of = unit_of
        self._keys = KeyTable(inner, keyring)
        self._manifest = ManifestLog(inner)
        self._pending = _Pending()
        self._files = _SealedFiles(inner)
        self._tidied = False

    @override
    def exists(self) -> bool:
        if not self._inner.exists():
            return False
        if self._keys.there():
            return True
        self._refuse_without_keys()
        return False

    @property
    @override
    def read_only(self) -> bool:
        return self._inner.read_only

    @contextlib.contextmanager
    def lock(self, timeout: float) -> Iterator[None]:
        """See `factmem.abc.log_storage.LogStorage.lock`.

        Raises:
            WrongKeyError: The key does not open the store; nothing was changed.
            KeyUnavailableError: The key is not available; nothing was changed.
        """
        if not self._inner.exists():
            self._keys.prepare()
        with self._inner.lock(timeout):
            self._create()
            self._pending = _Pending()
            if not (self._tidied or self.read_only):
                listing = self._now()[1]
                # Its last change may not be on the disk yet; what it lists no more is removed for ever.
                self._manifest.settle()
                self._files.tidy(listing)
                self._destroy_unused_keys()
                self._tidied = True
            yield

    def append(self, log: LogName, payload: bytes, after: Position, *, durable: bool = True) -> None:
        """See `factmem.abc.log_storage.LogStorage.append`; frames count from the next `seal` on."""
        try:
            self._append(log, payload, after, durable=durable)
        except FactMemError:
            # Frames that need not last can be made again; of the rest, all count or none.
            self._pending.broken = self._pending.broken or durable
            raise

    def _append(self, log: LogName, payload: bytes, after: Position, *, durable: bool) -> None:
        roots, listing = self._now()
        listed = listing.logs.get(log)
        pending = self._pending.placed if listed is None else self._pending.grown
        if listed is None:
            listed = self._newly_listed(log, roots)
        inner, done = _inner_position(after, listed.file)
        key = self._frame_key(listed, roots, make=not done.frames)
        frame = _sealed(key, done.frames, listing.number + 1, payload)
        self._inner.append(_file_log(listed.file), frame, inner, durable=durable)
        pending[log] = attrs.evolve(listed, frames=done.frames + 1, digest=chained(done.digest, (frame,)))

    @override
    def seal(self) -> None:
        pending, self._pending = self._pending, _Pending()
        if pending.broken:
            raise StoreUnavailableError("a group of frames could not be written whole: none of it counts")
        if pending.placed or pending.grown:
            grown = {listed.file: (listed.frames, listed.digest) for listed in pending.grown.values()}
            self._commit(tuple(pending.placed.values()), grown=grown)

    def settle(self, log: LogName, upto: Position) -> None:
        """See `factmem.abc.log_storage.LogStorage.settle`: a frame is durable before the manifest counts it."""
        self._now()
        self._manifest.settle()

    @override
    def scan(self, log: LogName, since: Position | None = None, *, limit: int | None = None) -> Scan:
        roots, listing = self._now()
        listed = listing.logs.get(log)
        if listed is None:
            return Scan(payloads=(), position=Position(), fresh=True)
        inner, done = _inner_position(since, listed.file)
        count = listed.frames - done.frames if limit is None else min(limit, listed.frames - done.frames)
        if since is not None and inner.end and count <= 0:
            if listed.frames < done.frames:
                raise _rolled_back(listed.file)
            return Scan(payloads=(), position=since, fresh=False)
        if not inner.end:
            self._files.check_ends(listing, (listed.file,))
        scan = self._inner.scan(_file_log(listed.file), inner, limit=count)
        if scan.fresh and inner.end:
            raise RolledBackStoreError(f"{listed.file} was put in place of another one: restore it from a backup")
        if len(scan.payloads) < count:
            raise _rolled_back(listed.file)
        key = self._frame_key(listed, roots)
        payloads = tuple(opened(key, done.frames + n, frame) for n, frame in enumerate(scan.payloads))
        now_done = _Done(done.frames + len(payloads), chained(done.digest, scan.payloads))
        if now_done.frames == listed.frames and now_done.digest != listed.digest:
            raise _rolled_back(listed.file)
        position = _outer_position(scan.position, listed.file, now_done)
        return Scan(payloads=payloads, position=position, fresh=not inner.end)

    @override
    def last(self, log: LogName) -> bytes | None:
        roots, listing = self._now()
        listed = listing.logs.get(log)
        if listed is None or not listed.frames:
            return None
        frame = self._inner.last(_file_log(listed.file))
        if frame is not None and frame.startswith(b"%d " % (listed.frames - 1)):
            return opened(self._frame_key(listed, roots), listed.frames - 1, frame)
        # It has frames that never counted, or its end is missing.
        return self.scan(log).payloads[-1]

    def replace(self, log: LogName, payloads: Sequence[bytes], *, durable: bool = True) -> None:
        """Write a new file, list it in the manifest, then remove the old one.

        See `factmem.abc.log_storage.LogStorage.replace`.
        """
        roots, listing = self._now()
        before = listing.logs.get(log)
        if payloads:
            self._place(log, payloads, roots, listing, durable=durable)
        elif before is not None:
            self._commit(gone=(before.file,))
        if before is not None:
            self._inner.replace(_file_log(before.file), (), durable=durable)
        if not payloads and before is not None:
            self._destroy_unused_keys()

    def sweep(self) -> None:
        """See `factmem.abc.log_storage.LogStorage.sweep`; each process does it once."""
        self._inner.sweep()

    @override
    def logs(self, folder: Sequence[str] = (), *, kinds: Collection[str]) -> Sequence[LogName]:
        if not self.exists():
            return []
        top = tuple(folder)
        return [log for log in self._now()[1].logs if log.kind in kinds and log.folder[: len(top)] == top]

    @override
    def check(self, progress: Progress) -> Sequence[Finding]:
        found = list(self._inner.check(progress))
        roots, listing = self._now()
        for log, listed in listing.logs.items():
            try:
                self.scan(log)
            except CorruptStoreError as error:
                finding = finding_of(error, listed.file)
                if log.kind == _REMADE:
                    finding = attrs.evolve(finding, kind=FindingKind.REMAKEABLE, advice="run `factmem reembed`")
                # The same damage may show without the key.
                found = [item for item in found if Path(item.part).stem != listed.file]
                found.append(finding)
        found += [
            leftover(file, "a writer died before the file counted", "the next write removes it")
            for file in self._files.names()
            if file not in listing.files
        ]
        if len(roots.of_epochs) > 1:
            found.append(pending_rotation())
        return found

    @override
    def read_note(self, name: str) -> bytes | None:
        if not self.exists():
            return None
        payload = self._inner.read_note(name)
        return None if payload is None else self._keys.roots().opened_note(payload, "note", name)

    @override
    def write_note(self, name: str, payload: bytes, *, durable: bool = True) -> None:
        self._inner.write_note(name, self._keys.roots().sealed_note(payload, "note", name), durable=durable)

    @override
    def close(self) -> None:
        self._inner.close()

    def begin_rotation(self, keyring: Keyring) -> None:
        """Switch the store to another keyring at once, and begin an epoch of new keys. Needs `lock`."""
        self._keys.rekey(self._keys.roots().begin_epoch(), keyring)

    def rotating(self) -> Sequence[LogName]:
        """Return the logs that are sealed with the keys of an earlier epoch."""
        roots, listing = self._now()
        return [log for log, listed in listing.logs.items() if listed.epoch != roots.current.epoch]

    def rotate(self, log: LogName) -> None:
        """Seal a log with the keys of the current epoch. Needs `lock`."""
        roots, listing = self._now()
        listed = listing.logs.get(log)
        if listed is None or listed.epoch == roots.current.epoch:
            return
        try:
            payloads = self.scan(log).payloads
        except CorruptStoreError:
            if log.kind != _REMADE:
                raise
            payloads = ()
        self.replace(log, payloads)

    def end_rotation(self) -> bool:
        """Destroy the keys of all epochs but the current one, once nothing is sealed with them. Needs `lock`.

        Return whether there was another epoch.
        """
        roots, _ = self._now()
        if ended := len(roots.of_epochs) > 1 and not self.rotating():
            for name in _NOTES:
                if (payload := self.read_note(name)) is not None:
                    self.write_note(name, payload)
            self._manifest.reseal(roots)
            self._keys.rekey(roots.end_epochs(), self._keys.keyring)
        return ended

    def _create(self) -> None:
        if not self._keys.there():
            self._refuse_without_keys()
            self._keys.create()
        if not self._manifest.there():
            self._refuse_without_manifest()
            self._manifest.create(self._keys.roots())

    def _refuse_without_keys(self) -> None:
        if self._manifest.begun() or self._files.names():
            raise RolledBackStoreError(
                "store.keys, the file with the store's keys, is missing: restore it; without it nothing can be read"
            )

    def _refuse_without_manifest(self) -> None:
        if not self._keys.empty() or self._manifest.used(self._keys.roots()) or self._files.names():
            raise RolledBackStoreError("the store's manifest is missing: restore the whole store from one backup")

    def _now(self) -> tuple[Roots, Listing]:
        roots = self._keys.roots()
        if not self._manifest.there():
            self._refuse_without_manifest()
        listing = self._manifest.listing(roots)
        self._files.look_around(listing)
        return roots, listing

    def _commit(
        self,
        placed: tuple[Listed, ...] = (),
        *,
        grown: Mapping[str, tuple[int, str]] | None = None,
        gone: tuple[str, ...] = (),
    ) -> None:
        roots, listing = self._now()
        commit = Commit(number=listing.number + 1, placed=placed, grown=grown or {}, gone=gone)
        self._manifest.add(commit, roots)

    def _place(self, log: LogName, payloads: Sequence[bytes], roots: Roots, listing: Listing, *, durable: bool) -> None:
        listed = self._newly_listed(log, roots)
        key = self._frame_key(listed, roots, make=True)
        frames = [_sealed(key, index, listing.number + 1, payload) for index, payload in enumerate(payloads)]
        self._inner.replace(_file_log(listed.file), frames, durable=durable)
        self._commit((attrs.evolve(listed, frames=len(frames), digest=chained("", frames)),))

    def _newly_listed(self, log: LogName, roots: Roots) -> Listed:
        unit, epoch = self._unit_of(log), roots.current.epoch
        return Listed(log=log, file=secrets.token_hex(16), unit=unit, epoch=epoch, frames=0, digest="")

    def _frame_key(self, listed: Listed, roots: Roots, *, make: bool = False) -> FrameKey:
        unit, epoch = listed.unit, listed.epoch
        # A missing key is made only for a unit that never had one: data sealed with a lost key must be noticed.
        new = make and not self._keys.has(unit, epoch) and (unit, epoch) not in self._now()[1].units
        key = self._keys.give(unit, epoch) if new else self._keys.of(unit, epoch)
        return FrameKey(key=key, store=roots.store, log=listed.log, file=listed.file)

    def _destroy_unused_keys(self) -> None:
        _, listing = self._now()
        # Includes the keys of logs that are about to be listed.
        coming = {(listed.unit, listed.epoch) for listed in self._pending.placed.values()}
        self._keys.keep(listing.units.keys() | coming)


def _rolled_back(file: str) -> RolledBackStoreError:
    return RolledBackStoreError(
        f"{file} is missing or another one than the store's manifest says: restore it from a backup"
    )
