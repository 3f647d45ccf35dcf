"""The common half of the engines of databases: errors of foreign rows, and the check of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from factmem.errors import CorruptStoreError, FactMemError
from factmem.findings import Finding, FindingKind, finding_of, findings_in, named, unfinished_copy
from factmem.providers.threaded import DatabaseEngine

__all__ = ["checked_tenants", "foreign_rows"]

_OF_FOREIGN_ROWS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors of a row that another program wrote, wherever it is used."""


@contextmanager
def foreign_rows(name: str) -> Iterator[None]:
    """Convert errors of rows that factmem never wrote; the block must use nothing but rows.

    Args:
        name: Name of the store.

    Raises:
        CorruptStoreError: There is such a row.
    """
    try:
        yield
    except (FactMemError, OSError, UnicodeEncodeError):
        raise
    except _OF_FOREIGN_ROWS as error:
        raise CorruptStoreError(
            f"{name} holds rows that factmem never wrote, and nothing was written to it: restore it from a backup"
        ) from error


def checked_tenants(
    engine: DatabaseEngine, tenants: Sequence[str | None], progress: Callable[[int, int], None]
) -> Iterator[Finding]:
    """Yield the findings in the logs of tenants, and in their vectors.

    Args:
        engine: The engine of the store.
        tenants: All tenants that anything is kept of.
        progress: See `KeepsLog.check`.
    """
    yield from (unfinished_copy(tenant) for tenant in tenants if engine.copied(tenant) is not None)
    for done, tenant in enumerate(tenants, start=1):
        try:
            yield from findings_in(engine.log_part(tenant, 0, None, vectors=False).entries, tenant)
        except CorruptStoreError as error:
            yield finding_of(error, named(tenant))
        try:
            engine.vectors(tenant, 0)
        except CorruptStoreError:
            yield Finding(
                kind=FindingKind.REMAKEABLE,
                part=named(tenant),
                problem="the vectors were changed",
                advice="run `factmem reembed`",
            )
        progress(done, len(tenants))
