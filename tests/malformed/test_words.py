"""Input typed by people and programs: addresses, options, scopes, names, pages, command lines."""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib
import inspect
import pkgutil
import random
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import factmem_encrypted
import factmem_file
import factmem_sqlite_vec
import pytest
from typer.testing import CliRunner

import factmem
from factmem import Concept, FactDetails, InMemoryProvider, Memory, MemoryScope, errors, language_model, open_provider
from factmem.cli.app import app
from factmem.errors import (
    CodecError,
    FactMemError,
    IncompleteProfileError,
    InvalidDataError,
    MemoryFileError,
    MissingPackageError,
    UnknownProviderError,
)
from factmem.providers.threaded import raised_again
from factmem.recall import MetadataCondition
from factmem.recall.embedders import embedder_named
from factmem.subjects import MemorySubject
from factmem.testing import FakeClock, HashEmbedder
from tests.conftest import Promise
from tests.growth import cpu_seconds, grows_faster
from tests.malformed.feeding import fed, fed_async
from tests.malformed.mutating import hostile, hostile_text, mutated_text
from tests.malformed.samples import NOW
from tests.tables import sections

_BIG = pytest.mark.timeout(14_400)
_CLOCK = FakeClock(NOW)
_SOUND = sections(Path(__file__).with_name("words.txt"))
_ADDRESSES = _SOUND["addresses"]
_MODELS = ("http://127.0.0.1:9/v1#model", "openai/gpt", "anthropic/claude", "https://[::1]:1/v1#m")
_PATHS = ("/agent/planner", "/product/alpha/decisions", "/cross-product/a%2Fb", "/customer/acme", "/feature/x")


@_BIG
def test_a_scope_is_refused_or_written_as_it_is_read(big: bool, promise: Promise) -> None:
    def feed(rng: random.Random) -> None:
        scope = MemoryScope.parse(mutated_text(rng, rng.choice(_PATHS)))
        assert MemoryScope.parse(str(scope)) == scope
        child = scope / hostile_text(rng)
        assert scope.contains(child)
        assert child.parent == scope
        assert MemoryScope.parse(str(child)) == child

    promise("malformed scopes", fed("scopes", 60_000 if big else 1_000, feed))


@_BIG
def test_a_name_is_refused_or_stands_for_itself(big: bool, promise: Promise) -> None:
    def feed(rng: random.Random) -> None:
        given: Any = hostile(rng) if rng.random() < 0.3 else mutated_text(rng, "some name")
        with contextlib.suppress(FactMemError):
            assert Concept.single(given, "").keyword == given
        with contextlib.suppress(FactMemError):
            assert MemorySubject(given).individual(given).key == (given, given)
        with contextlib.suppress(FactMemError):
            assert MemoryScope.product(given).path == (given,)
        with contextlib.suppress(FactMemError):
            assert FactDetails(owner=given, categories=[given], metadata={"a": given}).owner == given
        with contextlib.suppress(FactMemError):
            MetadataCondition(given, given).holds({"a": 1})

    promise("malformed names", fed("names", 60_000 if big else 700, feed))


@_BIG
def test_an_address_is_refused_or_opens_a_store(tmp_path: Path, big: bool, promise: Promise) -> None:
    """The store is opened and read in a folder of the test; nothing is written."""

    async def feed(rng: random.Random) -> None:
        address = rng.choice(_ADDRESSES).format(folder="@")
        address = mutated_text(rng, address).replace("..", "").replace("/@", str(tmp_path)).replace("@", str(tmp_path))
        if str(tmp_path) not in address and not address.startswith(("memory", "none")):
            address = f"{tmp_path}/{address}"
        async with open_provider(address) as provider:
            await provider.load_all(MemorySubject("user"), MemoryScope.CROSS_PRODUCT)

    promise("malformed addresses", fed_async("addresses", 2_000 if big else 200, feed, echoes=True))
    assert list(tmp_path.rglob("*")) == []


@_BIG
def test_the_name_of_a_model_or_an_embedder_is_refused_or_stands_for_one(big: bool, promise: Promise) -> None:
    def feed(rng: random.Random) -> None:
        with contextlib.suppress(FactMemError):
            language_model(mutated_text(rng, rng.choice(_MODELS)))
        embedder_named(mutated_text(rng, rng.choice(["openai:model@256", "minilm", "wordllama"])))

    promise("malformed names of models", fed("models", 20_000 if big else 60, feed, echoes=True))


