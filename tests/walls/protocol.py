"""The paths of an MCP server: its tools, resources and prompts, by the server's own lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from factmem.mcp.access import facts_address
from tests.walls.ways import Asked, Door, Neither, Reads, Shows, Way, Writes
from tests.walls.worlds import NOW, Plant, below
from tests.walls.writing import MARK


def _tool(name: str, *arguments: Mapping[str, Any]) -> Any:
    async def call(asked: Asked) -> object:
        found = []
        for given in arguments:
            result = await asked.client.call_tool(name, dict(given))
            found.append(result.structured_content or result.content)
        return found

    return call


def _of_each(name: str, key: str, **given: Any) -> Any:
    """Call a tool with the id of each record that the caller knows of, for any owner."""

    async def call(asked: Asked) -> object:
        named = [{key: [id] if key == "ids" else id} for id in asked.ids]
        return await _tool(name, *({**given, **item} for item in named))(asked)

    return call


def _keywords(name: str) -> Any:
    async def call(asked: Asked) -> object:
        keywords = ["home", "pets", "statement", "key", *(_plain(plant) for plant in asked.some)]
        return await _tool(name, *({"keyword": keyword} for keyword in keywords))(asked)

    return call


def _plain(plant: Plant) -> str:
    """Return a keyword that contains no token, because an answer repeats it."""
    return plant.concept.keyword.replace(plant.token, plant.token[:3])


async def _recalled(asked: Asked) -> object:
    queries = ["green door", asked.query]
    scoped = {"query": "green door", "scope": str(asked.scope), "limit": 100}
    return await _tool("recall", *({"query": query, "limit": 100} for query in queries), scoped)(asked)


async def _listed(asked: Asked) -> object:
    found, page = [], None
    while True:
        given = {"limit": 5} | ({"page": page} if page else {})
        (answer,) = await _tool("list", given)(asked)
        found.append(answer)
        page = answer.get("next_page") if isinstance(answer, dict) else None
        if page is None:
            return found


def _here(plant: Plant, asked: Asked) -> bool:
    return below(plant.scope, asked.scope)


TOOLS: Final[Mapping[str, Door]] = {
    "recall": Reads([Way(_recalled), Way(_tool("recall", {"query": "red cat", "as_of": NOW.isoformat()}))]),
    "load": Reads([Way(_keywords("load"))]),
    "list": Reads([Way(_listed, whole=True)]),
    "history": Reads([Way(_keywords("history"), Shows.EVER)]),
    "info": Reads(
        [
            Way(_tool("info", {}), whole=True),
            Way(lambda asked: _tool("info", {"scope": str(asked.scope)})(asked), only=_here, whole=True),
        ]
    ),
    "remember": Writes(
        [
            Way(
                _tool("remember", {"text": f"the {MARK} cat sat", "scope": "/product/a"}, {"text": f"{MARK} red door"}),
                Shows.KEPT,
            )
        ]
    ),
    "save_fact": Writes(
        [
            Way(
                _tool(
                    "save_fact",
                    {"keyword": "home", "value": MARK, "scope": "/product/a"},
                    {"keyword": "home", "value": 7, "type": "int", "scope": "/product/ab"},
                    {"keyword": "pets", "value": MARK, "subject": "user", "scope": "/product/a"},
                ),
                Shows.KEPT,
            )
        ]
    ),
    "update": Writes([Way(_of_each("update", "id", importance=0.2), Shows.KEPT)]),
    "retract": Writes([Way(_of_each("retract", "ids"), Shows.KEPT)]),
    "forget": Writes([Way(_of_each("forget", "ids"), Shows.NOTHING)]),
}


async def _read(asked: Asked, addresses: Sequence[str]) -> object:
    found: list[object] = []
    for address in addresses:
        try:
            found.append([item.text for item in (await asked.client.read_resource(address)).contents])
        except MCPError as error:
            found.append(error.error.message.replace(address, "there"))
    return found


async def _completed(asked: Asked) -> object:
    references = (ResourceTemplateReference(uri="factmem://facts/{+scope}"), PromptReference(name="recall_context"))
    return [
        await asked.client.complete(reference, {"name": "scope", "value": begun})
        for reference in references
        for begun in ("", "product", "product/a", "agent")
    ]


RESOURCES: Final[Mapping[str, Door]] = {
    "factmem://facts": Reads([Way(lambda asked: _read(asked, ["factmem://facts"]))]),
    "factmem://tree": Reads([Way(lambda asked: _read(asked, ["factmem://tree"]))]),
    "factmem://info": Reads([Way(lambda asked: _read(asked, ["factmem://info"]), whole=True)]),
    "of scopes": Reads([Way(lambda asked: asked.client.list_resources())]),
}
"""The last one represents the resources of the scopes in use, which the server lists."""

TEMPLATES: Final[Mapping[str, Door]] = {
    "factmem://facts/{+scope}": Reads(
        [Way(lambda asked: _read(asked, [facts_address(asked.scope)]), only=_here), Way(_completed)]
    ),
    "factmem://record/{id}": Reads(
        [
            Way(
                lambda asked: _read(asked, [f"factmem://record/{id}" for id in asked.ids]),
                only=lambda plant, asked: asked.filled.records[plant.token] in asked.ids,
                whole=True,
            )
        ]
    ),
}

PROMPTS: Final[Mapping[str, Door]] = {
    "recall_context": Reads(
        [Way(lambda asked: asked.client.get_prompt("recall_context", {"question": "who sat by the green door?"}))]
    ),
    "remember_conversation": Neither("asks a model to remember, and reads nothing stored"),
}
