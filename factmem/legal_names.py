"""Legal names: of tenants, scope segments, subjects, owners, keywords and files."""

from __future__ import annotations

import functools
import os
import unicodedata
from pathlib import Path
from typing import Final

from factmem.errors import InvalidDataError, InvalidNameError

_SEPARATORS: Final = dict.fromkeys(map(ord, "-_ "))

MAX_NAME_LENGTH = 512
"""Maximum length of a name, in characters."""


def checked_name(name: object, *, what: str) -> str:
    """Return a name if it is legal. Names of any script are; two names are the same only if they are equal.

    Args:
        name: the name.
        what: the kind of thing it names, for the error.

    Raises:
        InvalidNameError: it is not a string, is blank or longer than `MAX_NAME_LENGTH`, or holds control characters
            or lone surrogates (which no store and no terminal can carry).
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


def is_legal_name(name: str) -> bool:
    """Return whether a name is legal; see `checked_name`."""
    try:
        checked_name(name, what="a name")
    except InvalidNameError:
        return False
    return True


def composed(name: str) -> str:
    """Return a name in NFC: a letter and its accent may be one character or two."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


@functools.lru_cache(maxsize=16_384)
def folded_keyword(keyword: str) -> str:
    """Return a keyword in NFC without case, hyphens, underscores and spaces: keywords are alike if this is equal.

    A fact keeps the keyword that it was saved with. Wherever a concept is looked for, it is found by any alike keyword:
    ``user-preference`` finds what a model has called ``user_preference``.
    """
    return composed(keyword.casefold().translate(_SEPARATORS) or keyword)


def checked_path(path: str | os.PathLike[str], *, what: str) -> Path:
    """Return a path with its ``~`` expanded, if a file system can hold it. Nothing is looked up on disk.

    Args:
        path: the path.
        what: the argument's name, for the error's path.

    Raises:
        InvalidDataError: it is empty or not a path, holds a NUL or characters that file names cannot encode, its ``~``
            names an unknown user, or it is the root of the file system.
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
        found = Path(written).expanduser()
    except RuntimeError:
        raise InvalidDataError("the ~ of the path names an unknown user", path=f"$.{what}") from None
    found = found if found.name else found.absolute()  # "." has a name as an absolute path only
    if not found.name:
        raise InvalidDataError(f"{found} is the root of a file system, and no path of a store", path=f"$.{what}")
    return found
