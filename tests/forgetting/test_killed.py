"""An erasure interrupted by kill -9 is finished when the store is next opened, and leaves no trace."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from factmem import AgentMemoryProvider, Memory
from tests.conftest import Promise
from tests.forgetting.erasing_processes import keep_erasing
from tests.forgetting.stores import STAYS_PENDING, DenseEmbedder, hits, word

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.forgetting.erasing_processes"])
KINDS = ("keyword", "a", "b")


def killed_while_erasing(kind: str, folder: Path, start: int, after: float) -> tuple[list[int], int]:
    """Run a process that erases and kill it; return its completed erasures and the one it began last."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=keep_erasing, args=(kind, folder, start, sender))
    process.start()
    sender.close()
    seen = [receiver.recv()]
    time.sleep(after)
    process.kill()
    process.join()
    try:
        while True:
            seen.append(receiver.recv())
    except EOFError:
        pass
    return [number for what, number in seen if what == "erased"], seen[-1][1]


@pytest.mark.timeout(3600)
async def test_kill_9_in_the_middle_of_erasing(
    kind: str, opened: Callable[[], AgentMemoryProvider], folder: Path, promise: Promise, big: bool
) -> None:
    """Acknowledged erasures are complete at once. Other records are unchanged, or gone once erasing is finished."""
    kills, inside, start = 200 if big else 4, 0, 0
    kept: set[str] = set()
    chance = random.Random(3)
    for _ in range(kills):
        done, last = killed_while_erasing(kind, folder, start, chance.uniform(0, 0.06))
        start = last + 2
        assert hits(folder, [word(what, number) for number in done for what in KINDS]) == []
        async with opened() as provider:
            memory = Memory(provider, embedder=DenseEmbedder())
            assert not (await memory.admin.expire()).pending or kind in STAYS_PENDING
            records = await memory.list_records()
            there = {record.value for record in records}
            begun = [what for what in ("a", "b") if word(what, last) in there]
            assert begun in ([], ["a", "b"])
            inside += last not in done
            assert hits(folder, [] if begun else [word(what, last) for what in KINDS]) == []
            kept |= {word("kept", number) for number in (*done, last)}
            assert kept <= there
            if left := [record.id for record in records if record.value not in kept]:
                await memory.forget(*left)
    promise(f"erase, killed, {kind}", f"{kills} kills, {inside} inside an erasure: 0 hits once it is finished")
