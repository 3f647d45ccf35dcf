"""The frames of the files: sealed, each bound to its store, its log, its file, its place in it and its commit.

A frame's payload is ``<index> <commit> <base64>``. The two numbers serve to report what happened where a seal
does not open; what is believed of them is what the seal is bound to.
"""

from __future__ import annotations

import base64
import binascii

import attrs

from factmem.abc import LogName
from factmem.crypto import Context, SealBrokenError, seal, unseal
from factmem.errors import MisplacedDataError, TamperedStoreError

__all__ = ["FrameKey", "commit_number", "opened", "sealed"]


@attrs.frozen(kw_only=True)
class FrameKey:
    """The key and the context that the frames of one file are sealed with.

    Attributes:
        key: of 32 bytes.
        store: the store's id.
        log: whose frames they are: tenant, scope and subject among it.
        file: the file's random name.
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
    """Return a frame's payload."""
    text = base64.b64encode(seal(key.key, payload, key.context(index, commit)))
    return b"%d %d %b" % (index, commit, text)


def opened(key: FrameKey, index: int, frame: bytes) -> bytes:
    """Open a frame.

    Args:
        key: of the file.
        index: which frame of the file this must be, from 0.
        frame: its payload.

    Raises:
        MisplacedDataError: it is another frame.
        TamperedStoreError: it does not open.
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
    """Return which commit a frame says it is of; it is not proven by this.

    Raises:
        TamperedStoreError: it says none.
    """
    try:
        return int(frame.split(b" ", 2)[1])
    except (ValueError, IndexError):
        raise TamperedStoreError("a frame of the store was changed: restore the store from a backup") from None
