"""Fixtures: a memory with something of everything to look at."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from typing import Final

import pytest

from factmem.abc.detector import Message
from factmem.details import Evidence, FactDetails
from factmem.facts import Concept, MultipleFacts, SingleFact
from factmem.memory.facade import Memory
from factmem.subjects import MemorySubject
from factmem.testing import HashEmbedder

SEATS: Final = Concept.single("seats", "Seats at the venue", int)
CITY: Final = Concept.single("city", "City that somebody lives in")
LANGUAGES: Final = Concept.multiple("languages", "Languages that somebody speaks")
MAYA: Final = MemorySubject("user", "The person who talks with the agent", priority_level=1).individual("maya")
DAY: Final = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)


async def fill(memory: Memory) -> None:
    """Save facts, a private one, a statement and a quarantined one."""
    quote = Evidence(quote="We have 120 seats now.", role="user", speaker="Maya", conversation_id="monday")
    await memory.save(SingleFact(SEATS, 80, timestamp=DAY), subject=MAYA, scope="/product/fair")
    await memory.save(
        SingleFact(SEATS, 120, timestamp=DAY + dt.timedelta(days=9)),
        subject=MAYA,
        scope="/product/fair",
        details=FactDetails(evidence=(quote,), categories=("venue",), source="chat"),
    )
    await memory.save(SingleFact(CITY, "Oslo", timestamp=DAY), subject=MAYA)
    await memory.save(MultipleFacts(LANGUAGES, ("Norwegian", "Dutch"), timestamp=DAY), subject=MAYA)
    await memory.view(viewer="maya").save(SingleFact(CITY, "Secret Harbour", timestamp=DAY), subject=MAYA, private=True)
    await memory.remember(
        Message(content="The stage is built in the yard.", role="user", timestamp=DAY), scope="/product/fair/stage"
    )
    await memory.remember(Message(content="The palace has 900 seats.", role="tool", timestamp=DAY))


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    """An open memory with facts, of no viewer."""
    async with Memory("memory:", embedder=HashEmbedder(), actor="test") as opened:
        await fill(opened)
        yield opened
