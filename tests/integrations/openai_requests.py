"""Helpers for the tests of OpenAI's own client: a memory with facts, clients, and requests of both APIs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import pytest
from openai import AsyncOpenAI

from factmem import AgentMemory, Memory, MemoryScope, SingleFact
from factmem.agent.config import USER
from factmem.testing.chat_answers import chat_answer, response_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer, Responder
from tests.agent.installed import plugin
from tests.memory.telling import CITY

Api: TypeAlias = Literal["chat", "responses"]
ASKED, ANSWER = "Where does my cat live?", "Very well: your cat lives in Lisbon."
HISTORY: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": ASKED},
]
# On trio the client's own streams leave open generators, of which trio warns.
LEAVES_GENERATORS = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <async_gen.* (SSEDecoder|AsyncStream):pytest.PytestUnraisableExceptionWarning"
)
Serving: TypeAlias = Callable[[Responder], LoopbackOpenAIServer]


def client_of(server: LoopbackOpenAIServer) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0)


async def knowing(memory: Memory, **settings: Any) -> AgentMemory:
    await memory.save(SingleFact(CITY, "Oslo"), subject=USER.individual("alice"), scope=MemoryScope.agent("clerk"))
    return plugin(memory, **settings)


async def asked(client: AsyncOpenAI, api: Api, messages: Any = HISTORY, **options: Any) -> Any:
    if api == "chat":
        return await client.chat.completions.create(model="loopback", messages=messages, **options)
    return await client.responses.create(model="loopback", input=messages, **options)


def sent(server: LoopbackOpenAIServer, number: int = -1) -> list[Any]:
    """Return the messages of a request."""
    body = server.requests[number][1]
    found: list[Any] = body.get("messages") or body["input"]
    return found


def finished(api: Api, said: str = ANSWER) -> Answer:
    return chat_answer(said) if api == "chat" else response_answer(said)
