"""A wrong key, a missing key, and a store of another kind are distinguished, and the store is never changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from factmem import FactMemError, errors, open_provider
from factmem.crypto import SecretKey
from factmem.crypto.keys import Keyring, KeySource
from factmem.errors import DowngradedStoreError, StoreUnavailableError
from factmem.testing import HashEmbedder
from tests.providers.encrypted.answers import LOOKS
from tests.providers.encrypted.worlds import DIMENSION, KEY, PLACES, Files, framed, frames_of, opened, statements
from tests.tables import each_case

pytestmark = [pytest.mark.usefixtures("without_flushes"), pytest.mark.timeout(3_600)]

TEXT = KEY.to_text()


@pytest.fixture
def root(sound_root: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound_root, tmp_path / "facts"))


async def refused(root: Path, key: Keyring | KeySource, error: type[FactMemError], paths: list[str]) -> None:
    """Read by some paths and save with a key; each is refused, and nothing in the folder changes."""
    before = Files.of(root).content
    for path in paths:
        async with opened(root, key) as provider:
            with pytest.raises(error) as caught:
                await LOOKS[path](provider)
            assert TEXT not in str(caught.value)
    async with opened(root, key) as provider:
        for write in (
            lambda: provider.append(statements(PLACES[0], ["more"])[:1]),
            lambda: provider.erase([], tenant=None),
            lambda: provider.rotate(SecretKey.generate()),
        ):
            with pytest.raises(error):
                await write()
    assert Files.of(root).content == before


def put(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.__setitem__(name, value)


@each_case("name", "value", "error")
async def test_a_changed_marker_is_a_typed_error(root: Path, name: str, value: object, error: str) -> None:
    marker = root / "factmem.json"
    document = json.loads(marker.read_bytes())
    document[name] = value
    marker.write_text(json.dumps(document))
    await refused(root, KEY, getattr(errors, error), ["version", "entries 0", "facade None"])


@each_case("name", "value", "error")
async def test_another_construction_is_a_typed_error(root: Path, name: str, value: object, error: str) -> None:
    keys = root / "store.keys"
    header, first, *rest = frames_of(keys.read_bytes())
    document = json.loads(first)
    document[name] = value
    keys.write_bytes(b"".join(map(framed, (header, json.dumps(document).encode(), *rest))))
    await refused(root, KEY, getattr(errors, error), ["version", "entries 0", "facade None"])


async def test_a_plain_store_is_never_taken_for_an_encrypted_one_nor_the_other_way_round(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTMEM_TEST_KEY", TEXT)
    plain = tmp_path / "plain"
    async with at(f"file:{plain}") as provider:
        await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
        await provider.append(statements(PLACES[0], ["one"]))
    for address, error in (
        (f"encrypted:{plain}?key_env=FACTMEM_TEST_KEY", DowngradedStoreError),
        (f"file:{root}", StoreUnavailableError),
    ):
        folder = plain if str(plain) in address else root
        before = Files.of(folder).content
        async with at(address) as provider:
            with pytest.raises(error):
                await provider.version(None)
            with pytest.raises(error):
                await provider.entries(PLACES[0])
            with pytest.raises(error):
                await provider.append(statements(PLACES[0], ["two"]))
        assert Files.of(folder).content == before
    async with at(f"encrypted:{root}?key_env=FACTMEM_TEST_KEY") as provider:
        assert await provider.entries(PLACES[0])


def at(address: str) -> Any:
    """Return the provider at an address, with all its capabilities."""
    return open_provider(address)
