"""Errors of the driver and the server as errors of factmem, with the next step.

The text of a server's error may hold values (a key that is not unique, for example), so none of it is shown; its code
names the case.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from factmem.errors import (
    CapabilityError,
    CorruptStoreError,
    FactMemError,
    InvalidDataError,
    ReadOnlyError,
    StoreUnavailableError,
)

__all__ = ["CANCELLED", "MISSING", "REPEATABLE", "STANDBY", "foreign_rows", "own_error"]

REPEATABLE: Final = frozenset({"40001", "40P01", "40003"})
"""Codes of a transaction that wrote nothing and may succeed when it is repeated."""

MISSING: Final = frozenset({"42P01", "3F000"})
"""Codes of a table or schema that is not there."""

STANDBY: Final = "25006"
"""Code of a write on a server that only reads."""

CANCELLED: Final = "57014"

_DAMAGED: Final = frozenset({"XX001", "XX002", "42703", "42804", "42883"})
_UNENCODABLE: Final = frozenset({"22021", "22P05"})

_ADVICE: Final = (
    ("55P03", "another session holds a lock in {name}: try again, or open it with a longer timeout"),
    ("53100", "the disk of {name} is full: free some space, and save again"),
    ("53", "{name} has no room for another connection or statement: raise max_connections or its memory"),
    ("57", "{name} stopped the call: try again when the server is up"),
    ("58", "the server of {name} failed to read or write its disk: see its log"),
    (
        "42501",
        (
            "the role may not make or use the tables of {name}: let their owner run  factmem upgrade --create  and"
            " GRANT it SELECT, INSERT, UPDATE and DELETE on them"
        ),
    ),
)

# A row that another program wrote fails wherever it is used.
_OF_FOREIGN_ROWS: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def own_error(error: psycopg.Error, name: str, *, lost: bool) -> FactMemError:
    """Return the error of factmem for an error of the driver.

    Args:
        error: Error of the driver.
        name: Name of the database.
        lost: Whether the connection broke.
    """
    code = error.sqlstate or ""
    if code in _DAMAGED:
        return CorruptStoreError(f"{name} is damaged or no factmem store: restore it from a backup")
    if code in _UNENCODABLE:
        return CapabilityError(f"{name} cannot hold every text: create it with  createdb --encoding UTF8")
    if code == STANDBY:
        return ReadOnlyError(f"{name} only reads: give the address of the primary, or target_session_attrs=read-write")
    if isinstance(error, psycopg.DataError) and not code:
        return InvalidDataError("a text holds a NUL or a lone surrogate, which the database cannot carry")
    for start, advice in _ADVICE:
        if code.startswith(start):
            return StoreUnavailableError(advice.format(name=name))
    if lost:
        return StoreUnavailableError(
            f"the connection to {name} broke: try again when the server is up; saving the same facts again is harmless"
        )
    return StoreUnavailableError(
        f"{name} cannot be read or written just now ({code or type(error).__name__}): see the server's log"
    )


@contextmanager
def foreign_rows(name: str) -> Iterator[None]:
    """Convert errors of rows that factmem never wrote; the block must use nothing but rows."""
    try:
        yield
    except FactMemError:
        raise
    except _OF_FOREIGN_ROWS as error:
        raise CorruptStoreError(f"{name} holds rows that factmem never wrote: restore it from a backup") from error
