"""A torn tail is ignored; any other damage is an error, and the damaged log is unchanged."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from pathlib import Path

import anyio
import pytest
from factmem_file import LocalFileMemoryProvider
from factmem_file.log_storage import DamagedFrameError, LocalLogStorage, framed, parse

from factmem.codec import FORMAT_VERSION
from factmem.errors import CorruptStoreError, FactMemError, NewerVersionError, StoreUnavailableError
from factmem.facts import Concept
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

USER = MemorySubject("user")
SCOPE = MemoryScope.agent("planner")
OTHER = MemoryScope.agent("other")
SEATS = Concept.single("seats", "seats", value_type=int)
LIKES = Concept.multiple("likes", "likes")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
LOG = "@default/agent/planner/user.jsonl"


async def _save(root: Path, value: str, scope: MemoryScope = SCOPE) -> None:
    async with LocalFileMemoryProvider(root) as provider:
        await provider.save(LIKES.fact([value], timestamp=NOON), USER, scope)


async def _values(root: Path) -> tuple[str, ...]:
    async with LocalFileMemoryProvider(root) as provider:
        fact = await provider.load(LIKES, USER, SCOPE)
        return fact.values if fact is not None else ()


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _frames(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True)


async def test_a_tail_torn_at_any_byte_is_passed_over_and_then_dropped(tmp_path: Path) -> None:
    for value in ("one", "two"):
        await _save(tmp_path, value)
    log = tmp_path / LOG
    whole = log.read_bytes()
    header, first, last = _frames(whole)
    (name,) = LocalLogStorage(tmp_path).logs(kinds=["facts"])
    for cut in range(1, len(last)):
        log.write_bytes(header + first + last[:cut])
        assert LocalLogStorage(tmp_path).scan(name).payloads == (first[9:-1],)
    for cut in (1, 8, 9, 10, len(last) // 2, len(last) - 2, len(last) - 1):
        log.write_bytes(header + first + last[:cut])
        assert await _values(tmp_path) == ("one",)
        await _save(tmp_path, "three")
        assert await _values(tmp_path) == ("one", "three")
        assert log.read_bytes().startswith(header + first)
        assert len(_frames(log.read_bytes())) == 3


def test_a_flipped_bit_anywhere_is_an_error(tmp_path: Path) -> None:
    for value in ("one", "two", "three"):
        anyio.run(_save, tmp_path, value)
    log = tmp_path / LOG
    sound = log.read_bytes()
    (name,) = LocalLogStorage(tmp_path).logs(kinds=["facts"])
    with log.open("r+b", buffering=0) as file:
        for at, bit in ((at, at * 3 % 8) for at in range(len(sound))):  # a bit of every byte
            os.pwrite(file.fileno(), bytes([sound[at] ^ 1 << bit]), at)
            with pytest.raises(CorruptStoreError, match=r"user\.jsonl"):
                LocalLogStorage(tmp_path).scan(name)
            os.pwrite(file.fileno(), sound[at : at + 1], at)


async def test_damage_at_one_place_leaves_an_open_provider_its_other_places(tmp_path: Path) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await provider.save(SEATS.fact([4], timestamp=NOON), USER, SCOPE)
        log = tmp_path / LOG
        log.write_bytes(b"X" + log.read_bytes()[1:])
        with pytest.raises(CorruptStoreError):
            await provider.load(SEATS, USER, SCOPE)
        with pytest.raises(CorruptStoreError):
            await provider.save(SEATS.fact([5], timestamp=NOON), USER, SCOPE)
        await provider.save(SEATS.fact([6], timestamp=NOON), USER, OTHER)
        with pytest.raises(CorruptStoreError):
            await provider.changes(None)


def test_a_line_feed_that_changed_is_damage_and_a_missing_one_is_not() -> None:
    frames = framed(b"[1]") + framed(b"[2]")
    assert parse(frames[:-1]).payloads == (b"[1]",)
    with pytest.raises(DamagedFrameError):
        parse(frames[:-1] + b"\x0b")


def test_blocks_that_a_power_cut_left_unwritten_count_as_never_acknowledged() -> None:
    sound, last = framed(b"[1]"), framed(b"[" + b"2" * 2000 + b"]")
    assert parse(sound + b"\0" * 100 + last[100:]).payloads == (b"[1]",)
    assert parse(sound + last[:700] + b"\0" * 512 + last[1212:]).payloads == (b"[1]",)
    assert parse(sound + b"\0" * 4096).payloads == (b"[1]",)
    with pytest.raises(DamagedFrameError):
        parse(sound + last[:700] + b"\0" + last[701:])
    with pytest.raises(DamagedFrameError):
        parse(last[:700] + b"\0" * 512 + last[1212:] + sound)


async def test_a_sound_frame_of_something_else_is_an_error_without_its_text(tmp_path: Path) -> None:
    await _save(tmp_path, "one")
    log = tmp_path / LOG
    header, _ = _frames(log.read_bytes())
    for payload in (b'{"secret": 1}', b'["secret"]', b'[{"v": 1, "kind": "secret"}]', b"secret"):
        log.write_bytes(header + framed(payload))
        with pytest.raises(CorruptStoreError, match="planner/user") as caught:
            await _values(tmp_path)
        assert "secret" not in str(caught.value)


async def test_a_file_moved_to_another_place_is_not_believed(tmp_path: Path) -> None:
    await _save(tmp_path, "one")
    shutil.copytree(tmp_path / "@default/agent/planner", tmp_path / "@default/agent/other")
    async with LocalFileMemoryProvider(tmp_path) as provider:
        with pytest.raises(CorruptStoreError, match="agent/other/user"):
            await provider.load(LIKES, USER, OTHER)


@pytest.mark.parametrize("damage", [None, b"", b"\0\0\0", b"not a note", b'00000000 {"committed":9,"reserved":9}\n'])
async def test_a_lost_or_damaged_counter_is_found_again_in_the_logs(tmp_path: Path, damage: bytes | None) -> None:
    for value in ("one", "two"):
        await _save(tmp_path, value)
    await _save(tmp_path, "three", OTHER)
    note = tmp_path / "sequence.note"
    note.unlink() if damage is None else note.write_bytes(damage)
    async with LocalFileMemoryProvider(tmp_path) as provider:
        assert await provider.version(None) == 3
    note.unlink() if damage is None else note.write_bytes(damage)
    await _save(tmp_path, "four")
    async with LocalFileMemoryProvider(tmp_path) as provider:
        assert [entry.seq for entry in await provider.changes(None)] == [1, 2, 3, 4]


async def test_a_counter_lost_under_an_open_provider_is_found_again(tmp_path: Path) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await provider.save(SEATS.fact([4], timestamp=NOON), USER, SCOPE)
        (tmp_path / "sequence.note").unlink()
        assert await provider.version(None) == 1
        (tmp_path / "sequence.note").unlink()
        await provider.save(SEATS.fact([5], timestamp=NOON), USER, OTHER)
        assert await provider.version(None) == 2


async def test_a_counter_set_back_under_an_open_provider_gives_no_number_twice(tmp_path: Path) -> None:
    async with LocalFileMemoryProvider(tmp_path) as provider:
        await provider.save(SEATS.fact([4], timestamp=NOON), USER, SCOPE)
        old = (tmp_path / "sequence.note").read_bytes()
        await provider.save(SEATS.fact([5], timestamp=NOON), USER, SCOPE)
        (tmp_path / "sequence.note").write_bytes(old)
        await provider.save(SEATS.fact([6], timestamp=NOON), USER, SCOPE)
        assert [entry.seq for entry in await provider.changes(None)] == [1, 2, 3]


async def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreUnavailableError, match="other files"):
        await _save(tmp_path, "one")
    with pytest.raises(StoreUnavailableError, match="other files"):
        await _values(tmp_path)
    assert _names(tmp_path) == ["thesis.txt"]
    with pytest.raises(StoreUnavailableError):
        await _save(tmp_path / "thesis.txt", "one")


async def test_a_store_of_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    await _save(tmp_path, "one")
    marker = tmp_path / "factmem.json"
    marker.write_text(json.dumps({"format": 2, "store": "factmem"}))
    for attempt in (_save(tmp_path, "two"), _values(tmp_path)):
        with pytest.raises(NewerVersionError, match="upgrade"):
            await attempt
    marker.write_text("{")
    with pytest.raises(CorruptStoreError, match=r"factmem\.json"):
        await _save(tmp_path, "two")
    assert marker.read_text() == "{"


async def test_a_newer_log_or_entry_is_refused_and_left_alone(tmp_path: Path) -> None:
    await _save(tmp_path, "one")
    log = tmp_path / LOG
    header, frame = _frames(log.read_bytes())
    for changed in (
        framed(header[9:-1].replace(b'"factmem":1', b'"factmem":2')) + frame,
        header + framed(frame[9:-1].replace(b'"v":%d' % FORMAT_VERSION, b'"v":%d' % (FORMAT_VERSION + 1))),
    ):
        log.write_bytes(changed)
        with pytest.raises(NewerVersionError):
            await _values(tmp_path)
        with pytest.raises(FactMemError):
            await _save(tmp_path, "two")
        assert log.read_bytes() == changed
