"""Views: a memory limited to a part of a store, without a way to reach the rest."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from factmem import (
    AgentMemoryProvider,
    Concept,
    InMemoryProvider,
    Memory,
    MemoryScope,
    MemorySubject,
    Message,
    MultipleFacts,
    SingleFact,
)
from factmem.abc import DetectionRequest
from factmem.errors import (
    CapabilityError,
    InvalidDataError,
    InvalidNameError,
    ModelError,
    OutOfViewError,
    ReadOnlyError,
    RecordNotFoundError,
)
from factmem.facts import STATEMENT
from factmem.scopes import ScopeKind
from factmem.testing import HashEmbedder, ScriptedModel
from tests.memory.telling import CITY, PETS, SEATS, USER, opened, said, well, words
from tests.narrowing import not_none

ALPHA, BETA = MemoryScope.product("alpha"), MemoryScope.product("beta")
PLAN = ALPHA / "plan"


async def filled(memory: Memory) -> dict[str, str]:
    """Save a city in two products and in a child of one, and return the records' ids by their values."""
    ids = {}
    for scope, city in ((ALPHA, "Oslo"), (PLAN, "Rome"), (BETA, "Bern"), (MemoryScope.product("alphabet"), "Lyon")):
        (record,) = await memory.save(SingleFact(CITY, city), subject=USER, scope=scope)
        ids[city] = record.id
    return ids


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    """A memory over the store in memory alone."""
    async with opened(InMemoryProvider()) as memory:
        yield memory


async def test_a_view_shows_its_scope_and_what_lies_below_it(provider: AgentMemoryProvider) -> None:
    async with opened(provider) as memory:
        await filled(memory)
        view = memory.scope("/product/alpha")
        assert said(await view.list_records()) == ["Oslo", "Rome"]
        assert said([match.record for match in await view.recall("city", limit=9)]) == ["Oslo", "Rome"]
        assert list((await view.admin.info()).scopes) == [ALPHA, PLAN]
        assert (await view.admin.info()).records == 2
        assert said(await view.history(CITY)) == ["Oslo", "Rome"]
        assert said(await memory.view(scopes=[PLAN, BETA], read_only=True).list_records()) == ["Bern", "Rome"]


async def test_a_whole_branch_is_read_viewed_and_erased(provider: AgentMemoryProvider) -> None:
    async with opened(provider) as memory:
        await filled(memory)
        await memory.save(SingleFact(CITY, "Paris"), subject=USER, scope="/agent/planner")
        await memory.save(SingleFact(CITY, "Kyiv"), subject=USER, scope="/customer/acme")
        products = ["Bern", "Lyon", "Oslo", "Rome"]
        assert said(await memory.list_records(scope="/product")) == products
        assert said([match.record for match in await memory.recall("city", scope="/agent")]) == ["Paris"]
        assert said(await memory.list_records(scope="/feature")) == []
        assert (await memory.admin.info("/product")).records == 4
        tree = await memory.admin.tree("/product", 1)
        assert (tree.name, [child.name for child in tree.children]) == ("product", ["alpha", "alphabet", "beta"])
        assert [str(child.scope) for child in (await memory.admin.tree(depth=1)).children] == [
            "/agent",
            "/cross-product",
            "/product",
        ]
        view = memory.scope("/product")
        assert said(await view.list_records()) == products
        assert said(await view.scope("alpha").list_records()) == ["Oslo", "Rome"]
        assert said(await memory.view(scopes=["/agent", BETA], read_only=True).list_records()) == ["Bern", "Paris"]
        with pytest.raises(OutOfViewError):
            await view.list_records(scope="/agent")
        with pytest.raises(OutOfViewError, match="several scopes"):
            await view.save(SingleFact(CITY, "Nice"), subject=USER)
        assert len(await memory.admin.reset("/product")) == 4
        assert said(await memory.list_records()) == ["Kyiv", "Paris"]


