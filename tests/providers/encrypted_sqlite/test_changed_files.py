"""Detection of changes made without the key: flipped bits, swapped and replayed pages, cut files."""

from __future__ import annotations

import random
from pathlib import Path

import anyio
import pytest

from factmem.errors import (
    CorruptStoreError,
    DowngradedStoreError,
    NewerVersionError,
    RolledBackStoreError,
    TamperedStoreError,
)
from tests.conftest import Promise
from tests.providers.sealed import answers_of, append, files_of, fill, opened

PAGE = 4096

pytestmark = pytest.mark.timeout(3_600)


def refused(path: Path, error: type[Exception] | tuple[type[Exception], ...] = CorruptStoreError) -> None:
    """Assert that reading and saving are refused with an error and leave the files unchanged."""
    before = files_of(path)
    anyio.run(_refused, path, error)
    assert files_of(path) == before


async def _refused(path: Path, error: type[Exception] | tuple[type[Exception], ...]) -> None:
    with pytest.raises(error):
        await answers_of(path)
    async with opened(path, busy_timeout=0.2) as provider:
        with pytest.raises(error):
            await provider.verify()
        with pytest.raises(error):
            await append(provider, [999])


def test_every_flipped_bit_is_refused(path: Path, big: bool, promise: Promise) -> None:
    """The flips cover every page's beginning, content, vector and HMAC, and all of the first hundred bytes."""
    chance = random.Random(3)
    whole = path.read_bytes()
    offsets = list(range(0, 100, 1 if big else 7))
    for start in range(0, len(whole), PAGE):
        offsets += [start + at for at in (0, PAGE - 80, PAGE - 64, PAGE - 1)] if big else [start + PAGE - 70]
        offsets += [start + chance.randrange(PAGE) for _ in range(40 if big else 1)]
    for offset in offsets:
        changed = bytearray(whole)
        changed[offset] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        refused(path)
    promise(
        "bit flips, encrypted-sqlite", f"{len(offsets)} flips in {len(whole) // PAGE} pages: every one a typed error"
    )


def test_a_cut_seal_is_damage_and_not_a_newer_version(path: Path) -> None:
    seal = path.with_name("facts.db.seal")
    whole = seal.read_bytes()
    for length in range(1, len(whole)):
        seal.write_bytes(whole[:length])
        refused(path, TamperedStoreError)
    seal.write_bytes(whole.replace(b"seal 1 ", b"seal 2 "))
    refused(path, NewerVersionError)


def test_every_truncation_is_refused(path: Path, big: bool, promise: Promise) -> None:
    whole = path.read_bytes()
    pages = range(PAGE, len(whole), PAGE)
    lengths = [1, 16, 100, PAGE - 1, PAGE + 1, len(whole) - 1, *(pages if big else pages[::5])]
    for length in lengths:
        path.write_bytes(whole[:length])
        refused(path)
        if length % PAGE:
            with pytest.raises(RolledBackStoreError):
                anyio.run(answers_of, path)
    promise("truncations, encrypted-sqlite", f"{len(lengths)}: every one a typed error")


def test_swapped_pages_are_refused(path: Path, tmp_path: Path, big: bool, promise: Promise) -> None:
    """The pages are from one store, and from a store with another key."""
    chance = random.Random(4)
    anyio.run(fill, tmp_path / "other.db")
    whole, other = path.read_bytes(), (tmp_path / "other.db").read_bytes()
    count = min(len(whole), len(other)) // PAGE
    pairs = [chance.sample(range(count), 2) for _ in range(300 if big else 15)]
    for one, two in pairs:
        changed = bytearray(whole)
        a, b = slice(one * PAGE, one * PAGE + PAGE), slice(two * PAGE, two * PAGE + PAGE)
        changed[a], changed[b] = whole[b], whole[a]
        path.write_bytes(changed)
        refused(path)
        changed = bytearray(whole)
        changed[a] = other[a]
        path.write_bytes(changed)
        refused(path)
    promise("page swaps, encrypted-sqlite", f"{2 * len(pairs)}: 0 accepted")


def test_a_page_of_zeros_is_refused(path: Path) -> None:
    """Writing zeros needs no key."""
    whole = path.read_bytes()
    for start in range(0, len(whole), PAGE):
        path.write_bytes(whole[:start] + bytes(PAGE) + whole[start + PAGE :])
        refused(path)


@pytest.mark.parametrize("rubbish", [b"x", b"\0" * 4096, b"no database\n" * 1024, b"SQLite format 3\0" * 256])
def test_rubbish_in_its_place_is_refused(path: Path, rubbish: bytes) -> None:
    path.write_bytes(rubbish)
    refused(path, DowngradedStoreError if rubbish.startswith(b"SQLite") else CorruptStoreError)
