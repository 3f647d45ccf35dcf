"""Encrypted stores with removed, emptied, cut, changed or restored files: detected, or complete."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio
import attrs
import pytest

from factmem.errors import CorruptStoreError, FactMemError, RolledBackStoreError
from tests.conftest import Promise
from tests.reliability.stores import NOON, NUMBERS, PLANNER, STORES, USER, DurableStore

COUNT: Final = 20
ENCRYPTED: Final = [store for store in STORES if store.name.startswith("encrypted")]

NO_WITNESSES: Final = {"store", "store-shm", "store/sequence.note"}
"""Files that say nothing about the others: restoring all but these is an undetectable rollback of the whole store."""

encrypted_stores = pytest.mark.parametrize("store", ENCRYPTED, ids=str)
on_one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"])

Files = Mapping[str, bytes]


@attrs.frozen(kw_only=True)
class Life:
    """Files of a store at three moments.

    Attributes:
        half: after half of the facts were acknowledged, as a kill would leave them.
        killed: after all were, as a kill would leave them.
        closed: after closing.
    """

    half: Files
    killed: Files
    closed: Files


def files_of(folder: Path) -> Files:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def put(files: Files, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


async def save(store: DurableStore, path: Path, numbers: Sequence[int]) -> None:
    async with store.open(path) as provider:
        for number in numbers:
            await provider.save(NUMBERS.fact([f"{number}"], timestamp=NOON), USER, PLANNER)


async def life_of(store: DurableStore, folder: Path) -> Life:
    path = folder / "store"
    await save(store, path, range(3))  # a part is in the file itself, and not only in the log
    async with store.open(path) as provider:
        moments = []
        for number in range(3, COUNT):
            await provider.save(NUMBERS.fact([f"{number}"], timestamp=NOON), USER, PLANNER)
            if number in {COUNT // 2, COUNT - 1}:
                moments.append(files_of(folder))
    return Life(half=moments[0], killed=moments[1], closed=files_of(folder))


async def found(store: DurableStore, folder: Path) -> set[int]:
    async with store.open(folder / "store") as provider:
        changes = await provider.changes(None)
        fact = await provider.load(NUMBERS, USER, PLANNER)
        await provider.vectors(None)
        values = {int(value) for value in fact.values} if fact else set()
        assert len(changes) == len(values)
        return values


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


SPOILT: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "emptied": lambda content: b"",
    "cut in half": lambda content: content[: len(content) // 2],
    "without its last byte": lambda content: content[:-1],
    "first byte flipped": lambda content: _flipped(content, 0),
    "middle byte flipped": lambda content: _flipped(content, len(content) // 2),
    "last byte flipped": lambda content: _flipped(content, len(content) - 1),
    "zeros": lambda content: bytes(len(content)),
}


def mutations(life: Life) -> Iterator[tuple[str, Files]]:
    """Yield each change of one file, each earlier file beside later ones, and pairs of missing files."""
    for when, files in (("killed", life.killed), ("closed", life.closed)):
        for name, content in files.items():
            if not content or name.endswith(".lock"):
                continue
            rest = {other: found for other, found in files.items() if other != name}
            yield f"{when}, {name} missing", rest
            for how, spoil in SPOILT.items():
                yield f"{when}, {name} {how}", {**rest, name: spoil(content)}
            if life.half.get(name, content) != content:
                yield f"{when}, {name} of before", {**rest, name: life.half[name]}
                if name not in NO_WITNESSES:
                    yield f"{when}, all of before but {name}", {**life.half, name: content}
            for other in rest:
                if other > name and not other.endswith(".lock"):
                    yield f"{when}, {name} and {other} missing", {k: v for k, v in rest.items() if k != other}


@encrypted_stores
@on_one_loop
async def test_every_mutation_is_found_or_changes_nothing(
    store: DurableStore, tmp_path: Path, promise: Promise
) -> None:
    life = await life_of(store, tmp_path / "made")
    outcomes = {"found": 0, "complete": 0}
    for what, files in mutations(life):
        put(files, tmp_path / "spoilt")
        try:
            assert await found(store, tmp_path / "spoilt") == set(range(COUNT)), what
            outcomes["complete"] += 1
        except RolledBackStoreError:
            outcomes["found"] += 1
            with pytest.raises(RolledBackStoreError):  # lost data is not overwritten
                await save(store, tmp_path / "spoilt" / "store", [COUNT])
        except FactMemError:
            outcomes["found"] += 1
    assert outcomes["found"] > 24
    promise(
        f"mutated files, {store}",
        f"{sum(outcomes.values())}: {outcomes['found']} typed errors, {outcomes['complete']} complete, 0 silent losses",
    )


SQLITE: Final = next(store for store in STORES if store.name == "encrypted-sqlite")


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The folder of an encrypted database as a kill left it."""
    put(anyio.run(life_of, SQLITE, tmp_path / "made").killed, tmp_path / "killed")
    return tmp_path / "killed"


