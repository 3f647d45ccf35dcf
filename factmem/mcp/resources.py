"""The resources and the prompts."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, cast

from mcp.server.mcpserver import MCPServer, ResourceSecurity
from mcp_types import Annotations, Completion, Resource
from pydantic import Field

from factmem.agent.config import estimated_tokens
from factmem.agent.rendering import rendered
from factmem.json_form import attributes
from factmem.mcp.access import FACTS, INFO, TREE, Access, facts_address
from factmem.mcp.tools import Tools, fact_answer
from factmem.memory.facade import Memory
from factmem.recall.marks import still_true
from factmem.records import FactRecord
from factmem.toml_tables import table
from factmem.values import Json

_JSON: Final = "application/json"

_MARKDOWN: Final = "text/markdown"

_BUDGET: Final = 4_000
"""Maximum size of a resource or a prompt, in tokens."""

_MOST: Final = 200

_NOT_FILES: Final = ResourceSecurity(exempt_params={"scope", "id"})
"""Scopes and ids are not file paths; `MemoryScope.parse` refuses ``..``."""


def add_resources(server: MCPServer[Any], access: Access, tools: Tools) -> None:
    """Add the resources to a server.

    Args:
        server: The server.
        access: The readable part of the memory.
        tools: The tools, whose answers some resources return.
    """

    @server.resource(FACTS, name="facts", mime_type=_MARKDOWN)
    async def facts() -> str:
        """The known facts, newest first, as an escaped block for a prompt."""
        return await _block(access, None)

    @server.resource(f"{FACTS}/{{+scope}}", name="facts of a scope", mime_type=_MARKDOWN, security=_NOT_FILES)
    async def facts_of_scope(scope: str) -> str:
        """The known facts in a scope and below, as an escaped block for a prompt."""
        return await _block(access, scope)

    @server.resource(TREE, name="tree", mime_type=_JSON)
    async def tree() -> str:
        """The tree of scopes, with the number of facts in each and below."""
        return _dumped(attributes(await access.use(lambda view: view.admin.tree())))

    @server.resource("factmem://record/{id}", name="record", mime_type=_JSON, security=_NOT_FILES)
    async def record(id: str) -> str:
        """One record, by its id."""
        found = await access.use(lambda view: view.get(id))
        return _dumped(fact_answer(found))

    @server.resource(INFO, name="info", mime_type=_JSON)
    async def info() -> str:
        """Summary of the memory, and permissions of this server."""
        return _dumped(await tools.info())

    async def complete(ref: Any, argument: Any, context: Any) -> Completion | None:
        if argument.name != "scope":
            return None
        paths = [str(scope).removeprefix("/") for scope in (await _info(access)).scopes]
        fitting = [path for path in paths if path.startswith(argument.value.removeprefix("/"))]
        return Completion(values=fitting[:100], total=len(fitting), has_more=len(fitting) > 100)

    cast("Any", server).completion()(complete)  # the SDK leaves this one untyped


async def scope_resources(access: Access) -> list[Resource]:
    """Return a resource for each scope that holds facts, so that clients can offer them."""
    return [
        Resource(
            uri=facts_address(scope),
            name=f"facts of {scope}",
            mime_type=_MARKDOWN,
            annotations=Annotations(audience=["assistant"]),
        )
        for scope in list((await _info(access)).scopes)[:_MOST]
    ]


def add_prompts(server: MCPServer[Any], access: Access, *, writable: bool) -> None:
    """Add the prompts to a server.

    Args:
        server: The server.
        access: The readable part of the memory.
        writable: Whether clients may write.
    """

    @server.prompt(title="Ask with what is known")
    async def recall_context(question: Annotated[str, Field(max_length=4_000, description="The question.")]) -> str:
        """Prepend the known facts about a question to it, as escaped data."""
        matches = await access.use(lambda view: view.recall(question, limit=50, strongest=True))
        block = rendered(still_true(matches), _BUDGET, estimated_tokens)
        return f"{block.text}\n\n{question}" if block else question

    if writable:

        @server.prompt(title="Remember this conversation")
        def remember_conversation(
            about: Annotated[str, Field(max_length=400, description="The most important topic (default: any).")] = "",
        ) -> str:
            """Ask the model to save the facts of the conversation that are worth remembering."""
            topic = f"\nWhat matters most: {about}" if about.strip() else ""
            return f"{table('mcp/prompts')['remember']}{topic}"


async def _info(access: Access) -> Any:
    return await access.use(lambda view: view.admin.info())


async def _block(access: Access, scope: str | None) -> str:
    async def work(view: Memory) -> tuple[list[FactRecord[Any]], int]:
        every = (await view.admin.info(scope)).records
        return await view.list_records(scope=scope, limit=_MOST), every

    records, every = await access.use(work)
    block = rendered(records, _BUDGET, estimated_tokens, ids=True)
    if not block:
        return "Nothing is known there." if not every else "Nothing there is short enough to be shown: use recall."
    more = every - len(block.records)
    return f"{block.text}\n\n{more} more are known: use recall or list." if more else block.text


def _dumped(data: Json) -> str:
    return json.dumps(data, ensure_ascii=False, indent=2)
