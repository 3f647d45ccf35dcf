"""The kit detects each broken promise: every provider with one fails it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Final

import attrs
import pytest

from factmem.providers.memory import InMemoryProvider
from tests.conformance import broken_providers
from tests.conformance.broken_providers import BREAKS
from tests.forks import in_a_fork

FILE: Final = Path(broken_providers.__file__)

SAMPLE: Final = "closes or removes or unite or evidence_metadata or retracting"
"""Specs of several promises, as pytest selects them."""

NOT_COSTLY: Final = "not hostile and not limit and not cancelled and not reads_back and not alike"


@attrs.define
class Outcomes:
    """A plugin of pytest that notes how the parameters of each spec ended."""

    of: dict[str, list[str]] = attrs.field(factory=lambda: defaultdict(list))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.of[report.nodeid.rpartition("::")[2].partition("[")[0]].append(report.outcome)


def outcomes(broken: type[InMemoryProvider], specs: str, told: Path) -> dict[str, list[str]]:
    """Run specs of the kit on a provider, in a fork of this process."""

    def run() -> None:
        found = Outcomes()
        options = ["-q", "--tb=no", "-k", specs, "-p", "no:cacheprovider"]
        pytest.main([*options, f"{FILE}::Test{broken.__name__}"], plugins=[found])
        told.write_text(json.dumps(found.of))

    assert in_a_fork(run) == 0
    ended: dict[str, list[str]] = json.loads(told.read_text())
    return ended


@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__)
def test_a_broken_provider_fails_the_specs_of_its_promise(
    broken: type[InMemoryProvider], tmp_path: Path, big: bool
) -> None:
    """Only some of the specs fail, so that their names say which promise is broken."""
    ended = outcomes(broken, BREAKS[broken], tmp_path / "broken.json")
    assert ended
    assert [spec for spec, results in ended.items() if "failed" not in results] == []
    rest = f"{NOT_COSTLY} and not depends_on_nothing" if big else SAMPLE
    others = outcomes(broken, f"{rest} and not ({BREAKS[broken]})", tmp_path / "others.json")
    failed = [spec for spec, results in others.items() if "failed" in results]
    assert len(failed) <= len(others) / 3, failed


def test_every_broken_provider_is_tried() -> None:
    kinds = {kind for kind in vars(broken_providers).values() if isinstance(kind, type)}
    assert {kind for kind in kinds if InMemoryProvider in kind.__bases__} == set(BREAKS)
    assert len(BREAKS) > 10
