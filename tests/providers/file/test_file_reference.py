"""Comparison with the in-memory store: equal answers after any operations and any number of reopenings."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from factmem_file import LocalFileMemoryProvider
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem.abc import Append, Receipt, Statement, StateRequest
from factmem.errors import ConceptConflictError, RecordNotFoundError, StateConflictError
from factmem.facts import Concept
from factmem.fold import Moment, revisions
from factmem.providers import InMemoryProvider
from factmem.records import AssertionState, FactDetails, LogEntry, Origin, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
PLACES = [
    Place(MemorySubject("user"), MemoryScope.agent("a")),
    Place(MemorySubject("user").individual("Alice"), MemoryScope.agent("a")),
    Place(MemorySubject("user"), MemoryScope.agent("a").within("acme")),
]
CONCEPTS: list[Concept[str, Any]] = [
    Concept.single("seats", "", value_type=str),
    Concept.multiple("likes", "", value_type=str),
    Concept.multiple("seats", "", value_type=str),
]
Said: TypeAlias = "tuple[int, int, str, int, str | None, bool, Origin]"
Step: TypeAlias = "tuple[str, list[Said], int]"
STATES = [AssertionState.RETRACTED, AssertionState.ACTIVE, AssertionState.QUARANTINED, AssertionState.FAILED]

SAID = st.tuples(
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from("abc"),
    st.integers(0, 2),
    st.sampled_from([None, "al"]),
    st.booleans(),
    st.sampled_from([Origin.USER, Origin.USER, Origin.DOCUMENT]),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "state", "erase", "erase one", "reopen"]),
        st.lists(SAID, min_size=1, max_size=3),
        st.integers(0, 20),
    ),
    max_size=14,
)


def _statements(said: Sequence[Said]) -> list[Statement]:
    return [
        Append(assertion=assertion)
        for place, concept, value, hours, owner, removed, origin in said
        for assertion in assertions_of(
            CONCEPTS[concept].fact([value], timestamp=NOON + dt.timedelta(hours=hours)),
            PLACES[place],
            FactDetails(owner=owner, origin=origin),
            removed=removed,
        )
    ]


_Provider: TypeAlias = LocalFileMemoryProvider | InMemoryProvider


class _Pair:
    """The provider and the reference, with their corresponding assertions."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = LocalFileMemoryProvider(root)
        self.memory = InMemoryProvider()
        self.seen: list[tuple[Recorded, Recorded]] = []

    @property
    def both(self) -> tuple[_Provider, _Provider]:
        return self.file, self.memory

    async def do(self, step: Step) -> None:
        kind, said, pick = step
        chosen = self.seen[pick % len(self.seen)] if self.seen else None
        match kind:
            case "append":
                ours, theirs = [await _appended(each, _statements(said)) for each in self.both]
                if isinstance(ours, str) or isinstance(theirs, str):
                    assert ours == theirs
                else:
                    assert [receipt.new for receipt in ours] == [receipt.new for receipt in theirs]
                    self.seen += [(a.recorded, b.recorded) for a, b in zip(ours, theirs, strict=True)]
            case "state" if chosen is not None:
                state, expected = STATES[pick % 4], [None, None, *STATES][pick % 6]
                outcomes = [
                    await _appended(each, [StateRequest.of(recorded, state=state, expected=expected)])
                    for each, recorded in zip(self.both, chosen, strict=True)
                ]
                assert outcomes[0] == outcomes[1]
            case "erase" if chosen is not None:
                tenant = chosen[0].assertion.place.scope.tenant
                counts = [
                    (await each.erase([recorded.record_id], tenant=tenant)).erased
                    for each, recorded in zip(self.both, chosen, strict=True)
                ]
                assert counts[0] == counts[1]
                self.seen = [pair for pair in self.seen if pair[1].record_id != chosen[1].record_id]
            case "erase one" if chosen is not None:
                tenant = chosen[0].assertion.place.scope.tenant
                counts = [
                    (await each.erase([], tenant=tenant, assertion_ids=[recorded.id])).erased
                    for each, recorded in zip(self.both, chosen, strict=True)
                ]
                assert counts[0] == counts[1]
                self.seen = [pair for pair in self.seen if pair[1].id != chosen[1].id]
            case "reopen":
                await self.file.aclose()
                self.file = LocalFileMemoryProvider(self.root)
            case _:
                pass

    async def compare(self) -> None:
        assert await self.file.version(None) == await self.memory.version(None)
        for tenant in (None, "acme"):
            ours, theirs = [await each.changes(tenant) for each in self.both]
            assert [(type(entry), entry.seq) for entry in ours] == [(type(entry), entry.seq) for entry in theirs]
            assert _shape(ours) == _shape(theirs)
        for place in PLACES:
            for keyword in (None, "likes"):
                ours, theirs = [await each.entries(place, keyword) for each in self.both]
                assert _shape(ours) == _shape(theirs)
            ours_all, theirs_all = [await each.load_all(place.subject, place.scope) for each in self.both]
            assert ours_all == theirs_all


async def _appended(provider: _Provider, statements: Sequence[Statement]) -> Sequence[Receipt] | str:
    """Append statements; return the receipts, or the error message if they are refused."""
    try:
        return await provider.append(statements)
    except (ConceptConflictError, RecordNotFoundError, StateConflictError) as error:
        return str(error)


def _shape(log: Sequence[LogEntry]) -> list[tuple[object, ...]]:
    """Return the log with comparable ids: records numbered in order of appearance."""
    numbers: dict[str, int] = {}
    return [
        (
            recorded.assertion.fingerprint,
            numbers.setdefault(recorded.record_id, len(numbers)),
            recorded.seq,
            state,
        )
        for recorded, state in revisions(log, Moment(now=NOON))
    ]


@pytest.mark.timeout(1_800)
def test_it_answers_as_the_store_in_memory_does(big: bool) -> None:
    @settings(max_examples=2_000 if big else 60, deadline=None, database=None)
    @given(STEPS)
    def check(steps: list[Step]) -> None:
        async def play() -> None:
            with tempfile.TemporaryDirectory() as folder:
                pair = _Pair(Path(folder))
                for step in steps:
                    await pair.do(step)
                await pair.compare()
                await pair.file.aclose()

        anyio.run(play)

    check()
