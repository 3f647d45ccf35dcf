"""Helpers for the tests of observers: an observer that records its events, and queries on them."""

from __future__ import annotations

from collections.abc import Iterator

from factmem.abc import OperationCompleted, OperationEvent, OperationFailed, OperationStarted
from factmem.abc.observer import Operation


class Watcher:
    """An observer that records every event."""

    def __init__(self) -> None:
        self.events: list[OperationEvent] = []

    def __call__(self, event: OperationEvent, /) -> None:
        self.events.append(event)

    def started(self, operation: Operation) -> list[OperationStarted]:
        """Return the start events of one operation."""
        return [event for event in self._of(operation) if isinstance(event, OperationStarted)]

    def completed(self, operation: Operation) -> list[OperationCompleted]:
        """Return the completion events of one operation."""
        return [event for event in self._of(operation) if isinstance(event, OperationCompleted)]

    def failed(self, operation: Operation) -> list[OperationFailed]:
        """Return the failure events of one operation."""
        return [event for event in self._of(operation) if isinstance(event, OperationFailed)]

    def within(self, parent: OperationEvent) -> list[Operation]:
        """Return the operations within one run of another, in the order begun."""
        return [
            event.operation
            for event in self.events
            if isinstance(event, OperationStarted) and event.parent_id == parent.id
        ]

    def _of(self, operation: Operation) -> Iterator[OperationEvent]:
        return (event for event in self.events if event.operation is operation)
