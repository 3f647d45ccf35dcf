"""Forgotten facts leave the memory of this process, and that of another process once it reads again."""

from __future__ import annotations

import datetime as dt
import gc
import types
from collections.abc import Callable, Collection
from typing import Any, Final

import anyio
import pytest

from factmem import AgentMemoryProvider, Concept, Evidence, FactDetails, Memory, SingleFact
from factmem.recall.index import tenant_log
from factmem.records import written_track
from tests.forgetting.stores import DenseEmbedder, likes, word

_NOT_OURS: Final = (
    types.ModuleType | types.FrameType | types.CoroutineType | types.GeneratorType | types.FunctionType | type
)
KINDS = ("value", "older", "quote", "reason")


def held(root: object, words: Collection[str]) -> list[str]:
    """Return those of some words that occur in any text reachable from an object."""
    seen: set[int] = set()
    waiting: list[Any] = [root]
    found: set[str] = set()
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, _NOT_OURS) or type(item).__module__.startswith(("asyncio", "anyio")):
            continue
        seen.add(id(item))
        if isinstance(item, str | bytes):
            text = item if isinstance(item, str) else item.decode(errors="replace")
            found |= {word for word in words if word in text.lower()}
        else:
            waiting += gc.get_referents(item)
    return sorted(found)


def said() -> list[str]:
    return [word(kind) for kind in KINDS]


async def tell(memory: Memory) -> str:
    concept = Concept.single("seats", "how many seats")
    details = FactDetails(evidence=(Evidence(quote=word("quote")),))
    (record,) = await memory.save(SingleFact(concept, word("older")), details=details)
    await memory.save(SingleFact(concept, word("value")), details=details)
    await memory.retract(record.id, reason=word("reason"))
    await memory.restore(record.id)
    return record.id


async def test_this_process_forgets_with_the_file(provider: AgentMemoryProvider) -> None:
    """Texts, index terms, reasons and revisions are gone when `forget` returns, without another read."""
    memory = Memory(provider, embedder=DenseEmbedder())
    id = await tell(memory)
    await memory.recall(word("value"))
    assert held(memory, said()) == sorted(said())
    await memory.forget(id)
    assert held(memory, said()) == []


async def test_another_process_forgets_when_it_looks_again(
    provider: AgentMemoryProvider, opened: Callable[[], AgentMemoryProvider]
) -> None:
    async with opened() as second:
        memory, other = Memory(provider, embedder=DenseEmbedder()), Memory(second, embedder=DenseEmbedder())
        id = await tell(memory)
        await other.recall(word("value"))
        await memory.forget(id)
        assert await other.recall(word("value")) == []
        assert held(other, said()) == []


async def test_an_open_memory_forgets_with_another_process_without_a_look(
    provider: AgentMemoryProvider, opened: Callable[[], AgentMemoryProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call is made: the open memory checks by itself, once a minute."""
    monkeypatch.setattr("factmem.memory.facade._BETWEEN_LOOKS", dt.timedelta(milliseconds=20))
    async with opened() as second, Memory(second, embedder=DenseEmbedder()) as other:
        memory = Memory(provider, embedder=DenseEmbedder())
        id = await tell(memory)
        await other.recall(word("value"))
        await memory.forget(id)
        with anyio.fail_after(60):
            while held(other, said()):  # noqa: ASYNC110 - no event tells of it
                await anyio.sleep(0.05)


async def test_words_of_what_was_never_held_are_forgotten_with_another_process(
    provider: AgentMemoryProvider, opened: Callable[[], AgentMemoryProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that a process has remembered and not read yet stand in its caches alone."""
    dropped: list[str] = []
    async with opened() as second:
        memory, other = Memory(provider, embedder=DenseEmbedder()), Memory(second, embedder=DenseEmbedder())
        await memory.recall("tea")
        (record,) = await memory.remember(word("value"))
        await other.forget(record.id)
        monkeypatch.setattr(tenant_log, "forget_texts", lambda: dropped.append("all"))
        assert await memory.recall("tea") == []
    assert dropped


async def test_no_name_of_an_erased_individual_is_kept_for_fingerprints(provider: AgentMemoryProvider) -> None:
    memory = Memory(provider, embedder=DenseEmbedder())
    await memory.save(likes(word("value")), subject="user:ann")
    assert written_track.cache_info().currsize
    await memory.recall("anything")
    await memory.admin.reset()
    assert written_track.cache_info().currsize == 0


async def test_words_of_what_is_kept_are_still_found(provider: AgentMemoryProvider) -> None:
    """Index terms are numbered, and the numbers of deleted terms are not reused."""
    memory = Memory(provider, embedder=DenseEmbedder())
    texts = [f"{word('one')} {word('both')}", f"{word('two')} {word('both')}"]
    first, _ = await memory.save(likes(*texts))
    await memory.recall("anything")
    await memory.forget(first.id)
    await memory.save(likes(word("three")))
    for text, lexical in ((word("both"), True), (word("two"), True), (word("three"), True), (word("one"), False)):
        best = max(await memory.recall(text), key=lambda match: match.parts.lexical)
        assert (best.parts.lexical > 0) is lexical, text
