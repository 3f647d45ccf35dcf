"""Invalid settings are refused on construction, with advice."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from factmem import AgentMemory, Background, InMemoryProvider, Memory, MemoryScope, NoMemory, Origin, Policies, errors
from factmem.abc import DetectionRequest
from factmem.agent import (
    Loading,
    Saving,
    load_all_facts_from_memory,
    load_from_memory,
    save_to_memory,
    save_to_memory_auto_detect_facts,
)
from factmem.agent.config import USER, AgentMemoryConfig, FailurePolicy, NoStoreWarning, UserPolicy
from factmem.errors import (
    CapabilityError,
    EmbedderMismatchError,
    FactMemError,
    InvalidDataError,
    InvalidNameError,
    MissingUserError,
)
from factmem.llm import Budget, CostReport
from factmem.memory import Trigger
from factmem.scopes import ScopeKind
from factmem.testing import HashEmbedder, ScriptedModel
from tests.agent.installed import memory_over, plugin, user
from tests.memory.shelves import Shelf
from tests.memory.telling import CITY, said, well
from tests.narrowing import not_none
from tests.tables import cases

WRONG: Any = "no such thing"
NUMBER: Any = int

LIVES, ASKED = user("I live in Oslo."), user("Where do I live?")


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        *(
            (settings, getattr(errors, error), match)
            for settings, error, match in cases(__file__)["a setting that cannot work is refused"]
        ),
        ({"store": InMemoryProvider}, InvalidDataError, "instance"),
        ({"concepts": [int]}, InvalidDataError, "concepts"),
        ({"concepts": CITY}, InvalidDataError, "concepts"),
        ({"saving": Saving(scope="/product/other")}, InvalidDataError, "/product/other"),
        ({"saving": Saving(scope=MemoryScope.agent("clerk").within("acme"))}, InvalidDataError, "/agent/clerk"),
        ({"saving": Saving(scope=ScopeKind.FEATURE)}, InvalidDataError, "feature"),
    ],
    ids=lambda item: next(iter(item)) if isinstance(item, dict) else "",
)
def test_a_setting_that_cannot_work_is_refused(settings: dict[str, Any], error: type[FactMemError], match: str) -> None:
    given: dict[str, Any] = {"store": "none:", "agent_name": "clerk"}
    with pytest.raises(error, match=match):
        AgentMemoryConfig(**given | settings)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Saving(scope=NUMBER),
        lambda: Saving(scope="/product/.."),
        lambda: Loading(concepts=[NUMBER]),
        lambda: DetectionRequest(concepts=[NUMBER]),
        lambda: DetectionRequest(subjects=[WRONG]),
        lambda: DetectionRequest(topics=[WRONG]),
    ],
)
def test_parts_of_settings_are_refused_alike(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidDataError):
        make()


def test_the_names_of_an_agent_give_its_scopes_narrowest_first() -> None:
    planner, alpha = MemoryScope.agent("planner"), MemoryScope.product("alpha")
    config = AgentMemoryConfig(store="none:", agent_name="planner", product_name="alpha", organization_name="acme")
    assert config.scopes == (planner, alpha, MemoryScope.CROSS_PRODUCT)
    assert config.scope_of(ScopeKind.PRODUCT) == alpha
    assert AgentMemoryConfig(store="none:", product_name="alpha", cross_product=False).scopes == (alpha,)
    for wrong in (lambda: config.scope_of(ScopeKind.FEATURE), lambda: AgentMemoryConfig(cross_product=False)):
        with pytest.raises(InvalidDataError):
            wrong()


@pytest.mark.parametrize("name", ["agent_name", "feature_name", "product_name", "organization_name"])
def test_a_name_of_an_agent_is_legal(name: str) -> None:
    for wrong in ("a\nb", " "):
        settings: dict[str, Any] = {name: wrong}
        with pytest.raises(InvalidNameError, match=name):
            AgentMemoryConfig(store="none:", **settings)


def test_a_scope_to_save_in_is_a_path_as_well() -> None:
    config = AgentMemoryConfig(
        store="none:", agent_name="clerk", organization_name="acme", saving=Saving(scope="/agent/clerk/notes")
    )
    assert config.home == MemoryScope.agent("clerk") / "notes"
    assert config.scope_of(config.home.within("acme")) == config.home


def test_a_function_that_makes_no_memory_is_refused() -> None:
    def store() -> Any:
        return InMemoryProvider()

    with pytest.raises(InvalidDataError, match="InMemoryProvider, not a Memory"):
        AgentMemoryConfig(store=store).make_memory()


def test_a_memory_without_a_store_warns_once_and_where_it_is_made() -> None:
    with pytest.warns(NoStoreWarning, match='store="none:"') as loaded:
        AgentMemory()
    assert [item.filename for item in loaded] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for store in ("none:", NoMemory(), "memory:"):
            assert AgentMemory(AgentMemoryConfig(store=store)).config.store == store


def test_four_verbs_refuse_settings_they_cannot_support() -> None:
    for saving in (Saving(private=True), Saving(trigger=Trigger(count=5))):
        with pytest.raises(CapabilityError, match="Shelf has the four verbs only"):
            AgentMemoryConfig(store=Shelf(), saving=saving)
    AgentMemoryConfig(store=Shelf())
    AgentMemoryConfig(store=InMemoryProvider(), saving=Saving(private=True))


@attrs.frozen
class Guest:
    """A profile."""

    name: str


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("organization_name", "acme"),
        ("profiles", [Guest]),
        ("model", ScriptedModel(well)),
        ("policies", Policies(keep_words=False)),
        ("embedder", HashEmbedder()),
        ("embedder_timeout", None),
        ("media_reader", "none"),
        ("background", Background(budget=Budget(requests=1))),
        ("observers", [CostReport()]),
    ],
)
def test_settings_beside_a_memory_of_the_programs_own_are_refused(setting: str, value: Any) -> None:
    """They would have no effect. The error names them in both places."""
    argument = "organization" if setting == "organization_name" else setting
    for store in (memory_over(), memory_over):
        with pytest.raises(InvalidDataError, match=rf"{setting} of AgentMemoryConfig .* give {argument} to Memory"):
            AgentMemoryConfig(store=store, **{setting: value})


async def test_a_run_without_a_user_is_refused_everywhere(memory: Memory) -> None:
    """The refusal is independent of the failure policies, because every run would fail in the same way."""
    quiet = {"loading": Loading(on_failure=FailurePolicy.LOG), "saving": Saving(on_failure=FailurePolicy.LOG)}
    agent = plugin(memory, users=UserPolicy.REQUIRED, **quiet)
    run = agent.for_run()
    for way in (
        lambda: agent.load_all_facts_to_agent([ASKED]),
        lambda: agent.load_facts_to_agent([ASKED], [CITY]),
        lambda: agent.save_facts_from_history([LIVES]),
        lambda: run.tools.recall_memory("Oslo"),
        lambda: run.tools.save_memory("Oslo"),
        lambda: run.tools.forget_memory(["1"]),
        lambda: load_all_facts_from_memory(agent)({"messages": [ASKED]}),
        lambda: save_to_memory(agent, [CITY])({"messages": [LIVES]}),
    ):
        with pytest.raises(MissingUserError, match='users="shared"'):
            await way()
    assert await memory.list_records() == []
    with agent.run(load=False, save=False):
        assert await agent.load_all_facts_to_agent([ASKED]) == [ASKED]
        assert await agent.save_facts_from_history([LIVES]) is None
    with agent.run("alice"):
        assert await agent.save_facts_from_history([LIVES]) is not None


async def test_the_embedder_of_another_store_is_refused_at_the_first_call() -> None:
    """The refusal is independent of the failure policies, like that of other settings."""
    provider = InMemoryProvider()
    async with Memory(provider, embedder=HashEmbedder(8)) as memory:
        await memory.remember("I live in Oslo.")
    quiet = {"loading": Loading(on_failure=FailurePolicy.LOG), "saving": Saving(on_failure=FailurePolicy.LOG)}
    async with Memory(provider, embedder=HashEmbedder(9)) as memory:
        agent = plugin(memory, **quiet)
        with agent.run("alice"):
            for call in (agent.load_all_facts_to_agent, agent.save_facts_from_history):
                with pytest.raises(EmbedderMismatchError, match="reembed"):
                    await call([LIVES])


async def test_users_may_share_one_memory(memory: Memory) -> None:
    agent = plugin(memory, users="shared")
    await agent.save_facts_from_history([LIVES])
    assert "Oslo" in (await agent.load_all_facts_to_agent([ASKED]))[0]["content"]
    with agent.run("alice"):
        assert await agent.load_all_facts_to_agent([ASKED]) == [ASKED], "a named user does not see the shared facts"
    private = plugin(memory, users="shared", saving=Saving(private=True))
    with pytest.raises(MissingUserError, match="privately"):
        await private.save_facts_from_history([LIVES])
    assert "Oslo" in (await private.load_all_facts_to_agent([ASKED]))[0]["content"]


async def test_one_user_may_be_named_for_all_runs(memory: Memory) -> None:
    agent = plugin(memory, users="required", user=USER.individual("ada"))
    await agent.save_facts_from_history([LIVES])
    assert [str(record.subject) for record in await memory.list_records()] == ["user:ada"]


async def test_a_save_goes_nowhere_but_to_the_agents_scopes(memory: Memory, agent: AgentMemory) -> None:
    """The refusal is raised on request and not logged as a failing save."""
    for scope in ("/product/other", ScopeKind.FEATURE, "/customer/acme"):
        with pytest.raises(InvalidDataError, match="takes no part"):
            await agent.save_facts_from_history([LIVES], scope=scope)
    await agent.save_facts_from_history([LIVES], scope=ScopeKind.PRODUCT)
    assert [str(record.scope) for record in await memory.list_records()] == ["/product/fair"]


@pytest.mark.parametrize(
    "make",
    [
        lambda agent: save_to_memory(agent, [NUMBER]),
        lambda agent: save_to_memory(agent, [CITY], subjects=[WRONG]),
        lambda agent: save_to_memory(agent, [CITY], scope="/product/other"),
        lambda agent: save_to_memory(agent, [CITY], scope=ScopeKind.FEATURE),
        lambda agent: save_to_memory(agent, [CITY], scope=[]),
        lambda agent: save_to_memory(agent, [CITY], scope=["/agent/clerk", NUMBER]),
        lambda agent: save_to_memory_auto_detect_facts(agent, scope=[ScopeKind.AGENT, "/product/other"]),
        lambda agent: load_from_memory(agent, [NUMBER]),
        lambda agent: load_from_memory(agent, WRONG),
        lambda agent: load_from_memory(agent, [CITY], subjects=[USER, WRONG]),
        lambda agent: load_from_memory(agent, [CITY], scopes="/agent/clerk"),
        lambda agent: load_all_facts_from_memory(agent, scopes=["/product/other"]),
        lambda agent: load_all_facts_from_memory(agent, subjects=[WRONG]),
    ],
)
def test_a_node_that_cannot_work_is_refused_when_it_is_made(make: Callable[[AgentMemory], object]) -> None:
    with pytest.raises(InvalidDataError):
        make(plugin("none:"))


async def test_an_agent_over_four_verbs_saves_and_loads() -> None:
    """Facts last across processes, separately for each user; assertions that the provider cannot hold are counted."""
    shelf = Shelf()

    def agent() -> AgentMemory:
        return AgentMemory(AgentMemoryConfig(store=shelf, agent_name="clerk", organization_name="acme"))

    async with agent() as first:
        for name, city in (("alice", "Oslo"), ("bob", "Bern")):
            with first.run(name, "monday") as run:
                handle = not_none(
                    await first.save_facts_from_history(
                        [user(f"I live in {city}."), {"role": "assistant", "content": "Noted."}]
                    )
                )
                (outcome,) = await handle.wait()
                assert said(outcome.records) == [f"I live in {city}."]
                assert {lack.name for lack in outcome.unrepresented} == {"EVIDENCE", "ORIGIN"}
                answer = await run.tools.save_memory("The user likes tea.")
                assert answer == "Nothing was saved: the store cannot keep who said it."
    async with agent() as second:
        for name, mine, other in (("alice", "Oslo", "Bern"), ("bob", "Bern", "Oslo")):
            with second.run(name, "tuesday"):
                shown = (await second.load_all_facts_to_agent([ASKED]))[0]["content"]
            assert (mine in shown, other in shown) == (True, False)


async def test_the_tools_over_four_verbs_keep_what_is_trusted_and_promise_no_way_to_forget() -> None:
    config = AgentMemoryConfig(store=Shelf(), agent_name="clerk", saving=Saving(tool_origin=Origin.USER))
    async with AgentMemory(config) as agent:
        with agent.run("alice", "monday") as run:
            assert await run.tools.save_memory("The user likes tea.") == "Saved."
            found = await run.tools.recall_memory("tea")
            assert "The user likes tea." in found
            ids = re.findall(r' id="(\w+)"', found)
            refused = await run.tools.forget_memory(ids)
            assert refused.startswith("Nothing was taken back: the store keeps all that was saved.")
            assert "forget that" not in refused


def test_an_address_in_place_of_the_settings_is_refused_with_where_it_belongs() -> None:
    given: Any = "facts.db"
    with pytest.raises(InvalidDataError, match=r'AgentMemoryConfig\(store="facts\.db"\)'):
        AgentMemory(given)
