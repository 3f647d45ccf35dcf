"""Options and fixtures of all tests."""

from __future__ import annotations

import functools
import gc
import json
import os
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import settings

from tests.fork_server import ForkServer
from tests.postgres import drop_schemas, end_of_tests, start_of_tests

settings.register_profile("usual", deadline=None, max_examples=30)  # no deadline: a machine may be busy
settings.register_profile("quick", deadline=None, max_examples=10)
settings.register_profile("big", deadline=None, max_examples=500)
settings.load_profile("usual")

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: small products need no thread per core
gc.set_threshold(50_000, 20, 50)

QUICK = ("agent", "consolidation", "detection", "llm", "memory", "models", "observing", "recall", "vocabulary")
"""The folders whose tests run with `--quick`."""

GUARD = (
    "models",
    "conformance",
    "walls",
    "recall/test_exactness.py",
    "recall/test_exact_parts.py",
    "recall/test_filter_views.py",
    "providers/test_old_stores.py",
)
"""The suites that say what every operation means: a change of the engine leaves them as they are.

Whole programs against a plain model, the conformance kit over each store, walls between tenants, viewers and views,
recall against the naive sort, and stores that earlier versions wrote. `--guard` runs these alone.
"""

OTHER_STORES = {"sqlite-vec", "file", "encrypted", "encrypted-sqlite", "postgres"}
OTHER_VARIANTS = {"trio", *OTHER_STORES}
"""Event loops and stores that are left out with `--quick`."""

BOTH_LOOPS = ("agent", "conformance", "integrations", "llm", "memory", "observing", "providers", "reliability")
"""Folders whose tests run on trio as well as on asyncio, if their module uses `anyio`.

Those have to do with waiting: tasks, threads, timeouts, cancellation. The other tests are about results, which do not
depend on the event loop; they run on trio only with `--big`.
"""

ENCRYPTED = {"encrypted": "file", "encrypted-sqlite": "sqlite-vec"}
"""Stores that are another one over encrypted storage."""

OF_STORAGE = ("conformance", "crypto", "forgetting", "providers", "reliability")
"""Folders whose tests run over the encrypted stores as well; the others do with `--big`, and `--guard` too."""

Promise: TypeAlias = Callable[[str, str], None]
"""Callback that records a promise, as listed in `benchmarks/trust.py`, and its measured figure."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--big", action="store_true", help="run the heavy checks at full size, and every test on trio too")
    parser.addoption(
        "--quick", action="store_true", help="run the fast tests only: one event loop, one store, few examples"
    )
    parser.addoption("--guard", action="store_true", help="run only the suites that no change of the engine may change")
    parser.addoption("--promises", type=Path, help="append the measured figure of each promise to this file")
    parser.addoption("--local-model", action="store_true", help="run the tests against a small model on this machine")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Let pytest-xdist run all quick tests with a worker for each core, unless a number of workers is given."""
    is_worker = hasattr(config, "workerinput")  # which has no workers of its own
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    unset = getattr(config.option, "numprocesses", 0) is None
    if config.getoption("--quick") and everything and unset and not is_worker:
        config.option.numprocesses = "auto"


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
    """Skip the import of folders that `--quick` leaves out, and of files that `--guard` does."""
    here = Path(__file__).parent
    if config.getoption("--guard") and collection_path.is_file() and collection_path.is_relative_to(here):
        return None if any(collection_path.is_relative_to(here / suite) for suite in GUARD) else True
    if not config.getoption("--quick") or not collection_path.is_relative_to(here) or collection_path == here:
        return None
    folder = collection_path.relative_to(here).parts[0]
    return True if (here / folder).is_dir() and folder not in QUICK else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests whose option was not given.

    The packages of a local model are large, and its answers vary between runs.
    """
    if config.getoption("--quick"):
        _deselect(config, items, [item for item in items if not _is_quick(item)])
    elif not config.getoption("--big"):
        _deselect(config, items, [item for item in items if item.get_closest_marker("big")])
        _deselect(config, items, _repetitions(items, bool(config.getoption("--guard"))))
    if not config.getoption("--local-model"):
        left_out = pytest.mark.skip(reason="run with --local-model")
        for item in items:
            if item.get_closest_marker("local_model"):
                item.add_marker(left_out)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from scanning thousands of collected tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Iterator[None]:
    """Share the TLS contexts of clients: each client would read all certificates, and no server here speaks TLS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """A server that runs scripts with warnings as errors, each in a process of its own."""
    with ForkServer() as server:
        yield server


