"""The nodes of `factmem.agent` in graphs of pydantic-graph."""

from __future__ import annotations

from typing import Any

import attrs
from pydantic_graph import GraphBuilder

from factmem import AgentMemory, InMemoryProvider, Memory, SingleFact
from factmem.agent import load_all_facts_from_memory, save_to_memory_auto_detect_facts
from factmem.agent.config import USER, AgentMemoryConfig
from factmem.testing import HashEmbedder, ScriptedModel
from tests.memory.telling import CITY, SEATS, well


@attrs.define
class Talk:
    messages: list[Any]


@attrs.frozen
class Deps:
    user_id: str
    session_id: str = "monday"


async def answered(memory: AgentMemory, said: str, deps: Deps) -> tuple[str, Talk]:
    """Run a graph that loads, answers with all messages it was shown, and saves."""

    async def answer(ctx: Any) -> str:
        return " | ".join(message["content"] for message in ctx.state.messages)

    builder = GraphBuilder(state_type=Talk, deps_type=Deps, input_type=str, output_type=str)
    load = builder.step(load_all_facts_from_memory(memory), node_id="load")
    ask = builder.step(answer, node_id="ask")
    save = builder.step(save_to_memory_auto_detect_facts(memory), node_id="save")
    builder.add(
        builder.edge_from(builder.start_node).to(load),
        builder.edge_from(load).to(ask),
        builder.edge_from(ask).to(save),
        builder.edge_from(save).to(builder.end_node),
    )
    state = Talk([{"role": "user", "content": said}])
    return await builder.build().run(state=state, deps=deps, inputs=said), state


async def test_nodes_load_save_and_pass_on_what_they_were_given() -> None:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder(), model=ScriptedModel(well)) as opened:
        await opened.save(SingleFact(CITY, "Oslo"), subject=USER.individual("alice"), scope="/agent/clerk")
        memory = AgentMemory(
            AgentMemoryConfig(store=opened, agent_name="clerk", users="shared", concepts=(CITY, SEATS))
        )
        result, state = await answered(memory, "We booked 12 seats.", Deps("alice"))
        assert ("Oslo" in result, result.endswith("We booked 12 seats.")) == (True, True)
        assert len(state.messages) == 2
        await opened.inbox.flush()
        again, _ = await answered(memory, "How many?", Deps("alice", "tuesday"))
        assert "12" in again
        other, _ = await answered(memory, "How many?", Deps("bob"))
        assert other == "How many?"
