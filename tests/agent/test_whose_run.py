"""The user of a run: where hosts keep the id, and where a program says that they keep it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from factmem import Memory, MemorySubject, SingleFact
from factmem.agent import load_all_facts_from_memory
from factmem.agent.config import USER, AgentMemoryConfig, RunIdentity, UserPolicy
from factmem.agent.nodes import GraphRun
from factmem.errors import InvalidDataError, InvalidNameError, MissingUserError
from tests.agent.installed import memory_over, plugin, user
from tests.memory.telling import CITY
from tests.tables import cases, each_case

DEPS = SimpleNamespace(deps=SimpleNamespace(user=SimpleNamespace(id=7)))
ASKED = user("Where do I live?")


def of_team(run: Any) -> str:
    return f"team-{run.deps.user.id}"


@pytest.mark.parametrize(
    ("where", "host", "found"),
    [
        ("deps.user.id", DEPS, "7"),
        ("deps.user.id", {"deps": {"user": {"id": "alice"}}}, "alice"),
        ("deps.user.uid", DEPS, None),
        ("deps.user.id", {}, None),
        ("state.owner", GraphRun(state={"owner": "alice"}), "alice"),
        ("configurable.uid", GraphRun(config={"configurable": {"uid": "alice"}}), "alice"),
        ("context.uid", GraphRun(context={"uid": "alice"}), "alice"),
        (of_team, DEPS, "team-7"),
        (lambda run: None, DEPS, None),
    ],
)
def test_a_program_says_where_its_host_keeps_the_user(
    where: str | Callable[[Any], object], host: Any, found: str | None
) -> None:
    """It is the only place then: what a client of the program names elsewhere does not count."""
    for config in (
        AgentMemoryConfig(store="memory:", user=where),
        AgentMemoryConfig(store="memory:", user_id=where),
        attrs.evolve(AgentMemoryConfig(store="memory:", user=where), product_name="fair"),
    ):
        assert config.user == USER
        run = plugin("memory:", user_id=config.user_id).for_run(RunIdentity(user_id="client's", host=host))
        assert (run.identity.user_id, run.identity.host) == (found, None)


def test_the_programs_own_words_go_before_those_of_the_host() -> None:
    agent = plugin("memory:", user="deps.user.id")
    with agent.run("bob"):
        assert agent.for_run(RunIdentity(host=DEPS)).identity.user_id == "bob"
    assert agent.for_run(RunIdentity(user_id="carol")).identity.user_id == "carol", "of a loop of the program's own"


def test_a_run_within_another_one_is_that_ones_unless_it_is_for_another_user() -> None:
    agent = plugin("memory:")

    def ids(**given: Any) -> tuple[str | None, str | None, bool]:
        with agent.run(**given) as run:
            return run.identity.user_id, run.identity.session_id, run.identity.save

    with agent.run("alice", "monday"):
        assert ids(session_id="tuesday") == ("alice", "tuesday", True)
        assert ids(user_id="alice", save=False) == ("alice", "monday", False)
        assert ids(user_id="bob") == ("bob", None, True)
    with agent.run(session_id="monday", save=False):
        assert ids(user_id="alice") == ("alice", "monday", False)
    assert ids() == (None, None, True)


def test_another_subject_can_be_the_user_too() -> None:
    guest = MemorySubject("guest", "who stays", priority_level=1)
    agent = plugin("memory:", user=guest, user_id="deps.user.id")
    assert agent.for_run(RunIdentity(host=DEPS)).user == guest.individual("7")


@each_case("wrong", "match")
def test_what_is_no_place_of_a_user_is_refused(wrong: Any, match: str) -> None:
    with pytest.raises(InvalidDataError, match=match):
        AgentMemoryConfig(store="memory:", user=wrong)


async def test_the_error_says_how_to_name_the_user() -> None:
    async with memory_over() as memory:
        for settings, match in (
            ({}, r'user="deps\.user\.id"'),
            ({"user": "deps.user.uid"}, r"host's run has no deps\.user\.uid"),
            ({"user": lambda run: None}, "function user_id of AgentMemoryConfig found none"),
        ):
            agent = plugin(memory, users=UserPolicy.REQUIRED, **settings)
            with pytest.raises(MissingUserError, match=match) as raised:
                await agent.load_all_facts_to_agent([ASKED], identity=RunIdentity(host=DEPS))
            assert "AgentMemory.run()" in str(raised.value)
    with pytest.raises(InvalidNameError):
        plugin("memory:", user=lambda run: " ").for_run(RunIdentity(host=DEPS))


@pytest.mark.parametrize(
    ("run", "found"),
    [
        *(
            (GraphRun(**run), tuple(found))
            for run, found in cases(__file__)["runs of langgraph name their user in the usual places"]
        ),
        (
            GraphRun(context=SimpleNamespace(user_id="alice"), config={"configurable": {"user_id": "bob"}}),
            ("alice", None),
        ),
    ],
)
def test_runs_of_langgraph_name_their_user_in_the_usual_places(
    run: GraphRun, found: tuple[str | None, str | None]
) -> None:
    """Of a user who signed in and one whom the client names, the first counts."""
    assert (run.identity.user_id, run.identity.session_id) == found


async def test_a_node_finds_the_user_in_the_config_and_in_the_state(memory: Memory) -> None:
    await memory.save(SingleFact(CITY, "Oslo"), subject=USER.individual("alice"), scope="/agent/clerk")
    for settings, state, config in (
        ({}, {}, {"metadata": {"user_id": "alice"}}),
        ({"user": "state.owner"}, {"owner": "alice"}, {}),
    ):
        load = load_all_facts_from_memory(plugin(memory, users=UserPolicy.REQUIRED, **settings))
        update = await load({"messages": [ASKED], **state}, config)
        assert "Oslo" in update["messages"][0]["content"]
