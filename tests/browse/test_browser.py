"""The pages of a browser as plain data, and what people do on them."""

from __future__ import annotations

import itertools
from pathlib import Path

import attrs
import pytest

from factmem.abc.detector import Message
from factmem.browse.browser import AgentQuestion, Browser, Narrowing, draft_of
from factmem.browse.record_rows import largest, value_of
from factmem.changes import Change
from factmem.errors import InvalidDataError, StateConflictError
from factmem.facts import SingleFact
from factmem.memory.facade import Memory
from factmem.testing import HashEmbedder
from tests.browse.conftest import CITY, MAYA, SEATS


async def id_of(browser: Browser, keyword: str, value: str | None = None) -> str:
    """Return the id of the first current record of a concept, with a value if one is given."""
    records = await browser.listing(Narrowing(keyword=keyword))
    return next(record.id for record in records if value in (None, value_of(record)))


async def edited(browser: Browser, id: str, **fields: str) -> Change:
    """Open the form of a record, edit some fields, and send it."""
    page = await browser.record(id)
    return await browser.update(id, attrs.evolve(draft_of(page.record), **fields), revision=page.record.revision)


async def test_of_many_scopes_those_with_the_most_records_are_shown(memory: Memory) -> None:
    facts = [(SingleFact(SEATS, number), MAYA, f"/agent/a{number:03}") for number in range(102)]
    await memory.save_many([*facts, (SingleFact(CITY, "Rome"), MAYA, "/agent/a101")])
    tree = (await Browser(memory).overview()).tree
    agents = next(branch for branch in tree.children if branch.name == "agent")
    assert (len(largest(agents)), len(agents.children), agents.records) == (100, 102, 103)
    assert "a101" in [child.name for child in largest(agents)]


async def test_an_edit_of_a_revision_that_is_gone_is_compared_with_the_present_one(memory: Memory) -> None:
    browser = Browser(memory)
    id = await id_of(browser, "city")
    page = await browser.record(id)
    both = await browser.compared(id, attrs.evolve(draft_of(page.record), value="Rome"), revision=999)
    assert [(item.name, item.was, item.yours) for item in both.differences if item.now != item.yours] == [
        ("value", "", "Rome")
    ]


async def test_forget_refuses_to_erase_a_newer_revision_than_the_one_seen(memory: Memory) -> None:
    browser = Browser(memory)
    doomed = await browser.erasure_preview(Narrowing(keyword="city"))
    await memory.save(SingleFact(CITY, "Lisbon"), subject=MAYA)
    with pytest.raises(StateConflictError, match="look again"):
        await browser.forget(Narrowing(keyword="city"), typed=doomed.phrase, seal=doomed.seal)
    assert [record.value for record in await browser.listing(Narrowing(keyword="city"))] == ["Lisbon"]


async def test_a_confined_browser_asks_for_the_name_of_an_agent(memory: Memory) -> None:
    browser = Browser(memory.view(scopes=["/product/fair"], read_only=True))
    with pytest.raises(InvalidDataError, match="name an agent, feature or product"):
        await browser.agent_block(AgentQuestion(question="How many seats?"))
    assert (await browser.agent_block(AgentQuestion(question="How many seats?", product="fair"))).scopes == (
        "/product/fair",
    )


async def test_a_viewer_never_reads_as_another_user(memory: Memory) -> None:
    """The user of a question chooses the subject; whose private facts are shown is decided by the memory alone."""
    for viewer, sees in (("maya", True), ("leo", False), (None, False)):
        told = await Browser(memory.view(viewer=viewer)).agent_block(AgentQuestion(question="Which city?", user="maya"))
        assert ("Secret Harbour" in told.block.text) is sees


async def test_a_view_of_an_agents_scope_is_told_of_that_scope_alone(memory: Memory) -> None:
    told = await Browser(memory.scope("/product/fair")).agent_block(AgentQuestion(user="maya", product="fair"))
    assert told.scopes == ("/product/fair",)
    assert "120" in told.block.text
    assert "Oslo" not in told.block.text


async def test_the_inbox_shows_a_page_of_what_waits_and_counts_the_rest(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, quarantine = Browser(memory), memory.inbox.quarantine
    await memory.remember([Message(content=f"Door {number} is red.", role="tool") for number in range(5)])
    waiting = [record.id for record in await quarantine.list()]
    assert ((await browser.inbox()).left_out, len((await browser.inbox()).waiting)) == (0, len(waiting))
    monkeypatch.setattr("factmem.browse.browser._MOST_WAITING", 2)
    await quarantine.reject(*waiting[-3:])
    page = await browser.inbox()
    assert [record.id for record in page.waiting] == waiting[:2]
    assert [record.id for record in page.rejected] == waiting[:-3:-1]
    assert page.left_out == len(waiting) - 5


async def test_the_mark_changes_with_every_change_and_only_then(memory: Memory) -> None:
    browser = Browser(memory)
    seen = [await browser.mark()]
    assert await browser.mark() == seen[0]
    id = await id_of(browser, "seats")
    for change in (
        edited(browser, id, importance="0.7"),
        memory.retract(id),
        memory.restore(id),
        memory.inbox.quarantine.reject((await browser.inbox()).waiting[0].id),
    ):
        await change
        seen.append(await browser.mark())
    await browser.forget(ids=[id], typed="forget 1 record", seal=(await browser.erasure_preview(ids=[id])).seal)
    seen.append(await browser.mark())
    assert all(before != after for before, after in itertools.pairwise(seen))


async def test_the_mark_says_nothing_of_what_others_own(memory: Memory) -> None:
    browser = Browser(memory.view(viewer="leo"))
    before = await browser.mark()
    await memory.view(viewer="maya").save(SingleFact(SEATS, 3), private=True)
    assert await browser.mark() == before


async def test_the_mark_follows_another_process(tmp_path: Path) -> None:
    """Two memories over one file know nothing of each other but by the file."""
    path = f"sqlite-vec:{tmp_path / 'facts.db'}"
    async with (
        Memory(path, embedder=HashEmbedder()) as writer,
        Memory(path, embedder=HashEmbedder(), read_only=True) as reader,
    ):
        browser = Browser(reader)
        before = await browser.mark()
        await writer.remember(Message(content="The gate opens at nine.", role="user"))
        assert await browser.mark() != before
        assert (await browser.overview()).info.records == 1