@pytest.mark.parametrize("address", [5, None, b"memory:"])
def test_what_is_no_text_is_no_address(address: Any) -> None:
    with pytest.raises(UnknownProviderError):
        open_provider(address)
    for named in (language_model, embedder_named):
        with pytest.raises(InvalidDataError):
            named(address)


@_BIG
def test_the_arguments_of_a_memory_are_refused_or_understood(big: bool, promise: Promise) -> None:
    async def feed(rng: random.Random) -> None:
        memory = Memory(InMemoryProvider(clock=_CLOCK), viewer="alice", embedder=HashEmbedder(4), clock=_CLOCK)
        (record,) = await memory.save(Concept.single("city", "").fact(["Oslo"], timestamp=NOW))
        page = (await memory.list_records(limit=1)).next_page
        given: Any = hostile(rng)
        text: Any = hostile_text(rng)
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: memory.recall(given),
            lambda: memory.recall(text, limit=given),
            lambda: memory.recall("Oslo", scope=given),
            lambda: memory.recall("Oslo", subject=given),
            lambda: memory.recall("Oslo", min_importance=given),
            lambda: memory.list_records(limit=given, offset=given),
            lambda: memory.list_records(categories=given, concepts=given),
            lambda: memory.list_records(metadata=given),
            lambda: memory.list_records(record_ids=given, since=given),
            lambda: memory.list_records(page=given),
            lambda: memory.list_records(page=mutated_text(rng, page or "WyJzYWlkIl0"), limit=given),
            lambda: memory.get(given),
            lambda: memory.update(record.id, value=given),
            lambda: memory.update(record.id, importance=given),
            lambda: memory.update(record.id, metadata=given),
            lambda: memory.update(record.id, categories=given, source=given),
            lambda: memory.retract(given),
            lambda: memory.rollback(given),
            lambda: memory.restore(given),
            lambda: memory.forget(given),
            lambda: memory.forget(scope=given),
            lambda: memory.history(given),
            lambda: memory.save(given),
            lambda: memory.save(Concept.single("k", "", object).fact([given], timestamp=NOW), scope=text),
            lambda: memory.remember(given),
            lambda: memory.remember(text, scope=text),
            lambda: memory.load(given),
            lambda: memory.scope(given).admin.tree(),
            lambda: memory.view(as_of=given).admin.tree(),
            lambda: memory.admin.expire(revisions=given),
            lambda: memory.inbox.quarantine.accept(given),
        ]
        await rng.choice(calls)()

    promise("malformed arguments", fed_async("arguments", 4_000 if big else 400, feed))


_COMMANDS = [shlex.split(line) for line in _SOUND["commands"]]


