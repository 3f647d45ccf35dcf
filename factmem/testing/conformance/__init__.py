"""The provider conformance kit: one spec per guarantee, run with pytest.

A provider's test is one class:

    from pathlib import Path
    from factmem.testing import ProviderConformance
    from factmem_shelf import ShelfProvider

    class TestShelfProvider(ProviderConformance):
        durable = True

        async def open_provider(self, directory: Path) -> ShelfProvider:
            return ShelfProvider(directory / "facts")

The specs of the four verbs (`AgentMemoryProvider`) always run. Those of a capability (`KeepsHistory`,
`FeedsChanges`, `KeepsVectors`, `Erases`, `KeepsAccesses`, `CopiesLogs`, `ChecksItself`) run where the provider
satisfies it, and are skipped with the reason where it does not; those of clocks need
`ProviderCase.open_provider_with_clock`. The specs are asynchronous and run under
anyio's own pytest plugin; write a fixture ``anyio_backend`` to say on which event loops.
"""

from __future__ import annotations

from factmem.testing.conformance.accesses import AccessSpecs
from factmem.testing.conformance.checking import CheckSpecs
from factmem.testing.conformance.clocks import ClockSpecs
from factmem.testing.conformance.copying import CopySpecs
from factmem.testing.conformance.details import DetailSpecs
from factmem.testing.conformance.embeddings import VectorSpecs
from factmem.testing.conformance.erasing import ErasureSpecs
from factmem.testing.conformance.feeding import FeedSpecs
from factmem.testing.conformance.history import HistorySpecs
from factmem.testing.conformance.lifecycle import LifecycleSpecs
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.quarantine import QuarantineSpecs
from factmem.testing.conformance.reading import ReadingSpecs
from factmem.testing.conformance.sets import SetSpecs
from factmem.testing.conformance.states import StateSpecs
from factmem.testing.conformance.types import TypeSpecs
from factmem.testing.conformance.values import ValueSpecs
from factmem.testing.conformance.views import ViewSpecs
from factmem.testing.conformance.walls import WallSpecs

__all__ = [
    "AccessSpecs",
    "CapabilityConformance",
    "CheckSpecs",
    "ClockSpecs",
    "CopySpecs",
    "DetailSpecs",
    "ErasureSpecs",
    "FeedSpecs",
    "HistorySpecs",
    "LifecycleSpecs",
    "ProviderCase",
    "ProviderConformance",
    "QuarantineSpecs",
    "ReadingSpecs",
    "SetSpecs",
    "StateSpecs",
    "TypeSpecs",
    "ValueSpecs",
    "VectorSpecs",
    "ViewSpecs",
    "WaistConformance",
    "WallSpecs",
]


class WaistConformance(ValueSpecs, SetSpecs, ReadingSpecs, WallSpecs, ViewSpecs, TypeSpecs, LifecycleSpecs):
    """Specs of the four verbs and the close, which every provider must pass."""


class CapabilityConformance(
    HistorySpecs,
    StateSpecs,
    QuarantineSpecs,
    DetailSpecs,
    FeedSpecs,
    VectorSpecs,
    ErasureSpecs,
    AccessSpecs,
    CopySpecs,
    CheckSpecs,
    ClockSpecs,
):
    """Specs of the capabilities; each is skipped if the provider does not have it."""


class ProviderConformance(WaistConformance, CapabilityConformance):
    """All specs. Subclass it, implement `open_provider`, and set `durable`."""
