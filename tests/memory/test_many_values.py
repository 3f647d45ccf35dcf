"""Reads of thousands of values: the event loop goes on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Sized
from pathlib import Path

import attrs
import pytest

from factmem import Concept, Memory, MultipleFacts
from factmem.fold import states_of
from factmem.records import AssertionState, LogEntry

_MADE_IN: list[int] = []
"""The threads in which values were made."""


@attrs.frozen
class Sku:
    """A stock keeping unit."""

    code: str

    def __attrs_post_init__(self) -> None:
        _MADE_IN.append(threading.get_ident())


SKU = Concept.multiple("sku", "Stock keeping unit", Sku)


@attrs.frozen
class Shop:
    """Goods of a shop."""

    sku: tuple[Sku, ...]


async def _loaded(memory: Memory, scope: str | None = None) -> Sized:
    fact = await memory.load(SKU, subject=None if scope is None else "everything", scope=scope)
    return () if fact is None else fact.values


async def _filled(memory: Memory) -> Sized:
    return (await memory.profile(Shop)).sku


READS: dict[str, Callable[[Memory], Awaitable[Sized]]] = {
    "load": _loaded,
    "load at one place": lambda memory: _loaded(memory, "/product/shop"),
    "profile": _filled,
    "list_records": lambda memory: memory.list_records(),
    "history": lambda memory: memory.history(SKU),
}


@pytest.mark.parametrize("name", READS)
async def test_many_values_are_made_in_a_worker_thread(name: str) -> None:
    async with Memory("memory:", concepts=[SKU]) as memory:
        await memory.save(MultipleFacts(SKU, tuple(Sku(str(number)) for number in range(500))), scope="/product/shop")
        _MADE_IN.clear()
        assert len(await READS[name](memory)) == 500
        assert _MADE_IN
        assert threading.get_ident() not in _MADE_IN


async def test_an_export_is_prepared_in_a_worker_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read_in = []

    def noted(log: Iterable[LogEntry]) -> dict[str, AssertionState]:
        read_in.append(threading.get_ident())
        return states_of(log)

    monkeypatch.setattr("factmem.memory.exports.states_of", noted)
    async with Memory("memory:") as memory:
        await memory.remember("The car is red.")
        assert await memory.admin.export(tmp_path / "all.jsonl") == 1
    assert read_in
    assert threading.get_ident() not in read_in
