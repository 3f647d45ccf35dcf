"""Plans of a group of requests: each is refused or accepted as a whole before anything is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, assert_never

import attrs

from factmem.abc import Append, LogName, Position, Receipt, Statement, StateRequest
from factmem.providers import Request, SteadyClock, TrackIndex, unknown_assertion
from factmem.records import Assertion, LogEntry
from factmem.vectors import storable_vector
from factmem_file.log_copies import LogCopy
from factmem_file.logs import place_log

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PlannedLog", "WritePlan"]


@attrs.define(eq=False)
class PlannedLog:
    """Additions to one log.

    Attributes:
        copy: Copy of the log.
        position: End of the log.
        entries: New entries in order; none if all of them exist already.
        vectors: Vectors of new assertions, by sequence number.
    """

    copy: LogCopy
    position: Position
    entries: list[LogEntry] = attrs.field(factory=list)
    vectors: dict[int, NDArray[np.float32]] = attrs.field(factory=dict)


@attrs.define(eq=False)
class WritePlan:
    """Writes of a group of requests.

    Attributes:
        last_of: Returns the last number assigned to a tenant.
        copy_of: Returns the copy of a log, caught up.
        locate: Returns the log of the id of a tenant's assertion, or None.
        clock: Returns the time of recording.
        dimension: Dimension of the store's vectors, once it has an embedder.
        last: Last number of each tenant that something is written of.
        logs: Additions to each log.
        touched: Logs that each request depends on.
    """

    last_of: Callable[[str | None], int]
    copy_of: Callable[[LogName], LogCopy]
    locate: Callable[[str, str | None], LogName | None]
    clock: SteadyClock
    dimension: int | None
    last: dict[str | None, int] = attrs.field(factory=dict)
    _before: dict[str | None, int] = attrs.field(factory=dict, init=False)
    logs: dict[LogName, PlannedLog] = attrs.field(factory=dict)
    touched: dict[Request, set[LogName]] = attrs.field(factory=lambda: defaultdict(set))

    def add(self, request: Request) -> None:
        """Add a request, or refuse it and leave the plan unchanged.

        Raises:
            FactMemError: The request is refused.
        """
        steps = self._checked(request.statements)
        receipts: list[Receipt] = []
        for log, statement, vector in steps:
            self.touched[request].add(log)
            match statement:
                case Append(assertion=assertion):
                    receipts.append(self._append(log, assertion, vector))
                case StateRequest():
                    planned, seq = self.logs[log], self._next_seq(statement.tenant)
                    planned.entries.append(planned.copy.indexed().change(statement, seq, self.clock))
                case _:
                    assert_never(statement)
        request.receipts = receipts

    def _checked(self, statements: Sequence[Statement]) -> list[tuple[LogName, Statement, NDArray[np.float32] | None]]:
        trials: dict[LogName, TrackIndex] = {}

        def trial(log: LogName) -> TrackIndex:
            if log not in trials:
                trials[log] = self._planned(log).copy.indexed().trial()
            return trials[log]

        steps: list[tuple[LogName, Statement, NDArray[np.float32] | None]] = []
        for statement in statements:
            self._begin(statement.tenant)
            match statement:
                case Append(assertion=assertion, vector=vector):
                    log = place_log(assertion.place)
                    if trial(log).known(assertion) is None:
                        trial(log).check_followed(statement)
                        trial(log).record(assertion, 0, self.clock)
                    unit = None if vector is None else storable_vector(vector, dimension=self.dimension)
                    steps.append((log, statement, unit))
                case StateRequest(assertion_id=assertion_id, tenant=tenant):
                    found = self.locate(assertion_id, tenant)
                    if found is None:
                        raise unknown_assertion()
                    trial(found).check(statement)
                    trial(found).change(statement, 0, self.clock)
                    steps.append((found, statement, None))
                case _:
                    assert_never(statement)
        return steps

    def _begin(self, tenant: str | None) -> None:
        """Look for a tenant's last number; this brings the clock to its newest time as well."""
        if tenant not in self._before:
            self._before[tenant] = self.last_of(tenant)

    def _next_seq(self, tenant: str | None) -> int:
        self.last[tenant] = self.last.get(tenant, self._before.get(tenant, 0)) + 1
        return self.last[tenant]

    def _planned(self, log: LogName) -> PlannedLog:
        if log not in self.logs:
            copy = self.copy_of(log)
            self.logs[log] = PlannedLog(copy, copy.position)
        return self.logs[log]

    def _append(self, log: LogName, assertion: Assertion, vector: NDArray[np.float32] | None) -> Receipt:
        planned = self.logs[log]
        index, dated = planned.copy.indexed(), assertion
        for dated in (assertion, self.clock.dated(assertion)):
            if (known := index.known(dated)) is not None:
                return Receipt(recorded=known, new=False)
        recorded = index.record(dated, self._next_seq(assertion.place.scope.tenant), self.clock)
        planned.entries.append(recorded)
        if vector is not None:
            planned.vectors[recorded.seq] = vector
        return Receipt(recorded=recorded, new=True)
