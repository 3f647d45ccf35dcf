"""Check of a store without changing it: every tenant's rows, sums, vectors, and what is pending."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from factmem.errors import CorruptStoreError, NewerVersionError
from factmem.findings import Finding, FindingKind, finding_of, findings_in, unfinished_copy
from factmem_postgres.erasing import Eraser
from factmem_postgres.reading import Reader
from factmem_postgres.rows import bytes_of
from factmem_postgres.server import Server, of_all

__all__ = ["check_store"]

_TENANTS: Final = "SELECT tenant, copying FROM {schema}.counters ORDER BY tenant"
_STRAY: Final = (
    "SELECT count(*) FROM {schema}.vectors v WHERE v.tenant = %s AND NOT EXISTS"
    " (SELECT FROM {schema}.assertions a WHERE a.tenant = v.tenant AND a.seq = v.seq)"
)
_REEMBED: Final = "run `factmem reembed`"


def check_store(server: Server, progress: Callable[[int, int], None]) -> list[Finding]:
    """Return the findings in a store.

    Args:
        server: The database.
        progress: Called with the number of tenants checked and the total.
    """
    try:
        found = server.read(None, of_all(), (_TENANTS, ()))
    except NewerVersionError as error:
        return [finding_of(error, server.name)]
    if found is None:
        advice = "check the address and its schema: a store is made by the first write"
        return [Finding(kind=FindingKind.MISSING, part=server.name, problem="no store", advice=advice)]
    tenants = [name.decode() or None for name, _ in found[1]]
    findings = [unfinished_copy(name.decode() or None) for name, copying in found[1] if copying]
    for done, tenant in enumerate(tenants, start=1):
        findings += _of_tenant(server, tenant)
        progress(done, len(tenants))
    return findings


def _of_tenant(server: Server, tenant: str | None) -> Iterator[Finding]:
    reader, part = Reader(server), "the default tenant" if tenant is None else f"tenant {tenant}"
    try:
        yield from findings_in(reader.changes(tenant, 0), tenant)
    except CorruptStoreError as error:
        yield finding_of(error, part)
    problem = None
    try:
        reader.vectors(tenant, 0)
    except CorruptStoreError:
        problem = "the vectors were changed"
    stray = server.read(tenant, (_STRAY, [bytes_of(tenant)])) or [[(0,)]]
    if stray[0][0][0]:
        problem = f"{stray[0][0][0]} vector(s) belong to no assertion"
    if problem is not None:
        yield Finding(kind=FindingKind.REMAKEABLE, part=part, problem=problem, advice=_REEMBED)
    if count := Eraser(server).pending(tenant):
        yield Finding(
            kind=FindingKind.PENDING_ERASURE,
            part=part,
            problem=f"bytes of {count} erasure(s) may be left in pages and in the write-ahead log; backups, archived "
            "logs and replicas are out of reach",
            advice="run `factmem erase` once the log has turned; for a large store, VACUUM FULL its tables before",
        )
