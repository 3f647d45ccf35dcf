"""Lists, pages and counts of many records: complete and without repetition."""

from __future__ import annotations

import pytest

from factmem import STATEMENT, Memory, MultipleFacts
from factmem.testing import HashEmbedder

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_is_cut_at_any_size(big: bool) -> None:
    """More records than any page or block holds; which of them a view shows is tested by the walls and the models."""
    texts = [f"Note {number}" for number in range(30_000 if big else 2_500)]
    async with Memory("memory:", embedder=HashEmbedder()) as memory:
        await memory.save(MultipleFacts(STATEMENT, tuple(texts)))
        newest_first = texts[::-1]
        assert [record.value for record in await memory.list_records()] == newest_first
        paged, page = [], None
        while True:
            listed = await memory.list_records(page=page, limit=997)
            paged += [record.value for record in listed]
            if (page := listed.next_page) is None:
                break
        assert paged == newest_first
        assert [record.value for record in await memory.list_records(offset=len(texts) - 3)] == newest_first[-3:]
        assert (await memory.admin.info()).records == (await memory.admin.tree()).records == len(texts)
        assert len(await memory.recall("Note", limit=len(texts))) == len(texts)
