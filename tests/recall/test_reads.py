"""Reads of the store, counted; reading makes no store, and works where writing is impossible."""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint
from factmem_sqlite_vec import SqliteVecMemoryProvider
from numpy.typing import NDArray
from typing_extensions import override

from factmem import Concept, FactDetails, InMemoryProvider, Memory, MemoryScope, Message, SingleFact, open_provider
from factmem.abc.capabilities import KeepsLog
from factmem.errors import EmbedderMismatchError, StoreUnavailableError
from factmem.recall import queries, ranking
from factmem.recall.index import mirror, postings, vector_slots
from factmem.recall.ranking import Ranker, _candidates
from factmem.records import Recorded
from factmem.short_work import at_once, may_wait
from factmem.subjects import MemorySubject
from factmem.testing import HashEmbedder
from tests.memory.test_verification import CITY, Finding, told


class Counting(SqliteVecMemoryProvider):
    """A provider that counts the reads of assertions and of the newest number."""

    counts: Counter[str]

    @override
    def newest(self, tenant: str | None) -> int:
        self.counts["newest"] += 1
        return super().newest(tenant)

    @override
    def recorded(self, tenant: str | None, seqs: Sequence[int]) -> tuple[Sequence[Recorded | None], int]:
        self.counts["reads"] += 1
        self.counts["reads on the loop"] += threading.current_thread() is threading.main_thread()
        self.counts["assertions"] += len(seqs)
        return super().recorded(tenant, seqs)


@pytest.fixture
def provider(tmp_path: Path) -> Counting:
    provider = Counting(tmp_path / "facts.db")
    provider.counts = Counter()
    return provider


async def test_a_recall_after_an_own_write_asks_once_and_reads_no_results_in_vain(provider: Counting) -> None:
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.remember_many([f"amber {number}" for number in range(30)])
        for _ in range(2):
            await memory.recall("amber", limit=3)
        await memory.remember("amber basil cedar")
        provider.counts.clear()
        (found,) = await memory.recall("amber basil cedar", limit=1)
        assert found.record.value == "amber basil cedar"
    assert (provider.counts["newest"], provider.counts["reads"]) == (1, 1)


async def test_an_update_reads_no_records_of_other_values(provider: Counting) -> None:
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.remember_many([f"amber {number}" for number in range(200)])
        (record,) = await memory.recall("amber 7", limit=1)
        provider.counts.clear()
        await memory.update(record.record.id, value="a new value")
    assert provider.counts["assertions"] <= 5


@pytest.mark.parametrize("decision", ["accept", "reject", "forget"])
async def test_a_decision_about_one_entry_of_the_quarantine_reads_no_others(provider: Counting, decision: str) -> None:
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.remember_many([Message(content=f"Door {number} is red.", role="tool") for number in range(200)])
        waiting = [record.id for record in await memory.inbox.quarantine.list()]
        assert len(waiting) == 200
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        decide = memory.forget if decision == "forget" else getattr(memory.inbox.quarantine, decision)
        provider.counts.clear()
        await decide(waiting[7])
        assert 0 < provider.counts["assertions"] <= 5
        assert await memory.inbox.quarantine.count() == 199


@pytest.mark.parametrize("rejected", [False, True], ids=["waiting", "rejected"])
async def test_a_page_of_the_quarantine_reads_what_stands_on_it(provider: Counting, rejected: bool) -> None:
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.remember_many([Message(content=f"Door {number} is red.", role="tool") for number in range(200)])
        if rejected:
            await memory.inbox.quarantine.reject(*(record.id for record in await memory.inbox.quarantine.list()))
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        provider.counts.clear()
        page = await memory.inbox.quarantine.list(rejected=rejected, limit=5, descending=True)
        assert [record.value for record in page] == [f"Door {number} is red." for number in range(199, 194, -1)]
        assert provider.counts["assertions"] <= 6


async def test_a_doubted_finding_reads_nothing_of_what_waits_elsewhere(provider: Counting) -> None:
    doors = [Message(content=f"Door {number} is red.", role="tool") for number in range(200)]
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.remember(doors, scope="/product/doors")
    finding = Finding(CITY, ("Oslo",))
    async with Memory(provider, embedder=HashEmbedder(), detector=finding, verifier=False, concepts=[CITY]) as memory:
        provider.counts.clear()
        assert len((await told(memory)).waiting) == 1
        assert provider.counts["assertions"] <= 5


