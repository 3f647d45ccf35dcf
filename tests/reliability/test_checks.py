"""`check` finds swapped, missing and exposed files, and pending work; damaged ones are in test_damaged_files.py."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
import pytest

from factmem.abc.capabilities import Append
from factmem.errors import FactMemError
from factmem.records import LogEntry, Place, Recorded, StateChange, assertions_of
from factmem.store_findings import Finding, FindingKind, Severity, findings_in
from factmem.testing import FakeClock
from tests.reliability.stores import CITY, NOON, NUMBERS, PLANNER, STORES, USER, DurableStore, durable_stores
from tests.reliability.test_damaged_files import Victim, findings, victim
from tests.simulation import SimulatedDisk, intercepted

pytestmark = [pytest.mark.timeout(7200), pytest.mark.parametrize("anyio_backend", ["asyncio"])]

_PLAIN_FILES: Final = STORES[1]


async def is_missed(original: Victim, folder: Path) -> bool:
    """Return whether a damaged copy gives other answers although the check finds nothing."""
    found = await findings(original.store, folder)
    assert all(finding.problem and finding.part for finding in found)
    return not found and await original.ask(folder) != original.truth


@durable_stores
async def test_a_missing_file_is_found(store: DurableStore, tmp_path: Path) -> None:
    """Exceptions are derived files, and the log of a place in plain files, which have no list of their logs."""
    original = await victim(store, tmp_path)
    for file in original.files():
        folder = original.damaged(file, b"")
        (folder / file).unlink()
        assert not await is_missed(original, folder) or may_be_made_again(store, file), file


def may_be_made_again(store: DurableStore, file: Path) -> bool:
    """Return whether a missing file is harmless or undetectable: notes, vectors, and any log of plain files."""
    return file.suffix == ".note" or (store == _PLAIN_FILES and file.suffix != ".json")


@pytest.mark.parametrize("store", STORES[1:3], ids=str)
async def test_two_swapped_files_are_found(store: DurableStore, tmp_path: Path) -> None:
    original = await victim(store, tmp_path)
    logs = [file for file in original.files() if file.suffix in (".jsonl", ".sealed")]
    for one, other in itertools.combinations(logs, 2):
        folder = original.damaged(one, (original.folder / other).read_bytes())
        (folder / other).write_bytes((original.folder / one).read_bytes())
        assert any(found.severity is Severity.ERROR for found in await findings(store, folder)), (one, other)


@durable_stores
async def test_a_store_that_is_not_there_is_found(store: DurableStore, tmp_path: Path) -> None:
    async with store.open(tmp_path / "store") as provider:
        (found,) = await provider.check()
    assert found.kind is FindingKind.MISSING
    assert [path async for path in anyio.Path(tmp_path).iterdir()] == []


@durable_stores
async def test_files_that_others_may_read_are_found(store: DurableStore, tmp_path: Path) -> None:
    original = await victim(store, tmp_path)
    for file in original.files():
        folder = original.damaged(file, (original.folder / file).read_bytes())
        for path in folder.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        (folder / file).chmod(0o644)
        found = await findings(store, folder)
        assert {finding.kind for finding in found} == {FindingKind.EXPOSED}
        assert file.name in {Path(finding.part).name for finding in found}


async def interrupted(store: DurableStore, folder: Path, calls: int) -> list[Finding]:
    """Return the findings of a store whose process died during an erasure."""
    (folder / "home").mkdir(parents=True)
    disk = SimulatedDisk(folder / "home", random.Random(3))
    with intercepted(disk):
        provider = store.open(disk.root / "store", clock=FakeClock())
        fact = NUMBERS.fact(["one", "two"], timestamp=NOON)
        receipts = await provider.append([Append(assertion=said) for said in assertions_of(fact, Place(USER, PLANNER))])
        disk.restart(dies_at=calls)
        try:
            await provider.erase([receipts[0].recorded.record_id], tenant=None)
        except FactMemError:
            assert disk.dead
        disk.kill()
        await _closed(provider)
    return await findings(store, shutil.copytree(disk.root, folder / "left"))


async def _closed(provider: Any) -> None:
    try:
        await provider.aclose()
    except FactMemError:
        return


@durable_stores
async def test_an_interrupted_erasure_is_found(store: DurableStore, tmp_path: Path, big: bool) -> None:
    kinds = [
        {finding.kind for finding in await interrupted(store, tmp_path / f"{calls}", calls)}
        for calls in range(1, 60, 1 if big else 3)
    ]
    assert {FindingKind.PENDING_ERASURE} in kinds
    assert all(found <= {FindingKind.PENDING_ERASURE} for found in kinds)


def entries(count: int) -> list[Recorded]:
    place = Place(USER, PLANNER)
    return [
        Recorded(
            assertion=assertions_of(CITY.fact([f"city {seq}"], timestamp=NOON), place)[0],
            id=f"id {seq}",
            record_id=f"record {seq}",
            seq=seq,
            recorded_at=NOON,
        )
        for seq in range(1, count + 1)
    ]


def test_a_log_whose_entries_contradict_each_other_is_found(anyio_backend: str) -> None:
    first, second, third = entries(3)
    change = StateChange(assertion_id="id 9", state=first.assertion.state, seq=4, recorded_at=NOON)
    wrong: dict[FindingKind, list[list[LogEntry]]] = {
        FindingKind.INCONSISTENT: [
            [first, third, second],
            [first, attrs.evolve(second, id=first.id)],
            [first, attrs.evolve(second, seq=1)],
        ],
        FindingKind.DANGLING: [
            [first, change],
            [first, attrs.evolve(second, assertion=attrs.evolve(second.assertion, revises="record 1"))],
        ],
    }
    assert findings_in([first, second, third], None) == []
    for kind, logs in wrong.items():
        for log in logs:
            assert [finding.kind for finding in findings_in(log, None)] == [kind]
