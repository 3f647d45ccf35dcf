"""Requirements of Koog's own tests of facts, scopes and storage, and its defects there, over every provider.

The numbers are those of Koog's tests and the letters those of its defects, in the study that factmem's
vocabulary comes from. Detection is in ``test_koog_detection.py``; the choice among scopes and subjects is tested
with the engine; that writes are atomic (D7) is proven by kills in ``tests/reliability``.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from factmem.abc.capabilities import Append, KeepsLog, StateRequest
from factmem.abc.provider import AgentMemoryProvider
from factmem.errors import CorruptStoreError, FactMemError, InvalidDataError, ProviderClosedError, StoreUnavailableError
from factmem.facts import Concept, MultipleFacts, SingleFact
from factmem.providers.memory import NoMemory
from factmem.providers.registry import open_provider
from factmem.records import AssertionState, FactDetails, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope, MemoryScopesProfile, ScopeKind
from factmem.subjects import MemorySubject

USER = MemorySubject("user", "the user", priority_level=1)
AGENT = MemoryScope.agent("strategy")
STYLE = Concept.single("coding-style", "How the user likes code to be written")
TICKETS = Concept.multiple("tickets", "Issues that the user has reported")
PROFILE = MemoryScopesProfile(
    agent_name="a", feature_name="f", product_name="p", organization_name="o", cross_product=True
)
UNSAFE = ["../escape", "a/b", "..", ".", "with space", "name:colon", "CON", "PRN", "x" * 200, "..\\up", "~", "%2e%2e"]


@attrs.frozen
class Preference:
    """A class whose name must not reach the disk."""

    editor: str


def at(minute: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=minute)


def files_in(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def damage(directory: Path, word: bytes) -> dict[Path, bytes]:
    """Overwrite the beginning of every file that contains a word, and return the contents of all files now."""
    wounded = {
        path: b"{ not a fact }" * 40 + whole[560:] for path, whole in files_in(directory).items() if word in whole
    }
    for path, whole in wounded.items():
        path.write_bytes(whole)
    return wounded


def style(value: str, minute: int = 0) -> SingleFact[str]:
    return SingleFact(STYLE, value, timestamp=at(minute))


@pytest.fixture(params=["memory", "file", "sqlite-vec"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'store' / 'facts'}"


@pytest.fixture
async def provider(address: str) -> AsyncIterator[AgentMemoryProvider]:
    async with open_provider(address) as provider:
        yield provider


async def test_1_no_memory_keeps_nothing() -> None:
    """This includes `load_all`, which Koog does not test."""
    async with NoMemory() as provider:
        await provider.save(style("tabs"), USER, AGENT)
        assert await provider.load(STYLE, USER, AGENT) is None
        assert list(await provider.load_all(USER, AGENT)) == []
        assert list(await provider.load_by_description("code", USER, AGENT)) == []


async def test_3_facts_are_loaded_from_each_scope_of_a_profile(provider: AgentMemoryProvider) -> None:
    assert [scope.kind for scope in PROFILE.scopes()] == list(ScopeKind)
    for scope in PROFILE.scopes():
        await provider.save(style(f"as in {scope}"), USER, scope)
    loaded = [await provider.load(STYLE, USER, scope) for scope in PROFILE.scopes()]
    assert loaded == [style(f"as in {scope}") for scope in PROFILE.scopes()]


async def test_5_saves_in_sequence_keep_their_times(provider: AgentMemoryProvider) -> None:
    assert isinstance(provider, KeepsLog)
    for minute in range(3):
        await provider.save(style(f"style {minute}", minute), USER, AGENT)
    log = [entry for entry in await provider.entries(Place(USER, AGENT)) if isinstance(entry, Recorded)]
    assert [entry.assertion.timestamp for entry in log] == [at(0), at(1), at(2)]


async def test_14_scopes_do_not_leak_into_each_other(provider: AgentMemoryProvider) -> None:
    for scope in PROFILE.scopes():
        await provider.save(style(str(scope)), USER, scope)
    for scope in PROFILE.scopes():
        assert list(await provider.load_all(USER, scope)) == [style(str(scope))]


async def test_15_two_facts_of_one_concept_are_one_that_changed(provider: AgentMemoryProvider) -> None:
    """Koog's test expects both values; that is defect D1, the oldest SINGLE value wins."""
    await provider.save(style("tabs", 1), USER, AGENT)
    await provider.save(style("spaces", 2), USER, AGENT)
    await provider.save(MultipleFacts(TICKETS, ("T-1",), timestamp=at(3)), USER, AGENT)
    assert await provider.load(STYLE, USER, AGENT) == style("spaces", 2)
    assert [fact.concept.keyword for fact in await provider.load_by_description("likes", USER, AGENT)] == [
        "coding-style"
    ]
    assert len(await provider.load_all(USER, AGENT)) == 2


