"""What a group of requests writes: each is refused or taken as a whole before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from factmem.abc import Append, Clock, LogName, Position, Receipt, Statement, StateRequest
from factmem.errors import FactMemError
from factmem.providers import TrackIndex, unknown_assertion
from factmem.records import Assertion, LogEntry
from factmem.vectors import storable_vector
from factmem_file.logs import place_log
from factmem_file.mirrors import Mirror

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Plan", "PlannedLog", "Request"]


@attrs.define(eq=False)
class Request:
    """One call of `append`, waiting for its turn.

    Attributes:
        statements: what to do.
        receipts: what became of the assertions.
        error: why it was refused, or could not be written.
        done: whether the above is final; see `factmem.providers.Waiting`.
        logs: the logs it hangs on.
    """

    statements: Sequence[Statement]
    receipts: list[Receipt] = attrs.field(factory=list)
    error: FactMemError | None = None
    done: bool = False
    logs: set[LogName] = attrs.field(factory=set)

    def settle(self, error: FactMemError | None) -> None:
        """Make it final; an earlier error stands."""
        if not self.done:
            self.error = self.error or error
            self.done = True


@attrs.define(eq=False)
class PlannedLog:
    """What one log gets.

    Attributes:
        mirror: the copy it was planned on.
        position: the log's end, where it goes.
        entries: in order; none if all of it was there before.
        vectors: of the new assertions that came with one, by sequence number.
    """

    mirror: Mirror
    position: Position
    entries: list[LogEntry] = attrs.field(factory=list)
    vectors: dict[int, NDArray[np.float32]] = attrs.field(factory=dict)


@attrs.define(eq=False)
class Plan:
    """What a group of requests writes.

    Attributes:
        seq: the last number given out.
        mirror_of: gives the copy of a log, caught up.
        locate: gives the log of an assertion's id, or None.
        clock: gives the time of recording.
        dimension: of the store's vectors, once it has an embedder.
        logs: what each log gets.
    """

    seq: int
    mirror_of: Callable[[LogName], Mirror]
    locate: Callable[[str], LogName | None]
    clock: Clock
    dimension: int | None
    logs: dict[LogName, PlannedLog] = attrs.field(factory=dict)

    def add(self, request: Request) -> None:
        """Take in a request, or refuse it and leave the plan as it was.

        Raises:
            FactMemError: it cannot be done.
        """
        steps = self._checked(request.statements)
        for log, statement, vector in steps:
            request.logs.add(log)
            match statement:
                case Append(assertion=assertion):
                    request.receipts.append(self._append(log, assertion, vector))
                case StateRequest():
                    self.seq += 1
                    planned = self.logs[log]
                    planned.entries.append(planned.mirror.indexed().change(statement, self.seq, self.clock))

    def _checked(self, statements: Sequence[Statement]) -> list[tuple[LogName, Statement, NDArray[np.float32] | None]]:
        trials: dict[LogName, TrackIndex] = {}

        def trial(log: LogName) -> TrackIndex:
            if log not in trials:
                trials[log] = self._planned(log).mirror.indexed().trial()
            return trials[log]

        steps: list[tuple[LogName, Statement, NDArray[np.float32] | None]] = []
        for statement in statements:
            match statement:
                case Append(assertion=assertion, vector=vector):
                    log = place_log(assertion.place)
                    if trial(log).known(assertion) is None:
                        trial(log).check_followed(statement)
                        trial(log).record(assertion, 0, self.clock)
                    unit = None if vector is None else storable_vector(vector, dimension=self.dimension)
                    steps.append((log, statement, unit))
                case StateRequest(assertion_id=assertion_id):
                    found = self.locate(assertion_id)
                    if found is None:
                        raise unknown_assertion()
                    trial(found).check(statement)
                    trial(found).change(statement, 0, self.clock)
                    steps.append((found, statement, None))
        return steps

    def _planned(self, log: LogName) -> PlannedLog:
        if log not in self.logs:
            mirror = self.mirror_of(log)
            self.logs[log] = PlannedLog(mirror, mirror.position)
        return self.logs[log]

    def _append(self, log: LogName, assertion: Assertion, vector: NDArray[np.float32] | None) -> Receipt:
        planned = self.logs[log]
        index = planned.mirror.indexed()
        if (known := index.known(assertion)) is not None:
            return Receipt(recorded=known, new=False)
        self.seq += 1
        recorded = index.record(assertion, self.seq, self.clock)
        planned.entries.append(recorded)
        if vector is not None:
            planned.vectors[recorded.seq] = vector
        return Receipt(recorded=recorded, new=True)
