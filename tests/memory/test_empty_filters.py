"""An empty list as a filter matches nothing."""

from __future__ import annotations

import pytest

from factmem import STATEMENT, Memory, MultipleFacts
from factmem.memory import Filters
from factmem.recall import RecallFilter

EMPTY: list[Filters] = [
    {"record_ids": []},
    {"concepts": []},
    {"categories": ()},
    {"topics": set()},
    {"sources": []},
    {"subjects": []},
]


@pytest.mark.parametrize("filters", EMPTY, ids=lambda filters: next(iter(filters)))
async def test_an_empty_list_keeps_nothing(filters: Filters) -> None:
    async with Memory("memory:") as memory:
        await memory.save(MultipleFacts(STATEMENT, ("The cellar is cold.",)))
        assert await memory.recall("cellar", **filters) == []
        assert await memory.list_records(**filters) == []


@pytest.mark.parametrize("filters", EMPTY, ids=lambda filters: next(iter(filters)))
async def test_none_keeps_everything(filters: Filters) -> None:
    async with Memory("memory:") as memory:
        await memory.save(MultipleFacts(STATEMENT, ("The cellar is cold.",)))
        (name,) = filters
        everything: Filters = {name: None}  # type: ignore[misc]
        assert len(await memory.recall("cellar", **everything)) == 1


def test_a_filter_of_an_empty_list_is_not_empty() -> None:
    assert RecallFilter().empty
    assert not RecallFilter(categories=[]).empty