@_BIG
def test_a_command_line_is_refused_or_run(
    tmp_path: Path, big: bool, promise: Promise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs in a folder of its own, and whatever the outcome, no traceback is printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("factmem.memory.facade.default_embedder", lambda: HashEmbedder(4))

    def feed(rng: random.Random) -> None:
        words = list(rng.choice(_COMMANDS))
        for _ in range(rng.choice([1, 1, 2])):
            place = rng.randrange(len(words))
            # No argument of a process contains a NUL, and no option here leads to another store.
            words[place] = mutated_text(rng, words[place]).replace("\0", "").replace("..", "")[:50_000]
        run = CliRunner().invoke(app, ["--store", str(tmp_path / "facts.db"), *words], input="")
        if run.exception is not None and not isinstance(run.exception, SystemExit):
            raise run.exception

    promise("malformed command lines", fed("command lines", 300 if big else 60, feed))


def test_a_time_to_live_is_refused_or_ends() -> None:
    memory = Memory(InMemoryProvider(clock=_CLOCK), embedder=HashEmbedder(4), clock=_CLOCK)
    fact = Concept.single("city", "").fact(["Oslo"], timestamp=NOW)

    async def feed(rng: random.Random) -> None:
        ttl: Any = rng.choice([dt.timedelta.max, dt.timedelta.min, dt.timedelta(0), 5, "30d", float("nan"), None])
        await memory.save(fact, ttl=ttl)

    fed_async("times to live", 50, feed)


# Regular expressions take time linear in the text, also in an adversarial one.

PACKAGES: Final = (factmem, factmem_file, factmem_encrypted, factmem_sqlite_vec)
MATCHED_WHOLE: Final = frozenset(
    {*("factmem.cli.options._CONDITION", "factmem.detection.redaction._REPEATABLE", "factmem.recall.text.times._TO")}
)
"""Patterns that are only matched at the start of a text."""
UNITS: Final = (
    *"aA0 \n\t.,-_'\"()[]<>/\\=*#|`~@:;!?{}&%$^é中",
    *("a ", "1 ", "a.", "a@", "://", "\n ", "- ", "> ", "[x](", "<!--", "```\n", "a,b", "1,", "1.", "a=", "'a ", "--"),
    *("(a)", "&a", "you ", "the user ", "if you ", "always ", "send the ", "in may ", "2 days ", "key: ", "password "),
    *("http://a", "a/b", "[redacted: a", "\u200b", "\u0301", "1:", "<a ", "not ", "from now on ", "but ", "because "),
)
FEW: Final = ("a", "0", " ", "\n", ".", "-", "a ", "1.", "(", '"a" ')
SMALL, BIG = 500, 250_000


def modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                try:
                    yield importlib.import_module(found.name)
                except (MissingPackageError, ModuleNotFoundError):
                    continue  # an extra that is not installed


def patterns_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[str]]:
    """Yield the patterns in a value of a module: itself, or those in its items and fields."""
    if isinstance(getattr(value, "pattern", None), str) and hasattr(value, "finditer"):
        yield re.compile(value.pattern, value.flags)
    elif depth < 4:
        match value:
            case list() | tuple() | set() | frozenset():
                inner: list[Any] = list(value)
            case dict():
                inner = list(value.values())
            case _:
                names = [field.name for field in getattr(type(value), "__attrs_attrs__", ())]
                inner = [getattr(value, name, None) for name in names]
        for item in inner:
            yield from patterns_in(item, depth + 1)


def all_patterns() -> dict[re.Pattern[str], str]:
    return {
        pattern: f"{module.__name__}.{name}"
        for module in modules()
        for name, value in vars(module).items()
        for pattern in patterns_in(value)
    }


def grows_too_fast(run: Callable[[str], object], unit: str, length: int) -> bool:
    def cost(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        return cpu_seconds(lambda: run(text))

    return grows_faster(cost, length, length * 4, times=8, least=0.0005)


def searching(pattern: re.Pattern[str], name: str) -> Callable[[str], object]:
    if name in MATCHED_WHOLE:
        return pattern.match
    return lambda text: sum(1 for _ in pattern.finditer(text))


@pytest.mark.parametrize("length", [SMALL, pytest.param(BIG, id="big", marks=pytest.mark.timeout(3600))])
def test_every_pattern_takes_linear_time(length: int, pytestconfig: pytest.Config, promise: Promise) -> None:
    if length == BIG and not pytestconfig.getoption("--big"):
        pytest.skip("a megabyte for every pattern takes minutes: --big runs it")
    found = all_patterns()
    assert len(found) > 150, "the collection of patterns is broken"
    units = FEW if length == BIG else UNITS
    slow = [
        f"{name} on {unit!r}"
        for pattern, name in found.items()
        for unit in units
        if grows_too_fast(searching(pattern, name), unit, length)
    ]
    assert slow == []
    promise("regular expressions", f"{len(found)} linear on {len(units)} periodic texts of {4 * length:,} chars")


def test_a_slow_pattern_is_noticed() -> None:
    cubic = re.compile(r"\s+\s+x")
    assert grows_too_fast(searching(cubic, ""), " ", 100)


# Errors raised again for several tasks: each task gets the same error in an object of its own.

_MADE: list[FactMemError] = [
    CodecError("bad", path="$.a"),
    IncompleteProfileError("Profile", ["name"]),
    MemoryFileError("gone", file="AGENTS.md"),
    MissingPackageError("openai", extra="openai"),
    *(
        cls("so")
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, FactMemError) and cls.__init__ is FactMemError.__init__
    ),
]


@pytest.mark.parametrize("error", _MADE, ids=lambda error: type(error).__name__)
def test_an_error_raised_again_is_the_same_in_another_object(error: FactMemError) -> None:
    error.__cause__ = OSError("below")
    again = raised_again(error)
    assert again is not error
    assert type(again) is type(error)
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
    assert again.__cause__ is error.__cause__
