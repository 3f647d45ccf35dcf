"""Helpers for the tests of the OpenAI Agents SDK: a memory with a user's facts, a scripted model, and runs."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from agents import Agent, RunConfig, Runner, RunResult
from agents.testing import ScriptedModel, assistant_message

from factmem import AgentMemory, Memory, MemoryScope, SingleFact
from factmem.agent.config import USER
from tests.agent.installed import plugin
from tests.memory.telling import CITY

ALICE = SimpleNamespace(user_id="alice", session_id="monday")
ASKED, ANSWER = "Where do I live?", "Very well."
QUIET = RunConfig(tracing_disabled=True)


async def knowing(memory: Memory, city: str = "Oslo", name: str = "alice") -> AgentMemory:
    await memory.save(SingleFact(CITY, city), subject=USER.individual(name), scope=MemoryScope.agent("clerk"))
    return plugin(memory)


def answering(*answers: str) -> ScriptedModel:
    return ScriptedModel([[assistant_message(answer)] for answer in answers or (ANSWER,)])


def shown(model: ScriptedModel) -> list[str]:
    """Return the input that each request showed to the model."""
    return [json.dumps(call.input) for call in model.calls]


async def run(agent: Agent[Any], said: Any = ASKED, context: Any = ALICE, **options: Any) -> RunResult:
    return await Runner.run(agent, said, context=context, **{"run_config": QUIET, **options})