async def test_an_import_of_known_facts_reads_those_that_wait(provider: Counting, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.remember_many([f"amber {number}" for number in range(200)])
        await memory.remember([Message(content=f"Door {number} is red.", role="tool") for number in range(3)])
        await memory.admin.export(file)
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        provider.counts.clear()
        receipt = await memory.admin.import_(file)
        assert (receipt.imported, receipt.quarantined) == (0, 3)
        assert provider.counts["assertions"] <= 3


def test_rows_that_score_alike_and_lie_together_are_not_all_candidates() -> None:
    scores = np.linspace(0.1, 0.2, 10_000, dtype=np.float32)
    scores[300:400] = np.linspace(0.5, 0.6, 100, dtype=np.float32)
    _, rows = _candidates(scores, 10, 1e-6)
    assert rows.tolist() == list(range(390, 400))


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Functions called in worker threads."""
    called: list[object] = []
    run_sync = to_thread.run_sync

    async def counted(function: object, *args: object, **options: object) -> object:
        called.append(function)
        return await run_sync(function, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(to_thread, "run_sync", counted)
    return called


async def found(memory: Memory, query: str, **options: Any) -> list[str]:
    """Return the ids of what a recall finds."""
    return [match.record.id for match in await memory.recall(query, **options)]


async def test_a_recall_of_records_in_memory_needs_no_thread(provider: Counting, threads: list[object]) -> None:
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.remember_many([f"amber {number}" for number in range(30)])
        before = await found(memory, "amber 7")
        threads.clear()
        again = await found(memory, "amber 7")
    assert (again, threads) == (before, [])


async def test_a_recall_reads_records_in_a_thread_and_searches_once(
    provider: Counting, tmp_path: Path, threads: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Memory(SqliteVecMemoryProvider(tmp_path / "facts.db"), embedder=HashEmbedder()) as memory:
        await memory.remember_many([f"{word} {number}" for word in ("amber", "basil") for number in range(15)])
    searches: list[int] = []
    search = Ranker.search

    def counted(ranker: Ranker, keep: Any, limit: int) -> Any:
        searches.append(ranker.query.terms[0].number)
        return search(ranker, keep, limit)

    monkeypatch.setattr(Ranker, "search", counted)
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.recall("amber")
        threads.clear()
        assert len(await memory.recall("basil")) == 10
    assert len(searches) == len(set(searches)) == 2
    assert len(threads) == 1
    assert provider.counts["reads on the loop"] == 0


async def test_a_recall_of_more_records_than_are_searched_at_once_runs_in_a_thread(
    provider: Counting, threads: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_SMALL", 29)
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.remember_many([f"amber {number}" for number in range(30)])
        before = await found(memory, "amber 7")
        threads.clear()
        assert await found(memory, "amber 7") == before
    assert len(threads) == 1


async def test_a_recall_without_a_thread_sees_what_another_process_has_written(
    provider: Counting, tmp_path: Path
) -> None:
    other = SqliteVecMemoryProvider(tmp_path / "facts.db")
    async with Memory(provider, embedder=HashEmbedder()) as memory, Memory(other, embedder=HashEmbedder()) as another:
        await memory.remember("amber 1")
        for number in range(2, 5):
            for _ in range(2):
                assert len(await memory.recall("amber")) == number - 1
            await another.remember(f"amber {number}")
        assert len(await memory.recall("amber")) == 4


async def test_results_that_miss_what_another_process_has_written_are_made_once(
    provider: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    matches = ranking._matches

    def counted(*arguments: Any) -> Any:
        made.append(1)
        return matches(*arguments)

    other = SqliteVecMemoryProvider(tmp_path / "facts.db")
    async with Memory(provider, embedder=HashEmbedder()) as memory, Memory(other, embedder=HashEmbedder()) as another:
        await memory.remember("amber 1")
        for _ in range(3):
            await memory.recall("amber")
        await another.remember("amber 2")
        monkeypatch.setattr(ranking, "_matches", counted)
        assert len(await memory.recall("amber")) == 2
    assert len(made) == 2


@pytest.mark.parametrize("options", [{"limit": 101}, {"strongest": True}, {"metadata": {"team": "red"}}])
async def test_a_recall_that_may_take_longer_runs_in_a_thread(
    provider: Counting, threads: list[object], options: dict[str, Any]
) -> None:
    team = Concept.single("team", "A team")
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        said = team.fact(["amber 7"], timestamp=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
        await memory.save(said, details=FactDetails(metadata={"team": "red"}))
        before = await found(memory, "amber 7", **options)
        threads.clear()
        assert await found(memory, "amber 7", **options) == before
    assert (len(before), len(threads)) == (1, 1)


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("amber 7 " + "basil " * 16, {}),
        ("amber 7", {"scope": "/product/alpha"}),
        ("amber 7", {"speakers": ["nora"]}),
        ("amber 7", {"subjects": [f"thing {number}" for number in range(65)]}),
    ],
    ids=["long query", "many scopes", "many speakers", "many values"],
)
async def test_a_recall_that_has_much_to_look_at_runs_in_a_thread(
    provider: Counting, threads: list[object], query: str, options: dict[str, Any]
) -> None:
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        for number in range(65):
            await memory.remember(f"amber {number}", scope=f"/product/p{number}")
        before = await found(memory, query, **options)
        threads.clear()
        assert await found(memory, query, **options) == before
    assert len(threads) == 1


@pytest.mark.parametrize(
    ("module", "bound", "most"), [(postings, "FEW_HITS", 30), (queries, "FEW_HITS", 30), (vector_slots, "_FEW", 1000)]
)
async def test_a_recall_with_much_to_calculate_runs_in_a_thread(
    provider: Counting, threads: list[object], monkeypatch: pytest.MonkeyPatch, module: object, bound: str, most: int
) -> None:
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        await memory.remember_many([f"amber {number}" for number in range(31)])
        await memory.recall("amber 7", limit=31)
        threads.clear()
        await memory.recall("amber 8", limit=31)
        assert not threads
        monkeypatch.setattr(module, bound, most)
        assert len(await memory.recall("amber 9", limit=31)) == 31
    assert len(threads) == 1


async def test_a_new_view_of_a_store_of_many_scopes_is_made_in_a_thread(
    provider: Counting, threads: list[object]
) -> None:
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        for number in range(65):
            await memory.remember(f"amber {number}", scope=f"/product/p{number}")
        await memory.recall("amber", limit=65)
        view = memory.view(scopes=["/product/p7"])
        threads.clear()
        assert len(await view.recall("amber")) == 1
        assert len(threads) == 1
        assert len(await view.recall("amber")) == 1
    assert len(threads) == 1


async def test_recalls_without_a_thread_let_other_tasks_run_and_can_be_cancelled(provider: Counting) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with Memory(provider, embedder=HashEmbedder()) as memory, anyio.create_task_group() as group:
        await memory.remember("amber 1")
        await memory.recall("amber")
        group.start_soon(others)
        for _ in range(5):
            await memory.recall("amber")
        assert turns >= 3
        with anyio.CancelScope() as scope:
            scope.cancel()
            await memory.recall("amber")
        assert scope.cancelled_caught
        group.cancel_scope.cancel()


def test_work_that_may_wait_ends_at_once_on_the_event_loop_alone() -> None:
    begun: list[str] = []

    def work() -> str:
        begun.append("once more")
        may_wait()
        return "done"

    assert at_once(work) is None
    assert work() == "done"
    assert at_once(lambda: "done") == "done"
    assert begun == ["once more"] * 2


# Reading makes no store, and works where writing is impossible.


NOTE = Concept.single("note", "A note")
STORES = (
    "sqlite-vec:{path}",
    "file:{path}",
    "encrypted:{path}?key_env=FACTMEM_TEST_KEY",
    "encrypted-sqlite:{path}?key_env=FACTMEM_TEST_KEY",
)


class Full(InMemoryProvider):
    """A store whose disk is full when vectors are written."""

    full = True

    async def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """See `factmem.abc.capabilities.KeepsLog.put_vectors`."""
        if self.full:
            raise StoreUnavailableError("the disk is full")
        await super().put_vectors(tenant, vectors)


class Waiting(HashEmbedder):
    """An embedder that answers when its gate is opened."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.asked = anyio.Event()
        self.until: anyio.Event | None = None

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.Embedder.embed`."""
        if self.until is not None:
            self.asked.set()
            await self.until.wait()
        return await super().embed(texts)


async def without_vectors(provider: InMemoryProvider | SqliteVecMemoryProvider) -> None:
    """Save a fact through the four verbs, without a vector."""
    await provider.save(SingleFact(NOTE, "harbour"), MemorySubject.EVERYTHING, MemoryScope.CROSS_PRODUCT)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def read_only(path: Path, dimension: int = 8) -> Memory:
    return Memory(f"sqlite-vec:{path}?read_only=true", embedder=HashEmbedder(dimension), read_only=True)


@pytest.fixture(params=STORES)
def address(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a store in a folder, neither of which exists yet."""
    monkeypatch.setenv("FACTMEM_TEST_KEY", "5a" * 32)
    template: str = request.param
    return template.format(path=tmp_path / "typo" / "facts")


async def test_reading_what_is_not_there_makes_no_store_and_no_folder(address: str, tmp_path: Path) -> None:
    async with Memory(address, embedder=HashEmbedder(8)) as memory:
        assert await memory.recall("harbour") == []
        assert await memory.list_records() == []
        assert await memory.load(NOTE) is None
        assert not await memory.inbox.quarantine.list()
    assert names(tmp_path) == []


async def test_a_store_made_after_it_was_looked_for_is_bound_by_the_first_save(address: str) -> None:
    async with Memory(address, embedder=HashEmbedder(8)) as memory:
        assert await memory.recall("harbour") == []
        await memory.save(SingleFact(NOTE, "harbour"))
    async with open_provider(address) as provider:
        assert isinstance(provider, KeepsLog)
        assert await provider.embedder() == await HashEmbedder(8).identity()
        assert len((await provider.vectors(None))[0]) == 1
    async with Memory(address, embedder=HashEmbedder(9)) as memory:
        with pytest.raises(EmbedderMismatchError, match="reembed"):
            await memory.recall("harbour")


async def test_a_store_bound_meanwhile_by_another_embedder_is_refused(address: str) -> None:
    async with Memory(address, embedder=HashEmbedder(8)) as early, Memory(address, embedder=HashEmbedder(9)) as late:
        assert await early.recall("harbour") == []
        await late.save(SingleFact(NOTE, "harbour"))
        with pytest.raises(EmbedderMismatchError, match="reembed"):
            await early.recall("harbour")


async def test_what_has_no_vectors_is_recalled_from_a_store_opened_for_reading_only(tmp_path: Path) -> None:
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        await without_vectors(provider)
    async with read_only(tmp_path / "facts.db") as memory:
        assert len(await memory.list_records()) == 1
        (match,) = await memory.recall("harbour")
        assert match.parts.cosine > 0
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        assert await provider.embedder() is None


async def test_one_fact_without_a_vector_does_not_hide_the_others_from_a_reader(tmp_path: Path) -> None:
    async with Memory(f"sqlite-vec:{tmp_path / 'facts.db'}", embedder=HashEmbedder(8)) as memory:
        await memory.remember("We meet at the pier.")
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        await without_vectors(provider)
    async with read_only(tmp_path / "facts.db") as memory:
        assert {match.record.value for match in await memory.recall("harbour")} == {"harbour", "We meet at the pier."}


async def test_a_reader_with_another_embedder_gets_a_mismatch_error(tmp_path: Path) -> None:
    async with Memory(f"sqlite-vec:{tmp_path / 'facts.db'}", embedder=HashEmbedder(8)) as memory:
        await memory.remember("We meet at the pier.")
    async with read_only(tmp_path / "facts.db", 9) as memory:
        with pytest.raises(EmbedderMismatchError, match="reembed"):
            await memory.recall("pier")


async def test_a_store_that_takes_no_vectors_now_is_recalled_from_all_the_same() -> None:
    provider = Full()
    await without_vectors(provider)
    async with Memory(provider, embedder=HashEmbedder(8)) as memory:
        (match,) = await memory.recall("harbour")
        assert match.parts.cosine > 0
        with pytest.raises(StoreUnavailableError):
            await memory.admin.reembed()
        provider.full = False
        assert await memory.admin.reembed() == 1


async def test_embedding_anew_while_it_is_embedded_anew_embeds_everything() -> None:
    embedder = Waiting(8)
    async with Memory(InMemoryProvider(), embedder=embedder) as memory:
        await memory.remember("We meet at the harbour.")
        embedder.until = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(memory.admin.reembed)
            await anyio.wait_all_tasks_blocked()
            await embedder.asked.wait()
            tasks.start_soon(memory.admin.reembed)
            await anyio.wait_all_tasks_blocked()
            embedder.until.set()
        assert (await memory.recall("harbour"))[0].parts.cosine > 0
