"""Backups: verified copies of whole stores, and their return.

A backup is a folder with the files of a store and ``backup.json``, which lists their lengths and SHA-256 digests. It is
made beside its place under another name, checked, flushed and renamed, so that a broken backup is never taken for one.

A restore copies a backup beside the store and checks the copy with the key of the store. Then it notes in
``NAME.restoring/restore.json`` that the files are being exchanged: until that is done, nobody can open the store, and
the next restore finishes the exchange. Nothing is deleted: the files that were there before get another name.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import attrs
from anyio import CancelScope, to_thread

from factmem.abc.capabilities import KeepsFiles, StoreLocation
from factmem.abc.provider import AgentMemoryProvider
from factmem.errors import (
    CapabilityError,
    CorruptStoreError,
    InvalidDataError,
    NewerVersionError,
    StoreUnavailableError,
    WrongKeyError,
)
from factmem.private_files import (
    create_file,
    held_lock,
    make_folders,
    open_to_change,
    replace_file,
    sync_file,
    sync_folder,
    write_all,
)
from factmem.progress import Progress, no_report
from factmem.store_findings import Severity
from factmem.values import Json

if TYPE_CHECKING:
    from filelock import FileLock

_FORMAT: Final = 1
_MANIFEST: Final = "backup.json"
_MOST_MANIFEST_BYTES: Final = 1 << 28
_STEM: Final = "store"
"""Name of the store in a backup, whatever it is called elsewhere."""

_FOLDER: Final = ".restoring"
_NOTE: Final = "restore.json"
_LOCK: Final = ".lock"
_CHUNK: Final = 1 << 20


@attrs.frozen(kw_only=True)
class Backup:
    """The description of a backup.

    Attributes:
        kind: Kind of the store: the name of its provider in addresses.
        made_at: Time of the backup.
        files: Length in bytes and SHA-256 digest of each file, by its path in the backup.
    """

    kind: str
    made_at: dt.datetime
    files: Mapping[str, tuple[int, str]]

    @property
    def size(self) -> int:
        """Length of all files together, in bytes."""
        return sum(length for length, _ in self.files.values())

    @property
    def digest(self) -> str:
        """SHA-256 digest of the description, which stands for the backup."""
        return hashlib.sha256(json.dumps(self._document(), sort_keys=True).encode()).hexdigest()

    def _document(self) -> dict[str, Json]:
        return {
            "format": _FORMAT,
            "store": self.kind,
            "made_at": self.made_at.isoformat(),
            "files": {path: [length, digest] for path, (length, digest) in sorted(self.files.items())},
        }

    def to_bytes(self) -> bytes:
        """Return the content of the manifest."""
        document = {**self._document(), "digest": self.digest, "written_by": f"factmem {version('factmem')}"}
        return json.dumps(document, indent=1).encode() + b"\n"


@attrs.frozen(kw_only=True)
class Restored:
    """The result of a restore.

    Attributes:
        backup: The backup that was restored.
        kept: Path where the store that was there before lies now, or None if there was none.
    """

    backup: Backup
    kept: Path | None


async def back_up(provider: AgentMemoryProvider, folder: Path, *, progress: Progress | None = None) -> Backup:
    """Make a backup of a store, with all of its tenants, while others may use it, and verify it.

    The backup of an encrypted store is encrypted, and opens with the same key.

    ::

        async with open_provider("facts.db") as provider:
            await back_up(provider, Path("facts-2026-11-23"))

    Args:
        provider: The store.
        folder: Folder of the backup, which must not exist yet.
        progress: Called with the number of finished parts and the total, in any thread.

    Raises:
        CapabilityError: The provider does not keep its store at a path.
        InvalidDataError: The folder exists, or would lie in the store.
        StoreUnavailableError: There is no store, or the backup cannot be written; nothing is left of it.
        CorruptStoreError: The store is damaged; nothing is left of the backup.
    """
    store = _backed_up(provider)
    await to_thread.run_sync(_check_target, folder, store.location.path)
    unfinished = folder.with_name(f"{folder.name}.{secrets.token_hex(8)}.tmp")
    try:
        with _writing("backup"):
            await to_thread.run_sync(make_folders, unfinished)
        await store.copy_to(unfinished / _STEM, progress=progress)
        await _check(store.at(unfinished / _STEM), "the store is damaged, and was not backed up")
        with _writing("backup"):
            return await to_thread.run_sync(_finish, unfinished, folder, store.location.kind)
    except BaseException:
        with CancelScope(shield=True):
            await to_thread.run_sync(partial(shutil.rmtree, unfinished, ignore_errors=True))
        raise


async def read_backup(folder: Path) -> Backup:
    """Read a backup as a whole, and return its description.

    Raises:
        InvalidDataError: There is no backup.
        NewerVersionError: A newer factmem made it.
        CorruptStoreError: A part of it is missing or was changed.
        StoreUnavailableError: It cannot be read.
    """

    def read() -> Backup:
        backup = _manifest(folder)
        try:
            for path, (length, digest) in backup.files.items():
                _read_whole(folder / path, length, digest, lambda part: None)
        except OSError as error:
            raise _unreadable(folder, error) from error
        return backup

    return await to_thread.run_sync(read)


async def restore_backup(
    folder: Path, provider: AgentMemoryProvider, *, replace: bool = False, progress: Progress | None = None
) -> Restored:
    """Verify a backup and put it in the place of a store; the store that is there keeps its files, under another name.

    All or nothing: a broken restore leaves the store as it was, or closed until the same restore is run again, which
    finishes it. End all programs that use the store first: what they write meanwhile may go to the replaced store.

    Args:
        folder: The backup.
        provider: A provider of the place to restore to, of the kind that the backup was made of, which was not used
            before. An encrypted one needs the key that the store had when the backup was made.
        replace: Restore even if there is a store already.
        progress: Called with the number of bytes copied and the total, in any thread.

    Raises:
        CapabilityError: The provider does not keep its store at a path.
        InvalidDataError: There is no backup, or it is of a store of another kind.
        NewerVersionError: A newer factmem made the backup.
        WrongKeyError: The key does not open it.
        CorruptStoreError: The backup is damaged. Nothing of the store was changed.
        StoreUnavailableError: There is a store already, somebody uses it, or the disk fails. It is as it was.
    """
    store = _backed_up(provider)
    report = progress or no_report
    exchange = _Exchange(store.location)
    async with exchange.alone():
        backup = await to_thread.run_sync(_manifest, folder)
        if (begun := await to_thread.run_sync(exchange.begun)) is not None:
            await _exchanged(store, exchange, begun)
            if begun.digest == backup.digest:
                return Restored(backup=backup, kept=begun.kept_at(store.location))
        if backup.kind != store.location.kind:
            raise InvalidDataError(
                f"{folder} is a backup of the kind {backup.kind}: restore it to {backup.kind}:PATH, and then copy it "
                "into a store of another kind with `factmem move`",
                path="$.folder",
            )
        if not replace and not await to_thread.run_sync(store.location.is_vacant):
            raise StoreUnavailableError(
                f"there is a store at {store.location.path} already, and nothing was changed: name another path, or "
                "pass replace=True, which keeps the present store under another name"
            )
        with _writing("restored store"):
            await to_thread.run_sync(exchange.stage, folder, backup, report)
        try:
            await _check(store.at(exchange.staged), f"{folder} is damaged, and nothing was restored")
        except WrongKeyError as error:
            raise WrongKeyError(f"{folder} needs the key of the time of the backup: {error}") from None
        with CancelScope(shield=True):
            return Restored(backup=backup, kept=await _put_in_place(store, exchange, backup))
        raise AssertionError("unreachable: a shielded scope is not cancelled")


async def _put_in_place(store: KeepsFiles, exchange: _Exchange, backup: Backup) -> Path | None:
    """Exchange the files, unless somebody uses them, and return the path of the replaced store."""
    note = await to_thread.run_sync(exchange.begin, backup)
    try:
        await store.check_unused()
    except BaseException:
        await to_thread.run_sync(exchange.end)
        raise
    await _exchanged(store, exchange, note)
    return note.kept_at(store.location)


async def _exchanged(store: KeepsFiles, exchange: _Exchange, note: _Note) -> None:
    try:
        await to_thread.run_sync(exchange.run, note)
    except OSError as error:
        raise StoreUnavailableError(
            f"{store.location.path.name} is restored in part ({error.strerror or type(error).__name__}), and cannot be "
            "opened: check the disk, and run the same `factmem restore` again to finish it"
        ) from error


def refuse_unfinished_restore(path: Path) -> None:
    """Raise if a restore of the store at a path was broken off while its files were being exchanged.

    Raises:
        StoreUnavailableError: It was.
    """
    if (_folder_beside(path) / _NOTE).exists():
        raise StoreUnavailableError(
            f"a restore of {path.name} is not finished: run the same `factmem restore` again to finish it"
        )


def _backed_up(provider: AgentMemoryProvider) -> KeepsFiles:
    if isinstance(provider, KeepsFiles):
        return provider
    raise CapabilityError(
        f"{type(provider).__name__} keeps no files that could be backed up: use the tools of its database "
        "(pg_dump for PostgreSQL), or copy it into a file with `factmem move` and back that up"
    )


async def _check(copy: KeepsFiles, complaint: str) -> None:
    """Raise if a copy is not sound."""
    try:
        errors = [finding for finding in await copy.check() if finding.severity is Severity.ERROR]
    finally:
        await copy.aclose()
    if errors:
        raise CorruptStoreError(f"{complaint}: {errors[0].problem}")


@attrs.frozen(kw_only=True)
class _Note:
    """Plan of an exchange of files, written before it begins.

    Attributes:
        digest: Digest of the backup.
        kept: Name of the store that was there before, from now on; None if there was none.
        suffixes: Suffixes of the restored files.
    """

    digest: str
    kept: str | None
    suffixes: tuple[str, ...]

    def kept_at(self, location: StoreLocation) -> Path | None:
        """Return the path of the store that was there before."""
        return None if self.kept is None else location.path.with_name(self.kept)


@attrs.frozen
class _Exchange:
    """The exchange of the files of a store for those of a backup."""

    location: StoreLocation

    @property
    def folder(self) -> Path:
        """Folder beside the store, which holds what is to take its place."""
        return _folder_beside(self.location.path)

    @property
    def staged(self) -> Path:
        """Path of the store that is to take its place."""
        return self.folder / _STEM

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Keep out other restores of the store; afterwards nothing is left beside it, unless it is not finished."""
        lock = await to_thread.run_sync(self._lock)
        try:
            yield
        finally:
            with CancelScope(shield=True):
                await to_thread.run_sync(self._tidy, lock)

    def _lock(self) -> FileLock:
        with _writing("restored store"):
            make_folders(self.folder)
            return held_lock(self.folder / _LOCK, f"another restore of {self.location.path.name} is running")

    def _tidy(self, lock: FileLock) -> None:
        lock.release()
        if not (self.folder / _NOTE).exists():
            shutil.rmtree(self.folder, ignore_errors=True)

    def begun(self) -> _Note | None:
        """Return the note of an exchange that was broken off; without one, remove what else was left."""
        with _writing("restored store"):
            if (self.folder / _NOTE).exists():
                return _read_note(self.folder / _NOTE)
            for path in self.location.beside(self.staged).values():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            return None

    def stage(self, folder: Path, backup: Backup, progress: Progress) -> None:
        """Copy a backup beside the store, verify it, and flush it."""
        done = 0
        for path, (length, digest) in backup.files.items():
            target = self.folder / path
            make_folders(target.parent)
            with create_file(target) as file:
                _read_whole(folder / path, length, digest, partial(write_all, file))
                sync_file(file)
            sync_folder(target.parent)
            progress(done := done + length, backup.size)

    def begin(self, backup: Backup) -> _Note:
        """Note what is about to be done; from now on nobody opens the store."""
        staged = self.location.beside(self.staged)
        kept = None if self.location.is_vacant() else self._free_name()
        note = _Note(digest=backup.digest, kept=kept, suffixes=tuple(staged))
        with _writing("restored store"):
            replace_file(self.folder / _NOTE, json.dumps(attrs.asdict(note)).encode())
            sync_folder(self.folder.parent)
        return note

    def run(self, note: _Note) -> None:
        """Give the present files another name, and their names to the restored ones. It may be run again.

        Raises:
            OSError: A file cannot be renamed.
        """
        location, staged = self.location, self.location.beside(self.staged)
        for suffix, path in location.beside(location.path).items():
            if suffix in note.suffixes and suffix not in staged:
                continue  # restored already
            if note.kept is None:
                path.rmdir()  # an empty folder
            else:
                path.rename(path.with_name(note.kept + suffix))
        for suffix, path in staged.items():
            path.rename(location.path.with_name(location.path.name + suffix))
        sync_folder(location.path.parent)
        self.end()

    def end(self) -> None:
        """Let the store be opened again."""
        (self.folder / _NOTE).unlink()
        sync_folder(self.folder)

    def _free_name(self) -> str:
        now = dt.datetime.now(dt.UTC)
        name = f"{self.location.path.name}.before-{now:%Y%m%d-%H%M%S}"
        while self.location.beside(self.location.path.with_name(name)):
            name += "-again"
        return name


