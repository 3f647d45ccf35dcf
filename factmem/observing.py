"""Notification of observers about operations. Without an observer nothing is built, measured or called."""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Self

import anyio
import attrs

from factmem.abc import MemoryObserver, OperationCompleted, OperationEvent, OperationFailed, OperationStarted
from factmem.abc.detector import DropReason
from factmem.abc.observer import Effect, Operation

_log = logging.getLogger("factmem")


@attrs.frozen(kw_only=True)
class Observation:
    """Observers of a memory's operations, and what they receive.

    Attributes:
        observers: the observers, called in this order.
        tenant: the memory's organization.
        content: whether events carry arguments and results.
    """

    observers: tuple[MemoryObserver, ...]
    tenant: str | None
    content: bool = False
    _failed: set[int] = attrs.field(factory=set, init=False, eq=False, repr=False)

    def notify(self, event: OperationEvent) -> None:
        """Notify every observer. An observer that raises is logged once and stays."""
        for number, observer in enumerate(self.observers):
            try:
                observer(event)
            except Exception as error:
                if number not in self._failed:
                    self._failed.add(number)
                    _log.warning("an observer of the memory failed; it stays registered: %s", type(error).__name__)


class Call:
    """An operation without observers."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    def record_result(self, records: int | None, result: object = None) -> None:
        """Record the result.

        Args:
            records: number of records.
            result: the result itself.
        """

    def record_effects(self, effects: Callable[[], Mapping[Effect, int]]) -> None:
        """Record the effects of a commit.

        Args:
            effects: counts them; not called without observers.
        """

    def record_dropped(self, findings: Iterable[Mapping[DropReason, int]]) -> None:
        """Record findings that were dropped.

        Args:
            findings: their numbers by reason.
        """

    def record_usage(self, *, model: object = None, **counts: object) -> None:
        """Record the usage that a model reports. Counts add up. Values of unexpected types are ignored.

        Args:
            model: the model's name.
            counts: ``requests``, ``input_tokens``, ``cached_tokens`` and ``output_tokens``.
        """


_UNOBSERVED: Final = Call()
_current: ContextVar[ObservedCall | None] = ContextVar("factmem_operation", default=None)


class ObservedCall(Call):
    """An operation whose start and end are reported to observers.

    Args:
        observation: the observers.
        operation: the operation.
        scope: the path of the scope it is about.
        records_in: number of items passed in.
        arguments: its arguments.
    """

    def __init__(
        self,
        observation: Observation,
        operation: Operation,
        *,
        scope: str | None = None,
        records_in: int | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        parent = _current.get()
        self.observation: Observation = observation
        self._given: dict[str, Any] = {
            "operation": operation,
            "id": secrets.token_hex(8),
            "parent_id": None if parent is None else parent.id,
            "tenant": observation.tenant,
            "scope": scope,
            "records_in": records_in,
        }
        # A nested operation may be done for another viewer, whose content no observer may see.
        self._content = observation.content and parent is None
        self._arguments = arguments if self._content else None
        self._usage: dict[str, Any] = {}
        self._counts: dict[str, Any] = {}
        self._records_out: int | None = None
        self._result: object = None
        self._token: Token[ObservedCall | None] | None = None
        self._began: float = 0.0

    @property
    def id(self) -> str:
        """Id of this run of the operation."""
        return str(self._given["id"])

    @property
    def scope(self) -> str | None:
        """Path of the scope it is about."""
        scope: str | None = self._given["scope"]
        return scope

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        self.observation.notify(OperationStarted(**self._given, arguments=self._arguments))
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        event = {**self._given, **self._usage, "duration": time.perf_counter() - self._began}
        if self._token is not None:
            _current.reset(self._token)
        if error is not None:
            self.observation.notify(OperationFailed(**event, error=_name_of(error)))
            return
        ended = OperationCompleted(**event, **self._counts, records_out=self._records_out, result=self._result)
        self.observation.notify(ended)

    def record_result(self, records: int | None, result: object = None) -> None:
        """See `Call.record_result`."""
        self._records_out = records
        if self._content:  # else a task that is begun within, and lives long, would hold on to it
            self._result = result

    def record_effects(self, effects: Callable[[], Mapping[Effect, int]]) -> None:
        """See `Call.record_effects`."""
        self._counts["effects"] = effects()

    def record_dropped(self, findings: Iterable[Mapping[DropReason, int]]) -> None:
        """See `Call.record_dropped`."""
        self._counts["dropped"] = dict(sum(map(Counter, findings), Counter[DropReason]()))

    def record_usage(self, *, model: object = None, **counts: object) -> None:
        """See `Call.record_usage`."""
        if isinstance(model, str):
            self._usage["model"] = model
        for name, number in counts.items():
            if isinstance(number, int):
                self._usage[name] = self._usage.get(name, 0) + number


def nested(operation: Operation, *, records_in: int | None = None) -> Call:
    """Return an operation within the current one, to be entered; an unobserved one if there is none.

    Args:
        operation: the operation.
        records_in: number of items passed in.
    """
    current = _current.get()
    if current is None:
        return _UNOBSERVED
    return ObservedCall(current.observation, operation, scope=current.scope, records_in=records_in)


def current_call() -> Call:
    """Return the innermost operation of the running task."""
    return _current.get() or _UNOBSERVED


def _name_of(error: BaseException) -> str:
    return "Cancelled" if isinstance(error, anyio.get_cancelled_exc_class()) else type(error).__name__
