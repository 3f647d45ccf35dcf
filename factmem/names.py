"""What a legal name is: of a tenant, a scope's segment, a subject, an owner, a concept's keyword."""

from __future__ import annotations

import unicodedata

from factmem.errors import InvalidNameError

__all__ = ["MAX_NAME_LENGTH", "checked_name"]

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
