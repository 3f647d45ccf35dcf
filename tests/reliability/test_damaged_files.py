"""Flipped bits and cut files: a typed error or the same answers, never other ones, and no save that hides the damage.

`check` finds whatever changes an answer. The result of a crash is not damage: a log may end early, as if the missing
entries had never been written, if its provider cannot distinguish the two.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from factmem.errors import FactMemError
from factmem.store_findings import Finding, FindingKind, Severity
from tests.conftest import Promise
from tests.reliability.contents import WAS_REFUSED, Answers, answers, fill, save_more, wrong
from tests.reliability.stores import DurableStore, durable_stores

pytestmark = [pytest.mark.timeout(7200), pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@attrs.frozen
class Victim:
    """A small store with every kind of content, to be copied and damaged.

    Attributes:
        store: its provider.
        folder: folder with all of its files.
        truth: its answers.
    """

    store: DurableStore
    folder: Path
    truth: Answers

    def files(self) -> list[Path]:
        """Return the files of the store, without those that only a running process needs."""
        found = [path for path in sorted(self.folder.rglob("*")) if path.is_file() and path.stat().st_size]
        return [path.relative_to(self.folder) for path in found if not path.name.endswith("-shm")]

    def damaged(self, file: Path, content: bytes) -> Path:
        """Make a copy of the store in which a file has another content."""
        copy = self.folder.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder, copy, ignore=shutil.ignore_patterns("*-shm"))
        (copy / file).write_bytes(content)
        return copy

    async def ask(self, folder: Path) -> Answers:
        """Ask a copy every question."""
        async with self.store.open(folder / "store") as provider:
            return await answers(provider)


async def victim(store: DurableStore, folder: Path) -> Victim:
    home = folder / "original"
    home.mkdir()
    async with store.open(home / "store") as provider:
        await fill(provider)
    async with store.open(home / "store") as provider:
        return Victim(store, home, await answers(provider))


async def findings(store: DurableStore, folder: Path) -> list[Finding]:
    """Return the errors and warnings of a store; a store that does not open has one of its own."""
    async with store.open(folder / "store") as provider:
        try:
            found = await provider.check()
        except FactMemError as error:
            return [Finding(kind=FindingKind.DAMAGED, part="store", problem=type(error).__name__, advice="")]
    assert all(finding.problem and finding.part for finding in found)
    return [finding for finding in found if finding.severity is not Severity.NOTE]


async def save_on_top(victim: Victim, folder: Path, file: Path, content: bytes) -> Counter[str]:
    """Save to a damaged store, and check that the damage is still detected."""
    async with victim.store.open(folder / "store") as provider:
        before = await answers(provider)
        taken = await save_more(provider)
        after = await answers(provider)
    refused = [question for question in before if before[question] == WAS_REFUSED]
    assert [question for question in refused if after[question] != WAS_REFUSED] == []
    if refused and not taken:
        assert (folder / file).read_bytes() == content
    return Counter(saves_refused=not taken, saves_taken=bool(taken))


def flips(victim: Victim, count: int) -> Iterator[tuple[Path, int, bytes]]:
    """Yield files with one bit flipped: at every offset, or at a number of them."""
    offsets = [(file, offset) for file in victim.files() for offset in range((victim.folder / file).stat().st_size)]
    chance = random.Random(18)
    for file, offset in offsets if count == 0 else chance.sample(offsets, count):
        content = bytearray((victim.folder / file).read_bytes())
        content[offset] ^= 1 << chance.randrange(8)
        yield file, offset, bytes(content)


def cuts(victim: Victim, count: int) -> Iterator[tuple[Path, int, bytes]]:
    """Yield truncated files: at every offset, or at a number of them."""
    lengths = [(file, length) for file in victim.files() for length in range((victim.folder / file).stat().st_size)]
    for file, length in lengths if count == 0 else random.Random(19).sample(lengths, count):
        yield file, length, (victim.folder / file).read_bytes()[:length]


@durable_stores
async def test_a_flipped_bit_is_an_error_or_changes_no_answer(
    store: DurableStore, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """The bit may be anywhere in any file, and a later save does not hide the damage."""
    original = await victim(store, tmp_path)
    outcomes: Counter[str] = Counter()
    for file, offset, content in flips(original, 0 if big else 8):
        folder = original.damaged(file, content)
        found = await original.ask(folder)
        assert await wrong(found, original.truth) == [], (str(file), offset)
        assert found == original.truth or await findings(store, folder), (str(file), offset)
        noticed = WAS_REFUSED in found.values()
        outcomes.update(bits=1, noticed=noticed)
        if noticed:
            outcomes.update(await save_on_top(original, original.damaged(file, content), file, content))
    harmless = outcomes["bits"] - outcomes["noticed"]
    figure = f"{outcomes['bits']:,} bits: {outcomes['noticed']:,} typed errors, {harmless:,} without effect, 0 accepted"
    promise(f"flipped bits, {store}", figure)


@durable_stores
async def test_a_file_cut_off_is_an_error_or_a_log_that_ends_early(
    store: DurableStore, tmp_path: Path, big: bool, promise: Promise
) -> None:
    """The cut may be at any length of any file."""
    original = await victim(store, tmp_path)
    outcomes: Counter[str] = Counter()
    for file, length, content in cuts(original, 0 if big else 8):
        folder = original.damaged(file, content)
        found = await original.ask(folder)
        assert await wrong(found, original.truth, early=True) == [], (str(file), length)
        if found != original.truth and not await findings(store, folder):
            # It resembles a crash: a log of plain lines, or the write-ahead log of SQLite, ends early.
            assert store.name == "file" or file.name.endswith("-wal"), (str(file), length)
        outcomes.update(cuts=1, noticed=WAS_REFUSED in found.values(), same=found == original.truth)
    early = outcomes["cuts"] - outcomes["noticed"] - outcomes["same"]
    figure = f"{outcomes['cuts']:,} cuts: {outcomes['noticed']:,} typed errors, {outcomes['same']:,} without effect"
    promise(f"cut files, {store}", f"{figure}, {early:,} logs that end early, 0 other answers")
