"""Everything that can be read from a store, by every path, each in a newly opened provider."""

from __future__ import annotations

import enum
import functools
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
from factmem_encrypted import EncryptedMemoryProvider

from factmem.errors import CorruptStoreError, NewerVersionError, StoreUnavailableError, WrongKeyError
from factmem.records import Place
from factmem.testing import HashEmbedder
from tests.providers.encrypted.worlds import DIMENSION, LIKES, PLACES, Files, opened, remembering, statements

Answers: TypeAlias = Mapping[str, Any]
Look: TypeAlias = Callable[[EncryptedMemoryProvider], Awaitable[Any]]
REFUSALS: Final = (CorruptStoreError, WrongKeyError, NewerVersionError, StoreUnavailableError)


class Verdict(enum.Enum):
    """Outcome of an attack on a store, as observed on one read or write path."""

    REFUSED = "a typed error"
    HARMLESS = "the very same facts"
    ACCEPTED = "other facts, or some missing, without an error"


def _looks() -> dict[str, Look]:
    looks: dict[str, Look] = {
        "version": functools.partial(EncryptedMemoryProvider.version, tenant=None),
        "verify": EncryptedMemoryProvider.verify,
        "embedder": EncryptedMemoryProvider.embedder,
    }
    for number, place in enumerate(PLACES):
        subject, scope = place.subject, place.scope
        looks[f"entries {number}"] = functools.partial(EncryptedMemoryProvider.entries, place=place)
        looks[f"load {number}"] = functools.partial(_load, place=place)
        looks[f"load_all {number}"] = functools.partial(EncryptedMemoryProvider.load_all, subject=subject, scope=scope)
        looks[f"by description {number}"] = functools.partial(_described, place=place)
    for tenant in (None, "acme"):
        looks[f"changes {tenant}"] = functools.partial(EncryptedMemoryProvider.changes, tenant=tenant)
        looks[f"vectors {tenant}"] = functools.partial(_vectors, tenant=tenant)
        looks[f"facade {tenant}"] = functools.partial(_facade, tenant=tenant)
    return looks


async def _load(provider: EncryptedMemoryProvider, place: Place) -> Any:
    return await provider.load(LIKES, place.subject, place.scope)


async def _described(provider: EncryptedMemoryProvider, place: Place) -> Any:
    return await provider.load_by_description("quaffs", place.subject, place.scope)


async def _vectors(provider: EncryptedMemoryProvider, tenant: str | None) -> list[tuple[int, bytes]]:
    seqs, rows = await provider.vectors(tenant)
    return [(seq, row.tobytes()) for seq, row in zip(seqs, rows, strict=True)]


async def _facade(provider: EncryptedMemoryProvider, tenant: str | None) -> Any:
    memory = remembering(provider, tenant).view(viewer="alice")
    matches = await memory.recall("tisane", limit=20)
    return matches, await memory.list_records(), await memory.admin.info(), list((await memory.admin.info()).categories)


LOOKS: Final = _looks()
REMADE: Final = tuple(path for path in LOOKS if path.startswith(("embedder", "vectors")))
"""Answers that may be missing, because they are derived from the facts."""


async def answers_of(root: Path) -> Answers:
    """Return the answers of all read paths for an intact store."""
    return {path: await _asked(root, look) for path, look in LOOKS.items()}


async def _asked(root: Path, look: Look) -> Any:
    async with opened(root, lock_timeout="60") as provider:
        return await look(provider)


async def judged(root: Path, sound: Answers, paths: Sequence[str] = tuple(LOOKS)) -> dict[str, Verdict]:
    """Return the verdict of each path on an attacked store; assert that a refused path leaves the store unchanged."""
    verdicts = {}
    for path in paths:
        before = Files.of(root).lasting
        verdicts[path] = await _judged(root, path, sound[path])
        refused = verdicts[path] is Verdict.REFUSED
        assert not refused or Files.of(root).lasting == before, f"{path} was refused and changed the store"
    return verdicts


async def _judged(root: Path, path: str, expected: Any) -> Verdict:
    try:
        found = await _asked(root, LOOKS[path])
    except REFUSALS:
        return Verdict.REFUSED
    same = found == expected or (path in REMADE and _part_of(found, expected))
    return Verdict.HARMLESS if same else Verdict.ACCEPTED


def _part_of(found: Any, expected: Any) -> bool:
    return found is None or (isinstance(found, list) and set(found) <= set(expected))


async def judged_save(root: Path, sound: Answers, number: int) -> Verdict:
    """Save at one place of an attacked store; return REFUSED, HARMLESS, or ACCEPTED if existing entries are missing."""
    identity = await HashEmbedder(DIMENSION).identity()
    bound = await _refused(root, lambda provider: provider.use_embedder(identity))
    if bound or await _refused(root, lambda provider: provider.append(statements(PLACES[number], ["a new drink"]))):
        return Verdict.REFUSED
    for other in range(len(PLACES)):
        found = await _entries(root, other)
        if found is not None and found[: len(sound[f"entries {other}"])] != list(sound[f"entries {other}"]):
            return Verdict.ACCEPTED
    return Verdict.HARMLESS


async def _refused(root: Path, write: Look) -> bool:
    before = Files.of(root).lasting
    try:
        await _asked(root, write)
    except REFUSALS:
        assert Files.of(root).lasting == before, "a refused call changed the store"
        return True
    return False


async def _entries(root: Path, number: int) -> list[Any] | None:
    try:
        return list(await _asked(root, LOOKS[f"entries {number}"]))
    except REFUSALS:
        return None


@attrs.frozen
class Attacks:
    """Successive attacks on one store, each on its intact state.

    Attributes:
        root: folder of the store.
        sound: answers of the intact store.
        counts: number of reads and saves with each verdict.
    """

    root: Path
    sound: Answers
    counts: dict[Verdict, int] = attrs.field(factory=lambda: dict.fromkeys(Verdict, 0))

    def verify(self, path: Path, content: bytes) -> Verdict:
        """Change one file, verify the store, and restore the file."""
        before = path.read_bytes()
        path.write_bytes(content)
        try:
            count = opened(self.root, lock_timeout="60")._scanned()
            verdict = Verdict.HARMLESS if count == self.sound["verify"] else Verdict.ACCEPTED
        except REFUSALS:
            verdict = Verdict.REFUSED
        assert path.read_bytes() == content, "a refused call changed the file"
        path.write_bytes(before)
        assert verdict is not Verdict.ACCEPTED
        self.counts[verdict] += 1
        return verdict

    async def judge(
        self, changes: Mapping[Path, bytes | None], random: random.Random, *, paths: int | None = 2
    ) -> Verdict:
        """Change some files (None removes one), read, save, and restore them; return the verdict of `verify`.

        Reads go by `verify` and a number of other paths; by all of them, if None.

        On every path, no other facts may be accepted, and a refusal may change nothing.
        """
        files = Files.of(self.root)
        for path, content in changes.items():
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
        verdicts = await judged(
            self.root, self.sound, ["verify", *random.sample(sorted(LOOKS), len(LOOKS) if paths is None else paths)]
        )
        verdicts["save"] = await judged_save(self.root, self.sound, random.randrange(len(PLACES)))
        files.put_back()
        accepted = [path for path, verdict in verdicts.items() if verdict is Verdict.ACCEPTED]
        assert not accepted, f"{accepted} accepted a change of {[path.name for path in changes]}"
        for verdict in verdicts.values():
            self.counts[verdict] += 1
        return verdicts["verify"]
