"""Fork processes that submit texts until they are done or killed; a new interpreter for each would take too long.

Every line on standard input is a command: ``address<TAB>first number<TAB>count``. Printed on standard output:
``started <pid>``, ``handed <first> <end>`` for each submission that returned, ``failed <error>``, and ``ended`` when
the process is gone. With arguments (``mode address first count``) it submits once and ends in that mode.
"""

from __future__ import annotations

import os
import sys
from typing import Final

import anyio
import numpy  # noqa: F401  # every import that a child would make, made once
from anyio.to_thread import run_sync  # noqa: F401

from factmem import Background, BlockingMemory, Concept, Conversation, Memory, MemorySubject, Message, Policies
from factmem.abc import Candidate, Detection, DetectionRequest
from factmem.details import Evidence, FactDetails, Origin
from factmem.providers.registry import provider_entry_points
from factmem.testing import HashEmbedder

USER: Final = MemorySubject("user")
NUMBERS: Final = Concept.multiple("numbers", "Numbers that were said", int)
TOGETHER: Final = 4


def text_of(number: int) -> str:
    return f"My number is {number}."


class SlowDetector:
    """A detector that finds the number of each message, after a delay."""

    def __init__(self, pause: float) -> None:
        self._pause = pause

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        await anyio.sleep(self._pause)
        return Detection(candidates=[_candidate(message, conversation.id) for message in conversation.messages])


def _candidate(message: Message, conversation_id: str | None) -> Candidate:
    assert message.timestamp is not None
    number = int(message.content.split()[-1].rstrip("."))
    evidence = Evidence(quote=message.content, message_id=message.id, conversation_id=conversation_id, role="user")
    fact = NUMBERS.fact([number], timestamp=message.timestamp)
    return Candidate(fact=fact, details=FactDetails(evidence=(evidence,), origin=Origin.USER))


def memory_at(address: str, *, pause: float | None = 0.0) -> Memory:
    """Open a memory; without a delay, one that reads nothing."""
    return Memory(
        address,
        concepts=[NUMBERS],
        embedder=HashEmbedder(),
        detector=None if pause is None else SlowDetector(pause),
        policies=Policies(keep_words=False),
        background=Background(concurrency=2),
    )


def batch(start: int, end: int) -> list[Message]:
    return [Message(content=text_of(number), id=str(number)) for number in range(start, end)]


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def submit(address: str, first: int, count: int) -> None:
    async with memory_at(address, pause=0.002) as memory:
        for start in range(first, first + count, TOGETHER):
            end = min(start + TOGETHER, first + count)
            submission = await memory.remember_many(batch(start, end), subject=USER)
            tell(f"handed {start} {end}")
            if start // TOGETHER % 3 == 2:  # so that a kill may also interrupt the application of results
                await submission.wait()


async def submit_and_leave(way: str, address: str, first: int, count: int) -> None:
    """Submit to a model that takes an hour, and end this process without closing anything."""
    memory = await memory_at(address, pause=3600).__aenter__()
    await memory.remember_many(batch(first, first + count), subject=USER)
    tell(f"handed {first} {first + count}")
    if way == "_exit":
        os._exit(0)
    if way == "sys.exit":
        sys.exit(0)


def submit_blocking(address: str, first: int, count: int) -> None:
    with BlockingMemory(memory_at(address, pause=3600)) as memory:
        memory.remember_many(batch(first, first + count), subject=USER)
        tell(f"handed {first} {first + count}")
        sys.exit(0)


def fork(address: str, first: int, count: int) -> int:
    pid = os.fork()
    if pid:
        tell(f"started {pid}")
        return pid
    try:
        anyio.run(submit, address, first, count)
    except BaseException as error:
        tell(f"failed {error!r}")
        os._exit(1)
    os._exit(0)


def main() -> None:
    for name in ("file", "sqlite-vec"):
        provider_entry_points()[name].load()
    match sys.argv[1:]:
        case ["blocking", address, first, count]:
            submit_blocking(address, int(first), int(count))
        case [way, address, first, count]:
            anyio.run(submit_and_leave, way, address, int(first), int(count))
        case _:
            for line in sys.stdin:
                address, first, count = line.rstrip("\n").split("\t")
                os.waitpid(fork(address, int(first), int(count)), 0)
                tell("ended")


if __name__ == "__main__":
    main()
