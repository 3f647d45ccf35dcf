"""Reading of ADK's events and genai's contents, and recognition of rendered blocks among them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from google.adk.events import Event
from google.genai import types

from factmem import AgentMemoryConfig, InMemoryProvider, Memory, SingleFact
from factmem.abc.detector import MEMORY_ROLE
from factmem.agent.plugin import AgentMemory, format_of
from factmem.agent.rendering import MemoryBlock
from factmem.integrations.adk import ContentFormat, EventFormat
from factmem.testing import HashEmbedder
from tests.integrations.hosts.adk import said
from tests.memory.telling import CITY


def test_events_say_what_was_said_and_by_whom() -> None:
    """Users, agents and tools have their own origins; thoughts, calls, memory's own tools and drafts are left out."""
    form = EventFormat()
    when = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)

    def event(*parts: types.Part, author: str = "clerk", **fields: Any) -> Event:
        content = types.Content(role="user" if author == "user" else "model", parts=list(parts))
        return Event(id="e1", author=author, content=content, timestamp=when.timestamp(), **fields)

    (asked_for,) = form.messages(event(types.Part(text="Hello."), author="user"))
    assert (asked_for.role, asked_for.content, asked_for.id, asked_for.timestamp) == ("user", "Hello.", "e1", when)
    thought = types.Part(text="Hm.", thought=True)
    (answered,) = form.messages(event(thought, types.Part(text="Good morning.")))
    assert (answered.role, answered.name, answered.content) == ("assistant", "clerk", "Good morning.")
    results: dict[str, dict[str, Any]] = {
        "look_up": {"result": "sunny"},
        "load_memory": {"result": "Rome"},
        "count": {"n": 2},
    }
    parts = (types.Part.from_function_response(name=tool, response=answer) for tool, answer in results.items())
    found = form.messages(event(*parts))
    assert [(message.role, message.name, message.content) for message in found] == [
        ("tool", "look_up", "sunny"),
        ("tool", "count", '{"n": 2}'),
    ]
    assert len({message.id for message in found}) == 2
    call = event(types.Part.from_function_call(name="look_up", args={}))
    assert form.calls(call)
    assert not form.messages(call)
    assert not form.messages(event(types.Part(text="Good"), partial=True))
    assert not form.messages(event(types.Part(text="Say it."), author="user", node_path="flow/clerk"))
    assert not form.messages(Event(author="clerk"))


def test_parts_without_text_are_counted() -> None:
    image = types.Part.from_bytes(data=b"x", mime_type="image/png")
    file = types.Part.from_uri(file_uri="gs://a/b.pdf", mime_type="application/pdf")
    content = types.Content(role="user", parts=[types.Part(text="Look."), image, file])
    (seen,) = EventFormat().messages(Event(author="user", content=content))
    assert (seen.content, seen.not_text) == ("Look.", 2)
    (alone,) = ContentFormat().messages(types.Content(role="user", parts=[image]))
    assert (alone.content, alone.role, alone.not_text) == ("", "user", 1)


def test_rendered_blocks_are_recognized() -> None:
    """A block is recognized in requests by its type, and in stored events by a mark in its metadata."""
    block = MemoryBlock(text="<memory></memory>")
    content = ContentFormat().memory(block)
    assert content.role == "user"
    assert [message.role for message in ContentFormat().messages(content.model_copy(deep=True))] == [MEMORY_ROLE]
    event = EventFormat().memory(block)
    stored = Event.model_validate_json(event.model_dump_json())
    assert [message.role for message in EventFormat().messages(stored)] == [MEMORY_ROLE]


async def test_histories_of_events_and_of_contents_get_one_block() -> None:
    """The block precedes the last message of the user once, in either kind of history."""
    contents = [said("Where do I live?"), ContentFormat().summary("Somewhere.")]
    events = [Event(author="user", content=contents[0]), EventFormat().summary("Somewhere.")]
    assert isinstance(format_of(contents), ContentFormat)
    assert isinstance(format_of(events), EventFormat)
    config = AgentMemoryConfig(store=InMemoryProvider(), agent_name="clerk", users="shared", embedder=HashEmbedder())
    async with AgentMemory(config) as memory:

        async def save(store: Memory) -> None:
            await store.save(SingleFact(CITY, "Rome"), scope="/agent/clerk")

        await memory.for_run().held.use(save)
        for history in (contents, events):
            loaded: list[Any] = await memory.load_all_facts_to_agent(history)
            assert loaded[1:] == history
            assert len(await memory.load_all_facts_to_agent(loaded)) == len(loaded)
