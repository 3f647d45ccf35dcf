"""A process that was forked while a memory was open."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from factmem import BlockingMemory, Memory
from factmem.errors import ProviderClosedError
from factmem.testing import HashEmbedder
from tests.forks import in_a_fork

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning"),
]


def test_a_blocking_memory_refuses_every_call_of_a_fork_and_goes_on_in_the_parent(tmp_path: Path) -> None:
    with BlockingMemory(Memory(tmp_path / "facts.db", embedder=HashEmbedder())) as memory:
        memory.remember("The cellar is cold.")

        def child() -> None:
            for call in (
                lambda: memory.recall("cellar"),
                lambda: memory.remember("x y"),
                lambda: memory.scope("/a").admin.tree(),
            ):
                with pytest.raises(ProviderClosedError, match="before the fork"):
                    call()
            memory.__exit__(None, None, None)

        assert in_a_fork(child) == 0
        assert len(memory.recall("cellar")) == 1


def test_an_open_memory_refuses_every_call_of_a_fork(tmp_path: Path) -> None:
    async def parent() -> None:
        async with Memory(tmp_path / "facts.db", embedder=HashEmbedder()) as memory:
            await memory.remember("The cellar is cold.")

            async def calls() -> None:
                with pytest.raises(ProviderClosedError, match="before the fork"):
                    await memory.recall("cellar")
                with pytest.raises(ProviderClosedError, match="before the fork"):
                    await memory.for_user("ada").remember("I like tea.")

            def child() -> None:
                asyncio._set_running_loop(None)
                asyncio.run(calls())

            assert in_a_fork(child) == 0
            assert len(await memory.recall("cellar")) == 1

    asyncio.run(parent())


def test_a_fork_opens_a_memory_of_its_own(tmp_path: Path) -> None:
    with BlockingMemory(Memory(tmp_path / "facts.db", embedder=HashEmbedder())) as memory:

        def child() -> None:
            with BlockingMemory(Memory(tmp_path / "facts.db", embedder=HashEmbedder())) as own:
                own.remember("The barn is old.")

        assert in_a_fork(child) == 0
        assert len(memory.recall("barn")) == 1


@pytest.mark.parametrize("carry", [pickle.dumps, copy.copy, copy.deepcopy])
async def test_a_memory_that_is_pickled_or_copied_says_what_to_pass(carry: Callable[[Memory], object]) -> None:
    async with Memory("memory:") as memory:
        with pytest.raises(TypeError, match="pass its address"):
            carry(memory)
