"""Costs of models, by operation."""

from __future__ import annotations

import threading

import attrs

from factmem.abc import OperationCompleted, OperationEvent, OperationFailed, OperationStarted
from factmem.abc.observer import Operation
from factmem.values import Json


@attrs.frozen(kw_only=True)
class Cost:
    """Requests to models and tokens, as far as providers report them.

    Attributes:
        requests: Number of requests, failed ones included.
        input_tokens: Number of tokens sent, with those from a cache.
        cached_tokens: Number of tokens sent that the provider had in its cache.
        output_tokens: Number of tokens answered.
    """

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: mine + getattr(other, name) for name, mine in attrs.asdict(self).items()})

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return attrs.asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.requests:,} request{'' if self.requests == 1 else 's'}, {self.input_tokens:,} tokens in "
            f"({self.cached_tokens:,} cached), {self.output_tokens:,} out"
        )


@attrs.define(eq=False)
class CostReport:
    """Observer that adds up what models cost, by the operation that asked them.

    Pass it to as many memories as it is to cover. A question belongs to the operation that asks it: ``DETECT``,
    ``CONSOLIDATE``, ``ANALYSE``, ``RERANK``, ``RECALL`` and so on; the vectors of a remote embedder to ``EMBED``.

    Example:
        >>> costs = CostReport()
        >>> memory = Memory("facts.db", model=model, observers=[costs])
        >>> print(costs.total, costs.by_operation[Operation.DETECT])
    """

    _costs: dict[Operation, Cost] = attrs.field(factory=dict, init=False)
    _under_way: dict[str, Operation] = attrs.field(factory=dict, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)

    def __call__(self, event: OperationEvent, /) -> None:
        """See `MemoryObserver`."""
        match event:
            case OperationStarted():
                with self._lock:
                    self._under_way[event.id] = event.operation
            case OperationCompleted() | OperationFailed():
                with self._lock:
                    self._under_way.pop(event.id, None)
                    self._add(event)

    def _add(self, event: OperationCompleted | OperationFailed) -> None:
        cost = Cost(**{name: getattr(event, name) or 0 for name in attrs.fields_dict(Cost)})
        if cost == Cost():
            return
        asker = event.operation
        if asker is Operation.ASK:
            asker = self._under_way.get(event.parent_id or "", Operation.ASK)
        self._costs[asker] = self._costs.get(asker, Cost()) + cost

    @property
    def by_operation(self) -> dict[Operation, Cost]:
        """The costs so far of each operation that had any."""
        with self._lock:
            return dict(self._costs)

    @property
    def total(self) -> Cost:
        """All costs so far."""
        return sum(self.by_operation.values(), Cost())
