"""A rotation may be killed anywhere and resumes; other processes with both keys are unaffected."""

from __future__ import annotations

import base64
import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from factmem_encrypted.frames import FrameKey
from factmem_encrypted.frames import opened as opened_frame
from factmem_encrypted.manifest import Unit

from factmem.crypto import SecretKey
from factmem.crypto.key_file import Roots
from factmem.crypto.keys import Keyring
from factmem.crypto.sealing import SealBrokenError, unseal
from factmem.errors import CorruptStoreError, WrongKeyError
from factmem.records import Place
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import HashEmbedder
from tests.conftest import Promise
from tests.providers.children import Child
from tests.providers.encrypted.processes import rotate, save_values
from tests.providers.encrypted.worlds import (
    DIMENSION,
    KEY,
    PLACES,
    Files,
    frames_of,
    listing_of,
    opened,
    statements,
)

pytestmark = pytest.mark.timeout(40_000)

OLD = Keyring.of(KEY, "old")


async def fill(root: Path, places: int, each: int) -> None:
    """Save facts about many subjects, with vectors."""
    async with opened(root, OLD) as provider:
        await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
        for number in range(places):
            place = Place(MemorySubject(f"subject{number}"), MemoryScope.agent("planner"))
            await provider.append(statements(place, [f"drink {number}.{n}" for n in range(each)]))


async def facts_in(root: Path, key: Keyring) -> int | None:
    """Return the number of readable facts, all with vectors, or None if the key is wrong."""
    async with opened(root, key) as provider:
        try:
            facts = await provider.changes(None)
        except WrongKeyError:
            return None
        seqs, _ = await provider.vectors(None)
        # Another process may be saving.
        assert set(seqs) >= {entry.seq for entry in facts}
        await provider.verify()
        return len(facts)


def test_a_rotation_killed_at_any_point_goes_on(tmp_path: Path, big: bool, promise: Promise) -> None:
    """After every kill every fact is readable, and exactly one of the two keys opens the store."""
    root, chance = tmp_path / "facts", random.Random(11)
    places, each, kills = (200, 50, 500) if big else (25, 4, 8)
    anyio.run(fill, root, places, each)
    key, killed, rotations = OLD, 0, 0
    while killed < kills:
        after = Keyring.of(SecretKey.generate(), f"key {rotations + 1}")
        begun = done = False
        while not done:
            with Child(rotate, root, after if begun else key, None if begun else after) as child:
                if killed < kills:
                    child.kill_after(chance.expovariate(1 / (0.3 if big else 0.04)))
                    killed += 1
                else:
                    assert child.all_reports() == ["ready", "done"]
            by_old, by_new = anyio.run(facts_in, root, key), anyio.run(facts_in, root, after)
            begun = by_old is None
            assert [by_old, by_new] == ([None, places * each] if begun else [places * each, None])
            done = begun and anyio.run(epochs_of, root, after) == 1
        key, rotations = after, rotations + 1
    assert anyio.run(facts_in, root, OLD) is None
    anyio.run(leaves_nothing_behind, root, key)
    promise(
        "key rotation",
        f"{killed} kills in {rotations} rotations of {places * each} facts: all readable after each, old key opens 0",
    )


async def epochs_of(root: Path, key: Keyring) -> int:
    """Return the number of epochs among the store's keys: one, once a rotation is done."""
    async with opened(root, key) as provider:
        return len(provider._sealed._keys.roots().of_epochs)


async def leaves_nothing_behind(root: Path, key: Keyring) -> None:
    """Check that after another process's save only listed files exist, all of one epoch."""
    async with opened(root, key) as provider:
        await provider.append(statements(PLACES[0], ["one more"]))
        roots = provider._sealed._keys.roots()
        listing = provider._sealed._manifest.listing(roots)
        assert len(roots.of_epochs) == 1
        assert {listed.epoch for listed in listing.logs.values()} == {roots.current.epoch}
    left = Files.of(root).content
    assert {path.stem for path in left if path.suffix == ".sealed"} == set(listing.files)
    assert not [path for path in left if path.suffix == ".tmp"]


def keys_of(root: Path, key: Keyring) -> tuple[Roots, dict[tuple[Unit, int], bytes]]:
    """Return all keys of a store."""

    async def main() -> tuple[Roots, dict[tuple[Unit, int], bytes]]:
        async with opened(root, key) as provider:
            await provider.version(None)
            return provider._sealed._keys.roots(), dict(provider._sealed._keys._units)

    return anyio.run(main)


