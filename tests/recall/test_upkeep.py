"""A mirror updated write by write equals a new one: folded, indexed and scored alike."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Sequence

import anyio
import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factmem import (
    STATEMENT,
    FactDetails,
    InMemoryProvider,
    Memory,
    MemoryScope,
    MemorySubject,
    MultipleFacts,
    SingleFact,
)
from factmem.details import UNREVIEWED, Evidence, Origin
from factmem.errors import StateConflictError
from factmem.facts import MultipleConcept, SingleConcept
from factmem.fold import Current, Moment, fold
from factmem.recall import RecallFilter
from factmem.recall.index.selection import selected
from factmem.recall.results import RecallMatch
from factmem.recall.strongest import chosen
from factmem.testing import FakeClock, HashEmbedder
from factmem.views import Sight, View

ALICE = Sight(viewer="alice")
IN_VIEW = Sight(viewer="alice", view=View(roots=(MemoryScope.product("a"),)))

FOR_ADA = Sight(viewer="alice", view=View(individuals=frozenset({("user", "ada")})))

pytestmark = pytest.mark.slow

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SEAT = SingleConcept("seat", "Where they like to sit", value_type=str)
LIKES = MultipleConcept("likes", "What they like", value_type=str)
WORDS = ["amber", "basil", "cedar", "delta", "ember", "fjord"]
USER = MemorySubject("user", "The user", priority_level=1)
SUBJECTS = [MemorySubject.EVERYTHING, USER, USER.individual("ada"), USER.individual("bea")]


@attrs.frozen
class Step:
    """One change of a store."""

    kind: str
    text: str
    conversation: int | None
    owner: str | None
    scope: str
    days: int
    which: int


steps = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(["say", "say", "say", "seat", "likes", "retract", "restore", "update", "forget", "later"]),
        text=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
        conversation=st.one_of(st.none(), st.integers(0, 1)),
        owner=st.sampled_from([None, None, "alice", "bob"]),
        scope=st.sampled_from(["/product/a", "/product/a/x", "/agent/b"]),
        days=st.integers(0, 40),
        which=st.integers(0, 9),
    ),
    min_size=1,
    max_size=14,
)


async def done(memory: Memory, clock: FakeClock, step: Step) -> None:
    mine = memory.view(viewer=step.owner)
    records = await mine.list_records()
    match step.kind:
        case "say":
            evidence = Evidence(
                quote=step.text,
                role="user",
                conversation_id=None if step.conversation is None else f"c{step.conversation}",
                position=step.which,
            )
            expires = clock() + dt.timedelta(days=1 + step.which) if step.days % 5 == 0 else None
            await mine.save(
                MultipleFacts(STATEMENT, (step.text,), timestamp=NOW - dt.timedelta(days=step.days)),
                scope=step.scope,
                details=FactDetails(
                    owner=step.owner,
                    evidence=(evidence,),
                    expires_at=expires,
                    origin=Origin.ASSISTANT if step.which == 7 else Origin.USER,
                    flags=(UNREVIEWED,) if step.which == 7 else (),
                ),
            )
        case "seat":
            await mine.save(
                SingleFact(SEAT, step.text, timestamp=NOW - dt.timedelta(days=step.days)),
                subject=SUBJECTS[step.which % 4],
                scope=step.scope,
                details=FactDetails(owner=step.owner),
            )
        case "likes":
            await mine.save(
                MultipleFacts(LIKES, step.text.split(), timestamp=NOW - dt.timedelta(days=step.days)),
                subject=SUBJECTS[step.which % 4],
                scope=step.scope,
                details=FactDetails(owner=step.owner),
            )
        case "later":
            clock.advance(dt.timedelta(days=step.days / 10))
        case _ if not records:
            pass
        case "retract":
            await mine.retract(records[step.which % len(records)].id)
        case "restore":
            id = records[step.which % len(records)].id
            await mine.retract(id)
            await mine.recall("amber")
            await mine.restore(id)
        case "update":
            with contextlib.suppress(StateConflictError):  # another record has this value
                await mine.update(records[step.which % len(records)].id, value=step.text)
        case "forget":
            await mine.forget(records[step.which % len(records)].id)


def seen_from(memory: Memory, sight: Sight) -> Memory:
    """Return the view of a memory."""
    seen = memory.view(viewer=sight.viewer)
    seen = seen.view(reviewed=True) if sight.reviewed else seen
    return seen.view(scopes=sight.view.roots, read_only=True) if sight.view.roots else seen


def scores_of(matches: Sequence[RecallMatch]) -> list[tuple[object, ...]]:
    return [(match.record.id, match.record.value, match.score, match.parts) for match in matches]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join))
def test_a_mirror_kept_up_to_date_is_one_made_anew(happened: list[Step], query: str) -> None:
    """After every step, the fold and every score equal those of a mirror made from the whole log, to the last bit."""

    async def check() -> None:
        provider, clock = InMemoryProvider(), FakeClock(NOW)
        memory = Memory(provider, embedder=HashEmbedder(), clock=clock)
        for step in happened:
            await done(memory, clock, step)
            anew = Memory(provider, embedder=HashEmbedder(), clock=clock)
            for sight in (Sight(), ALICE, IN_VIEW, attrs.evolve(IN_VIEW, reviewed=True)):
                seen = seen_from(memory, sight)
                expected = scores_of(await seen_from(anew, sight).recall(query, limit=50))
                assert scores_of(await seen.recall(query, limit=50)) == expected
                assert scores_of(await seen.recall(query, limit=3)) == expected[:3]
            corpus = await memory._reader.corpus()
            log = await memory._backend.mirror.log()
            wanted = {_shown(row) for row in fold(log, Moment(now=clock()))}
            found = [row for row in corpus.currents(selected(corpus, ALICE, RecallFilter())) if row is not None]
            assert {_shown(row) for row in found} == {row for row in wanted if row[-1] in (None, "alice")}

    anyio.run(check)


def _shown(row: Current) -> tuple[object, ...]:
    said = row.recorded.assertion
    return (row.recorded.id, tuple(item.id for item in row.said), said.details.owner)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.integers(0, 40))
def test_another_moment_is_folded_like_the_log(happened: list[Step], days: int) -> None:
    """As of a day, and as known at a time, the columns give the result of `fold` on the log."""

    async def check() -> None:
        provider, clock = InMemoryProvider(clock=FakeClock(NOW)), FakeClock(NOW)
        memory = Memory(provider, embedder=HashEmbedder(), clock=clock)
        for step in happened:
            await done(memory, clock, step)
        when = NOW - dt.timedelta(days=days)
        for moment in (
            Moment(now=clock(), as_of=when),
            Moment(now=clock(), known_at=NOW - dt.timedelta(days=days - 20)),
        ):
            corpus = await memory._backend.mirror.corpus(moment)
            rows = [_shown(row) for row in fold(await memory._backend.mirror.log(), moment)]
            found = [row for row in corpus.currents(selected(corpus, ALICE, RecallFilter())) if row is not None]
            assert {_shown(row) for row in found} == {row for row in rows if row[-1] in (None, "alice")}

    anyio.run(check)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.sampled_from([ALICE, IN_VIEW, FOR_ADA]))
def test_the_strongest_are_those_that_a_load_would_choose(happened: list[Step], sight: Sight) -> None:
    """Typed facts selected by columns are those that `chosen` selects from the records."""

    async def check() -> None:
        provider, clock = InMemoryProvider(), FakeClock(NOW)
        memory = Memory(provider, embedder=HashEmbedder(), clock=clock)
        for step in happened:
            await done(memory, clock, step)
        corpus = await memory._reader.corpus()
        everything = [row for row in corpus.currents(selected(corpus, sight, RecallFilter())) if row is not None]
        typed = [row for row in everything if row.recorded.assertion.keyword != STATEMENT.keyword]
        strongest = corpus.currents(selected(corpus, sight, RecallFilter(keywords=("seat", "likes"), strongest=True)))
        assert {row.recorded.id for row in strongest if row} == {row.recorded.id for row in chosen(typed, sight.view)}

    anyio.run(check)