def _read_note(path: Path) -> _Note:
    """Read the note of an exchange.

    Raises:
        CorruptStoreError: It is damaged.
    """
    try:
        document = json.loads(path.read_bytes())
        return _Note(**document | {"suffixes": tuple(document["suffixes"])})
    except (ValueError, TypeError, LookupError, RecursionError):
        raise CorruptStoreError(
            f"the note {path} of an unfinished restore is damaged: the replaced store lies beside it, under a name "
            "with .before-"
        ) from None


def _folder_beside(path: Path) -> Path:
    return path.with_name(f"{path.name}{_FOLDER}")


def _check_target(folder: Path, store: Path) -> None:
    if os.path.lexists(folder):
        raise InvalidDataError(f"{folder} exists already: name a folder that does not", path="$.folder")
    if store in folder.absolute().parents:
        raise InvalidDataError(f"{folder} lies in the store itself: name a folder elsewhere", path="$.folder")


def _finish(unfinished: Path, folder: Path, kind: str) -> Backup:
    """Describe, flush and rename a complete backup."""
    files: dict[str, tuple[int, str]] = {}
    for parent, _, names in os.walk(unfinished):
        for name in names:
            path = Path(parent, name)
            with open_to_change(path) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                files[path.relative_to(unfinished).as_posix()] = (file.tell(), digest)
                sync_file(file)
        sync_folder(Path(parent))
    backup = Backup(kind=kind, made_at=dt.datetime.now(dt.UTC), files=files)
    replace_file(unfinished / _MANIFEST, backup.to_bytes())
    unfinished.rename(folder)
    sync_folder(folder.parent)
    return backup


