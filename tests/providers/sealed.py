"""A small encrypted store with unmistakable words, its answers, and its files: a database if it ends in ``.db``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
from factmem_encrypted import EncryptedMemoryProvider
from factmem_encrypted_sqlite import EncryptedSqliteMemoryProvider

from factmem.abc.capabilities import Append, EmbedderIdentity, KeepsLog
from factmem.crypto import SecretKey
from factmem.crypto.keys import Keyring, KeySource
from factmem.details import Evidence, FactDetails
from factmem.errors import FactMemError
from factmem.facts import Concept
from factmem.records import Place, Recorded, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.vectors import unit_vector

KEY: Final = SecretKey(bytes(range(32)))
LIKES: Final = Concept.multiple("xylobeverages", "What somebody quaffsalot")
NOON: Final = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
EMBEDDER: Final = EmbedderIdentity(name="zanzibedder", dimension=8)
USER: Final = MemorySubject("quokkauser")
PLACES: Final = (
    Place(USER, MemoryScope.agent("marmaladeplanner")),
    Place(USER.individual("margueritix"), MemoryScope.agent("marmaladeplanner")),
    Place(USER, MemoryScope.product("zeppelinware").within("acmetenant")),
)
WORDS: Final = ("absinthium", "Flüssigkeitszufuhr", "日本語の飲み物")
Answers: TypeAlias = Sequence[Any]


def opened(path: Path, key: Keyring | KeySource = KEY, **options: Any) -> EncryptedSqliteMemoryProvider:
    """Return a provider of a database."""
    return EncryptedSqliteMemoryProvider(path, key, **options)


def opened_sealed(
    path: Path, key: Keyring | KeySource = KEY, *, wait: float = 30
) -> EncryptedMemoryProvider | EncryptedSqliteMemoryProvider:
    """Return a provider of a database or of a folder.

    Args:
        path: Path of the store.
        key: Its key.
        wait: Longest wait for other processes, in seconds.
    """
    if path.suffix == ".db":
        return EncryptedSqliteMemoryProvider(path, key, busy_timeout=wait)
    return EncryptedMemoryProvider(path, key, lock_timeout=wait)


def _vector(number: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return a vector of length 1, so that it is stored bit for bit."""
    vector = np.random.default_rng(number).standard_normal(EMBEDDER.dimension).astype(np.float32)
    return unit_vector(unit_vector(vector))


def statement(number: int) -> Append:
    """Return a numbered fact in one of the places, with evidence, a category, maybe an owner, and a vector."""
    value = f"{WORDS[number % len(WORDS)]} {number}"
    details = FactDetails(
        owner="aliceowner" if number % 5 == 4 else None,
        categories=("thirstcategory",),
        evidence=(Evidence(quote=f"I said {value}", role="user", conversation_id="sesameconversation", position=0),),
    )
    fact = LIKES.fact([value], timestamp=NOON + dt.timedelta(seconds=number))
    (assertion,) = assertions_of(fact, PLACES[number % len(PLACES)], details)
    return Append(assertion=assertion, vector=_vector(number))


async def append(provider: KeepsLog, numbers: Iterable[int]) -> None:
    """Append numbered facts, in one transaction."""
    await provider.use_embedder(EMBEDDER)
    await provider.append([statement(number) for number in numbers])


async def fill(path: Path, count: int = 60) -> None:
    """Make a store of numbered facts, and close it."""
    async with opened_sealed(path) as provider:
        await append(provider, range(count))


async def numbers_in(path: Path, key: Keyring | KeySource = KEY) -> set[int]:
    """Return the numbers of the facts in a store, after checking that each is stored once, with its vector."""
    async with opened_sealed(path, key) as provider:
        entries = [entry for tenant in (None, "acmetenant") for entry in await provider.changes(tenant)]
        seqs = [seq for tenant in (None, "acmetenant") for seq in (await provider.vectors(tenant))[0]]
        await provider.verify()
    numbers = [int(entry.assertion.data.split()[-1]) for entry in entries if isinstance(entry, Recorded)]
    assert len(numbers) == len(set(numbers)) == len(seqs)
    return set(numbers)


async def answers_of(path: Path, key: Keyring | KeySource = KEY) -> Answers:
    """Return the answers of every read path of the provider."""
    async with opened(path, key, busy_timeout=0.2) as provider:
        result: list[Any] = [await provider.verify(), await provider.version(None), await provider.embedder()]
        for place in PLACES:
            result.append(await provider.entries(place))
            result.append(await provider.load_all(place.subject, place.scope))
        for tenant in (None, "acmetenant"):
            seqs, vectors = await provider.vectors(tenant)
            result.append((list(seqs), vectors.tobytes()))
            result.append(await provider.changes(tenant))
        return result


def files_of(path: Path) -> dict[str, bytes]:
    """Return the files of a store, to compare."""
    files = [file for file in path.parent.rglob("*") if file.is_file() and not file.name.endswith(".lock")]
    return {file.relative_to(path.parent).as_posix(): file.read_bytes() for file in files}


def secrets(count: int) -> list[bytes]:
    """Return all byte strings that must not be on the disk: words as UTF-8 and UTF-16, vectors in whole and in part."""
    words = [*WORDS, *(word.lower() for word in WORDS), "zanzibedder", "quokkauser", "marmaladeplanner", "margueritix"]
    words += ["zeppelinware", "acmetenant", "xylobeverages", "quaffsalot", "aliceowner", "thirstcategory", "sesameconv"]
    words += ["SQLite format", "CREATE TABLE", "assertions"]
    found = [word.encode(code) for word in words for code in ("utf-8", "utf-16-le")]
    for number in range(count):
        found += [_vector(number).tobytes()[start : start + 8] for start in range(0, 32, 8)]
    return found


async def refused(path: Path, key: Keyring | KeySource, error: type[FactMemError]) -> None:
    """Check that every call is refused, the same way twice, with the files unchanged and no key in the message."""
    before = files_of(path)
    async with opened_sealed(path, key, wait=0.2) as provider:
        for call in (
            lambda: provider.changes(None),
            lambda: provider.load_all(PLACES[0].subject, PLACES[0].scope),
            lambda: provider.vectors(None),
            lambda: provider.verify(),
            lambda: append(provider, [999]),
            lambda: provider.erase([], tenant=None),
            lambda: provider.rotate(SecretKey.generate()),
            lambda: append(provider, [998]),
        ):
            with pytest.raises(error) as caught:
                await call()
            assert KEY.secret.hex() not in str(caught.value)
            assert KEY.to_text() not in str(caught.value)
    assert files_of(path) == before
