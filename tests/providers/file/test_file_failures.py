"""A write that fails, is refused or is cancelled stores its whole fact or nothing."""

from __future__ import annotations

import datetime as dt
import errno
import os
from io import FileIO
from pathlib import Path

import anyio
import pytest
from factmem_file import LocalFileMemoryProvider

from factmem.abc.capabilities import Append, Receipt
from factmem.errors import ConceptConflictError, StoreUnavailableError
from factmem.facts import Concept
from factmem.private_files import write_all
from factmem.records import Place, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

USER = MemorySubject("user")
SCOPE = MemoryScope.agent("planner")
OTHER = MemoryScope.agent("other")
LIKES = Concept.multiple("likes", "likes")
SEATS = Concept.single("seats", "seats", value_type=int)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def _appends(value: str, scope: MemoryScope) -> list[Append]:
    fact = LIKES.fact([value], timestamp=NOON)
    return [Append(assertion=assertion) for assertion in assertions_of(fact, Place(USER, scope))]


def _logs(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.jsonl")}


async def _values(provider: LocalFileMemoryProvider, scope: MemoryScope = SCOPE) -> tuple[str, ...]:
    fact = await provider.load(LIKES, USER, scope)
    return fact.values if fact is not None else ()


async def test_after_a_failed_flush_it_refuses_to_write_until_reopened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await provider.save(LIKES.fact(["a"], timestamp=NOON), USER, SCOPE)
        before = _logs(tmp_path)

        def broken(descriptor: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", broken)
            with pytest.raises(StoreUnavailableError):
                await provider.save(LIKES.fact(["b"], timestamp=NOON), USER, SCOPE)
        assert _logs(tmp_path) == before
        with pytest.raises(StoreUnavailableError, match="open the store again"):
            await provider.save(LIKES.fact(["b"], timestamp=NOON), USER, SCOPE)
        assert await _values(provider) == ("a",)
    async with LocalFileMemoryProvider(tmp_path) as again:
        await again.save(LIKES.fact(["b"], timestamp=NOON), USER, SCOPE)
        assert await _values(again) == ("a", "b")


async def test_saves_that_wait_together_are_flushed_together_and_fail_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[object] = []
    flushes: list[int] = []
    real = os.fsync

    def counted(descriptor: int) -> None:
        flushes.append(descriptor)
        real(descriptor)

    async with LocalFileMemoryProvider(tmp_path) as provider:
        await provider.save(SEATS.fact([4], timestamp=NOON), USER, SCOPE)
        monkeypatch.setattr(os, "fsync", counted)

        async def save(number: int) -> None:
            try:
                if number == 7:
                    wrong = Concept.single("seats", "seats", value_type=str)
                    await provider.save(wrong.fact(["four"], timestamp=NOON), USER, SCOPE)
                else:
                    await provider.save(LIKES.fact([f"v{number}"], timestamp=NOON), USER, SCOPE)
                outcomes.append(number)
            except ConceptConflictError as error:
                outcomes.append(error)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(save, number)
        assert len(await _values(provider)) == 19
        assert len(flushes) <= 4
    assert sorted(outcome for outcome in outcomes if isinstance(outcome, int)) == [n for n in range(20) if n != 7]


async def test_what_one_place_cannot_take_does_not_fail_the_others_of_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transactions that include the failing log fail as a whole; the others are kept."""
    async with LocalFileMemoryProvider(tmp_path) as provider:
        for scope in (SCOPE, OTHER):
            await provider.save(SEATS.fact([4], timestamp=NOON), USER, scope)

        def failing(file: FileIO, data: bytes) -> None:
            if "other" in str(file.name):
                raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
            write_all(file, data)

        monkeypatch.setattr("factmem_file.log_storage.write_all", failing)
        outcomes: dict[str, Receipt | StoreUnavailableError] = {}

        async def save(name: str, statements: list[Append]) -> None:
            try:
                outcomes[name] = (await provider.append(statements))[0]
            except StoreUnavailableError as error:
                outcomes[name] = error

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(save, "here", _appends("here", SCOPE))
            tasks.start_soon(save, "there", _appends("there", OTHER))
            tasks.start_soon(save, "both", [*_appends("both", SCOPE), *_appends("both", OTHER)])
        assert isinstance(outcomes["here"], Receipt)
        assert isinstance(outcomes["there"], StoreUnavailableError)
        assert isinstance(outcomes["both"], StoreUnavailableError)
        monkeypatch.undo()
        await provider.append([*_appends("both", SCOPE), *_appends("both", OTHER)])
        assert set(await _values(provider)) == {"here", "both"}
        assert await _values(provider, OTHER) == ("both",)
