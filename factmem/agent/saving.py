"""What was handed over of an agent's history."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from factmem.abc import DropReason
from factmem.agent.holding import Held
from factmem.memory import Handover, Memory, Remembered

__all__ = ["SavedHistory"]


class SavedHistory:
    """What was handed over of a history. It is on disk, and read in the background.

    Args:
        handover: the memory's own handle.
        held: the memory.
    """

    def __init__(self, handover: Handover, held: Held) -> None:
        self._handover = handover
        self._held = held

    @property
    def pending(self) -> int:
        """How much of it has not been read yet."""
        return self._handover.pending

    @property
    def outcomes(self) -> tuple[Remembered, ...]:
        """What became of it so far."""
        return self._handover.outcomes

    @property
    def failures(self) -> tuple[str, ...]:
        """The names of the errors that kept some of it from being read; it is in the store's dead letters."""
        return self._handover.failures

    @property
    def dropped(self) -> Mapping[DropReason, int]:
        """Number of findings and parts of messages that were dropped so far, by reason; see `Remembered.dropped`."""
        return self._handover.dropped

    def held_by(self, held: Held) -> SavedHistory:
        """Return it as somebody else holds the memory: from another event loop, or from none."""
        return SavedHistory(self._handover, held)

    async def wait(self) -> tuple[Remembered, ...]:
        """Wait until all of it is read or has failed, and return what became of it."""
        return await self._held.use(partial(_waited, self._handover))

    def wait_blocking(self) -> tuple[Remembered, ...]:
        """The same, where there is no event loop; see `factmem.agent.AgentMemory`."""
        return self._held.use_blocking(partial(_waited, self._handover))


async def _waited(handover: Handover, memory: Memory) -> tuple[Remembered, ...]:
    return await handover.wait()
