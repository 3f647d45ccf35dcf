"""Google's Agent Development Kit: an app that remembers, and a memory service for its own tools."""

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.apps.app import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from factmem import AgentMemory, AgentMemoryConfig
from factmem.agent import install
from factmem.integrations.adk import FactMemMemoryService


class Parrot(BaseLlm):
    """A model for this example that repeats its messages. Use ``model="gemini-…"`` instead."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        shown = [part.text for content in llm_request.contents for part in content.parts or () if part.text]
        answer = types.Content(role="model", parts=[types.Part(text=f"I see: {' | '.join(shown)}")])
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=len(shown), candidates_token_count=1)
        yield LlmResponse(content=answer, usage_metadata=usage)


async def main() -> None:
    memory = AgentMemory(AgentMemoryConfig(store="facts.db"))
    app = install(memory, into=App(name="fair", root_agent=LlmAgent(name="clerk", model=Parrot(model="parrot"))))
    sessions = InMemorySessionService()
    async with Runner(app=app, session_service=sessions, auto_create_session=True) as runner:
        for user, session, said in (
            ("alice", "monday", "My gate code is blue."),
            ("alice", "tuesday", "What is my gate code?"),
            ("bob", "wednesday", "What is my gate code?"),
        ):
            message = types.Content(role="user", parts=[types.Part(text=said)])
            async for event in runner.run_async(user_id=user, session_id=session, new_message=message):
                print(
                    f"{user}, {session}: {event.content.parts[0].text if event.content and event.content.parts else ''}"
                )

    service = FactMemMemoryService(memory, top_k=3)  # Runner(memory_service=…), for load_memory and preload_memory
    found = await service.search_memory(app_name="fair", user_id="alice", query="gate code")
    for entry in found.memories:
        print(entry.id, entry.author, entry.timestamp)
    await service.delete_memory(app_name="fair", user_id="alice", memory_id=found.memories[0].id)
    print(f"{len(found.memories)} were found, one was deleted")
    await memory.aclose()


asyncio.run(main())
