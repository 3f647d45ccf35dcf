"""Fork processes that work on a store until they are done or killed; a new interpreter for each would take too long.

Every line on standard input is a command in JSON: the action ``do``, the ``address``, the ``first`` number and the
``count`` of numbers, the number of ``processes``, and the address of a ``scratch`` store. Printed on standard output,
each line by one system call: ``started <pid>`` for each process; ``kept <number>``, ``gone <number>`` or
``bound <number>`` for each piece of work that returned; ``refused <number> <error>`` for one that factmem
refused; ``loaded <value>``; ``failed <error>`` for anything else; and ``ended`` when all processes of the order
are gone.
"""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import anyio
import attrs
import numpy as np
from anyio.to_thread import run_sync  # noqa: F401  # every import that a child would make, made once

from factmem.abc.capabilities import Append, EmbedderIdentity
from factmem.abc.provider import AgentMemoryProvider
from factmem.errors import CorruptStoreError, ProviderError
from factmem.facts import Concept
from factmem.providers.registry import open_provider, provider_entry_points
from factmem.records import Place, Recorded, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

NUMBERS = Concept.multiple("numbers", "Two values a save, so that half a save would show")
CITY = Concept.single("city", "Where the person lives")
USER = MemorySubject("user")
PLANNER = MemoryScope.agent("planner")
TASKS = 4
GO = signal.SIGUSR1
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
EMBEDDERS = [EmbedderIdentity(name=f"embedder {number}", dimension=8) for number in range(2)]


@attrs.frozen
class Order:
    """Command for a worker process; see the module."""

    do: str
    address: str
    first: int = 0
    count: int = 1
    processes: int = 1
    scratch: str = ""
    max_bytes: int = 0


Work: TypeAlias = Callable[[Order, range], Awaitable[None]]


def tell(line: str) -> None:
    """Report by a system call that no test makes fail."""
    os.writev(1, [f"{line}\n".encode()])


def kind_of(error: ProviderError) -> str:
    """Return the name of an error; all errors of damage share one."""
    return "CorruptStoreError" if isinstance(error, CorruptStoreError) else type(error).__name__


def scope_of(number: int) -> MemoryScope:
    return MemoryScope.agent(f"{number % 2}")


async def keep(provider: Any, number: int) -> None:
    """Save two values at once, every third time with their vectors."""
    fact = NUMBERS.fact([f"{number} a", f"{number} b"], timestamp=NOON + dt.timedelta(seconds=number))
    if number % 3:
        await provider.save(fact, USER, scope_of(number))
        return
    assertions = assertions_of(fact, Place(USER, scope_of(number)))
    await provider.append([Append(assertion=said, vector=vector(number)) for said in assertions])


def vector(number: int) -> Any:
    return np.roll(np.arange(1.0, 9.0, dtype=np.float32), number % 8)


async def save(order: Order, numbers: range) -> None:
    """Save numbers from several tasks."""
    async with open_provider(order.address) as provider:
        bound: Any = provider
        await bound.use_embedder(EMBEDDERS[0])

        async def save_every(start: int) -> None:
            for number in numbers[start::TASKS]:
                try:
                    await keep(provider, number)
                except ProviderError as error:
                    tell(f"refused {number} {kind_of(error)}")
                    return
                tell(f"kept {number}")

        async with anyio.create_task_group() as tasks:
            for start in range(TASKS):
                tasks.start_soon(save_every, start)


async def erase(order: Order, numbers: range) -> None:
    """Erase numbers one after another."""
    async with open_provider(order.address) as provider:
        for number in numbers:
            receipt = await erased(provider, number)
            tell(f"{'pending' if receipt.pending else 'gone'} {number}")


async def erased(provider: Any, number: int) -> Any:
    entries = await provider.entries(Place(USER, scope_of(number)))
    mine = {f"{number} a", f"{number} b"}
    found = [entry for entry in entries if isinstance(entry, Recorded) and entry.assertion.data in mine]
    return await provider.erase([entry.record_id for entry in found], tenant=None)


async def bind(order: Order, numbers: range) -> None:
    """Change the embedder repeatedly, and give every assertion a vector of the new one."""
    async with open_provider(order.address) as opened:
        provider: Any = opened
        for number in numbers:
            await provider.use_embedder(EMBEDDERS[number % 2], replace=True)
            changes: Sequence[Any] = await provider.changes(None)
            seqs = [entry.seq for entry in changes if isinstance(entry, Recorded)]
            await provider.put_vectors(None, {seq: vector(seq) for seq in seqs})
            tell(f"bound {number}")


async def move(order: Order, numbers: range) -> None:
    """Save a city twice with one provider, then load it, after a signal that a tracer is attached."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {GO})
    await dry_run(order.scratch)
    opened = open_provider(order.address)
    tell("ready 0")
    signal.sigwait({GO})
    async with opened as provider:
        for number in numbers:
            await save_city(provider, number)
        try:
            fact = await provider.load(CITY, USER, PLANNER)
            tell(f"loaded {fact.values[0] if fact else None}")
        except ProviderError as error:
            tell(f"refused -1 {kind_of(error)}")
    tell("closed 0")


async def dry_run(address: str) -> None:
    """Do everything once in another store, so that imports on first use are done."""
    async with open_provider(address) as provider:
        fact = CITY.fact(["nowhere"], timestamp=NOON)
        await provider.save(fact, USER, PLANNER)
        await provider.load(CITY, USER, PLANNER)


async def save_city(provider: AgentMemoryProvider, number: int) -> None:
    fact = CITY.fact([f"city {number}"], timestamp=NOON + dt.timedelta(seconds=number))
    try:
        await provider.save(fact, USER, PLANNER)
    except ProviderError as error:
        tell(f"refused {number} {kind_of(error)}")
    else:
        tell(f"kept {number}")


WORK: dict[str, Work] = {"save": save, "erase": erase, "bind": bind, "move": move}


def fork(order: Order, numbers: range) -> int:
    pid = os.fork()
    if pid:
        tell(f"started {pid}")
        return pid
    gc.freeze()
    if order.max_bytes:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (order.max_bytes, order.max_bytes))
    try:
        anyio.run(WORK[order.do], order, numbers)
    except BaseException as error:
        tell(f"failed {error!r}")
        os._exit(1)
    os._exit(0)


def main() -> None:
    for entry_point in provider_entry_points().values():
        entry_point.load()
    for line in sys.stdin:
        order = Order(**json.loads(line))
        starts = range(order.first, order.first + order.count * order.processes, order.count)
        for pid in [fork(order, range(start, start + order.count)) for start in starts]:
            os.waitpid(pid, 0)
        tell("ended")


if __name__ == "__main__":
    main()
