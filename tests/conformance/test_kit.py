"""The kit detects each broken promise: every provider with one fails it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import attrs
import pytest

from factmem.providers.memory import InMemoryProvider
from tests.conformance import broken_providers
from tests.conformance.broken_providers import BREAKS
from tests.forks import in_a_fork

FILE: Final = Path(broken_providers.__file__)

SAMPLE: Final = ("closes", "removes", "unite", "evidence_metadata", "retracting")
"""Parts of the names of specs of several promises."""

COSTLY: Final = ("hostile", "limit", "cancelled", "reads_back", "alike")
"""Parts of the names of specs that take long."""


@attrs.define
class Chosen:
    """A plugin of pytest that collects the specs of some names alone, and notes how their parameters ended.

    Attributes:
        choose: Tells by its name whether a spec is run.
        of: Outcomes of each spec.
    """

    choose: Callable[[str], bool]
    of: dict[str, list[str]] = attrs.field(factory=lambda: defaultdict(list))

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, collector: pytest.Module | pytest.Class, name: str) -> list[pytest.Item] | None:
        if isinstance(collector, pytest.Class) and name.startswith("test_") and not self.choose(name):
            return []
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.of[report.nodeid.rpartition("::")[2].partition("[")[0]].append(report.outcome)


def outcomes(broken: type[InMemoryProvider], choose: Callable[[str], bool], told: Path) -> dict[str, list[str]]:
    """Run specs of the kit on a provider, in a fork of this process."""

    def run() -> None:
        found = Chosen(choose)
        pytest.main(["-q", "--tb=no", "-p", "no:cacheprovider", f"{FILE}::Test{broken.__name__}"], plugins=[found])
        told.write_text(json.dumps(found.of))

    assert in_a_fork(run) == 0
    ended: dict[str, list[str]] = json.loads(told.read_text())
    return ended


@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__)
def test_a_broken_provider_fails_the_specs_of_its_promise(
    broken: type[InMemoryProvider], tmp_path: Path, big: bool
) -> None:
    """Only some of the specs fail, so that their names say which promise is broken."""

    def is_of_promise(name: str) -> bool:
        return _has(name, BREAKS[broken])

    def is_tried(name: str) -> bool:
        others = not _has(name, COSTLY) if big else _has(name, SAMPLE)
        return others or is_of_promise(name)

    ended = outcomes(broken, is_tried, tmp_path / "outcomes.json")
    failed = {name for name, results in ended.items() if "failed" in results}
    its_own = set(filter(is_of_promise, ended))
    others = ended.keys() - its_own
    assert its_own
    assert others
    assert its_own - failed == set()
    assert len(failed & others) <= len(others) / 3, failed & others


def _has(name: str, parts: Iterable[str]) -> bool:
    return any(part in name for part in parts)


def test_every_broken_provider_is_tried() -> None:
    kinds = {kind for kind in vars(broken_providers).values() if isinstance(kind, type)}
    assert {kind for kind in kinds if InMemoryProvider in kind.__bases__} == set(BREAKS)
    assert len(BREAKS) > 10
