"""Chats and histories are ingested: words with their speakers and times, none of tools' calls and hidden turns."""

from __future__ import annotations

import datetime as dt
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from factmem.abc.detector import DropReason
from factmem.errors import FileFormatError
from factmem.importers.contract import Dialogue, Lost, Problem, Skipped
from tests.importers.conftest import DATED, Mover, document, found_in, rows

Fixture = Callable[[str], Path]


def said(found: list[Any]) -> list[list[tuple[str, str]]]:
    """Return the words of each conversation with the roles of their speakers, without instructions."""
    return [
        [(message.role, message.content) for message in item.conversation.messages if message.detectable]
        for item in found
        if isinstance(item, Dialogue)
    ]


# -- Histories of frameworks, by the frameworks themselves ----------------------------------------------------------


def test_langchains_dumps_read_like_its_messages(tmp_path: Path) -> None:
    said = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"]}
    path = document(tmp_path / "history.json", [said | {"kwargs": {"content": "I like tea.", "type": "human"}}])
    (talk,) = (item for item in found_in("langchain", path, dated=DATED) if isinstance(item, Dialogue))
    assert [(one.role, one.content) for one in talk.conversation.messages] == [("user", "I like tea.")]


async def test_langchain(mover: Mover, fixture: Fixture) -> None:
    """It keeps no times; a call of a tool is nobody's words, and an image is counted."""
    path = fixture("langchain") / "history.json"
    (talk,) = (item for item in found_in("langchain", path, dated=DATED) if isinstance(item, Dialogue))
    words = [(message.role, message.content) for message in talk.conversation.messages if message.content]
    assert words == [
        ("system", "Be brief."),
        ("user", "I moved to Porto in May."),
        ("tool", "18 degrees"),
        ("assistant", "Porto is lovely in autumn."),
    ]
    assert (talk.conversation.id, talk.conversation.started_at) == ("langchain/history.json", DATED)
    assert talk.conversation.not_text == 1
    report = await mover.move("langchain", path, dated=DATED)
    assert (report.conversations, report.imported, report.quarantined) == (1, 3, 1)
    assert set(await mover.facts()) == {"I moved to Porto in May.", "Porto is lovely in autumn."}
    assert await mover.waiting() == {"18 degrees"}
    assert sum(report.lost.values()) == 1
    assert any("dates" in what for what in (await mover.move("langchain", path)).lost)


async def test_openai_agents(mover: Mover, fixture: Fixture) -> None:
    path = fixture("openai_agents") / "sessions.db"
    assert said(found_in("openai-agents", path)) == [
        [("user", "Ich heiße Jörg 🎉")],
        [("user", "I am allergic to peanuts."), ("tool", "fish, rice"), ("assistant", "I recommend the fish.")],
    ]
    report = await mover.move("openai-agents", path)
    assert (report.conversations, report.imported, report.errors) == (2, 4, 0)
    records = {record.value: record for record in await mover.memory.list_records()}
    (evidence,) = records["I am allergic to peanuts."].evidence
    assert evidence.conversation_id == "openai-agents/lunch"
    assert records["I am allergic to peanuts."].timestamp.date() == dt.date(2026, 11, 23)


def test_pydantic_ai(fixture: Fixture) -> None:
    (talk,) = said(found_in("pydantic-ai", fixture("pydantic_ai") / "messages.json"))
    assert talk == [
        ("user", "I am allergic to peanuts."),
        ("tool", "fish, rice"),
        ("assistant", "I recommend the fish."),
        ("user", "Ich heiße Jörg 🎉"),
        ("assistant", "I recommend the fish."),
    ]


# -- Exports of chats, from public descriptions ---------------------------------------------------------------------


def chatgpt_talk(**changes: Any) -> dict[str, Any]:
    talk: dict[str, Any] = rows("chatgpt/conversations.json")[0]
    return talk | changes


async def test_chatgpt(mover: Mover, tmp_path: Path) -> None:
    """Of a tree of branches, the one that the conversation ended with; what was edited away is counted."""
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as export:
        export.writestr("user.json", "{}")
        export.writestr("conversations-000.json", json.dumps([chatgpt_talk()]))
        export.writestr("conversations-001.json", json.dumps([chatgpt_talk(id="talk-2", mapping={})]))
    found = found_in("chatgpt", archive)
    assert said(found) == [[("user", "I live in Lisbon."), ("assistant", "A lovely place."), ("user", "Look at this.")]]
    assert Lost("messages of branches that were edited away", 1) in found
    assert Lost("custom instructions (they stand before each conversation)", 1) in found
    assert Skipped("nothing was said in them") in found
    report = await mover.move("chatgpt", archive)
    assert (report.conversations, report.imported, report.errors) == (1, 3, 0)
    (lisbon,) = [record for record in await mover.memory.list_records() if "Lisbon" in record.value]
    assert lisbon.timestamp == dt.datetime.fromtimestamp(1714557600.5, dt.UTC)
    assert report.lost[DropReason.NOT_TEXT.value] == 1
    again = await mover.move("chatgpt", archive)
    assert (again.imported, again.known) == (0, 3)


def test_a_chat_that_goes_in_a_circle_costs_no_other_one(tmp_path: Path) -> None:
    nodes = chatgpt_talk()["mapping"]
    circle = {"a": nodes["a"] | {"parent": "b"}, "b": nodes["b"] | {"parent": "a"}}
    talks = [chatgpt_talk(mapping=circle, current_node="a"), 7, chatgpt_talk(mapping=[]), chatgpt_talk()]
    found = found_in("chatgpt", document(tmp_path / "conversations.json", talks))
    assert len([item for item in found if isinstance(item, Problem)]) == 3
    assert len(said(found)) == 1


def test_a_chat_without_a_current_node_ends_with_its_last_leaf(tmp_path: Path) -> None:
    found = found_in("chatgpt", document(tmp_path / "conversations.json", [chatgpt_talk(current_node=None)]))
    assert said(found)[0][-1] == ("user", "Look at this.")


async def test_claude(mover: Mover, fixture: Fixture) -> None:
    """The parts tell words from tools; the conversations of a project are the product's."""
    folder = fixture("claude")
    (talk,) = rows("claude/conversations.json")
    document(folder / "conversations.json", [talk, talk | {"uuid": "t2", "chat_messages": []}, {"chat_messages": [{}]}])
    report = await mover.move("claude", folder)
    assert await mover.facts() == {
        "Ich heiße Jörg 🎉": "everything in /product/Garden",
        "Hello Jörg!": "everything in /product/Garden",
    }
    assert (report.conversations, report.errors, sum(report.skipped.values())) == (1, 1, 1)
    assert report.lost["texts of attachments"] == 1
    assert any("memory list" in what for what in report.lost)


def test_an_archive_without_conversations_is_another_systems(tmp_path: Path) -> None:
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as export:
        export.writestr("photos.json", "[]")
    for system in ("chatgpt", "claude"):
        with pytest.raises(FileFormatError, match="is it this system's export"):
            found_in(system, archive)
