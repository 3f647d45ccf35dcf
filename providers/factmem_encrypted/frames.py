"""Frames of the files: sealed, each bound to its store, log, file, position and commit.

The payload of a frame is ``<index> <commit> <base64>``. The two numbers serve to report the cause if a seal does not
open; only the numbers that the seal is bound to are trusted.
"""

from __future__ import annotations

import base64
import binascii

import attrs

from factmem.abc.log_storage import LogName
from factmem.crypto.sealing import Context, SealBrokenError, seal, unseal
from factmem.errors import MisplacedDataError, TamperedStoreError

__all__ = ["FrameKey", "commit_number", "opened", "sealed"]


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


def sealed(key: FrameKey, index: int, commit: int, payload: bytes) -> bytes:
    """Return the sealed payload of a frame."""
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


def commit_number(frame: bytes) -> int:
    """Return the commit number in a frame, which is not authenticated by this.

    Raises:
        TamperedStoreError: There is none.
    """
    try:
        return int(frame.split(b" ", 2)[1])
    except (ValueError, IndexError):
        raise TamperedStoreError("a frame of the store was changed: restore the store from a backup") from None
