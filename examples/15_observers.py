"""Observe a memory: every operation sends an event at its start and at its end, without content.

Run:  python examples/15_observers.py
"""

from __future__ import annotations

import contextlib

import anyio

from factmem import Concept, InMemoryProvider, Memory, SingleFact
from factmem.abc import OperationCompleted, OperationEvent, OperationFailed, OperationStarted
from factmem.errors import RecordNotFoundError

SEATS = Concept.single("seats", "How many seats the venue has", int)


class Narrator:
    """Observer that prints events, indented by their depth. Any function of one argument works too."""

    def __init__(self) -> None:
        self.depth: dict[str | None, int] = {None: 0}

    def __call__(self, event: OperationEvent, /) -> None:
        match event:
            case OperationStarted():
                self.depth[event.id] = self.depth.get(event.parent_id, 0) + 1
            case OperationCompleted():
                self.show_end(event, f"{event.records_out} out, in {event.duration * 1000:.1f} ms")
            case OperationFailed():
                self.show_end(event, f"failed: {event.error}, after {event.duration * 1000:.1f} ms")

    def show_end(self, event: OperationEvent, how: str) -> None:
        """Print the result of an operation."""
        where = f" in {event.scope}" if event.scope else ""
        print(f"{'  ' * self.depth.pop(event.id)}{event.operation}{where}: {how}")


async def main() -> None:
    async with Memory(InMemoryProvider(), observers=[Narrator()]) as memory:
        await memory.save(SingleFact(SEATS, 120), scope="/product/launch")
        await memory.recall("how many seats are there?")
        with contextlib.suppress(RecordNotFoundError):
            await memory.get("a record that nobody knows")


if __name__ == "__main__":
    anyio.run(main)
