"""Check of a database without changing it: pages, references, sums, vectors and what is pending."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import apsw

from factmem.errors import CorruptStoreError
from factmem.findings import Finding, FindingKind, finding_of, findings_in, unfinished_copy
from factmem_sqlite_vec import reading
from factmem_sqlite_vec.copying import unfinished
from factmem_sqlite_vec.erasing import scrub_is_due
from factmem_sqlite_vec.rows import select
from factmem_sqlite_vec.schema import MIGRATIONS, found_version
from factmem_sqlite_vec.sums import tenants_with_sums
from factmem_sqlite_vec.vectors import vectors

__all__ = ["check_database", "check_file"]

_MOST_PROBLEMS: Final = 10

_REFERENCES: Final = (
    (
        "change(s) of state name assertions that are not there",
        "SELECT count(*) FROM state_changes WHERE assertion NOT IN (SELECT seq FROM assertions WHERE seq IS NOT NULL)",
    ),
    (
        "assertion(s) name a track that is not there",
        "SELECT count(*) FROM assertions WHERE track NOT IN (SELECT id FROM tracks)",
    ),
    (
        "assertion(s) name a head that is not there",
        "SELECT count(*) FROM assertions WHERE head NOT IN (SELECT id FROM heads)",
    ),
)

_RESTORE: Final = "restore it from a backup, or export what can still be read"
_REEMBED: Final = "run `factmem reembed`"


def check_database(connection: apsw.Connection, name: str, progress: Callable[[int, int], None]) -> list[Finding]:
    """Return the findings in a database.

    Args:
        connection: Connection in a transaction.
        name: File name, for the findings.
        progress: Called with the number of parts checked and the total.
    """
    found = [*_dangling(connection, name), *map(unfinished_copy, unfinished(connection))]
    tenants = sorted(
        {tenant for (tenant,) in select(connection, "SELECT name FROM tenants")} | tenants_with_sums(connection)
    )
    for done, tenant in enumerate(tenants, start=1):
        try:
            found += findings_in(reading.changes(connection, tenant or None, 0), tenant or None)
        except CorruptStoreError as error:
            found.append(finding_of(error, f"tenant {tenant}" if tenant else "the default tenant"))
        found += _vectors(connection, name, tenant)
        progress(done, len(tenants))
    return found


def check_file(connection: apsw.Connection, name: str) -> list[Finding]:
    """Return the findings in a database as it is, whatever its format."""
    found = [*_pages(connection, name)]
    version = found_version(connection, name)
    if version < len(MIGRATIONS):
        found.append(
            Finding(
                kind=FindingKind.OLDER,
                part=name,
                problem=f"it is of format {version}, and {len(MIGRATIONS)} is the present one",
                advice="nothing: the next write brings it up to date, or `factmem upgrade` does it now",
            )
        )
    if scrub_is_due(connection):
        found.append(
            Finding(
                kind=FindingKind.PENDING_ERASURE,
                part=name,
                problem="bytes of erased facts, or of an older format, may be left in the file",
                advice="run `factmem erase`",
            )
        )
    return found


def _pages(connection: apsw.Connection, name: str) -> Iterator[Finding]:
    problems = [text for (text,) in select(connection, f"PRAGMA integrity_check({_MOST_PROBLEMS})")]
    if problems != ["ok"]:
        problem = f"SQLite finds {len(problems)} or more fault(s) in its pages and indexes"
        yield Finding(kind=FindingKind.DAMAGED, part=name, problem=problem, advice=_RESTORE)


def _dangling(connection: apsw.Connection, name: str) -> Iterator[Finding]:
    for problem, query in _REFERENCES:
        ((count,),) = select(connection, query)
        if count:
            yield Finding(kind=FindingKind.DANGLING, part=name, problem=f"{count} {problem}", advice=_RESTORE)


def _vectors(connection: apsw.Connection, name: str, tenant: str) -> Iterator[Finding]:
    embedder = reading.bound_embedder(connection)
    if embedder is None:
        return
    problem = None
    try:
        _, rows, whole = vectors(connection, tenant or None, 0)
    except CorruptStoreError:
        problem = "the vectors cannot be read"
    else:
        if len(rows) and rows.shape[1] != embedder.dimension:
            problem = "the vectors are of another dimension than the embedder's"
        elif not whole:
            problem = "the vectors were changed"
    if problem is not None:
        yield Finding(kind=FindingKind.REMAKEABLE, part=name, problem=problem, advice=_REEMBED)
