"""A third party's provider, in a distribution of its own, whose own tests are a step of ``.ci/run``."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

SHELF = Path(__file__).parents[2] / "examples" / "third_party_provider"

BROKEN = """
from factmem.errors import CorruptStoreError
from factmem.testing import WaistConformance
from factmem_shelf import ShelfProvider

class LoadsNothing(ShelfProvider):
    async def load_all(self, *place):
        return []

class Blocks(ShelfProvider):
    async def _in_thread(self, work):
        return work()

class OverlooksDamage(ShelfProvider):
    def _read(self, place):
        try:
            return super()._read(place)
        except CorruptStoreError:
            return []

class TestLoadsNothing(WaistConformance):
    durable, shelf = True, LoadsNothing

    async def open_provider(self, directory):
        return self.shelf(directory / "shelf")

class TestBlocks(TestLoadsNothing):
    shelf = Blocks

class TestOverlooksDamage(TestLoadsNothing):
    shelf = OverlooksDamage
"""


def test_a_failing_spec_shows_its_values(tmp_path: Path) -> None:
    """Also where the kit is imported from its module, as the example's test does."""
    (tmp_path / "test_broken.py").write_text(BROKEN)
    chosen = "asyncio and (fifty_concurrent or part_of_a_fact or damaged_file)"
    command = [sys.executable, "-m", "pytest", "-q", "-k", chosen, "-p", "no:cacheprovider", str(tmp_path)]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(SHELF)}
    )
    for shown in ("assert [] == [", "the saves block the event loop", "assert (False or False)"):
        assert shown in result.stdout, result.stdout


def test_it_is_found_by_its_entry_point(tmp_path: Path) -> None:
    """Installation is enough: the provider's address then opens it."""
    project = tomllib.loads((SHELF / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = tmp_path / "factmem_shelf-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: factmem-shelf\nVersion: 0.1.0\n")
    points = project["entry-points"]["factmem.providers"].items()
    lines = [f"{name} = {target}" for name, target in points]
    (installed / "entry_points.txt").write_text("\n".join(["[factmem.providers]", *lines]))
    code = (
        f"import sys; sys.path[:0] = [{str(SHELF)!r}, {str(tmp_path)!r}]\n"
        "from factmem import open_provider\n"
        "from factmem.providers.registry import provider_entry_points\n"
        "from factmem.testing import capabilities_of\n"
        f"shelf = open_provider('shelf:{tmp_path}/facts')\n"
        "print(type(shelf).__module__, sorted(provider_entry_points()), capabilities_of(shelf))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("factmem_shelf.provider ")
    assert "'shelf'" in result.stdout
    assert result.stdout.rstrip().endswith("[]")
