"""Copies of logs: parts of a tenant's log, and parts of another store's log as it recorded them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, assert_never

from factmem.abc import Append, EmbedderIdentity, LogPart
from factmem.errors import ConceptConflictError
from factmem.providers import SteadyClock, TrackIndex, check_part, misfit
from factmem.providers.rows import NewRow, microseconds, moment_at, prepared
from factmem.records import Recorded, StateChange, Tombstone
from factmem_postgres.erasing import delete_rows, named
from factmem_postgres.rows import bytes_of
from factmem_postgres.server import Ending, Server, Session, Step, of_all, of_tenant
from factmem_postgres.writing import META, NEW_COUNTER, Meta, Part, locked_counter

__all__ = ["Copier"]

_TENANTS: Final = "SELECT tenant FROM {schema}.counters WHERE seq > 0 OR copying ORDER BY tenant"
_COPIED: Final = "SELECT seq FROM {schema}.counters WHERE tenant = %s AND copying"
_MARK: Final = "UPDATE {schema}.counters SET copying = %s WHERE tenant = %s"
_HAS_ARRIVED: Final = "SELECT 1 FROM {schema}.counters WHERE tenant = %s AND seq >= %s"


class Copier:
    """Returns and takes parts of logs; see `CopiesLogs`.

    Args:
        server: The database.
        clock: Clock of the store, which follows the times that arrive.
    """

    def __init__(self, server: Server, clock: SteadyClock) -> None:
        self._server = server
        self._clock = clock

    def tenants(self) -> list[str | None]:
        """Return the tenants with a log, or with a copy that has begun."""
        found = self._server.read(None, of_all(), (_TENANTS, ()))
        return [name.decode() or None for (name,) in found[1]] if found else []

    def copied(self, tenant: str | None) -> int | None:
        """Return the number up to which an unfinished copy is complete."""
        found = self._server.read(tenant, (_COPIED, [bytes_of(tenant)]))
        return int(found[0][0][0]) if found and found[0] else None

    def mark(self, tenants: Sequence[str | None], *, copying: bool) -> None:
        """Mark tenants as unfinished copies, or as finished ones."""
        steps: list[Step] = []
        for tenant in sorted(tenants, key=bytes_of):
            name = bytes_of(tenant)
            steps += [of_tenant(tenant), *([(NEW_COUNTER, [name])] if copying else []), (_MARK, [copying, name])]
        self._server.write(lambda _: Ending(None, steps))

    def put(self, tenant: str | None, part: LogPart, bound: EmbedderIdentity | None) -> None:
        """Append a part to an unfinished copy; see `CopiesLogs.put_log_part`.

        Args:
            tenant: The tenant.
            part: The part.
            bound: Embedder in use in this process, if any.
        """
        said = [entry for entry in part.entries if isinstance(entry, Recorded)]
        rows = prepared([Append(assertion=entry.assertion, vector=part.vectors.get(entry.seq)) for entry in said])
        new = [row for row in rows if isinstance(row, NewRow)]
        self._server.write(lambda session: _Taking(session, tenant, part, self._clock).ending(new, bound))


class _Taking:
    """A part on its way into an unfinished copy.

    Args:
        session: Transaction.
        tenant: The tenant.
        part: The part.
        clock: Clock of the store.
    """

    def __init__(self, session: Session, tenant: str | None, part: LogPart, clock: SteadyClock) -> None:
        self._session = session
        self._name = bytes_of(tenant)
        self._tenant = tenant
        self._part = part
        self._clock = clock
        self._graves = [entry for entry in part.entries if isinstance(entry, Tombstone)]

    def ending(self, rows: Sequence[NewRow], bound: EmbedderIdentity | None) -> Ending[None]:
        """Return the end of the transaction.

        Args:
            rows: Assertions of the part, prepared.
            bound: Embedder in use in this process, if any.
        """
        meta, deleted = self._begin()
        target, index = self._target(rows)
        target.take_from_sum(deleted)
        try:
            self._take(iter(rows), target, index, lambda vector: meta.storable(vector, bound))
        except ConceptConflictError:
            raise misfit() from None
        target.seq = self._part.until
        buried = [target.bury(self._graves)] if self._graves else []
        newest = microseconds(self._clock.newest or moment_at(0))
        proof = [*locked_counter(self._tenant), (_HAS_ARRIVED, [self._name, self._part.until])]
        return Ending(None, [*buried, *target.steps(index, meta, newest)], proof)

    def _begin(self) -> tuple[Meta, int]:
        """Check that the part continues the copy, and delete what its tombstones name; return the sum of that."""
        ids = [grave.assertion_id for grave in self._graves]
        meta, *_, counter, gone = self._session.ask(
            (META, ()), *locked_counter(self._tenant), named(self._name, (), ids)
        )
        check_part(self._part, self._tenant, counter[0][0] if counter and counter[0][3] else None)
        deleted = 0
        if gone:
            deleted, settling = delete_rows(self._session, self._name, gone)
            self._session.ask(*settling)
        return Meta.of(meta), deleted

    def _target(self, rows: Sequence[NewRow]) -> tuple[Part, TrackIndex]:
        new = {entry.id for entry in self._part.entries if isinstance(entry, Recorded)}
        changed = [entry.assertion_id for entry in self._part.entries if isinstance(entry, StateChange)]
        target, index = Part(self._tenant, list(rows), [id for id in changed if id not in new]), TrackIndex()
        target.take_in(iter(self._session.ask(*target.questions())), index, self._clock)
        return target, index

    def _take(self, rows: Iterator[NewRow], target: Part, index: TrackIndex, stored: Callable[[Any], bytes]) -> None:
        for entry in self._part.entries:
            match entry:
                case Recorded():
                    row = next(rows)
                    if index.known(row.assertion) is not None:
                        raise misfit()
                    index.add(entry)
                    self._clock.reached(entry.recorded_at)
                    target.append(row, entry, joined=index.has_joined(entry.id), outlines=None)
                    if row.vector is not None:
                        target.keep_vector(entry.seq, stored(row.vector))
                case StateChange(assertion_id=id):
                    if not index.knows(id, self._tenant):
                        raise misfit()
                    before = index.has_joined(id)
                    index.add(entry)
                    self._clock.reached(entry.recorded_at)
                    target.change(entry, joined=index.has_joined(id) and not before)
                case Tombstone():
                    pass
                case _:
                    assert_never(entry)
