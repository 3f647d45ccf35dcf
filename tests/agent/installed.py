"""Helpers for the tests of agents: a memory used in the test's own event loop, and histories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from factmem import AgentMemory, AgentMemoryConfig, InMemoryProvider, LanguageModel, Memory, Message
from tests.memory.telling import CITY, PETS, SEATS, opened

CONCEPTS = (CITY, SEATS, PETS)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def tool(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "1", "content": text}


SYSTEM: dict[str, Any] = {"role": "system", "content": "You are a clerk."}


def memory_over(model: LanguageModel | None = None, **options: Any) -> Memory:
    """An unopened in-memory store, for `AgentMemoryConfig.store` in the test's own event loop."""
    return opened(InMemoryProvider(), model, **{"viewer": None, **options})


def plugin(store: Any, **settings: Any) -> AgentMemory:
    """An `AgentMemory` over a store."""
    given = {"agent_name": "clerk", "product_name": "fair", "concepts": CONCEPTS, "users": "shared"} | settings
    return AgentMemory(AgentMemoryConfig(store=store, **given))


def texts(history: Sequence[Any]) -> list[str]:
    """Return the contents of the messages of a history."""
    return [message.content if isinstance(message, Message) else message["content"] for message in history]
