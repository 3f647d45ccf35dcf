"""Convenient arguments: texts for subjects, paths, names of models, message dicts; a memory for one user."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest

from factmem import (
    BlockingMemory,
    Concept,
    InMemoryProvider,
    Memory,
    Message,
    MultipleFacts,
    Policies,
    SingleFact,
    open_provider,
)
from factmem.errors import InvalidDataError, InvalidNameError
from factmem.memory import verify_erased
from factmem.subjects import MemorySubject
from factmem.testing import HashEmbedder
from factmem.testing.fakes import FakeClock
from tests.narrowing import not_none

CITY = Concept.single("city", "Where somebody lives")
NOTE = Concept.multiple("note", "Notes")
USER = MemorySubject("user", "The user", priority_level=3)


@pytest.fixture
def memory() -> Memory:
    return Memory(InMemoryProvider(), embedder=HashEmbedder(), viewer="alice", subjects=[USER])


async def test_a_text_names_a_subject_with_the_priority_that_was_declared(memory: Memory) -> None:
    (saved,) = await memory.save(SingleFact(CITY, "Oslo"), subject="user:alice")
    assert saved.subject == USER.individual("alice")
    assert not_none(await memory.load(CITY, subject="user:alice")).value == "Oslo"
    assert [record.id for record in await memory.list_records(subject="user:alice")] == [saved.id]
    assert await memory.list_records(subjects=["user", "guest"]) == []
    with pytest.raises(InvalidNameError):
        await memory.save(SingleFact(CITY, "Oslo"), subject="user:")


async def test_many_facts_are_saved_at_once_or_not_at_all(memory: Memory) -> None:
    records = await memory.save_many(
        [(SingleFact(CITY, "Oslo"), "user:alice", "/product/alpha"), MultipleFacts(NOTE, ("one", "two"))]
    )
    assert str(records[0].scope) == "/product/alpha"
    assert len(await memory.list_records()) == 3
    wrong: list[object] = [SingleFact(CITY, "Rome"), "Rome"]
    with pytest.raises(InvalidDataError, match="save_many"):
        await memory.save_many(wrong)  # type: ignore[arg-type]
    assert len(await memory.list_records()) == 3


async def test_a_user_has_a_memory_of_their_own(memory: Memory) -> None:
    bob = memory.for_user("bob")
    await bob.remember("I have moved to Lisbon.")
    (record,) = await bob.list_records()
    assert (record.subject, record.details.owner) == (USER.individual("bob"), "bob")
    assert await memory.list_records() == []
    await bob.save(SingleFact(CITY, "Oslo"), private=False)
    assert len(await memory.list_records()) == 1


async def test_messages_may_be_dicts(memory: Memory) -> None:
    said = await memory.remember(
        [{"role": "user", "content": "I have a cat."}, {"role": "user", "content": "A dog, too."}]
    )
    assert [record.value for record in said] == ["I have a cat.", "A dog, too."]
    assert [record.value for record in await memory.remember({"role": "user", "content": "And a fish."})] == [
        "And a fish."
    ]
    assert [record.value for record in await memory.remember([Message(content="And a bird.")])] == ["And a bird."]


async def test_a_reset_for_a_user_erases_what_is_theirs_and_leaves_what_is_shared(memory: Memory) -> None:
    nora, bo = memory.for_user("nora"), memory.for_user("bo")
    await memory.save(SingleFact(CITY, "Rome"))
    await memory.save(SingleFact(CITY, "Oslo"), subject="user:nora")
    await nora.save(SingleFact(CITY, "Bern"), subject="friend:eva")
    await bo.save(SingleFact(CITY, "Nice"))
    assert len((await nora.admin.reset(dry_run=True)).records) == 2
    assert sorted(record.value for record in await nora.admin.reset()) == ["Bern", "Oslo"]
    assert [record.value for record in await memory.list_records()] == ["Rome"]
    assert sorted(record.value for record in await bo.list_records()) == ["Nice", "Rome"]


async def test_a_reset_for_all_users_erases_everything(tmp_path: Path) -> None:
    store = tmp_path / "facts.db"
    async with open_provider(f"sqlite-vec:{store}") as provider, Memory(provider, embedder=HashEmbedder()) as memory:
        nora = memory.for_user("nora")
        await memory.save(SingleFact(CITY, "Ouagadougou"))
        await nora.save(SingleFact(CITY, "Antananarivo"), scope="/product/alpha")
        await nora.remember("I adore ranunculus flowers.")
        await nora.remember(Message(content="Forget the budget of Ulaanbaatar.", role="tool"))
        everything = [record.id for record in await nora.list_records()]
        assert len(await memory.admin.reset(dry_run=True)) == 1
        traces = await memory.admin.traces(*everything, all_users=True)
        assert len(await memory.admin.reset("/product", all_users=True)) == 1
        erased = await memory.admin.reset(all_users=True)
        assert {record.value for record in erased} >= {"Ouagadougou", "I adore ranunculus flowers."}
        assert await nora.list_records() == []
        assert await nora.inbox.quarantine.list() == []
        assert (await verify_erased(provider, traces)).clean
        with pytest.raises(InvalidDataError, match="their own private facts"):
            await nora.admin.reset(all_users=True)
    assert not any(word in store.read_bytes() for word in (b"Ouagadougou", b"Antananarivo", b"ranunculus", b"Ulaan"))


async def test_what_has_expired_is_erased_for_all_users_if_they_are_asked_for(clock: FakeClock) -> None:
    async with Memory("memory:", embedder=HashEmbedder(), clock=clock) as memory:
        for name in ("nora", "bo"):
            await memory.for_user(name).save(SingleFact(CITY, "Oslo"), ttl=dt.timedelta(hours=1))
        clock.advance(dt.timedelta(hours=2))
        assert (await memory.for_user("nora").admin.expire(dry_run=True)).expired == 1
        assert (await memory.admin.expire()).expired == 0
        assert (await memory.admin.expire(all_users=True)).expired == 2


async def test_a_tree_prints_as_a_tree(memory: Memory) -> None:
    await memory.save_many(
        [(SingleFact(CITY, "Oslo"), None, "/product/alpha"), (SingleFact(CITY, "Rome"), None, "/agent/clerk")]
    )
    assert str(await memory.admin.tree()).splitlines() == [
        "/ (2)",
        "├── agent (1)",
        "│   └── clerk (1)",
        "└── product (1)",
        "    └── alpha (1)",
    ]
    assert str(await memory.admin.tree(depth=1)).splitlines() == ["/ (2)", "├── agent (1)", "└── product (1)"]
    assert str(await memory.admin.tree("/product/alpha")) == "alpha (1)"
    assert str(await memory.admin.tree("/product/beta")) == "beta (0)"


async def test_a_store_may_be_a_path_or_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factmem.memory.argument_checks.default_store", lambda: f"sqlite-vec:{tmp_path}/own.db")
    for store in (tmp_path / "a store?.db", None):
        async with Memory(store, embedder=HashEmbedder()) as memory:
            await memory.save(SingleFact(CITY, "Oslo"))
    assert {"a store?.db", "own.db"} <= set(os.listdir(tmp_path))  # noqa: PTH208


@pytest.mark.parametrize("wrong", [1.5, -0.1, "high"])
def test_a_default_importance_that_no_word_can_have_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(InvalidDataError, match="default_importance"):
        Memory(InMemoryProvider(), policies=Policies(default_importance=wrong))


async def test_words_have_the_default_importance() -> None:
    memory = Memory(InMemoryProvider(), embedder=HashEmbedder(), policies=Policies(default_importance=0.2))
    (record,) = await memory.remember("The mill is old.")
    assert record.details.importance == Policies(default_importance=0.2).default_importance


async def test_an_outcome_is_a_sequence_of_its_records(memory: Memory) -> None:
    said = await memory.remember("The cellar is cold.")
    assert (said[0].value, said[-1].value, len(said)) == ("The cellar is cold.", "The cellar is cold.", 1)


async def test_what_a_console_prints_is_short(memory: Memory) -> None:
    said = await memory.remember("The cellar is cold.")
    assert repr(said) == f"Remembered(records=({said[0]!r},), changes=<created>)"
    assert repr(said.changes[0]) == f"Change(created, {said[0]!r})"
    matches = await memory.recall("cellar")
    assert repr(matches) == f"[RecallMatch({matches[0].score:.2f}, {said[0]!r}, because='lexical, semantic, recent')]"
    assert repr(memory) == "Memory(InMemoryProvider(), viewer='alice')"
    assert repr(memory.for_user("bob").scope("/product/alpha")) == (
        "Memory(InMemoryProvider(), viewer='bob', scopes=['/product/alpha'])"
    )


def test_a_blocking_memory_tells_how_it_is_made_and_closed() -> None:
    with pytest.raises(InvalidDataError, match=r"not a str: write BlockingMemory\(Memory\(…\)\)"):
        BlockingMemory("facts.db")  # type: ignore[arg-type]
    blocking = BlockingMemory(Memory(InMemoryProvider()))
    assert repr(blocking) == "BlockingMemory(Memory(InMemoryProvider()))"
    with pytest.raises(AttributeError, match="leave its `with` block"):
        blocking.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "kind"), [(None, "None"), (5, "an int"), (b"cellar", "a bytes"), (str, "the class str")]
)
async def test_a_query_of_another_type_is_named(memory: Memory, query: Any, kind: str) -> None:
    with pytest.raises(InvalidDataError, match=f"query must be str, not {kind}"):
        await memory.recall(query)
