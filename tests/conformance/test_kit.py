"""The kit detects each broken promise: every provider with one fails it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import attrs
import pytest

from factmem.providers.memory import InMemoryProvider
from tests.conformance import broken_providers
from tests.conformance.broken_providers import BREAKS
from tests.forks import in_a_fork

PROMISES: Final = {broken.__name__: promise for broken, promise in BREAKS.items()}

SAMPLE: Final = ("closes", "removes", "unite", "evidence_metadata", "retracting")
"""Parts of the names of specs of several promises."""

COSTLY: Final = ("hostile", "limit", "cancelled", "reads_back", "alike")
"""Parts of the names of specs that take long."""

MOST_SECONDS: Final = 900
"""Time for all specs of all providers, as with `--big`."""


@attrs.define
class Chosen:
    """A plugin of pytest that collects some specs of each provider alone, and notes how their parameters ended.

    Attributes:
        choose: Tells by the name of a provider and its own whether a spec is run.
        of: Outcomes of each spec of each provider.
    """

    choose: Callable[[str, str], bool]
    of: dict[str, dict[str, list[str]]] = attrs.field(factory=lambda: defaultdict(lambda: defaultdict(list)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, collector: pytest.Module | pytest.Class, name: str) -> list[pytest.Item] | None:
        if isinstance(collector, pytest.Class) and name.startswith("test_"):
            return None if self.choose(collector.name.removeprefix("Test"), name) else []
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            _, broken, spec = report.nodeid.split("::")
            self.of[broken.removeprefix("Test")][spec.partition("[")[0]].append(report.outcome)


def outcomes(choose: Callable[[str, str], bool], noted: Path) -> Mapping[str, Mapping[str, list[str]]]:
    """Run specs of the kit on all broken providers, in a fork of this process."""

    def run() -> None:
        found = Chosen(choose)
        pytest.main(["-q", "--tb=no", "-p", "no:cacheprovider", str(broken_providers.__file__)], plugins=[found])
        noted.write_text(json.dumps(found.of))

    assert in_a_fork(run, MOST_SECONDS) == 0
    ended: Mapping[str, Mapping[str, list[str]]] = json.loads(noted.read_text())
    return ended


@pytest.mark.timeout(MOST_SECONDS)
def test_a_broken_provider_fails_the_specs_of_its_promise(tmp_path: Path, big: bool) -> None:
    """Only some of the specs fail, so that their names say which promise is broken."""

    def is_tried(broken: str, name: str) -> bool:
        others = not _has(name, COSTLY) if big else _has(name, SAMPLE)
        return others or _has(name, PROMISES[broken])

    tried = outcomes(is_tried, tmp_path / "outcomes.json")
    assert tried.keys() == PROMISES.keys()
    for broken, ended in tried.items():
        failed = {name for name, results in ended.items() if "failed" in results}
        its_own = {name for name in ended if _has(name, PROMISES[broken])}
        others = ended.keys() - its_own
        assert its_own, broken
        assert others, broken
        assert its_own - failed == set(), broken
        assert len(failed & others) <= len(others) / 3, (broken, failed & others)


def _has(name: str, parts: Iterable[str]) -> bool:
    return any(part in name for part in parts)


def test_every_broken_provider_is_tried() -> None:
    kinds = {kind for kind in vars(broken_providers).values() if isinstance(kind, type)}
    assert {kind for kind in kinds if InMemoryProvider in kind.__bases__} == set(BREAKS)
    assert len(BREAKS) > 10
