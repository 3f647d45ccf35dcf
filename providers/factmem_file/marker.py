"""Marker of a store and of its format: ``factmem.json`` in the root folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from factmem.errors import CorruptStoreError, DowngradedStoreError, NewerVersionError, StoreUnavailableError
from factmem.private_files import is_leftover

__all__ = ["LOCK_NAME", "MARKER_NAME", "PLAIN", "STORE_FORMAT", "check_marker", "is_vacant", "marker"]

STORE_FORMAT: Final = 1
"""Format of the stores that this factmem writes, and the newest that it reads."""

PLAIN: Final = "factmem"
"""Name of plain files in a marker."""

MARKER_NAME: Final = "factmem.json"
LOCK_NAME: Final = ".lock"


def marker(form: str = PLAIN) -> bytes:
    """Return the content of the marker of a new store of some form."""
    return json.dumps({"format": STORE_FORMAT, "store": form}).encode() + b"\n"


def check_marker(content: bytes, root: Path, form: str = PLAIN) -> None:
    """Raise unless this factmem can use the store.

    Raises:
        NewerVersionError: A newer factmem wrote it.
        DowngradedStoreError: It holds plain files, and another form was requested.
        StoreUnavailableError: It is of another form than plain files.
        CorruptStoreError: The marker is damaged.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    match document:
        case {"format": int() as version, "store": str()} if version > STORE_FORMAT:
            raise NewerVersionError(
                f"the store at {root} is of format {version}, newer than {STORE_FORMAT}: upgrade factmem to use it"
            )
        case {"format": 1, "store": str() as found} if found == form:
            return
        case {"format": 1, "store": "factmem"}:
            raise DowngradedStoreError(
                f"the store at {root} is of plain files, and {form} was asked for: open it with file:, "
                "or export it and import it into a new store"
            )
        case {"format": 1, "store": str() as found} if found.startswith(f"{PLAIN}-"):
            raise StoreUnavailableError(
                f"the store at {root} is {found}, and {form} was asked for: "
                f"open it with {found.removeprefix(f'{PLAIN}-')}:"
            )
        case _:
            raise CorruptStoreError(
                f"{MARKER_NAME} in {root} is damaged: restore it, or write {marker(form).decode().strip()} into it"
            )


def is_vacant(root: Path) -> bool:
    """Return whether a store can be created here; False if another process has just created one.

    Raises:
        StoreUnavailableError: The folder holds something else.
    """
    try:
        names = {path.name for path in root.iterdir()}
    except FileNotFoundError:
        return True
    if MARKER_NAME in names:
        return False
    # Judged by the names that were read: a temporary file may have become the marker meanwhile.
    if any(name != LOCK_NAME and not is_leftover(name, MARKER_NAME) for name in names):
        raise StoreUnavailableError(
            f"{root} holds other files and no {MARKER_NAME}: nothing was written. "
            "Name an empty folder, or restore the file if this was a store"
        )
    return True
