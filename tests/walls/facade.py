"""The paths of `Memory`, its inbox and its administration that read, and the ways to call each."""

from __future__ import annotations

import datetime as dt
import io
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import attrs

from factmem import Concept
from factmem.memory.filters import RecordOrder
from factmem.recall import MetadataCondition
from tests.walls.greedy_analyst import GREEDY_ANALYST
from tests.walls.stores import EARLY
from tests.walls.ways import Asked, Door, Neither, Reads, Shows, Way, each
from tests.walls.worlds import KEYWORDS, MANY, SHARED, Plant, below


@attrs.frozen
class Household:
    """A profile with fields that many places know."""

    home: str | None = None
    pets: list[str] = attrs.field(factory=list)


@attrs.frozen
class HomeOwner:
    """A profile that requires a home."""

    home: str


def _here(plant: Plant, asked: Asked) -> bool:
    return below(plant.scope, asked.scope)


def _exactly(plant: Plant, asked: Asked) -> bool:
    return plant.scope.segments == asked.scope.segments


def _about(plant: Plant, asked: Asked) -> bool:
    return plant.subject.key == asked.subject.key


def _at_place(plant: Plant, asked: Asked) -> bool:
    return _exactly(plant, asked) and _about(plant, asked)


def _among_some(plant: Plant, asked: Asked) -> bool:
    return asked.filled.records[plant.token] in asked.ids


async def _loaded(asked: Asked) -> object:
    keys: list[Concept[Any, Any]] = [Concept.single(plant.concept.keyword, "") for plant in asked.some]
    wrong: list[Concept[Any, Any]] = [Concept.single(keyword, "", int) for keyword in KEYWORDS]
    return await each([*keys, *wrong], lambda concept: asked.reader.load(concept))


async def _pages(asked: Asked) -> object:
    found, page = [], None
    while True:
        listed = await asked.reader.list_records(page=page, limit=4, order_by=RecordOrder.IMPORTANCE, descending=False)
        found.append(listed)
        page = listed.next_page
        if page is None:
            return found


async def _recalled_deeply(asked: Asked, query: str = "the green door", **within: Any) -> object:
    """Recall in depth and return the result's details and everything the analyst was shown."""
    GREEDY_ANALYST.shown.clear()
    settings: dict[str, Any] = {"depth": "deep", "deep": GREEDY_ANALYST.settings, "strict": True}
    found = await asked.reader.recall(query, limit=99, **settings, **within)
    return found.deep, list(GREEDY_ANALYST.shown)


async def _got(asked: Asked) -> object:
    return await each(asked.ids, asked.reader.get)


async def _histories(asked: Asked) -> object:
    keywords = [*KEYWORDS, *(plant.concept.keyword for plant in asked.some)]
    return [await asked.reader.history(keyword) for keyword in keywords]


async def _filtered(asked: Asked) -> object:
    """Return the records found by filters that match only one plant each."""
    found: list[object] = []
    for plant in asked.some[:1]:
        by: list[dict[str, Any]] = [
            {"categories": [f"category-{plant.token}"]},
            {"topics": [f"topic-{plant.token}"]},
            {"sources": [f"source-{plant.token}"]},
            {"metadata": {"note": f"note-{plant.token}"}},
            {"where": [[MetadataCondition("note", f"note-{plant.token}")]]},
            {"concepts": [plant.concept.keyword]},
            {"since": plant.said, "until": plant.said + dt.timedelta(seconds=1)},
        ]
        found += [await asked.reader.list_records(**filters) for filters in by]
    return found


