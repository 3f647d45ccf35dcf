"""A rotation replaces every key, and the old one opens nothing from its first moment. Deaths are simulated."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from factmem_encrypted.log_storage import FrameKey
from factmem_encrypted.log_storage import opened as opened_frame
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
from tests.providers.encrypted.worlds import DIMENSION, KEY, PLACES, Files, frames_of, listing_of, opened, statements

OLD = Keyring.of(KEY, "old")


async def fill(root: Path, places: int, each: int) -> None:
    """Save facts about many subjects, with vectors."""
    async with opened(root, OLD) as provider:
        await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
        for number in range(places):
            place = Place(MemorySubject(f"subject{number}"), MemoryScope.agent("planner"))
            await provider.append(statements(place, [f"drink {number}.{n}" for n in range(each)]))


async def rotate(root: Path, new: Keyring) -> None:
    """Rotate a store to a new key."""
    async with opened(root, OLD) as provider:
        await provider.rotate(new)


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
    anyio.run(rotate, root, new)
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
        await provider._locked(lambda: provider._sealed.begin_rotation(new))
        with pytest.raises(WrongKeyError):
            await beside.append(statements(PLACES[0], ["too late"]))
        assert await facts_in(root, OLD) is None
        assert await facts_in(root, new) == 6
        await provider.rotate(progress=look)
        assert len(await provider.changes(None)) == 6
    assert seen == [(number, 6) for number in range(7)]