async def test_a_slash_is_everything_that_a_view_shows(provider: AgentMemoryProvider) -> None:
    async with opened(provider) as memory:
        await filled(memory)
        for reader, expected in ((memory, ["Bern", "Lyon", "Oslo", "Rome"]), (memory.scope(ALPHA), ["Oslo", "Rome"])):
            assert said(await reader.list_records(scope="/")) == expected
            assert said([match.record for match in await reader.recall("city", scope="/", limit=9)]) == expected
            assert (await reader.admin.info("/")).records == (await reader.admin.tree("/")).records == len(expected)
            assert said(await reader.scope("/").list_records()) == expected
        assert len(await memory.scope(ALPHA).admin.reset("/")) == 2
        assert said(await memory.list_records()) == ["Bern", "Lyon"]


@pytest.mark.parametrize("scope", ["/", "/product", MemoryScope(ScopeKind.AGENT)])
async def test_no_fact_lies_in_a_branch_or_everywhere(scope: str | MemoryScope, memory: Memory) -> None:
    ids = await filled(memory)
    for refused in (
        lambda: memory.save(SingleFact(CITY, "Nice"), subject=USER, scope=scope),
        lambda: memory.remember("Nice is warm.", scope=scope),
        lambda: memory.update(ids["Oslo"], scope=scope),
        lambda: memory.load(CITY, subject=USER, scope=scope),
        lambda: memory.history(CITY, scope=scope),
        lambda: memory.list_records(scope=scope, exact=True),
        lambda: memory.forget(scope=scope, exact=True),
        lambda: memory.admin.info(scope, exact=True),
    ):
        with pytest.raises(InvalidDataError):
            await refused()
    with pytest.raises(InvalidDataError, match="empty filter"):
        await memory.forget(scope="/")
    with pytest.raises(InvalidDataError):
        memory.view(scopes=[], exact=[scope], read_only=True)
    assert len(await memory.list_records()) == 4


@pytest.mark.parametrize("outside", ["/product/beta", "/product/alphabet", "/product", "/x", MemoryScope.CROSS_PRODUCT])
async def test_no_scope_leads_out_of_a_view(outside: str | MemoryScope, memory: Memory) -> None:
    await filled(memory)
    view = memory.scope(ALPHA)
    for asked in (
        lambda: view.load(CITY, scope=outside),
        lambda: view.recall("city", scope=outside),
        lambda: view.list_records(scope=outside),
        lambda: view.admin.info(outside),
        lambda: view.admin.info(outside),
        lambda: view.history(CITY, scope=outside),
        lambda: view.save(SingleFact(CITY, "Nice"), scope=outside),
        lambda: view.remember("Nice is warm.", scope=outside),
        lambda: view.generate([MultipleFacts(STATEMENT, ("Nice is warm.",))], scope=outside),
        lambda: view.inbox.ingest_events("s", [Message(content="Nice is warm.")], scope=outside),
        lambda: view.forget(scope=outside),
        lambda: view.forget(scope=outside, dry_run=True),
    ):
        with pytest.raises((OutOfViewError, InvalidNameError)):
            await asked()
    with pytest.raises((OutOfViewError, InvalidNameError)):
        view.scope(outside)
    assert len(await memory.list_records()) == 4


async def test_a_path_without_a_leading_slash_is_relative_to_a_view_of_one_scope(provider: AgentMemoryProvider) -> None:
    """As CrewAI's `subscope`: the view below the present one."""
    async with opened(provider) as memory:
        await filled(memory)
        view = memory.scope(ALPHA)
        plan = view.scope("plan")
        assert said(await plan.list_records()) == ["Rome"]
        (record,) = await plan.scope("2026/draft", read_only=False).save(SingleFact(CITY, "Nice"), subject=USER)
        assert str(record.scope) == "/product/alpha/plan/2026/draft"
        assert said(await view.view(scopes=["plan/2026"], read_only=True).list_records()) == ["Nice"]
        assert said(await view.view(scopes=[], exact=["plan"], read_only=True).list_records()) == ["Rome"]
        assert said(await view.scope("/product/alpha/plan/2026").list_records()) == ["Nice"]
        assert said(await view.scope("product/alpha/plan/2026").list_records()) == ["Nice"]
        assert said(await memory.scope("product/beta").list_records()) == ["Bern"]