def opening(root: Path, key: Keyring, with_keys: list[bytes]) -> Iterator[Path]:
    """Return the files with a frame that any of some keys opens in its place."""
    roots = keys_of(root, key)[0]
    listing = anyio.run(listing_of, root, key)
    for path, content in Files.of(root).content.items():
        log = listing.files.get(path.stem)
        for index, frame in enumerate(frames_of(content)[1:] if path.suffix != ".note" else frames_of(content)):
            for secret in with_keys:
                with contextlib.suppress(SealBrokenError, ValueError, CorruptStoreError):
                    if log is not None:
                        opened_frame(FrameKey(key=secret, store=roots.store, log=log, file=path.stem), index, frame)
                    else:
                        sealed = base64.b64decode(frame.split(b" ")[-1])
                        _first_opened(secret, sealed, roots.store)
                    yield path


def _first_opened(secret: bytes, sealed: bytes, store: str) -> bytes:
    contexts: list[tuple[str | int, ...]] = [("head", store), ("note", store, "embedder"), ("note", store, "sequence")]
    contexts += [("unit", store, epoch) for epoch in range(4)]
    contexts += [("manifest", store, epoch, "") for epoch in range(4)]
    for context in contexts:
        with contextlib.suppress(SealBrokenError):
            return unseal(secret, sealed, context)
    raise SealBrokenError("by none")


def test_no_old_key_of_any_kind_opens_anything_afterwards(tmp_path: Path) -> None:
    """The user's key, the store's root keys and the subjects' keys are all replaced."""
    root = tmp_path / "facts"
    anyio.run(fill, root, 6, 3)
    roots, units = keys_of(root, OLD)
    old_keys = [*(epoch.key for epoch in roots.of_epochs), *units.values(), KEY.secret]
    assert len(set(opening(root, OLD, old_keys))) == len(Files.of(root).content) - 1  # all but the marker
    new = Keyring.of(SecretKey.generate(), "new")
    with Child(rotate, root, OLD, new) as child:
        assert child.all_reports() == ["ready", "done"]
    assert not list(opening(root, new, old_keys))
    assert anyio.run(facts_in, root, OLD) is None
    assert anyio.run(facts_in, root, new) == 18


async def test_the_old_key_opens_nothing_from_the_first_moment(tmp_path: Path) -> None:
    """This holds even before the first file is re-encrypted; the rotating process continues with the new key."""
    root = tmp_path / "facts"
    await fill(root, 3, 2)
    new = Keyring.of(SecretKey.generate())
    seen: list[tuple[int, int]] = []

    def look(done: int, of: int) -> None:
        seen.append((done, of))

    async with opened(root, OLD) as provider, opened(root, OLD) as beside:
        assert len(await beside.changes(None)) == 6
        await provider._write(lambda _: provider._locked(lambda: provider._sealed.begin_rotation(new)))
        with pytest.raises(WrongKeyError):
            await beside.append(statements(PLACES[0], ["too late"]))
        assert await facts_in(root, OLD) is None
        assert await facts_in(root, new) == 6
        await provider.rotate(progress=look)
        assert len(await provider.changes(None)) == 6
    assert seen == [(number, 6) for number in range(7)]


def test_others_read_and_save_while_it_goes_on(tmp_path: Path, big: bool) -> None:
    root, chance = tmp_path / "facts", random.Random(12)
    anyio.run(fill, root, 60 if big else 12, 3)
    new = Keyring.of(SecretKey.generate(), "new")
    both = Keyring(dict(OLD.sources) | dict(new.sources), "new")
    count = 200 if big else 15
    with Child(save_values, root, both, "a", count) as one, Child(save_values, root, both, "b", count) as other:
        said = [one.report(), other.report()]
        with Child(rotate, root, OLD, new) as child:
            child.kill_after(chance.random() / 10)
        begun = anyio.run(facts_in, root, OLD) is None
        with Child(rotate, root, new if begun else OLD, None if begun else new) as child:
            seen = anyio.run(facts_in, root, both)
            assert seen is not None
            assert seen >= 12 * 3
            assert child.all_reports() == ["ready", "done"]
        said += one.all_reports() + other.all_reports()
        assert not one.failed
        assert not other.failed
    assert len(said) == 2 * count
    assert anyio.run(facts_in, root, OLD) is None
    places = 60 if big else 12
    assert anyio.run(facts_in_all, root, new) == places * 3 + 2 * count


async def facts_in_all(root: Path, key: Keyring) -> int:
    """Return the number of facts of both tenants together."""
    async with opened(root, key) as provider:
        return len(await provider.changes(None)) + len(await provider.changes("acme"))
