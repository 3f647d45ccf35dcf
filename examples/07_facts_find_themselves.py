"""A language model finds typed facts in a conversation, each with the words that support it.

Without a model, a stand-in on 127.0.0.1 gives the answers below. FACTMEM_MODEL names a real one:

    FACTMEM_MODEL=openai/gpt-5-mini python examples/07_facts_find_themselves.py
    FACTMEM_MODEL=http://127.0.0.1:8080/v1#MODEL python examples/07_facts_find_themselves.py
"""

import datetime as dt
import enum
import os

import anyio

from factmem import Concept, Conversation, LanguageModel, Memory, MemorySubject, Message, language_model
from factmem.abc import DetectionRequest
from factmem.abc.topics import PREFERENCES
from factmem.testing.chat_answers import answering, confirming
from factmem.testing.openai_server import LoopbackOpenAIServer


class Diet(enum.Enum):
    EVERYTHING = "everything"
    VEGETARIAN = "vegetarian"


CITY = Concept.single("city", "Where the user lives")
GUESTS = Concept.single("guests", "How many people come to the dinner", int)
DIET = Concept.single("diet", "What the user eats", Diet)
USER = MemorySubject("user", "The person whom we talk with", priority_level=1)

TALK = Conversation(
    id="dinner",
    started_at=dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC),
    messages=[
        Message(content="Hi, I moved to Utrecht in January. I am planning a dinner for 14 people."),
        Message(content="How nice! Is everybody fine with meat?", role="assistant"),
        Message(content="I eat none, I'm vegetarian. And I love Lebanese food."),
    ],
)
ANSWER = {
    "city": [{"quote": "moved to Utrecht in January", "message": 1, "value": "Utrecht"}],
    "guests": [{"quote": "a dinner for 14 people", "message": 1, "value": 14}],
    "diet": [
        {"quote": "I'm vegetarian", "message": 3, "value": "vegetarian"},
        {"quote": "I never eat at home", "message": 3, "value": "everything"},  # not in the conversation
    ],
    "memories": [
        {"quote": "I love Lebanese food", "message": 3, "memory": "Loves Lebanese food.", "topics": ["preferences"]}
    ],
}


async def main(model: LanguageModel) -> None:
    wanted = DetectionRequest(concepts=[CITY, GUESTS, DIET], topics=[PREFERENCES])
    async with Memory("memory:", model=model) as memory:
        found = await memory.remember(TALK, subject=USER, scope="/agent/cook", looking_for=wanted)
        for change in found.changes:
            evidence, *_ = change.record.evidence
            print(f"{change.kind.value}: {change.record.concept.keyword} = {change.record.value!r}")
            print(f"    for the {evidence.role} said {evidence.quote!r}")
        for reason, count in found.dropped.items():
            print(f"dropped: {count}, for {reason.value}")

        guests = await memory.load(GUESTS, subject=USER, scope="/agent/cook")
        print("chairs to find:", guests.value - 6 if guests else "who knows")
        again = await memory.remember(TALK, subject=USER, scope="/agent/cook", looking_for=wanted)
        print("told again:", len(again.changes), "changes")


with LoopbackOpenAIServer(confirming(answering(ANSWER))) as stand_in:
    anyio.run(main, language_model(os.environ.get("FACTMEM_MODEL", f"{stand_in.base_url}#stand-in")))
