"""Simulation of the disk, the clock and the death of the process, for tests of stores.

`play` plays a history from a seed: several lives of a process that saves, retracts, erases and rotates keys on one
store, while calls of the disk fail, tear and are reordered, the clock is set back and forth by years, and the process
is killed or its power cut. After each death the store is opened again and compared with what it acknowledged:

- an acknowledged operation survives every later death, and a refused one was done as a whole or not at all;
- an erased word never comes back, and where words can be read in the files, none of its bytes are left;
- numbers grow, none is given twice, and an acknowledged assertion keeps its id and its number;
- every store opens, and only `StoreUnavailableError` comes out while the disk fails.

A provider's test is a loop over seeds:

    from tests.simulation import SimulatedStore, play

    SHELF = SimulatedStore(open=lambda path, clock, generation: ShelfProvider(path, clock=clock))

    @pytest.mark.parametrize("seed", range(100))
    async def test_a_history(seed: int, tmp_path: Path) -> None:
        await play(seed, SHELF, tmp_path)

The disk below it, `SimulatedDisk`, serves other tests as well: while it is `intercepted`, whatever this process changes
in a folder, in Python or in SQLite by `apsw`, is reported to it, and it writes the folders that a power cut may leave.
"""

from __future__ import annotations

from tests.simulation.disk import CallKind, DiskCall, SimulatedDisk
from tests.simulation.histories import BrokenPromiseError, Lives, SimulatedStore, play
from tests.simulation.intercepting import intercepted

__all__ = [
    "BrokenPromiseError",
    "CallKind",
    "DiskCall",
    "Lives",
    "SimulatedDisk",
    "SimulatedStore",
    "intercepted",
    "play",
]
