"""The paths of `Memory` that write, called with ids of any owner; their results are searched like answers."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import attrs

from factmem import (
    Change,
    ChangeKind,
    Concept,
    Conversation,
    Fact,
    FactRecord,
    Memory,
    MemoryScope,
    Message,
    MultipleFacts,
    Origin,
    SingleFact,
)
from factmem.facts import STATEMENT
from factmem.memory.background import Submission
from factmem.memory.submitted import StoredSession
from tests.walls.facade import Household
from tests.walls.ways import Asked, Door, Shows, Way, Writes, each, outcome, plain, unnamed_scope
from tests.walls.worlds import MANY, NOW, SHARED, Plant

MARK: Final = "owned"
"""Mark of all texts that a caller writes itself."""

OPENLY: Final = f"{MARK}openly"
"""Mark of its public texts."""

ALONE: Final = f"{MARK}alone"
"""Mark of its private texts."""


def _mark(about: Mapping[str, Any]) -> str:
    return ALONE if about["private"] else OPENLY


def _keyword(plant: Plant) -> str:
    return "thing" if plant.token in plant.concept.keyword else plant.concept.keyword


async def _both(asked: Asked, made: Callable[..., Awaitable[object]]) -> object:
    """Return a public and a private text, sharing their subject with texts of others."""
    found: list[object] = []
    for private in (False, True) if asked.caller.viewer else (False,):
        for plant in asked.near:
            about = {"subject": plain(plant.subject), "scope": unnamed_scope(plant.scope), "private": private}
            found.append(await outcome(partial(made, plant, about)))
    return found


async def _done(submission: Submission) -> object:
    return await submission.wait(), submission, submission.ids, submission.pending, submission.failures


async def _saved(asked: Asked, plant: Plant, about: dict[str, Any]) -> object:
    """Save facts of keywords that others use as well, with types of their own."""
    facts: list[Fact[Any]] = [
        SHARED.fact([f"{MARK} house"], timestamp=NOW),
        Concept.single(SHARED.keyword, "", int).fact([7], timestamp=NOW),
        Concept.multiple(SHARED.keyword, "", str).fact([f"{MARK} hut"], timestamp=NOW),
        Concept.multiple(MANY.keyword, "", dict[str, int]).fact([{MARK: 1}], timestamp=NOW),
        Concept.single(_keyword(plant), "", int).fact([8], timestamp=NOW),
    ]
    return await each(facts, partial(asked.memory.save, **about))


async def _remembered(asked: Asked, plant: Plant, about: dict[str, Any]) -> object:
    """Remember a text, and a conversation that shares its name and its messages' names with others."""
    said = Message(content=f"{plant.words} {_mark(about)}. I have a {_mark(about)}cat.", id="m-1", timestamp=NOW)
    read = Message(content=f"{plant.words} {_mark(about)} page.", role="tool", id="m-2", timestamp=NOW)
    memory = asked.memory
    found = [
        await memory.remember(f"{plant.words} {_mark(about)}", **about),
        await memory.remember(Conversation(messages=[said, read], id=plant.talk), **about),
    ]
    if asked.caller.reaches(MemoryScope.CROSS_PRODUCT.within(asked.caller.tenant)):
        about = {**about, "scope": None}
        found.append(await memory.remember(f"{_mark(about)} {plant.words}", **about))
    return found


async def _submitted(asked: Asked, plant: Plant, about: dict[str, Any]) -> object:
    return await _done(await asked.memory.remember_many([f"{plant.words} {_mark(about)} many"], **about))


async def _generated(asked: Asked, plant: Plant, about: dict[str, Any]) -> object:
    memory = asked.memory
    facts: list[Fact[Any]] = [
        SingleFact(SHARED, f"{_mark(about)} {plant.words}", timestamp=NOW),
        MultipleFacts(STATEMENT, (f"{plant.words} {_mark(about)}",)),
    ]
    messages = [Message(content=f"I have a {_mark(about)}dog. {plant.words}", timestamp=NOW)]
    stored = StoredSession(id=plant.talk)
    return [
        await _done(await memory.generate(facts, **about)),
        await _done(await memory.generate(messages, **about)),
        await outcome(lambda: _of_session(memory, stored, about)),
    ]


async def _of_session(memory: Memory, stored: StoredSession, about: dict[str, Any]) -> object:
    return await _done(await memory.generate(stored, **about))


async def _ingested(asked: Asked, plant: Plant, about: dict[str, Any]) -> object:
    events = [Message(content=f"{plant.words} {_mark(about)} event", id="m-1", timestamp=NOW)]
    return await _done(await asked.memory.inbox.ingest_events(plant.talk, events, flush=True, **about))


async def _resumed(asked: Asked) -> object:
    return await _done(await asked.memory.inbox.resume())


