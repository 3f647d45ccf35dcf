"""A small store with every kind of content, and the files of a store as an attacker sees them."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
from factmem_encrypted import EncryptedMemoryProvider
from factmem_encrypted.manifest import Listing
from numpy.typing import NDArray

from factmem import Concept, FactDetails, Memory, MemoryScope, MemorySubject
from factmem.abc.capabilities import Append
from factmem.crypto import SecretKey
from factmem.crypto.keys import Keyring, KeySource
from factmem.details import Evidence
from factmem.records import FactRecord, Place, assertions_of
from factmem.testing import FakeClock, HashEmbedder

KEY: Final = SecretKey(bytes(range(32)))
NOON: Final = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
LIKES: Final = Concept.multiple("beverages", "What somebody quaffs")
DIMENSION: Final = 16
USER: Final = MemorySubject("user")
PLACES: Final = (
    Place(USER, MemoryScope.agent("planner")),
    Place(USER.individual("marguerite"), MemoryScope.agent("planner")),
    Place(USER, MemoryScope.product("zeppelin").within("acme")),
    Place(MemorySubject("gearbox"), MemoryScope.product("zeppelin").within("acme")),
)


def opened(root: Path, key: Keyring | KeySource = KEY, **options: str) -> EncryptedMemoryProvider:
    """A provider of a store, with a clock of its own."""
    return EncryptedMemoryProvider(root, key, clock=FakeClock(NOON), **options)


def vector_of(text: str) -> NDArray[np.float32]:
    """Return a vector that depends on the text only."""
    return np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIMENSION).astype(np.float32)


def statements(place: Place, values: Sequence[str]) -> list[Append]:
    """Return statements with vectors, as the facade passes them."""
    assertions = assertions_of(LIKES.fact(values, timestamp=NOON), place)
    return [
        Append(assertion=assertion, vector=vector_of(value))
        for value, assertion in zip(values, assertions, strict=True)
    ]


async def save(root: Path, value: str, place: Place = PLACES[0], key: Keyring | KeySource = KEY) -> None:
    """Save one value with a newly opened provider."""
    async with opened(root, key) as provider:
        await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
        await provider.append(statements(place, [value]))


async def fill(root: Path) -> None:
    """Save for two tenants, two scopes, three subjects and an owner: evidence, vectors, a new state, an erasure."""
    async for _ in filling(root):
        pass


async def filling(root: Path) -> AsyncIterator[None]:
    """Run `fill`, yielding after each step."""
    async with opened(root) as provider:
        for number, place in enumerate(PLACES):
            memory = remembering(provider, place.scope.tenant)
            for value in (f"tisane {number}", f"mead {number}"):
                evidence = Evidence(quote=f"I said {value}", role="user", conversation_id="conv-sesame", position=0)
                details = FactDetails(evidence=(evidence,), categories=("thirst",), importance=0.7)
                await save_fact(memory, value, place, details)
                yield
        private = remembering(provider, None).view(viewer="alice")
        (record,) = await save_fact(private, "absinthe", PLACES[0], FactDetails(owner="alice"))
        yield
        await private.retract(record.id)
        yield
        acme = remembering(provider, "acme")
        (record,) = await save_fact(acme, "poison", PLACES[2])
        yield
        await acme.forget(record.id)
        yield
        await save_fact(acme, "oil", PLACES[3])
        yield


def remembering(provider: EncryptedMemoryProvider, tenant: str | None) -> Memory:
    """Open the facade over a provider."""
    return Memory(provider, organization=tenant, embedder=HashEmbedder(DIMENSION), clock=FakeClock(NOON))


async def save_fact(
    memory: Memory, value: str, place: Place, details: FactDetails | None = None
) -> Sequence[FactRecord[Any]]:
    """Save a value through the facade."""
    fact = LIKES.fact([value], timestamp=NOON)
    return await memory.save(fact, subject=place.subject, scope=place.scope.within(None), details=details)


async def listing_of(root: Path, key: Keyring | KeySource = KEY) -> Listing:
    """Return the manifest's listing, which maps files to logs; for tests, which have the key."""
    async with opened(root, key) as provider:
        storage = provider._sealed
        return storage._manifest.listing(storage._keys.roots())


def framed(payload: bytes) -> bytes:
    """Return a frame with its checksum."""
    return b"%08x %b\n" % (zlib.crc32(payload), payload)


def frames_of(content: bytes) -> list[bytes]:
    """Return the payloads of a file's frames, starting with its header."""
    return [line[9:] for line in content.splitlines()]


@attrs.frozen
class Files:
    """The files of a store, to inspect and to restore.

    Attributes:
        root: folder of the store.
        content: contents by path.
    """

    root: Path
    content: dict[Path, bytes]

    @classmethod
    def of(cls, root: Path) -> Files:
        """Read the files of a store."""
        found = {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != ".lock"}
        return cls(root, found)

    @property
    def lasting(self) -> dict[Path, bytes]:
        """Return the files that a refused call must not change: all but the sequence note, which may be rewritten."""
        return {path: content for path, content in self.content.items() if path.name != "sequence.note"}

    def put_back(self) -> None:
        """Restore the folder to these contents."""
        now = Files.of(self.root).content
        for path in now.keys() - self.content.keys():
            path.unlink()
        for path, content in self.content.items():
            if now.get(path) != content:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