READING: Final[Mapping[str, Door]] = {
    "load": Reads(
        [
            Way(lambda asked: asked.reader.load(SHARED)),
            Way(lambda asked: asked.reader.load(MANY)),
            Way(lambda asked: asked.reader.load(MANY, scope=asked.scope), only=_exactly),
            Way(lambda asked: asked.reader.load(SHARED, subject=asked.subject, scope=asked.scope), only=_at_place),
            Way(_loaded),
        ]
    ),
    "profile": Reads(
        [
            Way(lambda asked: asked.reader.profile(Household)),
            Way(lambda asked: asked.reader.profile(HomeOwner, subject=asked.subject), only=_about),
            Way(lambda asked: asked.reader.profile(Household, partial=True)),
            Way(lambda asked: asked.reader.profile(HomeOwner, scope=asked.scope, partial=True), only=_exactly),
        ]
    ),
    "recall": Reads(
        [
            Way(lambda asked: asked.reader.recall(asked.query, limit=99), whole=True),
            Way(lambda asked: asked.reader.recall(asked.query, limit=3, strongest=True, semantic=False)),
            Way(lambda asked: asked.reader.recall("green door", limit=99, scope=asked.scope), only=_here, whole=True),
            Way(lambda asked: asked.reader.recall("red cat", limit=5, record_ids=asked.ids), only=_among_some),
            Way(lambda asked: asked.reader.recall(asked.query, limit=99, history=True), Shows.EVER),
            Way(_recalled_deeply, whole=True),
            Way(lambda asked: _recalled_deeply(asked, "cat", scope=asked.scope), only=_here, whole=True),
            Way(lambda asked: asked.reader.recall(asked.query, limit=9, depth="deep", strongest=True)),
        ]
    ),
    "get": Reads([Way(_got, only=_among_some, whole=True)]),
    "history": Reads(
        [
            Way(_histories, Shows.EVER),
            Way(lambda asked: asked.reader.history(SHARED), Shows.EVER),
            Way(lambda asked: asked.reader.history("pets", labels={"run": f"run-{asked.some[0].token}"}), Shows.EVER),
            Way(
                lambda asked: asked.reader.history("statement", subject=asked.subject, scope=asked.scope),
                Shows.EVER,
                only=_at_place,
            ),
        ]
    ),
    "list_records": Reads(
        [
            Way(lambda asked: asked.reader.list_records(), whole=True),
            Way(lambda asked: asked.reader.list_records(scope=asked.scope), only=_here, whole=True),
            Way(lambda asked: asked.reader.list_records(scope=asked.scope, exact=True), only=_exactly, whole=True),
            Way(lambda asked: asked.reader.list_records(subject=asked.subject), only=_about, whole=True),
            Way(lambda asked: asked.reader.list_records(record_ids=asked.ids), only=_among_some, whole=True),
            Way(lambda asked: asked.reader.list_records(strongest=True, limit=4, offset=1)),
            Way(_filtered),
            Way(_pages, whole=True),
        ]
    ),
    "info": Reads(
        [
            Way(lambda asked: asked.reader.admin.info(), whole=True),
            Way(lambda asked: asked.reader.admin.info(asked.scope, exact=True), only=_exactly, whole=True),
            Way(lambda asked: asked.reader.admin.info(asked.scope, subjects=[asked.subject]), only=_here),
        ]
    ),
    "tree": Reads(
        [
            Way(lambda asked: asked.reader.admin.tree()),
            Way(lambda asked: asked.reader.admin.tree(asked.scope), only=_here),
        ]
    ),
}
"""Reads of a memory as it is, and as it was at another moment."""


async def _exported(asked: Asked) -> object:
    file = io.StringIO()
    return await asked.memory.admin.export(file), file.getvalue()


async def _audited(asked: Asked) -> object:
    found, page = [], None
    while True:
        trail = await asked.memory.admin.audit(page=page, limit=20)
        found.append(trail)
        page = trail.next_page
        if page is None:
            return found


async def _audited_one_by_one(asked: Asked) -> object:
    return await each(asked.ids, asked.memory.admin.audit)


async def _accessed(asked: Asked) -> object:
    """Return the access counts returned for all ids, and the tokens of records that hold nothing else."""
    found = await each(asked.ids, asked.memory.admin.accesses)
    alone = Counter(asked.filled.records.values())
    tokens = {id: token for token, id in asked.filled.records.items() if alone[id] == 1}
    return found, [tokens.get(id) for told in found if isinstance(told, dict) for id in told]


WAITING: Final[Mapping[str, Door]] = {
    "accesses": Reads([Way(_accessed, only=_among_some)]),
    "audit": Reads(
        [
            Way(_audited, Shows.KEPT, whole=True),
            Way(_audited_one_by_one, Shows.KEPT, only=_among_some),
            Way(lambda asked: asked.memory.admin.audit(scope=asked.scope, limit=999), Shows.KEPT, only=_here),
            Way(lambda asked: asked.memory.admin.audit(subject=asked.subject, flagged=False), Shows.KEPT, only=_about),
        ]
    ),
    "export": Reads([Way(_exported, Shows.KEPT, whole=True)]),
    "traces": Reads([Way(lambda asked: asked.memory.admin.traces(*asked.ids), Shows.KEPT)]),
    "reads_words": Neither("says whether there is a model"),
    "quarantine": Neither("returns a Quarantine, whose own paths are listed"),
    "dead_letters": Neither("returns DeadLetters, whose own paths are listed"),
    "view": Neither("returns a view, whose own paths are tested; one of another moment by all calls of READING"),
    "for_user": Neither("returns a view, whose own paths are tested"),
    "scope": Neither("returns a view, whose own paths are tested"),
    "inbox": Neither("returns an Inbox, whose own paths are listed"),
    "admin": Neither("returns an Admin, whose own paths are listed"),
    "extract": Neither("splits a text, and reads nothing stored"),
    "calibrate": Neither("returns two numbers, measured on what list_records and recall show"),
    "aclose": Neither("closes it"),
}


def at_other_moments(asked: Asked) -> list[tuple[str, Asked]]:
    """Return the same memory as it was at other times."""
    memory = asked.memory
    return [
        ("as_of", attrs.evolve(asked, reader=memory.view(as_of=asked.some[0].said))),
        ("known_at", attrs.evolve(asked, reader=memory.view(known_at=EARLY))),
    ]