@pytest.mark.parametrize("path", ["..", "../beta", "plan/../../beta", "", " ", "plan//x", "product/beta", "//@acme/x"])
async def test_no_relative_path_leads_out_of_a_view(path: str, memory: Memory) -> None:
    await filled(memory)
    view = memory.scope(ALPHA)
    try:
        shown = await view.scope(path).list_records()
    except (InvalidNameError, OutOfViewError, InvalidDataError):
        return
    assert shown == []


async def test_no_id_of_another_branch_works_in_a_view(provider: AgentMemoryProvider) -> None:
    async with opened(provider) as memory:
        ids = await filled(memory)
        view = memory.scope(ALPHA)
        for done in (
            lambda: view.get(ids["Bern"]),
            lambda: view.retract(ids["Bern"]),
            lambda: view.update(ids["Bern"], value="Nice"),
        ):
            with pytest.raises(RecordNotFoundError):
                await done()
        assert (await view.forget(ids["Bern"])).erased == 0
        assert await memory.load(CITY, subject=USER, scope=BETA) is not None


async def test_what_nobody_places_stays_in_the_view(memory: Memory) -> None:
    view = memory.scope(ALPHA)
    await view.save(SingleFact(SEATS, 4))
    await view.remember("The cellar is cold.")
    assert {str(record.scope) for record in await memory.list_records()} == {"/product/alpha"}
    with pytest.raises(OutOfViewError):
        await memory.view(scopes=[ALPHA, BETA]).save(SingleFact(SEATS, 4))


async def test_a_model_cannot_place_a_memory_outside_of_the_view() -> None:
    """It is shown the view's scopes only; if it proposes another one, the view's own is used."""
    away = {"scope": "/product/beta", "categories": ["plans"], "importance": 0.5}
    model = ScriptedModel(lambda prompt, answer: away if answer.__name__ == "Analysis" else well(prompt, answer))
    async with opened(InMemoryProvider(), model) as memory:
        await filled(memory)
        await memory.scope(ALPHA).remember("The cellar is cold.")
        (record,) = [item for item in await memory.list_records() if item.concept.keyword == STATEMENT.keyword]
        assert record.scope == ALPHA
    assert "/product/alpha/plan" in model.prompts[0].content
    assert "beta" not in model.prompts[0].content


async def test_an_export_and_an_import_stay_in_the_view() -> None:
    provider = InMemoryProvider()
    async with opened(provider) as memory:
        await filled(memory)
        everything, part = io.StringIO(), io.StringIO()
        await memory.admin.export(everything)
        assert await memory.scope(ALPHA).admin.export(part) > 0
        assert "Bern" not in part.getvalue()
        assert "Oslo" in part.getvalue()
    async with opened(InMemoryProvider()) as other:
        with pytest.raises(OutOfViewError):
            await other.scope(ALPHA).admin.import_(io.StringIO(everything.getvalue()))
        assert "Bern" not in json.dumps(said(await other.list_records()))


async def test_a_view_for_reading_writes_nothing(memory: Memory) -> None:
    """A slice is read-only by default, and a write raises an error that says so."""
    for view in (memory.view(scopes=[ALPHA, BETA], read_only=True), memory.scope(ALPHA, read_only=True)):
        with pytest.raises(ReadOnlyError):
            await view.save(SingleFact(CITY, "Oslo"), scope=ALPHA)
        with pytest.raises(ReadOnlyError):
            await view.view(scopes=[ALPHA]).save(SingleFact(CITY, "Oslo"), scope=ALPHA)
    assert await memory.list_records() == []


