"""The paths of pending words: quarantine, dead letters, submissions and events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tests.walls.ways import Asked, Door, Neither, Reads, Shows, Way, Writes, each


async def _decided(done: Callable[[str], Awaitable[object]], ids: list[str]) -> object:
    return await each(ids, done)


def _entries(asked: Asked) -> list[str]:
    return [asked.filled.entries[plant.token] for plant in asked.filled.world.plants if plant.fate.apart]


def _letters(asked: Asked) -> list[str]:
    return [f"job-{plant.token}" for plant in asked.filled.world.plants]


async def _pages(asked: Asked) -> object:
    found, page = [], None
    while True:
        listed = await asked.memory.inbox.quarantine.list(page=page, limit=2, descending=True)
        found.append(listed)
        page = listed.next_page
        if page is None:
            return found


QUARANTINE: Final[Mapping[str, Door]] = {
    "list": Reads(
        [
            Way(lambda asked: asked.memory.inbox.quarantine.list(), Shows.APART, whole=True),
            Way(_pages, Shows.APART, whole=True),
            Way(lambda asked: asked.memory.inbox.quarantine.list(rejected=True), Shows.REJECTED, whole=True),
        ]
    ),
    "count": Neither("counts what list shows, and is compared with it in poison/test_quota.py"),
    "reject": Writes([Way(lambda asked: _decided(asked.memory.inbox.quarantine.reject, _entries(asked)), Shows.KEPT)]),
    "accept": Writes([Way(lambda asked: _decided(asked.memory.inbox.quarantine.accept, _entries(asked)), Shows.KEPT)]),
}

DEAD_LETTERS: Final[Mapping[str, Door]] = {
    "list": Reads([Way(lambda asked: asked.memory.inbox.dead_letters.list(), Shows.LETTERS, whole=True)]),
    "retry": Writes(
        [Way(lambda asked: _decided(asked.memory.inbox.dead_letters.retry, _letters(asked)[::2]), Shows.KEPT)]
    ),
    "dismiss": Writes(
        [Way(lambda asked: _decided(asked.memory.inbox.dead_letters.dismiss, _letters(asked)), Shows.NOTHING)]
    ),
}

_WHOLE: Final = "a submission is handed back by what writes, where it is looked at with all that it has"
SUBMISSION: Final[Mapping[str, Door]] = {
    "ids": Neither(_WHOLE),
    "wait": Neither(_WHOLE),
    "outcomes": Neither(_WHOLE),
    "pending": Neither(_WHOLE),
    "failures": Neither(_WHOLE),
    "dropped": Neither("is a count, without content"),
    "skipped": Neither("is a count, without content"),
    "drop": Neither("is called by the submitter, to count parts not kept"),
    "outcome": Neither("is one of the outcomes"),
    "skip": Neither("is called by the submitter, to count events not kept again"),
    "settle": Neither("is called by the reader, to report outcomes"),
    "postpone": Neither("is called by the reader, once the budget is spent"),
    "end": Neither("is called by the reader, to report the end"),
}
