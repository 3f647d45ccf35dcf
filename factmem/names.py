"""What a legal name is: of a tenant, a scope's segment, a subject, an owner, a concept's keyword, a file."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

from factmem.errors import InvalidDataError, InvalidNameError

__all__ = ["MAX_NAME_LENGTH", "checked_name", "checked_path"]

MAX_NAME_LENGTH = 512
"""The longest legal name, in characters."""


def checked_name(name: object, *, what: str) -> str:
    """Return ``name`` if it is legal, in any script; two names are the same only if they are equal.

    Args:
        name: the name as it came in.
        what: what it names, for the error's text.

    Raises:
        InvalidNameError: it is no string, blank, longer than `MAX_NAME_LENGTH`, or holds control
            characters or lone surrogates (which no store and no terminal can carry).
    """
    if not isinstance(name, str):
        raise InvalidNameError(f"{what} must be a string, not {type(name).__name__}")
    if not name.strip():
        raise InvalidNameError(f"{what} must not be blank")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidNameError(f"{what} is {len(name)} characters long; {MAX_NAME_LENGTH} is the most")
    if name.isascii():
        legal = name.isprintable()
    else:
        legal = not any(unicodedata.category(char) in ("Cc", "Cs") for char in name)
    if not legal:
        raise InvalidNameError(f"{what} holds a control character or a lone surrogate; remove it")
    return name


def checked_path(path: str | os.PathLike[str], *, what: str) -> Path:
    """Return a path with its ``~`` expanded, if the file system could have such a one; nothing is looked up.

    Args:
        path: the path as it came in.
        what: the argument that it came in, for the error's path.

    Raises:
        InvalidDataError: it is empty or no path, holds a NUL or what file names cannot be encoded with, or its
            ``~`` names nobody whose home is known.
    """
    try:
        written = os.fspath(path)
    except TypeError:
        written = None
    if not isinstance(written, str) or not written:
        raise InvalidDataError("a path must be a text or a Path, and not empty", path=f"$.{what}")
    try:
        legal = "\0" not in written and bool(os.fsencode(written))
    except UnicodeEncodeError:
        legal = False
    if not legal:
        raise InvalidDataError("a path holds a NUL or a lone surrogate", path=f"$.{what}")
    try:
        return Path(written).expanduser()
    except RuntimeError:
        raise InvalidDataError("nobody's home is known by the name behind the ~ of a path", path=f"$.{what}") from None
