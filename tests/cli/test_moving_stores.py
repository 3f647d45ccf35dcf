"""`factmem move`: a copy of a store in another one, resumable after a kill, with errors that say the next step."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem import Concept, Fact, MemoryScope, MemorySubject, open_provider
from factmem.abc.capabilities import KeepsLog
from tests.cli.conftest import CommandLine
from tests.reliability.stores import NOON, STORES, DurableStore
from tests.reliability.test_full_disks import needs_mounts, remount, small_disk
from tests.tables import each_case

NOTES = Concept.multiple("notes", "What is moved")
USER = MemorySubject("user")
HERE = MemoryScope.agent("planner")


def test_a_store_is_copied_and_a_second_run_says_that_it_is_whole(cli: CommandLine, tmp_path: Path) -> None:
    cli.data("save", "city", "Oslo")
    cli.data("save", "city", "Rome")
    target = str(tmp_path / "target.db")
    done = cli.run("move", str(cli.store), target)
    assert done.code == 0, done.err
    assert f"2 entries were copied to {target}" in done.out
    assert CommandLine(Path(target)).data("load", "city") == cli.data("load", "city")
    again = cli.run("move", str(cli.store), target)
    assert (again.code, "has everything already: nothing was written" in again.out) == (0, True)
    cli.data("save", "city", "Bergen")
    data = cli.data("move", str(cli.store), target)
    assert (data["arrived"], data["behind"]) == (1, 0)
    assert [(item["tenant"], item["entries"], item["arrived"]) for item in data["tenants"]] == [(None, 3, 1)]


def test_a_target_that_ends_with_the_command_is_refused(cli: CommandLine) -> None:
    cli.data("save", "city", "Oslo")
    assert cli.error("move", str(cli.store), "memory:")["type"] == "InvalidDataError"


def test_one_organization_is_moved_alone(cli: CommandLine, tmp_path: Path) -> None:
    cli.data("--organization", "acme", "save", "city", "Oslo")
    cli.data("save", "city", "Rome")
    target = str(tmp_path / "target.db")
    data = cli.data("--organization", "acme", "move", str(cli.store), target)
    assert [item["tenant"] for item in data["tenants"]] == ["acme"]
    assert "Rome" not in str(CommandLine(Path(target)).data("info"))


def test_keys_are_named_in_the_addresses(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTMEM_OTHER_KEY", cli.data("new-key")["key"])
    cli.data("save", "city", "Oslo")
    target = f"encrypted:{tmp_path / 'sealed'}?key_env=FACTMEM_OTHER_KEY"
    cli.data("move", str(cli.store), target)
    assert cli.data("--store", target, "load", "city") == cli.data("load", "city")
    assert cli.error("move", target.replace("OTHER", "NO"), str(tmp_path / "x"))["type"] == "KeyUnavailableError"


@each_case("source", "target", "message")
def test_errors_say_the_next_step(cli: CommandLine, tmp_path: Path, source: str, target: str, message: str) -> None:
    cli.data("save", "city", "Oslo")
    CommandLine(tmp_path / "other.db").data("save", "city", "Lima")
    given = [text.format(store=cli.store, folder=tmp_path) for text in (source, target)]
    error = cli.error("move", *given)
    assert message in error["message"]
    assert not {"Oslo", "Lima"} & set(error["message"].split())
    assert not (tmp_path / "new.db").exists()


def test_an_unfinished_target_is_refused_and_found_by_a_check(cli: CommandLine) -> None:
    cli.data("save", "city", "Oslo")
    anyio.run(_begin, str(cli.store))
    error = cli.error("load", "city")
    assert "factmem move" in error["message"]
    done = cli.run("check")
    assert done.code == 1
    assert "unfinished copy" in done.out


def test_a_password_in_an_address_is_not_printed(cli: CommandLine, tmp_path: Path) -> None:
    cli.data("save", "city", "Oslo")
    target = str(tmp_path / "password=hush.db")  # what stands behind the sign counts as one
    for words in (("--json", "move"), ("move",)):
        done = cli.run(*words, str(cli.store), target)
        assert done.code == 0, done.err
        assert "password=…" in done.out or "password=\\u2026" in done.out
        assert "hush" not in done.out


async def _begin(address: str) -> None:
    async with open_provider(address) as provider:
        assert isinstance(provider, KeepsLog)
        await provider.begin_copy([None])


async def _fill(address: str, count: int) -> None:
    async with open_provider(address) as provider:
        for batch in range(count // 100):
            await provider.save(_notes(batch), USER, HERE)


def _notes(batch: int) -> Fact[Any]:
    return NOTES.fact([f"note {batch}.{number} " + "x" * 300 for number in range(100)], timestamp=NOON)


async def _log(address: str) -> list[object]:
    async with open_provider(address) as provider:
        assert isinstance(provider, KeepsLog)
        return list(await provider.changes(None))


def _moving(source: str, target: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "factmem", "move", source, target]
    return subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """A store that takes a moment to move."""
    path = tmp_path_factory.mktemp("filled") / "source.db"
    anyio.run(_fill, f"sqlite-vec:{path}", 6_000 if pytestconfig.getoption("--big") else 3_000)
    return path


@pytest.mark.processes
@pytest.mark.parametrize("store", STORES, ids=str)
def test_a_move_that_is_killed_at_any_moment_is_finished_by_the_next_one(
    store: DurableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, big: bool, filled: Path
) -> None:
    """Until then, the target is empty, or is refused as unfinished."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    source, target = f"sqlite-vec:{filled}", store.address(tmp_path / "target")
    expected, chance = anyio.run(_log, source), random.Random(5)
    killed = unfinished = 0
    for _ in range(40 if big else 2):
        process = _moving(source, target, store.environment)
        _wait_for_bytes(tmp_path, process, killed, chance)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            break
        killed += 1
        unfinished += anyio.run(_is_unfinished_or_empty, target)
    assert killed == unfinished > 0
    process = _moving(source, target, store.environment)
    _, error = process.communicate()
    assert process.returncode == 0, error
    assert anyio.run(_log, target) == expected


def _wait_for_bytes(folder: Path, process: subprocess.Popen[bytes], killed: int, chance: random.Random) -> None:
    """Wait until the target has grown since the last kill, then a moment more."""
    before = _size(folder)
    while process.poll() is None and _size(folder) <= before + 20_000 * (killed > 0):
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.1))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in [*folder.glob("target*"), *folder.glob("target/**/*")] if file.exists())


async def _is_unfinished_or_empty(address: str) -> bool:
    async with open_provider(address) as provider:
        assert isinstance(provider, KeepsLog)
        return await provider.copied(None) is not None or not await provider.tenants()


@needs_mounts
@pytest.mark.parametrize("store", STORES, ids=str)
def test_a_full_disk_breaks_a_move_off_and_room_lets_it_go_on(
    store: DurableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: Path
) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    source, address = CommandLine(filled), f"sqlite-vec:{filled}"
    with small_disk(tmp_path / "disk", 512) as disk:
        target = store.address(disk / "target")
        error = source.error("move", address, target)
        assert error["type"] == "StoreUnavailableError"
        assert anyio.run(_is_unfinished_or_empty, target)
        remount(disk, "size=65536k")
        assert source.data("move", address, target)["behind"] == 0
        assert anyio.run(_log, target) == anyio.run(_log, address)
