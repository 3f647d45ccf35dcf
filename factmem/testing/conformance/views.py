"""Specs: a view is a world of its own; nothing that it returns depends on facts outside."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from typing import Any, Final

import attrs

from factmem.abc import AgentMemoryProvider, KeepsHistory
from factmem.facts import STATEMENT, MultipleFacts, SingleFact
from factmem.memory import Memory
from factmem.recall import RecallMatch
from factmem.scopes import MemoryScope
from factmem.testing.clocks import FakeClock
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import CITY, USER
from factmem.testing.embedders import HashEmbedder

__all__ = ["ViewSpecs"]

_NOW: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_INSIDE: Final = (MemoryScope.product("alpha"), MemoryScope.product("alpha") / "notes")
_OUTSIDE: Final = (MemoryScope.product("alphabet"), MemoryScope.product("secret"), MemoryScope.CROSS_PRODUCT)
_WORDS: Final = [
    "amber",
    "car",
    "vehicle",
    "trip",
    "travel",
    "harbor",
    "doctor",
    "physician",
    "garden",
    "roof",
    "window",
    "letter",
]
_WORLDS: Final = 4


@attrs.frozen
class _Note:
    """A statement of a random world."""

    text: str
    said_at: dt.datetime
    scope: MemoryScope
    owner: str | None = None


def _notes(chance: random.Random, owners: Sequence[str | None]) -> list[_Note]:
    return [
        _Note(
            f"{' '.join(chance.choices(_WORDS, k=chance.randrange(2, 7)))} {number}",
            _NOW - dt.timedelta(days=number),
            chance.choice((*_INSIDE, *_OUTSIDE)),
            chance.choice(owners),
        )
        for number in range(24)
    ]


def _memory(provider: AgentMemoryProvider, tenant: str) -> Memory:
    scopes = (*_INSIDE, *_OUTSIDE)
    clock = FakeClock(_NOW)
    return Memory(provider, organization=tenant, subjects=[USER], scopes=scopes, embedder=HashEmbedder(64), clock=clock)


async def _filled(
    provider: AgentMemoryProvider, tenant: str, notes: Sequence[_Note], cities: Sequence[MemoryScope]
) -> Memory:
    memory = _memory(provider, tenant)
    for note in notes:
        said = MultipleFacts(STATEMENT, (note.text,), timestamp=note.said_at)
        private = True if note.owner else None
        await memory.as_viewer(note.owner).save(said, subject=USER, scope=note.scope, private=private)
    # At times of their own: the name of the organization orders what is said at once.
    for hours, scope in enumerate(cities, start=1):
        fact = SingleFact(CITY, "Oslo", timestamp=_NOW - dt.timedelta(hours=hours))
        await memory.save(fact, subject=USER, scope=scope)
    return memory


async def _shown(view: Memory, chance: random.Random) -> list[object]:
    """Return what a view shows: values, scores and counts, without ids and numbers of revisions."""
    shown: list[Any] = [await view.load(CITY, subject=USER, scope=_INSIDE[0])]
    for _ in range(4):
        query = " ".join(chance.sample(_WORDS, 3))
        options: dict[str, Any]
        for options in ({}, {"semantic": False}, {"scope": _INSIDE[1]}, {"min_score": 0.2}):
            # The name of the organization orders equal scores of the same time; the four verbs keep one time a concept.
            matches = sorted(await view.recall(query, limit=99, **options), key=_rank)
            shown.append([(it.record.value, str(it.record.scope), it.score, it.parts, it.reasons) for it in matches])
    shown.append([record.value for record in await view.list_records()])
    return [*shown, await view.info(), str(await view.tree())]


def _rank(match: RecallMatch) -> tuple[float, float, str]:
    return -match.score, -match.record.fact.timestamp.timestamp(), str(match.record.value)


class ViewSpecs(ProviderCase):
    """Specs of views, in two organizations of one store, of which one holds what lies outside as well."""

    async def test_what_a_view_returns_depends_on_nothing_outside(self, provider: AgentMemoryProvider) -> None:
        """Scores too: their statistics tell which words occur in other scopes otherwise."""
        for seed in range(_WORLDS):
            chance = random.Random(seed)
            notes = _notes(chance, [None])
            inside = [note for note in notes if note.scope in _INSIDE]
            whole = await _filled(provider, f"whole {seed}", notes, (_INSIDE[0], _OUTSIDE[0]))
            alone = await _filled(provider, f"alone {seed}", inside, _INSIDE[:1])
            shown = await _shown(alone.scope(_INSIDE[0]), random.Random(seed))
            assert await _shown(whole.scope(_INSIDE[0]), random.Random(seed)) == shown
            assert await whole.scope(_INSIDE[0]).recall(inside[0].text, limit=99)

    async def test_what_a_viewer_is_shown_depends_on_nothing_that_others_own(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        for seed in range(_WORLDS):
            chance = random.Random(seed)
            notes = _notes(chance, [None, "ann", "ben"])
            visible = [note for note in notes if note.owner != "ben"]
            whole = await _filled(provider, f"whole {seed}", notes, (_INSIDE[0], _OUTSIDE[0]))
            alone = await _filled(provider, f"alone {seed}", visible, (_INSIDE[0], _OUTSIDE[0]))
            shown = await _shown(alone.as_viewer("ann"), random.Random(seed))
            assert await _shown(whole.as_viewer("ann"), random.Random(seed)) == shown
