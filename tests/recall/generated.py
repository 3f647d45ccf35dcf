"""Generated stores, to compare recall with a naive computation."""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Sequence

import attrs
from hypothesis import strategies as st

from factmem import (
    STATEMENT,
    Concept,
    FactDetails,
    InMemoryProvider,
    Memory,
    MemorySubject,
    MultipleFacts,
    RecallSettings,
)
from factmem.details import Evidence, Origin
from factmem.recall import Additive, Boost
from factmem.recall.text.analysis import analyse
from factmem.sentences import tells
from factmem.testing import FakeClock, HashEmbedder
from tests.tables import cases

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
WORDS = ["amber", "car", "vehicle", "delta", "trip", "travel", "grove", "harbor", "doctor", "physician", "twice"]
PERSON = MemorySubject("person", "")
NOTE = Concept.multiple("trip_note", "A note of a trip")


@attrs.frozen
class Said:
    """A statement of a generated store."""

    text: str
    age_days: int
    importance: float
    conversation: int | None
    position: int
    owner: str | None
    scope: str
    category: str
    typed: bool
    about: str | None = None
    by_assistant: bool = False
    by_name: bool = False

    @property
    def assistant(self) -> bool:
        """Return whether the assistant says it."""
        return self.by_assistant and not self.typed

    @property
    def quote(self) -> str:
        return f"{self.text} and another grove" if self.typed else self.text

    @property
    def terms(self) -> list[str]:
        if not self.typed:
            role = [] if self.speaker else ["assist" if self.assistant else "user"]
            return [*role, *analyse(self.about or ""), *analyse(self.text)]
        found = analyse(f"A note of a trip: {self.text}")
        found = [*analyse(self.about or ""), *found]
        return [*found, *(term for term in analyse(self.quote) if term not in found), "#travel"]

    @property
    def speaker(self) -> str | None:
        """Return the name of its speaker; the person that it is of is the subject otherwise."""
        return self.about if self.by_name and not self.typed else None

    @property
    def subject(self) -> str | None:
        """Return the individual that the subject is."""
        return None if self.speaker else self.about

    @property
    def leads(self) -> str | None:
        """Return the term that names the speaker or the subject."""
        return analyse(self.about)[0] if self.about else None

    @property
    def asks(self) -> bool:
        """Return whether it ends with a question."""
        return self.text.endswith("?")

    @property
    def tells(self) -> bool:
        """Return whether it states something."""
        return self.typed or tells(self.text)

    @property
    def holds_number(self) -> bool:
        return not {"twice", "4", "5"}.isdisjoint(re.findall(r"\w+", self.text))

    @property
    def changes(self) -> bool:
        return not self.typed and any(word in self.text for word in ("moved", "cancelled", "left"))

    @property
    def news(self) -> bool:
        """Return whether it tells of a change or of what is so now."""
        return self.changes or (not self.typed and "now" in self.text)

    @property
    def indexed(self) -> str:
        return f"trip note: A note of a trip: {self.text}" if self.typed else self.text


UPDATES = cases(__file__)["updates"]
texts = st.one_of(
    st.builds(
        operator.add,
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
        st.sampled_from(["", "", "?"]),
    ),
    st.sampled_from(UPDATES),
)
queries = st.lists(
    st.sampled_from([*WORDS, "user", "note", "trip note", "how many", "who", "did", "Zoe", "alice"]),
    min_size=1,
    max_size=6,
).map(" ".join)
statements = st.builds(
    Said,
    text=texts,
    age_days=st.integers(0, 200),
    importance=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    conversation=st.one_of(st.none(), st.integers(0, 2)),
    position=st.integers(0, 5),
    owner=st.sampled_from([None, None, "alice", "bob"]),
    scope=st.sampled_from(["/product/a", "/product/ab", "/product/a/x"]),
    category=st.sampled_from(["red", "blue"]),
    typed=st.sampled_from([False, False, True]),
    about=st.sampled_from([None, "alice", "zoe"]),
    by_assistant=st.booleans(),
    by_name=st.booleans(),
)
stores = st.lists(statements, min_size=1, max_size=25, unique_by=lambda said: (said.text, said.owner, said.scope))
shares = st.floats(0, 1)
weights = st.builds(
    RecallSettings,
    composite=st.one_of(
        st.builds(Boost, recency_weight=shares, importance_weight=shares),
        st.builds(
            Additive,
            similarity_weight=st.floats(0.1, 2),
            recency_weight=st.floats(0, 2),
            importance_weight=st.floats(0, 2),
        ),
    ),
    half_life_days=st.floats(1, 100),
    lexical_weight=shares,
    unrelated=st.sampled_from([None, 0.0, 0.3]),
)


async def filled(store: Sequence[Said]) -> Memory:
    provider = InMemoryProvider()
    memory = Memory(provider, embedder=HashEmbedder(), clock=FakeClock(NOW))
    for said in store:
        evidence = Evidence(
            quote=said.quote,
            role="assistant" if said.assistant else "user",
            speaker=said.speaker,
            conversation_id=None if said.conversation is None else f"c{said.conversation}",
            position=said.position,
        )
        await memory.view(viewer=said.owner).save(
            MultipleFacts(
                NOTE if said.typed else STATEMENT, (said.text,), timestamp=NOW - dt.timedelta(days=said.age_days)
            ),
            scope=said.scope,
            subject=PERSON.individual(said.subject) if said.subject else None,
            details=FactDetails(
                importance=said.importance,
                evidence=(evidence,),
                owner=said.owner,
                categories=(said.category,),
                origin=Origin.ASSISTANT if said.assistant else Origin.USER,
            ),
        )
    return memory
