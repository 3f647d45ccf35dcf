"""Files of sealed frames, and the remains of writers that died."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from factmem.abc import LogName, LogStorage
from factmem.errors import RolledBackStoreError
from factmem_encrypted.frames import commit_number
from factmem_encrypted.manifest import Listing

__all__ = ["REMADE", "SealedFiles", "file_log"]

REMADE: Final = "vectors"
"""Kind of log whose frames need not last: its contents can be recomputed."""

_KIND: Final = "sealed"


def file_log(file: str) -> LogName:
    """Return the log of a file in the storage below."""
    return LogName(folder=(file[:2],), name=(file,), kind=_KIND)


class SealedFiles:
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
        return [log.name[0] for log in logs if log == file_log(log.name[0])]

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
                frame = self._storage.last(file_log(file))
                if frame is not None and commit_number(frame) > listing.number + 1:
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
        self.check_ends(listing, [file for file in files if _lasts(listing, file)])
        for file in left:
            self._storage.replace(file_log(file), ())
        self._storage.sweep()


def _lasts(listing: Listing, file: str) -> bool:
    log = listing.files.get(file)
    return log is not None and log.kind != REMADE
