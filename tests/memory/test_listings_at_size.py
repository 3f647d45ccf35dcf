"""Trees, counts and lists of many records: complete, without repetition, and through views as well."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import attrs
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import AgentMemoryProvider, InMemoryProvider, Memory, MemoryScope
from factmem.codec import FORMAT_VERSION, dump_entry
from factmem.facts import STATEMENT, MultipleFacts
from factmem.memory.scope_tree import ScopeTree
from factmem.records import FactDetails, Place, Recorded, assertions_of
from factmem.subjects import MemorySubject
from factmem.testing import HashEmbedder

pytestmark = pytest.mark.slow

BEGAN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
PATHS = [f"/product/p{number % 40}/part {number}" for number in range(600)] + ["/product/p1", "/agent/a", "/customer/ü"]


@attrs.frozen(kw_only=True)
class Planted:
    """A record of the imported file."""

    number: int
    path: str
    category: str
    subject: MemorySubject
    owner: str | None

    @property
    def said(self) -> str:
        """Its text."""
        return f"Note {self.number}"


def planted(size: int) -> Iterator[Planted]:
    """Records spread over many scopes, categories and subjects; each seventh is private to alice, each 11th to bob."""
    for number in range(size):
        yield Planted(
            number=number,
            path=PATHS[number * 7 % len(PATHS)],
            category=f"category {number % 350}",
            subject=MemorySubject.EVERYTHING if number % 3 else MemorySubject("user", "who speaks"),
            owner="alice" if number % 7 == 0 else "bob" if number % 11 == 0 else None,
        )


def exported(records: Iterator[Planted]) -> io.StringIO:
    """The file from which the records are imported."""
    file = io.StringIO()
    file.write(json.dumps({"v": FORMAT_VERSION, "kind": "factmem-export"}) + "\n")
    for record in records:
        place = Place(record.subject, MemoryScope.parse(record.path))
        details = FactDetails(categories=[record.category], owner=record.owner)
        fact = MultipleFacts(STATEMENT, (record.said,), timestamp=BEGAN + dt.timedelta(seconds=record.number))
        (said,) = assertions_of(fact, place, details)
        seq = record.number + 1
        entry = Recorded(assertion=said, id=f"a{seq}", record_id=f"r{seq}", seq=seq, recorded_at=BEGAN)
        file.write(dump_entry(entry).decode() + "\n")
    file.seek(0)
    return file


@pytest.fixture(params=["memory", "sqlite-vec"])
async def provider(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AgentMemoryProvider]:
    """A store whose log is mirrored whole, and one whose log is mirrored in outline."""
    opened = InMemoryProvider() if request.param == "memory" else SqliteVecMemoryProvider(tmp_path / "facts.db")
    async with opened:
        yield opened


@pytest.fixture
def anyio_backend() -> str:
    """Use one event loop only: the counts do not depend on it, and counting is slow."""
    return "asyncio"


async def test_nothing_is_cut_at_any_size(provider: AgentMemoryProvider, big: bool) -> None:
    """The facade, a view, a slice and a viewer are each compared with a plain count of the imported records."""
    everything = list(planted(30_000 if big else 2_500))
    async with Memory(provider, viewer="alice", embedder=HashEmbedder()) as memory:
        for owner in (None, "alice", "bob"):
            records = (record for record in everything if record.owner == owner)
            await memory.view(viewer=owner).admin.import_(exported(records), trust=True)
        public = [record for record in everything if record.owner is None]
        await _check(memory.view(viewer="carol"), public)
        mine = [record for record in everything if record.owner != "bob"]
        await _check(memory, mine)
        await _check(memory.scope("/product/p1"), [item for item in mine if _lies_in(item.path, "/product/p1")])
        both = memory.view(scopes=["/product/p3", "/customer"], exact=["/product/p1"], read_only=True)
        await _check(both, [item for item in mine if _in_slice(item.path)])


def _lies_in(path: str, scope: str) -> bool:
    return path == scope or path.startswith(f"{scope}/")


def _in_slice(path: str) -> bool:
    return _lies_in(path, "/product/p3") or _lies_in(path, "/customer") or path == "/product/p1"


async def _check(memory: Memory, there: list[Planted]) -> None:
    assert there
    await _check_lists(memory, there)
    await _check_counts(memory, there)


async def _check_lists(memory: Memory, there: list[Planted]) -> None:
    newest_first = [record.said for record in reversed(there)]
    assert [record.value for record in await memory.list_records()] == newest_first
    paged, page = [], None
    while True:
        listed = await memory.list_records(page=page, limit=997)
        paged += [record.value for record in listed]
        if (page := listed.next_page) is None:
            break
    assert paged == newest_first
    last = await memory.list_records(offset=len(there) - 3)
    assert [record.value for record in last] == newest_first[-3:]


async def _check_counts(memory: Memory, there: list[Planted]) -> None:
    by_path = Counter(record.path for record in there)
    assert [str(scope) for scope in (await memory.admin.info()).scopes] == sorted(by_path)
    assert list((await memory.admin.info()).categories) == sorted({record.category for record in there})
    info = await memory.admin.info()
    assert (info.records, info.oldest, info.newest) == (len(there), _time(there[0]), _time(there[-1]))
    assert [str(scope) for scope in info.scopes] == sorted(by_path)
    assert dict(_counts(await memory.admin.tree())) == _subtree_counts(by_path)
    about = MemorySubject("user", "who speaks")
    assert (await memory.admin.info(subjects=[about])).records == sum(record.subject == about for record in there)
    for path in list(by_path)[:3]:
        assert (await memory.admin.info(path, exact=True)).records == by_path[path]


def _time(record: Planted) -> dt.datetime:
    return BEGAN + dt.timedelta(seconds=record.number)


def _counts(tree: ScopeTree, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    here = (*above, tree.name) if tree.name else above
    yield here, tree.records
    for child in tree.children:
        yield from _counts(child, here)


def _subtree_counts(by_path: Counter[str]) -> dict[tuple[str, ...], int]:
    counts: Counter[tuple[str, ...]] = Counter()
    for path, number in by_path.items():
        segments = MemoryScope.parse(path).segments
        for depth in range(len(segments) + 1):
            counts[segments[:depth]] += number
    return dict(counts)
