"""Crypto-shredding: forgotten facts are unreadable in old copies too, because their key is destroyed."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import anyio
import pytest
from factmem_encrypted.log_storage import FrameKey
from factmem_encrypted.log_storage import opened as opened_frame
from factmem_encrypted.manifest import Listed

from factmem.abc.capabilities import Append
from factmem.crypto import SecretKey
from factmem.errors import CorruptStoreError
from factmem.records import Place
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import HashEmbedder
from tests.providers.encrypted.worlds import DIMENSION, Files, frames_of, listing_of, opened, statements

pytestmark = pytest.mark.usefixtures("without_flushes")

ANNA, BEN = MemorySubject("user").individual("anna"), MemorySubject("user").individual("ben")
PLACES = [
    Place(subject, scope)
    for subject in (ANNA, BEN)
    for scope in (
        MemoryScope.agent("planner"),
        MemoryScope.product("alpha"),
        MemoryScope.agent("planner").within("acme"),
    )
]


async def fill(root: Path, key_per: str) -> None:
    async with opened(root, key_per=key_per) as provider:
        for place in PLACES:
            await provider.append([*_plain(place, "one"), *_plain(place, "two")])


def _plain(place: Place, value: str) -> list[Append]:
    return [Append(assertion=statement.assertion) for statement in statements(place, [value])]


async def forget(root: Path, subject: MemorySubject | None, tenant: str | None, key_per: str) -> None:
    """Erase everything about a subject of a tenant, or about all of its subjects."""
    async with opened(root, key_per=key_per) as provider:
        for place in PLACES:
            if place.scope.tenant == tenant and subject in (None, place.subject):
                ids = [entry.id for entry in await provider.entries(place)]  # type: ignore[union-attr]
                await provider.erase([], assertion_ids=ids, tenant=tenant)


async def readable(copy: Path, root: Path) -> set[tuple[str, str | None]]:
    """Return tenant and individual of all facts in an old copy that any current key of the store opens.

    The old manifest, which names them, is provided.
    """
    listing = await listing_of(copy)
    async with opened(root) as provider:
        await provider.version(None)
        table = provider._sealed._keys
        keys = [*table._units.values(), *(root.key for root in table.roots().of_epochs)]
        store = table.roots().store
    return {
        (listed.log.folder[0], listed.log.name[1])
        for listed in listing.logs.values()
        if listed.log.kind == "facts" and any(_opens(copy, listed, store, key) for key in keys)
    }


def _opens(copy: Path, listed: Listed, store: str, key: bytes) -> bool:
    content = (copy / listed.file[:2] / f"{listed.file}.sealed").read_bytes()
    frame_key = FrameKey(key=key, store=store, log=listed.log, file=listed.file)
    for index, frame in enumerate(frames_of(content)[1:]):
        with contextlib.suppress(CorruptStoreError):
            opened_frame(frame_key, index, frame)
            return True
    return False


@pytest.mark.parametrize(
    ("key_per", "subject", "left"),
    [
        ("subject", ANNA, {("", "ben"), ("acme", "anna"), ("acme", "ben")}),
        ("subject", None, {("acme", "anna"), ("acme", "ben")}),
        ("tenant", None, {("acme", "anna"), ("acme", "ben")}),
        ("tenant", ANNA, {("", "anna"), ("", "ben"), ("acme", "anna"), ("acme", "ben")}),
    ],
)
def test_old_copies_of_what_was_forgotten_do_not_open(
    tmp_path: Path, key_per: str, subject: MemorySubject | None, left: set[tuple[str, str | None]]
) -> None:
    """With a key for each tenant, this holds once the whole tenant is forgotten; the other tenant loses nothing."""
    root, copy = tmp_path / "facts", tmp_path / "copy"

    async def main() -> None:
        await fill(root, key_per)
        shutil.copytree(root, copy)
        assert len(await readable(copy, root)) == 4
        await forget(root, subject, None, key_per)
        assert await readable(copy, root) == left

    anyio.run(main)


def test_an_old_store_with_the_keys_of_today_is_refused(tmp_path: Path) -> None:
    """Everything but the key file is restored: the forgotten facts are unreadable, and the rest is refused too."""
    root = tmp_path / "facts"

    async def main() -> None:
        await fill(root, "subject")
        before = Files.of(root)
        await forget(root, ANNA, None, "subject")
        keys = (root / "store.keys").read_bytes()
        before.put_back()
        (root / "store.keys").write_bytes(keys)
        async with opened(root) as provider:
            with pytest.raises(CorruptStoreError):
                await provider.entries(PLACES[0])
            with pytest.raises(CorruptStoreError):
                await provider.append(_plain(PLACES[0], "three"))

    anyio.run(main)


def test_a_key_file_put_back_brings_nothing_back(tmp_path: Path) -> None:
    """The old keys meet the current files: the forgotten facts are in no file, and their keys are deleted again."""
    root = tmp_path / "facts"

    async def main() -> None:
        await fill(root, "subject")
        await forget(root, BEN, None, "subject")
        keys = (root / "store.keys").read_bytes()
        await forget(root, ANNA, None, "subject")
        (root / "store.keys").write_bytes(keys)
        async with opened(root) as provider:
            assert not await provider.entries(PLACES[0])
            await provider.append(_plain(PLACES[2], "three"))
        assert len((root / "store.keys").read_bytes()) < len(keys)

    anyio.run(main)


async def test_what_has_a_key_of_its_own_may_change_between_openings(tmp_path: Path) -> None:
    """Existing logs keep their keys until they are re-encrypted, and no entry is lost either way."""
    root = tmp_path / "facts"
    await fill(root, "subject")
    other = Place(ANNA, MemoryScope.agent("second"))
    async with opened(root, key_per="tenant") as provider:
        await provider.append([*_plain(PLACES[0], "three"), *_plain(other, "one")])
    async with opened(root, key_per="subject") as provider:
        await provider.append([*_plain(PLACES[0], "four"), *_plain(other, "two")])
        assert len(await provider.entries(PLACES[0])) == 4
        await provider.rotate(SecretKey(bytes(range(32))))
    listing = await listing_of(root)
    assert {listed.unit[0] for log, listed in listing.logs.items() if log.kind == "facts"} == {"subject"}
    async with opened(root, key_per="tenant") as provider:
        assert len(await provider.entries(PLACES[0])) == 4
        assert len(await provider.entries(other)) == 2


async def test_a_key_that_a_save_has_just_made_outlives_what_is_tidied_meanwhile(tmp_path: Path) -> None:
    """One transaction has a new subject, and a place whose damaged vectors are deleted."""
    root = tmp_path / "facts"
    async with opened(root) as provider:
        await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
        await provider.append(statements(PLACES[0], ["one"]))
    (path,) = (
        root / listed.file[:2] / f"{listed.file}.sealed"
        for log, listed in (await listing_of(root)).logs.items()
        if log.kind == "vectors"
    )
    content = path.read_bytes()
    path.write_bytes(content[:-20] + b"X" + content[-19:])
    async with opened(root) as provider:
        await provider.append([*statements(PLACES[3], ["two"]), *statements(PLACES[0], ["three"])])
    async with opened(root) as provider:
        assert len(await provider.entries(PLACES[3])) == 1
        assert len(await provider.entries(PLACES[0])) == 2
        assert await provider.verify() == 4