@pytest.fixture(scope="module")
def sockets_collected() -> Iterator[None]:
    """Collect the sockets that outlive their loop before the next module, where their warning is an error."""
    yield
    gc.collect()


def _deselect(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


def _repetitions(items: list[pytest.Item], guard: bool) -> list[pytest.Item]:
    """Return the tests over a store or on trio that add nothing to the same test over another one or on asyncio.

    `Memory` awaits every store in the same way, so its tests, but for those that name stores themselves, run on trio
    over the in-memory store only. The stores share the adapter that waits. On trio they are tested by their own tests,
    and SQLite's by the conformance kit. A test with parameters runs on trio with the first of them, and so does a test
    of `Memory` over another store than the one in memory.
    """
    here, there, tried = Path(__file__).parent, {item.nodeid for item in items}, set[tuple[str, str]]()

    def is_there(test: str, variant: str, name: str, instead: str) -> bool:
        return name in variant and f"{test}[{variant.replace(name, instead)}" in there

    def is_another(test: str, name: str) -> bool:
        """Return whether a test has been met with a parameter before."""
        seen = (test, name) in tried
        tried.add((test, name))
        return seen

    def repeats(item: pytest.Item) -> bool:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec") or not item.path.is_relative_to(here):
            return False
        params: Mapping[str, object] = item.callspec.params
        folder, (test, _, variant) = item.path.relative_to(here).parts[0], item.nodeid.partition("[")
        if not (guard or folder in OF_STORAGE) and any(is_there(test, variant, *pair) for pair in ENCRYPTED.items()):
            return True
        if params.get("anyio_backend") != "trio" or not is_there(test, variant, "trio", "asyncio"):
            store = params.get("provider")
            durable = folder == "memory" and store in OTHER_STORES and is_there(test, variant, str(store), "memory")
            return durable and is_another(test, "durable")
        if folder not in BOTH_LOOPS or (folder in ("memory", "providers") and _is_of(params, OTHER_STORES)):
            return True
        if not _waits(item.function):
            return True
        return is_another(test, "trio")

    return [item for item in items if repeats(item)]


def _waits(test: Callable[..., object]) -> bool:
    """Return whether the module of a test has imported `anyio` or a part of it."""
    modules = (value for value in test.__globals__.values() if isinstance(value, ModuleType))
    return any(module.__name__.partition(".")[0] == "anyio" for module in modules)


def _is_quick(item: pytest.Item) -> bool:
    """Return whether a test runs on asyncio, uses the in-memory store and has no marker that leaves it out."""
    if any(map(item.get_closest_marker, ("big", "processes", "slow"))):
        return False
    called = getattr(item, "callspec", None)
    return called is None or not _is_of(called.params, OTHER_VARIANTS)


def _is_of(params: Mapping[str, object], variants: Collection[str]) -> bool:
    """Return whether a parameter is one of the variants, or has the name of one."""
    names = (getattr(value, "name", value) for value in params.values())
    return any(isinstance(name, str) and name in variants for name in names)


@pytest.fixture
def big(request: pytest.FixtureRequest) -> bool:
    """Whether to run the heavy checks at full size."""
    return bool(request.config.getoption("--big"))


@pytest.fixture
def promise(request: pytest.FixtureRequest) -> Promise:
    """Return a function that records the figure of a promise in the file given by `--promises`.

    Call it after the assertions of the promise have passed.
    """
    kept: Path | None = request.config.getoption("--promises")

    def keep(name: str, figure: str) -> None:
        if kept is not None:
            line = json.dumps({"promise": name, "figure": figure, "test": request.node.nodeid})
            with kept.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    return keep


@pytest.fixture
def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run work of threads at once: threads are irrelevant here, and switching between them takes most of the time."""

    async def run_sync(work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return work(*args)

    monkeypatch.setattr(anyio.to_thread, "run_sync", run_sync)
    monkeypatch.setattr(anyio.from_thread, "check_cancelled", lambda: None)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test on both event loops."""
    return str(request.param)
