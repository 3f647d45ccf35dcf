"""Failures of a folder of files: a failing save fails alone, and erased facts are left in no file."""

from __future__ import annotations

import datetime as dt
import errno
import os
from io import FileIO
from pathlib import Path

import anyio
import numpy as np
import pytest
from factmem_file import LocalFileMemoryProvider
from factmem_file.log_storage import LocalLogStorage

from factmem.abc.capabilities import Append, EmbedderIdentity, Receipt
from factmem.details import FactDetails
from factmem.errors import ConceptConflictError, StoreUnavailableError
from factmem.facts import Concept
from factmem.private_files import write_all
from factmem.records import Place, Recorded, Tombstone, assertions_of
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


# Erasure from a folder of files: erased facts are left in no file, even after failures on the way.


PLACE = Place(USER, SCOPE)
SECRET = Concept.multiple("topsecretkeyword", "topsecretdescription")
EMBEDDER = EmbedderIdentity(name="test", dimension=4)
VECTOR = np.array([0.1, 0.7, 0.3, 0.2], dtype=np.float32)


def _holds(root: Path, text: str) -> list[str]:
    return [
        path.name
        for path in root.rglob("*")
        if text in path.name or (path.is_file() and text.encode() in path.read_bytes())
    ]


async def _secret(provider: LocalFileMemoryProvider, place: Place = PLACE) -> Recorded:
    fact = SECRET.fact(["classified"], timestamp=NOON)
    details = FactDetails(metadata={"note": "classified"})
    (assertion,) = assertions_of(fact, place, details)
    await provider.use_embedder(EMBEDDER)
    (receipt,) = await provider.append([Append(assertion=assertion, vector=VECTOR)])
    return receipt.recorded


async def test_a_place_that_is_empty_goes_with_its_folders(tmp_path: Path) -> None:
    place = Place(USER.individual("alice"), MemoryScope.agent("planner").within("acme") / "affair")
    async with LocalFileMemoryProvider(tmp_path) as provider:
        secret = await _secret(provider, place)
        assert (await provider.erase([secret.record_id], tenant=None)).erased == 0
        assert (await provider.erase([secret.record_id], tenant="acme")).erased == 1
    for text in ("alice", "affair", "planner", "classified"):
        assert _holds(tmp_path, text) == []
    async with LocalFileMemoryProvider(tmp_path) as again:
        assert [entry.seq for entry in await again.changes("acme")] == [2]
        assert (await _secret(again, place)).seq == 3


async def _erased_by_one_that_dies(
    provider: LocalFileMemoryProvider, secret: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erase a record; the writer dies after the tombstones are written and before the text is removed."""

    def dies(*args: object, **kwargs: object) -> None:
        raise StoreUnavailableError("no power")

    with monkeypatch.context() as patch:
        patch.setattr(LocalLogStorage, "replace", dies)
        receipt = await provider.erase([secret.record_id], tenant=None)
    assert (receipt.erased, receipt.pending) == (1, True)


async def test_an_erasure_broken_off_hides_at_once_and_is_finished_by_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await provider.save(LIKES.fact(["tea"], timestamp=NOON), USER, SCOPE)
        secret = await _secret(provider)
        await _erased_by_one_that_dies(provider, secret, monkeypatch)
        assert _holds(tmp_path, "classified") != []
    async with LocalFileMemoryProvider(tmp_path) as again:
        assert await again.load(SECRET, USER, SCOPE) is None
        assert await again.entries(PLACE, SECRET.keyword) == []
        assert [type(entry) for entry in await again.changes(None)] == [Recorded, Tombstone]
        await again.save(LIKES.fact(["jazz"], timestamp=NOON), USER, SCOPE)
        assert _holds(tmp_path, "classified") == []


async def test_saying_it_again_after_an_erasure_broken_off_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        secret = await _secret(provider)
        await _erased_by_one_that_dies(provider, secret, monkeypatch)
    async with LocalFileMemoryProvider(tmp_path) as again:
        anew = await _secret(again)
        assert anew.id != secret.id
        assert await again.entries(PLACE) == [anew]