async def _undone(asked: Asked) -> object:
    """Undo changes that are made up from known ids."""
    own = await asked.memory.list_records(limit=1)
    if not own:
        return None
    made_up = [
        Change(kind=kind, record=_named(own[0], id), previous=_named(own[0], id))
        for id in asked.ids
        for kind in ChangeKind
    ]
    return await each(made_up, lambda change: asked.memory.undo([change]))


def _named(record: FactRecord[Any], id: str) -> FactRecord[Any]:
    return attrs.evolve(record, id=id)


async def _rolled_back(asked: Asked) -> object:
    numbers = [asked.filled.revisions[plant.token] for plant in asked.some]
    return await each(numbers, asked.memory.rollback)


async def _imported(asked: Asked) -> object:
    file = io.StringIO()
    await asked.memory.admin.export(file)
    return await asked.memory.admin.import_(io.StringIO(file.getvalue()))


async def _reembedded(asked: Asked) -> object:
    return await asked.memory.admin.reembed()


WRITING: Final[Mapping[str, Door]] = {
    "resume": Writes([Way(_resumed, Shows.KEPT)]),
    "save": Writes([Way(lambda asked: _both(asked, lambda plant, about: _saved(asked, plant, about)), Shows.KEPT)]),
    "save_many": Writes(
        [
            Way(
                lambda asked: asked.memory.save_many(
                    [(MANY.fact([f"{MARK} newt"], timestamp=NOW), asked.subject, asked.scope)]
                ),
                Shows.KEPT,
            )
        ]
    ),
    "save_profile": Writes(
        [
            Way(
                lambda asked: asked.memory.save_profile(
                    Household(home=f"{MARK} flat", pets=[MARK]), subject=asked.subject, scope=asked.scope
                ),
                Shows.KEPT,
            )
        ]
    ),
    "remember": Writes(
        [Way(lambda asked: _both(asked, lambda plant, about: _remembered(asked, plant, about)), Shows.KEPT)]
    ),
    "remember_many": Writes(
        [Way(lambda asked: _both(asked, lambda plant, about: _submitted(asked, plant, about)), Shows.KEPT)]
    ),
    "generate": Writes(
        [Way(lambda asked: _both(asked, lambda plant, about: _generated(asked, plant, about)), Shows.KEPT)]
    ),
    "ingest_events": Writes(
        [Way(lambda asked: _both(asked, lambda plant, about: _ingested(asked, plant, about)), Shows.KEPT)]
    ),
    "flush": Writes([Way(lambda asked: asked.memory.inbox.flush(), Shows.NOTHING)]),
    "update": Writes(
        [
            Way(lambda asked: each(asked.ids, partial(asked.memory.update, importance=0.3)), Shows.KEPT),
            Way(lambda asked: each(asked.ids, partial(asked.memory.update, scope=asked.scope)), Shows.KEPT),
            Way(
                lambda asked: each(asked.ids, partial(asked.memory.update, value=MARK, origin=Origin.TOOL)), Shows.KEPT
            ),
        ]
    ),
    "retract": Writes([Way(lambda asked: each(asked.ids, asked.memory.retract), Shows.KEPT)]),
    "restore": Writes([Way(lambda asked: each(asked.ids, asked.memory.restore), Shows.KEPT)]),
    "rollback": Writes([Way(_rolled_back, Shows.KEPT)]),
    "undo": Writes([Way(_undone, Shows.KEPT)]),
    "import_": Writes([Way(_imported, Shows.NOTHING)]),
    "expire": Writes(
        [
            Way(lambda asked: asked.memory.admin.expire(dry_run=True, revisions=dt.timedelta()), Shows.NOTHING),
            Way(lambda asked: asked.memory.admin.expire(revisions=dt.timedelta()), Shows.NOTHING),
        ]
    ),
    "forget": Writes(
        [
            Way(lambda asked: asked.memory.forget(until=NOW, dry_run=True), Shows.KEPT),
            Way(lambda asked: asked.memory.forget(*asked.ids, dry_run=True), Shows.KEPT),
            Way(lambda asked: asked.memory.forget(scope=asked.scope, dry_run=True), Shows.KEPT),
            Way(lambda asked: asked.memory.forget(record_ids=asked.ids[:3]), Shows.KEPT),
            Way(lambda asked: each(asked.ids, asked.memory.forget), Shows.KEPT),
            Way(lambda asked: asked.memory.forget(scope=asked.scope), Shows.KEPT),
        ]
    ),
    "reset": Writes([Way(lambda asked: asked.memory.admin.reset(asked.scope), Shows.KEPT)]),
    "convert": Writes(
        [
            Way(
                lambda asked: asked.memory.admin.convert(MANY.keyword, Concept.multiple(f"{MARK} pets", "")),
                Shows.NOTHING,
            )
        ]
    ),
    "merge": Writes([Way(lambda asked: asked.memory.admin.merge(asked.subject, f"user:{MARK}"), Shows.NOTHING)]),
    "reembed": Writes([Way(_reembedded, Shows.NOTHING)]),
}
"""In the order of calls: those that remove most come last."""