@pytest.mark.parametrize("name", ["file", "sqlite-vec"])
async def test_16_d8_a_damaged_store_is_an_error_and_is_not_overwritten(name: str, tmp_path: Path) -> None:
    """Koog reads it as empty and overwrites it with the next save."""
    address = f"{name}:{tmp_path / 'facts'}"
    async with open_provider(address) as provider:
        for minute in range(20):
            await provider.save(style(f"style {minute}", minute), USER, AGENT)
    damaged = damage(tmp_path, b"style 7")
    assert damaged
    with pytest.raises(CorruptStoreError):
        async with open_provider(address) as provider:
            await provider.load(STYLE, USER, AGENT)
    with pytest.raises(CorruptStoreError):
        async with open_provider(address) as provider:
            await provider.save(style("new", 99), USER, AGENT)
    now = files_in(tmp_path)
    assert {path: now[path] for path in damaged} == damaged


async def test_unsafe_names_are_names_and_stay_inside_the_store(provider: AgentMemoryProvider, tmp_path: Path) -> None:
    """D9, path traversal: no name is refused for its characters, and no two names are merged."""
    places = [(MemorySubject(name), MemoryScope.product(name).within(name)) for name in [*UNSAFE, "con", "X" * 200]]
    for number, (subject, scope) in enumerate(places):
        await provider.save(style(f"{number}"), subject, scope)
    for number, (subject, scope) in enumerate(places):
        assert await provider.load(STYLE, subject, scope) == style(f"{number}")
    for path in files_in(tmp_path):
        inside = path.relative_to(tmp_path)
        assert inside.parts[0] == "store"
        assert inside.parts[1].startswith("facts")


@pytest.mark.parametrize("name", ["", " ", "a\x00b", "x" * 513])
async def test_a_refused_name_creates_nothing(provider: AgentMemoryProvider, tmp_path: Path, name: str) -> None:
    before = files_in(tmp_path)
    with pytest.raises(InvalidDataError):
        await provider.save(style("tabs"), USER, MemoryScope.feature(name))
    assert files_in(tmp_path) == before


async def test_a_search_beside_saves_sees_no_partial_state(provider: AgentMemoryProvider) -> None:
    sizes: set[int] = set()

    async def look() -> None:
        for _ in range(10):
            for fact in await provider.load_by_description("issues", USER, AGENT):
                sizes.add(len(fact.values) % 10)

    async with anyio.create_task_group() as tasks:
        for batch in range(5):
            values = tuple(f"T-{batch}-{number}" for number in range(10))
            tasks.start_soon(provider.save, MultipleFacts(TICKETS, values, timestamp=at(batch)), USER, AGENT)
            tasks.start_soon(look)
    assert sizes <= {0}


async def test_d1_the_newest_single_value_wins(provider: AgentMemoryProvider) -> None:
    for minute in (2, 3, 1):
        await provider.save(style(f"{minute}", minute), USER, AGENT)
    assert await provider.load(STYLE, USER, AGENT) == style("3", 3)


async def test_d3_timestamps_are_stored_used_and_shown(provider: AgentMemoryProvider) -> None:
    await provider.save(style("tabs", 5), USER, AGENT)
    (fact,) = await provider.load_all(USER, AGENT)
    assert fact.timestamp == at(5)


async def test_d4_values_saved_again_do_not_pile_up(provider: AgentMemoryProvider) -> None:
    """Twelve tickets that are saved after every run remain twelve tickets."""
    values = tuple(f"T-{number}" for number in range(12))
    for run in range(5):
        await provider.save(MultipleFacts(TICKETS, values, timestamp=at(run)), USER, AGENT)
    loaded = await provider.load(TICKETS, USER, AGENT)
    assert loaded is not None
    assert loaded.values == values