def _manifest(folder: Path) -> Backup:
    """Return the description in a backup.

    Raises:
        InvalidDataError: There is none.
        NewerVersionError: A newer factmem made it.
        CorruptStoreError: It is damaged.
        StoreUnavailableError: It cannot be read.
    """
    try:
        with (folder / _MANIFEST).open("rb") as file:
            content = file.read(_MOST_MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidDataError(
            f"{folder} is not a backup: name a folder that `factmem backup` made", path="$.folder"
        ) from None
    except OSError as error:
        raise _unreadable(folder, error) from error
    try:
        document = json.loads(content)
        if document["format"] > _FORMAT:
            raise NewerVersionError(f"a newer factmem made the backup {folder}: upgrade factmem to restore it")
        backup = Backup(
            kind=document["store"],
            made_at=dt.datetime.fromisoformat(document["made_at"]),
            files={_checked(path): (int(length), str(digest)) for path, (length, digest) in document["files"].items()},
        )
        if backup.digest != document["digest"]:
            raise ValueError
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        if isinstance(error, NewerVersionError):
            raise
        raise _changed(folder / _MANIFEST) from None
    return backup


def _checked(path: Any) -> str:
    """Return the path of a file of a backup: that of the store, of a file beside it or below it."""
    parts = PurePosixPath(path).parts
    if ".." in parts or "\\" in path or not parts or not parts[0].startswith(_STEM):
        raise ValueError
    return PurePosixPath(path).as_posix()


def _read_whole(path: Path, length: int, digest: str, use: Callable[[bytes], None]) -> None:
    """Read a whole file in parts, and pass each to a function.

    Raises:
        CorruptStoreError: The file is not the one that was backed up; a part of it was read.
        StoreUnavailableError: It cannot be read.
    """
    read, found = 0, hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            while read <= length and (part := file.read(_CHUNK)):
                read += len(part)
                found.update(part)
                use(part)
    except FileNotFoundError:
        raise _changed(path) from None
    if read != length or found.hexdigest() != digest:
        raise _changed(path)


def _changed(path: Path) -> CorruptStoreError:
    return CorruptStoreError(
        f"{path} is missing or was changed since the backup was made, and nothing was restored: use another backup"
    )


def _unreadable(folder: Path, error: OSError) -> StoreUnavailableError:
    return StoreUnavailableError(f"the backup {folder} cannot be read: {error.strerror or type(error).__name__}")


@contextlib.contextmanager
def _writing(what: str) -> Iterator[None]:
    """Convert errors of the operating system."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailableError(
            f"the {what} cannot be written: {error.strerror or type(error).__name__}"
        ) from error
