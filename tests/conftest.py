"""Options and fixtures of all tests."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import settings

from tests.postgres import drop_schemas, end_of_tests, start_of_tests

settings.register_profile("usual", deadline=None, max_examples=50)  # no deadline: a machine may be busy
settings.register_profile("quick", deadline=None, max_examples=10)
settings.register_profile("big", deadline=None, max_examples=500)
settings.load_profile("usual")

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: small products need no thread per core
gc.set_threshold(50_000, 20, 50)

QUICK = ("agent", "consolidation", "detection", "llm", "memory", "models", "observing", "recall", "vocabulary")
"""The folders that `--quick` looks into."""

OTHER_VARIANTS = {"trio", "sqlite-vec", "file", "encrypted", "encrypted-sqlite", "postgres"}
"""Event loops and stores that it leaves out."""

BOTH_LOOPS = ("agent", "conformance", "integrations", "llm", "memory", "observing", "providers", "reliability")
"""The folders whose tests run on trio as well as on asyncio. The others, which test what is computed and not how it is
waited for, do so with `--big`."""

Promise: TypeAlias = Callable[[str, str], None]
"""Called with a promise, as `benchmarks/trust.py` lists it, and the figure by which it was kept."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--big", action="store_true", help="run the heavy checks with their big numbers, and all on trio")
    parser.addoption("--quick", action="store_true", help="run what takes no time: one loop, one store, few examples")
    parser.addoption("--promises", type=Path, help="append the figures by which promises were kept to this file")
    parser.addoption("--local-model", action="store_true", help="ask a real small model that runs on this machine")


def pytest_configure(config: pytest.Config) -> None:
    start_of_tests()
    if config.getoption("--quick"):
        settings.load_profile("quick")
    elif config.getoption("--big"):
        settings.load_profile("big")


def pytest_unconfigure() -> None:
    end_of_tests()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    drop_schemas()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what `--quick` leaves out."""
    here = Path(__file__).parent
    if not config.getoption("--quick") or not collection_path.is_relative_to(here) or collection_path == here:
        return None
    folder = collection_path.relative_to(here).parts[0]
    return True if (here / folder).is_dir() and folder not in QUICK else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what an option did not ask for, such as a real model: its packages are big, its answers no gate."""
    if config.getoption("--quick"):
        _deselect(config, items, [item for item in items if not _is_quick(item)])
    elif not config.getoption("--big"):
        _deselect(config, items, _repetitions(items))
    if not config.getoption("--local-model"):
        left_out = pytest.mark.skip(reason="run with --local-model")
        for item in items:
            if item.get_closest_marker("local_model"):
                item.add_marker(left_out)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from visiting thousands of collected tests again and again."""
    gc.collect()
    gc.freeze()


def _deselect(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


def _repetitions(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests on trio that say no more than the same test on asyncio.

    A memory waits for every store in the same way: on trio it is tested over the one that is in memory. The other
    stores are tested on trio by their own tests and by the conformance kit.
    """
    here, there = Path(__file__).parent, {item.nodeid for item in items}

    def repeats(item: pytest.Item) -> bool:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        twin = item.nodeid.replace("trio", "asyncio")
        if params.get("anyio_backend") != "trio" or twin not in there or not item.path.is_relative_to(here):
            return False
        folder = item.path.relative_to(here).parts[0]
        return folder not in BOTH_LOOPS or (folder == "memory" and params.get("provider", "memory") != "memory")

    return [item for item in items if repeats(item)]


def _is_quick(item: pytest.Item) -> bool:
    """Return whether a test runs on asyncio, over no store but the one in memory, and is not marked otherwise."""
    if item.get_closest_marker("slow") or item.get_closest_marker("processes"):
        return False
    called = getattr(item, "callspec", None)
    return called is None or not any(value in OTHER_VARIANTS for value in called.params.values() if type(value) is str)


@pytest.fixture
def big(request: pytest.FixtureRequest) -> bool:
    """Whether to run the same check with its big number."""
    return bool(request.config.getoption("--big"))


@pytest.fixture
def promise(request: pytest.FixtureRequest) -> Promise:
    """Keep the figure of a promise, for whoever asked with ``--promises``; to be called once it is kept."""
    kept: Path | None = request.config.getoption("--promises")

    def keep(name: str, figure: str) -> None:
        if kept is not None:
            line = json.dumps({"promise": name, "figure": figure, "test": request.node.nodeid})
            with kept.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    return keep


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both event loops."""
    return str(request.param)
