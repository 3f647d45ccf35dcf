"""A memory served over the Model Context Protocol, and a client of it, both in this process.

A desktop client uses the command: `factmem mcp --store facts.db`.
"""

from __future__ import annotations

from typing import Any

import anyio
from mcp import Client
from mcp.types import ContentBlock, TextContent

from factmem import Memory, MemorySubject
from factmem.mcp import make_server

MAYA = MemorySubject("user", "who talks with the assistant").individual("maya")


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    return f"refused: {text_of(result.content[0])}" if result.is_error else result.structured_content


def text_of(content: ContentBlock) -> str:
    assert isinstance(content, TextContent)
    return content.text


async def main() -> None:
    async with Memory("facts.db") as memory:
        # This client is trusted, and sees only maya's facts in one product.
        trusted = make_server(memory, scopes=["/product/alpha"], subjects=[MAYA], trust=True)
        async with Client(trusted) as client:
            await call(client, "save_fact", keyword="home_city", value="Oslo", description="Where somebody lives")
            await call(client, "remember", text="Maya wants the launch to be in May.")
            found = await call(client, "recall", query="Where does Maya live?", limit=1)
            print("recalled: ", found["matches"][0]["fact"]["value"])
            print(await call(client, "list", scope="/product/beta"))

        # By default, facts of clients are quarantined until a person accepts them.
        async with Client(make_server(memory, scopes=["/product/alpha"])) as client:
            saved = await call(client, "save_fact", keyword="home_city", value="Atlantis", subject="user:maya")
            print("answer:   ", saved["note"].partition(":")[0], "->", saved["kept_apart"])
            known = await call(client, "load", keyword="home_city")
            print("known:    ", [fact["value"] for fact in known["facts"]])
            prompt = await client.get_prompt("recall_context", {"question": "When is the launch?"})
            print(text_of(prompt.messages[0].content))

        for record in await memory.inbox.quarantine.list():
            print("waiting:  ", record.value, "from", record.details.source)


anyio.run(main)