@on_one_loop
async def test_every_flipped_byte_of_a_log_is_found(tmp_path: Path, big: bool, promise: Promise) -> None:
    """SQLite takes the first invalid frame as the end of the log."""
    life, flips, complete = await life_of(SQLITE, tmp_path / "made"), 0, 0
    log = life.killed["store-wal"]
    for at in range(0, len(log), len(log) // (1000 if big else 40)):
        put({**life.killed, "store-wal": _flipped(log, at)}, tmp_path / "spoilt")
        try:
            assert await found(SQLITE, tmp_path / "spoilt") == set(range(COUNT)), at
            complete += 1
        except CorruptStoreError:
            pass
        flips += 1
    promise("flipped bytes of the log, encrypted-sqlite", f"{flips}: {flips - complete} errors, {complete} complete")


@on_one_loop
async def test_an_older_database_is_taken_if_insisted_on(killed: Path) -> None:
    (killed / "store-wal").unlink()
    with pytest.raises(RolledBackStoreError, match="accept_older"):
        await found(SQLITE, killed)
    async with SQLITE.open(killed / "store", accept_older="yes") as provider:
        await provider.save(NUMBERS.fact(["100"], timestamp=NOON), USER, PLANNER)
    assert await found(SQLITE, killed) == {0, 1, 2, 100}


@on_one_loop
async def test_a_store_without_a_seal_gets_one_with_the_next_write(killed: Path) -> None:
    """A store of an earlier factmem has neither the file nor the note in the database."""
    async with SQLITE.open(killed / "store") as provider:
        await provider._write(
            lambda engine: engine.store.write(lambda db: db.execute("DELETE FROM meta WHERE key = 'sealed'").fetchall())
        )
    (killed / "store.seal").unlink()
    assert await found(SQLITE, killed) == set(range(COUNT))
    assert not (killed / "store.seal").exists()
    before = files_of(killed)
    await save(SQLITE, killed / "store", [COUNT])
    put({**before, "store.seal": (killed / "store.seal").read_bytes()}, killed)
    with pytest.raises(RolledBackStoreError):
        await found(SQLITE, killed)


@on_one_loop
async def test_a_seal_said_to_be_only_begun_is_found_out(killed: Path) -> None:
    (killed / "store.seal").write_bytes(b"factmem-seal 1 begun".ljust(255) + b"\n")
    with pytest.raises(CorruptStoreError, match=r"store\.seal was changed"):
        await found(SQLITE, killed)


@on_one_loop
async def test_a_write_between_commit_and_seal_does_no_harm(killed: Path) -> None:
    """A kill there leaves the seal behind the database, and the next write updates it."""
    seal = (killed / "store.seal").read_bytes()
    await save(SQLITE, killed / "store", [COUNT])
    (killed / "store.seal").write_bytes(seal)
    assert await found(SQLITE, killed) == set(range(COUNT + 1))
    await save(SQLITE, killed / "store", [COUNT + 1])
    assert (killed / "store.seal").read_bytes() != seal
    assert await found(SQLITE, killed) == set(range(COUNT + 2))