async def test_what_is_open_is_not_opened_again() -> None:
    """This holds for a memory and for a view of it; the open ones are unaffected. A view may be opened in its place."""
    memory = Memory(InMemoryProvider(), embedder=HashEmbedder())
    view = memory.scope("/product/alpha")
    async with memory:
        for again in (memory, view):
            with pytest.raises(CapabilityError, match="without `async with`"):
                await again.__aenter__()
        await (await view.remember_many(["The mill is old."])).wait()
    async with view:
        assert len(await view.list_records()) == 1
        with pytest.raises(CapabilityError, match="open already"):
            await memory.__aenter__()
    async with memory:
        assert len(await memory.list_records()) == 1


async def test_a_view_of_a_view_only_narrows_it(memory: Memory) -> None:
    await filled(memory)
    view = memory.scope(ALPHA).scope(PLAN)
    assert said(await view.list_records()) == ["Rome"]
    with pytest.raises(OutOfViewError):
        memory.scope(PLAN).scope(ALPHA)


async def test_a_view_may_leave_out_what_lies_below_a_scope(memory: Memory) -> None:
    """No view of it brings the subtree back."""
    await filled(memory)
    view = memory.view(scopes=[BETA], exact=[ALPHA])
    assert said(await view.list_records()) == ["Bern", "Oslo"]
    assert said(await view.view(scopes=[ALPHA], read_only=True).list_records()) == ["Oslo"]
    with pytest.raises(OutOfViewError):
        await view.save(SingleFact(CITY, "Nice"), scope=PLAN)
    with pytest.raises(OutOfViewError):
        view.scope(PLAN)


@pytest.mark.parametrize("scopes", [[], "/product/alpha"])
async def test_a_slice_needs_scopes(scopes: Any, memory: Memory) -> None:
    with pytest.raises(InvalidDataError):
        memory.view(scopes=scopes, read_only=True)


async def test_a_view_is_of_the_same_organization() -> None:
    async with Memory("memory:", organization="acme") as memory:
        with pytest.raises(InvalidDataError):
            memory.scope(MemoryScope.product("alpha").within("evil"))
        with pytest.raises(OutOfViewError):
            await memory.scope(ALPHA).admin.reembed()


async def test_what_is_the_strongest_stands_for_the_others(memory: Memory) -> None:
    """Of a typed fact in several places, the agent's is chosen; statements do not compete."""
    everyone = MemorySubject.EVERYTHING
    await memory.save(SingleFact(CITY, "Oslo"), subject=everyone, scope=MemoryScope.agent("a"))
    await memory.save(SingleFact(CITY, "Rome"), subject=everyone, scope=ALPHA)
    await memory.save(MultipleFacts(PETS, ("cat",)), subject=everyone, scope=ALPHA)
    for scope in (MemoryScope.agent("a"), ALPHA):
        await memory.save(MultipleFacts(STATEMENT, (f"A word about {scope}.",)), subject=everyone, scope=scope)
    records = await memory.list_records(strongest=True)
    assert said([item for item in records if item.concept.keyword != STATEMENT.keyword]) == ["Oslo", "cat"]
    assert len(words(records)) == 2
    assert {match.record.value for match in await memory.recall("city", limit=9, strongest=True)} >= {"Oslo"}
    assert "Rome" not in {match.record.value for match in await memory.recall("Rome", limit=9, strongest=True)}
    view = memory.scope(ALPHA)
    assert "Rome" in said(await view.list_records(strongest=True)), "hidden facts override nothing"


async def test_subjects_narrow_what_is_read(memory: Memory) -> None:
    animals = [MemorySubject("cat"), MemorySubject("dog"), MemorySubject("bee")]
    for subject in animals:
        await memory.save(SingleFact(Concept.single("sound", "What it says"), subject.name), subject=subject)
    assert said(await memory.list_records(subjects=animals[:2])) == ["cat", "dog"]
    assert said([match.record for match in await memory.recall("sound", subjects=animals[1:])]) == ["bee", "dog"]


MAYA, NOAH = USER.individual("maya"), USER.individual("noah")


async def of_two(memory: Memory) -> dict[str, str]:
    """Keep a city of each of two users; return the records' ids by what they say."""
    ids = {}
    for subject, city in ((MAYA, "Oslo"), (NOAH, "Rome")):
        (record,) = await memory.save(SingleFact(CITY, city), subject=subject, scope=ALPHA)
        ids[city] = record.id
    return ids