async def test_d5_facts_can_be_retracted_erased_and_expire(provider: AgentMemoryProvider) -> None:
    assert isinstance(provider, KeepsLog)
    place, expired = Place(USER, AGENT), FactDetails(expires_at=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    facts = [(style("tabs", 1), FactDetails()), (style("spaces", 2), FactDetails()), (style("both", 3), expired)]
    receipts = await provider.append(
        [Append(assertion=said) for fact, details in facts for said in assertions_of(fact, place, details)]
    )
    assert await provider.load(STYLE, USER, AGENT) == style("spaces", 2)
    newest = receipts[1].recorded
    await provider.append([StateRequest.of(newest, state=AssertionState.RETRACTED)])
    assert await provider.load(STYLE, USER, AGENT) == style("tabs", 1)
    await provider.erase([newest.record_id], tenant=None)
    assert await provider.load(STYLE, USER, AGENT) is None
    assert list(await provider.entries(place)) == []


async def test_d6_concurrent_saves_lose_no_update(address: str, provider: AgentMemoryProvider) -> None:
    """This holds for one provider, and for two on one store."""
    providers = [provider, provider if address == "memory:" else open_provider(address)]
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            fact = MultipleFacts(TICKETS, (f"T-{number}",), timestamp=at(number))
            tasks.start_soon(providers[number % 2].save, fact, USER, AGENT)
    for reader in providers:
        loaded = await reader.load(TICKETS, USER, AGENT)
        assert loaded is not None
        assert loaded.values == tuple(f"T-{number}" for number in range(20))
    await providers[1].aclose()


async def test_d10_an_organization_is_a_wall(provider: AgentMemoryProvider) -> None:
    acme = attrs.evolve(PROFILE, organization_name="acme")
    for scope in PROFILE.scopes():
        await provider.save(style("tabs"), USER, scope)
    assert [await provider.load(STYLE, USER, scope) for scope in acme.scopes()] == [None] * 4


@pytest.mark.parametrize(
    "build", [lambda: style(" "), lambda: MultipleFacts(TICKETS, ()), lambda: Concept.single("", "")]
)
def test_d11_nothing_is_no_fact(build: Any) -> None:
    """No sentinel stands for a missing value: no fact is built for it, so none is stored."""
    with pytest.raises(InvalidDataError):
        build()


async def test_d15_subjects_need_no_registry(provider: AgentMemoryProvider) -> None:
    """A subject is identified by its name: the reader does not need the object used for saving."""
    await provider.save(style("tabs"), MemorySubject("machine", "the user's machine", priority_level=2), AGENT)
    assert await provider.load(STYLE, MemorySubject("machine"), AGENT) == style("tabs")


async def test_d16_a_concept_is_found_by_keyword_and_without_regard_to_case(provider: AgentMemoryProvider) -> None:
    await provider.save(style("tabs"), USER, AGENT)
    for text in ("CODING-STYLE", "likes CODE", "style"):
        assert list(await provider.load_by_description(text, USER, AGENT)) == [style("tabs")]


async def test_d18_no_class_name_reaches_the_disk(provider: AgentMemoryProvider, tmp_path: Path) -> None:
    concept = Concept.single("preference", "d", Preference)
    await provider.save(SingleFact(concept, Preference("vi"), timestamp=at(0)), USER, AGENT)
    await provider.aclose()
    for whole in files_in(tmp_path).values():
        assert not any(word in whole for word in (b"Preference", b"SingleFact", b"test_koog", b"factmem."))


async def test_d20_nothing_of_a_fact_is_logged_or_printed(
    provider: AgentMemoryProvider, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        await provider.save(style("tabs-0451"), USER, AGENT)
        await provider.load_all(USER, AGENT)
        with pytest.raises(FactMemError) as conflict:
            await provider.save(MultipleFacts(Concept.multiple(STYLE.keyword, ""), ("dots-0451",)), USER, AGENT)
        await provider.aclose()
    shown = [*(record.getMessage() for record in caplog.records), *capfd.readouterr(), str(conflict.value)]
    assert not any("0451" in text for text in shown)


@pytest.mark.parametrize("name", ["file", "sqlite-vec"])
async def test_d21_a_save_that_cannot_be_kept_is_an_error(name: str, tmp_path: Path) -> None:
    """A blocked location and a closed store raise errors; Koog returns normally."""
    (tmp_path / "in the way").write_text("a file, not a directory")
    blocked = open_provider(f"{name}:{tmp_path / 'in the way' / 'facts'}")
    with pytest.raises(StoreUnavailableError):
        await blocked.save(style("tabs"), USER, AGENT)
    await blocked.aclose()
    with pytest.raises(ProviderClosedError):
        await blocked.save(style("tabs"), USER, AGENT)


def test_d22_a_scope_without_a_name_is_no_scope() -> None:
    """No name is invented for it, and a profile is never changed implicitly."""
    profile = MemoryScopesProfile(product_name="p")
    assert profile.scope_of(ScopeKind.AGENT) is None
    assert [scope.kind for scope in profile.scopes()] == [ScopeKind.PRODUCT, ScopeKind.CROSS_PRODUCT]
    changing: Any = profile
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        changing.agent_name = "strategy"
