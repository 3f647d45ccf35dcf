"""A mirror made from outlines equals one made from the log, and outlines are erased with their assertions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw
import numpy as np
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import STATEMENT, FactDetails, Memory, MultipleFacts, Origin, RecallMatch, SingleConcept, SingleFact
from factmem.abc.capabilities import Append
from factmem.abc.outlines import KeepsOutlines, Outline
from factmem.details import Evidence
from factmem.errors import CorruptStoreError
from factmem.recall.index import source
from factmem.recall.index.outline_codec import OUTLINE_VERSION
from factmem.records import Place, Recorded, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import FakeClock, HashEmbedder
from tests.databases import alter
from tests.narrowing import not_none

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SEAT = SingleConcept("seat", "Where they like to sit", value_type=str)
TEXTS = ("amber cedar", "basil", "cedar delta delta", "ember fjord", "amber amber basil")


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A store with statements of a conversation, a fact revised twice, private words, labels and metadata."""
    path = tmp_path / "facts.db"
    async with opened(path) as memory:
        for number, text in enumerate(TEXTS):
            evidence = Evidence(quote=text, role="user", conversation_id="c", position=number)
            details = FactDetails(
                evidence=(evidence,), categories=("red",) if number % 2 else (), metadata={"n": number}, owner=None
            )
            await memory.save(MultipleFacts(STATEMENT, (text,), timestamp=NOW), details=details)
        for seat in ("window", "aisle"):
            await memory.save(SingleFact(SEAT, seat, timestamp=NOW))
        await memory.view(viewer="alice").save(SingleFact(SEAT, "amber", timestamp=NOW), private=True)
        taken = (await memory.recall("ember fjord", limit=1))[0].record
        await memory.retract(taken.id)
    return path


def opened(path: Path) -> Memory:
    return Memory(f"sqlite-vec:{path}", embedder=HashEmbedder(), clock=FakeClock(NOW))


_OUTLINES: Final = "SELECT seq, outline FROM assertions WHERE seq > 0 AND outline IS NOT NULL"


def outlines_in(path: Path) -> list[tuple[int, bytes]]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [(int(str(seq)), bytes(body)) for seq, body in connection.execute(_OUTLINES)]
    finally:
        connection.close()


async def answers(memory: Memory) -> list[list[RecallMatch]]:
    asked = [memory.recall("amber delta", limit=9), memory.recall("window", categories=["red"])]
    asked += [
        memory.view(viewer="alice").recall("amber", metadata={"n": 4}),
        memory.view(viewer="alice").recall("seat"),
    ]
    return [await one for one in asked]


def test_outlines_rely_on_what_is_believed_of_each_origin() -> None:
    """If this changes, raise `OUTLINE_VERSION`: the outlines of all stores hold what was believed before."""
    stored = {
        Origin.USER: (True, 2),
        Origin.ASSISTANT: (True, 1),
        Origin.TOOL: (False, 0),
        Origin.DOCUMENT: (False, 0),
        Origin.UNKNOWN: (False, 0),
    }
    assert {origin: (origin.trusted, origin.rank) for origin in stored} == stored


async def test_with_outlines_and_without_the_answers_are_the_same(file: Path) -> None:
    """Results from outlines equal those from the assertions, to the last bit."""
    async with opened(file) as memory:
        read = await answers(memory)
    alter(file, "UPDATE assertions SET outline = NULL")
    async with opened(file) as memory:
        assert await answers(memory) == read
    assert len(outlines_in(file)) == len(TEXTS) + 3, "missing outlines are made and kept"


async def test_what_a_provider_was_handed_directly_is_outlined_later(file: Path) -> None:
    provider = SqliteVecMemoryProvider(file)
    place = Place(MemorySubject.EVERYTHING, MemoryScope.parse("/product/a"))
    (said,) = assertions_of(MultipleFacts(STATEMENT, ("juniper",), timestamp=NOW), place)
    await provider.append([Append(assertion=said)])
    await provider.aclose()
    async with opened(file) as memory:
        assert (await memory.recall("juniper", limit=1))[0].record.value == "juniper"
    assert len(outlines_in(file)) == len(TEXTS) + 4


