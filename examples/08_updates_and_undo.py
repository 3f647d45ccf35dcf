"""Updates and undo: known facts are updated, earlier ones stay readable, and a model's changes can be undone.

Typed facts need no model for that: the latest value by date is current. The model compares free statements with similar
ones, which it may keep, update or delete, and inserts new ones. Without a model, a stand-in on 127.0.0.1 gives the
answers below; FACTMEM_MODEL names a real one.
"""

import datetime as dt
import os
from collections.abc import Iterable

import anyio

from factmem import Change, Concept, LanguageModel, Memory, MemorySubject, Message, Policies, language_model
from factmem.abc import DetectionRequest
from factmem.consolidation import ConsolidationPolicy
from factmem.testing.chat_answers import answering, confirming
from factmem.testing.openai_server import LoopbackOpenAIServer

CITY = Concept.single("city", "Where the user lives")
USER = MemorySubject("user", "The person whom we talk with", priority_level=1)
ANSWERS = (
    {"city": [{"quote": "I live in Oslo", "message": 1, "value": "Oslo"}]},
    {"city": [{"quote": "moved to Lisbon", "message": 1, "value": "Lisbon"}]},
    {"known": [{"number": 0, "action": "update", "text": "The launch is on 10 May."}], "insert": False},
)


def said(text: str, month: int) -> Message:
    return Message(content=text, timestamp=dt.datetime(2026, month, 1, tzinfo=dt.UTC))


def show(title: str, changes: Iterable[Change]) -> None:
    print(title)
    for change in changes:
        before = f"{change.previous.value!r} -> " if change.previous else ""
        print(f"    {change.kind.value}: {before}{change.record.value!r}")


async def main(model: LanguageModel) -> None:
    policy = ConsolidationPolicy(threshold=0.7)  # minimum cosine of statements to compare
    city = DetectionRequest(concepts=[CITY])
    async with Memory("memory:", model=model, policies=Policies(consolidation=policy)) as memory:
        for message in (said("I live in Oslo.", 1), said("We have moved to Lisbon!", 3)):
            found = await memory.remember(message, subject=USER, scope="/agent/host", looking_for=city)
            show(message.content, found.changes)

        for text in ("The launch is on 3 May.", "The launch is on 10 May, not on 3 May."):
            found = await memory.remember(text, scope="/product/app", categories=["plans"], importance=0.8)
            show(text, found.changes)

        undone = await memory.undo(found.changes, reason="we keep to the third")
        show("undone:", undone)
        show("and undone in turn:", await memory.undo(undone))

        print("history of the city:")
        for record in await memory.history(CITY, subject=USER, scope="/agent/host"):
            print(f"    {record.value} ({record.state.value}), said on {record.timestamp:%d %B %Y}")


with LoopbackOpenAIServer(confirming(answering(*ANSWERS))) as stand_in:
    anyio.run(main, language_model(os.environ.get("FACTMEM_MODEL", f"{stand_in.base_url}#stand-in")))
