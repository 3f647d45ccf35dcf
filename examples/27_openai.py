"""Memory in OpenAI's client: whole answers and streams, without a framework.

A stand-in on 127.0.0.1 answers here, in place of OpenAI or a compatible server.
"""

import asyncio

from openai import AsyncOpenAI

from factmem import AgentMemory, AgentMemoryConfig
from factmem.agent import install
from factmem.testing.chat_answers import answering
from factmem.testing.openai_server import LoopbackOpenAIServer


async def main(server: LoopbackOpenAIServer) -> None:
    async with (
        AgentMemory(AgentMemoryConfig(store="facts.db", agent_name="clerk")) as memory,
        AsyncOpenAI(base_url=server.base_url, api_key="none") as given,
    ):
        client = install(memory, into=given)
        with memory.run(user_id="alice", session_id="monday"):
            await client.responses.create(model="stand-in", input="I live in Lisbon.")

        with memory.run(user_id="alice", session_id="tuesday"):
            stream = await client.chat.completions.create(
                model="stand-in", messages=[{"role": "user", "content": "Where do I live?"}], stream=True
            )
            async for chunk in stream:
                print(chunk.choices[0].delta.content or "", end="")
        print()
        print("the model was sent:", server.requests[-1][1]["messages"][0]["content"])

        await client.responses.create(model="stand-in", input="Where do I live?", user="bob")
        print("and for bob:", server.requests[-1][1]["input"])
        with memory.run(user_id="alice") as run:
            print("learnt from alice:", sorted(str(record.value) for record in (await run.load()).records))


with LoopbackOpenAIServer(answering("Good to know.", "In Lisbon, as you said.", "I do not know.")) as stand_in:
    asyncio.run(main(stand_in))