@pytest.mark.parametrize("first", ["history", "quarantine", "retract", "recall"])
async def test_whatever_is_called_first_reads_the_outlines_and_makes_none_anew(
    file: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(file) as memory:
        record = (await memory.recall("basil", limit=1))[0].record
    made: list[int] = []

    async def noted(self: SqliteVecMemoryProvider, outlines: Mapping[int, Outline]) -> None:
        made.extend(outlines)

    monkeypatch.setattr(SqliteVecMemoryProvider, "put_outlines", noted)
    async with opened(file) as memory:
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "history": lambda: memory.history(SEAT),
            "quarantine": memory.inbox.quarantine.list,
            "retract": lambda: memory.retract(record.id),
            "recall": lambda: memory.recall("basil"),
        }
        await calls[first]()
    assert made == []


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_each_assertion_of_a_part_has_an_outline_or_is_missing_one(file: Path, limit: int) -> None:
    """Among changes of state and tombstones, too."""
    async with opened(file) as memory:
        await memory.forget((await memory.recall("basil", limit=1))[0].record.id)
    alter(file, "UPDATE assertions SET outline = NULL WHERE seq IN (1, 6)")
    provider = SqliteVecMemoryProvider(file)
    await provider.use_outlines(OUTLINE_VERSION)
    assertions = [entry.seq for entry in await provider.changes(None) if isinstance(entry, Recorded)]
    newest, until = provider.newest(None), 0
    found: list[int] = []
    missing: list[int] = []
    while until < newest:
        part = provider.outlined(None, until, limit=limit)
        found += part.seqs
        missing += part.missing
        until = part.until
    await provider.aclose()
    assert missing == [1, 6]
    assert sorted(found + missing) == assertions


async def test_room_for_a_store_is_made_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_PAGE", 3)
    async with opened(file) as memory:
        assert await memory.recall("amber")
        columns = memory._backend.mirror._log._columns
        assert len(not_none(columns["seq"].base)) == len(columns) == len(TEXTS) + 3


async def test_records_are_laid_out_before_vectors_are_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So what the layout takes and frees does not add to the vectors."""
    laid_out: list[bool] = []
    read = SqliteVecMemoryProvider.vectors_since

    def noted(
        self: SqliteVecMemoryProvider, tenant: str | None, since: int = 0
    ) -> tuple[Sequence[int], NDArray[np.float32]]:
        laid_out.append(memory._backend.mirror.glance(embedded=False) is not None)
        return read(self, tenant, since)

    monkeypatch.setattr(SqliteVecMemoryProvider, "vectors_since", noted)
    async with opened(file) as memory:
        assert await memory.recall("amber")
    assert laid_out == [True]


async def test_a_store_made_after_it_was_looked_for_has_outlines(tmp_path: Path) -> None:
    async with opened(tmp_path / "new.db") as memory:
        assert await memory.recall("amber") == []
        await memory.save(SingleFact(SEAT, "window", timestamp=NOW))
    assert len(outlines_in(tmp_path / "new.db")) == 1


async def test_what_is_erased_leaves_no_outline(file: Path) -> None:
    async with opened(file) as memory:
        gone = (await memory.recall("basil", limit=1))[0].record
        await memory.forget(gone.id)
        assert gone.id not in [match.record.id for match in await memory.recall("basil", limit=20)]
    assert gone.revision not in [seq for seq, _ in outlines_in(file)]


async def test_a_damaged_outline_is_an_error_and_no_wrong_answer(file: Path) -> None:
    alter(file, "UPDATE heads SET shared = CAST(replace(shared, 'cross-product', 'product/x') AS BLOB)")
    async with opened(file) as memory:
        with pytest.raises(CorruptStoreError):
            await memory.recall("amber")


async def test_outlines_of_another_version_are_made_anew(file: Path) -> None:
    alter(file, "UPDATE meta SET value = 0 WHERE key = 'outlines'")
    async with opened(file) as memory:
        assert (await memory.recall("delta", limit=1))[0].record.value == "cedar delta delta"
    assert len(outlines_in(file)) == len(TEXTS) + 3


async def test_a_store_opened_for_reading_only_is_read_without_outlines(file: Path) -> None:
    alter(file, "UPDATE assertions SET outline = NULL")
    provider = SqliteVecMemoryProvider(file, read_only=True)
    assert isinstance(provider, KeepsOutlines)
    async with Memory(provider, embedder=HashEmbedder(), clock=FakeClock(NOW), read_only=True) as memory:
        assert (await memory.recall("delta", limit=1))[0].record.value == "cedar delta delta"
    await provider.aclose()
    assert outlines_in(file) == []


@pytest.mark.parametrize("size", [0, 1, 31, 33, 40])
async def test_an_outline_of_another_length_is_damage(file: Path, size: int) -> None:
    alter(file, "UPDATE assertions SET outline = substr(outline, 1, ?) WHERE seq = 2", (size,))
    async with opened(file) as memory:
        with pytest.raises(CorruptStoreError, match="number 2"):
            await memory.recall("amber")
