"""Resources and prompts, and notifications of changes."""

from __future__ import annotations

import json

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.shared.subscriptions import ResourceUpdated

from factmem import Memory, MemoryScope, SingleFact
from tests.mcp.clients import CITY, SEATS, answer, connected, opened, prompted, text_of, unreadable
from tests.tables import cases

CASES = cases(__file__)

STRANGE = MemoryScope.product("a/b %2F 你好") / ".." / "C:"


async def test_facts_are_shown_as_a_block_of_their_scope(memory: Memory, client: Client) -> None:
    (oslo,) = await memory.save(SingleFact(CITY, "Oslo"), scope="/product/alpha/plan")
    await memory.save(SingleFact(CITY, "Rome"), scope="/product/beta")
    block = await text_of(client, "factmem://facts/product/alpha")
    assert f'<fact id="{oslo.id}" about="everything" name="city"' in block
    assert "Rome" not in block
    assert "Rome" in await text_of(client, "factmem://facts")
    assert await text_of(client, "factmem://facts/product/gamma") == "Nothing is known there."


async def test_facts_that_do_not_fit_into_a_block_are_counted(memory: Memory, client: Client) -> None:
    for number in range(3):
        await memory.save(SingleFact(CITY, f"{number}" + "x" * 9_000), scope=f"/product/p{number}")
    assert (await text_of(client, "factmem://facts")).endswith("\n\n2 more are known: use recall or list.")
    await memory.save(SingleFact(CITY, "x" * 20_000), scope="/product/long")
    assert await text_of(client, "factmem://facts/product/long") == (
        "Nothing there is short enough to be shown: use recall."
    )


async def test_every_scope_with_facts_is_offered_under_an_address_that_leads_to_it(
    memory: Memory, client: Client
) -> None:
    await memory.save(SingleFact(CITY, "Oslo"), scope=STRANGE)
    offered = [resource.uri for resource in (await client.list_resources()).resources]
    assert offered[:3] == ["factmem://facts", "factmem://tree", "factmem://info"]
    assert ">Oslo<" in await text_of(client, offered[3])


async def test_a_whole_branch_has_an_address(memory: Memory, client: Client) -> None:
    await memory.save(SingleFact(CITY, "Oslo"), scope="/product/alpha")
    assert ">Oslo<" in await text_of(client, "factmem://facts/product")
    assert ">Oslo<" not in await text_of(client, "factmem://facts/agent")


async def test_tree_info_and_records_are_json(memory: Memory, client: Client) -> None:
    (record,) = await memory.save(SingleFact(SEATS, 5), scope="/product/alpha")
    (product,) = json.loads(await text_of(client, "factmem://tree"))["children"]
    assert [(node["scope"], node["records"]) for node in product["children"]] == [("/product/alpha", 1)]
    assert json.loads(await text_of(client, "factmem://info"))["keywords"] == ["seats"]
    shown = json.loads(await text_of(client, f"factmem://record/{record.id}"))
    assert (shown["id"], shown["value"], shown["scope"]) == (record.id, 5, "/product/alpha")


@pytest.mark.parametrize(
    "address", [*CASES["an address of nothing is an error with the next step"], f"factmem://facts/{'x' * 5_000}"]
)
async def test_an_address_of_nothing_is_an_error_with_the_next_step(address: str, client: Client) -> None:
    assert await unreadable(client, address)


async def test_scopes_are_completed(memory: Memory, client: Client) -> None:
    for scope in ("/product/alpha", "/product/beta", "/agent/x"):
        await memory.save(SingleFact(CITY, "Oslo"), scope=scope)
    template = types.ResourceTemplateReference(uri="factmem://facts/{+scope}")
    done = await client.complete(template, {"name": "scope", "value": "product/"})
    assert done.completion.values == ["product/alpha", "product/beta"]


async def test_a_question_is_asked_with_what_is_known(memory: Memory, client: Client) -> None:
    assert await prompted(client, "recall_context", question="Which city?") == "Which city?"
    await memory.save(SingleFact(CITY, "Oslo"))
    text = await prompted(client, "recall_context", question="Which city?")
    assert text.startswith("<memory>\n")
    assert text.endswith("</memory>\n\nWhich city?")
    assert 'name="city"' in text


async def test_a_model_is_asked_to_remember_the_conversation(client: Client) -> None:
    text = await prompted(client, "remember_conversation", about="the budget")
    assert text.endswith("What matters most: the budget")
    assert "`save_fact`" in text


@pytest.mark.parametrize(
    ("prompt", "arguments"), [*CASES["a wrong prompt is an error"], ("recall_context", {"question": "x" * 5_000})]
)
async def test_a_wrong_prompt_is_an_error(prompt: str, arguments: dict[str, str], client: Client) -> None:
    with pytest.raises(MCPError) as error:
        await client.get_prompt(prompt, arguments)
    assert "x" * 100 not in str(error.value)


async def test_clients_that_listen_hear_of_what_has_changed() -> None:
    async with opened() as memory, connected(memory, trust=True) as client:
        listened = ["factmem://facts/product/alpha", "factmem://tree"]
        async with client.listen(resource_subscriptions=listened) as events:
            await answer(client, "save_fact", keyword="city", value="Oslo", scope="/product/alpha/plan")
            heard = set()
            with anyio.fail_after(60):
                async for event in events:
                    assert isinstance(event, ResourceUpdated)
                    heard.add(event.uri)
                    if len(heard) == 2:
                        break
        assert heard == {*listened}
