"""The provider conformance kit: one spec per guarantee, run with pytest.

A provider's test is one class:

    from pathlib import Path
    from factmem.testing import ProviderConformance
    from factmem_shelf import ShelfProvider

    class TestShelfProvider(ProviderConformance):
        durable = True

        async def open_provider(self, directory: Path) -> ShelfProvider:
            return ShelfProvider(directory / "facts")

The specs of the four verbs (`AgentMemoryProvider`) always run. Those of `KeepsLog` run where the provider
satisfies it, and are skipped with the reason where it does not; those of clocks need
`ProviderCase.open_provider_with_clock`. The specs are asynchronous and run under
anyio's own pytest plugin; write a fixture ``anyio_backend`` to say on which event loops.
"""

from __future__ import annotations

from factmem.testing.conformance.capabilities import AccessSpecs, CheckSpecs, CopySpecs, ErasureSpecs, VectorSpecs
from factmem.testing.conformance.log import DetailSpecs, FeedSpecs, HistorySpecs, QuarantineSpecs, StateSpecs
from factmem.testing.conformance.verbs import LifecycleSpecs, ReadingSpecs, SetSpecs, TypeSpecs, ValueSpecs, WallSpecs


class WaistConformance(ValueSpecs, SetSpecs, ReadingSpecs, WallSpecs, TypeSpecs, LifecycleSpecs):
    """Specs of the four verbs and the close, which every provider must pass."""


class ProviderConformance(
    WaistConformance,
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
):
    """All specs. Subclass it, implement `open_provider`, and set `durable`.

    Those of a capability are skipped if the provider does not have it.
    """
