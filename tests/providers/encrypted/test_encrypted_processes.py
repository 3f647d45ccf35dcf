"""Several providers on one encrypted store: failures in the middle, stale copies and leftovers."""

from __future__ import annotations

from pathlib import Path

import pytest
from factmem_file.log_storage import LocalLogStorage

from factmem.abc.log_storage import LogName, Position
from factmem.crypto import SecretKey
from factmem.crypto.keys import Keyring
from factmem.errors import FactMemError, StoreUnavailableError
from factmem.testing import HashEmbedder
from tests.providers.encrypted.worlds import DIMENSION, KEY, LIKES, PLACES, Files, listing_of, opened, save, statements

pytestmark = pytest.mark.timeout(20_000)


async def values_at(root: Path, number: int) -> list[str]:
    """Return the values saved at a place, as read by a newly opened store."""
    place = PLACES[number]
    async with opened(root) as provider:
        fact = await provider.load(LIKES, place.subject, place.scope)
        return list(fact.values) if fact else []


async def test_a_failure_at_one_of_several_places_writes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "facts"
    for place in PLACES:
        await save(root, "one", place)
    hit = (await listing_of(root)).logs
    failing = next(listed.file for log, listed in hit.items() if log.kind == "facts" and "gearbox" in log.name)
    append = LocalLogStorage.append

    def fail(self: LocalLogStorage, log: LogName, payload: bytes, after: Position, *, durable: bool = True) -> None:
        if failing in log.name:
            raise StoreUnavailableError("the disk is full")
        append(self, log, payload, after, durable=durable)

    everywhere = [statement for place in PLACES for statement in statements(place, ["two"])]
    with monkeypatch.context() as patch:
        patch.setattr(LocalLogStorage, "append", fail)
        async with opened(root) as provider:
            with pytest.raises(StoreUnavailableError):
                await provider.append(everywhere)
            await provider.append(statements(PLACES[0], ["three"]))
    assert [await values_at(root, number) for number in range(4)] == [["one", "three"], ["one"], ["one"], ["one"]]
    async with opened(root) as provider:
        await provider.append(everywhere)
        assert len(await provider.changes("acme")) == 4


async def test_two_providers_with_stale_copies_agree(tmp_path: Path) -> None:
    """Each in turn saves, erases and rotates after the other has read everything."""
    root = tmp_path / "facts"
    both = Keyring({"default": KEY, "next": SecretKey.generate()}, "default")
    async with opened(root, both) as one, opened(root, both) as other:
        await one.use_embedder(await HashEmbedder(DIMENSION).identity())
        for turn, (writer, reader) in enumerate([(one, other), (other, one)] * 4):
            for place in PLACES:
                await writer.append(statements(place, [f"turn {turn}"]))
            entries = await reader.entries(PLACES[1])
            assert len(entries) == turn + 1 - turn // 2
            if turn % 2:
                await reader.erase([], assertion_ids=[entries[0].id], tenant=None)  # type: ignore[union-attr]
                assert len(await writer.entries(PLACES[1])) == len(entries) - 1
            if turn % 4 == 3:
                await writer.rotate(Keyring(dict(both.sources), ["next", "default"][turn // 4]))
            assert await one.version(None) == await other.version(None)
            assert await one.changes("acme") == await other.changes("acme")
            assert len((await other.vectors(None))[0]) == len((await one.vectors(None))[0])


async def test_leftovers_never_count_and_are_removed_once(tmp_path: Path) -> None:
    """Leftovers are frames after the valid ones, unlisted files and partial replacements; foreign files stay."""
    root = tmp_path / "facts"
    await save(root, "one")
    sound = await values_at(root, 0)
    path = next(path for path in Files.of(root).content if path.suffix == ".sealed")
    left = [root / "ab" / f"{'ab' * 16}.sealed.tmp", path.with_name(f"{path.name}.tmp"), root / "store.keys.tmp"]
    for number, leftover in enumerate(left):
        leftover.parent.mkdir(exist_ok=True)
        leftover.write_bytes(path.read_bytes()[: 50 * number])
    foreign = root / "ab" / "a b.sealed"
    foreign.write_bytes(b"")
    assert await values_at(root, 0) == sound
    await save(root, "two")
    assert await values_at(root, 0) == [*sound, "two"]
    assert not [leftover for leftover in left if leftover in Files.of(root).content]
    assert foreign in Files.of(root).content


async def test_a_planted_file_with_a_strange_name_is_no_untyped_error(tmp_path: Path) -> None:
    root = tmp_path / "facts"
    await save(root, "one")
    strange = LogName(folder=("ab",), name=("ab", "cd"), kind="sealed")
    other = LocalLogStorage(tmp_path / "other", form="factmem-encrypted")
    with other.lock(1):
        other.append(strange, b"0 99 AAAA", Position())
    planted = next(path for path in Files.of(tmp_path / "other").content if path.suffix == ".sealed")
    (root / "ab").mkdir(exist_ok=True)
    (root / "ab" / planted.name).write_bytes(planted.read_bytes())
    try:
        await save(root, "two")
    except FactMemError:
        return
    assert await values_at(root, 0) == ["one", "two"]