async def test_no_subject_leads_out_of_a_view() -> None:
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        await of_two(memory)
        view = memory.view(subjects=[MAYA])
        asked = DetectionRequest(subjects=(MAYA, NOAH), open=True)
        ways: list[Callable[[MemorySubject | str], Awaitable[object]]] = [
            lambda subject: view.load(CITY, subject=subject, scope=ALPHA),
            lambda subject: view.recall("city", subject=subject),
            lambda subject: view.recall("city", subjects=[MAYA, subject]),
            lambda subject: view.list_records(subjects=[subject]),
            lambda subject: view.admin.info(subjects=[subject]),
            lambda subject: view.history(CITY, subject=subject),
            lambda subject: view.save(SingleFact(CITY, "Nice"), subject=subject),
            lambda subject: view.save_many([(SingleFact(CITY, "Nice"), subject, None)]),
            lambda subject: view.remember("Nice is warm.", subject=subject),
            lambda subject: view.generate([SingleFact(CITY, "Nice")], subject=subject),
            lambda subject: view.forget(subject=subject),
        ]
        for subject in (NOAH, "user:noah", USER, MemorySubject.EVERYTHING):
            for way in ways:
                with pytest.raises(OutOfViewError):
                    await way(subject)
            with pytest.raises(OutOfViewError):
                view.view(subjects=[subject])
        with pytest.raises(OutOfViewError):
            await view.remember([Message(content="Nice is warm.")], looking_for=asked)
        with pytest.raises(OutOfViewError):
            view.for_user("noah")
        with pytest.raises(OutOfViewError):
            view.view(subjects=[MAYA, NOAH])
        with pytest.raises(InvalidDataError, match="needs at least one subject"):
            memory.view(subjects=[])
        assert said(await memory.list_records()) == ["Oslo", "Rome"]


async def test_what_a_view_about_somebody_keeps_is_about_them(memory: Memory) -> None:
    view = memory.view(subjects=[MAYA, NOAH])
    await view.remember("I like tea.")
    await view.view(subjects=[NOAH]).save(SingleFact(CITY, "Rome"))
    await view.for_user("noah").save(SingleFact(SEATS, 3))
    found = await memory.view(viewer="noah").list_records()
    assert {record.concept.keyword: record.subject for record in found} == {
        STATEMENT.keyword: MAYA,
        CITY.keyword: NOAH,
        SEATS.keyword: NOAH,
    }


async def test_facts_about_the_user_that_a_request_names_are_about_the_one_whom_a_view_is_for() -> None:
    asked = DetectionRequest(subjects=[USER, MAYA], concepts=[CITY])
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        for name, city in (("ann", "Oslo"), ("bo", "Rome")):
            await memory.for_user(name).remember(Message(content=f"I live in {city}."), looking_for=asked)
        for name, city in (("ann", "Oslo"), ("bo", "Rome")):
            view = memory.for_user(name)
            assert not_none(await view.load(CITY, subject=f"user:{name}")).value == city
            assert not_none(await view.load(CITY)).value == city
            assert await view.load(CITY, subject=USER) is None


async def test_a_dead_letter_in_which_facts_about_others_were_looked_for_is_not_read_in_a_view() -> None:
    async with opened(InMemoryProvider(), model=ScriptedModel(lambda *_: ModelError("away"))) as memory:
        asked = DetectionRequest(subjects=(MAYA, NOAH), open=True)
        await memory.remember([Message(content="Noah lives in Nice.")], subject=MAYA, looking_for=asked)
        view = memory.view(subjects=[MAYA])
        (letter,) = await view.inbox.dead_letters.list()
        with pytest.raises(OutOfViewError):
            await view.inbox.dead_letters.retry(letter.id)
        assert await memory.view(subjects=[NOAH]).inbox.dead_letters.list() == ()
        assert await view.inbox.dead_letters.list() == (letter,)
